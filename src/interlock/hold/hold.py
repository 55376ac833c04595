"""Holds a lane while a command runs: like flock(1), on any store.

The holder is an item of type `hold` on the lane. It arrives, waits for its turn (`hold.turn`), is claimed by
this process, renewed while the command runs, and ends with the command. Messages that arrive meanwhile are
not lost: the command runs again for unread ones, except those that it wrote itself (`core.wakeups`). Messages
to a holder that died go to the next hold.

Promised: the command runs only under the lease. If the lease cannot be renewed, the command is ended before
the lease expires, even while this process is stopped. A dead holder loses the lane when its lease expires. A
dead waiter loses its place when its time to claim expires.
Not promised: that a command that was ended has undone its effects.
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
from interlock.process.command import CommandExit, SupervisedCommand, check_command
from interlock.process.heartbeat import Heartbeat
from interlock.process.live_run import LiveRun
from interlock.process.reaction import INTERRUPTED, ReactionDisplay
from interlock.process.signals import Signals
from interlock.service.contract import HoldView, LaneService, MessageView, Report, RunView

#: The exit code of a command that timed out, as in timeout(1).
TIMED_OUT = 124
#: How long to retry the report of an end while the store is unreachable. The lease expires anyway.
REPORT_S, REPORT_AGAIN_S = 10.0, 0.5


def check(options: Hold, environ: Mapping[str, str]) -> None:
    """Raise on a bad span, a missing command or a wait for oneself, before anything is stored."""
    if options.timeout_s is not None:
        check_number("timeout", options.timeout_s, LEASE_MIN_S, TIMEOUT_MAX_S)
    if options.wait_s is not None:
        check_number("wait", options.wait_s, 0, TIMEOUT_MAX_S)
    check_command(options.command, here=True)
    mine = environ.get("INTERLOCK_LANE"), environ.get("INTERLOCK_URL")
    if options.if_held is IfHeld.WAIT and mine == (options.lane, options.url):
        raise Held(
            f"This command already holds lane {options.lane} and would wait for itself.",
            "Run it without interlock hold, or take another lane.",
        )


class _NoReaction:
    """A reaction that does nothing."""

    def show(self) -> None: ...

    def hide_soon(self) -> None: ...

    def hide(self) -> None: ...

    def begin(self, run: str) -> None: ...


def hold(
    lanes: LaneService, options: Hold, *, tell: Callable[[str], None], shown: ReactionDisplay | None = None
) -> HoldView:
    """Take the lane, run the command, release the lane; returns how the command ended.

    `tell` gets messages for people. `shown` shows others that we are at work, from our arrival to any kind
    of end. Raises `Held` if another holds the lane, and `LeaseLost` if the lane was lost while the command
    ran.
    """
    shown = shown or _NoReaction()
    with contextlib.ExitStack() as folders, Signals(after=shown.hide_soon) as signals:
        try:
            shown.show()
            return _Holder(lanes, options, signals, tell, folders, shown).run()
        finally:
            shown.hide()


@contextlib.contextmanager
def _reporting_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InterlockError(
            f"There is no space for the command's files: {error.strerror}.",
            "Free some space, or set TMPDIR to a directory that can be written.",
        ) from None


class _Holder:
    """One hold, from its arrival to its end."""

    def __init__(
        self,
        lanes: LaneService,
        options: Hold,
        signals: Signals,
        tell: Callable[[str], None],
        folders: contextlib.ExitStack,
        shown: ReactionDisplay,
    ) -> None:
        self._lanes = lanes
        self._options = options
        self._signals = signals
        self._tell = tell
        self._folders = folders
        self._shown = shown
        self._briefing, self._used = self._new_briefing(), False  # before anything is stored
        self._waiter = Waiter(lanes, options, tell)
        #: The item that we have claimed but not ended.
        self._running: int | None = None

    def run(self) -> HoldView:
        """Hold the lane once, and again for messages that came at the last moment; the first nonzero exit
        code, or 0."""
        try:
            return self._run()
        except (LeaseLost, StoreReplaced, StoreUnavailable):
            raise  # the lane is no longer ours, or will be free when the lease expires
        except BaseException as error:  # also a defect: waiters should not wait for our lease
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
                self._release_follow_up(found.live, error)
                self._running = None
                break
            ran, self._running = True, None
            code = code or code_now
            # The command must run again for the messages that came meanwhile.
            found = None if follow_up is None else self._waiter.follow_up(follow_up)
        return HoldView(
            status="ran", lane=self._options.lane, item=lease.item.id, run=lease.fence, exit_code=code
        )

    def _release_follow_up(self, live: LiveRun, error: Exception) -> None:
        """Release a follow-up that we could not begin: the command has run, and its exit code counts."""
        self._tell_cannot_rerun(error)
        with contextlib.suppress(InterlockError):
            self._lanes.release([Report(run=live.handle)])

    def _tell_cannot_rerun(self, error: Exception) -> None:
        self._tell(
            f"The command cannot run again for new messages: {error} The next hold of the lane gets them."
        )

    def _withdraw(self, why: str) -> None:
        if self._running is not None:
            with contextlib.suppress(InterlockError):
                self._lanes.cancel(self._running, why=why, by=self._options.author, force=True)

    # -- under the lease --------------------------------------------------------------------------

    def _work(self, turn: Turn) -> tuple[int, int | None]:
        """Run the command for all messages of the item; returns its exit code, and the follow-up item if
        any."""
        live, messages = turn.live, turn.messages
        heartbeat = Heartbeat(self._lanes, lambda: [live])
        heartbeat.start()
        again = True
        try:
            self._options.report_account(live.lease)
            ending, seen = self._run_for(live, messages), last_of(messages)
            while again and not ending.code and self._ended_itself(live, ending):
                more = self._unread(live, seen)
                if not any(m.sender == SenderKind.PERSON for m in more):
                    break  # messages of others become a counted follow-up; own ones do not
                count = "a new message" if len(more) == 1 else f"{len(more)} new messages"
                self._tell(f"Running the command again for {count}.")
                try:
                    ending, seen = self._run_for(live, more), max(seen, last_of(more))
                except LeaseLost:
                    raise
                except (InterlockError, OSError) as error:
                    again = False
                    self._tell_cannot_rerun(error)
        finally:
            live.ending = True
        if live.lost is not None:
            raise LeaseLost(live.lost.message, "The command was stopped.")
        if ending.stopped_by == "lease" and not live.timed_out:
            self._end_unrenewed(live, seen)
            raise LeaseLost(
                f"The lease of run {live.lease.fence} on {self._options.lane} could not be renewed in time.",
                "The command was stopped before the lease expired. Try again when the store answers.",
            )
        heartbeat.stop()
        code, follow_up = self._report(live, ending, seen)
        return code, follow_up if again else None

    def _run_for(self, live: LiveRun, messages: Sequence[MessageView]) -> CommandExit:
        if live.lost is not None:
            raise LeaseLost(live.lost.message, "The command was not started.")
        options, briefing = self._options, self._write_briefing(messages)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "INTERLOCK_SALVAGE"},
            **briefing.variables(live.lease, agent=options.agent, url=options.url),
            "INTERLOCK_LANE": options.lane,
        }
        command = SupervisedCommand(foreground=True)
        try:
            with self._signals.forwarded_to(command):
                command.start(
                    options.command, env=environment, ladder=live.ladder, run_until_s=live.run_until_s
                )
                live.watch(command)
                return command.follow()
        finally:
            live.watch(None)
            command.close()

    def _write_briefing(self, messages: Sequence[MessageView]) -> Briefing:
        """Write the messages for the command, in a new folder: it may have changed the last one."""
        if self._used:
            self._briefing = self._new_briefing()
        self._used = True
        with _reporting_full_disk():
            self._briefing.write(None, messages)
        return self._briefing

    def _new_briefing(self) -> Briefing:
        with _reporting_full_disk():
            folder = TemporaryDirectory(prefix="interlock-hold-", ignore_cleanup_errors=True)
        return Briefing(Path(self._folders.enter_context(folder)))

    def _ended_itself(self, live: LiveRun, ending: CommandExit) -> bool:
        """Whether the command ended without being asked to. Only then is it run again for later messages."""
        stopped = ending.stopped_by is not None or ending.code < 0 or self._signals.forwarded
        return not (stopped or live.stop_event.is_set())

    def _unread(self, live: LiveRun, seen: int) -> list[MessageView]:
        """Messages that came while the command ran. If the store is unreachable, they become a follow-up."""
        try:
            return self._lanes.inbox(live.handle, seen=seen)
        except LeaseLost:
            raise
        except InterlockError:
            return []

    # -- the end ----------------------------------------------------------------------------------

    def _report(self, live: LiveRun, ending: CommandExit, seen: int) -> tuple[int, int | None]:
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
            self._tell("The store does not answer; the lane is free when the lease expires.")
            return code, None
        if view.refusal is not None:
            raise LeaseLost(view.refusal.message, "Its lease was lost before the command ended.")
        if view.loop:
            self._tell(f"{view.followed_up}.")
            return code, None
        return code, view.follow_up if self._ended_itself(live, ending) else None

    def _end_unrenewed(self, live: LiveRun, seen: int) -> None:
        """End a run that we could not keep, if the store answers now, so that others need not wait for its
        lease to expire."""
        report = Report(run=live.handle, seen=seen, error="The lease was not renewed in time.", retry=False)
        with contextlib.suppress(InterlockError):
            self._lanes.fail([report])

    def _read_result(self) -> str | None:
        """The result that the command wrote, or the problem with it."""
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
                raise LeaseLost(error.sentence, error.hint, error.cures) from None
            except InterlockError:
                if now_s() > give_up_s:
                    return None
                time.sleep(REPORT_AGAIN_S)
