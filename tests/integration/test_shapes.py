"""What a statement touches does not grow with a store of any shape, whatever its statistics say.

Every operation runs on a small and on a large store: without statistics, with those of the days when the
store was small, and with every table analysed, on PostgreSQL vacuumed too, empty ones included. On PostgreSQL
buffers are counted, on SQLite steps of its virtual machine. Both are exact: no clock is involved.
`INTERLOCK_COST_ITEMS` sets the larger size.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from interlock.service import sweeper
from interlock.service.local import LocalService
from interlock.store import metrics, reads
from interlock.store.postgres import transactions
from interlock.store.sqlite import snapshot
from interlock.store.sqlite.store import SqliteStore
from tests.integration.operations import prune_everything, use_items
from tests.integration.postgres_costs import Costs, watched_service
from tests.integration.shapes import SHAPES, fill
from tests.postgres_server import PostgresServer

SMALL, LARGE = 1_000, int(os.environ.get("INTERLOCK_COST_ITEMS", "20000"))
#: Buffers of the depth of an index and of the catalogue; steps beside the row that is looked for.
SLACK_BUFFERS, SLACK_STEPS = 40, 100
#: Where nothing is known of a table, PostgreSQL reads the whole of a middling one rather than many places of
#: it: that of events here, but not that of items.
SLACK_UNKNOWN = 400
#: How often each statement is looked at in one run.
LOOKS = 3
#: What may grow, and with what.
GROWS = {
    "on_lane": "reads what waits for a time or for tasks",
    "budgets/states": "adds up what runs, where a project has a budget",
}


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that stop at a limit reach it in the smaller store already."""
    monkeypatch.setattr(reads, "EVENTS_MAX", 500)
    monkeypatch.setattr(reads, "SPANS_MAX", 100)
    monkeypatch.setattr(reads, "AHEAD_MAX", 10)
    monkeypatch.setattr(reads, "RUNS_MAX", 100)
    monkeypatch.setattr(snapshot, "AHEAD_MAX", 10)
    monkeypatch.setattr(transactions, "AHEAD_MAX", 10)
    monkeypatch.setattr("interlock.core.why.AHEAD_MAX", 10)
    monkeypatch.setattr(sweeper, "LINES", 20)
    monkeypatch.setattr(metrics, "LINES", 500)
    monkeypatch.setattr(metrics, "COUNTED", 20)


def grown(small: Counter[str], large: Counter[str], slack: int) -> dict[str, tuple[int, int]]:
    assert len(large) > 90, "most statements are looked at"
    return {
        name: (small[name], count)
        for name, count in large.items()
        if count > 2 * small[name] + slack and name not in GROWS
    }


# -- PostgreSQL -----------------------------------------------------------------------------------


class _Store:
    """A PostgreSQL store of one shape."""

    def __init__(self, server: PostgresServer, name: str, shape: str) -> None:
        self.costs = Costs(looks=LOOKS)
        self.service = watched_service(server.create_database(name), self.costs)
        self._url = self.service.store.database.url  # type: ignore[attr-defined]
        self._shape = shape

    def fill(self, last: int, first: int = 1) -> None:
        with psycopg.connect(self._url, autocommit=True) as conn:
            conn.execute("SET search_path = interlock")
            now_us = self.service.store.now_us()

            def execute(text: str) -> None:
                conn.execute(text.encode())

            fill(self._shape, last, now_us, execute, gpu="{gpu}", first=first)
            execute("INSERT INTO gates SELECT id, true FROM plans ON CONFLICT DO NOTHING")
            execute("DELETE FROM tallies")
            execute("INSERT INTO tallies SELECT status, priority, count(*) FROM items GROUP BY 1, 2")
            execute(
                f"SELECT setval('item_ids', {last}), setval('tickets', {last}), setval('run_numbers', {last})"
            )
            execute(f"SELECT setval('event_numbers', ({last} >> 16) + 1)")

    def analyze(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE")

    def used(self) -> Counter[str]:
        """The most that each statement touched."""
        with self.costs.watched():
            prune_everything(self.service, after=use_items(self.service))
        self.service.close()
        return Counter(self.costs.touched)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_no_statement_touches_more_of_a_larger_store(
    start_postgres: Callable[..., PostgresServer], shape: str
) -> None:
    server = start_postgres(18, settings={"autovacuum": "off", "shared_buffers": "256MB"})
    few = _Store(server, "few", shape)
    few.fill(SMALL)
    few.analyze()
    small = few.used()
    found = {}
    for statistics in ("none", "stale", "vacuumed"):
        many = _Store(server, statistics, shape)
        many.fill(SMALL)
        if statistics == "stale":
            many.analyze()
        many.fill(LARGE, SMALL + 1)
        if statistics == "vacuumed":
            many.analyze()
        slack = SLACK_UNKNOWN if statistics == "none" else SLACK_BUFFERS
        found[statistics] = grown(small, many.used(), slack)
    assert not any(found.values()), found


# -- SQLite ---------------------------------------------------------------------------------------


def steps(path: Path, shape: str, sizes: Sequence[int], *, analyze_at: int = 0) -> Counter[str]:
    """The most steps that each statement took on a store that grew to these sizes."""
    store = SqliteStore(path)
    db, most = store.database.db, Counter[str]()
    db.pragma("synchronous", "off")
    for before_it, size in pairwise((0, *sizes)):
        with store.database.write():
            fill(shape, size, store.now_us(), db.execute, gpu='["gpu"]', first=before_it + 1)
            db.execute(f"UPDATE numbers SET value = {size}")
        if size == analyze_at:
            db.execute("ANALYZE")
    before: dict[tuple[int, str], tuple[int, int]] = {}

    def note(event: dict[str, Any]) -> None:
        """SQLite adds up the steps of all runs of a prepared statement."""
        status, which = event["stmt_status"], (event["id"], event["sql"])
        now = status["SQLITE_STMTSTATUS_RUN"], status["SQLITE_STMTSTATUS_VM_STEP"]
        then = before.get(which, (0, 0))
        before[which] = now
        names = {text.strip(): name for name, text in store.database.sql._texts.items()}
        name = names.get(event["sql"].strip(), event["sql"])
        most[name] = max(most[name], now[1] - then[1] if now[0] > then[0] else now[1])

    service = LocalService(store)
    db.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    prune_everything(service, after=use_items(service))
    db.trace_v2(0, None)
    service.close()
    return most


@pytest.mark.parametrize("shape", SHAPES)
def test_no_statement_takes_more_steps_on_a_larger_store(tmp_path: Path, shape: str) -> None:
    few = steps(tmp_path / "few.db", shape, [SMALL])
    found = {}
    for statistics, analyze_at in (("none", 0), ("stale", SMALL), ("analyzed", LARGE)):
        many = steps(tmp_path / f"{statistics}.db", shape, [SMALL, LARGE], analyze_at=analyze_at)
        found[statistics] = grown(few, many, SLACK_STEPS)
    assert not any(found.values()), found
