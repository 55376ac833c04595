"""One plan: its graph, its revisions, its edit cycle, and what it costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from markupsafe import Markup

from interlock.core.errors import NotFound
from interlock.core.plans.graph import topological
from interlock.core.plans.model import TASKS_MAX
from interlock.core.states import ItemStatus
from interlock.dashboard.pages.plans import progress
from interlock.dashboard.rendering import item_url, span, url
from interlock.dashboard.visit import Page, Visit
from interlock.plans.drawing.picture import Node, PictureEdge, PlanPicture
from interlock.plans.drawing.svg import page_legend, page_svg

#: The largest plan whose graph is drawn. A larger one is shown by layers, and only on request.
DRAWN_MAX = 400
#: With more tasks than this the whole graph is shown at first, so small that only its colours can be seen.
FIT_OVER = 100
#: The smallest plan for which a page offers both sizes.
FIT_MIN = 6
ROWS, REVISIONS = 50, 20
#: The most changes of a revision that are listed, and the most tasks that a sentence names.
CHANGES_MAX, NAMED_MAX = 40, 8
_Part = TypeVar("_Part", Node, PictureEdge)
_VERBS = {"add": "added", "remove": "removed", "update": "changed"}
_UNFINISHED = [status.value for status in ItemStatus if status not in {"completed", "failed", "cancelled"}]


async def plan(visit: Visit) -> Page:
    """A plan as it is now, or at an earlier revision."""
    number = visit.path_number("plan")
    layers = visit.query.get("show") == "layers"
    found = await visit.call("plan", plan=number, tasks_max=TASKS_MAX if layers else DRAWN_MAX)
    revision = visit.query_number("revision") or found["revision"]
    if revision > found["revision"]:
        raise NotFound(f"Plan {number} has no revision {revision}.", f"Use 1 to {found['revision']}.")
    small = found["task_count"] <= DRAWN_MAX
    history = await visit.call(
        "plan_history", plan=number, after=max(0, revision - REVISIONS), limit=REVISIONS
    )
    chosen = next((each for each in history if each["revision"] == revision), None)
    values: dict[str, Any] = {
        "plan": {**found, **progress(found)},
        "number": number,
        "revision": revision,
        "current": revision == found["revision"],
        "history": [_told(each) for each in reversed(history)],
        "earlier_url": _at(number, max(1, revision - REVISIONS)) if revision > REVISIONS else "",
        "differences": [] if chosen is None else list(_differences(chosen)),
        "steps": _steps(number, revision, found["revision"]),
        "drawn_max": DRAWN_MAX,
        "held": "",
        "asked": None,
        "rows_max": ROWS,
        "named_max": NAMED_MAX,
        "seconds": _seconds,
    }
    if found["cycle"] is not None:
        values["asked"] = await visit.call("why", item=found["cycle"]["item"])
    values |= await (_small(visit, found, revision, chosen) if small else _large(visit, found, layers))
    return Page("plan.html", values, f"Plan {number}: {found['name']}", "plans")


async def _small(
    visit: Visit, found: Mapping[str, Any], revision: int, chosen: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A plan whose graph is drawn: with the tasks' statuses, or as it was."""
    stats = await visit.call("plan_stats", plan=found["id"])
    critical = set(stats["critical_path"])
    if revision == found["revision"]:
        tasks, edges = _present(found, critical)
    else:
        then = await visit.call("plan_at", plan=found["id"], revision=revision)
        items = {task["key"]: task["item"] for task in found["tasks"]}
        tasks, edges = _earlier(then, items)
    operations = [] if chosen is None or revision == 1 else chosen["operations"]
    after = visit.query_number("after") or 0
    rows = [task for task in found["tasks"] if task["item"] > after][: ROWS + 1]
    fit = visit.query.get("graph", "whole" if found["task_count"] > FIT_OVER else "actual") == "whole"
    kept = {name: visit.query.get(name) for name in ("revision", "after")}
    graph = _marked(tasks, edges, operations, found["name"])
    drawn = await asyncio.to_thread(page_svg, graph)
    unfinished = [task for task in found["tasks"] if task["status"] in _UNFINISHED]
    held = [task for task in found["tasks"] if task["status"] == "pending"] if _shut(found) else []
    return {
        "svg": Markup(drawn),  # noqa: S704  (its builder escaped every text)
        "fit": fit,
        "fit_url": ""
        if found["task_count"] <= FIT_MIN
        else url(f"/plans/{found['id']}", **kept, graph="actual" if fit else "whole"),
        "legend": [Markup(entry) for entry in page_legend(graph)],  # noqa: S704
        "stats": stats,
        "layers": None,
        "tasks": _rows(rows[:ROWS], found["edges"]),
        "counts": Counter(task["status"] for task in found["tasks"]),
        "held": held,
        "unfinished": len(unfinished),
        "failed_tasks": [task for task in found["tasks"] if task["status"] == "failed"][:NAMED_MAX],
        "next_url": _next(visit, found, rows),
    }


async def _large(visit: Visit, found: Mapping[str, Any], layers: bool) -> dict[str, Any]:
    """A plan whose unfinished tasks are listed page by page. Its layers and figures read all tasks."""
    after = visit.query_number("after") or 0
    rows = await visit.call("plan_tasks", plan=found["id"], after=after, limit=ROWS + 1)
    held = []
    if _shut(found):
        held = await visit.call("plan_tasks", plan=found["id"], statuses=["pending"], limit=NAMED_MAX + 1)
    failed = await visit.call("plan_tasks", plan=found["id"], statuses=["failed"], limit=NAMED_MAX)
    stats = await visit.call("plan_stats", plan=found["id"]) if layers else None
    return {
        "svg": None,
        "legend": [],
        "fit": False,
        "fit_url": "",
        "stats": stats,
        "layers": await asyncio.to_thread(_layers, found) if layers else None,
        "tasks": _rows(rows[:ROWS], []),
        "counts": Counter(task["status"] for task in found["tasks"]),
        "held": held,
        "unfinished": found["open_tasks"],
        "failed_tasks": failed,
        "next_url": _next(visit, found, rows),
    }


def _next(visit: Visit, found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Where the next tasks are listed."""
    if len(rows) <= ROWS:
        return ""
    kept = {name: visit.query.get(name) for name in ("revision", "show", "graph")}
    address = url(f"/plans/{found['id']}", **kept, after=rows[ROWS - 1]["item"])
    return f"{address}#tasks"


def _shut(found: Mapping[str, Any]) -> bool:
    """Whether no task of the plan is claimed now, although it has not ended."""
    return found["status"] == "running" and (found["cycle"] is not None or found["paused"])


# -- the graph ----------------------------------------------------------------------------------------


def _present(found: Mapping[str, Any], critical: set[str]) -> tuple[list[Node], list[PictureEdge]]:
    shut = _shut(found)
    nodes = [
        Node(
            key=task["key"],
            title=task["title"],
            status="held_back" if shut and task["status"] == "pending" else task["status"],
            href=item_url(task["item"]),
            critical=task["key"] in critical,
        )
        for task in found["tasks"]
    ]
    edges = [PictureEdge(source=e["source"], target=e["target"], when=e["when"]) for e in found["edges"]]
    return nodes, edges


def _earlier(then: Mapping[str, Any], items: Mapping[str, int]) -> tuple[list[Node], list[PictureEdge]]:
    """The graph of an earlier revision. Its statuses are not known."""
    nodes = [
        Node(
            key=task["key"],
            title=task.get("title") or "",
            href=item_url(items[task["key"]]) if task["key"] in items else "",
        )
        for task in then["tasks"]
    ]
    edges = [PictureEdge(source=e["source"], target=e["target"], when=e["when"]) for e in then["edges"]]
    return nodes, edges


def _marked(
    nodes: Sequence[Node], edges: Sequence[PictureEdge], operations: Sequence[Mapping[str, Any]], title: str
) -> PlanPicture:
    """The graph with what the revision changed; what it removed is drawn too, where it fits."""
    changes = {_name(op): _VERBS[op["op"].partition("_")[0]] for op in operations}
    shown = [_with(node, changes.get(node.key, "")) for node in nodes]
    links = [_with(edge, changes.get((edge.source, edge.target), "")) for edge in edges]
    keys = {node.key for node in nodes}
    gone = [
        Node(key=op["key"], href=item_url(op["item"]), change="removed")
        for op in operations
        if op["op"] == "remove_task" and op["key"] not in keys
    ]
    keys |= {node.key for node in gone}
    pairs = {(edge.source, edge.target) for edge in edges}
    cut = [
        PictureEdge(source=op["from"], target=op["to"], when=op["when"], change="removed")
        for op in operations
        if op["op"] == "remove_edge"
        and {op["from"], op["to"]} <= keys
        and (op["from"], op["to"]) not in pairs
    ]
    wanted = [*pairs, *((edge.source, edge.target) for edge in cut)]
    if len(list(topological(list(keys), wanted))) < len(keys):  # the edit turned an edge round
        cut = []
    return PlanPicture(nodes=(*shown, *gone), links=(*links, *cut), title=title)


def _with(part: _Part, change: str) -> _Part:
    return replace(part, change=change) if change else part


def _layers(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How many tasks of each layer have which status. A task is in the layer after those it waits for."""
    level = dict.fromkeys((task["key"] for task in found["tasks"]), 0)
    targets: dict[str, list[str]] = {key: [] for key in level}
    for edge in found["edges"]:
        targets[edge["source"]].append(edge["target"])
    for key in topological(list(level), [(e["source"], e["target"]) for e in found["edges"]]):
        for target in targets[key]:
            level[target] = max(level[target], level[key] + 1)
    counts: dict[int, Counter[str]] = {}
    for task in found["tasks"]:
        counts.setdefault(level[task["key"]], Counter())[task["status"]] += 1
    return [_layer(n + 1, counts[n]) for n in sorted(counts)]


def _layer(number: int, counts: Counter[str]) -> dict[str, Any]:
    total = counts.total()
    figures = {
        "tasks": total,
        "completed": counts["completed"],
        "failed": counts["failed"] + counts["cancelled"],
        "open_tasks": sum(counts[status] for status in _UNFINISHED),
    }
    return {"number": number, "counts": counts, **figures, **progress(figures)}


# -- words --------------------------------------------------------------------------------------------


def _rows(tasks: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tasks with the keys of those that they still wait for."""
    needs: dict[str, list[str]] = {}
    for edge in edges:
        if edge["state"] != "satisfied":
            needs.setdefault(edge["target"], []).append(edge["source"])
    return [{**task, "after": needs.get(task["key"], [])} for task in tasks]


def _name(operation: Mapping[str, Any]) -> Any:
    return operation["key"] if "key" in operation else (operation["from"], operation["to"])


def _told(revision: Mapping[str, Any]) -> dict[str, Any]:
    """A revision in one line."""
    counts = Counter(
        f"{op['op'].partition('_')[2]}s {_VERBS[op['op'].partition('_')[0]]}" for op in revision["operations"]
    )
    words = [f"{n:,} {what if n > 1 else what.replace('s ', ' ', 1)}" for what, n in counts.items()]
    first = "created" if revision["revision"] == 1 else "no change of the graph"
    return {**revision, "summary": ", ".join(words) or first}


def _differences(revision: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The changes of a revision in words, each with its kind."""
    for operation in revision["operations"]:
        verb, _, what = operation["op"].partition("_")
        name = _name(operation)
        before, after = operation.get("before") or {}, operation.get("after") or {}
        yield {
            "change": _VERBS[verb],
            "what": what,
            "name": name if isinstance(name, str) else f"{name[0]} → {name[1]}",
            "item": operation.get("item"),
            "fields": [
                {"name": field.replace("_", " "), "before": before.get(field), "after": value}
                for field, value in after.items()
                if before.get(field) != value
            ],
        }


def _seconds(seconds: float) -> str:
    """A short span: `340 ms`, `2.1 s`, or longer ones as everywhere."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else span(seconds)


def _at(number: int, revision: int) -> str:
    return url(f"/plans/{number}", revision=revision)


def _steps(number: int, revision: int, newest: int) -> dict[str, str]:
    """Links to the revisions beside this one."""
    return {
        "older": _at(number, revision - 1) if revision > 1 else "",
        "newer": "" if revision == newest else _at(number, revision + 1),
        "now": f"/plans/{number}",
    }
