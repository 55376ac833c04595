"""Plan and edit files: parses a document into a plan or an edit, and reports every mistake with its place.

    {"name", "editor", "edit_deadline_s", "project", "tasks": [{"key", …}], "edges": [{"from", "to", …}]}
    {"operations": [{"op": "add_task", "key", …}, …]} or {"graph": {"tasks": […], "edges": […]}}

This module reads keys, spans and nulls, and finds lines. The core validates tasks, edges and operations. The
store's transaction checks that agents are known and that an edit fits its plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.names import USUAL_FIELDS, LaneFields
from interlock.core.plans.edit import new_plan_draft
from interlock.core.plans.model import (
    EDIT_DEADLINE_S,
    AddEdge,
    AddTask,
    EdgeSpec,
    EditOperation,
    Graph,
    RemoveEdge,
    RemoveTask,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    chosen,
)
from interlock.core.plans.validation import (
    Complain,
    Mistakes,
    check_operation,
    check_size,
    text_of,
    typed_operation,
)
from interlock.plans import markup
from interlock.service.item_fields import field_value, lane_default, span_s, type_defaults
from interlock.settings import TypeDefaults

_TASK_DEFAULTS = {f.name: f.default for f in fields(TaskSpec)}
_TASK_KEYS = tuple(_TASK_DEFAULTS)
_EDGE_KEYS = ("from", "to", "when", "on_cancel")
_GRAPH_KEYS = ("tasks", "edges")
_PLAN_VALUES: dict[str, Callable[[str, object], Any]] = {
    "name": text_of,
    "editor": text_of,
    "edit_deadline_s": span_s,
    "project": text_of,
}
_PLAN_KEYS = (*_PLAN_VALUES, *_GRAPH_KEYS)
_REQUIRED = ("key", "from", "to")
#: How to write an entry of a list, for a list that was written as a mapping.
_FORMS = {
    "tasks": " Write each task as `- {key: build, title: Build}`.",
    "edges": " Write each edge as `- {from: build, to: test}`.",
}
#: The keys in documents whose fields have another name.
_FIELD_OF = {"from": "source", "to": "target"}
_KEY_OF = {name: key for key, name in _FIELD_OF.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan:
    """A plan as its file describes it."""

    name: str
    graph: Graph
    editor: str = ""
    edit_deadline_s: float = EDIT_DEADLINE_S
    project: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFile:
    """An edit as its file describes it: operations, or a whole graph."""

    operations: tuple[EditOperation, ...] | None = None
    graph: Graph | None = None


def read_plan(
    text: str,
    *,
    name: str = "-",
    types: Mapping[str, TypeDefaults] | None = None,
    lanes: LaneFields = USUAL_FIELDS,
) -> NewPlan:
    """The plan in a document. `name` is the name of its file; `types` and `lanes` are as for any item."""
    return plan_of(markup.read("plan", text, name=name), types=types, lanes=lanes)


def plan_of(
    value: object, *, types: Mapping[str, TypeDefaults] | None = None, lanes: LaneFields = USUAL_FIELDS
) -> NewPlan:
    """The plan in plain values."""
    document = _Document(types or {}, lanes)
    values = document.mapping(value, "", _PLAN_KEYS, "The plan")
    graph = document.graph(values, "")
    given = document.plan_values(values)
    if isinstance(value, Mapping) and "name" not in given:
        document.mistakes.note("The plan has no name.")
    if isinstance(value, Mapping) and not graph.tasks and "tasks" not in values:
        document.mistakes.note("The plan has no tasks.")
    document.mistakes.refuse("plan")
    return NewPlan(graph=graph, **given)


def read_edit(
    text: str,
    *,
    name: str = "-",
    types: Mapping[str, TypeDefaults] | None = None,
    lanes: LaneFields = USUAL_FIELDS,
) -> EditFile:
    """The edit in a document."""
    return edit_of(markup.read("edit", text, name=name), types=types, lanes=lanes)


def edit_of(
    value: object, *, types: Mapping[str, TypeDefaults] | None = None, lanes: LaneFields = USUAL_FIELDS
) -> EditFile:
    """The edit in plain values."""
    document = _Document(types or {}, lanes)
    values = document.mapping(value, "", ("operations", "graph"), "The edit")
    if len(values.keys() & {"operations", "graph"}) == 2:
        document.mistakes.note("The edit has operations and a graph; use one or the other.")
    elif not values.keys() & {"operations", "graph"} and not document.mistakes.found:
        document.mistakes.note("The edit has neither operations nor a graph.")
    graph = operations = None
    if "graph" in values:
        inner = document.mapping(values["graph"], "graph", _GRAPH_KEYS, "The graph")
        graph = document.graph(inner, "graph.")
    if "operations" in values:
        operations = tuple(document.operations(values))
    document.mistakes.refuse("edit")
    return EditFile(operations=operations, graph=graph)


def graph_document(graph: Graph) -> dict[str, Any]:
    """A graph as a file writes it, without defaults. `edit_of` reads it back."""
    return {
        "tasks": [_task_document(task) for task in graph.tasks],
        "edges": [{"from": edge.source, "to": edge.target, **chosen(edge)} for edge in graph.edges],
    }


def _task_document(task: TaskSpec) -> dict[str, Any]:
    values = {"key": task.key, **chosen(task)}
    if task.title == task.key:
        del values["title"]
    if task.payload is not None:
        values["payload"] = json.loads(task.payload)
    return values


@dataclass(slots=True)
class _Document:
    """A document being read, and the mistakes found so far."""

    types: Mapping[str, TypeDefaults]
    lanes: LaneFields
    mistakes: Mistakes = field(default_factory=Mistakes)

    def mapping(self, value: object, place: str, known: tuple[str, ...], what: str) -> Mapping[str, Any]:
        """An object; records duplicate keys and unknown keys."""
        if not isinstance(value, Mapping):
            self.mistakes.note(f"{what} is not an object with keys and values.", place)
            return {}
        if isinstance(value, markup.Object):
            for key, line in value.duplicates:
                self.mistakes.note(f"The key {key!r} comes twice.", place, line=line)
            if isinstance(payload := value.get("payload"), markup.Object):
                for key, line in markup.duplicates(payload):
                    self.mistakes.note(f"The key {key!r} comes twice in the payload.", place, line=line)
        for key in value:
            if key not in known:
                sentence = f"Unknown key {key!r}. Use one of {', '.join(known)}."
                self.mistakes.note(sentence, place, line=_line(value, key))
        return value

    def entries(
        self, values: Mapping[str, Any], key: str, place: str
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The objects of a list, with their places."""
        entries = values.get(key)
        if entries is not None and not isinstance(entries, list | tuple):
            form = _FORMS.get(key, "")
            self.mistakes.note(f"This is not a list.{form}", place + key, line=_line(values, key))
            return
        for n, entry in enumerate(entries or ()):
            if isinstance(entry, Mapping):
                yield f"{place}{key}[{n}]", entry
            else:
                what = key.removesuffix("s")
                self.mistakes.note(f"The {what} is not an object with keys and values.", f"{place}{key}[{n}]")

    def plan_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a plan besides its graph."""
        given: dict[str, Any] = {}
        for key, read in _PLAN_VALUES.items():
            if values.get(key) is not None:
                given[key] = None
                try:
                    given[key] = read(key.removesuffix("_s").replace("_", " "), values[key])
                except InvalidInput as error:
                    self.mistakes.note(str(error), "", key, _line(values, key))
        return given

    def graph(self, values: Mapping[str, Any], place: str) -> Graph:
        """A graph, checked as an edit that adds all of it to an empty plan."""
        tasks, edges = (v if isinstance(v := values.get(k), list | tuple) else () for k in _GRAPH_KEYS)
        before = len(self.mistakes.found)
        check_size(len(tasks), len(edges), lambda sentence: self.mistakes.note(sentence, place[:-1]))
        if len(self.mistakes.found) > before:
            return Graph(tasks=())
        added: list[EditOperation] = []
        draft = new_plan_draft()
        for key, op in (("tasks", "add_task"), ("edges", "add_edge")):
            for at, entry in self.entries(values, key, place):
                operation = self.operation(op, entry, at, _OPERATIONS[op][0], f"The {key[:-1]}")
                if operation is not None:
                    added.append(operation)
                    draft.apply(operation)
                for sentence in draft.reasons:
                    self.mistakes.note(sentence, at, line=_line(entry, "key"))
                draft.reasons.clear()
        draft.finish()
        for sentence in draft.reasons:
            self.mistakes.note(sentence, f"{place}edges")
        return Graph(
            tasks=tuple(o.task for o in added if isinstance(o, AddTask)),
            edges=tuple(o.edge for o in added if isinstance(o, AddEdge)),
        )

    def operations(self, values: Mapping[str, Any]) -> Iterator[EditOperation]:
        for place, entry in self.entries(values, "operations", ""):
            op = entry.get("op")
            if not isinstance(op, str) or op not in _OPERATIONS:
                sentence = f"Unknown operation {op!r}. Use one of {', '.join(_OPERATIONS)}."
                self.mistakes.note(sentence, place, line=_line(entry, "op"))
                continue
            operation = self.operation(op, entry, place, ("op", *_OPERATIONS[op][0]), "The operation")
            if operation is not None:
                check_operation(operation, partial(self._complain(place, entry), ""))
                yield operation

    def operation(
        self, op: str, entry: Mapping[str, Any], place: str, known: tuple[str, ...], what: str
    ) -> EditOperation | None:
        """One operation with typed values; records missing and wrong values."""
        given: dict[str, Any] = {}
        complain = self._complain(place, entry)
        for key, value in self.mapping(entry, place, known, what).items():
            if key in known and key != "op":
                try:
                    given[_FIELD_OF.get(key, key)] = _plain(key, value)
                except InvalidInput as error:
                    complain(key, str(error))
        keys, make = _OPERATIONS[op]
        missing = [key for key in _REQUIRED if key in keys and given.get(_FIELD_OF.get(key, key)) is None]
        for key in missing:
            complain("", f"There is no {key!r}.")
        try:
            return None if missing else typed_operation(make(given, self), complain)
        except InvalidInput as error:  # the payload gives no usable lane
            complain("payload", str(error))
            return None

    def _complain(self, place: str, entry: Mapping[str, Any]) -> Complain:
        def complain(name: str, sentence: str) -> None:
            key = _KEY_OF.get(name, name)
            self.mistakes.note(sentence, place, key, _line(entry, key))

        return complain


_Made = Callable[[dict[str, Any], _Document], EditOperation]


def _add_task(given: dict[str, Any], document: _Document) -> AddTask:
    """Null means omitted. An omitted value comes from the task's type, or from the settings."""
    kind = given.get("type") or "task"
    defaults = {k: v for k, v in type_defaults(document.types, kind).items() if k in _TASK_DEFAULTS}
    return AddTask(task=TaskSpec(**defaults | lane_default(document.lanes, given) | _not_null(given)))


def _update_task(given: dict[str, Any], _: _Document) -> UpdateTask:
    """Null sets a field back to its default."""
    changes = {k: _TASK_DEFAULTS[k] if v is None else v for k, v in given.items() if k != "key"}
    return UpdateTask(key=given["key"], changes=changes)


def _not_null(given: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in given.items() if v is not None}


#: The keys of each operation, and the function that builds it from its values.
_OPERATIONS: dict[str, tuple[tuple[str, ...], _Made]] = {
    "add_task": (_TASK_KEYS, _add_task),
    "remove_task": (("key",), lambda given, _: RemoveTask(**given)),
    "update_task": (_TASK_KEYS, _update_task),
    "add_edge": (_EDGE_KEYS, lambda given, _: AddEdge(edge=EdgeSpec(**_not_null(given)))),
    "remove_edge": (("from", "to"), lambda given, _: RemoveEdge(**given)),
    "update_edge": (_EDGE_KEYS, lambda given, _: UpdateEdge(**given)),
}


def _plain(key: str, value: object) -> Any:
    """The value of a task's field in the form of the core: spans in seconds, payloads as JSON text."""
    return value if value is None or key in (*_REQUIRED, *_EDGE_KEYS) else field_value(key, value)


def _line(value: object, key: str) -> int | None:
    """The line of a key, or else of its object, if the parser gives it."""
    return value.lines.get(key, value.line) if isinstance(value, markup.Object) else None
