"""What differs between two revisions of a plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec

_Spec = TypeVar("_Spec", TaskSpec, EdgeSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One task or edge that was added, removed or changed. An edge is named by its two keys."""

    what: str
    name: str | tuple[str, str]
    change: str
    #: The fields that differ, of something changed; all that are not the default, of the others.
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def differences(before: Graph, after: Graph) -> Iterator[Difference]:
    """Tasks first, then edges; each in the order of the newer graph, what was removed at the end."""
    tasks = ({t.key: t for t in before.tasks}, {t.key: t for t in after.tasks})
    edges = ({e.pair: e for e in before.edges}, {e.pair: e for e in after.edges})
    yield from _compared("task", *tasks)
    yield from _compared("edge", *edges)


def _compared(what: str, old: Mapping[Any, _Spec], new: Mapping[Any, _Spec]) -> Iterator[Difference]:
    for name, spec in new.items():
        if name not in old:
            yield Difference(what=what, name=name, change="added", before={}, after=_told(spec))
        elif old[name] != spec:
            was, now = _all(old[name]), _all(spec)
            differing = [key for key in now if getattr(old[name], key) != getattr(spec, key)]
            yield Difference(
                what=what,
                name=name,
                change="changed",
                before={key: was[key] for key in differing},
                after={key: now[key] for key in differing},
            )
    for name, spec in old.items():
        if name not in new:
            yield Difference(what=what, name=name, change="removed", before=_told(spec), after={})


def _all(spec: TaskSpec | EdgeSpec) -> dict[str, Any]:
    return {field.name: _value(field.name, spec) for field in fields(spec)}


def _told(spec: TaskSpec | EdgeSpec) -> dict[str, Any]:
    """The fields that were chosen; the names are said anyway."""
    named = ("key", "source", "target")
    return {
        field.name: _value(field.name, spec)
        for field in fields(spec)
        if field.name not in named and getattr(spec, field.name) != field.default
    }


def _value(name: str, spec: TaskSpec | EdgeSpec) -> Any:
    """A payload is the object that its text stands for, as everywhere in answers."""
    value = getattr(spec, name)
    return json.loads(value) if name == "payload" and value is not None else value
