"""Places the elements of a drawing on a grid of columns and lines.

One unit is a line of text; larger drawings scale it. Nothing overlaps: every vertex keeps a minimum distance
to the one above it. Within that limit, each is as close to the middle of its neighbours as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from interlock.plans.drawing.layers import Layers, layered
from interlock.plans.drawing.picture import PlanPicture

_SWEEPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """The column of a vertex and the line of its middle."""

    column: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A graph on the grid."""

    graph: PlanPicture
    #: The place of each node, in the order of the picture's nodes.
    nodes: tuple[GridPoint, ...]
    #: The route of each link, in the order of the picture's links: source, bends, target. A link that passes
    #: a column without a bend is a straight line.
    routes: tuple[tuple[GridPoint, ...], ...]
    columns: int
    lines: int
    #: How many lines a node takes.
    node_lines: int


def lay_out(graph: PlanPicture, *, node_lines: int = 3) -> Layout:
    """The layout of a graph whose nodes are `node_lines` (an odd number) high."""
    layers = layered(graph)
    line = _lines(layers, node_lines)
    places = [GridPoint(column=c, line=n) for c, n in zip(layers.column, line, strict=True)]
    half = node_lines // 2
    return Layout(
        graph=graph,
        nodes=tuple(places[: layers.tasks]),
        routes=tuple(tuple(places[v] for v in route) for route in layers.routes),
        columns=len(layers.columns),
        lines=max((n + half + 1 for n in line), default=0),
        node_lines=node_lines,
    )


def _lines(layers: Layers, node_lines: int) -> list[int]:
    half = node_lines // 2
    offsets = [_offsets(layers, column, half) for column in layers.columns]
    line = [0.0] * len(layers.column)
    for column, offset in zip(layers.columns, offsets, strict=True):
        for vertex, at in zip(column, offset, strict=True):
            line[vertex] = at - offset[-1] / 2
    best: list[int] = []
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        order = range(len(layers.columns)) if forth else range(len(layers.columns) - 1, -1, -1)
        for n in order:
            _pull(layers, n, offsets[n], line, forth=forth)
        rounded = _rounded(layers, offsets, line)
        if not best or _length(layers, rounded) < _length(layers, best):
            best = rounded
    top = min((at - (0 if layers.is_bend(v) else half) for v, at in enumerate(best)), default=0)
    return [at - top for at in best]


def _rounded(layers: Layers, offsets: list[list[int]], line: list[float]) -> list[int]:
    """The vertices on whole lines. Rounding before adding the offset preserves the distances, which are
    integers.

    Two values that differ only in the last bit may round apart: a lower vertex never moves above an upper
    one.
    """
    rounded = [0] * len(line)
    for column, offset in zip(layers.columns, offsets, strict=True):
        least: int | None = None
        for vertex, at in zip(column, offset, strict=True):
            wish = round(line[vertex] - at)
            least = wish if least is None else max(wish, least)
            rounded[vertex] = least + at
    return rounded


def _length(layers: Layers, line: list[int]) -> int:
    """The vertical length of all edges, plus 2 for each edge that is not straight."""
    steps = [abs(line[v] - line[n]) for v, after in enumerate(layers.after) for n in after]
    return sum(steps) + 2 * sum(step > 0 for step in steps)


def _offsets(layers: Layers, column: list[int], half: int) -> list[int]:
    """The least distance of each vertex from the first vertex of its column."""
    offsets = [0]
    for above, below in pairwise(column):
        halves = sum(0 if layers.is_bend(v) else half for v in (above, below))
        both_nodes = not layers.is_bend(above) and not layers.is_bend(below)
        offsets.append(offsets[-1] + halves + 1 + (both_nodes and half > 0))
    return offsets[: len(column)]


def _pull(layers: Layers, n: int, offset: list[int], line: list[float], *, forth: bool) -> None:
    """Move a column's vertices towards the middle of their neighbours, within order and distance."""
    column = layers.columns[n]
    neighbours = layers.before if forth else layers.after
    wishes, weights = [], []
    for vertex, at in zip(column, offset, strict=True):
        near = neighbours[vertex] or [vertex]
        wishes.append(sum(line[v] for v in near) / len(near) - at)
        # Bends weigh most: a straight long edge matters more than a centred task.
        pulled = layers.is_bend(vertex) and any(layers.is_bend(v) for v in neighbours[vertex])
        weights.append(8.0 if pulled else 1.0 if neighbours[vertex] else 0.2)
    for vertex, at, wish in zip(column, offset, _ascending(wishes, weights), strict=True):
        line[vertex] = wish + at


def _ascending(wishes: list[float], weights: list[float]) -> list[float]:
    """The ascending numbers nearest to the wishes: neighbours in the wrong order share their mean."""
    pools: list[tuple[float, float, int]] = []
    for wish, weight in zip(wishes, weights, strict=True):
        mean, total, count = wish, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, members = pools.pop()
            mean = (mean * total + other * more) / (total + more)
            total, count = total + more, count + members
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]
