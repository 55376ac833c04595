"""One attempt: a run from its claim to its reported end, in a thread of its own.

The rules it keeps:
- The agent starts only while the lease is fresh, and when no earlier run's process is alive on this host.
- Nothing is reported while a process of the agent lives: a released item may start elsewhere at once.
- A lease that was lost is reported by nobody. The agent is killed, and what it left is salvaged.
- What was left uncommitted is salvaged *before* the end is reported, so that the next run finds it.

What the exit code means:

==========  =======================  ===============================================
exit code   nobody asked it to stop  it was asked to stop
==========  =======================  ===============================================
0           done                     done if it wrote a result, else released
75          released                 released
other       failed                   released
==========  =======================  ===============================================
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from typing import Any

from interlock.core.commands import Outcome
from interlock.core.errors import CommandUnusable, InterlockError, LeaseLost, UnreadableState
from interlock.core.states import RunStatus
from interlock.process import supervisor
from interlock.process.command import Agent, Ending, Ladder, in_worktree, now_s
from interlock.process.heartbeat import BEAT_MAX_S
from interlock.service.contract import LeaseView, RunView
from interlock.worker.briefing import brief, environment
from interlock.worker.hindrance import machine_error
from interlock.worker.job import Host, Job, Notice
from interlock.worker.log import RunLog, Tail
from interlock.worker.rundirectory import RunFiles, Trace
from interlock.worker.salvage import Salvage
from interlock.worker.spool import End
from interlock.worker.verdict import already, ended_run, reported_run
from interlock.worker.worktrees import Workspace

EXIT_RELEASE = 75
STDOUT_KEPT_BYTES, ERROR_KEPT_BYTES = 16 << 10, 4 << 10
#: After its time is over, the store is asked so often to end a run, and so many times.
EXPIRE_AGAIN_S, EXPIRE_TRIES = 0.25, 20


class NotStarted(Exception):
    """The agent was not started; the item is given back."""


class Attempt:
    """One run, as its worker sees it."""

    def __init__(self, job: Job, host: Host, lease: LeaseView, sent_s: float) -> None:
        """`sent_s` is when the claim was sent."""
        self._job = job
        self._host = host
        self._lease = lease
        self.item = lease.item
        self.fence = lease.fence
        self.handle = lease.run
        self.begun_s = now_s()
        self.state = "starting"
        #: Its place in the worker's table, from 1.
        self.slot = 0
        self._lease_s = lease.lease_s
        self._sent_s = sent_s
        timeout_s = lease.item.timeout_s
        self._ladder = Ladder().within(min(self._lease_s, timeout_s or self._lease_s))
        #: When the ladder must begin so that the agent is gone when the store ends the run; and that moment.
        self._timeout_s = None if timeout_s is None else sent_s + self._ladder.trust_s(timeout_s)
        self._expires_s = None if timeout_s is None else sent_s + timeout_s
        self._agent: Agent | None = None
        #: Why it was asked to stop, and what the store said if the lease is gone.
        self._stop_reason: str | None = None
        self._lost: str | None = None
        #: What the agent reported as its end, past this worker.
        self._reported: str | None = None
        self._changed = threading.Condition()
        self._give_up = threading.Event()
        self._files: RunFiles | None = None
        self._workspace: Workspace | None = None
        self._cleared = True
        self._stdout, self._both = Tail(STDOUT_KEPT_BYTES), Tail(ERROR_KEPT_BYTES)
        self._log = RunLog(job.home.logs / f"run-{lease.fence}.log")
        self._thread = threading.Thread(target=self._run, name=f"interlock-run-{lease.fence}", daemon=True)

    # -- for the worker and its heartbeat -----------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    @property
    def beats(self) -> bool:
        """Whether its lease is to be kept."""
        return self.state not in ("reporting", "over") and self._lost is None

    @property
    def beat_due_s(self) -> float:
        return self._sent_s + min(BEAT_MAX_S, self._lease_s / 3)

    @property
    def last_line(self) -> str:
        return self._both.last_line()

    @property
    def _salvage(self) -> tuple[Salvage, ...]:
        return self._workspace.salvage if self._workspace else ()

    def stop(self, reason: str) -> None:
        """Ask the agent to end: the ladder begins."""
        with self._changed:
            if self._stop_reason is None and self.beats:
                self._stop_reason = reason
                self.state = "stopping"
                self._give_up.set()
                self._changed.notify_all()
            agent = self._agent
        if agent is not None:
            agent.stop()

    def kill(self) -> None:
        """End the agent at once."""
        self.stop("killed")
        with self._changed:
            agent = self._agent
        if agent is not None:
            agent.kill()

    def renewed(self, view: RunView, sent_s: float) -> None:
        """What the heartbeat heard."""
        if view.refusal is not None:
            self._lose(view.refusal.message)
            return
        with self._changed:
            self._sent_s = max(self._sent_s, sent_s)
            self._changed.notify_all()
            agent = self._agent
        if agent is not None:
            agent.trust(self._trust_until_s())
        if view.cancel_requested and self._stop_reason is None:
            why = (view.item.cancel_reason if view.item else None) or "cancelled"
            self._tell("cancel", f"was asked to stop: {why}")
            self.stop(why)

    def close(self) -> None:
        """The store has the end, or needs none."""
        if self._files is not None and self._cleared:
            self._files.remove()
        elif self._files is not None:
            self._files.let_go()  # whoever clears up next tries again
        self.state = "over"
        self._host.over(self)

    # -- the run ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:  # a defect: without its thread the run would keep its lease for ever
            self._host.give_up(error)
            self.close()

    def _live(self) -> None:
        end: End | None = None
        try:
            end = self._work()
        except NotStarted as reason:
            self._tell("not_started", f"was not started: {reason}")
            end = self._end(Outcome.RELEASE)
        except LeaseLost as error:  # the store has said so, or the lane's fence on the git remote
            end = self._end(Outcome.FAIL, error=str(error))
        except CommandUnusable as error:
            self._host.give_up(error)
            end = self._end(Outcome.RELEASE)
        except UnreadableState as error:  # a matter of its lane alone
            self._tell("not_started", f"could not be started: {error}")
            end = self._end(Outcome.RELEASE)
        except (InterlockError, OSError) as error:
            self._host.hindered(self, machine_error(error))
            end = self._end(Outcome.RELEASE)
        self._log.close()
        done = end is not None and end.outcome is Outcome.DONE
        self._leave(succeeded=done or self._reported == RunStatus.SUCCEEDED)
        with self._changed:
            lost = self._lost
            if end is not None and lost is None:
                self.state = "reporting"
        if end is not None and lost is None:
            self._host.report(self, end)
            return
        if self._reported is not None:
            self._host.tell(self._notice("ended", already(self.fence, self._reported), status=self._reported))
        else:
            self._tell("lost", f"has lost its lease: {lost or 'its time was over'}")
        self.close()

    def _work(self) -> End | None:
        """Start the agent, follow it to its end, judge that end. None where the store ends the run."""
        files = self._prepare()
        agent = self._host.take_agent()
        try:
            self._wait_for_fresh_lease()
            files.note(supervisor=agent.supervisor, supervisor_begun=supervisor.begun(agent.supervisor))
            command, place = self._job.command, self._workspace
            agent.start(
                in_worktree(command, place.path) if place else command,
                env=environment(self._job, files, self._lease, self._salvage),
                ladder=self._ladder,
                trust_until_s=self._trust_until_s(),
                cwd=place.path if place else None,
                lock=files.agent_lock,
            )
            self._started(files, agent)
            ending = agent.follow(self._take)
        finally:
            with self._changed:
                self._agent = None
            agent.close()
        return self._judge(files, ending)

    def _prepare(self) -> RunFiles:
        """What the agent will find; raises where it must not start."""
        item, job = self.item, self._job
        trace = Trace(
            run=self.fence,
            item=item.id,
            title=item.title,
            lane=item.lane,
            agent=job.agent,
            worker=job.worker,
            store=job.home.store,
        )
        if not job.aftermath.make_way(trace, give_up=self._give_up):
            raise NotStarted("a process of an earlier run on its lane is still alive here")
        self._files = files = RunFiles.make(job.home, trace)
        if job.worktree:
            self._workspace = job.workspaces.open(
                files, self.handle, lambda text: self._tell("unfenced", text)
            )
        brief(files, self._lease, self._salvage)
        return files

    def _wait_for_fresh_lease(self) -> None:
        """What came before may have taken long; the agent gets at least half of its trust to begin with."""
        late_s = self._ladder.trust_s(self._lease_s) / 2
        with self._changed:
            while self._lost is None and self._stop_reason is None and now_s() - self._sent_s > late_s:
                self._changed.wait(0.05)
            if self._lost is not None:
                raise LeaseLost(self._lost)
            if self._stop_reason is not None or self._timed_out():
                raise NotStarted(self._stop_reason or "its time is over")

    def _started(self, files: RunFiles, agent: Agent) -> None:
        assert agent.pid is not None
        files.note(session=agent.pid, session_begun=supervisor.begun(agent.pid))
        with self._changed:
            self._agent = agent
            if self._stop_reason is None:
                self.state = "running"
        agent.trust(self._trust_until_s())
        if self._lost is not None:
            agent.kill()
        elif self._stop_reason is not None:
            agent.stop()
        self._host.begun()
        self._tell("started", f"started on item {self.item.id}: {self.item.title}", pid=agent.pid)

    def _take(self, stream: str, data: bytes) -> None:
        usable = self._log.usable
        self._log.take(data)
        if usable and not self._log.usable:
            self._tell("log_lost", f"goes on without its log: {self._log.path} cannot be written")
        self._both.take(data)
        if stream == "stdout":
            self._stdout.take(data)
        self._host.echo(self.fence, data)

    # -- its end ------------------------------------------------------------------------------------

    def _judge(self, files: RunFiles, ending: Ending) -> End | None:
        """What is to be reported. None if the store has ended the run, or does so by itself."""
        if self._lost is not None:
            return None
        result, given = self._result(files)
        asked = self._stop_reason is not None or ending.stopped_by == "trust"
        if ending.code == 0 and (given or not asked):
            return self._end(Outcome.DONE, result=result)
        if self._stop_reason is None and ending.stopped_by == "trust" and self._timed_out():
            self._tell("timed_out", f"took longer than {self.item.timeout_s:g} s")
            return None if self._expired() else self._end(Outcome.FAIL, error="Its time was over.")
        if asked or ending.code == EXIT_RELEASE:
            return self._end(Outcome.RELEASE)
        return self._end(Outcome.FAIL, error=self._error(ending))

    def _result(self, files: RunFiles) -> tuple[str | None, bool]:
        """The result as JSON, and whether the agent wrote it itself."""
        stdout = self._stdout.text()
        try:
            result = files.read_result()
        except ValueError as error:
            self._tell("bad_result", f"left a result that cannot be kept: {error}")
            return json.dumps({"stdout": stdout, "problem": f"INTERLOCK_RESULT: {error}"}), True
        if result is not None:
            return result, True
        return json.dumps({"stdout": stdout}) if stdout else None, False

    def _error(self, ending: Ending) -> str:
        how = f"Exit code {ending.code}."
        if ending.code < 0:
            known = {number.value: number.name for number in signal.Signals}
            how = f"Killed by {known.get(-ending.code, f'signal {-ending.code}')}."
        return f"{how}\n{self._both.text()}".strip()

    def _expired(self) -> bool:
        """Wait until the store ends the run because its time is over; false if it does not."""
        assert self._expires_s is not None
        for _ in range(EXPIRE_TRIES):
            time.sleep(max(EXPIRE_AGAIN_S, self._expires_s - now_s()))
            with contextlib.suppress(InterlockError):
                self._job.service.sweep()
                if ended_run(self._job.service, item=self.item.id, run=self.fence) is not None:
                    return True
        return False

    def _lose(self, why: str) -> None:
        """The lease is gone. Where the agent reported its own end it may end in peace, else it is killed."""
        ended = reported_run(self._job.service, item=self.item.id, run=self.fence)
        with self._changed:
            if self.state in ("reporting", "over"):
                return
            self._lost = why
            self._reported = ended.status if ended is not None else None
            self._give_up.set()
            self._changed.notify_all()
            agent = self._agent
        if agent is not None and ended is not None:
            agent.stop()
        elif agent is not None:
            agent.kill()

    def _leave(self, *, succeeded: bool) -> None:
        """Put the worktree's work in safety and remove it; if that does not work, it stays."""
        if self._files is None:
            return
        try:
            kept = self._job.workspaces.close(self._files, succeeded=succeeded, told=self._salvage)
        except (InterlockError, OSError) as error:
            self._cleared = False
            self._tell("stays", f"left its worktree behind: {error}")
            return
        if kept is not None:
            self._tell("salvaged", f"left work that was not pushed, kept as {kept.ref}", ref=kept.ref)
        if kept is not None and kept.left_out:
            path = str(self._job.workspaces.path_of(self._files))
            self._tell(
                "stays", f"left its worktree behind: {kept.rest} could not be kept; see {path}", path=path
            )

    def _end(self, outcome: Outcome, *, result: str | None = None, error: str | None = None) -> End:
        return End(
            outcome=outcome,
            run=self.handle,
            fence=self.fence,
            item=self.item.id,
            store=self._job.home.store,
            result=result,
            error=error,
        )

    def _trust_until_s(self) -> float:
        until_s = self._sent_s + self._ladder.trust_s(self._lease_s)
        return until_s if self._timeout_s is None else min(until_s, self._timeout_s)

    def _timed_out(self) -> bool:
        return self._timeout_s is not None and self._timeout_s <= now_s()

    def _tell(self, kind: str, text: str, **data: Any) -> None:
        self._host.tell(self._notice(kind, f"Run {self.fence} {text}", **data))

    def _notice(self, kind: str, text: str, **data: Any) -> Notice:
        return Notice(kind=kind, text=text, run=self.fence, item=self.item.id, lane=self.item.lane, data=data)
