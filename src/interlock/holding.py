"""Holding a lane for the length of a command: like flock(1), on whatever store there is.

The holder is an item on the lane, of type `hold`. It arrives, waits its turn, is claimed by this process and
no other (its label is known to nobody else), is renewed while the command runs, and ends with it. What it is
told meanwhile is not lost: the command runs again for messages that it has not seen.

Promised: the command runs only under the lease. If the lease cannot be renewed, the command is ended before
the lease is over, also while this process is stopped. A holder or a waiter that dies gives the lane away: the
one with its lease, the other with its time to be claimed.
Not promised: that a command which was ended has undone what it did.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from interlock.agent import Agent, Ending, check_command, now_s
from interlock.contract import (
    HolderView,
    LaneService,
    MessageView,
    Report,
    RunView,
    to_json,
)
from interlock.core.errors import CommandUnusable, Held, InterlockError, ItemEnded, LeaseLost
from interlock.core.model import NewItem, Policy, Reason
from interlock.core.names import (
    LEASE_MIN_S,
    PAYLOAD_MAX_BYTES,
    TIMEOUT_MAX_S,
    WAIT_MAX_S,
    check_number,
    safe_name,
)
from interlock.handover import Signals
from interlock.heartbeat import Heartbeat
from interlock.tenancy import Tenancy

TYPE = "hold"
#: Exit code of a command that was ended because its time was up, as timeout(1) has it.
TIMED_OUT = 124
#: A waiter that does not take the lane within so many leases, and at least so many seconds, is dead.
CLAIM_WITHIN_LEASES, CLAIM_WITHIN_MIN_S = 2, 3.0
#: A claim that was waited for tells little about when its lease began.
CLAIM_AT_ONCE_S = 0.25
#: How long the end of a command is told to a store that does not answer. Its lease ends by itself.
REPORT_S, REPORT_AGAIN_S = 10.0, 0.5
#: Ends of an item after which a waiter takes a new place in the line: it was taken for dead.
_LATE = (Reason.UNCLAIMED, Reason.ATTEMPTS_EXHAUSTED)


class IfHeld(StrEnum):
    """What to do when the lane is taken."""

    WAIT = "wait"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What is asked for."""

    lane: str
    command: Sequence[str]
    agent: str
    #: The store, as the command will find it in INTERLOCK_URL.
    url: str
    if_held: IfHeld = IfHeld.WAIT
    #: The longest to wait; None: for ever.
    wait_s: float | None = None
    #: None: as the store's settings say.
    lease_s: float | None = None
    default_lease_s: float
    timeout_s: float | None = None
    message: str | None = None
    author: str = ""
    #: How often at most the store is asked whether the lane is still ours.
    beat_s: float

    @property
    def span_s(self) -> float:
        return self.default_lease_s if self.lease_s is None else self.lease_s


def check(wish: Hold, environ: Mapping[str, str]) -> None:
    """Raise before anything is stored if it cannot work: a bad span, no such command, a wait for oneself."""
    if wish.timeout_s is not None:
        check_number("timeout", wish.timeout_s, LEASE_MIN_S, TIMEOUT_MAX_S)
    if wish.wait_s is not None:
        check_number("wait", wish.wait_s, 0, TIMEOUT_MAX_S)
    check_command(wish.command, here=True)
    mine = environ.get("INTERLOCK_LANE"), environ.get("INTERLOCK_URL")
    if wish.if_held is IfHeld.WAIT and mine == (wish.lane, wish.url):
        raise Held(
            f"This command runs under lane {wish.lane} already, and would wait for itself.",
            "Run it without interlock hold, or take another lane.",
        )


def hold(lanes: LaneService, wish: Hold, *, tell: Callable[[str], None]) -> int:
    """Take the lane, run the command, give the lane back; the command's exit code.

    `tell` gets a sentence for people where there is something to say. Raises `Held` where the lane is not to
    be had, and `LeaseLost` where it was lost while the command ran.
    """
    with _folder() as folder, Signals() as signals:
        return _Holder(lanes, wish, signals, tell, folder).run()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Where the command finds what it was told, and leaves its result."""
    try:
        made = TemporaryDirectory(prefix="interlock-hold-")
    except OSError as error:
        raise InterlockError(
            f"There is no room for the command's files: {error.strerror}.",
            "Free some space, or set TMPDIR to a directory that can be written.",
        ) from None
    with made as name:
        yield Path(name)


class _Holder:
    """One hold, from its arrival to its end."""

    def __init__(
        self, lanes: LaneService, wish: Hold, signals: Signals, tell: Callable[[str], None], folder: Path
    ) -> None:
        self._lanes = lanes
        self._wish = wish
        self._signals = signals
        self._tell = tell
        self._payload = folder / "payload.json"
        self._messages = folder / "messages.json"
        self._result = folder / "result.json"
        self._payload.write_text("{}")
        #: Nobody else claims what is ours, also not another process of the same agent.
        self._label = f"{TYPE}:{secrets.token_hex(8)}"
        #: What stands for us on the lane, waiting or running.
        self._item: int | None = None

    def run(self) -> int:
        """Hold the lane once, and again for what came in the last instant; the first exit code but 0."""
        try:
            return self._run()
        except (KeyboardInterrupt, OSError, Held, CommandUnusable):
            if self._item is not None:
                self._withdraw(self._item, "its holder was interrupted")
            raise

    def _run(self) -> int:
        self._item = self._arrive()
        give_up_s = None if self._wish.wait_s is None else now_s() + self._wish.wait_s
        code = 0
        while self._item is not None:
            try:
                tenancy, messages = self._claim(self._item, give_up_s)
            except ItemEnded as ended:
                if ended.reason not in _LATE:
                    raise
                self._item = self._arrive()  # we were stopped for so long that the lane went on without us
                continue
            code_now, self._item = self._work(tenancy, messages)
            code = code or code_now
            give_up_s = None  # what came in the meantime is owed to somebody
        return code

    # -- taking the lane --------------------------------------------------------------------------

    def _arrive(self) -> int | None:
        """The item that takes the lane or waits for it; none if there is nothing for us to do."""
        wish = self._wish
        while True:
            answer = self._lanes.add([self._new_item()])[0]
            if answer.arrival is not None:
                if answer.holder is not None and answer.decision == "queued":
                    self._tell(f"Waiting: {_held(wish.lane, answer.holder)}")
                return answer.arrival
            assert answer.holder is not None, "only a lane that somebody has is refused"
            if wish.if_held is IfHeld.FAIL:
                raise Held(_held(wish.lane, answer.holder), _what_to_type(wish.lane))
            if wish.message is None:
                self._tell(f"Skipped: {_held(wish.lane, answer.holder)}")
                return None
            with contextlib.suppress(ItemEnded):  # it ended in between: perhaps the lane is ours now
                told = self._lanes.msg(answer.holder.item, wish.message, author=wish.author)
                self._tell(f"Skipped: item {told.item.id} has the message. {_held(wish.lane, answer.holder)}")
                return None

    def _new_item(self) -> NewItem:
        wish = self._wish
        timeout_s = None
        if wish.timeout_s is not None:  # the store's is for the case that nobody ends the command here
            timeout_s = min(wish.timeout_s + wish.span_s, TIMEOUT_MAX_S)
        return NewItem(
            title=f"{TYPE}: {safe_name(Path(wish.command[0]).name)}",  # not its arguments: they may be secret
            type=TYPE,
            agent=wish.agent,
            lane=wish.lane,
            labels=(self._label,),
            policy=Policy.QUEUE if wish.if_held is IfHeld.WAIT else Policy.REJECT,
            message=wish.message,
            author=wish.author,
            lease_s=wish.lease_s,
            timeout_s=timeout_s,
            claim_within_s=max(CLAIM_WITHIN_LEASES * wish.span_s, CLAIM_WITHIN_MIN_S),
            max_attempts=1,
        )

    def _claim(self, item: int, give_up_s: float | None) -> tuple[Tenancy, Sequence[MessageView]]:
        """Wait until the item is ours; what it was told so far comes with it."""
        wish = self._wish
        worker = safe_name(f"{socket.gethostname()}.{os.getpid()}")
        wait_s = 0.0
        while True:
            sent_s = now_s()
            found = self._lanes.next(
                wish.agent,
                labels=(self._label,),
                item=item,
                wait_s=wait_s,
                lease_s=wish.lease_s,
                worker=worker,
            )
            if found:
                tenancy = Tenancy(found[0], sent_s, beat_s=wish.beat_s, timeout_s=wish.timeout_s)
                if now_s() - sent_s > CLAIM_AT_ONCE_S:
                    sent_s = now_s()
                    tenancy.renewed(self._lanes.renew([Report(run=tenancy.handle)])[0], sent_s)
                return tenancy, found[0].messages
            left_s = WAIT_MAX_S if give_up_s is None else give_up_s - now_s()
            if left_s <= 0:
                self._refuse()
            wait_s = min(left_s, WAIT_MAX_S)

    def _refuse(self) -> NoReturn:
        lane = self._wish.lane
        found = next((view for view in self._lanes.lanes(prefix=lane) if view.lane == lane), None)
        holder = found.holder if found is not None else None
        if holder is None:
            raise Held(f"Lane {lane} was not to be had in time.", "Try again.")
        raise Held(f"{_held(lane, holder)} It did not become free in time.", _what_to_type(lane))

    def _withdraw(self, item: int, why: str) -> None:
        """Give our place up at once; where that does not work, it is lost with its time to be claimed."""
        with contextlib.suppress(InterlockError):
            self._lanes.cancel(item, why=why, by=self._wish.author, force=True)

    # -- under the lease --------------------------------------------------------------------------

    def _work(self, tenancy: Tenancy, messages: Sequence[MessageView]) -> tuple[int, int | None]:
        """Run the command for all that the item was told; its exit code, and what to go on with."""
        heartbeat = Heartbeat(
            self._lanes,
            lambda: [] if tenancy.over or tenancy.lost else [tenancy],
            writing=threading.Lock(),
            trouble=lambda _: None,  # if it lasts, the end of trust says it
            crashed=lambda _: None,
        )
        heartbeat.start()
        try:
            ending, seen = self._run_for(tenancy, messages), _last(messages)
            while self._ended_well(tenancy, ending) and (more := self._unread(tenancy, seen)):
                ending, seen = self._run_for(tenancy, more), max(seen, _last(more))
        finally:
            tenancy.over = True
        if tenancy.lost is not None:
            raise LeaseLost(tenancy.lost.message, "The command was ended.")
        if ending.stopped_by == "trust" and not tenancy.timed_out:
            raise LeaseLost(
                f"The lease of run {tenancy.fence} on {self._wish.lane} could not be renewed in time.",
                "The command was ended before the lease was over. Look at the store: interlock doctor.",
            )
        heartbeat.stop()
        return self._report(tenancy, ending, seen)

    def _run_for(self, tenancy: Tenancy, messages: Sequence[MessageView]) -> Ending:
        if tenancy.lost is not None:
            raise LeaseLost(tenancy.lost.message, "The command was not started.")
        self._messages.write_text(json.dumps(to_json(messages), ensure_ascii=False))
        self._result.unlink(missing_ok=True)
        wish = self._wish
        environment = {
            **{name: value for name, value in os.environ.items() if name != "INTERLOCK_SALVAGE"},
            "INTERLOCK_URL": wish.url,
            "INTERLOCK_RUN": tenancy.handle,
            "INTERLOCK_FENCE": str(tenancy.fence),
            "INTERLOCK_ITEM": str(tenancy.item.id),
            "INTERLOCK_LANE": wish.lane,
            "INTERLOCK_AGENT": wish.agent,
            "INTERLOCK_PAYLOAD": str(self._payload),
            "INTERLOCK_MESSAGES": str(self._messages),
            "INTERLOCK_RESULT": str(self._result),
        }
        agent = Agent(foreground=True)
        try:
            with self._signals.handed_to(agent):
                agent.start(
                    wish.command, env=environment, ladder=tenancy.ladder, trust_until_s=tenancy.until_s
                )
                tenancy.watch(agent)
                return agent.follow()
        finally:
            tenancy.watch(None)
            agent.close()

    def _ended_well(self, tenancy: Tenancy, ending: Ending) -> bool:
        return ending.code == 0 and self._ended_itself(tenancy, ending)

    def _ended_itself(self, tenancy: Tenancy, ending: Ending) -> bool:
        """Whether nobody wanted it to end; then what it was told later is worth another run."""
        stopped = ending.stopped_by is not None or ending.code < 0 or self._signals.handed
        return not (stopped or tenancy.cancel_requested or tenancy.lost)

    def _unread(self, tenancy: Tenancy, seen: int) -> list[MessageView]:
        """Messages that came while the command ran. A store that is away will make a follow-up of them."""
        try:
            return self._lanes.inbox(tenancy.handle, seen=seen)
        except LeaseLost:
            raise
        except InterlockError:
            return []

    # -- the end ----------------------------------------------------------------------------------

    def _report(self, tenancy: Tenancy, ending: Ending, seen: int) -> tuple[int, int | None]:
        report = Report(run=tenancy.handle, seen=seen, result=self._read_result())
        end, code = self._lanes.done, ending.code if ending.code >= 0 else 128 - ending.code
        if tenancy.timed_out and ending.stopped_by is not None:
            code = TIMED_OUT
        if code and tenancy.cancel_requested:
            end = self._lanes.release
        elif code:
            end = self._lanes.fail
            report = report._replace(result=None, error=f"The command ended with {code}.", retry=False)
        view = self._told(end, report)
        if view is None:
            self._tell("The store does not answer; the lane is free when the lease is over.")
            return code, None
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, "Its lease was lost before the command had ended.")
        if view.follow_up is not None and not self._ended_itself(tenancy, ending):
            self._withdraw(view.follow_up, "its holder was ended before it read this")
            return code, None
        return code, view.follow_up

    def _read_result(self) -> str | None:
        """What the command left as its result, if it is JSON and not too large."""
        with contextlib.suppress(OSError, ValueError), self._result.open("rb") as file:
            data = file.read(PAYLOAD_MAX_BYTES + 1)
            if len(data) <= PAYLOAD_MAX_BYTES:
                json.loads(data)
                return data.decode()
        return None

    def _told(self, end: Callable[[Sequence[Report]], list[RunView]], report: Report) -> RunView | None:
        give_up_s = now_s() + REPORT_S
        while True:
            try:
                return end([report])[0]
            except InterlockError:
                if now_s() > give_up_s:
                    return None
                time.sleep(REPORT_AGAIN_S)


def _last(messages: Sequence[MessageView]) -> int:
    return max((message.n for message in messages), default=0)


def _held(lane: str, holder: HolderView) -> str:
    """Who has the lane, since when and until when."""
    who = f"{holder.agent} " if holder.agent else ""
    since = f"{holder.since.astimezone():%Y-%m-%d %H:%M:%S}"
    if holder.run is None or holder.expires_at is None:
        return f"Lane {lane} is kept for item {holder.item} {f'of {who}' if who else ''}since {since}."
    until = f"{holder.expires_at.astimezone():%H:%M:%S}"
    end = "and was asked to stop by then" if holder.cancel_requested else "unless renewed"
    return f"Lane {lane} is held by {who}(run {holder.run}) since {since}, until {until} {end}."


def _what_to_type(lane: str) -> str:
    return f"interlock lanes shows its line; interlock hold {lane} --if-held wait -- … waits for it."
