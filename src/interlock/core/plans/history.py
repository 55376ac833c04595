"""The history of a graph: records of edits, conflicts between them, differences, and earlier graphs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.core.ledger import Ledger
from interlock.core.model import ItemId, RetryLane
from interlock.core.names import folded_lane
from interlock.core.plans.edit import Draft, task_spec
from interlock.core.plans.model import (
    UPDATABLE,
    AddEdge,
    AddTask,
    Edge,
    EdgeOperation,
    EdgeSpec,
    EditOperation,
    Graph,
    OnCancel,
    RemoveEdge,
    RemoveTask,
    Revision,
    TaskOperation,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
    chosen,
)
from interlock.core.plans.plan_ledger import PlanLedger
from interlock.core.plans.validation import lane_named
from interlock.core.record import Record, as_dict, replace

Recorded = Mapping[str, Any]


def record(
    ledger: Ledger, plan_ledger: PlanLedger, draft: Draft, payloads: Mapping[ItemId, str]
) -> list[Recorded]:
    """The operations of an accepted edit, with the values before and after, for its revision."""
    keys = {i: t.key for i, t in plan_ledger.tasks.items()} | {i: t.key for i, t in draft.added.items()}
    found: list[Recorded] = [
        {"op": "remove_task", "key": task.key, "item": item} for item, task in draft.removed.items()
    ]
    for item, task in draft.added.items():
        values = {name: value for name, value in chosen(task).items() if name != "payload"}  # its item has it
        found.append({"op": "add_task", "item": item, "key": task.key, **values})
    for item, changes in draft.updated.items():
        before = as_dict(task_spec(plan_ledger.tasks[item], ledger.items[item], payloads.get(item)))
        was = {name: before[name] for name in changes}
        if was != changes:
            named = {"op": "update_task", "key": keys[item], "item": item}
            found.append({**named, "before": was, "after": changes})
    for op, edges in (
        ("remove_edge", draft.lost_edges.values()),
        ("add_edge", draft.new_edges.values()),
    ):
        found += [{"op": op, **_ends(edge, keys), **_terms(edge)} for edge in edges]
    for pair, edge in draft.changed_edges.items():
        was = _terms(plan_ledger.edges[pair])
        found.append({"op": "update_edge", **_ends(edge, keys), "before": was, "after": _terms(edge)})
    return found


def _ends(edge: Edge, keys: Mapping[ItemId, str]) -> dict[str, Any]:
    return {
        "from": keys[edge.source],
        "to": keys[edge.target],
        "source": edge.source,
        "target": edge.target,
    }


def _terms(edge: Edge) -> dict[str, str]:
    return {"when": edge.when.value, "on_cancel": edge.on_cancel.value}


def recorded(revision: Revision) -> list[Recorded]:
    """The operations of a revision; empty for the first."""
    operations: list[Recorded] = json.loads(revision.operations) if revision.operations else []
    return operations


def conflicts(operations: Sequence[EditOperation], since: Iterable[Revision]) -> list[str]:
    """The changes since an edit's base that conflict with it, and who made them."""
    mine = touched(operations)
    tasks, edges, ends, removed = map(set, (mine.tasks, mine.edges, mine.ends, mine.removed))
    found: dict[str, None] = {}
    for revision in since:
        who = f"revision {revision.revision}" + (f" by {revision.by}" if revision.by else "")
        for op in recorded(revision):
            verb = {"add": "added", "remove": "removed", "update": "changed"}[op["op"].partition("_")[0]]
            if "key" in op:
                if op["key"] in tasks or (op["key"] in ends and op["op"] == "remove_task"):
                    found[f"Task {op['key']} was {verb} in {who}."] = None
                continue
            pair = (op["from"], op["to"])
            if pair in edges or not removed.isdisjoint(pair):
                found[f"The edge {pair[0]} → {pair[1]} was {verb} in {who}."] = None
    return list(found)


class Touched(Record):
    """The tasks and edges that operations name, in their order, by key."""

    tasks: tuple[str, ...]
    removed: tuple[str, ...]
    updated: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    new_edges: tuple[tuple[str, str], ...]

    @property
    def ends(self) -> tuple[str, ...]:
        """The tasks at both ends of the edges."""
        return tuple(dict.fromkeys(key for pair in self.edges for key in pair))


def touched(operations: Sequence[EditOperation]) -> Touched:
    """The tasks and edges that operations touch."""
    tasks = [o for o in operations if isinstance(o, TaskOperation)]
    edges = [o for o in operations if isinstance(o, EdgeOperation)]
    return Touched(
        tasks=tuple(dict.fromkeys(o.key for o in tasks)),
        removed=tuple(o.key for o in tasks if isinstance(o, RemoveTask)),
        updated=tuple(o.key for o in tasks if isinstance(o, UpdateTask)),
        edges=tuple(dict.fromkeys(o.pair for o in edges)),
        new_edges=tuple(o.pair for o in edges if isinstance(o, AddEdge)),
    )


def diff(before: Graph, after: Graph) -> tuple[EditOperation, ...]:
    """The operations that turn one graph into another. Tasks are the same if their keys are."""
    old, new = {t.key: t for t in before.tasks}, {t.key: t for t in after.tasks}
    found: list[EditOperation] = [RemoveTask(key=key) for key in old if key not in new]
    for task in after.tasks:
        was = old.get(task.key)
        if was is None:
            found.append(AddTask(task=task))
        elif changes := _changes(was, task):
            found.append(UpdateTask(key=task.key, changes=changes))
    had, has = {e.pair: e for e in before.edges}, {e.pair: e for e in after.edges}
    for pair, edge in had.items():
        if pair not in has and all(key in new for key in pair):
            found.append(RemoveEdge(source=edge.source, target=edge.target))
    for pair, edge in has.items():
        was_edge = had.get(pair)
        if was_edge is None or not all(key in old for key in pair):
            found.append(AddEdge(edge=edge))
        elif was_edge != edge:
            found.append(
                UpdateEdge(source=edge.source, target=edge.target, when=edge.when, on_cancel=edge.on_cancel)
            )
    return tuple(found)


def _changes(was: TaskSpec, task: TaskSpec) -> dict[str, Any]:
    """The fields that differ in normal form: a missing title is the key, payloads are compared by value."""
    lane = folded_lane(task.lane) if task.lane is not None else None
    if lane is None and was.lane is not None and not task.no_lane and was.lane == lane_named(task.payload):
        lane = was.lane  # its payload gave it this lane, and still does
    task = replace(task, title=task.title or task.key, agent=task.agent.strip().lower(), lane=lane)
    if _normal(was.payload) == _normal(task.payload):
        task = replace(task, payload=was.payload)
    names = sorted(UPDATABLE | {"lane"})
    return {n: getattr(task, n) for n in names if getattr(task, n) != getattr(was, n)}


def _normal(payload: str | None) -> str | None:
    """A payload in normal form: as text, because in Python `true` equals 1, and 1 equals 1.0."""
    try:
        return json.dumps(json.loads(payload), sort_keys=True) if payload is not None else None
    except (ValueError, RecursionError):
        return payload


def graph_at(
    tasks: Mapping[ItemId, TaskSpec],
    edges: Iterable[Edge],
    later: Sequence[Revision],
) -> Graph:
    """The graph before the revisions `later`, oldest first. `tasks` are the tasks of that time with their
    present values, `edges` the present edges."""
    then = dict(tasks)
    keys = {i: t.key for i, t in tasks.items()}
    terms = {e.pair: (e.when, e.on_cancel) for e in edges}
    for revision in reversed(later):
        for op in reversed(recorded(revision)):
            if op["op"] == "update_task":
                if op["item"] in then:
                    then[op["item"]] = replace(then[op["item"]], **_typed(op["before"]))
                continue
            if "key" in op:
                continue
            pair = (op["source"], op["target"])
            if op["op"] == "add_edge":
                del terms[pair]
            else:
                was = op if op["op"] == "remove_edge" else op["before"]
                terms[pair] = (When(was["when"]), OnCancel(was["on_cancel"]))
    return Graph(
        tasks=tuple(then.values()),
        edges=tuple(
            EdgeSpec(source=keys[s], target=keys[t], when=when, on_cancel=on_cancel)
            for (s, t), (when, on_cancel) in sorted(terms.items())
        ),
    )


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    typed = dict(values)
    if "labels" in typed:
        typed["labels"] = tuple(typed["labels"])
    if "retry_lane" in typed:
        typed["retry_lane"] = RetryLane(typed["retry_lane"])
    return typed
