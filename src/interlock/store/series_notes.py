"""A store's note of a series: its data beside the lane, written by compare-and-swap.

A note has observations and counts. Only the lane decides who has the series. If a note is lost, its counts
are lost, and GitHub is read again.
"""

from __future__ import annotations

from typing import Protocol

from interlock.core.row import NamedTuple


class Note(NamedTuple):
    """The note of a series. The first revision is 1."""

    lane: str
    revision: int
    #: JSON.
    data: str


class SeriesNotes(Protocol):
    """The notes. Each call is one transaction."""

    def note(self, lane: str) -> Note | None: ...
    #: The notes of lanes after this one, in order.
    def notes(self, after: str, limit: int) -> list[Note]: ...
    #: Write a note. False, and nothing is written, unless the stored revision is one less.
    def keep_note(self, note: Note) -> bool: ...
