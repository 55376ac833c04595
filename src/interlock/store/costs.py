"""A database's data about what runs used. Each call is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo

from interlock.core.costs import TIME_ZONE, Cost, Spender, Spending, day_of, grown
from interlock.core.handles import Handle
from interlock.store.tables import Ask, Tables

#: The most reports that are added up for a span of time.
REPORTS_MAX = 20_000


class CostStore:
    """What runs reported, and the sums by day."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def report(self, handle: Handle, agent: str, cost: Cost) -> Cost | None:
        """Keep a run's total. Gives the new one; None if its item is gone."""

        def work(ask: Ask) -> Cost | None:
            rows = ask("costs/touch", run=handle.run, item=handle.item, agent=agent)
            if not rows:
                return None
            *before, now_us, project, pool = rows[0]
            total, added = grown(Cost(*before), cost)
            if any(added):
                ask("costs/keep", run=handle.run, **total._asdict())
                day = day_of(now_us, zone_of(_zone(ask))).isoformat()
                for scope, name in ((Spender.AGENT, agent), (Spender.POOL, pool), (Spender.PROJECT, project)):
                    if name is not None:
                        ask("costs/spend", scope=scope.value, name=name, day=day, **added._asdict())
            return total

        return self._tables.writing(work)

    def of_items(self, items: Sequence[int]) -> dict[int, dict[int, Cost]]:
        """The costs of the runs of items. Runs without a report are left out."""
        found: dict[int, dict[int, Cost]] = {}
        for item, run, *cost in self._tables.read("costs/of_items", items=items) if items else ():
            found.setdefault(item, {})[run] = Cost(*cost)
        return found

    def reported(self, since_us: int) -> Cost:
        """What runs used that reported since a time: the newest `REPORTS_MAX` at most."""
        return Cost(*self._tables.read("costs/reported", since_us=since_us, limit=REPORTS_MAX)[0])

    def time_zone(self) -> str:
        """The time zone in which days begin."""
        return _zone(self._tables.read)

    def spending(self, since: str, limit: int) -> list[Spending]:
        """The sums from a day on, the newest day first."""
        rows = self._tables.read("costs/spending", since=since, limit=limit)
        return [Spending(scope, name, day, Cost(*cost)) for scope, name, day, *cost in rows]


def zone_of(name: str) -> tzinfo:
    """A time zone by its name. One that this machine does not know raises `KeyError`."""
    if name == TIME_ZONE:
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415  (most stores count in UTC)

    return ZoneInfo(name)


def _zone(ask: Ask) -> str:
    rows = ask("costs/calendar")
    return rows[0][0] if rows else TIME_ZONE
