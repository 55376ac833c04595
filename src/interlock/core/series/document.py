"""The text of a state issue: rendered, compared, and read once from an older tool's issue.

Decisions never read it, with one exception: `taken_over` reads what an older tool wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from interlock.core import jsontext
from interlock.core.record import Record, replace

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


class StateRow(Record):
    """One row of the table."""

    number: int
    #: `active`, `1`, `2` …, `waiting` or `ignored`.
    place: str
    says: str


class StateIssueContent(Record):
    """Everything that a state issue shows."""

    document: Document
    mode: str
    lines: tuple[StateRow, ...] = ()
    #: The last promotion: from, to, why and when.
    promotion: str = ""
    problems: tuple[str, ...] = ()


class UnknownVersion(Record):
    """A document of another version: it is never overwritten."""

    version: object


class Corrupt(Record):
    """The body contains no document."""

    why: str


def render(shown: StateIssueContent) -> str:
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
        f"{_sentence(shown)} Interlock updates this issue and overwrites edits.",
        *(f"> [!WARNING]\n> {problem}" for problem in shown.problems),
        "\n".join(("| issue | place | |", "|---|---|---|", *rows)) if rows else "There is no open issue.",
        f"Last promotion: {shown.promotion}" if shown.promotion else "No promotion yet.",
        f"```json\n{json.dumps(text, indent=2)}\n```",
    ]
    return "\n\n".join(parts)


def _sentence(shown: StateIssueContent) -> str:
    document = shown.document
    line = f"{len(document.queue)} queued" if document.queue else "the queue is empty"
    observed = " (not enforced)" if shown.mode == "observe" else ""
    if document.active_issue is None:
        return f"No issue of {document.series} is active{observed}; {line}."
    return f"#{document.active_issue} is the active issue of {document.series}{observed}; {line}."


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def read(body: str | None) -> Document | UnknownVersion | Corrupt:
    """The document in a body."""
    fenced = _FENCE.findall((body or "")[:BODY_MAX_CHARS].replace("\r\n", "\n"))
    if len(fenced) != 1:
        return Corrupt(why="no fenced JSON" if not fenced else "several fenced blocks of JSON")
    try:
        found = jsontext.parse(fenced[0])
    except ValueError:
        return Corrupt(why="invalid JSON")
    if not isinstance(found, dict):
        return Corrupt(why="the JSON is not an object")
    version = found.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        return Corrupt(why="the JSON has no version")
    if version != VERSION:
        return UnknownVersion(version=version)
    return _checked(found)


def _checked(found: dict[str, Any]) -> Document | Corrupt:
    missing = [name for name in _FIELDS if name not in found]
    if missing:
        return Corrupt(why=f"the JSON lacks {', '.join(missing)}")
    active, queue = found["active_issue"], found["queue"]
    lawful = isinstance(queue, list) and len(queue) <= QUEUE_MAX and all(map(_is_number, queue))
    if not (active is None or _is_number(active)) or not lawful:
        return Corrupt(why="an issue is not a number")
    if not isinstance(found["series"], str) or not _is_time(found["updated_at"]):
        return Corrupt(why="invalid series or time")
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


def same(body: str | None, shown: StateIssueContent) -> bool:
    """Whether a body already shows this, apart from its time."""
    found = read(body)
    if not isinstance(found, Document):
        return False
    document = replace(shown.document, updated_at=found.updated_at)
    return (body or "").replace("\r\n", "\n").strip() == render(replace(shown, document=document))


def order(document: Document, active: int | None) -> tuple[int, ...]:
    """The order that an older tool left: its active issue, then its queue."""
    first: Sequence[int] = () if active is None else (active,)
    return tuple(dict.fromkeys((*first, *document.queue)))
