"""What the store's events say so far: runs, items and who had what when. The demo believes nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from interlock.service.contract import EventView, ItemFilter, Service
from interlock.service.itemview import ItemView

ENDINGS = {f"run.{how}" for how in ("succeeded", "failed", "cancelled", "timed_out", "lost", "released")}
_ITEMS_MAX = 1_000


@dataclass(slots=True)
class Run:
    """One run, from its `run.started` to the event that ended it."""

    run: int
    item: int
    lane: str
    agent: str
    started: EventView
    ended: EventView | None = None

    @property
    def how(self) -> str:
        return self.ended.kind.removeprefix("run.") if self.ended else "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """A signal that hit an agent in mid-run. The store's clock knows the time from the note that followed."""

    agent: str
    item: int
    run: int
    note: int


class History:
    """The events of one project, read with a cursor and never forgotten."""

    def __init__(self, service: Service, project: str) -> None:
        self._service = service
        self._project = project
        newest = service.events(limit=1, newest=True)
        self._cursor = newest[-1].seq if newest else 0
        self.events: list[EventView] = []
        self.items: dict[int, ItemView] = {}
        self.runs: dict[int, Run] = {}

    def read(self) -> list[EventView]:
        """Take in what is new. Others may use the same store; their events are passed over."""
        found = self._service.events(after=self._cursor)
        if found:
            self._cursor = found[-1].seq
        # A refused renewal names its run and item, but no project.
        items = {e.item for e in found if e.project == self._project} | self.items.keys()
        mine = [e for e in found if e.item in items]
        if mine:
            self.look()
        for event in mine:
            self._take(event)
        self.events += mine
        return mine

    def look(self) -> None:
        """Read all items as they stand now."""
        wanted = ItemFilter(all=True, project=self._project, limit=_ITEMS_MAX)
        self.items = {item.id: item for item in self._service.items(wanted)}

    def _take(self, event: EventView) -> None:
        if event.run is None or event.item is None:
            return
        if event.kind == "run.started":
            self.runs[event.run] = Run(event.run, event.item, event.lane or "", event.agent or "", event)
        elif event.kind in ENDINGS:
            self.runs[event.run].ended = event

    # -- questions --------------------------------------------------------------------------------

    @property
    def began(self) -> datetime | None:
        return self.events[0].at if self.events else None

    @property
    def span_s(self) -> float:
        """From the first event to the last, on the store's clock."""
        return seconds(self.events[0], self.events[-1]) if self.events else 0.0

    def count(self, *kinds: str) -> int:
        return sum(event.kind in kinds for event in self.events)

    def runs_of(self, item: int) -> list[Run]:
        return [run for run in self.runs.values() if run.item == item]

    def running(self, item: int) -> Run | None:
        """The live run of an item."""
        return next((run for run in self.runs_of(item) if run.ended is None), None)

    def succeeded(self, item: int) -> Run | None:
        return next((run for run in self.runs_of(item) if run.how == "succeeded"), None)

    def refused(self, run: int) -> list[EventView]:
        """Late writes of a run that had lost its lease."""
        return [e for e in self.events if e.kind == "run.refused" and e.run == run]

    def outlived_s(self, blow: Blow) -> float:
        """How long a struck agent's lock stood: from the note after the blow to the end of its run."""
        ended = self.runs[blow.run].ended
        assert ended is not None  # the scenes wait for it
        return seconds(self.told(blow.item, blow.note), ended)

    def told(self, item: int, n: int) -> EventView:
        """The event of message `n` of an item."""
        return next(
            e for e in self.events if e.kind == "message.added" and e.item == item and e.data["n"] == n
        )


def seconds(first: EventView, last: EventView) -> float:
    """Between two events, on the store's clock."""
    return (last.at - first.at).total_seconds()


def most_at_once(runs: Iterable[Run]) -> int:
    """How many of these runs lived at once, at most.

    By the store's clock and not by `seq`, which is not the order of commits: a run's end is stamped before
    whatever it made room for begins.
    """
    moves: list[tuple[datetime, int]] = []
    for run in runs:
        moves.append((run.started.at, 1))
        if run.ended is not None:
            moves.append((run.ended.at, -1))
    most = now = 0
    for _, change in sorted(moves):
        now += change
        most = max(most, now)
    return most
