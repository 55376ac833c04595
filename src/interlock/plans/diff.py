"""Differences between two revisions of a plan, for people and programs to read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec, chosen

_Spec = TypeVar("_Spec", TaskSpec, EdgeSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One task or edge that was added, removed or changed. An edge is named by its two keys."""

    what: str
    name: str | tuple[str, str]
    change: str
    #: For a changed task or edge, the fields that differ; else the fields that differ from their defaults.
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def differences(before: Graph, after: Graph) -> Iterator[Difference]:
    """Tasks first, then edges; each in the order of the newer graph, with removed ones at the end."""
    tasks = ({t.key: t for t in before.tasks}, {t.key: t for t in after.tasks})
    edges = ({e.pair: e for e in before.edges}, {e.pair: e for e in after.edges})
    yield from _compared("task", *tasks)
    yield from _compared("edge", *edges)


def _compared(what: str, old: Mapping[Any, _Spec], new: Mapping[Any, _Spec]) -> Iterator[Difference]:
    for name, spec in {**new, **{n: s for n, s in old.items() if n not in new}}.items():
        if name not in old:
            yield Difference(what=what, name=name, change="added", before={}, after=_plain(chosen(spec)))
        elif name not in new:
            yield Difference(what=what, name=name, change="removed", before=_plain(chosen(spec)), after={})
        elif old[name] != spec:
            differing = [f.name for f in fields(spec) if getattr(old[name], f.name) != getattr(spec, f.name)]
            before, after = (_plain({n: getattr(one, n) for n in differing}) for one in (old[name], spec))
            yield Difference(what=what, name=name, change="changed", before=before, after=after)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values for answers: the JSON text of a payload becomes the object."""
    return {k: json.loads(v) if k == "payload" and v is not None else v for k, v in values.items()}
