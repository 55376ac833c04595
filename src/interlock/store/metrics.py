"""Counters and gauges in a database. SQLite and PostgreSQL differ only in their statements."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from interlock.core.counters import Count, HistoryLine, Labels, Naming, counts
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.store.tables import Ask, Tables

#: The events that one transaction counts. If the history is longer when counting begins, counting begins at
#: its end.
LINES = 2_000
#: The limit up to which large numbers are counted.
COUNTED = 10_000
#: The most series, by their lanes, whose counts are added up.
SERIES_MAX = 1_000
#: How long samples of the trend are kept.
KEPT_MINUTES = 180


class Running(Record):
    """Live runs of one kind."""

    labels: Labels
    n: int
    since_us: int


class Levels(Record):
    """Current numbers, each counted up to `COUNTED`."""

    running: Sequence[Running]
    #: Open edit cycles, ended tasks that wait for an answer of the editor, and the start of the oldest cycle.
    cycles: int
    ends_owed: int
    cycle_since_us: int | None
    #: Items that wait for a person's answer, and items that wait for a person after too many wake-ups.
    asking: int
    stopped: int
    #: Pending deliveries, those that wait for a person, and since when the oldest waits.
    deliveries: int
    deliveries_left: int
    delivery_since_us: int | None
    #: Unsent effects, since when the next is due, and effects that wait for a person.
    unsent: int
    unsent_due_us: int | None
    dead: int
    #: The counts of series, by kind.
    series: Mapping[str, int]


class Sample(NamedTuple):
    """The numbers at one minute, in column order."""

    #: Minutes since 1970, by the store's clock.
    minute: int
    #: Items that can be claimed, those that wait or are deferred, and those in progress.
    ready: int
    waiting: int
    running: int
    #: How long the oldest ready item had waited.
    oldest_us: int
    #: Since the beginning of counting: arrivals, started runs, runs that succeeded, and runs that failed.
    arrivals: int
    claims: int
    completions: int
    failures: int


class Meter:
    """The counters of one database."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def fold(self) -> bool:
        """Count the next events, each once among all processes; gives whether there may be more."""
        seen = self._mark()
        lines = self._tables.reading(lambda ask: self._lines(ask, seen))
        if not lines:
            return False
        self._tables.writing(lambda ask: self._count(ask, seen, lines))
        return len(lines) == LINES

    def counters(self) -> dict[Count, int]:
        rows = self._tables.read("metrics/counters")
        return {Count(metric, value, Labels(*labels)): n for metric, value, *labels, n in rows}

    def levels(self) -> Levels:
        """The current numbers. They are not a snapshot."""

        def work(ask: Ask) -> Levels:
            running = ask("metrics/running", limit=COUNTED)
            cycles, ends, cycle_us = ask("metrics/cycles", limit=COUNTED)[0]
            asking, stopped = ask("metrics/people", limit=COUNTED)[0]
            deliveries, due, delivery_us = ask("metrics/deliveries", limit=COUNTED)[0]
            unsent, due_us, dead = ask("outbox/backlog", limit=COUNTED)[0]
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
                unsent=unsent,
                unsent_due_us=due_us,
                dead=dead,
                series=_series(row[-1] for row in ask("github/notes", after="", limit=SERIES_MAX)),
            )

        return self._tables.reading(work)

    def totals(self) -> dict[tuple[str, str], int]:
        """The counts of arrivals, claims and ended runs, by metric and value."""
        return {(metric, value): n for metric, value, n in self._tables.read("metrics/totals")}

    def keep(self, sample: Sample) -> None:
        """Keep a sample, and delete old ones."""

        def work(ask: Ask) -> None:
            ask("metrics/add_sample", **sample._asdict())
            ask("metrics/drop_samples", minute=sample.minute - KEPT_MINUTES)

        self._tables.writing(work)

    def samples(self, minute: int) -> list[Sample]:
        """The samples from a minute on, the oldest first."""
        return [Sample(*row) for row in self._tables.read("metrics/samples", minute=minute)]

    def _mark(self) -> int:
        """The position up to which the history is counted. Counting begins if it has not."""
        found = self._tables.read("metrics/mark")
        if found:
            return int(found[0][0])

        def begin(ask: Ask) -> int:
            long = len(self._lines(ask, 0)) == LINES
            ask("metrics/begin", seq=ask("metrics/newest")[0][0] if long else 0)
            return int(ask("metrics/mark")[0][0])

        return self._tables.writing(begin)

    def _lines(self, ask: Ask, after: int) -> list[tuple[int, HistoryLine]]:
        horizon = ask("horizon")[0][0]
        if horizon is None:
            return []
        rows = ask("metrics/lines", after=after, horizon=horizon, limit=LINES)
        return [(seq, HistoryLine(*line)) for seq, *line in rows]

    def _count(self, ask: Ask, seen: int, lines: Sequence[tuple[int, HistoryLine]]) -> None:
        if not ask("metrics/move", seq=lines[-1][0], seen=seen):
            return  # another process was first
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
    """The counts of series. An invalid note counts nothing."""
    found: Counter[str] = Counter()
    for note in notes:
        with suppress(ValueError, TypeError, AttributeError):
            found.update({str(name): int(n) for name, n in (json.loads(note).get("counts") or {}).items()})
    return dict(found)


def _numbered(found: Mapping[Count, int], ids: Mapping[Labels, int]) -> dict[Labels, int]:
    """New numbers for labels without one."""
    new = dict.fromkeys(count.labels for count in found if count.labels not in ids)
    return {labels: n for n, labels in enumerate(new, max(ids.values(), default=0) + 1)}
