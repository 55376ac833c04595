"""A worker: claims items for an agent and runs a command for each, one in each slot at once.

The claim loop runs in the caller's thread. One heartbeat renews all leases, and each run has its own thread
(`WorkerRun`). A slot is free again once the store has acknowledged the end of its run.

Draining: the worker claims no more, and ends when its runs have ended. On a second request, it stops its runs
through the cancel ladder and releases their items. On a third, it kills them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shlex
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from interlock.core.errors import (
    CommandUnusable,
    Exit,
    FenceAhead,
    InterlockError,
    InvalidInput,
    NoRemote,
    NotAllowed,
    NoToken,
    RemoteUnavailable,
    StoreRefused,
    StoreReplaced,
)
from interlock.core.names import BATCH_MAX, check_name, needed_agent
from interlock.process.clock import now_s
from interlock.process.command import SupervisedCommand, check_command, not_in_worktree
from interlock.process.heartbeat import Heartbeat
from interlock.process.provider_limits import LimitRules
from interlock.process.reaction import ReactionDisplay
from interlock.process.workplace import workplace
from interlock.service.contract import LeaseView, RunView, Service
from interlock.worker.log import prune
from interlock.worker.log_sharing import LogSharing
from interlock.worker.presence import WorkerPresence
from interlock.worker.recovery import Recovery
from interlock.worker.reporter import Answer, Reporter, reported_run
from interlock.worker.run import WorkerRun
from interlock.worker.rundirectory import Home, Trace
from interlock.worker.salvage import SalvageResult
from interlock.worker.spool import RunEnd
from interlock.worker.status_lines import (
    StatusLine,
    drain_line,
    end_line,
    refused_line,
    unanswered_lines,
    unsaved_line,
)
from interlock.worker.worktrees import Workspaces

#: How long one claim waits for work. A drained idle worker ends within this time.
CLAIM_WAIT_S = 1.0
#: The pause after a claim that failed because the store was unreachable.
CLAIM_AGAIN_FIRST_S, CLAIM_AGAIN_MAX_S = 0.25, 5.0
#: How often to clean up after dead runs on this host.
CLEAR_EVERY_S = 30.0
#: The most characters of its command that a worker prints when it starts.
_COMMAND_CHARS = 80
#: How long an ending worker waits for an unreachable store, and then for its last try. After that it leaves
#: results in the spool, and abandons calls to the store.
LEAVE_AFTER_S, LAST_TRY_S = 5.0, 5.0
#: The most idle supervisors that wait for a command, so that a run begins at once.
WARM_MAX = 4
#: The pause in claiming after this machine could not start a run.
PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 60.0
#: How many such faults in a row end a worker with `exit_when_idle`.
TRIES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of a worker: the items that it claims, and the command that it runs."""

    agent: str
    command: tuple[str, ...]
    slots: int = 1
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    lease_s: float | None = None
    worktree: bool = False
    #: End after this many runs.
    limit: int | None = None
    #: End when nothing runs and nothing can be claimed.
    exit_when_idle: bool = False
    #: What to do at a provider's limit that the output of a command names.
    limits: LimitRules = field(default_factory=LimitRules)
    #: How often new output of runs is sent to the store; 0 for never.
    log_share_s: float = 0.0
    #: The reaction that shows others that a run works; None for no reaction.
    shown: Callable[[LeaseView], ReactionDisplay | None] = lambda _: None
    #: Reports the account that a run writes with.
    report_account: Callable[[LeaseView], None] = lambda _: None


class FaultPause:
    """The pause while a fault of the set-up lasts, in claiming or on one lane.

    If the remote is unreachable, a worktree cannot be made or the disk is full, other items would fail too.
    If another store uses the lane, other items on the lane would. The pause grows until a run has passed the
    point of the fault. Callers must hold the worker's lock.
    """

    def __init__(self) -> None:
        #: The fault; None once it has passed.
        self.error: InterlockError | None = None
        #: Whether the command met it, rather than the worker before the command's start.
        self.within = False
        #: How many times in a row it was met.
        self.times = 0
        self._pause_s = self._until_s = 0.0

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - now_s())

    def begin(self, error: InterlockError, *, within: bool) -> bool:
        """Pause for twice as long as the last time; returns whether this fault is new.

        Runs that were claimed together fail together, and lengthen the pause only once.
        """
        new = self.error is None or self.error.code != error.code
        if self.error is None or not self.left_s:
            self._pause_s = min(max(2 * self._pause_s, PAUSE_FIRST_S), PAUSE_MAX_S)
            self._until_s = now_s() + self._pause_s
            self.times += 1
        self.error, self.within = error, within
        return new

    def end(self, *, within: bool) -> bool:
        """Note that a run's command has started, or with `within`, has ended; returns whether that ends a
        pause."""
        if self.error is None or (self.within and not within):
            return False
        self.error, self._pause_s, self._until_s, self.times = None, 0.0, 0.0, 0
        return True


class Worker:
    """One worker process. `run` returns when the worker is drained or has finished its work."""

    def __init__(
        self,
        service: Service,
        options: WorkerOptions,
        *,
        home: Home,
        url: str,
        tell: Callable[[StatusLine], None],
        echo: Callable[[int, bytes], None],
        unwanted: Callable[[LeaseView], str | None] = lambda _: None,
        salvaged: Callable[[int, int, str], None] = lambda _item, _run, _ref: None,
    ) -> None:
        """`tell` gets status lines, `echo` the output of commands. Neither may block.

        `unwanted` is called before a command starts. If the run is no longer wanted, it cancels the item and
        gives the reason. `salvaged` gets an item, its run and the ref of the run's salvage, perhaps more than
        once.
        """
        self.options = options
        self.name = incarnation()
        self.tell = tell
        self.echo = echo
        self.unwanted = unwanted
        self.service = service
        self.home = home
        #: The URL of the store, valid for a command in any directory.
        self.url = url
        self.workspaces = Workspaces(home, kept=lambda trace, ref: salvaged(trace.item, trace.run, ref))
        self.recovery = Recovery(home, self.workspaces, salvaged=self._salvaged, left=self._tell_left)
        self._changed = threading.Condition()
        self._runs: dict[int, WorkerRun] = {}
        self._idle: list[SupervisedCommand] = []
        self._started = 0
        self._asked_to_end = 0
        self._failed: Exception | None = None
        self._troubles: set[str] = set()
        #: Whether a claim waits for the store's answer.
        self._claiming = False
        #: Since when the store has not answered the last claim of a draining worker.
        self._silent_since_s: float | None = None
        self._pause = FaultPause()
        #: The trial run, which shows whether the fault has passed.
        self._trial: int | None = None
        #: Lanes on which no run can start, because of their own faults.
        self._lane_pauses: dict[str, FaultPause] = {}

    def runs(self) -> list[WorkerRun]:
        """The runs that have a slot, oldest first."""
        with self._changed:
            return list(self._runs.values())

    @property
    def draining(self) -> bool:
        return self._asked_to_end > 0

    def run(self) -> int:
        """Work until drained; returns the exit code."""
        self._check()
        self.home.make()
        if self.options.worktree:
            self.home.make_worktrees()
        self.heartbeat = Heartbeat(
            self.service,
            lambda: [run.live for run in self.runs()],
            trouble=lambda error: self._trouble("renew", error),
            crashed=self.give_up,
        )
        self.reporter = Reporter(
            self.service,
            self.home,
            worker=self.name,
            trouble=lambda error: self._trouble("report", error),
            unkept=lambda end, error: self.tell(unsaved_line(end, error)),
            refused=lambda end, error: self.tell(refused_line(end, error)),
            answered=lambda end, answer: self.tell_end(end, answer, None),
            crashed=self.give_up,
        )
        self.presence = WorkerPresence(
            self.service,
            name=self.name,
            folder=str(self.home.root),
            agent=self.options.agent,
            slots=self.options.slots,
            runs=lambda: len(self.runs()),
        )
        self.log_sharing = LogSharing(
            self.service, lambda: [run.shared for run in self.runs()], self.options.log_share_s
        )
        self.heartbeat.start()
        self.log_sharing.start()
        self.reporter.start()
        self.presence.start()
        self.tell(StatusLine(kind="ready", text=self._start_line(), data={"worker": self.name}))
        try:
            self._claim()
        except BaseException:
            for run in self.runs():
                run.kill()
            raise
        finally:
            self._wait_for_slots()
            self._end()
        if self.options.exit_when_idle and not self.draining:
            # Idle, but not because of a lack of items.
            self._failed = self._failed or self._pause.error or self._lane_error()
        if self._failed is not None:
            raise self._failed
        idle = self._started == 0 and self.options.exit_when_idle and not self.draining
        return Exit.NO_WORK if idle else Exit.OK

    def drain(self) -> None:
        """Claim no more. The second call stops the runs and releases their items. The third call kills
        them."""
        with self._changed:
            self._asked_to_end += 1
            self._changed.notify_all()
            asked, runs = self._asked_to_end, list(self._runs.values())
        ended = sum(run.state == "reporting" for run in runs)
        self.tell(drain_line(asked, len(runs) - ended, ended))
        for run in runs:
            if asked == 2:
                run.stop("the worker was asked to stop")
            elif asked > 2:
                run.kill()

    # -- for its runs -------------------------------------------------------------------------------

    def take_command(self) -> SupervisedCommand:
        """Take a supervisor without a command, made ahead of time if possible."""
        with self._changed:
            self._changed.notify_all()  # the claim loop creates the next one
            if self._idle:
                return self._idle.pop(0)
        return SupervisedCommand()

    def end_pauses(self, run: WorkerRun, *, within: bool = False) -> None:
        """Note that a command has started or, with `within`, has ended without a fault of the set-up."""
        lane = run.item.lane or ""
        with self._changed:
            recovered = self._pause.end(within=within)
            on_lane = lane in self._lane_pauses and self._lane_pauses[lane].end(within=within)
            if on_lane:
                del self._lane_pauses[lane]
            self._changed.notify_all()
        if recovered:
            self.tell(StatusLine(kind="recovered", text="Runs can be started again."))
        if on_lane:
            text = f"Runs on {lane} can be started again."
            self.tell(StatusLine(kind="recovered", text=text, run=run.fence, item=run.item.id, lane=lane))

    def pause_after_fault(self, run: WorkerRun, error: InterlockError | OSError) -> float:
        """Pause after a run's fault of the set-up: in claiming, or only on its lane if the fault is the
        lane's.

        Returns the item's wait. A run that was not started does not count.
        """
        problem, lane = _machine_error(error), run.item.lane
        tell = partial(StatusLine, run=run.fence, item=run.item.id, lane=lane)
        with self._changed:
            self._started -= not run.started
        if problem.code == FenceAhead.code:  # already repaired
            self.tell(tell(kind="not_started", text=f"Run {run.fence} is given back: {problem.sentence}"))
            return 0.0
        on_lane = lane is not None and problem.setup == "lane"
        with self._changed:
            pause = self._lane_pauses.setdefault(lane, FaultPause()) if on_lane and lane else self._pause
            new = pause.begin(problem, within=run.started)
            left_s = pause.left_s
        if new:
            where = f"on {lane} " if on_lane else ""
            text = (
                f"Run {run.fence} hit a set-up fault: {problem} Nothing is claimed {where}until it is fixed."
                f" Next retry in {left_s:.0f} s, later ones back off up to {PAUSE_MAX_S:.0f} s."
            )
            self.tell(tell(kind="hindered", text=text))
        return left_s if on_lane else 0.0

    def _lane_error(self) -> InterlockError | None:
        with self._changed:
            return next((pause.error for pause in self._lane_pauses.values()), None)

    def wait_for_last_claim(self) -> None:
        """If the worker drains, wait until its last claim has ended: that would take an item which is given
        back now, and no command would start."""
        with self._changed:
            while self.draining and self._claiming:
                self._changed.wait()

    def tell_end(self, end: RunEnd, answer: Answer, lane: str | None) -> None:
        """Print the store's answer to an end."""
        refused = not isinstance(answer, RunView) or answer.refusal is not None
        earlier = reported_run(self.service, item=end.item, run=end.fence) if refused else None
        self.tell(end_line(end, answer, earlier, lane))

    def free_slot(self, run: WorkerRun) -> None:
        """Free the slot of a run."""
        with self._changed:
            self._runs.pop(run.fence, None)
            self._changed.notify_all()
            idle = not self._runs
        if idle:  # failed renewals no longer matter
            self._trouble("renew", None)

    def _check(self) -> None:
        """Raise, before anything is claimed, if the options cannot be satisfied."""
        needed_agent(self.options.agent)
        for what, names in (("type", self.options.types), ("label", self.options.labels)):
            for name in names:
                check_name(what, name)
        check_command(self.options.command, here=not self.options.worktree)
        if self.options.worktree:
            self.workspaces.check()
            program = self.options.command[0]
            if "/" in program and not Path(program).exists() and not self.workspaces.has(program):
                raise not_in_worktree(program)
            for rest in self.workspaces.forget():
                text = f"Files of an earlier run cannot be deleted, though all are kept; see {rest}"
                self.tell(StatusLine(kind="stays", text=text, data={"path": str(rest)}))

    # -- claiming -----------------------------------------------------------------------------------

    def _claim(self) -> None:
        cleared_s, again_s, answered = -CLEAR_EVERY_S, 0.0, False
        while self._may_claim():
            if time.monotonic() - cleared_s >= CLEAR_EVERY_S:
                cleared_s = time.monotonic()
                self.recovery.clear()
                prune(self.home.logs)
            if self._has_too_many_faults:
                return
            if not self._pause_is_over():
                continue
            sent_s = now_s()
            try:
                leases = self._next()
            except (InvalidInput, StoreReplaced):
                raise
            except (NoToken, NotAllowed) as error:
                self._give_up_on_token(error)
                return
            except InterlockError as error:
                if isinstance(error, StoreRefused) and not answered:
                    raise
                self._trouble("claim", error)
                again_s = min(max(2 * again_s, CLAIM_AGAIN_FIRST_S), CLAIM_AGAIN_MAX_S)
                with self._changed:
                    self._changed.wait(again_s)
                continue
            again_s, answered = 0.0, True
            self._trouble("claim", None)
            if not leases and self.options.exit_when_idle and not self.runs():
                return
            self._start_runs(leases, sent_s)

    def _may_claim(self) -> bool:
        """Wait for a free slot; false if the worker must not claim any more."""
        with self._changed:
            while not self.draining and (len(self._runs) >= self.options.slots or self._at_limit_for_now):
                self._warm_up()
                self._changed.wait()
            self._warm_up()
            return not self.draining and self.options.limit != self._started

    @property
    def _at_limit_for_now(self) -> bool:
        """Whether the last run of the limit is starting. If its start fails, it does not count."""
        starting = any(run.state == "starting" for run in self._runs.values())
        return self.options.limit == self._started and starting

    def _pause_is_over(self) -> bool:
        """Wait until a pause has ended, then check whether the remote answers; false if not.

        One trial item shows whether the fault has passed. Until then no other is claimed.
        """
        with self._changed:
            while not self.draining and self._pause.error and (self._pause.left_s or self._trial_is_running):
                self._changed.wait(self._pause.left_s or None)
            error = self._pause.error
            if error is None or self.draining:
                return not self.draining
        missing = error.code == NoRemote.code
        if self.options.worktree or missing or error.code == RemoteUnavailable.code:
            try:
                self.workspaces.check_remote(required=missing)
            except InterlockError as still:
                with self._changed:
                    self._pause.begin(still, within=self._pause.within)
                return False
        return True

    @property
    def _has_too_many_faults(self) -> bool:
        """Whether a worker with `exit_when_idle` has met too many faults, and nothing runs."""
        with self._changed:
            return self.options.exit_when_idle and not self._runs and self._pause.times >= TRIES_MAX

    @property
    def _trial_is_running(self) -> bool:
        """Whether the trial run after a fault is still undecided."""
        return self._trial in self._runs

    def _next(self) -> list[LeaseView]:
        with self._changed:
            free = self.options.slots - len(self._runs)
            if self._pause.error is not None:
                free = min(free, 1)
            at_work = bool(self._runs)
        if self.options.limit is not None:
            free = min(free, self.options.limit - self._started)
        claim = partial(
            self.service.next,
            self.options.agent,
            types=self.options.types,
            labels=self.options.labels,
            limit=min(free, BATCH_MAX),
            wait_s=0.0 if self.options.exit_when_idle and not at_work else CLAIM_WAIT_S,
            lease_s=self.options.lease_s,
            worker=self.name,
        )
        return self._claim_unless_draining(claim)

    def _claim_unless_draining(self, claim: Callable[[], list[LeaseView]]) -> list[LeaseView]:
        """Claim, but abandon the call if the store is unreachable while the worker drains.

        An item that the abandoned call still claims is not started, and its lease expires.
        """
        claimed: Future[list[LeaseView]] = Future()

        def work() -> None:
            try:
                claimed.set_result(claim())
            except BaseException as error:
                claimed.set_exception(error)
            with self._changed:
                self._changed.notify_all()

        since_s: float | None = None
        with self._changed:
            self._claiming = True
            threading.Thread(target=work, name="interlock-claim", daemon=True).start()
            try:
                while not claimed.done():
                    since_s = (since_s or time.monotonic()) if self.draining else None
                    left_s = None if since_s is None else since_s + LEAVE_AFTER_S - time.monotonic()
                    if left_s is not None and left_s <= 0:
                        self._silent_since_s = since_s
                        return []
                    self._changed.wait(left_s)
            finally:
                self._claiming = False
                self._changed.notify_all()
        return claimed.result()

    def _start_runs(self, leases: list[LeaseView], sent_s: float) -> None:
        for lease in leases:
            with self._changed:
                taken = {other.slot for other in self._runs.values()}
                slot = next(n for n in range(1, self.options.slots + 1) if n not in taken)
                run = WorkerRun(self, lease, sent_s, slot)
                self._runs[lease.fence] = run
                self._started += 1
                self._trial = lease.fence if self._pause.error else None
            if self.draining:  # asked to end during the claim
                run.stop("the worker is draining")
            run.start()
        if leases:
            self.heartbeat.hurry()

    def _warm_up(self) -> None:
        """Create supervisors for the free slots, or for the next free slot."""
        free = self.options.slots - len(self._runs)
        with contextlib.suppress(OSError):  # the machine is at its limits: the run itself reports it
            while len(self._idle) < min(max(free, 1), WARM_MAX):
                self._idle.append(SupervisedCommand())

    # -- ending -------------------------------------------------------------------------------------

    def _wait_for_slots(self) -> None:
        """Wait until all runs have ended in the store, for a bounded time if only the store is
        unreachable."""
        owing_since_s = self._silent_since_s
        with self._changed:
            while self._runs:
                owing = all(run.state == "reporting" for run in self._runs.values())
                owing_since_s = (owing_since_s or time.monotonic()) if owing else None
                if owing_since_s is not None and time.monotonic() - owing_since_s > LEAVE_AFTER_S:
                    return
                self._changed.wait(0.5)

    def _end(self) -> None:
        deadline_s = time.monotonic() + LAST_TRY_S

        def left_s() -> float:
            return max(0.0, deadline_s - time.monotonic())

        self.reporter.leave()
        self.heartbeat.stop(left_s())
        self.log_sharing.stop(0)
        for run in self.runs():
            run.join(left_s())
        self.reporter.close(left_s())
        self.presence.stop(left_s())
        for command in self._idle:
            command.close()
        for line in unanswered_lines(
            [run.fence for run in self.runs()], self.home.spool, self.reporter.unkept
        ):
            self.tell(line)
        self.tell(StatusLine(kind="stopped", text=f"Stopped. Runs started: {self._started}."))

    # -- status lines ---------------------------------------------------------------------------

    def _start_line(self) -> str:
        slots = "1 slot" if self.options.slots == 1 else f"{self.options.slots} slots"
        command = shlex.join(self.options.command)
        if len(command) > _COMMAND_CHARS:
            command = command[: _COMMAND_CHARS - 1] + "…"
        return f"Worker {self.name} works for {self.options.agent.strip()} in {slots}: {command}"

    def give_up(self, error: Exception) -> None:
        """Start no more runs, and end with this error. After a defect, also stop the runs."""
        with self._changed:
            self._asked_to_end += self._failed is None
            self._failed = self._failed or error
            self._changed.notify_all()
        if isinstance(error, CommandUnusable | NoToken | NotAllowed):
            return  # current runs may finish
        for run in self.runs():
            run.stop("the worker failed")

    def report_outage(self, what: str | None) -> None:
        """Report an outage of the store as `StoreOutage` does. None means that it answers again."""
        with self._changed:
            before = bool(self._troubles)
            if what is None:
                self._troubles.clear()
            else:
                self._troubles.add("store")
        if (what is None) == before:
            self._tell_trouble(what and f"{what}.")

    def _tell_trouble(self, what: str | Exception | None) -> None:
        if what is None:
            self.tell(StatusLine(kind="recovered", text="The store answers again."))
        else:
            self.tell(StatusLine(kind="trouble", text=f"{what} Trying again."))

    def _give_up_on_token(self, error: NoToken | NotAllowed) -> None:
        """End the worker: the server refuses its token, and a worker never gets another one."""
        first, at_work = self._failed is None, any(run.state != "reporting" for run in self.runs())
        self.give_up(error)
        if first and at_work:
            text = f"{error} No more items are claimed; current runs continue until their leases expire."
            self.tell(StatusLine(kind="trouble", text=text))

    def _trouble(self, what: str, error: Exception | None) -> None:
        if isinstance(error, StoreReplaced):
            self.give_up(error)
            return
        if isinstance(error, NoToken | NotAllowed):
            self._give_up_on_token(error)
            return
        with self._changed:
            before = bool(self._troubles)
            (self._troubles.discard if error is None else self._troubles.add)(what)
            after = bool(self._troubles)
        if before != after:
            self._tell_trouble(error)

    def _salvaged(self, trace: Trace, kept: SalvageResult) -> None:
        whose = partial(StatusLine, run=trace.run, item=trace.item, lane=trace.lane)
        text = f"Run {trace.run} had left work that was not pushed; it is kept as {kept.ref}"
        self.tell(whose(kind="salvaged", text=text, data={"ref": kept.ref}))
        if kept.left_out:
            path = str(kept.worktree)
            text = f"Run {trace.run} had left its worktree behind: {kept.rest} could not be kept; see {path}"
            self.tell(whose(kind="stays", text=text, data={"path": path}))

    def _tell_left(self, trace: Trace, text: str, path: str) -> None:
        text = f"Run {trace.run} {text}"
        self.tell(
            StatusLine(
                kind="stays", text=text, run=trace.run, item=trace.item, lane=trace.lane, data={"path": path}
            )
        )


def _machine_error(error: InterlockError | OSError) -> InterlockError:
    """The error as a sentence, also if it is a system error."""
    if isinstance(error, InterlockError):
        return error
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InterlockError(f"There is no space left on the disk{where}.", "Free some space.")
    return InterlockError(
        f"The system refused: {(error.strerror or str(error)).lower()}{where}.",
        "Look for missing permissions or a limit that is reached.",
    )


def incarnation() -> str:
    """A globally unique name for this process."""
    return f"{workplace(os.environ)}-{os.getpid()}-{secrets.token_hex(4)}"
