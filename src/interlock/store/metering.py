"""Counters and levels in a database; SQLite and PostgreSQL differ only in their statements."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from interlock.core.metering import Count, Labels, Line, Naming, counts
from interlock.core.record import Record
from interlock.store.outbox import Ask, Tables

#: How many lines of the history one transaction counts. A history that is longer when counting begins stays
#: as it is: counting begins at its end.
LINES = 2_000
#: How far things are counted that could be many.
COUNTED = 10_000
#: Of how many series, by their lanes, counts are added up.
SERIES_MAX = 1_000


class Running(Record):
    """Runs of one kind that go on."""

    labels: Labels
    n: int
    since_us: int


class Levels(Record):
    """What there is now, each counted up to `COUNTED`."""

    running: Sequence[Running]
    #: Open edit cycles, ends of tasks that their editors owe an answer to, and since when the oldest is open.
    cycles: int
    ends_owed: int
    cycle_since_us: int | None
    #: Items that wait for the answer of a person, and items that wait for a person since they woke too often.
    asking: int
    stopped: int
    #: Deliveries that wait to be decided on, those that wait for a person, and since when the oldest waits.
    deliveries: int
    deliveries_left: int
    delivery_since_us: int | None
    #: Effects owed to GitHub, since when the next is due, and effects that wait for a person.
    owed: int
    owed_due_us: int | None
    dead: int
    #: What was counted of series, by what it is.
    series: Mapping[str, int]


class Meter:
    """The counters of one database."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def fold(self) -> bool:
        """Count the next lines of the history, each once whoever counts; whether there may be more."""
        seen = self._mark()
        lines = self._tables.reading(lambda ask: self._lines(ask, seen))
        if not lines:
            return False
        self._tables.writing(lambda ask: self._count(ask, seen, lines))
        return len(lines) == LINES

    def counters(self) -> dict[Count, int]:
        rows = self._tables.reading(lambda ask: ask("metrics/counters"))
        return {Count(metric, value, Labels(*labels)): n for metric, value, *labels, n in rows}

    def levels(self) -> Levels:
        """What there is now. Not of one moment."""

        def work(ask: Ask) -> Levels:
            running = ask("metrics/running", limit=COUNTED)
            cycles, ends, cycle_us = ask("metrics/cycles", limit=COUNTED)[0]
            asking, stopped = ask("metrics/people", limit=COUNTED)[0]
            deliveries, due, delivery_us = ask("metrics/deliveries", limit=COUNTED)[0]
            owed, due_us, dead = ask("backlog", limit=COUNTED)[0]
            return Levels(
                running=[
                    Running(labels=Labels(project, type_, agent or "", str(priority)), n=n, since_us=since_us)
                    for project, type_, agent, priority, n, since_us in running
                ],
                cycles=cycles,
                ends_owed=ends,
                cycle_since_us=cycle_us,
                asking=asking,
                stopped=stopped,
                deliveries=due,
                deliveries_left=deliveries - due,
                delivery_since_us=delivery_us,
                owed=owed,
                owed_due_us=due_us,
                dead=dead,
                series=_series(row[-1] for row in ask("github/notes", after="", limit=SERIES_MAX)),
            )

        return self._tables.reading(work)

    def _mark(self) -> int:
        """How far the history is counted; begins if nobody has."""
        found = self._tables.reading(lambda ask: ask("metrics/mark"))
        if found:
            return int(found[0][0])

        def begin(ask: Ask) -> int:
            long = len(self._lines(ask, 0)) == LINES
            ask("metrics/begin", seq=ask("metrics/newest")[0][0] if long else 0)
            return int(ask("metrics/mark")[0][0])

        return self._tables.writing(begin)

    def _lines(self, ask: Ask, after: int) -> list[tuple[int, Line]]:
        horizon = ask("metrics/horizon")[0][0]
        if horizon is None:
            return []
        rows = ask("metrics/lines", after=after, horizon=horizon, limit=LINES)
        return [(seq, Line(*line)) for seq, *line in rows]

    def _count(self, ask: Ask, seen: int, lines: Sequence[tuple[int, Line]]) -> None:
        if not ask("metrics/move", seq=lines[-1][0], seen=seen):
            return  # somebody else was first
        ids = {Labels(*labels): id_ for id_, *labels in ask("metrics/labels")}
        found = counts((line for _, line in lines), Naming(ids))
        new = _numbered(found, ids)
        if new:
            ask("metrics/add_labels", rows=json.dumps([[id_, *labels] for labels, id_ in new.items()]))
        if found:
            ids |= new
            rows = [[c.metric, c.value, ids[c.labels], n] for c, n in sorted(found.items())]
            ask("metrics/add", rows=json.dumps(rows))


def _series(notes: Iterable[str]) -> dict[str, int]:
    """What was counted of series. A note that somebody broke says nothing."""
    found: Counter[str] = Counter()
    for note in notes:
        with suppress(ValueError, TypeError, AttributeError):
            found.update({str(name): int(n) for name, n in (json.loads(note).get("counts") or {}).items()})
    return dict(found)


def _numbered(found: Mapping[Count, int], ids: Mapping[Labels, int]) -> dict[Labels, int]:
    """Numbers for labels that have none yet."""
    new = dict.fromkeys(count.labels for count in found if count.labels not in ids)
    return {labels: n for n, labels in enumerate(new, max(ids.values(), default=0) + 1)}
