"""A picture as Mermaid text, which many pages and editors draw.

Nodes have numbers, so that no key can be parsed as syntax. Texts are quoted, and every character that Mermaid
or HTML could interpret is escaped as its code.
"""

from __future__ import annotations

from interlock.plans.drawing.picture import WHEN_COMPLETION, WHEN_FAILURE, WHEN_SUCCESS, PlanPicture
from interlock.plans.drawing.symbols import STATUS_SIGNS, harmless, sign, words

_ARROWS = {
    WHEN_SUCCESS: "-->",
    WHEN_COMPLETION: '-.->|"on any end"|',
    WHEN_FAILURE: '==>|"on failure"|',
}
#: Fill, border and text colour of a status; with its own fill it is legible on light and dark pages.
_COLOURS = {
    "waiting": ("#f6f8fa", "#6e7781", "#1f2328"),
    "deferred": ("#fff8c5", "#9a6700", "#1f2328"),
    "pending": ("#ddf4ff", "#0969da", "#1f2328"),
    "in_progress": ("#fbefff", "#8250df", "#1f2328"),
    "completed": ("#dafbe1", "#1a7f37", "#1f2328"),
    "failed": ("#ffebe9", "#d1242f", "#1f2328"),
    "cancelled": ("#fff1e5", "#953800", "#1f2328"),
}


def mermaid(graph: PlanPicture) -> str:
    """The text of a Mermaid flowchart."""
    number = {node.key: n for n, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for n, node in enumerate(graph.nodes):
        known = node.status in STATUS_SIGNS
        head = f"{sign(node.status)} {_escaped(node.key)}" if known else _escaped(node.key)
        title = f"<br/>{_escaped(node.title)}" if node.title and node.title != node.key else ""
        state = f"<br/><i>{words(node.status)}</i>" if known else ""
        lines.append(f'  t{n}["{head}{title}{state}"]' + (f":::{node.status}" if known else ""))
    for link in graph.links:
        arrow = _ARROWS.get(link.when, _ARROWS[WHEN_SUCCESS])
        lines.append(f"  t{number[link.source]} {arrow} t{number[link.target]}")
    used = {node.status for node in graph.nodes}
    for status, (fill, border, text) in _COLOURS.items():
        if status in used:
            lines.append(f"  classDef {status} fill:{fill},stroke:{border},color:{text}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return "".join(c if c.isalnum() or c in " .,:/_-+=()!?…'" else f"#{ord(c)};" for c in harmless(text))
