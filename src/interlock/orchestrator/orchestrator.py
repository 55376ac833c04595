"""A plan whose tasks are Python callables: `Orchestrator(plan, executors={…}, editor=…).run()`.

All state is in the store. An orchestrator that is killed loses only the work of its live runs, whose leases
end; another one with the plan's id goes on from there, at the same time or later. It claims only tasks of its
own plan, one by one, so any number of orchestrators and workers can share a plan.

Not promised: that a callable runs once. Execution is at least once when a process dies. And a plain function
cannot be stopped; after its run has lost its lease, its result is refused.
"""

from __future__ import annotations

import asyncio
import math
import os
import reprlib
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import interlock as package
from interlock.core.errors import InvalidInput, ItemEnded, StoreBusy
from interlock.core.model import PlanId
from interlock.core.names import (
    LEASE_MAX_S,
    LEASE_MIN_S,
    agent_key,
    check_number,
    check_whole,
    safe_name,
)
from interlock.core.plans.model import plan_lane
from interlock.orchestrator.caller import Call, FunctionCaller, in_thread, is_async
from interlock.orchestrator.calls import Editor, Executor, RunCalls
from interlock.orchestrator.events import (
    CYCLE_KINDS,
    KINDS,
    CycleWatch,
    Listener,
    Listeners,
    PlanEvent,
    Watch,
)
from interlock.orchestrator.frontier import Frontier, Kind
from interlock.orchestrator.requests import AsyncTaskRun, CallableRun, Incident, TaskRun
from interlock.plans.planfile import NewPlan, plan_of
from interlock.process.clock import now_s
from interlock.process.heartbeat import Heartbeat
from interlock.process.report_queue import RETRYABLE_ERRORS
from interlock.service.contract import ItemFilter, RunView
from interlock.service.item_view import ItemView
from interlock.service.plan_view import EditView, PlanView, RevisionView, TaskView

if TYPE_CHECKING:
    from interlock.client import Interlock

#: How often to look at the whole plan: other processes may have ended a task, or a task may be due.
POLL_S = 0.5
SWEEP_EVERY_S = 1.0
INCIDENTS_KEPT = 1_000
#: The pause between two looks is at least this many times as long as a look takes.
LOOKS_SHARE = 10
#: A look that takes less than this needs no pause after it.
SHORT_LOOK_S = 0.05
#: How often to look while another process edits.
EDITING_POLL_S = 0.1
EDITING_LOOKS_SHARE = 3
#: How often `wait_for_pending` looks.
PENDING_POLL_S = 0.02
#: How many lines of the history to read at once.
LINES = 1_000
#: How long to wait at the end for lines that other transactions hold back.
LAST_LINES_S = 5.0
#: How long to wait at the end for listeners that do not return.
LISTENERS_WAIT_S = 5.0
#: How long an editor waits until listeners have received its batch.
ANNOUNCING_S = 1.0
#: The default name of a plan's editor.
EDITOR = "editor"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditStatistics:
    """How the plan's edits went, in its whole life, by any process."""

    #: Ends of tasks that were registered for the editor. One edit may answer several of them.
    registered: int
    answered: int
    #: Edits.
    total: int
    completed: int
    timed_out: int
    refused: int
    #: Asked for and never made: their runs failed for good, or an operator cancelled them.
    failed: int
    rebased: int
    #: How long edit cycles were open, all together.
    lock_s: float


class Orchestrator:
    """Runs one plan. `executors` are callables by the name of the agent whose tasks they do.

    A task without an agent goes to the first executor that may take it. An executor is given a `TaskRun`
    and returns the result, which must be JSON; it fails by raising. The editor is given an `EditRequest`
    and returns operations, a graph, or nothing for "no change". Both may be `async`: they are then given an
    `AsyncTaskRun` and an `AsyncEditRequest`. `async with` has an `AsyncOrchestrator`, for programs that are.
    """

    def __init__(
        self,
        plan: int | NewPlan | Mapping[str, Any],
        *,
        executors: Mapping[str, Executor],
        editor: Editor | None = None,
        interlock: Interlock | None = None,
        max_concurrency: int = 8,
        lease_s: float | None = None,
    ) -> None:
        """`plan` is a plan's id, or a new plan as in a plan file. Without `interlock`, the store is the one
        that `interlock.connect()` finds, and it is closed with the orchestrator."""
        check_whole("number of tasks at once", max_concurrency, 1, 1_000)
        if lease_s is not None:
            check_number("lease", lease_s, LEASE_MIN_S, LEASE_MAX_S)
        self._executors = _executors_by_agent(executors)
        if editor is not None:
            _check_callable("editor", editor)
        self._editor = editor
        self._slots = max_concurrency
        self._lease_s = lease_s
        self._worker = safe_name(f"{socket.gethostname()}-{os.getpid()}")
        self._runs: dict[int, CallableRun] = {}
        self._changed = threading.Condition()
        self._news = self._stopping = False
        self._ends: deque[tuple[str | None, RunView | EditView | None]] = deque()
        self._look_s = self._looked_s = 0.0
        self._known: set[Kind] = set()
        #: The limits of agents that have one; None until a claim needs them.
        self._limits: dict[str, int] | None = None
        self._at_work = threading.Lock()
        self._sweep_s = 0.0
        self._incidents: deque[Incident] = deque(maxlen=INCIDENTS_KEPT)
        self._caller = FunctionCaller()
        self._listeners = Listeners(
            lambda listener, event: self._caller.call(Call(), listener, event),
            lambda event, error: self._note("listener", event.kind, error),
        )
        self._client = interlock or package.connect()
        self._owns_client = interlock is None
        self._service = self._client.service
        self._heartbeat = Heartbeat(
            self._service,
            lambda: [run.live for run in self._live()],
            trouble=lambda error: None if error is None else self._note("store", "renew", error),
            crashed=self._heartbeat_failed,
        )
        self._calls = RunCalls(self._service, self._caller, self._heartbeat, self._note, self._announce)
        try:
            view = self._service.plan(plan) if isinstance(plan, int) else self._create(plan)
            if editor is not None and view.editor is None:
                raise InvalidInput(f"Plan {view.id} has no editor.", "Name one when the plan is created.")
        except BaseException:
            self.close()
            raise
        self.plan_id = view.id
        self._watch = Watch(view.id)
        #: The reader of the history, once a listener wants cycle events.
        self._cycles: CycleWatch | None = None
        self._reading = threading.Lock()
        self._update(view)

    def _create(self, plan: NewPlan | Mapping[str, Any]) -> PlanView:
        """Create the plan, and its agents before it: a plan may name only known agents."""
        il = self._client
        new = plan if isinstance(plan, NewPlan) else plan_of(plan, types=il.types, lanes=il.lanes)
        editor = new.editor or (EDITOR if self._editor is not None else "")
        known = {agent.key for agent in self._service.agents()}
        for name in {*self._executors, *([agent_key(editor)] if self._editor is not None else ())} - known:
            self._service.set_agent(name, by=self._client.actor)
        return self._service.create_plan(
            new.name,
            new.graph,
            editor=editor,
            edit_deadline_s=new.edit_deadline_s,
            project=new.project,
            by=self._client.actor,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.close()

    async def __aenter__(self) -> AsyncOrchestrator:
        return AsyncOrchestrator(self)

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await in_thread(self.close)

    def close(self) -> None:
        """Stop the own event loop, and close the store if the orchestrator opened it."""
        self._caller.close()
        if self._owns_client:
            self._client.close()

    # -- running ----------------------------------------------------------------------------------

    def run(self, *, timeout_s: float | None = None) -> PlanView:
        """Work until the plan has ended; returns the plan.

        After `timeout_s`, or `stop`, it claims nothing more and returns when its runs have ended.
        """
        _check_timeout(timeout_s)
        if not self._at_work.acquire(blocking=False):
            raise InvalidInput(
                "This orchestrator is already running.", "Create another one for the same plan."
            )
        self._heartbeat.start()
        try:
            return self._loop(None if timeout_s is None else now_s() + timeout_s)
        finally:
            self._heartbeat.stop()
            self._listeners.wait(LISTENERS_WAIT_S)
            self._stopping = False
            self._at_work.release()

    async def run_async(self, *, timeout_s: float | None = None) -> PlanView:
        """`run` for `async` programs: `async` callables run on the caller's event loop.

        If it is cancelled, so are they, and their tasks are released.
        """
        self._caller.use(asyncio.get_running_loop())
        work = asyncio.create_task(in_thread(self.run, timeout_s=timeout_s))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.stop()
            for run in self._live():
                run.call.cancel()
            await work
            raise
        finally:
            self._caller.use(None)

    def stop(self) -> None:
        """Claim nothing more; `run` returns when its runs have ended. Any thread may call this.

        A call between two runs stops the next one.
        """
        with self._changed:
            self._stopping = self._news = True
            self._changed.notify_all()

    def _loop(self, until_s: float | None) -> PlanView:
        while True:
            if until_s is not None and now_s() >= until_s:
                self._stopping = True
            try:
                self._handle_ends()
                if now_s() >= self._look_s:
                    self._look()
                if self._frontier.view.ended_at is not None:
                    self._read_last_events()
                    return self._frontier.view
                if self._stopping and not self._live():
                    self._look()
                    return self._frontier.view
                if not self._stopping and self._start():
                    self._heartbeat.hurry()
            except RETRYABLE_ERRORS as error:
                self._note("store", "look", error)
                self._look_s = now_s() + POLL_S
            next_s = self._look_s if until_s is None or self._stopping else min(self._look_s, until_s)
            with self._changed:
                self._changed.wait_for(lambda: self._news, max(0.0, next_s - now_s()))
                self._news = False

    def _heartbeat_failed(self, error: Exception) -> None:
        """Leases are no longer renewed, so new claims would be lost."""
        self._note("orchestrator", "heartbeat", error)
        self.stop()

    def _look(self) -> None:
        """Look at the whole plan, and sweep. Larger plans are looked at less often."""
        began_s = now_s()
        if began_s >= self._sweep_s:
            self._sweep_s = began_s + SWEEP_EVERY_S
            self._service.sweep()
        self._update(self._service.plan(self.plan_id))
        self._limits = self._asked_limits() if self._limits else None
        self._looked_s = now_s() - began_s
        self._look_s = now_s() + max(POLL_S, LOOKS_SHARE * self._looked_s)

    def _look_within(self, span_s: float) -> None:
        """Look again sooner than usual, but not all the time."""
        self._look_s = min(self._look_s, now_s() + max(span_s, self._looked_s - SHORT_LOOK_S))

    def _update(self, view: PlanView) -> None:
        self._frontier = Frontier.of(view, self._known)
        self._tell(self._watch.looked(view, self._revisions))
        self._tell_of_cycles()

    def _handle_ends(self) -> None:
        """Handle the ends since the last call: tasks make others ready, edits change the plan."""
        if not self._ends:
            return
        self._frontier.run_ended()
        while self._ends:
            key, answer = self._ends.popleft()
            if key is not None and isinstance(answer, RunView) and answer.item is not None:
                self._tell(self._watch.task_seen(key, answer.item))
                if answer.item.ended_at is not None:
                    self._frontier.ended(key)
                else:
                    self._schedule_look(answer.item)
            elif isinstance(answer, EditView) and answer.revision == self._frontier.view.revision:
                self._frontier.editing = answer.editing
                self._frontier.offer(answer.ready)
            else:
                self._look_within(0)
        self._tell_of_cycles()
        if self._frontier.empty and not self._live():
            self._look_within(0)

    def _schedule_look(self, item: ItemView) -> None:
        """Look when a task's back-off has expired by our clock, which may differ from the store's."""
        pause_s = 0.0 if item.run_at is None else (item.run_at - datetime.now(UTC)).total_seconds()
        self._sweep_s = min(self._sweep_s, now_s() + pause_s)
        self._look_within(pause_s)

    def _tell(self, events: Iterable[PlanEvent]) -> None:
        for event in events:
            self._listeners.tell(event)

    def _tell_of_cycles(self) -> None:
        """Report the edit cycles in the history since the last look."""
        if self._cycles is None:
            return
        with self._reading:
            last, full = self._last_line(), True
            while full:
                lines = self._service.events(after=self._cycles.after, lane=self._lane, limit=LINES)
                self._tell(self._cycles.read(lines, self._batch))
                full = len(lines) == LINES
            self._cycles.after = max(self._cycles.after, last)

    def _announce(self, run: int) -> None:
        """Deliver `cycle.batch` of our own editor's run to listeners, within a bounded time. Neither the
        history nor a slow listener may make the edit miss its deadline."""
        if self._cycles is None:
            return
        give_up_s = now_s() + ANNOUNCING_S
        with suppress(*RETRYABLE_ERRORS):
            self._tell_of_cycles()
            while self._cycles.run < run and now_s() < give_up_s:
                time.sleep(PENDING_POLL_S)
                self._tell_of_cycles()
        self._listeners.wait(give_up_s - now_s())

    def _read_last_events(self) -> None:
        """Read how the last cycle closed. The history shows a line only when no earlier line can appear."""
        give_up_s = now_s() + LAST_LINES_S
        while self._cycles is not None and self._cycles.open and now_s() < give_up_s:
            time.sleep(PENDING_POLL_S)
            self._tell_of_cycles()

    def _batch(self, run: int) -> tuple[str, ...]:
        """The ends that an editor's run answers: given to it here, or still waiting while it runs."""
        given = self._calls.batches
        if run in given:
            return given.pop(run)
        cycle = self.view().cycle
        return cycle.pending if cycle is not None and cycle.run == run else given.pop(run, ())

    def _last_line(self) -> int:
        return max((line.seq for line in self._service.events(newest=True, limit=1)), default=0)

    def _revisions(self, after: int) -> list[RevisionView]:
        return self._service.plan_history(self.plan_id, after=after)

    # -- claiming ---------------------------------------------------------------------------------

    def _start(self) -> bool:
        """Claim ready tasks while there is room; returns whether anything was claimed."""
        frontier = self._frontier
        if frontier.editing:
            return self._start_edit(frontier.view)
        started = False
        live = self._live()
        at_work = {run.lease.item.id for run in live}
        runs = Counter(run.agent for run in live if not run.is_edit)
        while len(at_work) < self._slots and not self._stopping:
            task = next(frontier.ready(), None)
            if task is None:
                break
            if task.item in at_work or (task.agent and task.agent not in self._executors):
                continue
            agent = self._start_task(frontier, task, runs)
            if agent is not None:
                started = True
                at_work.add(task.item)
                runs[agent] += 1
        return started

    def _start_task(self, frontier: Frontier, task: TaskView, runs: Mapping[str, int]) -> str | None:
        """Claim a task for the first agent that can get it; returns the agent. `runs` are ours, by agent."""
        agents = tuple(self._executors) if task.agent is None else (task.agent,)
        for agent in agents:
            if not self._has_room(agent, runs):
                continue
            run = self._claimed(agent, task.item)
            if run is not None:
                frontier.claimed(task)
                self._tell(self._watch.task_seen(task.key, run.lease.item))
                before = frontier.items_before(task.key)
                executor = self._executors[agent]
                kind = AsyncTaskRun if is_async(executor) else TaskRun
                given = kind(frontier.view, task.key, run, self._service, before, self._caller)
                self._call(task.key, run, partial(self._calls.task, run, executor, given))
                return agent
        if self._limits is None:
            self._limits = self._asked_limits()
        full = [agent for agent in agents if not self._has_room(agent, runs)]
        if len(full) == len(agents):
            frontier.agents_full(task)
        else:
            frontier.missed(task, again=bool(full))
        return None

    def _has_room(self, agent: str, runs: Mapping[str, int]) -> bool:
        """False only if our own runs reach the agent's limit. The store counts the runs of other
        processes."""
        return runs.get(agent, 0) < (self._limits or {}).get(agent, self._slots)

    def _asked_limits(self) -> dict[str, int]:
        return {agent.key: agent.max for agent in self._service.agents() if agent.max is not None}

    def _start_edit(self, view: PlanView) -> bool:
        """Claim the edit that the plan waits for, if we have an editor and no process has claimed it."""
        editor, by = self._editor, view.editor
        if editor is not None and by is not None:
            for item in self._edit_asked():
                run = self._claimed(by, item.id)
                if run is not None:
                    self._call(None, run, partial(self._calls.edit, run, editor, by))
                    return True
        if not any(run.is_edit for run in self._live()):
            # Another process edits, or has edited.
            self._look_within(max(EDITING_POLL_S, EDITING_LOOKS_SHARE * self._looked_s))
        return False

    def _claimed(self, agent: str, item: int) -> CallableRun | None:
        """Claim exactly this item; None if it cannot be claimed now."""
        try:
            sent_s = now_s()
            leases = self._service.next(agent, item=item, lease_s=self._lease_s, worker=self._worker)
        except ItemEnded:
            return None
        return CallableRun(leases[0], sent_s) if leases else None

    def _live(self) -> list[CallableRun]:
        """The runs of this process that still have their lease."""
        with self._changed:
            return [run for run in self._runs.values() if run.live.lost is None]

    def _call(self, key: str | None, run: CallableRun, call: Callable[[], RunView | EditView | None]) -> None:
        """Call a callable in its own daemon thread, which does not keep the process alive."""
        fence = run.lease.fence
        with self._changed:
            self._runs[fence] = run

        def work() -> None:
            answer = None
            try:
                answer = call()
            except BaseException as error:  # a defect of ours: the run is lost when its lease expires
                self._note("orchestrator", run.lease.item.title, error)
            finally:
                with self._changed:
                    del self._runs[fence]
                    self._ends.append((key, answer))
                    self._news = True
                    self._changed.notify_all()

        threading.Thread(target=work, name=f"interlock-run-{fence}", daemon=True).start()

    # -- edits ------------------------------------------------------------------------------------

    def view(self) -> PlanView:
        """The plan as it is now."""
        self._refuse_on_loop("view")
        return self._service.plan(self.plan_id)

    def has_pending(self) -> bool:
        """Whether an edit cycle is open: ends of tasks wait for the editor, and no task is claimed."""
        self._refuse_on_loop("has_pending")
        return bool(self._edit_asked())

    def pending_task_ids(self) -> tuple[str, ...]:
        """The keys of the tasks whose ends wait for the editor, oldest first."""
        self._refuse_on_loop("pending_task_ids")
        cycle = self.view().cycle
        return () if cycle is None else cycle.pending

    def wait_for_pending(self, timeout_s: float | None = None) -> bool:
        """Wait until no edit cycle is open, of any editor; false if one still is after `timeout_s`."""
        self._refuse_on_loop("wait_for_pending")
        _check_timeout(timeout_s)
        began_s = sweep_s = now_s()
        while self.has_pending():
            now = now_s()
            if timeout_s is not None and now >= began_s + timeout_s:
                return False
            if now >= sweep_s:  # a passed deadline closes the cycle only at a sweep
                sweep_s = now + SWEEP_EVERY_S
                with suppress(StoreBusy):
                    self._service.sweep()
            else:
                time.sleep(PENDING_POLL_S)
        return True

    def statistics(self) -> EditStatistics:
        """How the plan's edits went."""
        self._refuse_on_loop("statistics")
        stats = self._service.plan_stats(self.plan_id)
        return EditStatistics(
            registered=stats.completions_registered,
            answered=stats.completions_answered,
            total=stats.edits_total,
            completed=stats.edits_completed,
            timed_out=stats.edits_timed_out,
            refused=stats.edits_refused,
            failed=stats.edits_failed,
            rebased=stats.edits_rebased,
            lock_s=stats.lock_s,
        )

    def set_timeout(self, edit_deadline_s: float) -> None:
        """How long the editor may take for an edit, from the oldest end that it has not answered."""
        self._refuse_on_loop("set_timeout")
        self._service.set_edit_deadline(self.plan_id, edit_deadline_s, by=self._client.actor)

    def _edit_asked(self) -> list[ItemView]:
        """The unfinished edit item. It exists exactly while a cycle is open."""
        return self._service.items(ItemFilter(lane=self._lane, limit=1))

    @property
    def _lane(self) -> str:
        return plan_lane(PlanId(self.plan_id))

    # -- events -----------------------------------------------------------------------------------

    def listen(self, listener: Listener, *kinds: str) -> None:
        """Call a function, plain or `async`, for events of these kinds, or of all. It is called in a thread
        of its own; an `async` one is awaited where `async` callables are."""
        _check_callable("listener", listener)
        self._refuse_on_loop("listen")
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            shown = reprlib.repr(unknown[0])
            raise InvalidInput(f"There is no event {shown}.", f"There are {', '.join(KINDS)}.")
        wanted = frozenset(kinds or KINDS)
        if self._cycles is None and self._frontier.view.editor is not None and wanted & {*CYCLE_KINDS}:
            self._cycles = CycleWatch(self.plan_id, self._last_line())
        self._listeners.add(listener, wanted)

    def _refuse_on_loop(self, name: str) -> None:
        instead = f"Use `async with Orchestrator(…) as orchestrator` and await `orchestrator.{name}()`."
        self._caller.refuse_on_loop(name, instead)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Errors that callables and the store raised, the newest 1,000."""
        return tuple(self._incidents)

    def _note(self, where: str, about: str, error: BaseException) -> None:
        self._incidents.append(Incident(where=where, about=about, error=error))


class AsyncOrchestrator:
    """The orchestrator for `async` programs: what reads or waits is awaited, in a thread that may block."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self.plan_id = orchestrator.plan_id

    async def run(self, *, timeout_s: float | None = None) -> PlanView:
        """Work until the plan has ended; `async` callables run on this event loop.

        If it is cancelled, so are they, and their tasks are released.
        """
        return await self._orchestrator.run_async(timeout_s=timeout_s)

    def stop(self) -> None:
        """Claim nothing more; `run` returns when its runs have ended."""
        self._orchestrator.stop()

    async def view(self) -> PlanView:
        """The plan as it is now."""
        return await in_thread(self._orchestrator.view)

    async def has_pending(self) -> bool:
        """Whether an edit cycle is open: ends of tasks wait for the editor, and no task is claimed."""
        return await in_thread(self._orchestrator.has_pending)

    async def pending_task_ids(self) -> tuple[str, ...]:
        """The keys of the tasks whose ends wait for the editor, oldest first."""
        return await in_thread(self._orchestrator.pending_task_ids)

    async def wait_for_pending(self, timeout_s: float | None = None) -> bool:
        """Wait until no edit cycle is open, of any editor; false if one still is after `timeout_s`."""
        return await in_thread(self._orchestrator.wait_for_pending, timeout_s)

    async def statistics(self) -> EditStatistics:
        """How the plan's edits went."""
        return await in_thread(self._orchestrator.statistics)

    async def set_timeout(self, edit_deadline_s: float) -> None:
        """How long the editor may take for an edit, from the oldest end that it has not answered."""
        await in_thread(self._orchestrator.set_timeout, edit_deadline_s)

    async def listen(self, listener: Listener, *kinds: str) -> None:
        """Call a function, plain or `async`, for events of these kinds, or of all."""
        await in_thread(self._orchestrator.listen, listener, *kinds)

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Errors that callables and the store raised, the newest 1,000."""
        return self._orchestrator.incidents


def _executors_by_agent(executors: object) -> dict[str, Executor]:
    """The executors by the keys of their agents."""
    if not isinstance(executors, Mapping):
        shown = reprlib.repr(executors)
        raise InvalidInput(f"The executors {shown} are not callables by agent.", 'Use {"coder": function}.')
    return {agent_key(name): _check_callable("executor", each) for name, each in executors.items()}


def _check_callable(what: str, value: object) -> Callable[..., Any]:
    if not callable(value):
        raise InvalidInput(f"The {what} {reprlib.repr(value)} cannot be called.", "Pass a function.")
    return value


def _check_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None:
        check_number("timeout", timeout_s, 0, math.inf)
