"""How the series of a repository stand, and what was counted, by the store alone: GitHub is not asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from interlock.core.record import Record
from interlock.core.series import document
from interlock.core.series.standing import Mode
from interlock.github.series.cycle import Rules, assigning
from interlock.github.series.lane import Lanes, SeriesLane, lane_of
from interlock.github.series.notebook import COUNTED, Notebook, Page, counts_of, looks_of, numbers_of
from interlock.store.series_port import SeriesNotes

NOTES_MAX = 1_000


class Waiting(Record):
    """An issue of the series that is not in line."""

    number: int
    why: str


class SeriesView(Record):
    """A series as it stands."""

    series: str
    lane: str
    mode: str
    #: Whether a prefix makes another series: `apart` or `together`.
    prefixes: str
    active_issue: int | None
    #: `free`, `promoted`, `assigning`, `assigned` or `unassigned`.
    state: str
    #: Who is assigned, or will be.
    assignee: str | None
    run: int | None
    queue: tuple[int, ...]
    waiting: tuple[Waiting, ...]
    state_issue: int | None
    #: From, to, why and when.
    promotion: Mapping[str, Any] | None
    problems: tuple[str, ...]
    #: Counts since the first contact.
    metrics: Mapping[str, int]


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
        counts: Callable[[str], Mapping[str, int]] | None = None,
    ) -> None:
        self._lanes, self._notes, self._repository = lanes, notes, repository
        self._lane_name, self._rules, self._counts = lane_name, rules, counts

    def named(self, text: str) -> str:
        """A series as people write it, by its name."""
        return self._rules.titles.named(text)

    def status(self, only: Iterable[str] = ()) -> list[SeriesView]:
        """How the series stand, by the store alone: GitHub is not asked."""
        wanted = set(only)
        return [self.view(name) for name in self.known() if not wanted or name in wanted]

    def metrics(self) -> dict[str, Any]:
        """Counts of each series and of all, since the first contact and of the last cycle."""
        pages = {name: self._counted(name) for name in self.known()}
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

    def known(self) -> list[str]:
        """The series that there are notes about."""
        prefix = lane_of(self._lane_name, "")
        found: list[str] = []
        after = prefix
        while page := [n for n in self._notes.notes(after, NOTES_MAX) if n.lane.startswith(prefix)]:
            found += [note.lane.removeprefix(prefix) for note in page]
            after = page[-1].lane
        return found

    def view(self, series: str) -> SeriesView:
        page = self._page(series)
        placed = SeriesLane(self._lanes, self._lane_name, series).placed()
        owner = placed[0] if placed else None
        active = owner if owner is not None and owner.run is not None else None
        looks = looks_of(page)
        state = "free" if owner is None else "promoted"
        if active is not None:
            mine = looks.run == active.run and looks.seen
            state = "assigning" if not mine else "assigned" if looks.missing_since_s is None else "unassigned"
        waiting = [(n, f"waits for {', '.join(why)}") for n, why in numbers_of(page, "waiting").items()]
        waiting += [(n, "given back") for n in numbers_of(page, "released")]
        shown = self._rules.choices.mode is not Mode.OBSERVE
        first = owner if active is None and shown else active
        return SeriesView(
            series=series,
            lane=lane_of(self._lane_name, series),
            mode=self._rules.choices.mode,
            prefixes=self._rules.titles.prefixes,
            active_issue=None if first is None else first.number,
            state=state,
            assignee=None if active is None else assigning(self._rules, page, active.number).login or None,
            run=None if active is None else active.run,
            queue=tuple(each.number for each in placed if each is not first),
            waiting=tuple(Waiting(number=n, why=why) for n, why in sorted(waiting)),
            state_issue=page.get("state_issue"),
            promotion=page.get("promotion"),
            problems=tuple(page.get("problems") or ()),
            metrics=counts_of(page),
        )

    def _page(self, series: str) -> Page:
        return Notebook(self._notes, lane_of(self._lane_name, series)).read() or {}

    def _counted(self, series: str) -> Page:
        """The note, with what the store itself has counted."""
        page = self._page(series)
        if self._counts is not None:
            more = self._counts(lane_of(self._lane_name, series))
            ours = counts_of(page)
            page["counts"] = {name: ours[name] + more.get(name, 0) for name in COUNTED}
        return page
