"""Holding a lane for the length of a command: like flock(1), on whatever store there is.

The holder is an item on the lane, of type `hold`. It arrives, waits its turn (`holdplace`), is claimed by
this process, is renewed while the command runs, and ends with it. What it is told meanwhile is not lost: the
command runs again for messages that it has not seen, and those of a holder that died go to the next hold.

Promised: the command runs only under the lease. If the lease cannot be renewed, the command is ended before
the lease is over, also while this process is stopped. A holder or a waiter that dies gives the lane away: the
one with its lease, the other with its time to be claimed.
Not promised: that a command which was ended has undone what it did.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from interlock.core.errors import Held, InterlockError, LeaseLost, StoreUnavailable
from interlock.core.names import (
    LEASE_MIN_S,
    TIMEOUT_MAX_S,
    check_number,
)
from interlock.hold.tenancy import Tenancy
from interlock.hold.turn import Hold, IfHeld, Place, Turn, last_of
from interlock.process.command import Agent, Ending, check_command, now_s
from interlock.process.heartbeat import Heartbeat
from interlock.process.signals import Signals
from interlock.service.contract import (
    HoldView,
    LaneService,
    MessageView,
    Report,
    RunView,
    to_json,
)
from interlock.worker.rundirectory import read_result

#: Exit code of a command that was ended because its time was up, as timeout(1) has it.
TIMED_OUT = 124
#: How long the end of a command is told to a store that does not answer. Its lease ends by itself.
REPORT_S, REPORT_AGAIN_S = 10.0, 0.5


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


def hold(lanes: LaneService, wish: Hold, *, tell: Callable[[str], None]) -> HoldView:
    """Take the lane, run the command, give the lane back; say how it ended.

    `tell` gets a sentence for people where there is something to say. Raises `Held` where the lane is not to
    be had, and `LeaseLost` where it was lost while the command ran.
    """
    with _Files() as files, Signals() as signals:
        return _Holder(lanes, wish, signals, tell, files).run()


class _Files:
    """Where the command finds what it was told, and leaves its result.

    A directory for each time it runs: with the last one it may have done whatever it liked.
    """

    def __init__(self) -> None:
        self._made = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.renew()  # before anything is stored
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._made.close()

    def renew(self) -> None:
        with _room():
            folder = TemporaryDirectory(prefix="interlock-hold-", ignore_cleanup_errors=True)
        self._folder = Path(self._made.enter_context(folder))
        self._fresh = True

    def brief(self, messages: Sequence[MessageView]) -> dict[str, str]:
        """Write down what the command is told; where it finds that."""
        if not self._fresh:
            self.renew()
        self._fresh = False
        payload, told = self._folder / "payload.json", self._folder / "messages.json"
        with _room():
            payload.write_text("{}")
            told.write_text(json.dumps(to_json(messages), ensure_ascii=False))
        return {
            "INTERLOCK_PAYLOAD": str(payload),
            "INTERLOCK_MESSAGES": str(told),
            "INTERLOCK_RESULT": str(self._result),
        }

    def result(self) -> str | None:
        """What the command left as its result; raises ValueError where it cannot be kept."""
        return read_result(self._result)

    @property
    def _result(self) -> Path:
        return self._folder / "result.json"


@contextlib.contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InterlockError(
            f"There is no room for the command's files: {error.strerror}.",
            "Free some space, or set TMPDIR to a directory that can be written.",
        ) from None


class _Holder:
    """One hold, from its arrival to its end."""

    def __init__(
        self, lanes: LaneService, wish: Hold, signals: Signals, tell: Callable[[str], None], files: _Files
    ) -> None:
        self._lanes = lanes
        self._wish = wish
        self._signals = signals
        self._tell = tell
        self._files = files
        self._place = Place(lanes, wish, tell)
        #: What we have claimed and not ended.
        self._running: int | None = None

    def run(self) -> HoldView:
        """Hold the lane once, and again for what came in the last instant; the first exit code but 0."""
        try:
            return self._run()
        except (LeaseLost, StoreUnavailable):
            raise  # it is not ours any more, or ends by itself
        except BaseException as error:  # also a defect: nobody has to wait out our lease for it
            interrupted = isinstance(error, KeyboardInterrupt)
            self._withdraw("its holder was interrupted" if interrupted else "its holder failed")
            self._place.leave()
            raise

    def _run(self) -> HoldView:
        found: Turn | HoldView | None = self._place.turn()
        if isinstance(found, HoldView):
            return found
        code, ran = 0, False
        while isinstance(found, Turn):
            run = found.tenancy
            self._running = run.item.id
            try:
                code_now, follow_up = self._work(found)
            except (InterlockError, OSError) as error:
                if not ran or isinstance(error, LeaseLost):
                    raise
                self._leave_over(run, error)
                self._running = None
                break
            ran, self._running = True, None
            code = code or code_now
            # What came in the meantime is owed to somebody.
            found = None if follow_up is None else self._place.follow_up(follow_up)
        return HoldView(status="ran", lane=self._wish.lane, item=run.item.id, run=run.fence, exit_code=code)

    def _leave_over(self, run: Tenancy, error: Exception) -> None:
        """Give a follow-up back that we could not begin: the command has run and ended, with its own code."""
        self._cannot_again(error)
        with contextlib.suppress(InterlockError):
            self._lanes.release([Report(run=run.handle)])

    def _cannot_again(self, error: Exception) -> None:
        what = "The command cannot run again for what it was told meanwhile"
        self._tell(f"{what}: {error} The next hold of the lane gets that.")

    def _withdraw(self, why: str) -> None:
        if self._running is not None:
            with contextlib.suppress(InterlockError):
                self._lanes.cancel(self._running, why=why, by=self._wish.author, force=True)

    # -- under the lease --------------------------------------------------------------------------

    def _work(self, turn: Turn) -> tuple[int, int | None]:
        """Run the command for all that the item was told; its exit code, and what to go on with."""
        tenancy, messages = turn.tenancy, turn.messages
        heartbeat = Heartbeat(
            self._lanes,
            lambda: [] if tenancy.over or tenancy.lost else [tenancy],
            writing=threading.Lock(),
            trouble=lambda _: None,  # if it lasts, the end of trust says it
            crashed=lambda _: None,
        )
        heartbeat.start()
        again = True
        try:
            ending, seen = self._run_for(tenancy, messages), last_of(messages)
            while again and self._ended_well(tenancy, ending) and (more := self._unread(tenancy, seen)):
                self._tell(f"Running the command again, for what it was told meanwhile: {_count(more)}.")
                try:
                    ending, seen = self._run_for(tenancy, more), max(seen, last_of(more))
                except LeaseLost:
                    raise
                except (InterlockError, OSError) as error:
                    again = False
                    self._cannot_again(error)
        finally:
            tenancy.over = True
        if tenancy.lost is not None:
            raise LeaseLost(tenancy.lost.message, "The command was ended.")
        if ending.stopped_by == "trust" and not tenancy.timed_out:
            self._give_back(tenancy, seen)
            raise LeaseLost(
                f"The lease of run {tenancy.fence} on {self._wish.lane} could not be renewed in time.",
                "The command was ended before the lease was over. Try again when the store answers.",
            )
        heartbeat.stop()
        code, follow_up = self._report(tenancy, ending, seen)
        return code, follow_up if again else None

    def _run_for(self, tenancy: Tenancy, messages: Sequence[MessageView]) -> Ending:
        if tenancy.lost is not None:
            raise LeaseLost(tenancy.lost.message, "The command was not started.")
        files, wish = self._files.brief(messages), self._wish
        environment = {
            **{name: value for name, value in os.environ.items() if name != "INTERLOCK_SALVAGE"},
            "INTERLOCK_URL": wish.url,
            "INTERLOCK_RUN": tenancy.handle,
            "INTERLOCK_FENCE": str(tenancy.fence),
            "INTERLOCK_ITEM": str(tenancy.item.id),
            "INTERLOCK_LANE": wish.lane,
            "INTERLOCK_AGENT": wish.agent,
            **files,
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
        report = Report(run=tenancy.handle, seen=seen)
        end, code = self._lanes.done, ending.code if ending.code >= 0 else 128 - ending.code
        if tenancy.timed_out and ending.stopped_by is not None:
            code = TIMED_OUT
        if code and tenancy.cancel_requested:
            end = self._lanes.release
        elif code:
            end = self._lanes.fail
            report = report._replace(error=f"The command ended with {code}.", retry=False)
        else:
            report = report._replace(result=self._read_result())
        view = self._told(end, report)
        if view is None:
            self._tell("The store does not answer; the lane is free when the lease is over.")
            return code, None
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, "Its lease was lost before the command had ended.")
        return code, view.follow_up if self._ended_itself(tenancy, ending) else None

    def _give_back(self, tenancy: Tenancy, seen: int) -> None:
        """End a run that we could not keep, if the store answers now: nobody has to wait out its lease."""
        report = Report(
            run=tenancy.handle, seen=seen, error="The lease was not renewed in time.", retry=False
        )
        with contextlib.suppress(InterlockError):
            self._lanes.fail([report])

    def _read_result(self) -> str | None:
        """What the command left as its result, or what is wrong with that."""
        try:
            return self._files.result()
        except ValueError as error:
            self._tell(f"The command left a result that cannot be kept: {error}.")
            return json.dumps({"problem": f"INTERLOCK_RESULT: {error}"})

    def _told(self, end: Callable[[Sequence[Report]], list[RunView]], report: Report) -> RunView | None:
        give_up_s = now_s() + REPORT_S
        while True:
            try:
                return end([report])[0]
            except InterlockError:
                if now_s() > give_up_s:
                    return None
                time.sleep(REPORT_AGAIN_S)


def _count(messages: Sequence[MessageView]) -> str:
    return f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
