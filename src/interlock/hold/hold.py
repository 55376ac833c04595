"""Holding a lane for the length of a command: like flock(1), on whatever store there is.

The holder is an item of type `hold` on the lane. It arrives, waits for its turn (`hold.turn`), is claimed by
this process, renewed while the command runs, and ends with the command. Messages that arrive meanwhile are
not lost: the command runs again for those it has not seen, unless it wrote them itself (`core.waking`). The
next hold gets those of a holder that died.

Promised: the command runs only under the lease. If the lease cannot be renewed, the command is ended before
the lease is over, even while this process is stopped. A holder that dies gives the lane up with its lease, a
waiter that dies gives up its place once its time to claim is over.
Not promised: that a command which was ended has undone what it did.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.core.errors import Held, InterlockError, LeaseLost, StoreReplaced, StoreUnavailable
from interlock.core.model import SenderKind
from interlock.core.names import LEASE_MIN_S, TIMEOUT_MAX_S, check_number
from interlock.hold.turn import Hold, IfHeld, Turn, Waiter, last_of
from interlock.process.briefing import Briefing, read_result
from interlock.process.clock import now_s
from interlock.process.command import Ending, SupervisedCommand, check_command
from interlock.process.heartbeat import Heartbeat
from interlock.process.liverun import LiveRun
from interlock.process.sign import INTERRUPTED, Shown
from interlock.process.signals import Signals
from interlock.service.contract import HoldView, LaneService, MessageView, Report, RunView

#: Exit code of a command whose time was up, as timeout(1) has it.
TIMED_OUT = 124
#: How long to retry the report of an end while the store does not answer. The lease ends by itself.
REPORT_S, REPORT_AGAIN_S = 10.0, 0.5


def check(wish: Hold, environ: Mapping[str, str]) -> None:
    """Raise, before anything is stored, on a bad span, a missing command or a wait for oneself."""
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


class _Unseen:
    """Shows nothing to anybody."""

    def show(self) -> None: ...

    def hide_soon(self) -> None: ...

    def hide(self) -> None: ...

    def begin(self, run: str) -> None: ...


def hold(
    lanes: LaneService, wish: Hold, *, tell: Callable[[str], None], shown: Shown | None = None
) -> HoldView:
    """Take the lane, run the command, give the lane back; returns how the command ended.

    `tell` gets sentences for people, and `shown` shows others that we are at work, from our arrival until we
    end, in whatever way. Raises `Held` if another holds the lane, and `LeaseLost` if the lane was lost while
    the command ran.
    """
    shown = shown or _Unseen()
    with contextlib.ExitStack() as folders, Signals(after=shown.hide_soon) as signals:
        try:
            shown.show()
            return _Holder(lanes, wish, signals, tell, folders, shown).run()
        finally:
            shown.hide()


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
        self,
        lanes: LaneService,
        wish: Hold,
        signals: Signals,
        tell: Callable[[str], None],
        folders: contextlib.ExitStack,
        shown: Shown,
    ) -> None:
        self._lanes = lanes
        self._wish = wish
        self._signals = signals
        self._tell = tell
        self._folders = folders
        self._shown = shown
        self._briefing, self._used = self._new_briefing(), False  # before anything is stored
        self._waiter = Waiter(lanes, wish, tell)
        #: The item that we have claimed and not ended.
        self._running: int | None = None

    def run(self) -> HoldView:
        """Hold the lane once, and again for messages of the last instant; the first exit code but 0."""
        try:
            return self._run()
        except (LeaseLost, StoreReplaced, StoreUnavailable):
            raise  # the lane is not ours any more, or will be free with the lease
        except BaseException as error:  # also a defect: nobody should wait until our lease is over
            interrupted = isinstance(error, KeyboardInterrupt)
            self._withdraw("its holder was interrupted" if interrupted else "its holder failed")
            self._waiter.leave()
            raise

    def _run(self) -> HoldView:
        arrived = self._waiter.wait()
        if isinstance(arrived, HoldView):
            return arrived
        self._running = arrived.live.lease.item.id
        self._shown.begin(arrived.live.handle)
        found: Turn | None = arrived
        code, ran = 0, False
        while found is not None:
            lease = found.live.lease
            self._running = lease.item.id
            try:
                code_now, follow_up = self._work(found)
            except (InterlockError, OSError) as error:
                if not ran or isinstance(error, LeaseLost):
                    raise
                self._leave_over(found.live, error)
                self._running = None
                break
            ran, self._running = True, None
            code = code or code_now
            # Somebody must run for the messages that came meanwhile.
            found = None if follow_up is None else self._waiter.follow_up(follow_up)
        return HoldView(
            status="ran", lane=self._wish.lane, item=lease.item.id, run=lease.fence, exit_code=code
        )

    def _leave_over(self, live: LiveRun, error: Exception) -> None:
        """Give back a follow-up that we could not begin: the command has run, and its exit code counts."""
        self._cannot_again(error)
        with contextlib.suppress(InterlockError):
            self._lanes.release([Report(run=live.handle)])

    def _cannot_again(self, error: Exception) -> None:
        self._tell(
            f"The command cannot run again for new messages: {error} The next hold of the lane gets them."
        )

    def _withdraw(self, why: str) -> None:
        if self._running is not None:
            with contextlib.suppress(InterlockError):
                self._lanes.cancel(self._running, why=why, by=self._wish.author, force=True)

    # -- under the lease --------------------------------------------------------------------------

    def _work(self, turn: Turn) -> tuple[int, int | None]:
        """Run the command for all messages of the item; its exit code, and the follow-up item if any."""
        live, messages = turn.live, turn.messages
        heartbeat = Heartbeat(self._lanes, lambda: [live])
        heartbeat.start()
        again = True
        try:
            self._wish.acting(live.lease)
            ending, seen = self._run_for(live, messages), last_of(messages)
            while again and not ending.code and self._ended_itself(live, ending):
                more = self._unread(live, seen)
                if not any(m.sender == SenderKind.PERSON for m in more):
                    break  # others' messages become a follow-up, and those are counted; own ones do not
                count = "a new message" if len(more) == 1 else f"{len(more)} new messages"
                self._tell(f"Running the command again for {count}.")
                try:
                    ending, seen = self._run_for(live, more), max(seen, last_of(more))
                except LeaseLost:
                    raise
                except (InterlockError, OSError) as error:
                    again = False
                    self._cannot_again(error)
        finally:
            live.ending = True
        if live.lost is not None:
            raise LeaseLost(live.lost.message, "The command was ended.")
        if ending.stopped_by == "trust" and not live.timed_out:
            self._give_back(live, seen)
            raise LeaseLost(
                f"The lease of run {live.lease.fence} on {self._wish.lane} could not be renewed in time.",
                "The command was ended before the lease was over. Try again when the store answers.",
            )
        heartbeat.stop()
        code, follow_up = self._report(live, ending, seen)
        return code, follow_up if again else None

    def _run_for(self, live: LiveRun, messages: Sequence[MessageView]) -> Ending:
        if live.lost is not None:
            raise LeaseLost(live.lost.message, "The command was not started.")
        wish, briefing = self._wish, self._write_briefing(messages)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "INTERLOCK_SALVAGE"},
            **briefing.variables(live.lease, agent=wish.agent, url=wish.url),
            "INTERLOCK_LANE": wish.lane,
        }
        command = SupervisedCommand(foreground=True)
        try:
            with self._signals.forwarded_to(command):
                command.start(
                    wish.command, env=environment, ladder=live.ladder, trust_until_s=live.trusted_until_s
                )
                live.watch(command)
                return command.follow()
        finally:
            live.watch(None)
            command.close()

    def _write_briefing(self, messages: Sequence[MessageView]) -> Briefing:
        """Write the messages for the command, in a new folder: it may have done anything with its last."""
        if self._used:
            self._briefing = self._new_briefing()
        self._used = True
        with _room():
            self._briefing.write(None, messages)
        return self._briefing

    def _new_briefing(self) -> Briefing:
        with _room():
            folder = TemporaryDirectory(prefix="interlock-hold-", ignore_cleanup_errors=True)
        return Briefing(Path(self._folders.enter_context(folder)))

    def _ended_itself(self, live: LiveRun, ending: Ending) -> bool:
        """Whether nobody asked the command to end; then later messages are worth another run."""
        stopped = ending.stopped_by is not None or ending.code < 0 or self._signals.forwarded
        return not (stopped or live.unwanted.is_set())

    def _unread(self, live: LiveRun, seen: int) -> list[MessageView]:
        """Messages that came while the command ran. If the store is away, they become a follow-up."""
        try:
            return self._lanes.inbox(live.handle, seen=seen)
        except LeaseLost:
            raise
        except InterlockError:
            return []

    # -- the end ----------------------------------------------------------------------------------

    def _report(self, live: LiveRun, ending: Ending, seen: int) -> tuple[int, int | None]:
        report = Report(run=live.handle, seen=seen)
        end, code = self._lanes.done, ending.code if ending.code >= 0 else 128 - ending.code
        if live.timed_out and ending.stopped_by is not None:
            code = TIMED_OUT
        if code and live.cancel_reason is not None:
            end = self._lanes.release
        elif code:
            end = self._lanes.fail
            error = f"The command ended with {code}."
            if self._signals.forwarded:
                error = f"{INTERRUPTED}, with {code}."
            report = report._replace(error=error, retry=False)
        else:
            report = report._replace(result=self._read_result())
        view = self._sent(end, report)
        if view is None:
            self._tell("The store does not answer; the lane goes on when the lease is over.")
            return code, None
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, "Its lease was lost before the command had ended.")
        if view.loop:
            self._tell(f"{view.followed_up}.")
            return code, None
        return code, view.follow_up if self._ended_itself(live, ending) else None

    def _give_back(self, live: LiveRun, seen: int) -> None:
        """End a run that we could not keep, if the store answers now: others need not wait for its lease."""
        report = Report(run=live.handle, seen=seen, error="The lease was not renewed in time.", retry=False)
        with contextlib.suppress(InterlockError):
            self._lanes.fail([report])

    def _read_result(self) -> str | None:
        """The result that the command left, or the problem with it."""
        try:
            return read_result(self._briefing.result)
        except ValueError as error:
            self._tell(f"The command left a result that cannot be kept: {error}.")
            return json.dumps({"problem": f"INTERLOCK_RESULT: {error}"})

    def _sent(self, end: Callable[[Sequence[Report]], list[RunView]], report: Report) -> RunView | None:
        give_up_s = now_s() + REPORT_S
        while True:
            try:
                return end([report])[0]
            except StoreReplaced as error:
                raise LeaseLost(error.sentence, error.hint) from None
            except InterlockError:
                if now_s() > give_up_s:
                    return None
                time.sleep(REPORT_AGAIN_S)
