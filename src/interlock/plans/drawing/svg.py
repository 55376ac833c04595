"""A picture as SVG, as a file of its own or as part of a page.

Colours are presentation attributes, which every renderer understands. Rules only adapt them to a dark page.
A page has such rules in its stylesheet, so that its policy may forbid styles elsewhere. Colour, sign and
word show a status; dashes and arrowhead show the kind of an edge. All names have a prefix, so that the SVG
may be part of an HTML page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from xml.sax.saxutils import escape, quoteattr

from interlock.plans.drawing.layout import GridPoint, Layout, lay_out
from interlock.plans.drawing.picture import (
    WHEN_COMPLETION,
    WHEN_FAILURE,
    WHEN_SUCCESS,
    Node,
    PictureEdge,
    PlanPicture,
)
from interlock.plans.drawing.symbols import (
    CHANGE_SIGNS,
    EDGE_WORDS,
    STATUS_SIGNS,
    harmless,
    shortened,
    words,
)

_UNIT, _BOX_W, _BOX_H, _CHANNEL, _MARGIN = 16, 224, 48, 64, 24
_LEGEND_H, _ENTRY_W = 26, 150
_KEY_COLUMNS, _TITLE_COLUMNS = 26, 29
_ON_CORNER, _IN_LEGEND = 'y="4.5"', 'x="8" y="12.5"'
_FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"
#: With more edges than this, none is named: such a drawing is an overview.
_NAMED_MAX = 1_000
#: How many layouts a process remembers. A plan's layout changes only with its revision.
_LAYOUTS_MAX = 64

_PAGE, _BOX, _INK, _DIM = (
    ("#fff", "#0d1117"),
    ("#f6f8fa", "#161b22"),
    ("#1f2328", "#f0f6fc"),
    ("#59636e", "#9198a1"),
)
_CRITICAL = ("#0550ae", "#79c0ff")
#: Status: colour on a light page, on a dark page, and its sign around the origin.
_STATUSES = {
    "waiting": ("#59636e", "#9198a1", '<circle r="5.5" fill="none"/>'),
    "deferred": ("#9a6700", "#d29922", '<circle r="5.5" fill="none" stroke-dasharray="2.6 2.2"/>'),
    "pending": ("#0969da", "#4493f8", '<circle r="5.5" fill="none"/><circle r="2"/>'),
    "held_back": ("#9a6700", "#d29922", '<circle r="5.5" fill="none"/><path d="M-1.6-2.3v4.6m3.2-4.6v4.6"/>'),
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
    WHEN_SUCCESS: ("#6e7781", "#768390", ""),
    WHEN_COMPLETION: ("#6e7781", "#768390", "7 5"),
    WHEN_FAILURE: ("#d1242f", "#f85149", "2 4"),
}
_CHANGES = {
    "added": ("#1a7f37", "#3fb950"),
    "removed": ("#d1242f", "#f85149"),
    "changed": ("#9a6700", "#d29922"),
}


def svg(graph: PlanPicture) -> str:
    """The picture as the text of an SVG file."""
    columns_w = _columns_w(_laid_out(graph))
    width = 2 * _MARGIN + max(columns_w, 2 * _ENTRY_W)
    legend = list(_legend(graph, width - 2 * _MARGIN))
    return _drawn(graph, f"<style>{_style()}</style>", legend, width, role="img")


def page_svg(graph: PlanPicture) -> str:
    """The picture as a part of a page whose stylesheet has the rules. Tasks with an `href` are links."""
    return _drawn(graph, "", [], 2 * _MARGIN + _columns_w(_laid_out(graph)), role="group")


def page_legend(graph: PlanPicture) -> list[str]:
    """The entries of the legend, each an SVG of its own, for the page that has the picture."""
    size = f'width="{_ENTRY_W}" height="20" viewBox="0 -2 {_ENTRY_W} 20"'
    look = f'class="il-plan" font-family="{_FONTS}" font-size="13"'
    return [f"<svg {size} {look}>{entry}</svg>" for _, _, entry in _legend(graph, _ENTRY_W)]


def _laid_out(graph: PlanPicture) -> Layout:
    links = tuple((link.source, link.target, link.when) for link in graph.links)
    return _layout(tuple(node.key for node in graph.nodes), links)


def _columns_w(layout: Layout) -> int:
    return layout.columns * _BOX_W + max(layout.columns - 1, 0) * _CHANNEL


def _drawn(
    graph: PlanPicture, style: str, legend: Sequence[tuple[int, int, str]], width: int, *, role: str
) -> str:
    layout = _laid_out(graph)
    drawn_h = 2 * _MARGIN + layout.lines * _UNIT
    rows = legend[-1][1] + 1 if legend else 0
    height = drawn_h + rows * _LEGEND_H + (_MARGIN // 2 if rows else 0)
    name = harmless(graph.title) or "Plan"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    told = f'class="il-plan" role="{role}" aria-label={quoteattr(name)}'
    look = f'font-family="{_FONTS}" font-size="13" fill="{_INK[0]}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {told} {look}>',
        f"<title>{escape(name)}</title>" if role == "img" else "",
        style,
        "<defs>",
        *_shapes(graph),
        "</defs>",
        f'<rect class="il-page" fill="{_PAGE[0]}" width="{width}" height="{height}"/>',
        *_edges(graph.links, layout.routes, named=len(graph.links) <= _NAMED_MAX),
        *(_node(node, place) for node, place in zip(graph.nodes, layout.nodes, strict=True)),
        *(
            f'<g transform="translate({_MARGIN + column * _ENTRY_W},{drawn_h + row * _LEGEND_H})">{entry}</g>'
            for column, row, entry in legend
        ),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


@lru_cache(_LAYOUTS_MAX)
def _layout(keys: tuple[str, ...], links: tuple[tuple[str, str, str], ...]) -> Layout:
    return lay_out(
        PlanPicture(
            nodes=tuple(Node(key=key) for key in keys),
            links=tuple(
                PictureEdge(source=source, target=target, when=when) for source, target, when in links
            ),
        )
    )


def _left(place: GridPoint) -> int:
    return _MARGIN + place.column * (_BOX_W + _CHANNEL)


def _middle(place: GridPoint) -> int:
    return _MARGIN + place.line * _UNIT + _UNIT // 2


def _status(node: Node) -> str:
    return node.status if node.status in _STATUSES else "unknown"


def _alone(node: Node) -> bool:
    """Its key is all that is written in its box."""
    return not node.title or node.title == node.key


def _shapes(graph: PlanPicture) -> Iterator[str]:
    """What several tasks or edges share, each drawn once."""
    kinds = {link.when if link.when in _EDGES else WHEN_SUCCESS for link in graph.links}
    yield from (
        _marker(when, of)
        for when in _EDGES
        if when in kinds
        for of in ("", *_CHANGES)
        if _has(graph, when, of)
    )
    for status, lone in sorted({(_status(node), _alone(node)) for node in graph.nodes}):
        yield _box(status, lone=lone)
    for change in _CHANGES:
        if any(node.change == change for node in graph.nodes):
            yield _badge(change)
    if any(node.critical for node in graph.nodes):
        high = f'y="8" width="4" height="{_BOX_H - 16}"'
        yield f'<rect id="il-critical" class="il-critical" fill="{_CRITICAL[0]}" {high}/>'


def _has(graph: PlanPicture, when: str, change: str) -> bool:
    """Whether an edge of this kind changed in this way; unchanged ones are in every legend."""
    return not change or any(link.change == change and link.when == when for link in graph.links)


def _box(status: str, *, lone: bool) -> str:
    colour, line = _STATUSES.get(status, _UNKNOWN)[0], 29 if lone else 20
    frames = {"in_progress": 'stroke-width="2.6"', "cancelled": 'stroke-width="1.3" stroke-dasharray="5 4"'}
    frame = frames.get(status, 'stroke-width="1.3"')
    state = words(status) if status != "unknown" else ""
    return (
        f'<g id="il-{"lone" if lone else "box"}-{status}" class="il-{status}">'
        f'<rect class="il-box" fill="{_BOX[0]}" stroke="{colour}" {frame} '
        f'width="{_BOX_W}" height="{_BOX_H}" rx="7"/>'
        f'<g transform="translate(17,{line - 4})">{_sign(status)}</g>'
        f'<text class="il-state" fill="{colour}" font-size="11" text-anchor="end" '
        f'x="{_BOX_W - 10}" y="{line}">{state}</text></g>'
    )


def _badge(change: str) -> str:
    """The mark of a task that differs: a sign in a disc on the corner, and a second frame."""
    return (
        f'<g id="il-is-{change}" class="il-is-{change}" fill="{_CHANGES[change][0]}">'
        f'<rect x="-4" y="-4" width="{_BOX_W + 8}" height="{_BOX_H + 8}" rx="10" fill="none" '
        f'stroke="{_CHANGES[change][0]}" stroke-width="1.6"/>'
        f'<circle r="9"/>{_badge_text(change, _ON_CORNER)}</g>'
    )


def _badge_text(change: str, place: str) -> str:
    look = f'class="il-badge" fill="{_PAGE[0]}" font-weight="700" text-anchor="middle"'
    return f"<text {look} {place}>{CHANGE_SIGNS[change]}</text>"


def _node(node: Node, place: GridPoint) -> str:
    x, y = _left(place), _middle(place) - _BOX_H // 2
    status, lone = _status(node), _alone(node)
    key, title = harmless(node.key), harmless(node.title)
    state = words(node.status) if status != "unknown" else ""
    more = (node.change, "on the critical path" if node.critical else "")
    hover = ", ".join(part for part in (key if lone else f"{key}: {title}", state, *more) if part)
    shown = shortened(key, _KEY_COLUMNS - len(state))
    tag = "a" if node.href else "g"
    href = f" href={quoteattr(node.href)}" if node.href else ""
    gone = ' opacity=".55"' if node.change == "removed" else ""
    return (
        f'<{tag} class="il-task"{href}{gone} transform="translate({x},{y})"><title>{escape(hover)}</title>'
        f'<use href="#il-{"lone" if lone else "box"}-{status}"/>'
        + ('<use href="#il-critical"/>' if node.critical else "")
        + f'<text font-weight="600" x="31" y="{29 if lone else 20}">{escape(shown)}</text>'
        + ("" if lone else f"{_dim(12, 38)}{escape(shortened(title, _TITLE_COLUMNS))}</text>")
        + (f'<use href="#il-is-{node.change}"/>' if node.change in _CHANGES else "")
        + f"</{tag}>"
    )


def _dim(x: int, y: int) -> str:
    return f'<text class="il-title" fill="{_DIM[0]}" font-size="12" x="{x}" y="{y}">'


def _edges(
    links: Sequence[PictureEdge], routes: Sequence[tuple[GridPoint, ...]], *, named: bool
) -> Iterator[str]:
    """The edges, in groups that share their kind."""
    groups: dict[tuple[str, str], list[str]] = {}
    for link, route in zip(links, routes, strict=True):
        when = link.when if link.when in _EDGES else WHEN_SUCCESS
        change = link.change if link.change in _CHANGES else ""
        ends = f"{harmless(link.source)} → {harmless(link.target)}"
        told = ", ".join(part for part in (ends, EDGE_WORDS[when], change) if part)
        title = f"<title>{escape(told)}</title>" if named else ""
        path = f'<path d="{_path(route)}">{title}</path>'
        groups.setdefault((when, change), []).append(path)
    for (when, change), paths in groups.items():
        marker = f'marker-end="url(#il-{when}{"-" if change else ""}{change})"'
        yield f'<g {_line(when, change)} {marker} fill="none">'
        yield from paths
        yield "</g>"


def _line(when: str, change: str) -> str:
    """The attributes of an edge's line."""
    colour = _CHANGES[change][0] if change else _EDGES[when][0]
    dashes = _EDGES[when][2]
    return (
        f'class="il-edge {f"il-is-{change}" if change else f"il-on-{when}"}" stroke="{colour}" '
        f'stroke-width="{2.6 if change else 1.5}"'
        + (f' stroke-dasharray="{dashes}"' if dashes else "")
        + (' opacity=".55"' if change == "removed" else "")
    )


def _path(route: tuple[GridPoint, ...]) -> str:
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
    return "".join(path)


def _legend(graph: PlanPicture, width: int) -> Iterator[tuple[int, int, str]]:
    """The meaning of signs and lines, as column, row and entry."""
    counts = {s: sum(n.status == s for n in graph.nodes) for s in STATUS_SIGNS}
    entries = [
        f'<g class="il-{s}" transform="translate(8,8)">{_sign(s)}</g>{_dim(22, 12)}{n} {words(s)}</text>'
        for s, n in counts.items()
        if n
    ]
    entries += [
        f'<g class="il-is-{change}" fill="{_CHANGES[change][0]}"><circle cx="8" cy="8" r="8"/>'
        f"{_badge_text(change, _IN_LEGEND)}</g>{_dim(22, 12)}{change}</text>"
        for change in _CHANGES
        if change in {node.change for node in graph.nodes} | {link.change for link in graph.links}
    ]
    if any(node.critical for node in graph.nodes):
        entries.append(
            f'<rect class="il-critical" fill="{_CRITICAL[0]}" x="6" width="4" height="16"/>'
            f"{_dim(22, 12)}critical path</text>"
        )
    kinds = {link.when for link in graph.links}
    if kinds - {WHEN_SUCCESS}:
        entries += [
            f'<path {_line(w, "")} marker-end="url(#il-{w})" fill="none" d="M0 8H32"/>'
            f"{_dim(46, 12)}{EDGE_WORDS[w]}</text>"
            for w in _EDGES
            if w in kinds
        ]
    per_row = max(width // _ENTRY_W, 1)
    for n, entry in enumerate(entries):
        yield n % per_row, n // per_row, entry


def _sign(status: str) -> str:
    colour, _, shape = _STATUSES.get(status, _UNKNOWN)
    look = f'fill="{colour}" stroke="{colour}" stroke-width="1.8" stroke-linecap="round"'
    return f'<g class="il-sign" {look}>{shape}</g>'


def _marker(when: str, change: str) -> str:
    colour = _CHANGES[change][0] if change else _EDGES[when][0]
    hollow = f'fill="{_PAGE[0]}" stroke="{colour}" stroke-width="1.4"'
    shapes = {
        WHEN_SUCCESS: '<path d="M0 0L8 4L0 8z"/>',
        WHEN_COMPLETION: f'<path class="il-open" {hollow} d="M.8 .8L7.4 4L.8 7.2z"/>',
        WHEN_FAILURE: '<path d="M4 0L8 4L4 8L0 4z"/>',
    }
    kind = f"il-is-{change}" if change else f"il-on-{when}"
    return (
        f'<marker id="il-{when}{"-" if change else ""}{change}" fill="{colour}" '
        f'class="il-head {kind}" viewBox="0 0 8 8" refX="2" refY="4" '
        f'markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">{shapes[when]}</marker>'
    )


def _style() -> str:
    """The rules of a dark page. A renderer without `prefers-color-scheme` draws a light page."""
    rules = [
        f".il-plan{{fill:{_INK[1]}}}.il-page,.il-open,.il-badge{{fill:{_PAGE[1]}}}",
        f".il-title{{fill:{_DIM[1]}}}.il-box{{fill:{_BOX[1]}}}.il-critical{{fill:{_CRITICAL[1]}}}",
    ]
    for status, (_, own, _) in {**_STATUSES, "unknown": _UNKNOWN}.items():
        name = f".il-{status}"
        rules.append(f"{name} .il-box{{stroke:{own}}}{name} .il-state{{fill:{own}}}")
        rules.append(f"{name} .il-sign{{fill:{own};stroke:{own}}}")
    lines = {f".il-on-{w}": values[1] for w, values in _EDGES.items()}
    lines |= {f".il-is-{change}": values[1] for change, values in _CHANGES.items()}
    for name, own in lines.items():
        rules.append(
            f".il-edge{name}{{stroke:{own}}}.il-head{name}{{fill:{own}}}{name} .il-open{{stroke:{own}}}"
        )
    for change, (_, own) in _CHANGES.items():
        name = f".il-is-{change}"
        rules.append(f"{name}:not(.il-edge){{fill:{own}}}{name}>rect{{stroke:{own}}}")
    return f"@media (prefers-color-scheme:dark){{{''.join(rules)}}}"
