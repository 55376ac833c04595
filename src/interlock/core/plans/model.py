"""The values of plans: what a graph is asked to be, the six operations that change it, and its stored rows.

A task is an item; an edge says when its target may start. Callers name tasks by key; rows name them by item,
because a key may come again after its task was removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from interlock.core.model import ItemId, PlanId, RetryLane, RunId
from interlock.core.states import ItemStatus

TASKS_MAX = 10_000
EDGES_MAX = 100_000
EDIT_DEADLINE_S = 600.0
#: The type of the item that asks a plan's editor for an edit. Nobody else may use it.
EDIT_TYPE = "plan.edit"
#: How the lanes begin whose rows guard the plans. Nobody else may use them.
PLAN_LANES = "plan:"
#: Why a task was cancelled whose plan was.
PLAN_CANCELLED = "its plan was cancelled"


class When(StrEnum):
    """Which end of its source satisfies an edge."""

    SUCCESS = "success"
    COMPLETION = "completion"
    FAILURE = "failure"


class OnCancel(StrEnum):
    """What a cancelled source means for an edge."""

    BLOCK = "block"
    SATISFY = "satisfy"


class PlanStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    PARTIALLY_FAILED = "partially_failed"
    CANCELLED = "cancelled"


class EdgeState(StrEnum):
    """Where an edge stands: its source has not ended, or it has and allows or forbids the target."""

    OPEN = "open"
    SATISFIED = "satisfied"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What a task is asked to be. Without a title its key is the title."""

    key: str
    title: str = ""
    agent: str = ""
    labels: tuple[str, ...] = ()
    type: str = "task"
    priority: int = 0
    #: JSON text of an object.
    payload: str | None = None
    lane: str | None = None
    #: Not on the lane either that a payload with a repository and a number gives.
    no_lane: bool = False
    lease_s: float | None = None
    timeout_s: float | None = None
    max_attempts: int = 3
    retry_lane: RetryLane = RetryLane.YIELD


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSpec:
    """`target` may start once `source` has ended in the way that `when` and `on_cancel` say."""

    source: str
    target: str
    when: When = When.SUCCESS
    on_cancel: OnCancel = OnCancel.BLOCK

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A whole graph; the order of tasks is the order in which they arrive."""

    tasks: tuple[TaskSpec, ...]
    edges: tuple[EdgeSpec, ...] = ()


#: What `UpdateTask` may change. A task keeps its key, and its lane, on which the order of locks rests.
UPDATABLE = frozenset(TaskSpec.__dataclass_fields__) - {"key", "lane", "no_lane"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTask:
    task: TaskSpec

    @property
    def key(self) -> str:
        return self.task.key


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTask:
    """The task goes, and every edge at it."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTask:
    """New values for some fields of `TaskSpec`, by name; see `UPDATABLE`."""

    key: str
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddEdge:
    edge: EdgeSpec

    @property
    def pair(self) -> tuple[str, str]:
        return self.edge.pair


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveEdge:
    source: str
    target: str

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateEdge:
    """New values for an edge; what is null stays."""

    source: str
    target: str
    when: When | None = None
    on_cancel: OnCancel | None = None

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target


TaskOperation = AddTask | RemoveTask | UpdateTask
EdgeOperation = AddEdge | RemoveEdge | UpdateEdge
Operation = TaskOperation | EdgeOperation


class Plan(NamedTuple):
    """The row of a plan, in column order."""

    id: PlanId
    project: str
    name: str
    #: The key of the agent that edits it; without one the plan never stops for edits.
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
    #: Tasks that failed, or were cancelled for another reason than an edit or an unreachable place.
    failed: int = 0
    #: When the edit cycle was opened; no task is claimed while there is one.
    cycle_us: int | None = None
    deadline_us: int | None = None
    #: The unfinished item that asks for the edit; there is one exactly while a cycle is open.
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
    #: Edits that were asked for and given up.
    edits_failed: int = 0

    @property
    def lane(self) -> str:
        return plan_lane(self.id)


class Task(NamedTuple):
    """The row of a task: its place in the graph. What it does stands on its item."""

    item: ItemId
    plan: PlanId
    key: str
    #: Greater than the rank of every source of its edges; equal ranks say nothing.
    rank: int
    #: Incoming edges that are open, and those that can never be satisfied.
    unmet: int = 0
    broken: int = 0
    #: It can never start, and will be told so when the edit cycle has closed.
    doomed: bool = False
    added_revision: int = 1
    #: When it left the graph.
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


class Completion(NamedTuple):
    """The end of a task, which the editor answers."""

    plan: PlanId
    n: int
    item: ItemId
    key: str
    status: ItemStatus
    at_us: int


class Revision(NamedTuple):
    """One change of a graph: who, why, and each operation with what was before and after."""

    plan: PlanId
    revision: int
    #: The revision that the editor had seen.
    base: int
    at_us: int
    by: str | None
    run: RunId | None
    why: str
    #: JSON text: a list of operations; null for the revision that made the plan.
    operations: str | None


def plan_lane(plan: PlanId) -> str:
    """The lane whose row is locked before a plan or one of its tasks' ends is written."""
    return f"{PLAN_LANES}{plan}"


def plan_of_lane(lane: str) -> PlanId | None:
    """The plan that a lane guards, if it guards one."""
    number = lane.removeprefix(PLAN_LANES)
    return PlanId(int(number)) if number != lane and number.isdigit() else None
