"""A worker: claims items for an agent and runs a command for each, as many at once as it has slots.

The claim loop is the caller's thread. One heartbeat renews all leases, and each run has a thread of its own
(`WorkerRun`). A slot is free again once the store has acknowledged the end of its run.

Draining: the worker claims no more, and ends when its runs have ended. Asked a second time, it stops its runs
through the cancel ladder and releases their items; a third time, it kills them.
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
from dataclasses import dataclass
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
from interlock.process.sign import Shown
from interlock.process.workplace import workplace
from interlock.service.contract import LeaseView, RunView, Service
from interlock.worker.log import prune
from interlock.worker.notices import (
    Notice,
    drain_notice,
    end_notice,
    left_notices,
    refused_notice,
    unkept_notice,
)
from interlock.worker.presence import Presence
from interlock.worker.recovery import Recovery
from interlock.worker.reports import Answer, Reporter, reported_run
from interlock.worker.run import WorkerRun
from interlock.worker.rundirectory import Home, Trace
from interlock.worker.salvage import Kept
from interlock.worker.spool import RunEnd
from interlock.worker.worktrees import Workspaces

#: How long one claim waits for work. An idle worker that is drained ends within this time.
CLAIM_WAIT_S = 1.0
#: The pause after a claim that failed because the store was away.
CLAIM_AGAIN_FIRST_S, CLAIM_AGAIN_MAX_S = 0.25, 5.0
#: How often to clear away what dead runs left on this host.
CLEAR_EVERY_S = 30.0
#: How much of its command a worker prints when it starts.
_COMMAND_CHARS = 80
#: How long a worker that ends waits for a store that is away, and how long for the last try after that. Then
#: it leaves results in the spool, and calls to the store unanswered.
LEAVE_AFTER_S, LAST_TRY_S = 5.0, 5.0
#: How many supervisors wait for a command, so that a run begins at once.
WARM_MAX = 4
#: The pause in claiming after this machine could not start a run.
PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 60.0
#: How often a worker that ends when it is idle meets such a fault in a row before it ends.
TRIES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a worker should do."""

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
    #: How a run shows to others that it is at work; None if it does not.
    shown: Callable[[LeaseView], Shown | None] = lambda _: None
    #: Reports the account that a run writes with.
    acting: Callable[[LeaseView], None] = lambda _: None


class FaultPause:
    """The pause while a fault of the set-up lasts, in claiming or on one lane.

    The remote is away, a worktree cannot be made, the disk is full: another item would fail in the same way.
    Another store uses the lane: another item on it would. The pause grows until a run has come past the point
    where the fault was. Callers must hold the worker's lock.
    """

    def __init__(self) -> None:
        #: The fault; None once it is over.
        self.error: InterlockError | None = None
        #: Whether a command met it, and not the worker before the command's start.
        self.within = False
        #: How often it was met in a row.
        self.times = 0
        self._pause_s = self._until_s = 0.0

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - now_s())

    def begin(self, error: InterlockError, *, within: bool) -> bool:
        """Pause for twice as long as the last time; returns whether this fault is new.

        Runs that were claimed together fail together; they lengthen the pause only once.
        """
        new = self.error is None or self.error.code != error.code
        if self.error is None or not self.left_s:
            self._pause_s = min(max(2 * self._pause_s, PAUSE_FIRST_S), PAUSE_MAX_S)
            self._until_s = now_s() + self._pause_s
            self.times += 1
        self.error, self.within = error, within
        return new

    def end(self, *, within: bool) -> bool:
        """A run has come as far as its command's start, or with `within` through it; returns whether that
        ends a pause."""
        if self.error is None or (self.within and not within):
            return False
        self.error, self._pause_s, self._until_s, self.times = None, 0.0, 0.0, 0
        return True


class Worker:
    """One process at work. `run` returns when the worker was drained, or has done what it should."""

    def __init__(
        self,
        service: Service,
        wish: Wish,
        *,
        home: Home,
        url: str,
        tell: Callable[[Notice], None],
        echo: Callable[[int, bytes], None],
        unwanted: Callable[[LeaseView], str | None] = lambda _: None,
        salvaged: Callable[[int, int, str], None] = lambda _item, _run, _ref: None,
    ) -> None:
        """`tell` gets notices, `echo` the output of commands; neither may wait.

        `unwanted` is asked before a command starts: why it must not, for which it has cancelled the item.
        `salvaged` gets an item, a run of it that left work, and the ref of that work, perhaps more than once.
        """
        self.wish = wish
        self.name = incarnation()
        self.tell = tell
        self.echo = echo
        self.unwanted = unwanted
        self.service = service
        self.home = home
        #: The store, as a command can reach it from any directory.
        self.url = url
        self.workspaces = Workspaces(home, kept=lambda trace, ref: salvaged(trace.item, trace.run, ref))
        self.recovery = Recovery(home, self.workspaces, salvaged=self._salvaged, left=self._left)
        self._changed = threading.Condition()
        self._runs: dict[int, WorkerRun] = {}
        self._idle: list[SupervisedCommand] = []
        self._started = 0
        self._asked_to_end = 0
        self._failed: Exception | None = None
        self._troubles: set[str] = set()
        #: Since when the store has not answered the last claim of a worker that is drained.
        self._silent_since_s: float | None = None
        self._pause = FaultPause()
        #: The run that shows whether the fault is over.
        self._trial: int | None = None
        #: Lanes on which nothing can be started, because of faults of their own.
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
        if self.wish.worktree:
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
            unkept=lambda end, error: self.tell(unkept_notice(end, error)),
            refused=lambda end, error: self.tell(refused_notice(end, error)),
            answered=lambda end, answer: self.tell_end(end, answer, None),
            crashed=self.give_up,
        )
        self.presence = Presence(
            self.service,
            name=self.name,
            folder=str(self.home.root),
            agent=self.wish.agent,
            slots=self.wish.slots,
            runs=lambda: len(self.runs()),
        )
        self.heartbeat.start()
        self.reporter.start()
        self.presence.start()
        self.tell(Notice(kind="ready", text=self._greeting(), data={"worker": self.name}))
        try:
            self._claim()
        except BaseException:
            for run in self.runs():
                run.kill()
            raise
        finally:
            self._wait_for_slots()
            self._end()
        if self.wish.exit_when_idle and not self.draining:
            # Idle, but not for lack of items.
            self._failed = self._failed or self._pause.error or self._lane_error()
        if self._failed is not None:
            raise self._failed
        idle = self._started == 0 and self.wish.exit_when_idle and not self.draining
        return Exit.NO_WORK if idle else Exit.OK

    def drain(self) -> None:
        """Claim no more; a second time: stop the runs and release their items; a third time: kill them."""
        with self._changed:
            self._asked_to_end += 1
            self._changed.notify_all()
            asked, runs = self._asked_to_end, list(self._runs.values())
        ended = sum(run.state == "reporting" for run in runs)
        self.tell(drain_notice(asked, len(runs) - ended, ended))
        for run in runs:
            if asked == 2:
                run.stop("the worker was asked to stop")
            elif asked > 2:
                run.kill()

    # -- for its runs -------------------------------------------------------------------------------

    def take_command(self) -> SupervisedCommand:
        """A supervisor without a command, one made ahead of time if there is one."""
        with self._changed:
            self._changed.notify_all()  # the claim loop makes the next one
            if self._idle:
                return self._idle.pop(0)
        return SupervisedCommand()

    def passed(self, run: WorkerRun, *, within: bool = False) -> None:
        """A command has started or, with `within`, has ended without a fault of the set-up."""
        lane = run.item.lane or ""
        with self._changed:
            recovered = self._pause.end(within=within)
            on_lane = lane in self._lane_pauses and self._lane_pauses[lane].end(within=within)
            if on_lane:
                del self._lane_pauses[lane]
            self._changed.notify_all()
        if recovered:
            self.tell(Notice(kind="recovered", text="Runs can be started again."))
        if on_lane:
            text = f"Runs on {lane} can be started again."
            self.tell(Notice(kind="recovered", text=text, run=run.fence, item=run.item.id, lane=lane))

    def hindered(self, run: WorkerRun, error: InterlockError | OSError) -> float:
        """A fault of the set-up met a run: pause in claiming, or on its lane if only that has the fault.

        Returns how long the item must wait. A run that was not started does not count.
        """
        problem, lane = _machine_error(error), run.item.lane
        tell = partial(Notice, run=run.fence, item=run.item.id, lane=lane)
        with self._changed:
            self._started -= not run.started
        if problem.code == FenceAhead.code:  # mended already
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
                f"Run {run.fence} met a fault of the set-up: {problem} Nothing is claimed {where}until that"
                f" is over. The next try is in {left_s:.0f} s, later ones after up to {PAUSE_MAX_S:.0f} s."
            )
            self.tell(tell(kind="hindered", text=text))
        return left_s if on_lane else 0.0

    def _lane_error(self) -> InterlockError | None:
        with self._changed:
            return next((pause.error for pause in self._lane_pauses.values()), None)

    def tell_end(self, end: RunEnd, answer: Answer, lane: str | None) -> None:
        """Say what the store answered to an end."""
        refused = not isinstance(answer, RunView) or answer.refusal is not None
        earlier = reported_run(self.service, item=end.item, run=end.fence) if refused else None
        self.tell(end_notice(end, answer, earlier, lane))

    def over(self, run: WorkerRun) -> None:
        """The run needs its slot no more."""
        with self._changed:
            self._runs.pop(run.fence, None)
            self._changed.notify_all()
            idle = not self._runs
        if idle:  # renewals that failed are of no matter any more
            self._trouble("renew", None)

    def _check(self) -> None:
        """Raise, before anything is claimed, if the wish cannot be fulfilled."""
        needed_agent(self.wish.agent)
        for what, names in (("type", self.wish.types), ("label", self.wish.labels)):
            for name in names:
                check_name(what, name)
        check_command(self.wish.command, here=not self.wish.worktree)
        if self.wish.worktree:
            self.workspaces.check()
            program = self.wish.command[0]
            if "/" in program and not Path(program).exists() and not self.workspaces.has(program):
                raise not_in_worktree(program)
            for rest in self.workspaces.forget():
                text = f"Files of an earlier run cannot be deleted, though all are kept; see {rest}"
                self.tell(Notice(kind="stays", text=text, data={"path": str(rest)}))

    # -- claiming -----------------------------------------------------------------------------------

    def _claim(self) -> None:
        cleared_s, again_s, answered = -CLEAR_EVERY_S, 0.0, False
        while self._may_claim():
            if time.monotonic() - cleared_s >= CLEAR_EVERY_S:
                cleared_s = time.monotonic()
                self.recovery.clear()
                prune(self.home.logs)
            if self._hopeless:
                return
            if not self._pause_is_over():
                continue
            sent_s = now_s()
            try:
                leases = self._next()
            except (InvalidInput, StoreReplaced):
                raise
            except (NoToken, NotAllowed) as error:
                self._unentitled(error)
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
            if not leases and self.wish.exit_when_idle and not self.runs():
                return
            self._begin(leases, sent_s)

    def _may_claim(self) -> bool:
        """Wait for a free slot; false when there is nothing more to claim."""
        with self._changed:
            while not self.draining and (len(self._runs) >= self.wish.slots or self._at_limit_for_now):
                self._warm_up()
                self._changed.wait()
            self._warm_up()
            return not self.draining and self.wish.limit != self._started

    @property
    def _at_limit_for_now(self) -> bool:
        """Whether the last run of the limit is being started: if that fails, it does not count."""
        starting = any(run.state == "starting" for run in self._runs.values())
        return self.wish.limit == self._started and starting

    def _pause_is_over(self) -> bool:
        """Wait until a pause is over, then check whether the remote answers; false if not.

        One item shows whether the fault is over: until then no other is claimed.
        """
        with self._changed:
            while not self.draining and self._pause.error and (self._pause.left_s or self._tried_out):
                self._changed.wait(self._pause.left_s or None)
            error = self._pause.error
            if error is None or self.draining:
                return not self.draining
        missing = error.code == NoRemote.code
        if self.wish.worktree or missing or error.code == RemoteUnavailable.code:
            try:
                self.workspaces.reach(required=missing)
            except InterlockError as still:
                with self._changed:
                    self._pause.begin(still, within=self._pause.within)
                return False
        return True

    @property
    def _hopeless(self) -> bool:
        """Whether a worker that should end when it is idle has met a fault too often, and nothing runs."""
        with self._changed:
            return self.wish.exit_when_idle and not self._runs and self._pause.times >= TRIES_MAX

    @property
    def _tried_out(self) -> bool:
        """Whether the item that was claimed to see if a fault is over has not shown it yet."""
        return self._trial in self._runs

    def _next(self) -> list[LeaseView]:
        with self._changed:
            free = self.wish.slots - len(self._runs)
            if self._pause.error is not None:
                free = min(free, 1)
            at_work = bool(self._runs)
        if self.wish.limit is not None:
            free = min(free, self.wish.limit - self._started)
        claim = partial(
            self.service.next,
            self.wish.agent,
            types=self.wish.types,
            labels=self.wish.labels,
            limit=min(free, BATCH_MAX),
            wait_s=0.0 if self.wish.exit_when_idle and not at_work else CLAIM_WAIT_S,
            lease_s=self.wish.lease_s,
            worker=self.name,
        )
        return self._unless_leaving(claim)

    def _unless_leaving(self, claim: Callable[[], list[LeaseView]]) -> list[LeaseView]:
        """Claim, unless the store is away as the worker is drained: then the call is left alone.

        What it may still claim is not started; its lease runs out.
        """
        claimed: Future[list[LeaseView]] = Future()

        def work() -> None:
            try:
                claimed.set_result(claim())
            except BaseException as error:
                claimed.set_exception(error)
            with self._changed:
                self._changed.notify_all()

        threading.Thread(target=work, name="interlock-claim", daemon=True).start()
        since_s: float | None = None
        with self._changed:
            while not claimed.done():
                since_s = (since_s or time.monotonic()) if self.draining else None
                left_s = None if since_s is None else since_s + LEAVE_AFTER_S - time.monotonic()
                if left_s is not None and left_s <= 0:
                    self._silent_since_s = since_s
                    return []
                self._changed.wait(left_s)
        return claimed.result()

    def _begin(self, leases: list[LeaseView], sent_s: float) -> None:
        for lease in leases:
            with self._changed:
                taken = {other.slot for other in self._runs.values()}
                slot = next(n for n in range(1, self.wish.slots + 1) if n not in taken)
                run = WorkerRun(self, lease, sent_s, slot)
                self._runs[lease.fence] = run
                self._started += 1
                self._trial = lease.fence if self._pause.error else None
            if self.draining:  # asked to end while the claim was on its way
                run.stop("the worker is draining")
            run.start()
        if leases:
            self.heartbeat.hurry()

    def _warm_up(self) -> None:
        """Make supervisors for the free slots, or for the next slot that will be free."""
        free = self.wish.slots - len(self._runs)
        with contextlib.suppress(OSError):  # a machine at its limits: the run itself will report it
            while len(self._idle) < min(max(free, 1), WARM_MAX):
                self._idle.append(SupervisedCommand())

    # -- ending -------------------------------------------------------------------------------------

    def _wait_for_slots(self) -> None:
        """Wait until all runs have ended in the store, for a bounded time if only the store is missing."""
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
        for run in self.runs():
            run.join(left_s())
        self.reporter.close(left_s())
        self.presence.stop(left_s())
        for command in self._idle:
            command.close()
        for notice in left_notices([run.fence for run in self.runs()], self.home.spool, self.reporter.unkept):
            self.tell(notice)
        self.tell(Notice(kind="stopped", text=f"Stopped. Runs started: {self._started}."))

    # -- notices --------------------------------------------------------------------------------------

    def _greeting(self) -> str:
        slots = "1 slot" if self.wish.slots == 1 else f"{self.wish.slots} slots"
        command = shlex.join(self.wish.command)
        if len(command) > _COMMAND_CHARS:
            command = command[: _COMMAND_CHARS - 1] + "…"
        return f"Worker {self.name} works for {self.wish.agent.strip()} in {slots}: {command}"

    def give_up(self, error: Exception) -> None:
        """Start nothing more and end with this error; after a defect also stop the runs."""
        with self._changed:
            self._asked_to_end += self._failed is None
            self._failed = self._failed or error
            self._changed.notify_all()
        if isinstance(error, CommandUnusable | NoToken | NotAllowed):
            return  # what runs may finish
        for run in self.runs():
            run.stop("the worker failed")

    def missing_store(self, what: str | None) -> None:
        """The store is away, as `Absence` says it, or with None it is back, and so are all who use it."""
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
            self.tell(Notice(kind="recovered", text="The store answers again."))
        else:
            self.tell(Notice(kind="trouble", text=f"{what} Trying again."))

    def _unentitled(self, error: NoToken | NotAllowed) -> None:
        """The server takes nothing from this token, and a worker never gets another one."""
        first, at_work = self._failed is None, any(run.state != "reporting" for run in self.runs())
        self.give_up(error)
        if first and at_work:
            text = f"{error} Nothing more is claimed; what runs may go on until its lease ends."
            self.tell(Notice(kind="trouble", text=text))

    def _trouble(self, what: str, error: Exception | None) -> None:
        if isinstance(error, StoreReplaced):
            self.give_up(error)
            return
        if isinstance(error, NoToken | NotAllowed):
            self._unentitled(error)
            return
        with self._changed:
            before = bool(self._troubles)
            (self._troubles.discard if error is None else self._troubles.add)(what)
            after = bool(self._troubles)
        if before != after:
            self._tell_trouble(error)

    def _salvaged(self, trace: Trace, kept: Kept) -> None:
        whose = partial(Notice, run=trace.run, item=trace.item, lane=trace.lane)
        text = f"Run {trace.run} had left work that was not pushed; it is kept as {kept.ref}"
        self.tell(whose(kind="salvaged", text=text, data={"ref": kept.ref}))
        if kept.left_out:
            path = str(kept.worktree)
            text = f"Run {trace.run} had left its worktree behind: {kept.rest} could not be kept; see {path}"
            self.tell(whose(kind="stays", text=text, data={"path": path}))

    def _left(self, trace: Trace, text: str, path: str) -> None:
        text = f"Run {trace.run} {text}"
        self.tell(
            Notice(
                kind="stays", text=text, run=trace.run, item=trace.item, lane=trace.lane, data={"path": path}
            )
        )


def _machine_error(error: InterlockError | OSError) -> InterlockError:
    """The error as a sentence, also if it is the system's own."""
    if isinstance(error, InterlockError):
        return error
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InterlockError(f"There is no space left on the disk{where}.", "Free some space.")
    return InterlockError(
        f"The system refuses: {(error.strerror or str(error)).lower()}{where}.",
        "Look for missing permissions or a limit that is reached.",
    )


def incarnation() -> str:
    """A name for this process that no other process ever has."""
    return f"{workplace(os.environ)}-{os.getpid()}-{secrets.token_hex(4)}"
