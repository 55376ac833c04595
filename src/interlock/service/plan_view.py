"""Answers about plans, and the service interface for plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from interlock.core.plans.model import EDIT_DEADLINE_S, TASKS_MAX, EditOperation, Graph
from interlock.core.record import Record


class TaskView(Record):
    """A task: its place in the graph, and the state of its item."""

    key: str
    item: int
    title: str
    type: str
    priority: int
    #: The agent it is for; null means any agent.
    agent: str | None
    labels: tuple[str, ...]
    lane: str | None
    status: str
    reason: str
    #: Incoming edges that are not satisfied yet, and edges that never will be.
    unmet: int
    broken: int
    attempt: int
    #: The live run and its agent.
    run: int | None
    run_agent: str | None
    #: The end of its back-off.
    run_at: datetime | None
    created_at: datetime
    #: When it was claimed for the first time, and when its live run began.
    first_claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


class EdgeView(Record):
    """An edge by the keys of its tasks. `state` is open, satisfied or broken."""

    source: str
    target: str
    when: str
    on_cancel: str
    state: str


class CycleView(Record):
    """The open edit cycle: no task is claimed until it closes."""

    opened_at: datetime
    deadline_at: datetime
    #: The item that asks for the edit, its run, and the run's agent.
    item: int
    run: int | None
    agent: str | None
    #: Keys of ended tasks that are not answered yet, oldest first.
    pending: tuple[str, ...]


class PlanSummary(Record):
    """A plan in a list."""

    id: int
    name: str
    project: str
    status: str
    revision: int
    editor: str | None
    edit_deadline_s: float
    paused: bool
    paused_reason: str | None
    #: An edit cycle is open.
    editing: bool
    tasks: int
    edges: int
    open_tasks: int
    completed: int
    failed: int
    created_at: datetime
    ended_at: datetime | None


class PlanView(Record):
    """One plan with its current graph. Tasks are in order of arrival."""

    id: int
    name: str
    project: str
    status: str
    revision: int
    editor: str | None
    edit_deadline_s: float
    paused: bool
    paused_reason: str | None
    #: How many tasks and edges it has, and what became of the tasks.
    task_count: int
    edge_count: int
    open_tasks: int
    completed: int
    failed: int
    #: Empty if more tasks than wanted are in it.
    tasks: tuple[TaskView, ...]
    edges: tuple[EdgeView, ...]
    cycle: CycleView | None
    created_at: datetime
    ended_at: datetime | None


class EditView(Record):
    """The answer to an edit that was applied."""

    plan: int
    revision: int
    #: The graph had changed since the base, without a conflict with this edit.
    rebased: bool
    #: Keys of added, removed and changed tasks, and of tasks that may start now.
    added: tuple[str, ...]
    removed: tuple[str, ...]
    updated: tuple[str, ...]
    ready: tuple[str, ...]
    #: The cycle stays open: further tasks ended meanwhile.
    editing: bool


class CompletionView(Record):
    """A task that ended, for the editor to answer. `result` is the JSON value of its last run."""

    n: int
    key: str
    item: int
    status: str
    at: datetime
    result: Any
    error: str | None


class BatchView(Record):
    """What an editor must answer: every task that ended since its last edit."""

    plan: int
    name: str
    revision: int
    #: The number of the last completion in this batch; the edit passes it back.
    through: int
    completions: tuple[CompletionView, ...]
    deadline_at: datetime


class RevisionView(Record):
    """One revision of a plan. Each operation has the values before and after."""

    revision: int
    base: int
    at: datetime
    by: str | None
    run: int | None
    why: str
    operations: tuple[Mapping[str, Any], ...]


class PlanStatsView(Record):
    """Figures of one plan: its edits, and the shape and the work of its graph. Spans are seconds."""

    plan: int
    revision: int
    tasks: int
    completed: int
    failed: int
    cycles: int
    edits_total: int
    edits_completed: int
    edits_timed_out: int
    edits_refused: int
    edits_rebased: int
    edits_failed: int
    #: Completions for the editor, and how many it has answered.
    completions_registered: int
    completions_answered: int
    #: How long edit cycles were open in total.
    lock_s: float
    #: From the end of a task to the next start of one in the plan; null before the first.
    to_dispatch_avg_s: float | None
    to_dispatch_p50_s: float | None
    to_dispatch_p95_s: float | None
    #: The chain of tasks that took longest, first to last. A task takes as long as its runs together;
    #: unfinished tasks count as zero.
    critical_path: tuple[str, ...]
    critical_path_s: float
    total_work_s: float
    #: `total_work_s / critical_path_s`: how many agents the graph could keep busy on average.
    parallelism: float | None
    #: How many tasks the longest chain has, whatever their durations.
    depth: int


class PlanService(Protocol):
    """Graphs of tasks that may be edited while they run.

    The store must know every agent that a plan names, including its editor, and some agent must have each
    label. A refused edit raises `EditRefused` with every reason, `StaleRevision`, `CycleExpired` or
    `LeaseLost`. It changes nothing.
    """

    def create_plan(
        self,
        name: str,
        graph: Graph,
        *,
        editor: str = "",
        edit_deadline_s: float = EDIT_DEADLINE_S,
        project: str = "default",
        by: str = "",
    ) -> PlanView: ...

    def plan(self, plan: int, *, tasks_max: int = TASKS_MAX) -> PlanView: ...

    def plan_tasks(
        self,
        plan: int,
        *,
        all: bool = False,  # noqa: A002
        statuses: Sequence[str] = (),
        after: int = 0,
        limit: int = 100,
    ) -> list[TaskView]: ...

    def plans(
        self,
        *,
        ended: bool = False,
        statuses: Sequence[str] = (),
        project: str | None = None,
        editor: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[PlanSummary]: ...

    def edit_plan(
        self,
        plan: int,
        *,
        base: int,
        operations: Sequence[EditOperation] | None = None,
        graph: Graph | None = None,
        run: str | None = None,
        through: int | None = None,
        by: str = "",
        why: str = "",
    ) -> EditView: ...

    def plan_batch(self, run: str) -> BatchView: ...

    def cancel_plan(self, plan: int, *, why: str, by: str = "") -> PlanView: ...

    def pause_plan(self, plan: int, *, why: str, by: str = "") -> PlanView: ...

    def resume_plan(self, plan: int, *, why: str = "", by: str = "") -> PlanView: ...

    def set_edit_deadline(self, plan: int, edit_deadline_s: float, *, by: str = "") -> PlanView: ...

    def plan_history(self, plan: int, *, after: int = 0, limit: int = 1_000) -> list[RevisionView]: ...

    def plan_at(self, plan: int, revision: int) -> Graph: ...

    def plan_stats(self, plan: int) -> PlanStatsView: ...
