"""Which rows of a plan a transaction reads: in proportion to what it may change, never the whole plan.

The same for both databases: each has its statements under the same names. A plan's lane is locked before
anything here is read, so its structure does not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from interlock.core.model import ItemId, PlanId
from interlock.core.plans.book import PlanPart
from interlock.core.plans.model import Edge, Plan, Task
from interlock.core.record import MutableRecord, fresh
from interlock.store.plan_rows import edge_from_row, plan_from_row, task_from_row
from interlock.store.port import EditLoad, Load

#: Runs a statement by its name. Lists are given as lists.
Ask = Callable[..., Sequence[Sequence[Any]]]
#: How many tasks behind the named ones a transaction decides on at most.
BEHIND_MAX = 1_000


class Part(MutableRecord):
    """One plan with the tasks and edges that are gathered of it."""

    plan: Plan
    tasks: dict[ItemId, Task] = fresh(dict)
    edges: dict[tuple[ItemId, ItemId], Edge] = fresh(dict)
    unanswered: list[tuple[int, int]] = fresh(list)
    behind: set[ItemId] = fresh(set)

    def whole(self) -> PlanPart:
        """All of it, for the rules."""
        return PlanPart(
            plan=self.plan,
            tasks=tuple(self.tasks.values()),
            edges=tuple(self.edges.values()),
            unanswered=tuple(self.unanswered),
            behind=frozenset(self.behind),
        )


class Parts(MutableRecord):
    """What is read of all plans, and which items must be read with it."""

    plans: dict[PlanId, Part]
    items: set[ItemId] = fresh(set)

    def put_tasks(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self.plans[task.plan].tasks[task.item] = task

    def put_edges(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self.plans[edge.plan].edges[edge.pair] = edge


def tasks_of_edit(ask: Ask, edit: EditLoad) -> list[Task]:
    """The tasks that an edit names, as far as there are. Read before their lanes are locked, and after."""
    return [task_from_row(r) for r in ask("tasks_by_key", plan=edit.plan, keys=list(edit.keys))]


def read_parts(ask: Ask, plans: Iterable[PlanId], load: Load) -> Parts:
    """What the commands of a transaction may touch of the plans whose lanes it has locked."""
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
    """Whether the edit cycle may close here: the item that asks for the edit is named, by itself or by its
    lane, or the plan is. Only then are the tasks read that the cycle has kept waiting: they may be many."""
    if plan.edit_item is None:
        return False
    return plan.edit_item in load.items or plan.id in load.plans or plan.lane in load.lanes


def _read_following(ask: Ask, parts: Parts, load: Load) -> None:
    """What follows if the items named end, or come back: their edges, and the tasks that those lead to."""
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
    """What ends with tasks that can never start: a long chain ends in few transactions."""
    named = [t.item for t in lost]
    behind = [task_from_row(r) for r in ask("tasks_behind", items=named, limit=len(named) + BEHIND_MAX)]
    parts.put_tasks(behind)
    for task in behind:
        parts.plans[task.plan].behind.add(task.item)
        parts.items.add(task.item)
    return behind


def _read_ends(ask: Ask, parts: Parts, edges: Iterable[Edge]) -> None:
    """The tasks at both ends of edges, as far as they are not known."""
    known = {item for part in parts.plans.values() for item in part.tasks}
    missing = sorted({item for edge in edges for item in edge.pair} - known)
    if missing:
        parts.put_tasks(task_from_row(r) for r in ask("tasks_by_item", items=missing))


def _read_edit(ask: Ask, parts: Parts, edit: EditLoad) -> None:
    """What the operations of an edit name, what goes with it, and what their new edges may reach."""
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
