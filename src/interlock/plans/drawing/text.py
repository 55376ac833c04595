"""A picture as plain text: boxes and lines if they fit and are legible, else a list by columns.

Up to 250 tasks are drawn. A list with one line per task replaces the drawing if there are more tasks, the
terminal is too narrow, or lines meet in too many places. SVG has room for such a graph.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from interlock.plans.drawing import channel
from interlock.plans.drawing.canvas import Canvas
from interlock.plans.drawing.layers import layered
from interlock.plans.drawing.layout import GridPoint, Layout, lay_out
from interlock.plans.drawing.picture import WHEN_SUCCESS, PictureEdge, PlanPicture
from interlock.plans.drawing.symbols import (
    ARROWS,
    EDGE_WORDS,
    STATUS_SIGNS,
    harmless,
    label,
    shortened,
    sign,
    text_width,
    words,
)

DRAWN_MAX = 250
_BOXED_MAX = 60
_MIXED = "►"
#: Forms in order of preference: lines of a node, columns of its label.
_FORMS = ((3, 40), (3, 24), (3, 14), (1, 40), (1, 24), (1, 14))
_NAMED_MAX = 6
#: If lines meet in more places than this, the eye cannot follow them.
MEETINGS_MAX = 12
_BELOW_MIN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Lines of text, and where the sign and label of each task are: line, start, end, status."""

    lines: tuple[str, ...]
    marks: tuple[tuple[int, int, int, str], ...] = ()
    #: A list instead of boxes and lines.
    listed: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines)


def drawn(graph: PlanPicture, *, width: int = 10_000, meetings_max: int = MEETINGS_MAX) -> Drawing:
    """The picture in at most `width` columns, if possible."""
    if not graph.nodes:
        return Drawing(lines=("The graph has no tasks.",))
    for node_lines, label_width in _FORMS if len(graph.nodes) <= DRAWN_MAX else ():
        if node_lines > 1 and len(graph.nodes) > _BOXED_MAX:
            continue
        layout = lay_out(graph, node_lines=node_lines)
        if any(b.column - a.column > 1 for route in layout.routes for a, b in pairwise(route)):
            break  # too many edges to route them all
        painter = _Painter(layout, label_width)
        made = painter.drawing()
        if painter.meetings > meetings_max:
            break
        if max(map(text_width, made.lines)) <= width:
            return Drawing(lines=(*made.lines, *_legend(graph, width)), marks=made.marks)
    return _listed(graph, width)


class _Painter:
    """One layout on one canvas."""

    def __init__(self, layout: Layout, label_width: int) -> None:
        self._layout = layout
        self._boxed = layout.node_lines > 1
        self._canvas = Canvas()
        self._marks: list[tuple[int, int, int, str]] = []
        self._wires = 0
        self._labels = [
            harmless(f"{sign(n.status)} {shortened(label(n.key, n.title), label_width)}")
            for n in layout.graph.nodes
        ]
        self._ends: list[dict[int, set[int]]] = [defaultdict(set) for _ in range(layout.columns)]
        self._bends: list[set[int]] = [set() for _ in range(layout.columns)]
        for route in layout.routes:
            for a, b in pairwise(route):
                self._ends[a.column][a.line].add(b.line)
            for bend in route[1:-1]:
                self._bends[bend.column].add(bend.line)
        self._arrows: dict[GridPoint, str] = {}
        for link, route in zip(layout.graph.links, layout.routes, strict=True):
            arrow = ARROWS.get(link.when, _MIXED)
            self._arrows[route[-1]] = arrow if self._arrows.get(route[-1], arrow) == arrow else _MIXED

    def drawing(self) -> Drawing:
        left = 0
        for column in range(self._layout.columns):
            left = self._column(column, left)
        return Drawing(lines=tuple(self._canvas.lines()), marks=tuple(self._marks))

    @property
    def meetings(self) -> int:
        return self._canvas.meetings

    def _column(self, column: int, left: int) -> int:
        """Draw a column and the channel after it; returns the left side of the next column."""
        nodes = [n for n, place in enumerate(self._layout.nodes) if place.column == column]
        margin = 4 if self._boxed else 3
        right = left + max(text_width(self._labels[n]) for n in nodes) + margin - 1
        ends = self._ends[column]
        lines = sorted(ends)
        trunks = channel.routed([channel.Wire(line=at, ends=tuple(sorted(ends[at]))) for at in lines])
        following = right + 2 * channel.width(trunks) + (4 if trunks else 1)
        starts = dict.fromkeys(self._bends[column], left)
        for n in nodes:
            line = self._layout.nodes[n].line
            starts[line] = self._node(n, left, right, leads_on=line in ends)
        for trunk in trunks:
            self._wires += 1
            self._trunk(trunk, self._wires, starts.get(trunk.line, right), right, following)
        for line in {end for targets in ends.values() for end in targets}:
            arrow = self._arrows.get(GridPoint(column=column + 1, line=line))
            if arrow is not None:
                self._canvas.write(following - 1, line, arrow)
        return following

    def _node(self, n: int, left: int, right: int, *, leads_on: bool) -> int:
        """Draw a task; returns the column where its edges begin."""
        line, text = self._layout.nodes[n].line, self._labels[n]
        if not self._boxed:
            end = self._canvas.write(left, line, f" {text} ")
            self._marks.append((line, left + 1, left + 1 + len(text), self._layout.graph.nodes[n].status))
            return end
        bar = "─" * (right - left - 1)
        self._canvas.write(left, line - 1, f"┌{bar}┐")
        self._canvas.write(left, line + 1, f"└{bar}┘")
        self._canvas.write(left, line, f"│ {' ' * (right - left - 2)}{'├' if leads_on else '│'}")
        self._canvas.write(left + 2, line, text)
        self._marks.append((line, left + 2, left + 2 + len(text), self._layout.graph.nodes[n].status))
        return right

    def _trunk(self, trunk: channel.Trunk, wire: int, start: int, right: int, following: int) -> None:
        draw = self._canvas
        if trunk.straight:
            draw.horizontal(wire, trunk.line, start, following)
            return
        x = right + 2 + 2 * trunk.track
        begins = start if trunk.continues is None else right + 2 + 2 * trunk.continues.track
        draw.horizontal(wire, trunk.line, begins, x)
        draw.vertical(wire, x, trunk.top, trunk.bottom)
        for end in trunk.ends:
            goes_on = trunk.onward is not None and end == trunk.onward.line
            draw.horizontal(wire, end, x, x + 1 if goes_on else following)


def _listed(graph: PlanPicture, width: int) -> Drawing:
    """One line per task, column by column, with the tasks that it waits for."""
    sources: dict[str, list[PictureEdge]] = defaultdict(list)
    for link in graph.links:
        sources[link.target].append(link)
    key_width = min(max(text_width(harmless(n.key)) for n in graph.nodes), 40)
    lines: list[str] = []
    marks = []
    for number, column in enumerate(layered(graph).columns, 1):
        tasks = sorted(v for v in column if v < len(graph.nodes))
        lines.append(f"{number}. {len(tasks)} task{'s' if len(tasks) > 1 else ''}")
        for n in tasks:
            node = graph.nodes[n]
            key = shortened(harmless(node.key), key_width)
            title = harmless(node.title) if node.title != node.key else ""
            head = f"   {sign(node.status)} {key}{' ' * (key_width - text_width(key))}"
            text = "  ".join(part for part in (head, title, _waits(sources[node.key])) if part).rstrip()
            marks.append((len(lines), 3, 5 + len(key), node.status))
            lines.extend(shortened(line, width) for line in _wrapped(text, width, len(head) + 2))
    return Drawing(lines=(*lines, *_legend(graph, width, arrows=False)), marks=tuple(marks), listed=True)


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    """Wrap a long line below its second column, if that leaves room."""
    below = " " * (indent if indent + _BELOW_MIN <= width else 0)
    return textwrap.wrap(text, width, subsequent_indent=below, break_on_hyphens=False)


def _waits(links: list[PictureEdge]) -> str:
    named = [
        harmless(k.source) + ("" if k.when == WHEN_SUCCESS else f" ({EDGE_WORDS.get(k.when, k.when)})")
        for k in links[:_NAMED_MAX]
    ]
    more = [f"{len(links) - _NAMED_MAX} more"] if len(links) > _NAMED_MAX else []
    return "after " + ", ".join(named + more) if named else ""


def _legend(graph: PlanPicture, width: int, *, arrows: bool = True) -> Iterator[str]:
    """The signs that occur and their meaning, and the edges of targets with several kinds."""
    counts = {s: sum(n.status == s for n in graph.nodes) for s in STATUS_SIGNS}
    known = [f"{STATUS_SIGNS[s]} {n} {words(s)}" for s, n in counts.items() if n]
    if known:
        yield ""
        yield shortened("   ".join(known), width)
    kinds = {link.when for link in graph.links}
    if not arrows or kinds <= {WHEN_SUCCESS}:
        return
    if not known:
        yield ""
    yield "   ".join(f"{ARROWS[k]} {EDGE_WORDS[k]}" for k in ARROWS if k in kinds)
    by_target: dict[str, list[PictureEdge]] = defaultdict(list)
    for link in graph.links:
        by_target[link.target].append(link)
    for target, links in by_target.items():
        if len({link.when for link in links}) > 1:
            yield shortened(f"{_MIXED} {harmless(target)} {_waits(links)}", width)
