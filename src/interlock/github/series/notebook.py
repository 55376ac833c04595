"""What is noted about a series: what was seen of its assignment, what was given back, counts.

Notes decide nothing about who has the lane. They are changed by compare-and-swap, each change by itself.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from interlock.core.errors import StoreBusy
from interlock.core.series.standing import Looks
from interlock.store.series_port import Note, SeriesNotes

#: What is counted, in the order of the seed.
COUNTED = ("promotion_events", "duplicate_prevented", "retries", "conflicts")
_TRIES = 20
_PAUSE_S = 0.02

Page = dict[str, Any]


class Notebook:
    """The note of one series."""

    def __init__(self, notes: SeriesNotes, lane: str) -> None:
        self._notes, self._lane = notes, lane

    def read(self) -> Page | None:
        """What is noted; None before the first contact."""
        note = self._notes.note(self._lane)
        return None if note is None else page_of(note)

    def change(self, change: Callable[[Page], None]) -> Page:
        """Change the note, however many others do; what changes nothing is not written."""
        for tried in range(_TRIES):
            note = self._notes.note(self._lane)
            before = {} if note is None else page_of(note)
            after = json.loads(json.dumps(before))
            change(after)
            if note is not None and after == before:
                return before
            revision = 1 if note is None else note.revision + 1
            if self._notes.keep_note(Note(self._lane, revision, json.dumps(after, sort_keys=True))):
                page: Page = after
                return page
            time.sleep(_PAUSE_S * random.uniform(0.5, 1.5) * (tried + 1))  # noqa: S311  (no secret)
        raise StoreBusy(f"Others keep writing notes about {self._lane}.", "Try again.")


def page_of(note: Note) -> Page:
    """A note as it is read; one that cannot be read is empty, which costs a second look."""
    try:
        found = json.loads(note.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def looks_of(page: Mapping[str, Any]) -> Looks:
    found = page.get("looks") or {}
    since = found.get("missing_since_s")
    return Looks(
        run=int(found.get("run") or 0),
        seen=bool(found.get("seen")),
        missing_since_s=None if since is None else float(since),
    )


def numbers_of(page: Mapping[str, Any], name: str) -> dict[int, Any]:
    """A table of the note whose keys are issues."""
    return {int(number): value for number, value in (page.get(name) or {}).items()}


def counts_of(page: Mapping[str, Any], name: str = "counts") -> dict[str, int]:
    found = page.get(name) or {}
    return {each: int(found.get(each) or 0) for each in COUNTED}
