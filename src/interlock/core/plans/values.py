"""Graphs and operations as Python programs give them: every value of its type, or refused with every reason.

A shell that reads text gives nothing else; a program may give anything, and a wrong type would break the
rules further on, where nobody can say what was wrong. The text of a choice stands for it, a list for a tuple.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeVar, get_args

from interlock.core import names
from interlock.core.errors import InvalidInput, InvalidPlan
from interlock.core.model import RetryLane
from interlock.core.plans.model import (
    AddEdge,
    AddTask,
    EdgeSpec,
    Graph,
    OnCancel,
    Operation,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
)

_S = TypeVar("_S", TaskSpec, EdgeSpec)
_Reader = Callable[[str, object], Any]
_TASK, _EDGE = TaskSpec(key=""), EdgeSpec(source="", target="")


def graph_of(given: Graph) -> Graph:
    """The graph with every value of its type, or `InvalidPlan`."""
    sheet = _Sheet()
    graph = sheet.graph(given)
    refuse("plan", sheet.mistakes)
    return graph


def operations_of(given: Iterable[Operation]) -> tuple[Operation, ...]:
    """The operations with every value of its type, or `InvalidPlan`."""
    sheet = _Sheet()
    operations = tuple(
        sheet.operation(one, f"operations[{n}]") for n, one in enumerate(sheet.several("operations", given))
    )
    refuse("edit", sheet.mistakes)
    return operations


def refuse(what: str, mistakes: Sequence[str]) -> None:
    """Raise if there were mistakes, with all of them."""
    if mistakes:
        count = len(mistakes)
        raise InvalidPlan(
            f"The {what} has a mistake." if count == 1 else f"The {what} has {count:,} mistakes.",
            "Nothing was changed.",
            reasons=tuple(mistakes),
        )


@dataclass(slots=True)
class _Sheet:
    """What is read, and what is wrong with it so far."""

    mistakes: list[str] = field(default_factory=list)

    def several(self, what: str, value: object) -> tuple[Any, ...]:
        if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
            return tuple(value)
        self.mistakes.append(f"The {what} are {_shown(value)} and not a list.")
        return ()

    def graph(self, given: object) -> Graph:
        if not isinstance(given, Graph):
            self.mistakes.append(f"The graph is {_shown(given)} and not a Graph.")
            return Graph(tasks=())
        tasks = self.several("tasks", given.tasks)
        edges = self.several("edges", given.edges)
        return Graph(
            tasks=tuple(self.spec(one, f"tasks[{n}]", _TASK) for n, one in enumerate(tasks)),
            edges=tuple(self.spec(one, f"edges[{n}]", _EDGE) for n, one in enumerate(edges)),
        )

    def spec(self, given: object, place: str, instead: _S) -> _S:
        """A task or an edge, of the same type as the one instead of it."""
        kind = type(instead)
        if isinstance(given, kind):
            values = {name: getattr(given, name) for name in kind.__dataclass_fields__}
            changed = self.values(values, _about(given, place))
            return replace(given, **changed) if changed else given
        self.mistakes.append(f"{place} is {_shown(given)} and not a {kind.__name__}.")
        return instead

    def values(self, given: Mapping[str, Any], place: str) -> dict[str, Any]:
        """The values that are to be others. One that no field has a name for is left to the rules."""
        changed = {}
        for name, value in given.items():
            try:
                read = _FIELDS[name](name, value) if name in _FIELDS else value
            except InvalidInput as error:
                self.mistakes.append(f"{place}: {error}")
            else:
                if read is not value:
                    changed[name] = read
        return changed

    def operation(self, given: Operation, place: str) -> Operation:
        if not isinstance(given, get_args(Operation)):
            self.mistakes.append(f"{place} is {_shown(given)} and not an operation.")
            return given
        if isinstance(given, AddTask):
            return AddTask(task=self.spec(given.task, place, _TASK))
        if isinstance(given, AddEdge):
            return AddEdge(edge=self.spec(given.edge, place, _EDGE))
        named = {f.name: getattr(given, f.name) for f in fields(given)}
        if isinstance(given, UpdateTask):
            changes = named.pop("changes")
            if not isinstance(changes, Mapping) or not all(isinstance(name, str) for name in changes):
                self.mistakes.append(f"{place}: The changes are {_shown(changes)} and not values by name.")
                return given
            given = replace(given, changes={**changes, **self.values(changes, _about(given, place))})
        if isinstance(given, UpdateEdge):
            named = {name: value for name, value in named.items() if value is not None}
        return replace(given, **self.values(named, _about(given, place)))


def _about(given: object, place: str) -> str:
    """Where something stands and, if that can be said, what it is called."""
    key = getattr(given, "key", None)
    return f"{place} ({key})" if isinstance(key, str) else place


def _shown(value: object) -> str:
    return reprlib.repr(value)


def _text(what: str, value: object) -> str:
    """Text that every store can keep, be asked about, and say in a refusal."""
    if not isinstance(value, str):
        raise InvalidInput(f"The {what} {_shown(value)} is not a text.")
    return names.check_text(what, value if type(value) is str else str.__str__(value))


def _texts(what: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"The {what} {_shown(value)} are not a list of texts.")
    read = tuple(_text(what, one) for one in value)
    return value if isinstance(value, tuple) and value == read else read


def _json(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"The {what} {_shown(value)} is not JSON text.", "`json.dumps` makes it.")
    return _text(what, value)


def _flag(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"The {what} {_shown(value)} is neither true nor false.")
    return value


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"The {what} {_shown(value)} is not a number.")
    return value


def _choice(kind: type[StrEnum]) -> _Reader:
    def read(what: str, value: object) -> StrEnum:
        if isinstance(value, kind):
            return value
        if isinstance(value, str) and value in tuple(kind):
            return kind(value)
        raise InvalidInput(f"The {what} {_shown(value)} is not one of {', '.join(kind)}.")

    return read


def _or_null(reader: _Reader) -> _Reader:
    return lambda what, value: None if value is None else reader(what, value)


#: Of tasks and edges; no name means two things.
_FIELDS: dict[str, _Reader] = {
    "key": _text,
    "title": _text,
    "agent": _text,
    "labels": _texts,
    "type": _text,
    "priority": names.whole,
    "payload": _or_null(_json),
    "lane": _or_null(_text),
    "no_lane": _flag,
    "lease_s": _or_null(_number),
    "timeout_s": _or_null(_number),
    "max_attempts": names.whole,
    "retry_lane": _choice(RetryLane),
    "source": _text,
    "target": _text,
    "when": _choice(When),
    "on_cancel": _choice(OnCancel),
}
