"""How the series of a repository stand, and what was counted, by the store alone: GitHub is not asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from interlock.core.errors import UnreadableState
from interlock.core.series import document
from interlock.core.series.standing import Mode
from interlock.github.series.cycle import Rules, assigning
from interlock.github.series.lane import Lanes, Reading, SeriesLane, lane_of
from interlock.github.series.notebook import (
    COUNTED,
    Page,
    counts_of,
    looks_of,
    numbers_of,
    page_of,
    problems_of,
)
from interlock.service.series import SeriesView, Waiting
from interlock.store.series_port import SeriesNotes

NOTES_MAX = 1_000


class Overview:
    """The series of one repository, on one store."""

    def __init__(
        self,
        lanes: Lanes,
        notes: SeriesNotes,
        repository: str,
        lane_name: str,
        rules: Rules,
        *,
        at_once: Callable[[], Reading] | None = None,
        counts: Callable[[], Callable[[str], Mapping[str, int]]] | None = None,
    ) -> None:
        """`at_once` reads all lanes, where each is a request of its own; `counts` what the store counted."""
        self._lanes, self._notes, self._repository = lanes, notes, repository
        self._lane_name, self._rules, self._at_once, self._counts = lane_name, rules, at_once, counts

    def named(self, text: str) -> str:
        """A series as people write it, by its name."""
        return self._rules.titles.named(text)

    def status(self, only: Iterable[str] = ()) -> list[SeriesView]:
        """How the series stand, by the store alone: GitHub is not asked."""
        wanted = set(only)
        pages = {name: page for name, page in self.pages().items() if not wanted or name in wanted}
        reading = self._lanes if self._at_once is None or not pages else self._at_once()
        return [self._view(name, page, reading) for name, page in pages.items()]

    def metrics(self) -> dict[str, Any]:
        """Counts of each series and of all, since the first contact and of the last cycle."""
        pages = self.pages()
        if self._counts is not None and pages:
            self._add_counts(pages, self._counts())
        total: Counter[str] = Counter()
        last: Counter[str] = Counter()
        for page in pages.values():
            total.update(counts_of(page))
            last.update(counts_of(page, "cycle"))
        return {
            **{name: total[name] for name in COUNTED},
            "last_cycle": {name: last[name] for name in COUNTED},
            "series": {
                name: {**counts_of(page), "last_cycle": counts_of(page, "cycle")}
                for name, page in pages.items()
            },
            "repository": self._repository,
            "updated_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "version": document.VERSION,
        }

    def pages(self) -> dict[str, Page]:
        """What is noted about each series that somebody has begun with."""
        prefix = lane_of(self._lane_name, "")
        found: dict[str, Page] = {}
        after = prefix
        while notes := [n for n in self._notes.notes(after, NOTES_MAX) if n.lane.startswith(prefix)]:
            found |= {note.lane.removeprefix(prefix): page_of(note) for note in notes}
            if len(notes) < NOTES_MAX:
                break
            after = notes[-1].lane
        return found

    def _view(self, series: str, page: Page, reading: Reading) -> SeriesView:
        broken = ""
        try:
            placed = SeriesLane(self._lanes, self._lane_name, series).placed(reading)
        except UnreadableState as error:
            placed, broken = (), f"{error.sentence} interlock series reconcile mends it."
        owner = placed[0] if placed else None
        active = owner if owner is not None and owner.run is not None else None
        looks = looks_of(page)
        shown = self._rules.choices.mode is not Mode.OBSERVE
        state = "unreadable" if broken else "promoted" if owner is not None and shown else "free"
        if active is not None:
            mine = looks.run == active.run and looks.seen
            state = "assigning" if not mine else "assigned" if looks.missing_since_s is None else "unassigned"
        waiting = [(n, f"waits for {', '.join(why)}") for n, why in numbers_of(page, "waiting").items()]
        waiting += [(n, "given back") for n in numbers_of(page, "released")]
        first = owner if active is None and shown else active
        return SeriesView(
            series=series,
            lane=lane_of(self._lane_name, series),
            mode=self._rules.choices.mode,
            prefixes=self._rules.titles.prefixes,
            active_issue=None if first is None else first.number,
            state=state,
            assignee=None if active is None else self._assignee(page, active.number, state),
            run=None if active is None else active.run,
            queue=tuple(each.number for each in placed if each is not first),
            waiting=tuple(Waiting(number=n, why=why) for n, why in sorted(waiting)),
            ignored=tuple(Waiting(number=n, why=w) for n, w in sorted(numbers_of(page, "ignored").items())),
            state_issue=page.get("state_issue"),
            promotion=page.get("promotion"),
            problems=(*([broken] if broken else ()), *problems_of(page, time.time())),
            metrics=counts_of(page),
        )

    def _assignee(self, page: Page, number: int, state: str) -> str | None:
        """Who was seen to be assigned; else who will be."""
        seen = ", ".join(page.get("assigned") or ()) if state == "assigned" else ""
        return seen or assigning(self._rules, page, number).login or None

    def _add_counts(self, pages: Mapping[str, Page], counted: Callable[[str], Mapping[str, int]]) -> None:
        """Add what the store itself has counted."""
        for series, page in pages.items():
            more, ours = counted(lane_of(self._lane_name, series)), counts_of(page)
            page["counts"] = {name: ours[name] + more.get(name, 0) for name in COUNTED}
