"""The little Markdown that the generated pages need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns without any value are left out."""
    body = [tuple(_cell(value) for value in row) for row in rows]
    kept = [n for n, _ in enumerate(head) if any(row[n] for row in body)]
    lines = [[head[n] for n in kept], ["---"] * len(kept), *([row[n] for n in kept] for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    """Text as it is typed."""
    return f"`{text}`"


def fence(language: str, text: str) -> str:
    """A block of code."""
    return f"```{language}\n{text.strip()}\n```"


def link_shapes(text: str, page: str = "") -> str:
    """Names of shapes become links to where they are described; inside of code they cannot."""
    pieces = text.split("`")
    for n in range(0, len(pieces), 2):
        pieces[n] = re.sub(r"\b(\w+View)\b", lambda m: f"[{m[1]}]({page}#{m[1].lower()})", pieces[n])
    return "`".join(pieces)


def _cell(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")
