"""From what somebody wrote to a plan or an edit: every mistake in it is listed, each with its place.

    {"name", "editor", "edit_deadline_s", "project", "tasks": [{"key", …}], "edges": [{"from", "to", …}]}
    {"operations": [{"op": "add_task", "key", …}, …]} or {"graph": {"tasks": […], "edges": […]}}

Only the text is judged here. Whether agents are known and names are lawful, and whether an edit fits the plan
as it stands, is the core's to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from interlock.core.errors import InvalidInput
from interlock.core.plans.model import (
    EDGES_MAX,
    EDIT_DEADLINE_S,
    TASKS_MAX,
    UPDATABLE,
    AddEdge,
    AddTask,
    EdgeSpec,
    Graph,
    OnCancel,
    Operation,
    RemoveEdge,
    RemoveTask,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
)
from interlock.core.plans.values import refuse
from interlock.plans import markup
from interlock.plans.drawing.graph import circles
from interlock.service.intake import choice, field_name, field_value, span_s, type_defaults
from interlock.settings import TypeDefaults

_T = TypeVar("_T")
_TASK_FIELDS = tuple(TaskSpec.__dataclass_fields__)
_TASK_DEFAULTS = {f.name: f.default for f in TaskSpec.__dataclass_fields__.values()}
_EDGE_FIELDS = ("from", "to", "when", "on_cancel")
_GRAPH_FIELDS = ("tasks", "edges")
_PLAN_FIELDS = ("name", "editor", "edit_deadline_s", "project", *_GRAPH_FIELDS)
_OPERATIONS_MAX = TASKS_MAX + EDGES_MAX
#: What one entry of a list is called.
_ENTRIES = {"tasks": "task", "edges": "edge", "operations": "operation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan:
    """A plan as its file describes it."""

    name: str
    graph: Graph
    editor: str = ""
    edit_deadline_s: float = EDIT_DEADLINE_S
    project: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An edit as its file describes it: operations, or a whole graph."""

    operations: tuple[Operation, ...] | None = None
    graph: Graph | None = None


def read_plan(text: str, *, name: str = "-", types: Mapping[str, TypeDefaults] | None = None) -> NewPlan:
    """The plan that a document describes; `name` is its file's, `types` are the defaults of items by type."""
    return plan_of(markup.read("plan", text, name=name), types=types)


def plan_of(value: object, *, types: Mapping[str, TypeDefaults] | None = None) -> NewPlan:
    """The same from plain values."""
    sheet = _Sheet(types or {})
    fields = sheet.mapping(value, "", _PLAN_FIELDS, "The plan")
    graph = sheet.graph(fields, "")
    given: dict[str, Any] = {}
    for key in ("name", "editor", "project"):
        if fields.get(key) is not None:
            given[key] = sheet.text(fields, key, "")
    if fields.get("edit_deadline_s") is not None:
        given["edit_deadline_s"] = sheet.read(
            fields, "edit_deadline_s", "", lambda v: span_s("edit deadline", v), EDIT_DEADLINE_S
        )
    if isinstance(value, Mapping) and "name" not in given:
        sheet.note("", "The plan has no name.")
    if isinstance(value, Mapping) and not graph.tasks and "tasks" not in fields:
        sheet.note("", "The plan has no tasks.")
    refuse("plan", sheet.mistakes)
    return NewPlan(graph=graph, **given)


def read_edit(text: str, *, name: str = "-", types: Mapping[str, TypeDefaults] | None = None) -> Edit:
    """The edit that a document describes."""
    return edit_of(markup.read("edit", text, name=name), types=types)


def edit_of(value: object, *, types: Mapping[str, TypeDefaults] | None = None) -> Edit:
    """The same from plain values."""
    sheet = _Sheet(types or {})
    fields = sheet.mapping(value, "", ("operations", "graph"), "The edit")
    if len(fields.keys() & {"operations", "graph"}) == 2:
        sheet.note("", "The edit has operations and a graph; it is either the one or the other.")
    elif not fields.keys() & {"operations", "graph"} and not sheet.mistakes:
        sheet.note("", "The edit has neither operations nor a graph.")
    graph = operations = None
    if "graph" in fields:
        inner = sheet.mapping(fields["graph"], "graph", _GRAPH_FIELDS, "The graph")
        graph = sheet.graph(inner, "graph.")
    if "operations" in fields:
        operations = tuple(sheet.operations(fields["operations"]))
    refuse("edit", sheet.mistakes)
    return Edit(operations=operations, graph=graph)


def graph_document(graph: Graph) -> dict[str, Any]:
    """A graph as a file says it; what is as by default is left out. `edit_of` reads it back."""
    return {
        "tasks": [_task_document(task) for task in graph.tasks],
        "edges": [_edge_document(edge) for edge in graph.edges],
    }


def _task_document(task: TaskSpec) -> dict[str, Any]:
    fields = asdict(task)
    if task.title == task.key:
        del fields["title"]
    if task.payload is not None:
        fields["payload"] = json.loads(task.payload)
    return {k: v for k, v in fields.items() if k == "key" or v != _TASK_DEFAULTS[k]}


def _edge_document(edge: EdgeSpec) -> dict[str, Any]:
    ends = {"from": edge.source, "to": edge.target}
    kind = {"when": edge.when, "on_cancel": edge.on_cancel}
    usual = EdgeSpec(source="", target="")
    return ends | {k: v.value for k, v in kind.items() if v != getattr(usual, k)}


@dataclass(slots=True)
class _Sheet:
    """What is being read, and the mistakes found so far."""

    types: Mapping[str, TypeDefaults]
    mistakes: list[str] = field(default_factory=list)

    def note(self, place: str, sentence: str, line: int | None = None) -> None:
        where = place
        if line is not None:
            where = f"{place} (line {line})" if place else f"line {line}"
        self.mistakes.append(f"{where}: {sentence}" if where else sentence)

    # -- plain values -----------------------------------------------------------------------------

    def mapping(self, value: object, place: str, known: tuple[str, ...], what: str) -> Mapping[str, Any]:
        """An object with none but the known keys; what is wrong with it is noted."""
        if not isinstance(value, Mapping):
            self.note(place, f"{what} is not an object with keys and values.")
            return {}
        if isinstance(value, markup.Object):
            for key, line in value.duplicates:
                self.note(place, f"The key {key!r} comes twice.", line)
        for key in value:
            if key not in known:
                hint = f"Known are {', '.join(known)}."
                self.note(place, f"The key {key!r} does not exist. {hint}", _line(value, key))
        return value

    def entries(
        self, fields: Mapping[str, Any], key: str, place: str, most: int
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The objects of a list, with their places."""
        value = fields.get(key)
        if value is None:
            return
        if not isinstance(value, list | tuple):
            self.note(place + key, "This is not a list.", _line(fields, key))
            return
        if len(value) > most:
            self.note(place + key, f"There are {len(value):,} {key}; at most {most:,} are allowed.")
            return
        for n, entry in enumerate(value):
            at = f"{place}{key}[{n}]"
            if isinstance(entry, Mapping):
                yield at, entry
            else:
                self.note(at, f"The {_ENTRIES[key]} is not an object with keys and values.")

    def read(
        self, fields: Mapping[str, Any], key: str, place: str, reader: Callable[[Any], _T], instead: _T
    ) -> _T:
        try:
            return reader(fields[key])
        except InvalidInput as error:
            self.note(f"{place}.{key}" if place else key, str(error), _line(fields, key))
            return instead

    def text(self, fields: Mapping[str, Any], key: str, place: str) -> str:
        value = fields.get(key)
        if isinstance(value, str):
            return value
        if value is None:
            self.note(place, f"There is no {key!r}.", _line(fields, None))
        else:
            self.note(
                f"{place}.{key}" if place else key,
                f"{value!r} is not a text. Put it in quotes.",
                _line(fields, key),
            )
        return ""

    # -- graphs -----------------------------------------------------------------------------------

    def graph(self, fields: Mapping[str, Any], place: str) -> Graph:
        tasks: dict[str, TaskSpec] = {}
        for at, entry in self.entries(fields, "tasks", place, TASKS_MAX):
            task = self.task(self.mapping(entry, at, _TASK_FIELDS, "The task"), at)
            if task is not None and task.key in tasks:
                self.note(at, f"There is another task with the key {task.key!r}.", _line(entry, "key"))
            elif task is not None:
                tasks[task.key] = task
        edges: dict[tuple[str, str], EdgeSpec] = {}
        for at, entry in self.entries(fields, "edges", place, EDGES_MAX):
            edge = self.edge(self.mapping(entry, at, _EDGE_FIELDS, "The edge"), at)
            if edge is None:
                continue
            if edge.pair in edges:
                self.note(
                    at,
                    f"There is another edge from {edge.source!r} to {edge.target!r}.",
                    _line(entry, "from"),
                )
            for end in sorted({edge.source, edge.target} - tasks.keys()):
                self.note(at, f"There is no task {end!r}.", _line(entry, None))
            edges[edge.pair] = edge
        whole = [pair for pair in edges if pair[0] in tasks and pair[1] in tasks and pair[0] != pair[1]]
        for circle in circles(list(tasks), whole):
            self.note(f"{place}edges", f"Tasks wait for each other: {' → '.join(circle)}.")
        return Graph(tasks=tuple(tasks.values()), edges=tuple(edges.values()))

    def task(self, fields: Mapping[str, Any], place: str) -> TaskSpec | None:
        given = self.task_fields(fields, place)
        if not self._has_key(fields, place):
            return None
        kind = given.get("type", _TASK_DEFAULTS["type"])
        defaults = {k: v for k, v in type_defaults(self.types, kind).items() if k in _TASK_FIELDS}
        return TaskSpec(
            **{**defaults, **{k: v for k, v in given.items() if v is not None}, "key": fields["key"]}
        )

    def task_fields(self, fields: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Fields of a task besides its key; null means not given."""
        given: dict[str, Any] = {}
        for key in fields:
            if key in _TASK_FIELDS and key != "key":
                name = field_name(key)
                given[name] = self.read(fields, key, place, partial(_value, name), None)
        return given

    def edge(self, fields: Mapping[str, Any], place: str) -> EdgeSpec | None:
        ends = self._ends(fields, place)
        if ends is None:
            return None
        kind = self._kind(fields, place)
        return EdgeSpec(
            source=ends[0],
            target=ends[1],
            when=kind[0] or When.SUCCESS,
            on_cancel=kind[1] or OnCancel.BLOCK,
        )

    def _has_key(self, fields: Mapping[str, Any], place: str) -> bool:
        before = len(self.mistakes)
        if not self.text(fields, "key", place) and len(self.mistakes) == before:
            self.note(place, "The key is empty.", _line(fields, "key"))
        return len(self.mistakes) == before

    def _ends(self, fields: Mapping[str, Any], place: str) -> tuple[str, str] | None:
        before = len(self.mistakes)
        source, target = (self.text(fields, key, place) for key in ("from", "to"))
        if len(self.mistakes) == before and source == target:
            self.note(place, f"The edge leads from {source!r} to itself.", _line(fields, "from"))
        return None if len(self.mistakes) > before else (source, target)

    def _kind(self, fields: Mapping[str, Any], place: str) -> tuple[When | None, OnCancel | None]:
        when = on_cancel = None
        if fields.get("when") is not None:
            when = self.read(fields, "when", place, lambda v: When(choice("when", v, tuple(When))), None)
        if fields.get("on_cancel") is not None:
            on_cancel = self.read(
                fields, "on_cancel", place, lambda v: OnCancel(choice("on_cancel", v, tuple(OnCancel))), None
            )
        return when, on_cancel

    # -- operations -------------------------------------------------------------------------------

    def operations(self, value: object) -> Iterator[Operation]:
        for place, entry in self.entries({"operations": value}, "operations", "", _OPERATIONS_MAX):
            op = entry.get("op")
            if op not in _OPERATIONS:
                known = f"Known are {', '.join(_OPERATIONS)}."
                self.note(place, f"The operation {op!r} does not exist. {known}", _line(entry, "op"))
                continue
            known_fields, reader = _OPERATIONS[op]
            made = reader(self, self.mapping(entry, place, ("op", *known_fields), "The operation"), place)
            if made is not None:
                yield made

    def add_task(self, fields: Mapping[str, Any], place: str) -> AddTask | None:
        task = self.task(fields, place)
        return None if task is None else AddTask(task=task)

    def remove_task(self, fields: Mapping[str, Any], place: str) -> RemoveTask | None:
        return RemoveTask(key=fields["key"]) if self._has_key(fields, place) else None

    def update_task(self, fields: Mapping[str, Any], place: str) -> UpdateTask | None:
        """Fields that are given get their new values; null sets one back to what it is by default."""
        for key in ("lane", "no_lane"):
            if key in fields:
                self.note(place, "A task keeps its lane. Remove it and add another.", _line(fields, key))
        changes = self.task_fields(fields, place)
        if not self._has_key(fields, place):
            return None
        kept = {k: _TASK_DEFAULTS[k] if v is None else v for k, v in changes.items() if k in UPDATABLE}
        return UpdateTask(key=fields["key"], changes=kept)

    def add_edge(self, fields: Mapping[str, Any], place: str) -> AddEdge | None:
        edge = self.edge(fields, place)
        return None if edge is None else AddEdge(edge=edge)

    def remove_edge(self, fields: Mapping[str, Any], place: str) -> RemoveEdge | None:
        ends = self._ends(fields, place)
        return None if ends is None else RemoveEdge(source=ends[0], target=ends[1])

    def update_edge(self, fields: Mapping[str, Any], place: str) -> UpdateEdge | None:
        ends, kind = self._ends(fields, place), self._kind(fields, place)
        return (
            None
            if ends is None
            else UpdateEdge(source=ends[0], target=ends[1], when=kind[0], on_cancel=kind[1])
        )


_Reader = Callable[[_Sheet, Mapping[str, Any], str], Operation | None]
_OPERATIONS: dict[str, tuple[tuple[str, ...], _Reader]] = {
    "add_task": (_TASK_FIELDS, _Sheet.add_task),
    "remove_task": (("key",), _Sheet.remove_task),
    "update_task": (_TASK_FIELDS, _Sheet.update_task),
    "add_edge": (_EDGE_FIELDS, _Sheet.add_edge),
    "remove_edge": (("from", "to"), _Sheet.remove_edge),
    "update_edge": (_EDGE_FIELDS, _Sheet.update_edge),
}


def _value(name: str, value: object) -> Any:
    return None if value is None else field_value(name, value)


def _line(value: object, key: str | None) -> int | None:
    """The line of a key, or of its object, where the format tells."""
    if not isinstance(value, markup.Object):
        return None
    return value.lines.get(key, value.line) if key is not None else value.line
