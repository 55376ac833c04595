"""The status and metrics of a repository's series, from the store alone. GitHub is not called."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from interlock.core.errors import UnreadableState
from interlock.core.series import document
from interlock.core.series.snapshot import RolloutStage
from interlock.github.series.context import SeriesStore
from interlock.github.series.lane import LaneReading, SeriesLane, lane_of
from interlock.github.series.options import SeriesRules, assigning
from interlock.github.series.series_note import (
    COUNTED,
    NoteData,
    counts_of,
    looks_of,
    note_data,
    numbers_of,
    problems_of,
)
from interlock.service.series import SeriesView, Waiting
from interlock.store.series_notes import SeriesNotes

NOTES_MAX = 1_000
#: How the lanes of series begin.
LANES = "series:"


class Overview:
    """The series of one repository, on one store."""

    def __init__(self, store: SeriesStore, repository: str, lane_name: str, rules: SeriesRules) -> None:
        self._store, self._repository, self._lane_name, self._rules = store, repository, lane_name, rules

    def status(self, only: Iterable[str] = ()) -> list[SeriesView]:
        """The status of the series, from the store alone. GitHub is not called."""
        wanted = set(only)
        notes = {name: data for name, data in self.notes().items() if not wanted or name in wanted}
        if not notes:
            return []
        reading = self._store.reading()
        return [self._view(name, data, reading) for name, data in notes.items()]

    def metrics(self) -> dict[str, Any]:
        """The counts of each series and of all, since the first contact and for the last cycle."""
        notes = self.notes()
        if self._store.at_once is not None and notes:
            counted = self._store.at_once()
            for series, data in notes.items():
                more, ours = counted.counts(lane_of(self._lane_name, series)), counts_of(data)
                data["counts"] = {name: ours[name] + more.get(name, 0) for name in COUNTED}
        total: Counter[str] = Counter()
        last: Counter[str] = Counter()
        for data in notes.values():
            total.update(counts_of(data))
            last.update(counts_of(data, "cycle"))
        return {
            **{name: total[name] for name in COUNTED},
            "last_cycle": {name: last[name] for name in COUNTED},
            "series": {
                name: {**counts_of(data), "last_cycle": counts_of(data, "cycle")}
                for name, data in notes.items()
            },
            "repository": self._repository,
            "updated_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "version": document.VERSION,
        }

    def notes(self) -> dict[str, NoteData]:
        """The notes of all series that were reconciled at least once."""
        prefix = lane_of(self._lane_name, "")
        found: dict[str, NoteData] = {}
        after = prefix
        while notes := [n for n in self._store.notes.notes(after, NOTES_MAX) if n.lane.startswith(prefix)]:
            found |= {note.lane.removeprefix(prefix): note_data(note) for note in notes}
            if len(notes) < NOTES_MAX:
                break
            after = notes[-1].lane
        return found

    def _view(self, series: str, data: NoteData, reading: LaneReading) -> SeriesView:
        broken = ""
        try:
            placed = SeriesLane(self._store.lanes, self._lane_name, series).placed(reading)
        except UnreadableState as error:
            placed, broken = (), f"{error.sentence} The next reconcile repairs it."
        owner = placed[0] if placed else None
        active = owner if owner is not None and owner.run is not None else None
        looks = looks_of(data)
        shown = self._rules.choices.stage is not RolloutStage.OBSERVE
        state = "unreadable" if broken else "promoted" if owner is not None and shown else "free"
        if active is not None:
            mine = looks.run == active.run and looks.seen
            state = "assigning" if not mine else "assigned" if looks.missing_since_s is None else "unassigned"
        waiting = [(n, f"blocked by {', '.join(why)}") for n, why in numbers_of(data, "waiting").items()]
        waiting += [(n, "released") for n in numbers_of(data, "released")]
        first = owner if active is None and shown else active
        return SeriesView(
            repository=self._repository,
            series=series,
            lane=lane_of(self._lane_name, series),
            mode=self._rules.choices.stage,
            prefixes=self._rules.titles.prefixes,
            active_issue=None if first is None else first.number,
            state=state,
            assignee=None if active is None else self._assignee(data, active.number, state),
            run=None if active is None else active.run,
            queue=tuple(each.number for each in placed if each is not first),
            waiting=tuple(Waiting(number=n, why=why) for n, why in sorted(waiting)),
            ignored=tuple(Waiting(number=n, why=w) for n, w in sorted(numbers_of(data, "ignored").items())),
            state_issue=data.get("state_issue"),
            promotion=data.get("promotion"),
            problems=(*([broken] if broken else ()), *problems_of(data, time.time())),
            metrics=counts_of(data),
            reconciled_at=_moment(data.get("cycle_at")),
            reconciled=tuple(data.get("cycle_done") or ()),
            last_cycle=counts_of(data, "cycle"),
        )

    def _assignee(self, data: NoteData, number: int, state: str) -> str | None:
        """The last seen assignee; without one, the future assignee."""
        seen = ", ".join(data.get("assigned") or ()) if state == "assigned" else ""
        return seen or assigning(self._rules, data, number).login or None


def _moment(stamp: str | None) -> datetime | None:
    return None if stamp is None else datetime.fromisoformat(stamp)


def repositories_of(notes: SeriesNotes) -> list[str]:
    """The repositories that have series, by their names in lanes."""
    found: dict[str, None] = {}
    after = ""
    while kept := notes.notes(after, NOTES_MAX):
        found |= dict.fromkeys(note.lane.removeprefix(LANES).rpartition("/")[0] for note in kept)
        after = kept[-1].lane
        if len(kept) < NOTES_MAX:
            break
    return [name for name in found if name]
