"""Answers about plans, made from stored rows."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.model import US_PER_S, Item, ItemId
from interlock.core.plans.history import recorded
from interlock.core.plans.measures import measured
from interlock.core.plans.model import Edge, Plan, Revision, Task
from interlock.core.record import as_dict
from interlock.service.item_view import ItemView, maybe_moment, moment
from interlock.service.plan_view import (
    BatchView,
    CompletionView,
    CycleView,
    EdgeView,
    PlanStatsView,
    PlanSummary,
    PlanView,
    RevisionView,
    TaskView,
)
from interlock.service.view_builders import average_s, quantile_s
from interlock.store.port import StoredCompletion


def plan_view(
    plan: Plan,
    tasks: Sequence[tuple[Task, Item]],
    edges: Sequence[Edge],
    asking: Item | None,
    pending: Sequence[StoredCompletion],
) -> PlanView:
    keys = {task.item: task.key for task, _ in tasks}
    return PlanView(
        **_head(plan),
        task_count=plan.tasks,
        edge_count=plan.edges,
        open_tasks=plan.open_tasks,
        completed=plan.completed,
        failed=plan.failed,
        tasks=tuple(task_view(task, item) for task, item in tasks),
        edges=tuple(_edge_view(e, keys) for e in edges if e.source in keys and e.target in keys),
        cycle=_cycle_view(plan, asking, pending),
    )


def _head(plan: Plan) -> dict[str, Any]:
    """The fields common to a plan and its line in a list."""
    return {
        "id": plan.id,
        "name": plan.name,
        "project": plan.project,
        "status": plan.status.value,
        "revision": plan.revision,
        "editor": plan.editor,
        "edit_deadline_s": plan.edit_deadline_s,
        "paused": plan.paused_why is not None,
        "paused_reason": plan.paused_why,
        "created_at": moment(plan.created_us),
        "ended_at": maybe_moment(plan.ended_us),
    }


def task_view(task: Task, item: Item) -> TaskView:
    spec, state = item
    return TaskView(
        key=task.key,
        item=item.id,
        title=spec.title,
        type=spec.type,
        priority=spec.priority,
        agent=spec.agent_key or None,
        labels=spec.labels,
        lane=spec.lane,
        status=state.status.value,
        reason=str(state.reason),
        unmet=task.unmet,
        broken=task.broken,
        attempt=state.attempt,
        run=state.run,
        run_agent=state.run_agent,
        run_at=ItemView(item).run_at,
        created_at=moment(spec.created_us),
        first_claimed_at=maybe_moment(state.first_claimed_us),
        started_at=maybe_moment(state.run_started_us),
        ended_at=maybe_moment(state.ended_us),
    )


def _edge_view(edge: Edge, keys: dict[ItemId, str]) -> EdgeView:
    return EdgeView(
        source=keys[edge.source],
        target=keys[edge.target],
        when=edge.when.value,
        on_cancel=edge.on_cancel.value,
        state=edge.state.value,
    )


def _cycle_view(plan: Plan, asking: Item | None, pending: Sequence[StoredCompletion]) -> CycleView | None:
    if plan.cycle_us is None or plan.deadline_us is None or asking is None:
        return None
    return CycleView(
        opened_at=moment(plan.cycle_us),
        deadline_at=moment(plan.deadline_us),
        item=asking.id,
        run=asking.state.run,
        agent=asking.state.run_agent,
        pending=tuple(p.completion.key for p in pending),
    )


def plan_summary(plan: Plan) -> PlanSummary:
    return PlanSummary(
        **_head(plan),
        editing=plan.cycle_us is not None,
        tasks=plan.tasks,
        edges=plan.edges,
        open_tasks=plan.open_tasks,
        completed=plan.completed,
        failed=plan.failed,
    )


def batch_view(plan: Plan, completions: Sequence[StoredCompletion]) -> BatchView:
    assert plan.deadline_us is not None
    return BatchView(
        plan=plan.id,
        name=plan.name,
        revision=plan.revision,
        through=completions[-1].completion.n if completions else plan.answered_n,
        completions=tuple(_completion_view(c) for c in completions),
        deadline_at=moment(plan.deadline_us),
    )


def _completion_view(stored: StoredCompletion) -> CompletionView:
    completion = stored.completion
    result: Any = json.loads(stored.result) if stored.result is not None else None
    return CompletionView(
        n=completion.n,
        key=completion.key,
        item=completion.item,
        status=completion.status.value,
        at=moment(completion.at_us),
        result=result,
        error=stored.error,
    )


def revision_view(revision: Revision) -> RevisionView:
    return RevisionView(
        revision=revision.revision,
        base=revision.base,
        at=moment(revision.at_us),
        by=revision.by,
        run=revision.run,
        why=revision.why,
        operations=tuple({key: _read(value) for key, value in op.items()} for op in recorded(revision)),
    )


def _read(value: Any) -> Any:
    """A value of an operation; a payload's text becomes the object that it encodes."""
    if isinstance(value, dict) and isinstance(value.get("payload"), str):
        return {**value, "payload": json.loads(value["payload"])}
    return value


def plan_stats_view(
    plan: Plan,
    tasks: Sequence[tuple[Task, Item]],
    edges: Sequence[Edge],
    work_us: Mapping[ItemId, int],
) -> PlanStatsView:
    spans_us = _to_dispatch_us([item for _, item in tasks])
    keys = {task.item: task.key for task, _ in tasks}
    took_s = {keys[i.id]: work_us[i.id] / US_PER_S for _, i in tasks if i.terminal and i.id in work_us}
    shape = measured(list(keys.values()), [(keys[e.source], keys[e.target]) for e in edges], took_s)
    return PlanStatsView(
        plan=plan.id,
        revision=plan.revision,
        tasks=plan.tasks,
        completed=plan.completed,
        failed=plan.failed,
        cycles=plan.cycles,
        edits_total=plan.edits_completed + plan.edits_timed_out + plan.edits_refused + plan.edits_failed,
        edits_completed=plan.edits_completed,
        edits_timed_out=plan.edits_timed_out,
        edits_refused=plan.edits_refused,
        edits_rebased=plan.edits_rebased,
        edits_failed=plan.edits_failed,
        completions_registered=plan.last_n,
        completions_answered=plan.answered_n,
        lock_s=plan.lock_us / US_PER_S,
        to_dispatch_avg_s=average_s(spans_us),
        to_dispatch_p50_s=quantile_s(spans_us, 0.5),
        to_dispatch_p95_s=quantile_s(spans_us, 0.95),
        **as_dict(shape),
    )


def _to_dispatch_us(items: Sequence[Item]) -> list[int]:
    """The spans from each end of a task to the next first start of a task, sorted."""
    starts = sorted(i.state.first_claimed_us for i in items if i.state.first_claimed_us is not None)
    ends = [i.state.ended_us for i in items if i.state.ended_us is not None and i.started]
    found = [(end, bisect_left(starts, end)) for end in ends]
    return sorted(starts[at] - end for end, at in found if at < len(starts))
