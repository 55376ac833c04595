"""Selects the rows of a plan that a transaction reads: in proportion to its changes, never the whole plan.

Both databases share this code, with statements of the same names. A plan's lane is locked before these reads,
so its structure does not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from interlock.core.model import ItemId, PlanId
from interlock.core.plans.model import Edge, Plan, Task
from interlock.core.plans.plan_ledger import PlanPart
from interlock.core.record import MutableRecord, fresh
from interlock.store.plan_rows import NO_LIMIT, edge_from_row, plan_from_row, revision_from_row, task_from_row
from interlock.store.port import EditLoad, Load
from interlock.store.rows import listed

#: Runs a statement by its name. Lists are passed as lists.
Ask = Callable[..., Sequence[Sequence[Any]]]
#: The most tasks behind the named ones that a transaction decides on.
BEHIND_MAX = 1_000


class Part(MutableRecord):
    """One plan with the tasks and edges read so far."""

    plan: Plan
    tasks: dict[ItemId, Task] = fresh(dict)
    edges: dict[tuple[ItemId, ItemId], Edge] = fresh(dict)
    unanswered: list[tuple[int, int]] = fresh(list)
    behind: set[ItemId] = fresh(set)

    def whole(self) -> PlanPart:
        """The whole part, for the rules."""
        return PlanPart(
            plan=self.plan,
            tasks=tuple(self.tasks.values()),
            edges=tuple(self.edges.values()),
            unanswered=tuple(self.unanswered),
            behind=frozenset(self.behind),
        )


class Parts(MutableRecord):
    """The read parts of all plans, and the items that must be read with them."""

    plans: dict[PlanId, Part]
    items: set[ItemId] = fresh(set)

    def put_tasks(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self.plans[task.plan].tasks[task.item] = task

    def put_edges(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self.plans[edge.plan].edges[edge.pair] = edge


def tasks_of_edit(ask: Ask, edit: EditLoad) -> list[Task]:
    """The existing tasks that an edit names. They are read before and after their lanes are locked."""
    return [task_from_row(r) for r in ask("tasks_by_key", plan=edit.plan, keys=list(edit.keys))]


def read_parts(ask: Ask, plans: Iterable[PlanId], load: Load) -> Parts:
    """Read the parts of locked plans that the commands of a transaction may change."""
    rows = [row for plan in plans for row in ask("plan", plan=plan)]
    parts = Parts(plans={plan.id: Part(plan=plan) for plan in map(plan_from_row, rows)})
    if load.items and parts.plans:
        _read_following(ask, parts, load)
    for plan, part in parts.plans.items():
        if not _may_close(part.plan, load):
            continue
        doomed = [task_from_row(r) for r in ask("tasks_doomed", plan=plan)]
        parts.put_tasks(doomed)
        parts.items.update(t.item for t in doomed)
        part.unanswered += [(n, at_us) for n, at_us in ask("unanswered", plan=plan)]
    if load.edit is not None:
        _read_edit(ask, parts, load.edit)
    return parts


def _may_close(plan: Plan, load: Load) -> bool:
    """Whether the edit cycle may close here: the item of the edit request, its lane or the plan is named.
    Only then are the tasks read that wait for the cycle, as they may be many."""
    if plan.edit_item is None:
        return False
    return plan.edit_item in load.items or plan.id in load.plans or plan.lane in load.lanes


def _read_following(ask: Ask, parts: Parts, load: Load) -> None:
    """Read the edges of the named items, and the tasks behind them, in case the items end or come back."""
    named = [task_from_row(r) for r in ask("tasks_by_item", items=list(load.items))]
    if not named:
        return
    parts.put_tasks(named)
    lost = [t for t in named if t.broken and parts.plans[t.plan].plan.cycle_us is None and not load.rearm]
    behind = _read_behind(ask, parts, lost) if lost else []
    rows = ask("edges_onwards", items=list({t.item for t in (*named, *behind)}), rearm=load.rearm)
    edges = [edge_from_row(r) for r in rows]
    parts.put_edges(edges)
    _read_ends(ask, parts, edges)
    parts.items.update(e.target for e in edges)


def _read_behind(ask: Ask, parts: Parts, lost: Sequence[Task]) -> list[Task]:
    """Read the tasks behind unreachable ones, which end with them: a long chain ends in few transactions."""
    named = [t.item for t in lost]
    behind = [task_from_row(r) for r in ask("tasks_behind", items=named, limit=len(named) + BEHIND_MAX)]
    parts.put_tasks(behind)
    for task in behind:
        parts.plans[task.plan].behind.add(task.item)
        parts.items.add(task.item)
    return behind


def _read_ends(ask: Ask, parts: Parts, edges: Iterable[Edge]) -> None:
    """Read the unknown tasks at both ends of edges."""
    known = {item for part in parts.plans.values() for item in part.tasks}
    missing = sorted({item for edge in edges for item in edge.pair} - known)
    if missing:
        parts.put_tasks(task_from_row(r) for r in ask("tasks_by_item", items=missing))


def _read_edit(ask: Ask, parts: Parts, edit: EditLoad) -> None:
    """Read the tasks and edges that an edit names or removes, and those that its new edges may reach."""
    part = parts.plans[edit.plan]
    named = {t.key: t for t in tasks_of_edit(ask, edit)}
    parts.put_tasks(named.values())
    parts.items.update(t.item for t in named.values())
    if edit.whole:
        parts.put_tasks(task_from_row(r) for r in ask("tasks_in_graph", plan=edit.plan))
        parts.put_edges(edge_from_row(r) for r in ask("edges_of_plan", plan=edit.plan))
    removed = [named[k].item for k in edit.removed if k in named]
    if removed:
        lost = [edge_from_row(r) for r in ask("edges_at", items=removed)]
        parts.put_edges(lost)
        parts.items.update(e.target for e in lost)
    pairs = [(named[s].item, named[t].item) for s, t in edit.pairs if s in named and t in named]
    if pairs:
        sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
        rows = ask("edges_between", sources=sources, targets=targets)
        parts.put_edges(edge_from_row(r) for r in rows)
    bound = max((named[k].rank for k in edit.sources if k in named), default=0)
    reached = [named[k].item for k in edit.targets if k in named and named[k].rank <= bound]
    if reached and not edit.whole:
        rows = ask("edges_in_reach", items=reached, bound=bound)
        parts.put_edges(edge_from_row(r) for r in rows)
    _read_ends(ask, parts, part.edges.values())


def edit_facts(ask: Ask, load: Load, parts: Parts) -> dict[str, Any]:
    """The facts that only an edit or a new plan needs."""
    if not load.agents:
        return {}
    labels = {key: listed(names) for key, names in ask("agent_labels")}
    if load.edit is None:
        return {"agents": labels}
    plan, base = load.edit.plan, load.edit.base
    rows = ask("revisions", plan=plan, after=base, limit=NO_LIMIT)
    updated = [t.item for t in parts.plans[plan].tasks.values() if t.key in load.edit.updated]
    payloads: Any = ask("payloads", items=updated) if updated else []
    return {
        "agents": labels,
        "revisions": tuple(revision_from_row(r) for r in rows),
        "payloads": dict(payloads),
    }
