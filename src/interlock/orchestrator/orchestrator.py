"""A plan whose tasks are Python callables: `Orchestrator(plan, executors={…}, editor=…).run()`.

Everything that matters is in the store. An orchestrator that is killed loses nothing but the work of its live
runs, whose leases run out; another, given the plan's id, goes on from there, at the same time or later. It
claims only tasks of its own plan, one by one, so that any number of orchestrators and workers, in one process
or many, do not disturb each other.

It does not promise that a callable runs once: execution is at least once when a process dies. And it cannot
stop a plain function; one that no longer owns its task works in vain.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import interlock as package
from interlock.core.errors import InvalidInput, ItemEnded
from interlock.core.names import agent_key, check_number, safe_name
from interlock.orchestrator.caller import Call, Caller
from interlock.orchestrator.calls import RunCalls
from interlock.orchestrator.edits import SWEEP_EVERY_S, EditMonitor
from interlock.orchestrator.events import KINDS, Listener, Listeners, PlanEvent, Watch
from interlock.orchestrator.frontier import Frontier, Kind
from interlock.orchestrator.requests import CallableRun, EditRequest, Incident, TaskRun
from interlock.plans.planfile import NewPlan, plan_of
from interlock.process.clock import now_s
from interlock.process.heartbeat import Heartbeat
from interlock.process.reports import STORE_AWAY
from interlock.service.contract import RunView
from interlock.service.itemview import ItemView
from interlock.service.planview import EditView, PlanView, RevisionView, TaskView

if TYPE_CHECKING:
    from interlock.client import Interlock

#: How often it looks at the whole plan: others may have ended a task, or time something.
POLL_S = 0.5
INCIDENTS_KEPT = 1_000
#: How many times longer than a look itself the pause until the next is, at least.
LOOKS_SHARE = 10
#: A look that takes less needs no pause after it.
SHORT_LOOK_S = 0.05
#: How often it looks while somebody else edits.
EDITING_POLL_S = 0.1
EDITING_LOOKS_SHARE = 3
#: The name of the editor of a plan that is made without one.
EDITOR = "editor"


class Orchestrator(EditMonitor):
    """Runs one plan. `executors` are callables by the name of the agent whose tasks they do.

    A task without an agent goes to the first executor that may take it. An executor is given a `TaskRun`
    and returns the result, which must be JSON; it fails by raising. The editor is given an `EditRequest`
    and returns operations, a graph, or nothing for "no change". Both may be `async`.
    """

    def __init__(
        self,
        plan: int | NewPlan | Mapping[str, Any],
        *,
        executors: Mapping[str, Callable[[TaskRun], Any]],
        editor: Callable[[EditRequest], Any] | None = None,
        interlock: Interlock | None = None,
        max_concurrency: int = 8,
        lease_s: float | None = None,
    ) -> None:
        """`plan` is a plan's id, or a new plan as its file would have it. Without `interlock`, the store is
        the one that `interlock.connect()` finds, and is closed with the orchestrator."""
        check_number("number of tasks at once", max_concurrency, 1, 1_000)
        self._executors = {agent_key(name): function for name, function in executors.items()}
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
        #: How many runs at once those agents may have that have a limit; null if nobody had to know since.
        self._limits: dict[str, int] | None = None
        self._at_work = threading.Lock()
        self._sweep_s = 0.0
        self._incidents: deque[Incident] = deque(maxlen=INCIDENTS_KEPT)
        self._caller = Caller()
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
            crashed=self._heart_failed,
        )
        self._calls = RunCalls(self._service, self._caller, self._heartbeat, self._note)
        try:
            view = self._service.plan(plan) if isinstance(plan, int) else self._create(plan)
            if editor is not None and view.editor is None:
                raise InvalidInput(f"Plan {view.id} has no editor.", "Name one when the plan is created.")
        except BaseException:
            self.close()
            raise
        super().__init__(self._service, view.id, actor=self._client.actor)
        self._watch = Watch(view.id)
        self._learn(view)

    def _create(self, plan: NewPlan | Mapping[str, Any]) -> PlanView:
        """Make the plan. Its agents are made known first: a plan may name none that nobody knows."""
        new = plan if isinstance(plan, NewPlan) else plan_of(plan, types=self._client.types)
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.close()

    def close(self) -> None:
        """End the own event loop, and give back the connections if they are its own."""
        self._caller.close()
        if self._owns_client:
            self._client.close()

    # -- running ----------------------------------------------------------------------------------

    def run(self, *, timeout_s: float | None = None) -> PlanView:
        """Work until the plan has ended; answers how it stands.

        After `timeout_s`, or `stop`, nothing more is claimed, and it returns when what runs has ended.
        """
        if not self._at_work.acquire(blocking=False):
            raise InvalidInput("This orchestrator runs already.", "Make another one for the same plan.")
        self._heartbeat.start()
        try:
            return self._work_off(None if timeout_s is None else now_s() + timeout_s)
        finally:
            self._heartbeat.stop()
            self._listeners.wait()
            self._stopping = False
            self._at_work.release()

    async def run_async(self, *, timeout_s: float | None = None) -> PlanView:
        """The same for `async` programs: `async` callables run on the caller's event loop.

        If it is cancelled, so are they, and their tasks are given back.
        """
        self._caller.use(asyncio.get_running_loop())
        work = asyncio.create_task(asyncio.to_thread(self.run, timeout_s=timeout_s))
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
        """Claim nothing more; `run` returns when what runs has ended. May be called from any thread.

        Called while it does not run, it holds for the next time.
        """
        with self._changed:
            self._stopping = self._news = True
            self._changed.notify_all()

    def _work_off(self, until_s: float | None) -> PlanView:
        while True:
            if until_s is not None and now_s() >= until_s:
                self._stopping = True
            try:
                self._take_in()
                if now_s() >= self._look_s:
                    self._look()
                if self._frontier.view.ended_at is not None:
                    return self._frontier.view
                if self._stopping and not self._live():
                    self._look()
                    return self._frontier.view
                if not self._stopping and self._start():
                    self._heartbeat.hurry()
            except STORE_AWAY as error:
                self._note("store", "look", error)
                self._look_s = now_s() + POLL_S
            next_s = self._look_s if until_s is None or self._stopping else min(self._look_s, until_s)
            with self._changed:
                self._changed.wait_for(lambda: self._news, max(0.0, next_s - now_s()))
                self._news = False

    def _heart_failed(self, error: Exception) -> None:
        """Nothing renews the leases any more: whatever is claimed from here on would be lost."""
        self._note("orchestrator", "heartbeat", error)
        self.stop()

    def _look(self) -> None:
        """Look at the whole plan, and move what time must move. The larger the plan, the rarer."""
        began_s = now_s()
        if began_s >= self._sweep_s:
            self._sweep_s = began_s + SWEEP_EVERY_S
            self._service.sweep()
        self._learn(self._service.plan(self.plan_id))
        self._limits = self._asked_limits() if self._limits else None
        self._looked_s = now_s() - began_s
        self._look_s = now_s() + max(POLL_S, LOOKS_SHARE * self._looked_s)

    def _look_within(self, span_s: float) -> None:
        """Look again before the usual time, yet not all the time."""
        self._look_s = min(self._look_s, now_s() + max(span_s, self._looked_s - SHORT_LOOK_S))

    def _learn(self, view: PlanView) -> None:
        self._frontier = Frontier.of(view, self._known)
        self._tell(self._watch.looked(view, self._revisions))

    def _take_in(self) -> None:
        """What has ended since: tasks make others ready, edits change the plan."""
        if not self._ends:
            return
        self._frontier.room()
        while self._ends:
            key, answer = self._ends.popleft()
            if key is not None and isinstance(answer, RunView) and answer.item is not None:
                self._tell(self._watch.met(key, answer.item))
                if answer.item.ended_at is not None:
                    self._frontier.ended(key)
                else:
                    self._expect_again(answer.item)
            elif isinstance(answer, EditView) and answer.revision == self._frontier.view.revision:
                self._frontier.editing = answer.editing
                self._frontier.offer(answer.ready)
            else:
                self._look_within(0)
        if self._frontier.empty and not self._live():
            self._look_within(0)

    def _expect_again(self, item: ItemView) -> None:
        """A task comes back when its back-off is over; by our clock, which need not be right about that."""
        pause_s = 0.0 if item.run_at is None else (item.run_at - datetime.now(UTC)).total_seconds()
        self._sweep_s = min(self._sweep_s, now_s() + pause_s)
        self._look_within(pause_s)

    def _tell(self, events: Iterable[PlanEvent]) -> None:
        for event in events:
            self._listeners.tell(event)

    def _revisions(self, after: int) -> list[RevisionView]:
        return self._service.plan_history(self.plan_id, after=after)

    # -- claiming ---------------------------------------------------------------------------------

    def _start(self) -> bool:
        """Claim what may be claimed and there is room for; whether anything was."""
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
        """Claim a task, for the first agent that can have it; whose run it is. `runs` are ours, by agent."""
        agents = tuple(self._executors) if task.agent is None else (task.agent,)
        for agent in agents:
            if not self._has_room(agent, runs):
                continue
            run = self._claimed(agent, task.item)
            if run is not None:
                frontier.had(task)
                self._tell(self._watch.met(task.key, run.lease.item))
                before = frontier.items_before(task.key)
                given = TaskRun(frontier.view, task.key, run, self._service, before)
                executor = self._executors[agent]
                self._call(task.key, run, partial(self._calls.task, run, executor, given))
                return agent
        if self._limits is None:
            self._limits = self._asked_limits()
        full = [agent for agent in agents if not self._has_room(agent, runs)]
        if len(full) == len(agents):
            frontier.no_room(task)
        else:
            frontier.in_vain(task, again=bool(full))
        return None

    def _has_room(self, agent: str, runs: Mapping[str, int]) -> bool:
        """False only if runs of this orchestrator alone reach its limit; the store knows about others."""
        return runs.get(agent, 0) < (self._limits or {}).get(agent, self._slots)

    def _asked_limits(self) -> dict[str, int]:
        return {agent.key: agent.max for agent in self._service.agents() if agent.max is not None}

    def _start_edit(self, view: PlanView) -> bool:
        """Claim the edit that the plan waits for, if it is ours to make and nobody has begun."""
        editor, by = self._editor, view.editor
        if editor is not None and by is not None:
            for item in self._edit_asked():
                run = self._claimed(by, item.id)
                if run is not None:
                    self._call(None, run, partial(self._calls.edit, run, editor, by))
                    return True
        if not any(run.is_edit for run in self._live()):
            # Somebody else edits, or has edited.
            self._look_within(max(EDITING_POLL_S, EDITING_LOOKS_SHARE * self._looked_s))
        return False

    def _claimed(self, agent: str, item: int) -> CallableRun | None:
        """A run of exactly this item, if it can be had now."""
        try:
            sent_s = now_s()
            leases = self._service.next(agent, item=item, lease_s=self._lease_s, worker=self._worker)
        except ItemEnded:
            return None
        return CallableRun(leases[0], sent_s) if leases else None

    def _live(self) -> list[CallableRun]:
        """The runs of this process. A callable that has lost its own counts no more; it works in vain."""
        with self._changed:
            return [run for run in self._runs.values() if run.live.lost is None]

    def _call(self, key: str | None, run: CallableRun, call: Callable[[], RunView | EditView | None]) -> None:
        """Let a callable work in a thread of its own. It does not keep the process from ending."""
        fence = run.lease.fence
        with self._changed:
            self._runs[fence] = run

        def work() -> None:
            answer = None
            try:
                answer = call()
            except BaseException as error:  # a defect of ours: the run is lost when its lease runs out
                self._note("orchestrator", run.lease.item.title, error)
            finally:
                with self._changed:
                    del self._runs[fence]
                    self._ends.append((key, answer))
                    self._news = True
                    self._changed.notify_all()

        threading.Thread(target=work, name=f"interlock-run-{fence}", daemon=True).start()

    # -- telling -----------------------------------------------------------------------------------

    def listen(self, listener: Listener, *kinds: str) -> None:
        """Tell a function, plain or `async`, of events of these kinds, or of all. It is called in a thread of
        its own; one that is `async` is awaited where `async` callables are."""
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown:
            raise InvalidInput(f"There is no event {unknown[0]!r}.", f"There are {', '.join(KINDS)}.")
        self._listeners.add(listener, frozenset(kinds or KINDS))

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """What was raised in callables and by the store, the newest 1,000."""
        return tuple(self._incidents)

    def _note(self, where: str, about: str, error: BaseException) -> None:
        self._incidents.append(Incident(where=where, about=about, error=error))
