"""One run of a worker, from its claim to its reported end, in its own thread.

The rules it keeps:
- The command starts only while the lease is fresh, and when no process of an earlier run is alive on this
  host.
- No end is reported while a process of the command lives: a released item may start elsewhere at once.
- After a lost lease no end is reported. The command is killed, and its work is salvaged.
- Uncommitted work is salvaged *before* the end is reported, so that the next run finds it.

What the exit code means:

==========  =======================  ===============================================
exit code   not asked to stop        asked to stop
==========  =======================  ===============================================
0           done                     done if it wrote a result, else released
75          released, to wait until  the same
            the time in its file
other       failed                   released
==========  =======================  ===============================================

If the end of the output names a provider's limit, a run with another exit code than 0 is released until the
limit ends (`core.provider_limits`).

If the command met a fault of the set-up (`interlock push` reports it in a file) and does not end with 0, the
run is released, and neither an attempt nor a release is counted. The same holds for a run that cannot start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from interlock.core.commands import Outcome, QuotaLimit
from interlock.core.errors import CommandUnusable, InterlockError, InvalidInput, LeaseLost
from interlock.core.provider_limits import noticed_limit, program_of
from interlock.core.states import RunStatus
from interlock.git.plumbing import STRAY_VARIABLES
from interlock.process import supervisor
from interlock.process.briefing import read_fault, read_result, read_retry_at
from interlock.process.clock import now_s
from interlock.process.command import CommandExit, in_worktree
from interlock.process.ladder import Ladder
from interlock.process.live_run import LiveRun
from interlock.process.provider_limits import left_limit, zone
from interlock.process.reaction import ReactionDisplay
from interlock.service.contract import EndedRunView, LeaseView
from interlock.service.item_fields import is_cut, quota_limit
from interlock.settings.places import run_log
from interlock.worker.log import RunLog, Tail
from interlock.worker.log_sharing import SharedOutput
from interlock.worker.reporter import ended_run, reported_run
from interlock.worker.rundirectory import RunFiles, Trace
from interlock.worker.salvage import Salvage
from interlock.worker.spool import RunEnd
from interlock.worker.status_lines import StatusLine, already_reported
from interlock.worker.worktrees import Workspace, confined

if TYPE_CHECKING:
    from interlock.worker.worker import Worker

EXIT_RELEASE = 75
STDOUT_KEPT_BYTES, ERROR_KEPT_BYTES = 16 << 10, 4 << 10
#: After a timeout: how often, and how long, to check whether the store has ended the run.
EXPIRE_AGAIN_S, EXPIRE_WAIT_S = 0.25, 5.0
#: Variables that a worker does not pass on if it is itself the command of a run.
_NOT_INHERITED = ("INTERLOCK_LANE", "INTERLOCK_PLAN", "INTERLOCK_SALVAGE")


class NotStarted(Exception):
    """The command was not started; the item is released."""


class WorkerRun:
    """One run, its command and its files."""

    def __init__(self, worker: Worker, lease: LeaseView, sent_s: float, slot: int) -> None:
        """`sent_s` is the time of the claim. `slot` is the run's row in the worker's table, from 1."""
        self._worker = worker
        self._lease = lease
        self.item = lease.item
        self.fence = lease.fence
        self.slot = slot
        self.begun_s = now_s()
        timeout_s = lease.item.timeout_s
        assert lease.lease_s is not None, "a worker claims no external run"
        ladder = Ladder().within(min(lease.lease_s, timeout_s or lease.lease_s))
        #: When the store ends the run at its timeout. The cancel ladder has ended by then.
        self._expires_s = None if timeout_s is None else sent_s + timeout_s
        self.live = LiveRun(
            lease,
            sent_s,
            ladder=ladder,
            deadline_s=None if timeout_s is None else sent_s + ladder.unrenewed_s(timeout_s),
            answered=self._answered,
        )
        #: Whether its command has started.
        self.started = False
        #: Whether the worker knows that the run was asked to stop.
        self._stop_known = False
        self._files: RunFiles | None = None
        self._workspace: Workspace | None = None
        self._shown: ReactionDisplay | None = None
        self._cleared = True
        self._stdout, self._both = Tail(STDOUT_KEPT_BYTES), Tail(ERROR_KEPT_BYTES)
        self._log = RunLog(run_log(worker.home.directory, lease.fence))
        self.shared = SharedOutput(lease.run, [os.environ.get("INTERLOCK_TOKEN", "")])
        self._thread = threading.Thread(target=self._run, name=f"interlock-run-{lease.fence}", daemon=True)

    # -- for the worker and its screen --------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def state(self) -> str:
        """`starting`, `running`, `stopping` or `reporting`."""
        if self.live.ending:
            return "reporting"
        if self.live.cancel_reason is not None:
            return "stopping"
        return "running" if self.started else "starting"

    @property
    def last_line(self) -> str:
        return self._both.last_line()

    def stop(self, reason: str) -> None:
        """Ask the command to end: start the cancel ladder."""
        self._stop_known = True
        self.live.stop(reason)

    def kill(self) -> None:
        """Kill the command at once."""
        self.stop("killed")
        self.live.kill()

    # -- the run ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            try:
                ended = self._end(self._work())
            finally:
                if self._shown is not None:
                    self._shown.hide()
            if not ended:
                return  # its files stay for the next worker
        except Exception as error:  # a defect: without its thread the run would keep its lease forever
            self._worker.give_up(error)
        if self._files is not None and self._cleared:
            self._files.remove()
        elif self._files is not None:
            self._files.unlock()  # the next worker that cleans up tries again
        self._worker.free_slot(self)

    def _work(self) -> RunEnd | None:
        """Run the command; returns the end to report, None if the store has ended the run."""
        try:
            return self._outcome(self._prepare())
        except NotStarted as reason:
            self._tell("not_started", f"was not started: {reason}")
        except CommandUnusable as error:
            self._worker.give_up(error)
            return self._setup_fault(error, 0.0)
        except (InterlockError, OSError) as error:
            if isinstance(error, LeaseLost) and error.setup is None:
                if self.live.lost is None:  # the store accepts the run, the lane's fence does not
                    self._tell("not_started", f"could not be started: {error}")
                return self._run_end(Outcome.RELEASE, error=str(error))
            return self._setup_fault(error, self._worker.pause_after_fault(self, error))
        finally:
            self._log.close()
        return self._run_end(Outcome.RELEASE)

    def _prepare(self) -> RunFiles:
        """Create the files and the worktree of the run. Raises if the command must not start."""
        item, worker = self.item, self._worker
        trace = Trace(
            run=self.fence,
            item=item.id,
            title=item.title,
            lane=item.lane,
            agent=worker.options.agent,
            worker=worker.name,
            store=worker.home.store,
        )
        if not worker.recovery.end_rivals(trace, give_up=self.live.stop_event):
            raise NotStarted("a process of an earlier run on its lane is still alive here")
        if (why := worker.unwanted(self._lease)) is not None:
            raise NotStarted(why)
        self._files = files = RunFiles.make(worker.home, trace)
        if worker.options.worktree:
            self._workspace = worker.workspaces.open(
                files, self._lease.run, worker.service, lambda text: self._tell("unfenced", text)
            )
        messages: list[Any] = [
            {"n": 0, "author": "interlock", "text": kept.sentence, "salvage": kept.ref}
            for kept in self._salvage
        ]
        messages += [
            {"n": 0, "author": "interlock", "text": text} for text in worker.recovery.left_by_rivals(trace)
        ]
        files.briefing.write(item.payload, [*messages, *self._lease.messages])
        self._worker.options.report_account(self._lease)
        self._show()
        return files

    def _show(self) -> None:
        """Post the work reaction until the end is reported."""
        self._shown = self._worker.options.shown(self._lease)
        if self._shown is not None:
            self._shown.show()
            self._shown.begin(self._lease.run)

    def _outcome(self, files: RunFiles) -> RunEnd | None:
        """Start the command and follow it to its end; returns the end to report."""
        command = self._worker.take_command()
        try:
            self._wait_for_fresh_lease()
            files.note(supervisor=command.supervisor, supervisor_begun=supervisor.begun(command.supervisor))
            argv, place = self._worker.options.command, self._workspace
            command.start(
                in_worktree(argv, place.path) if place else argv,
                env=self._environment(files),
                ladder=self.live.ladder,
                run_until_s=self.live.run_until_s,
                cwd=place.path if place else None,
                lock=files.agent_lock,
            )
            assert command.pid is not None
            files.note(session=command.pid, session_begun=supervisor.begun(command.pid))
            self.started = True
            self.live.watch(command)
            self._worker.end_pauses(self)
            text = f"started on item {self.item.id}: {self.item.title}"
            self._tell("started", text, pid=command.pid, title=self.item.title)
            ending = command.follow(self._take_output)
        finally:
            self.live.watch(None)
            command.close()
        return self._end_after(files, ending)

    def _wait_for_fresh_lease(self) -> None:
        """Wait for a renewal if the preparation was slow: the command then has at least half of its time."""
        live = self.live
        late_s = live.ladder.unrenewed_s(live.lease_s) / 2
        while not live.stop_event.is_set() and now_s() - live.renewed_s > late_s:
            live.stop_event.wait(0.05)
        if live.lost is not None:
            raise LeaseLost(live.lost.message)
        if live.cancel_reason is not None or live.timed_out:
            raise NotStarted(live.cancel_reason or "it has timed out")

    def _environment(self, files: RunFiles) -> dict[str, str]:
        """The worker's own environment, with the run's."""
        worker = self._worker
        dropped = (*_NOT_INHERITED, *(STRAY_VARIABLES if worker.options.worktree else ()))
        variables = {name: value for name, value in os.environ.items() if name not in dropped}
        if worker.options.worktree:
            variables |= confined(worker.home.worktrees)
        variables |= self._workspace.environ if self._workspace else {}
        variables |= files.briefing.variables(self._lease, agent=worker.options.agent, url=worker.url)
        variables["INTERLOCK_RETRY_AT_FILE"] = str(files.briefing.retry_at)
        variables["INTERLOCK_FAULT_FILE"] = str(files.briefing.fault)
        if self._salvage:
            variables["INTERLOCK_SALVAGE"] = " ".join(kept.ref for kept in self._salvage)
        return variables

    def _take_output(self, stream: str, data: bytes) -> None:
        usable = self._log.usable
        self._log.take(data)
        if usable and not self._log.usable:
            self._tell("log_lost", f"continues without its log: {self._log.path} cannot be written")
        self._both.take(data)
        self.shared.take(data)
        if stream == "stdout":
            self._stdout.take(data)
        self._worker.echo(self.fence, data)

    def _answered(self) -> None:
        """Handle each answer to a renewal, and the start of the command."""
        live = self.live
        if live.lost is not None:
            # A command that has reported its own end may finish undisturbed.
            if self._reported() is None:
                live.kill()
            else:
                live.stop("ended")
        elif live.cancel_reason is not None:
            if not self._stop_known:
                self._tell("cancel", f"was asked to stop: {live.cancel_reason}")
            self.stop(live.cancel_reason)

    # -- its end ------------------------------------------------------------------------------------

    def _end_after(self, files: RunFiles, ending: CommandExit) -> RunEnd | None:
        """The end to report; None if the store has ended the run, or will end it."""
        live = self.live
        if files.briefing.ended.exists():
            self._worker.heartbeat.finish(live)
            return None
        if live.lost is not None:
            return None
        result, given = self._result(files)
        asked = live.cancel_reason is not None or ending.stopped_by == "lease"
        if ending.code == 0 and (given or not asked):
            self._worker.end_pauses(self, within=True)
            if not given and (limit := self._noticed_limit(files, ending)) is not None:
                return self._run_end(Outcome.RELEASE, limit=limit)
            return self._run_end(Outcome.DONE, result=result)
        if live.cancel_reason is None and ending.stopped_by == "lease" and live.timed_out:
            self._tell("timed_out", self._after_timeout())
            return None if self._expired() else self._run_end(Outcome.FAIL, error="It timed out.")
        fault = read_fault(files.briefing.fault) if ending.code and not asked else None
        if fault is not None:
            return self._setup_fault(fault, self._worker.pause_after_fault(self, fault))
        if ending.code == EXIT_RELEASE:
            limit = self._quota_limit(files) or self._noticed_limit(files, ending)
            return self._run_end(Outcome.RELEASE, limit=limit)
        if not asked and (limit := self._noticed_limit(files, ending)) is not None:
            return self._run_end(Outcome.RELEASE, limit=limit)
        if asked:
            return self._run_end(Outcome.RELEASE)
        return self._run_end(Outcome.FAIL, error=self._error(ending))

    def _setup_fault(self, error: InterlockError | OSError, pause_s: float) -> RunEnd:
        """The end after a fault of the set-up, which does not count against the item."""
        return self._run_end(Outcome.RELEASE, error=str(error), fault_s=pause_s)

    def _result(self, files: RunFiles) -> tuple[str | None, bool]:
        """The result as JSON, and whether the command wrote it itself."""
        stdout = self._stdout.text()
        try:
            result = read_result(files.briefing.result)
        except ValueError as error:
            self._tell("bad_result", f"left a result that cannot be kept: {error}")
            return json.dumps({"stdout": stdout, "problem": f"INTERLOCK_RESULT: {error}"}), True
        if result is not None:
            return result, True
        return json.dumps({"stdout": stdout}) if stdout else None, False

    def _quota_limit(self, files: RunFiles) -> QuotaLimit | None:
        """The quota limit that the command wrote; None if it is unreadable."""
        try:
            met = quota_limit(read_retry_at(files.briefing.retry_at))
        except (ValueError, InvalidInput) as error:
            why = error.sentence if isinstance(error, InvalidInput) else f"{error}."
            self._tell("bad_retry_at", f"left no time that can be read in INTERLOCK_RETRY_AT_FILE: {why}")
            return None
        if met is not None and is_cut(met, time.time()):
            self._tell(
                "wall_cut", "left a time more than 7 days ahead in INTERLOCK_RETRY_AT_FILE: cut to 7 days."
            )
        return met

    def _noticed_limit(self, files: RunFiles, ending: CommandExit) -> QuotaLimit | None:
        """The provider's limit that the command's output names, or that its hook has left."""
        options, now = self._worker.options, self.live.store_now
        noticed = left_limit(files.briefing.retry_at.parent) or noticed_limit(
            self._both.text(),
            ending.code,
            now=now,
            zones=zone,
            program=program_of(options.command),
            own=options.limits.patterns,
        )
        if noticed is None:
            return None
        self._tell("quota_limit", f"hit a provider's limit: {noticed.text}")
        return options.limits.reported(noticed, now)

    def _error(self, ending: CommandExit) -> str:
        how = f"Exit code {ending.code}."
        if ending.code < 0:
            known = {number.value: number.name for number in signal.Signals}
            how = f"Killed by {known.get(-ending.code, f'signal {-ending.code}')}."
        return f"{how}\n{self._both.text()}".strip()

    def _after_timeout(self) -> str:
        """The outcome for a command that was stopped at its timeout, and for its item."""
        attempt, most = self.item.attempt, self.item.max_attempts
        left = (
            f"it is offered again, for attempt {attempt + 1} of {most}"
            if attempt < most
            else "it was the last attempt"
        )
        return f"was stopped at its timeout of {self.item.timeout_s:g} s; {left}"

    def _expired(self) -> bool:
        """Wait until the store ends the run at its timeout; false if it does not."""
        assert self._expires_s is not None
        service = self._worker.service
        until_s = max(now_s(), self._expires_s) + EXPIRE_WAIT_S
        while now_s() < until_s:
            time.sleep(max(EXPIRE_AGAIN_S, self._expires_s - now_s()))
            with contextlib.suppress(InterlockError):
                service.sweep()
                if ended_run(service, item=self.item.id, run=self.fence) is not None:
                    return True
        return False

    def _end(self, end: RunEnd | None) -> bool:
        """Salvage the work and report the end; false if the store stays unreachable until the worker
        leaves."""
        self._worker.log_sharing.finish(self.shared)
        earlier = self._reported() if end is None or self.live.lost is not None else None
        done = end is not None and end.outcome is Outcome.DONE
        self._salvage_work(succeeded=done or (earlier is not None and earlier.status == RunStatus.SUCCEEDED))
        lost = self.live.lost
        if end is None or lost is not None:
            if lost is not None and earlier is None:
                earlier = self._reported()
            if earlier is not None:
                self._worker.tell(
                    self._status_line("ended", already_reported(earlier), status=earlier.status)
                )
            else:
                self._tell("lost", f"has lost its lease: {lost.message if lost else 'it expired'}")
            return True
        if end.outcome is Outcome.RELEASE:
            self._worker.wait_for_last_claim()
        reporter = self._worker.reporter
        reporter.keep(end)
        self._worker.heartbeat.finish(self.live)
        answer = reporter.report(end)
        if answer is not None:
            self._worker.tell_end(end, answer, self.item.lane)
        return answer is not None

    def _reported(self) -> EndedRunView | None:
        """The end that the command itself reported; None if it reported none."""
        return reported_run(self._worker.service, item=self.item.id, run=self.fence)

    def _salvage_work(self, *, succeeded: bool) -> None:
        """Salvage the work in the worktree, then remove the worktree. If that fails, it stays."""
        if self._files is None:
            return
        workspaces = self._worker.workspaces
        try:
            kept = workspaces.close(
                self._files,
                succeeded=succeeded,
                given=self._salvage,
                warn=lambda text, path: self._tell("stays", text, path=path),
            )
        except (InterlockError, OSError) as error:
            self._cleared = False
            self._tell("stays", f"left its worktree behind: {error}")
            return
        if kept is not None:
            self._tell("salvaged", f"left work that was not pushed, kept as {kept.ref}", ref=kept.ref)
        if kept is not None and kept.left_out:
            path = str(kept.worktree)
            self._tell(
                "stays", f"left its worktree behind: {kept.rest} could not be kept; see {path}", path=path
            )

    @property
    def _salvage(self) -> tuple[Salvage, ...]:
        return self._workspace.salvage if self._workspace else ()

    def _run_end(
        self,
        outcome: Outcome,
        *,
        result: str | None = None,
        error: str | None = None,
        limit: QuotaLimit | None = None,
        fault_s: float | None = None,
    ) -> RunEnd:
        return RunEnd(
            outcome=outcome,
            run=self._lease.run,
            fence=self.fence,
            item=self.item.id,
            store=self._worker.home.store,
            result=result,
            error=error,
            until_us=limit.until_us if limit else None,
            for_s=limit.for_s if limit else None,
            why=limit.why or None if limit else None,
            whole=("agent" if limit.whole_agent else "pool" if limit.whole_pool else None) if limit else None,
            fault_s=fault_s,
        )

    def _tell(self, kind: str, text: str, **data: Any) -> None:
        self._worker.tell(self._status_line(kind, f"Run {self.fence} {text}", **data))

    def _status_line(self, kind: str, text: str, **data: Any) -> StatusLine:
        return StatusLine(
            kind=kind, text=text, run=self.fence, item=self.item.id, lane=self.item.lane, data=data
        )
