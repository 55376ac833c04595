"""Order in a graph: ranks, and the cycles that an edit would make.

Every task has a rank above those of all its predecessors; equal ranks say nothing. So an edge from a lower
to a higher rank can close no cycle and needs no search. Any other new edge can only meet a cycle among the
tasks that are reachable from its target with ranks up to its source's, and only those may have to be
raised. Gaps between ranks leave room for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)

#: Between neighbouring ranks of a new graph. A hundred thousand of them still fit into 63 bits.
GAP = 1 << 32
_TOP = 1 << 62


def topological(nodes: Iterable[N], edges: Iterable[tuple[N, N]]) -> list[N] | None:
    """The nodes with every source before its targets, or nothing if there is a cycle."""
    edges = list(edges)
    outgoing = _outgoing(edges)
    incoming = dict.fromkeys(nodes, 0)
    for _, target in edges:
        incoming[target] += 1
    ordered = [n for n, count in incoming.items() if count == 0]
    for node in ordered:  # grows while it is gone through
        for target in outgoing.get(node, ()):
            incoming[target] -= 1
            if incoming[target] == 0:
                ordered.append(target)
    return ordered if len(ordered) == len(incoming) else None


def find_cycle(nodes: Iterable[N], edges: Iterable[tuple[N, N]]) -> list[N]:
    """The nodes of one cycle, in its order. There must be one."""
    left = dict.fromkeys(nodes)
    pairs = list(edges)
    while True:  # whatever nothing leads to, and whatever leads nowhere, is on no cycle
        sources, targets = {s for s, _ in pairs}, {t for _, t in pairs}
        stay = {n for n in left if n in sources and n in targets}
        if len(stay) == len(left):
            break
        left = {n: None for n in left if n in stay}
        pairs = [(s, t) for s, t in pairs if s in stay and t in stay]
    outgoing = _outgoing(pairs)
    path: list[N] = []
    at: dict[N, int] = {}
    node = next(iter(left))
    while node not in at:
        at[node] = len(path)
        path.append(node)
        node = outgoing[node][0]
    return path[at[node] :]


def raised(
    movable: Sequence[N],
    edges: Iterable[tuple[N, N]],
    ranks: Mapping[N, int],
) -> dict[N, int] | None:
    """New ranks for those of `movable` that need one, so that every edge rises; nothing if there is no room
    left.

    `ranks` has the old rank of every node of an edge, but for new nodes, which have none. The movable nodes
    and their edges must have no cycle. Nodes that are not movable keep their place.
    """
    edges = list(edges)
    mine = set(movable)
    ordered = topological(movable, [(s, t) for s, t in edges if s in mine and t in mine])
    assert ordered is not None
    sources: dict[N, list[N]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
    outgoing = _outgoing(edges)
    high: dict[N, int] = {}
    chain: dict[N, int] = {}  # how many movable nodes have to find room below that bound, with this one
    for node in reversed(ordered):
        targets = outgoing.get(node, ())
        high[node] = min((high[t] if t in mine else ranks[t] for t in targets), default=_TOP)
        chain[node] = 1 + max((chain[t] for t in targets if t in mine), default=0)
    now = dict(ranks)
    changed: dict[N, int] = {}
    for node in ordered:
        low = max((now[s] for s in sources.get(node, ())), default=0)
        if node in now and now[node] > low:
            continue
        room = (high[node] - low) // (chain[node] + 1)
        if room < 1:
            return None
        now[node] = changed[node] = low + min(GAP, room)
    return changed


def _outgoing(edges: Iterable[tuple[N, N]]) -> dict[N, list[N]]:
    outgoing: dict[N, list[N]] = {}
    for source, target in edges:
        outgoing.setdefault(source, []).append(target)
    return outgoing
