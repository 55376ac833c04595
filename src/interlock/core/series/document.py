"""The state issue of a series: what it shows, and what is read from one that an older tool left.

It shows the state and is never read to decide, but once: `taken_over` reads what another tool wrote there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from interlock.core import jsontext
from interlock.core.record import Record

LABEL = "rfc-series-state"
VERSION = 1
#: More than GitHub keeps in a body.
BODY_MAX_CHARS = 65_536
QUEUE_MAX = 1_000
_FENCE = re.compile(r"^```(?:json)?[ \t]*\r?\n(?P<json>.*?)^```[ \t]*\r?$", re.M | re.S)
_FIELDS = ("series", "active_issue", "queue", "updated_at", "version")


def title(series: str) -> str:
    """The title of a series' state issue."""
    return f"{series} Series State"


class Document(Record):
    """The fenced JSON."""

    series: str
    active_issue: int | None
    queue: tuple[int, ...]
    updated_at: str
    version: int = VERSION


class Line(Record):
    """One row of the table."""

    number: int
    #: `active`, `1`, `2` …, `waits` or `ignored`.
    place: str
    says: str


class Shown(Record):
    """All that a state issue shows."""

    document: Document
    mode: str
    lines: tuple[Line, ...] = ()
    #: From, to, why and when.
    promotion: str = ""
    problems: tuple[str, ...] = ()


class Unknown(Record):
    """A document of a version that is not ours: nobody overwrites it."""

    version: object


class Corrupt(Record):
    """What is there is no document."""

    why: str


def render(shown: Shown) -> str:
    """The body of the issue: a sentence for people, a table, and the JSON."""
    document = shown.document
    text = {
        "series": document.series,
        "active_issue": document.active_issue,
        "queue": list(document.queue),
        "updated_at": document.updated_at,
        "version": document.version,
    }
    rows = [f"| #{line.number} | {line.place} | {_cell(line.says)} |" for line in shown.lines]
    parts = [
        f"{_sentence(shown)} Interlock keeps this issue up to date; what is edited here is put right again.",
        *(f"> [!WARNING]\n> {problem}" for problem in shown.problems),
        "\n".join(("| issue | place | |", "|---|---|---|", *rows)) if rows else "No issue of it is open.",
        f"Last promotion: {shown.promotion}" if shown.promotion else "There was no promotion yet.",
        f"```json\n{json.dumps(text, indent=2)}\n```",
    ]
    return "\n\n".join(parts)


def _sentence(shown: Shown) -> str:
    document = shown.document
    count, more = len(document.queue), "" if document.active_issue is None else " more"
    line = f"{count}{more} {'waits' if count == 1 else 'wait'} in line" if count else "nobody waits in line"
    observed = " (observed only)" if shown.mode == "observe" else ""
    if document.active_issue is None:
        return f"No issue of {document.series} is active{observed}, and {line}."
    return f"#{document.active_issue} is the active issue of {document.series}{observed}, and {line}."


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def read(body: str | None) -> Document | Unknown | Corrupt:
    """The document in a body."""
    fenced = _FENCE.findall((body or "")[:BODY_MAX_CHARS].replace("\r\n", "\n"))
    if len(fenced) != 1:
        return Corrupt(why="it has no JSON in a fence" if not fenced else "it has JSON in several fences")
    try:
        found = jsontext.parse(fenced[0])
    except ValueError:
        return Corrupt(why="its JSON cannot be read")
    if not isinstance(found, dict):
        return Corrupt(why="its JSON is no object")
    version = found.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        return Corrupt(why="its JSON has no version")
    if version != VERSION:
        return Unknown(version=version)
    return _checked(found)


def _checked(found: dict[str, Any]) -> Document | Corrupt:
    missing = [name for name in _FIELDS if name not in found]
    if missing:
        return Corrupt(why=f"its JSON lacks {', '.join(missing)}")
    active, queue = found["active_issue"], found["queue"]
    lawful = isinstance(queue, list) and len(queue) <= QUEUE_MAX and all(map(_is_number, queue))
    if not (active is None or _is_number(active)) or not lawful:
        return Corrupt(why="its issues are no numbers")
    if not isinstance(found["series"], str) or not _is_time(found["updated_at"]):
        return Corrupt(why="its series or its time cannot be read")
    return Document(
        series=found["series"],
        active_issue=active,
        queue=tuple(dict.fromkeys(queue)),
        updated_at=found["updated_at"],
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def _is_time(value: object) -> bool:
    if not isinstance(value, str) or not value.endswith("Z"):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def same(body: str | None, shown: Shown) -> bool:
    """Whether a body shows this already, whatever time it says."""
    found = read(body)
    if not isinstance(found, Document):
        return False
    document = shown.document
    now = Shown(
        document=_at(document, found.updated_at),
        mode=shown.mode,
        lines=shown.lines,
        promotion=shown.promotion,
        problems=shown.problems,
    )
    return (body or "").replace("\r\n", "\n").strip() == render(now)


def _at(document: Document, time: str) -> Document:
    return Document(
        series=document.series,
        active_issue=document.active_issue,
        queue=document.queue,
        updated_at=time,
        version=document.version,
    )


def order(document: Document, active: int | None) -> tuple[int, ...]:
    """The order that an older tool left: its active issue, then its queue."""
    first: Sequence[int] = () if active is None else (active,)
    return tuple(dict.fromkeys((*first, *document.queue)))
