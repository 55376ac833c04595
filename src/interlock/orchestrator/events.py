"""Events of a plan for Python listeners. They cover all processes that work on the plan.

Task events come from comparing each look at the plan with the previous one. Each start and each end is
reported once, and both for a task that started and ended between two looks. Changes before the first look are
not reported. Cycle events come from the history of the plan's lane, in its order, starting with the call of
`listen`. Not promised: the order between the two kinds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from interlock.core.model import EventKind, Reason
from interlock.service.contract import EventView
from interlock.service.item_view import ItemView
from interlock.service.plan_view import PlanView, RevisionView, TaskView

TASK_STARTED, TASK_COMPLETED, TASK_FAILED = "task.started", "task.completed", "task.failed"
PLAN_MODIFIED = "plan.modified"
CYCLE_OPENED, CYCLE_BATCH, CYCLE_UNCHANGED = "cycle.opened", "cycle.batch", "cycle.unchanged"
CYCLE_EXPIRED, CYCLE_CLOSED = "cycle.expired", "cycle.closed"
CYCLE_KINDS = (CYCLE_OPENED, CYCLE_BATCH, CYCLE_UNCHANGED, CYCLE_EXPIRED, CYCLE_CLOSED)
KINDS = (TASK_STARTED, TASK_COMPLETED, TASK_FAILED, PLAN_MODIFIED, *CYCLE_KINDS)
_ENDS = {"completed": TASK_COMPLETED, "failed": TASK_FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvent:
    """One thing that happened. `key` is the task's; None for a plan or a cycle."""

    kind: str
    plan: int
    key: str | None
    at: datetime | None
    #: Of a task: item, attempt, agent, reason. Of the plan: revision, by, why, operations. Of a cycle: see
    #: `CycleWatch`.
    data: Mapping[str, Any]


#: A function, plain or `async`.
Listener = Callable[[PlanEvent], object]


@dataclass(slots=True)
class Watch:
    """Compares each look at a plan with the previous one."""

    plan: int
    #: The attempt, status and last known run of each task, by item.
    _tasks: dict[int, tuple[int, str, int | None]] = field(default_factory=dict)
    _revision: int | None = None

    def looked(self, view: PlanView, revisions: Callable[[int], list[RevisionView]]) -> Iterator[PlanEvent]:
        """The events since the last look at the whole plan. `revisions` reads those after a number."""
        first, known = self._revision is None, self._revision or 0
        self._revision = view.revision
        if not first and view.revision > known:
            for one in revisions(known):
                yield PlanEvent(kind=PLAN_MODIFIED, plan=self.plan, key=None, at=one.at, data=_modified(one))
        before, self._tasks = self._tasks, {}
        for task in view.tasks:
            if not first and task.item in before:
                self._tasks[task.item] = before[task.item]
            yield from self._seen(task.key, task.item, task, quietly=first)

    def task_seen(self, key: str, item: ItemView) -> Iterator[PlanEvent]:
        """The events of one task since it was last seen."""
        return self._seen(key, item.id, item)

    def _seen(
        self, key: str, number: int, task: TaskView | ItemView, *, quietly: bool = False
    ) -> Iterator[PlanEvent]:
        attempt, status, run = self._tasks.get(number, (0, "", None))
        self._tasks[number] = task.attempt, task.status, task.run or run
        if quietly:
            return
        data = {
            "item": number,
            "attempt": task.attempt,
            "agent": task.run_agent or task.agent,
            "reason": task.reason,
        }
        if task.attempt > attempt or task.run not in (None, run):
            at = task.started_at or task.first_claimed_at
            yield PlanEvent(kind=TASK_STARTED, plan=self.plan, key=key, at=at, data=data)
        if task.status in _ENDS and (task.attempt, task.status) != (attempt, status):
            yield PlanEvent(kind=_ENDS[task.status], plan=self.plan, key=key, at=task.ended_at, data=data)


@dataclass(slots=True)
class CycleWatch:
    """Reads what became of edit cycles from the lines of the plan's lane.

    ===================  =================================================================  ==================
    event                when                                                               data
    ===================  =================================================================  ==================
    `cycle.opened`       a task ended, and the editor owes an edit                          task
    `cycle.batch`        an editor's run began; `tasks` are the ends that it has to answer  run, agent, tasks
    `cycle.unchanged`    an editor answered without a change                                run, agent
    `cycle.expired`      the editor took too long; `cycle.closed` follows                   revision, through
    `cycle.closed`       tasks may start again                                              reason, revision,
                                                                                            through
    ===================  =================================================================  ==================
    """

    plan: int
    #: The last line that was read.
    after: int
    open: bool = False
    #: The editor's run that was reported last.
    run: int = 0
    #: The run that made the last change.
    _changed_by: int | None = None

    def read(self, lines: list[EventView], batch: Callable[[int], tuple[str, ...]]) -> Iterator[PlanEvent]:
        """The events of these lines. `batch` has the keys that the editor's run with this number answers."""
        for line in lines:
            self.after = max(self.after, line.seq)
            for kind, data in self._events(line, batch):
                yield PlanEvent(kind=kind, plan=self.plan, key=None, at=line.at, data=data)

    def _events(
        self, line: EventView, batch: Callable[[int], tuple[str, ...]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        by = {"run": line.run, "agent": line.agent}
        match line.kind:
            case EventKind.PLAN_CYCLE_OPENED:
                self.open = True
                yield CYCLE_OPENED, {"task": line.data["task"]}
            case EventKind.RUN_STARTED:
                self.run = line.run or 0
                yield CYCLE_BATCH, {**by, "tasks": batch(self.run)}
            case EventKind.PLAN_MODIFIED:
                self._changed_by = line.data.get("by_run")
            case EventKind.RUN_SUCCEEDED if line.run != self._changed_by:
                yield CYCLE_UNCHANGED, by
            case EventKind.PLAN_CYCLE_CLOSED:
                self.open = False
                ended = {"revision": line.data["revision"], "through": line.data["through"]}
                if line.reason == Reason.EDIT_CYCLE_EXPIRED:
                    yield CYCLE_EXPIRED, ended
                yield CYCLE_CLOSED, {"reason": line.reason, **ended}
            case _:
                pass


class Listeners:
    """Calls listeners in their own thread, in order, so that a slow one delays only other listeners."""

    def __init__(
        self,
        call: Callable[[Listener, PlanEvent], object],
        failed: Callable[[PlanEvent, BaseException], None],
    ) -> None:
        """`failed` gets the exception of a listener. The other listeners are still called."""
        self._call = call
        self._failed = failed
        self._listeners: list[tuple[Listener, frozenset[str]]] = []
        self._waiting: deque[PlanEvent] = deque()
        self._busy = False
        self._changed = threading.Condition()

    def add(self, listener: Listener, kinds: frozenset[str]) -> None:
        with self._changed:
            self._listeners.append((listener, kinds))

    def tell(self, event: PlanEvent) -> None:
        with self._changed:
            if not any(event.kind in kinds for _, kinds in self._listeners):
                return
            self._waiting.append(event)
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._work, name="interlock-listeners", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until every event was delivered. False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._busy = False
                    self._changed.notify_all()
                    return
                event, listeners = self._waiting.popleft(), list(self._listeners)
            for listener, kinds in listeners:
                if event.kind in kinds:
                    try:
                        self._call(listener, event)
                    except BaseException as error:  # the other listeners must be called
                        self._failed(event, error)


def _modified(one: RevisionView) -> dict[str, Any]:
    return {"revision": one.revision, "by": one.by, "why": one.why, "operations": one.operations}
