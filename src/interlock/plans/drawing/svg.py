"""A picture as SVG: one file without outside fonts or scripts, for light and dark pages.

Colour, sign and word show a status; dashes and arrowhead show the kind of an edge. All names have a prefix,
so that the SVG may be part of an HTML page.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from interlock.plans.drawing.layout import GridPoint, lay_out
from interlock.plans.drawing.picture import (
    WHEN_COMPLETION,
    WHEN_FAILURE,
    WHEN_SUCCESS,
    Link,
    Node,
    PlanPicture,
)
from interlock.plans.drawing.symbols import EDGE_WORDS, STATUS_SIGNS, harmless, shortened, words

_UNIT, _BOX_W, _BOX_H, _CHANNEL, _MARGIN = 16, 224, 48, 84, 24
_LEGEND_H, _ENTRY_W = 26, 150
_KEY_COLUMNS, _TITLE_COLUMNS = 26, 29

#: Status: colour on a light page, on a dark page, and its sign around the origin.
_STATUSES = {
    "waiting": ("#59636e", "#9198a1", '<circle r="5.5" fill="none"/>'),
    "deferred": ("#9a6700", "#d29922", '<circle r="5.5" fill="none" stroke-dasharray="2.6 2.2"/>'),
    "pending": ("#0969da", "#4493f8", '<circle r="5.5" fill="none"/><circle r="2"/>'),
    "in_progress": (
        "#8250df",
        "#ab7df8",
        '<circle r="5.5" fill="none"/><path d="M0-5.5a5.5 5.5 0 0 1 0 11z"/>',
    ),
    "completed": ("#1a7f37", "#3fb950", '<path d="M-5 .5l3.5 4L5.5-4.5" fill="none"/>'),
    "failed": ("#d1242f", "#f85149", '<path d="M-4.5-4.5l9 9m0-9l-9 9" fill="none"/>'),
    "cancelled": (
        "#953800",
        "#db6d28",
        '<circle r="5.5" fill="none"/><path d="M-3.9 3.9l7.8-7.8" fill="none"/>',
    ),
}
_UNKNOWN = ("#59636e", "#9198a1", '<circle r="2"/>')
_EDGES = {
    WHEN_SUCCESS: ("#6e7781", "#768390", "none"),
    WHEN_COMPLETION: ("#6e7781", "#768390", "7 5"),
    WHEN_FAILURE: ("#d1242f", "#f85149", "2 4"),
}


def svg(graph: PlanPicture) -> str:
    """The picture as the text of an SVG file."""
    layout = lay_out(graph)
    columns_w = layout.columns * _BOX_W + max(layout.columns - 1, 0) * _CHANNEL
    width = 2 * _MARGIN + max(columns_w, 2 * _ENTRY_W)
    legend = list(_legend(graph, width - 2 * _MARGIN))
    drawn_h = 2 * _MARGIN + layout.lines * _UNIT
    rows = legend[-1][1] + 1 if legend else 0
    height = drawn_h + rows * _LEGEND_H + (_MARGIN // 2 if rows else 0)
    name = harmless(graph.title) or "Plan"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    told = f'class="il-plan" role="img" aria-label={quoteattr(name)}'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {told}>',
        f"<title>{escape(name)}</title>",
        f"<style>{_style()}</style>",
        "<defs>",
        *(_marker(when) for when in _EDGES),
        "</defs>",
        f'<rect class="il-page" width="{width}" height="{height}"/>',
        *(_edge(link, route) for link, route in zip(graph.links, layout.routes, strict=True)),
        *(_node(node, place) for node, place in zip(graph.nodes, layout.nodes, strict=True)),
        *(
            f'<g transform="translate({_MARGIN + column * _ENTRY_W},{drawn_h + row * _LEGEND_H})">{entry}</g>'
            for column, row, entry in legend
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _left(place: GridPoint) -> int:
    return _MARGIN + place.column * (_BOX_W + _CHANNEL)


def _middle(place: GridPoint) -> int:
    return _MARGIN + place.line * _UNIT + _UNIT // 2


def _node(node: Node, place: GridPoint) -> str:
    x, y = _left(place), _middle(place) - _BOX_H // 2
    status = node.status if node.status in _STATUSES else "unknown"
    key, title = harmless(node.key), harmless(node.title)
    state = words(node.status) if status != "unknown" else ""
    room = _KEY_COLUMNS - len(state)
    alone = not title or title == key
    first = 29 if alone else 20
    hover = " · ".join(part for part in (key, title, state) if part)
    return (
        f'<g class="il-task il-{status}" transform="translate({x},{y})"><title>{escape(hover)}</title>'
        f'<rect width="{_BOX_W}" height="{_BOX_H}" rx="7"/>'
        f'<g class="il-sign" transform="translate(17,{first - 4})">{_sign(status)}</g>'
        f'<text class="il-key" x="31" y="{first}">{escape(shortened(key, room))}</text>'
        f'<text class="il-state" x="{_BOX_W - 10}" y="{first}" text-anchor="end">{state}</text>'
        + (
            ""
            if alone
            else f'<text class="il-title" x="12" y="38">{escape(shortened(title, _TITLE_COLUMNS))}</text>'
        )
        + "</g>"
    )


def _edge(link: Link, route: tuple[GridPoint, ...]) -> str:
    x, y = _left(route[0]) + _BOX_W, _middle(route[0])
    path = [f"M{x} {y}"]
    for place in route[1:]:
        last = place is route[-1]
        to_x, to_y = _left(place) - (6 if last else 0), _middle(place)
        if to_y == y:
            path.append(f"H{to_x}")
        else:
            pull = (to_x - x) // 2
            path.append(f"C{x + pull} {y} {to_x - pull} {to_y} {to_x} {to_y}")
        x, y = to_x, to_y
        if not last:
            x += _BOX_W
            path.append(f"H{x}")
    when = link.when if link.when in _EDGES else WHEN_SUCCESS
    told = f"{harmless(link.source)} → {harmless(link.target)}, {EDGE_WORDS[when]}"
    return (
        f'<path class="il-edge il-on-{when}" marker-end="url(#il-{when})" d="{" ".join(path)}">'
        f"<title>{escape(told)}</title></path>"
    )


def _legend(graph: PlanPicture, width: int) -> Iterator[tuple[int, int, str]]:
    """What signs and lines mean, as column, row and entry."""
    counts = {s: sum(n.status == s for n in graph.nodes) for s in STATUS_SIGNS}
    entries = [
        f'<g class="il-{s}"><g class="il-sign" transform="translate(8,8)">{_sign(s)}</g></g>'
        f'<text class="il-title" x="22" y="12">{n} {words(s)}</text>'
        for s, n in counts.items()
        if n
    ]
    kinds = {link.when for link in graph.links}
    if kinds - {WHEN_SUCCESS}:
        entries += [
            f'<path class="il-edge il-on-{w}" marker-end="url(#il-{w})" d="M0 8H32"/>'
            f'<text class="il-title" x="46" y="12">{EDGE_WORDS[w]}</text>'
            for w in _EDGES
            if w in kinds
        ]
    per_row = max(width // _ENTRY_W, 1)
    for n, entry in enumerate(entries):
        yield n % per_row, n // per_row, entry


def _sign(status: str) -> str:
    return _STATUSES.get(status, _UNKNOWN)[2]


def _marker(when: str) -> str:
    shapes = {
        WHEN_SUCCESS: '<path d="M0 0L8 4L0 8z"/>',
        WHEN_COMPLETION: '<path class="il-open" d="M.8 .8L7.4 4L.8 7.2z"/>',
        WHEN_FAILURE: '<path d="M4 0L8 4L4 8L0 4z"/>',
    }
    return (
        f'<marker id="il-{when}" class="il-head il-on-{when}" viewBox="0 0 8 8" refX="2" refY="4" '
        f'markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">{shapes[when]}</marker>'
    )


def _style() -> str:
    """Rules without variables, which not every renderer knows (librsvg): one that does not gets light."""
    rules = [
        ".il-plan{font-size:13px;font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}",
        ".il-task>rect{stroke-width:1.3}",
        ".il-in_progress>rect{stroke-width:2.6}.il-cancelled>rect{stroke-dasharray:5 4}",
        ".il-sign{stroke-width:1.8;stroke-linecap:round}",
        ".il-key{font-weight:600}.il-title{font-size:12px}.il-state{font-size:11px}",
        ".il-edge{fill:none;stroke-width:1.5}.il-head{stroke:none}.il-open{stroke-width:1.4}",
        *(f".il-on-{w}{{stroke-dasharray:{_EDGES[w][2]}}}" for w in _EDGES),
        ".il-head path{stroke-dasharray:none}",
    ]
    light = _colours("#fff", "#f6f8fa", "#1f2328", "#59636e", theme=0)
    dark = _colours("#0d1117", "#161b22", "#f0f6fc", "#9198a1", theme=1)
    return "".join([*rules, light, f"@media (prefers-color-scheme:dark){{{dark}}}"])


def _colours(page: str, box: str, ink: str, dim: str, *, theme: int) -> str:
    """What has a colour, on a light page (0) or a dark one (1)."""
    rules = [
        f".il-page,.il-open{{fill:{page}}}.il-task>rect{{fill:{box}}}",
        f".il-key{{fill:{ink}}}.il-title{{fill:{dim}}}",
    ]
    for status, values in {**_STATUSES, "unknown": _UNKNOWN}.items():
        own, name = values[theme], f".il-{status}"
        rules.append(f"{name}>rect{{stroke:{own}}}{name} .il-state{{fill:{own}}}")
        rules.append(f"{name} .il-sign{{fill:{own};stroke:{own}}}")
    for when, values in _EDGES.items():
        own, name = values[theme], f".il-on-{when}"
        rules.append(f".il-edge{name}{{stroke:{own}}}.il-head{name}{{fill:{own}}}")
        rules.append(f"{name} .il-open{{stroke:{own}}}")
    return "".join(rules)
