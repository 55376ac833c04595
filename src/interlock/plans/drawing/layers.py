"""The columns of a drawing, and the order of tasks within each.

A task is in the column after the last task that it waits for, so the tasks of a column may run in parallel.
An edge that passes columns gets a *bend* in each of them, which keeps it clear of the tasks there. Edges of
one source and kind share their bends. The order within columns is improved by the median of the neighbours
(Sugiyama's method).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

from interlock.core.plans.graph import topological
from interlock.plans.drawing.picture import PictureEdge, PlanPicture

#: Beyond this many bends, longer edges are drawn straight: such a drawing is an overview.
BENDS_MAX = 100_000
_SWEEPS = 12
#: With more vertices than this, crossings are not counted.
_COUNTED_MAX = 4_000
_SWEEPS_OF_LARGE = 4


@dataclass(slots=True)
class Layers:
    """Vertices (tasks first, in the graph's order; then bends) in columns."""

    #: The column of each vertex.
    column: list[int]
    #: The vertices of each column from top to bottom.
    columns: list[list[int]]
    #: Neighbours one column to the left and to the right.
    before: list[list[int]]
    after: list[list[int]]
    #: The route of each link as vertices: source, bends, target.
    routes: list[list[int]]
    tasks: int

    def is_bend(self, vertex: int) -> bool:
        return vertex >= self.tasks


def layered(graph: PlanPicture) -> Layers:
    """Arrange a graph in columns, with few crossings."""
    layers = _in_columns(graph)
    _reduce_crossings(layers)
    return layers


def _in_columns(graph: PlanPicture) -> Layers:
    number = {node.key: n for n, node in enumerate(graph.nodes)}
    column = [0] * len(number)
    targets: dict[str, list[str]] = defaultdict(list)
    for link in graph.links:
        targets[link.source].append(link.target)
    for key in topological(number, [(link.source, link.target) for link in graph.links]):
        for target in targets[key]:
            column[number[target]] = max(column[number[target]], column[number[key]] + 1)
    columns: list[list[int]] = [[] for _ in range(max(column, default=-1) + 1)]
    for vertex, at in enumerate(column):
        columns[at].append(vertex)
    size = len(number)
    layers = Layers(
        column=column,
        columns=columns,
        before=[[] for _ in range(size)],
        after=[[] for _ in range(size)],
        routes=[],
        tasks=size,
    )
    _route_links(layers, graph.links, number)
    return layers


def _route_links(layers: Layers, links: tuple[PictureEdge, ...], number: dict[str, int]) -> None:
    """Give every link its route. The longest come last, because they get no bends if there are too many."""
    bends: dict[tuple[int, str], list[int]] = defaultdict(list)
    routes: dict[int, list[int]] = {}
    bent = 0

    def span(n: int) -> int:
        return layers.column[number[links[n].target]] - layers.column[number[links[n].source]]

    for n in sorted(range(len(links)), key=lambda n: (span(n), n)):
        source, target = number[links[n].source], number[links[n].target]
        shared = bends[source, links[n].when]
        bent += span(n) - 1
        if bent > BENDS_MAX:
            routes[n] = [source, target]
            continue
        while len(shared) < span(n) - 1:
            shared.append(_new_bend(layers, shared[-1] if shared else source))
        routes[n] = [source, *shared[: span(n) - 1], target]
        _connect(layers, routes[n][-2], target)
    layers.routes = [routes[n] for n in range(len(links))]


def _new_bend(layers: Layers, after: int) -> int:
    vertex = len(layers.column)
    layers.column.append(layers.column[after] + 1)
    layers.columns[layers.column[vertex]].append(vertex)
    layers.before.append([])
    layers.after.append([])
    _connect(layers, after, vertex)
    return vertex


def _connect(layers: Layers, left: int, right: int) -> None:
    layers.after[left].append(right)
    layers.before[right].append(left)


def _reduce_crossings(layers: Layers) -> None:
    """Sort columns by the median of their neighbours, back and forth, and keep the best order."""
    place = [0] * len(layers.column)

    def note_places(column: list[int]) -> None:
        for n, vertex in enumerate(column):
            place[vertex] = n

    for column in layers.columns:
        note_places(column)
    counted = len(place) <= _COUNTED_MAX
    best, fewest = [list(c) for c in layers.columns], _crossings(layers, place) if counted else 0
    for sweep in range(_SWEEPS if counted else _SWEEPS_OF_LARGE):
        forth = sweep % 2 == 0
        neighbours = layers.before if forth else layers.after
        for column in layers.columns if forth else reversed(layers.columns):
            column.sort(key=lambda v: _median(v, neighbours[v], place))
            note_places(column)
        if not counted:
            best = layers.columns
            continue
        crossings = _crossings(layers, place)
        if crossings < fewest:
            best, fewest = [list(c) for c in layers.columns], crossings
        if not fewest:
            break
    layers.columns = best


def _median(vertex: int, neighbours: list[int], place: list[int]) -> float:
    """The median place of its neighbours; a vertex without any keeps its place."""
    if not neighbours:
        return place[vertex]
    places = sorted(place[n] for n in neighbours)
    middle = len(places) // 2
    return places[middle] if len(places) % 2 else (places[middle - 1] + places[middle]) / 2


def _crossings(layers: Layers, place: list[int]) -> int:
    """How often edges cross: pairs of edges whose order differs between two columns."""
    total = 0
    for column in layers.columns:
        seen: list[int] = []
        for vertex in column:
            ends = sorted(place[n] for n in layers.after[vertex])
            total += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
            for end in ends:
                seen.insert(bisect_left(seen, end), end)
    return total
