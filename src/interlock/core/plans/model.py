"""The values of plans: graphs as callers write them, the six operations that change them, and stored rows.

A task is an item; an edge says when its target may start. Callers name tasks by key; rows name them by item,
because a key may be used again after its task was removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from interlock.core.model import US_PER_S, ItemId, PlanId, RetryLane, RunId
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus

TASKS_MAX = 10_000
EDGES_MAX = 100_000
EDIT_DEADLINE_S = 600.0
#: The type of the item that asks a plan's editor for an edit; reserved.
EDIT_TYPE = "plan.edit"
#: The prefix of the lanes whose rows are the locks of plans; reserved.
PLAN_LANES = "plan:"
#: The reason of tasks that were cancelled with their plan.
PLAN_CANCELLED = "its plan was cancelled"


class When(StrEnum):
    """Which end of the source satisfies an edge."""

    SUCCESS = "success"
    COMPLETION = "completion"
    FAILURE = "failure"


class OnCancel(StrEnum):
    """How a cancelled source affects an edge."""

    BLOCK = "block"
    SATISFY = "satisfy"


class PlanStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    PARTIALLY_FAILED = "partially_failed"
    CANCELLED = "cancelled"


class EdgeState(StrEnum):
    """Open until the source has ended; then satisfied or broken: the target may start, or never can."""

    OPEN = "open"
    SATISFIED = "satisfied"
    BROKEN = "broken"


class TaskSpec(Record):
    """A task as its caller writes it. Without a title its key is the title."""

    key: str
    title: str = ""
    agent: str = ""
    labels: tuple[str, ...] = ()
    type: str = "task"
    priority: int = 0
    #: JSON text of an object.
    payload: str | None = None
    lane: str | None = None
    #: Opts out of the lane that a payload with a repository and a number gives.
    no_lane: bool = False
    lease_s: float | None = None
    timeout_s: float | None = None
    max_attempts: int = 3
    retry_lane: RetryLane = RetryLane.YIELD


class EdgeSpec(Record):
    """`target` may start once `source` has ended as `when` and `on_cancel` require."""

    source: str
    target: str
    when: When = When.SUCCESS
    on_cancel: OnCancel = OnCancel.BLOCK

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target


class Graph(Record):
    """A whole graph; the order of tasks is the order in which they arrive."""

    tasks: tuple[TaskSpec, ...]
    edges: tuple[EdgeSpec, ...] = ()


def chosen(spec: TaskSpec | EdgeSpec) -> dict[str, Any]:
    """The optional fields that differ from their defaults."""
    defaults = {name: getattr(type(spec), name) for name in spec.PARTS if hasattr(type(spec), name)}
    return {name: value for name in defaults if (value := getattr(spec, name)) != defaults[name]}


#: What `UpdateTask` may change. A task keeps its key, and its lane, which the order of locks needs.
UPDATABLE = frozenset(TaskSpec.PARTS) - {"key", "lane", "no_lane"}


class AddTask(Record):
    task: TaskSpec

    @property
    def key(self) -> str:
        return self.task.key


class RemoveTask(Record):
    """Remove a task and every edge at it."""

    key: str


class UpdateTask(Record):
    """New values for some fields of `TaskSpec`, by name; see `UPDATABLE`."""

    key: str
    changes: Mapping[str, Any] = MappingProxyType({})


class AddEdge(Record):
    edge: EdgeSpec

    @property
    def pair(self) -> tuple[str, str]:
        return self.edge.pair


class RemoveEdge(Record):
    source: str
    target: str

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target


class UpdateEdge(Record):
    """New values for an edge; null keeps the old one."""

    source: str
    target: str
    when: When | None = None
    on_cancel: OnCancel | None = None

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target


TaskOperation = AddTask | RemoveTask | UpdateTask
EdgeOperation = AddEdge | RemoveEdge | UpdateEdge
EditOperation = TaskOperation | EdgeOperation


class Plan(NamedTuple):
    """The row of a plan, in column order."""

    id: PlanId
    project: str
    name: str
    #: The key of the agent that edits it; without one the plan has no edit cycles.
    editor: str | None
    edit_deadline_s: float
    status: PlanStatus
    created_us: int
    revision: int = 1
    paused_why: str | None = None
    ended_us: int | None = None
    #: Tasks and edges that are part of the graph now.
    tasks: int = 0
    edges: int = 0
    #: Tasks that have not ended.
    open_tasks: int = 0
    completed: int = 0
    #: Tasks that failed or were cancelled, except tasks that an edit removed or that became unreachable.
    failed: int = 0
    #: When the edit cycle opened; no task is claimed while one is open.
    cycle_us: int | None = None
    deadline_us: int | None = None
    #: The unfinished item that asks for the edit, while a cycle is open.
    edit_item: ItemId | None = None
    #: The number of the last completion, and of the last one that an edit has answered.
    last_n: int = 0
    answered_n: int = 0
    edits_completed: int = 0
    edits_timed_out: int = 0
    edits_refused: int = 0
    edits_rebased: int = 0
    cycles: int = 0
    lock_us: int = 0
    #: Requested edits that failed or were cancelled.
    edits_failed: int = 0

    def closes_soon(self, now_us: int) -> bool:
        """Whether the deadline of its edit cycle is near: a minute, or a quarter of the editor's time."""
        near_s = max(60.0, self.edit_deadline_s / 4)
        return self.deadline_us is not None and self.deadline_us - now_us < near_s * US_PER_S

    @property
    def lane(self) -> str:
        return plan_lane(self.id)


class Task(NamedTuple):
    """The row of a task: its place in the graph. Everything else is on its item."""

    item: ItemId
    plan: PlanId
    key: str
    #: Greater than the rank of every task that it depends on.
    rank: int
    #: Incoming edges that are open, and incoming edges that can never be satisfied.
    unmet: int = 0
    broken: int = 0
    #: It can never start, and is cancelled when the edit cycle closes, unless the edit saves it.
    doomed: bool = False
    added_revision: int = 1
    #: The revision that removed it.
    removed_revision: int | None = None

    @property
    def ready(self) -> bool:
        return self.unmet == 0 and self.broken == 0


class Edge(NamedTuple):
    """The row of an edge between two tasks."""

    source: ItemId
    target: ItemId
    plan: PlanId
    when: When
    on_cancel: OnCancel
    state: EdgeState = EdgeState.OPEN

    @property
    def pair(self) -> tuple[ItemId, ItemId]:
        return self.source, self.target

    @property
    def terms(self) -> tuple[When, OnCancel]:
        return self.when, self.on_cancel


class Need(NamedTuple):
    """An open or broken edge of a target, with the status of its source."""

    key: str
    status: ItemStatus
    #: Whether the source can never start itself, as one of its own edges is broken.
    lost: bool
    edge: Edge

    @property
    def broken(self) -> bool:
        return self.edge.state is EdgeState.BROKEN


class Completion(NamedTuple):
    """The end of a task, for the editor to answer."""

    plan: PlanId
    n: int
    item: ItemId
    key: str
    status: ItemStatus
    at_us: int


class Revision(NamedTuple):
    """One change of a graph: who, why, and each operation with the values before and after."""

    plan: PlanId
    revision: int
    #: The revision that the edit was made for.
    base: int
    at_us: int
    by: str | None
    run: RunId | None
    why: str
    #: JSON text: a list of operations; null for the revision that made the plan.
    operations: str | None


def plan_lane(plan: PlanId) -> str:
    """The lane whose row is locked before a plan or the end of a task is written."""
    return f"{PLAN_LANES}{plan}"


def plan_of_lane(lane: str) -> PlanId | None:
    """The plan that a lane guards, if it guards one."""
    number = lane.removeprefix(PLAN_LANES)
    return PlanId(int(number)) if number != lane and number.isdigit() else None
