"""What is drawn: tasks and the edges between them, without anything that a store knows besides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WHEN_SUCCESS, WHEN_COMPLETION, WHEN_FAILURE = "success", "completion", "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A task. Without a status, it is drawn as one whose state is not known."""

    key: str
    title: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An edge: `target` waits until `source` ended as `when` says."""

    source: str
    target: str
    when: str = WHEN_SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes with distinct keys, and links between them. It has no cycle."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()
    title: str = ""


def in_order(keys: Sequence[str], links: Sequence[tuple[str, str]]) -> list[str]:
    """The keys with every source before its targets, else in the given order. Raises on a cycle."""
    ordered = _orderly(keys, links)
    if len(ordered) < len(keys):
        raise ValueError("the graph has a cycle")
    return ordered


def circles(keys: Sequence[str], links: Sequence[tuple[str, str]], most: int = 10) -> Iterator[list[str]]:
    """Cycles of a graph, each from a key back to itself, no key in two of them; nothing if there is none."""
    left = list(links)
    for _ in range(most):
        stuck = set(keys).difference(_orderly(keys, left))
        if not stuck:
            return
        source_of = {target: source for source, target in left if source in stuck and target in stuck}
        key, met = next(key for key in keys if key in stuck), dict[str, None]()
        while key not in met:
            met[key] = None
            key = source_of[key]
        path = list(met)
        path = [key, *reversed(path[path.index(key) :])]
        yield path
        on_it = set(path)
        left = [pair for pair in left if not on_it.intersection(pair)]


def _orderly(keys: Sequence[str], links: Sequence[tuple[str, str]]) -> list[str]:
    """The keys that do not wait for themselves, every source before its targets."""
    after: dict[str, list[str]] = {key: [] for key in keys}
    still = dict.fromkeys(keys, 0)
    for source, target in links:
        after[source].append(target)
        still[target] += 1
    ordered = [key for key in keys if not still[key]]
    for key in ordered:
        for target in after[key]:
            still[target] -= 1
            if not still[target]:
                ordered.append(target)
    return ordered
