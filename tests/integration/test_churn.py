"""Claims while vacuum is held back: an old snapshot keeps the index entries of all that came and went."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.scan_starts import FULL_SCAN_S
from interlock.store.postgres.store import PostgresStore
from tests.faults.stores import query
from tests.integration.postgres_costs import Costs, watched_service
from tests.postgres_server import PostgresServer

FEW, MANY = 3_000, 30_000
CHURN = Path(__file__).parents[2] / "bench" / "sql" / "postgres" / "churn.sql"


@contextmanager
def pinned(url: str) -> Iterator[None]:
    """A snapshot that somebody forgot."""
    with psycopg.connect(url) as conn:
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT 1")
        yield


def churn(url: str, count: int) -> None:
    for statement in CHURN.read_text("utf-8").replace("{count}", str(count)).strip().split(";"):
        query(url, statement)


@pytest.mark.slow
def test_a_claim_touches_no_more_however_much_came_and_went(
    start_postgres: Callable[..., PostgresServer],
) -> None:
    """Claims for anyone and by type, one after the other. The first look of a process does touch it all.

    Taken out: `front` in `items` and `typed` of `claim.sql`, or `since_us`, or the case around `rivals`.
    """
    server = start_postgres(18, settings={"autovacuum": "off"})
    first: list[int] = []
    later: list[int] = []
    for count in (FEW, MANY):
        costs = Costs()
        service = watched_service(server.create_database(f"of_{count}"), costs)
        store: Any = service.store
        store.claims.scan_starts.slow_us, store.claims.scan_starts.clock = 0, lambda: 0.0
        with pinned(store.database.url):
            churn(store.database.url, count)
            service.add([NewItem(title="work", agent=agent) for agent in ("", "coder") * 10])
            for types in ((), ("task",)):
                for touched in (first, later):
                    costs.touched.clear()
                    with costs.watched():
                        assert len(service.next("coder", types=types, lease_s=60)) == 1
                    touched.append(costs.touched["claim"])
        service.close()
    for few, many in zip(later[:2], later[2:], strict=True):
        assert many <= 2 * few + 40, (first, later)
    assert min(first[2:]) > 5 * max(later), "a full scan is as cheap: this test proves nothing"


@pytest.fixture
def service(pg_database18: str) -> Iterator[LocalService]:
    service = LocalService(PostgresStore(Database(pg_database18)))
    yield service
    service.close()


def test_what_becomes_ready_before_the_front_is_found_when_a_whole_look_is_due_or_nothing_else_is_left(
    service: LocalService,
) -> None:
    """An arrival of a higher priority, an item that comes back, a promoted one. The test has the clock."""
    claims: Any = service.store.claims  # type: ignore[attr-defined]
    now_s, claims.scan_starts.slow_us = [0.0], 0
    claims.scan_starts.clock = lambda: now_s[0]

    def claimed() -> str:
        return service.next("coder", lease_s=60)[0].item.title

    service.add([NewItem(title="back", lane="a:1"), NewItem(title="heir", lane="a:1")])
    service.add([NewItem(title="plain") for _ in range(5)])
    back = service.next("coder", lease_s=60)[0]
    assert (back.item.title, claimed()) == ("back", "plain")
    service.add([NewItem(title="high", priority=9)])
    service.release([Report(run=back.run)])
    assert claimed() == "plain", "a look from the front on: without it the tests here prove nothing"
    now_s[0] += FULL_SCAN_S
    assert claimed() == "high", "a full scan is due"
    back = service.next("coder", lease_s=60)[0]
    assert (back.item.title, claimed()) == ("back", "plain"), "and the front went back with it"
    assert service.done([Report(run=back.run)])[0].promoted
    assert [claimed() for _ in range(3)] == ["plain", "plain", "heir"], "when nothing else is left"
