"""What a store keeps of a series beside its lane: one note, written by compare-and-swap.

A note says what was seen and counted. Who has the series is a matter of its lane alone: a note that is lost
costs a second look, and its counts.
"""

from __future__ import annotations

from typing import Protocol

from interlock.core.row import NamedTuple


class Note(NamedTuple):
    """What is noted about a series. The first revision is 1."""

    lane: str
    revision: int
    #: JSON.
    data: str


class SeriesNotes(Protocol):
    """The notes. Each call is a transaction of its own."""

    def note(self, lane: str) -> Note | None: ...
    #: Those of lanes after this one, in order.
    def notes(self, after: str, limit: int) -> list[Note]: ...
    #: False, and nothing written, unless the revision that is there is one less.
    def keep_note(self, note: Note) -> bool: ...
