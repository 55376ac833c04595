"""The context of operations on series: a store, a repository on GitHub, and its options."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from interlock.core.record import Record
from interlock.core.series.snapshot import RolloutStage
from interlock.github.client import GitHub
from interlock.github.series.effects import AssignmentMethod, SeriesEffects
from interlock.github.series.issues import CurrentRepository
from interlock.github.series.lane import LaneReading, Lanes, SeriesLane, lane_of
from interlock.github.series.members import Authors
from interlock.github.series.observation import Observation
from interlock.github.series.options import SeriesRules, assigning
from interlock.github.series.series_note import NoteData, SeriesNote
from interlock.store.github import GitHubStore
from interlock.store.series_notes import SeriesNotes


class CountedLanes(LaneReading, Protocol):
    """The lanes at one moment, with the store's counts for each."""

    def counts(self, lane: str) -> Mapping[str, int]: ...


class SeriesStore(Record):
    """The parts of a store that series use."""

    lanes: Lanes
    notes: SeriesNotes
    #: A database's data about GitHub: effects, answers, repositories. Without it effects are sent at once.
    github: GitHubStore | None = None
    #: Repairs an unreadable lane, on stores where people can break one.
    mend: Callable[..., object] | None = None
    #: Reads all lanes in one request, on stores where each read is a request.
    at_once: Callable[[], CountedLanes] | None = None

    def reading(self) -> LaneReading:
        """The current lanes."""
        return self.lanes if self.at_once is None else self.at_once()


class SeriesContext(Record):
    """The context of a controller."""

    store: SeriesStore
    github: GitHub
    repository: CurrentRepository
    rules: SeriesRules
    effects: SeriesEffects
    authors: Authors
    #: The repository in the names of lanes; it survives a rename.
    lane_name: str
    clock: Callable[[], float] = time.time

    def lane(self, series: str) -> SeriesLane:
        store, exempt = self.store, self.rules.exempt
        return SeriesLane(store.lanes, self.lane_name, series, exempt=exempt, mend=store.mend)

    def note(self, series: str) -> SeriesNote:
        return SeriesNote(self.store.notes, lane_of(self.lane_name, series))

    def look(self) -> Observation:
        return Observation(self.github, self.repository, self.rules, self.authors)

    def assigning(self, data: NoteData, number: int) -> AssignmentMethod:
        """How an issue is assigned."""
        return assigning(self.rules, data, number)

    @property
    def comments(self) -> bool:
        """Whether each promotion gets a comment."""
        return self.rules.choices.stage is RolloutStage.COMMENT

    def now_s(self) -> float:
        """The time by GitHub's clock, which is the same for all processes."""
        return self.clock() + (self.github.limits.skew_s or 0.0)

    def stamp(self) -> str:
        return datetime.fromtimestamp(self.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
