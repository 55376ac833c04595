"""What a statement touches does not grow with the store: the same operations on a small and on a large one.

Buffers are exact and the same on every machine. Each statement is looked at with the plan made for its
parameters and with the plan that the server keeps for all; with fresh statistics, with those of a store that
was small, and with none.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import psycopg
import pytest

from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.integration.operations import prune_everything, use_everything
from tests.integration.postgres_costs import Costs, fill, watched_service
from tests.postgres_server import PostgresServer

SMALL, LARGE = 1_000, int(os.environ.get("INTERLOCK_COST_ITEMS", "50000"))
#: Where nothing is known of a table, PostgreSQL reads the whole of a middling one rather than many places of
#: it, a thousand buffers at most; of a large one it does not.
LARGE_UNKNOWN = max(LARGE, 200_000)
#: Buffers that depend on how deep an index is and on what the catalogue's caches hold, not on the plan.
SLACK = 40
#: What may grow, and with what.
GROWS = {
    "access/tokens": "reads up to TOKENS_MAX tokens",
    "ahead_in_queue": "counts up to AHEAD_MAX items before another",
    "agent": "counts up to a thousand ready items of the agent",
    "agents": "counts up to a thousand ready and a thousand deferred items of each agent",
    "budgets/states": "adds up what runs, where a project has a budget",
    "event_counts": "reads up to EVENTS_MAX events of its window",
    "event_spans": "reads up to EVENTS_MAX events of its window",
    "expiring": "reads up to DEADLINES_MAX deadlines of items, to find the earliest ones of runs",
    "first_event_since": "bisects the history, so it reads one page more each time that this doubles",
    "gated": "reads up to a hundred items behind shut gates",
    "github/notes": "reads the notes of up to SERIES_MAX series for metrics",
    "links/runs": "reads what runs, for the item of a run that goes on",
    "load_lines": "reads up to AHEAD_MAX of the line that an item joins, to tell its place",
    "metrics/running": "reads up to COUNTED of what runs",
    "oldest_of_newest_events": "passes EVENTS_MAX events of its window",
    "on_lane": "reads what waits for a time or for tasks",
    "overtakable": "reads the lines that this agent or anyone waits in, when a claim found too little",
    "recap_events": "reads up to EVENTS_MAX events of its window",
    "recent_runs": "reads what runs, and for a lane up to RUNS_MAX of the newest ended runs",
    "run_counts": "reads up to EVENTS_MAX events of its window, and the items of these by their keys",
    "stranded": "looks at the lines and gates of LINES lanes",
    "unknown_agents": "counts up to a thousand items of each name in queues, and as many in lines",
}


def expire_keys(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("UPDATE interlock.dedupe_keys SET expires_us = 0 WHERE item <= 200")


def analyze(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")


def fresh(url: str, items: int) -> None:
    fill(url, items)
    analyze(url)


def stale(url: str, items: int) -> None:
    """Statistics of the time when it was small."""
    fill(url, SMALL)
    analyze(url)
    if items > SMALL:
        fill(url, items, SMALL + 1)


def missing(url: str, items: int) -> None:
    fill(url, items)


@pytest.mark.slow
@pytest.mark.parametrize("statistics", [fresh, stale, missing])
def test_no_statement_touches_more_of_a_larger_store(
    start_postgres: Callable[..., PostgresServer],
    statistics: Callable[[str, int], None],
) -> None:
    server = start_postgres(18, settings={"autovacuum": "off", "shared_buffers": "512MB"})
    found: list[Costs] = []
    for items in (SMALL, LARGE_UNKNOWN if statistics is missing else LARGE):
        costs = Costs()
        service = watched_service(server.create_database(f"of_{items}"), costs)
        statistics(service.store.database.url, items)  # type: ignore[attr-defined]
        with costs.watched():
            use_everything(service)
            expire_keys(service.store.database.url)  # type: ignore[attr-defined]
            prune_everything(service)
            assert service.store.github.prune(service.store.now_us(), 20) == (20, False)
        service.close()
        found.append(costs)
    small, large = (costs.touched for costs in found)
    assert len(large) > 60, "most statements are looked at"
    grown = {
        name: (small.get(name, 0), buffers)
        for name, buffers in large.items()
        if buffers > 2 * small.get(name, 0) + SLACK
    }
    assert set(grown) <= set(GROWS), grown


def queued(url: str, items: int) -> None:
    """Nothing but work that waits, all of it for anyone."""
    service = LocalService(PostgresStore(Database(url)))
    for _ in range(items // 10_000 * 3):
        service.add([NewItem(title="work") for _ in range(1_000)])
    service.close()
    analyze(url)


@pytest.mark.slow
@pytest.mark.parametrize("filled", [fresh, queued])
def test_the_server_keeps_the_plans_of_what_runs_often(
    start_postgres: Callable[..., PostgresServer], filled: Callable[[str, int], None]
) -> None:
    """A plan for any parameters must look no dearer than one made for these, or the server plans the
    statement anew each time: a millisecond for a claim. The first five times it always does."""
    server = start_postgres(18, settings={"autovacuum": "off", "shared_buffers": "512MB"})
    database = Database(server.create_database("large"), max_connections=1)
    filled(database.url, LARGE)
    service = LocalService(PostgresStore(database))
    for n in range(20):
        agents = ("coder", "heir")
        service.add([NewItem(title="work", agent=agent, lane=f"often:{n}", priority=9) for agent in agents])
        leases = [*service.next("coder"), *service.next("anyone"), *service.next("picky", types=["task"])]
        service.renew([Report(run=lease.run) for lease in leases])
        service.done([Report(run=lease.run) for lease in leases])
    with database.connection() as conn:
        planned = conn.execute("SELECT statement, custom_plans FROM pg_prepared_statements")
        anew = [text for text, custom in planned.fetchall() if custom > 5]
    service.close()
    assert anew == []
