"""Through PgBouncer: what works, and that one that is too old is refused in words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from tests.faults.stores import assert_kept, open_service, query
from tests.integration import pooler

ROUNDS = 30


@contextmanager
def through_transactions(database: str, program: str) -> Iterator[str]:
    with pooler.pooled(database, "transaction", program) as url:
        sessions = [psycopg.connect(url) for _ in range(3)]
        for session in sessions:  # so that there are several, and each transaction gets another
            session.execute("SELECT 1")
        for session in sessions:
            session.close()
        yield url


def work(service: LocalService, rounds: int, agent: str) -> int:
    done = 0
    for n in range(rounds):
        service.add([NewItem(title=f"item {n}", lane=f"issue:acme/app#{n % 5}")])
        leases = service.next(agent, limit=2, wait_s=0.2)
        service.renew([Report(run=lease.run) for lease in leases])
        done += sum(view.refusal is None for view in service.done([Report(run=le.run) for le in leases]))
    return done


def test_a_pooler_that_does_not_keep_prepared_statements_is_refused_in_words(
    pg_database18: str,
) -> None:
    if pooler.version(pooler.program()) >= pooler.KEEPS_PREPARED:
        pytest.skip("the PgBouncer of this machine keeps prepared statements")
    with through_transactions(pg_database18, pooler.program()) as url:
        service = open_service(url)
        with pytest.raises(StoreUnavailable, match="does not keep prepared statements") as refused:
            work(service, ROUNDS, "coder")
        assert "1.21" in refused.value.hint
        service.close()
    assert_kept(pg_database18)


def test_through_transactions_of_a_newer_pooler_everything_works(pg_database18: str) -> None:
    with through_transactions(pg_database18, pooler.newer()) as url:
        _work_from_threads(url, pg_database18)
    assert_kept(pg_database18)


def _work_from_threads(url: str, database: str) -> None:
    service = open_service(url)
    done: list[int] = []
    others = [
        threading.Thread(target=lambda n=n: done.append(work(service, ROUNDS, f"agent{n}"))) for n in range(3)
    ]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert len(done) == 3
    query(database, "UPDATE meta SET value = 'elsewhere' WHERE name = 'identity'")
    assert work(service, ROUNDS, "coder") > 0  # after an error, and a rollback
    kinds = query(database, "SELECT count(*) FROM events WHERE kind = 'store.changed'")
    assert kinds == [(1,)]
    service.close()


def test_through_sessions_of_any_pooler_everything_works_and_notices_come_through(pg_database18: str) -> None:
    with pooler.pooled(pg_database18, "session", pooler.program()) as url:
        service, other = open_service(url), open_service(url)
        assert work(service, ROUNDS, "coder") == ROUNDS
        waiter = threading.Thread(target=lambda: service.next("coder", wait_s=20))
        waiter.start()
        other.add([NewItem(title="one more")])
        waiter.join()
        assert query(pg_database18, "SELECT count(*) FROM items WHERE run IS NOT NULL") == [(1,)]
        service.close()
        other.close()
    assert_kept(pg_database18)
