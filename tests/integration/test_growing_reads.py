"""What a read touches at 2,000 and at 20,000 items: what a screen asks for every second is bounded.

Counts are exact: buffers on PostgreSQL, steps of the virtual machine on SQLite. A read that grows is in
`GROWS` with what it grows with, and its docstring says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from interlock.service.contract import ItemFilter
from interlock.service.local import LocalService
from interlock.service.retention import prune
from tests.conformance.test_sqlite_costs import Costs as SqliteCosts
from tests.integration.postgres_costs import Costs, fill, watched_service
from tests.postgres_server import PostgresServer

FEW, MANY = 2_000, 20_000
#: How deep an index is, and one more row here and there. Where nothing is known of a table, PostgreSQL reads
#: the whole of a middling one.
SLACK, UNKNOWN_SLACK = 100, 1_000
#: Nothing in these stores is as old.
CENTURY_S = 100 * 365 * 86_400.0
LONG_AGO, SOON = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

#: Reads of pages, by what they are asked for. None of these may grow.
BOUNDED: dict[str, Callable[[LocalService], object]] = {
    "items with passing checks": lambda il: il.items(ItemFilter(ci="success", limit=20)),
    "items": lambda il: il.items(ItemFilter(limit=20)),
    "items of a usual type": lambda il: il.items(ItemFilter(type="task", limit=20)),
    "items with a usual text": lambda il: il.items(ItemFilter(text="item", limit=20)),
    "an item": lambda il: il.show(1),
    "lanes": lambda il: il.lanes(limit=20),
    "lanes, none of them": lambda il: il.lanes(prefix="issue:acme/app0", limit=20),
    "lanes by prefix": lambda il: il.lanes(prefix="issue:acme/app#1", limit=20),
    "lanes after one": lambda il: il.lanes(after="issue:acme/app#15", limit=20),
    "gate of a lane": lambda il: il.gates(lane="issue:acme/app#15"),
    "blocks of a lane": lambda il: il.blocks(lane="issue:acme/app#15"),
    "the newest events": lambda il: il.events(newest=True, limit=20),
    "set an agent": lambda il: il.set_agent("painter", labels=["oil"]),
    "pause an agent": lambda il: il.pause_agent("painter", paused=True, why="holiday"),
    "set a pool": lambda il: il.set_pool("gpu", max_concurrency=2),
    "prune nothing": lambda il: list(prune(il.store, CENTURY_S, really=True)),
    "prune nothing, only looking": lambda il: list(prune(il.store, CENTURY_S, really=False)),
}
#: What grows, and with what.
GROWS: dict[str, tuple[str, Callable[[LocalService], object]]] = {
    "agents": ("1,000 items of each agent", lambda il: il.agents()),
    "unknown agents": ("2,000 items of each name", lambda il: il.unknown_agents(limit=20)),
    "runs": ("runs that go on", lambda il: il.recent_runs(limit=20)),
    "lanes of a number": ("10,000 lanes without a number", lambda il: il.lanes(number=15, limit=20)),
    "runs of a window": ("10,000 runs", lambda il: il.recent_runs(since=LONG_AGO, until=SOON, limit=20)),
    "runs of an agent": ("10,000 runs", lambda il: il.recent_runs(agent="nobody", limit=20)),
    "runs of a lane": ("10,000 runs", lambda il: il.recent_runs(lane="rare:1", limit=20)),
    "items with cancelled checks": (
        "10,000 links",
        lambda il: il.items(ItemFilter(ci="cancelled", limit=20)),
    ),
    "items with a rare label": (
        "10,000 items of each status",
        lambda il: il.items(ItemFilter(label="rare", limit=20)),
    ),
    "items with a rare text": (
        "10,000 items of each status",
        lambda il: il.items(ItemFilter(text="rare", all=True, limit=20)),
    ),
    "items of a rare type": ("items of the statuses", lambda il: il.items(ItemFilter(type="rare", limit=20))),
    "items on a lane": ("items that wait for a time", lambda il: il.on_lane("rare:1")),
    "events of a lane": ("events", lambda il: il.events(lane="rare:1", newest=True, limit=20)),
    "sweep": ("200 lanes", lambda il: il.sweep()),
    "doctor": ("the store", lambda il: il.doctor()),
}
READS = {**BOUNDED, **{name: read for name, (_, read) in GROWS.items()}}


class Sum(Costs):
    """What all calls of a statement touched together: a read that goes on page by page grows by its calls."""

    def note(self, text: str, touched: int) -> None:
        self.touched[text] = self.touched.get(text, 0) + touched


def _checked(few: dict[str, int], many: dict[str, int], slack: int = SLACK) -> None:
    grown = {name: (few[name], n) for name, n in many.items() if n > 2 * few[name] + slack}
    assert set(grown) <= set(GROWS), grown
    # What looks at every item would be found by this factor.
    assert many["doctor"] > 5 * few["doctor"]


def _fresh(url: str, items: int) -> None:
    fill(url, items)
    _analyze(url)


def _stale(url: str, items: int) -> None:
    fill(url, FEW)
    _analyze(url)
    if items > FEW:
        fill(url, items, FEW + 1)


def _analyze(url: str) -> None:
    """Every table of the database, those without a row too."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")


@pytest.mark.parametrize("statistics", [_fresh, _stale, fill])
def test_on_postgresql(
    start_postgres: Callable[..., PostgresServer], statistics: Callable[[str, int], None]
) -> None:
    server = start_postgres(18, settings={"autovacuum": "off"})

    def measured(items: int) -> dict[str, int]:
        costs = Sum()
        service = watched_service(server.create_database(f"of_{items}"), costs)
        statistics(service.store.database.url, items)  # type: ignore[attr-defined]
        service.sweep()  # the first one reads the clock
        found = {}
        for name, read in READS.items():
            costs.touched.clear()
            with costs.watched():
                read(service)
            found[name] = sum(costs.touched.values())
        service.close()
        return found

    _checked(measured(FEW), measured(MANY), UNKNOWN_SLACK if statistics is fill else SLACK)


@pytest.mark.parametrize("analyzed", [False, True])
def test_on_sqlite(tmp_path: Path, analyzed: bool) -> None:
    def measured(items: int) -> dict[str, int]:
        costs = SqliteCosts(tmp_path / f"{items}.db", items)
        if analyzed:
            costs.service.store.database.db.execute("ANALYZE")  # type: ignore[attr-defined]
        found = {}
        for name, read in READS.items():
            with costs.of(name):
                read(costs.service)
            found[name] = sum(steps for (operation, _), steps in costs.steps.items() if operation == name)
        costs.service.close()
        return found

    _checked(measured(FEW), measured(MANY))
