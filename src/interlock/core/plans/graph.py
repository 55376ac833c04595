"""Order in a graph: topological order, cycles, and the ranks that keep both cheap.

`rank(source) < rank(target)` for every edge; equal ranks say nothing. So an edge from a lower to a higher
rank closes no cycle and needs no search. Any other new edge can close a cycle only among the tasks that its
target reaches with ranks up to its source's, and only those may need a higher rank. Gaps between ranks leave
room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

N = TypeVar("N", bound=Hashable)

#: Between neighbouring ranks of a new graph. A hundred thousand of them still fit into 63 bits.
GAP = 1 << 32
_TOP = 1 << 62


def topological(nodes: Iterable[N], edges: Iterable[tuple[N, N]]) -> list[N]:
    """The nodes with every source before its targets, else in the given order; raises `CycleError`."""
    sorter: TopologicalSorter[N] = TopologicalSorter()
    for node in nodes:
        sorter.add(node)
    for source, target in edges:
        sorter.add(target, source)
    return list(sorter.static_order())


def cycles(nodes: Sequence[N], edges: Iterable[tuple[N, N]], most: int = 10) -> Iterator[list[N]]:
    """Disjoint cycles of a graph, each from a node back to itself."""
    left = list(edges)
    for _ in range(most):
        try:
            topological(nodes, left)
        except CycleError as error:
            cycle: list[N] = error.args[1]
            yield cycle
            on_it = set(cycle)
            left = [pair for pair in left if on_it.isdisjoint(pair)]
        else:
            return


def raised(
    movable: Sequence[N],
    edges: Iterable[tuple[N, N]],
    ranks: Mapping[N, int],
) -> dict[N, int] | None:
    """New ranks for the nodes of `movable` that need one, so that every edge rises; nothing if there is no
    room left. Raises `CycleError`.

    `ranks` has the old rank of every node of an edge except new ones. Nodes that are not movable keep theirs.
    """
    edges = list(edges)
    mine = set(movable)
    ordered = topological(movable, [(s, t) for s, t in edges if s in mine and t in mine])
    sources: dict[N, list[N]] = defaultdict(list)
    targets: dict[N, list[N]] = defaultdict(list)
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    high: dict[N, int] = {}
    chain: dict[N, int] = {}  # how many movable nodes, with this one, need room below that bound
    for node in reversed(ordered):
        high[node] = min((high[t] if t in mine else ranks[t] for t in targets[node]), default=_TOP)
        chain[node] = 1 + max((chain[t] for t in targets[node] if t in mine), default=0)
    now = dict(ranks)
    changed: dict[N, int] = {}
    for node in ordered:
        low = max((now[s] for s in sources[node]), default=0)
        if node in now and now[node] > low:
            continue
        room = (high[node] - low) // (chain[node] + 1)
        if room < 1:
            return None
        now[node] = changed[node] = low + min(GAP, room)
    return changed
