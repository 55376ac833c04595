"""Counts of items on PostgreSQL: kept as they change, added up now and then, there for whoever may read."""

from __future__ import annotations

import psycopg
import pytest

from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres import transactions
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.faults.stores import query

UNFOLDED = "SELECT count(*) FROM tally_changes"
COUNTED = "SELECT status, sum(n)::integer FROM tallied GROUP BY 1 HAVING sum(n) <> 0"


def service_at(url: str) -> LocalService:
    return LocalService(PostgresStore(Database(url)))


def test_changes_are_added_up_now_and_then_where_nobody_sweeps(
    pg_database18: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "FOLD_EVERY", 5)
    service = service_at(pg_database18)
    for _ in range(12):
        service.add([NewItem(title="work")])
    assert query(pg_database18, UNFOLDED) == [(2,)]
    assert service.stats().items == {"pending": 12}
    service.close()


@pytest.mark.parametrize("asked", ["sweep", "stats"])
def test_a_sweep_and_a_look_at_the_counts_add_them_up(pg_database18: str, asked: str) -> None:
    service = service_at(pg_database18)
    service.add([NewItem(title="work", priority=n) for n in range(3)])
    assert query(pg_database18, UNFOLDED) == [(3,)]
    getattr(service, asked)()
    assert query(pg_database18, UNFOLDED) == [(0,)]
    assert service.stats().depth_by_priority == {2: 1, 1: 1, 0: 1}
    service.close()


def test_each_move_appends_a_row_and_the_counts_are_exact_before_and_after_a_fold(pg_database18: str) -> None:
    """Taken out: a side of `tallied`, or of `fold_tallies`: the counts and the doctor say so."""
    service = service_at(pg_database18)

    def agree(items: dict[str, int], unfolded: int) -> None:
        assert query(pg_database18, UNFOLDED) == [(unfolded,)]
        for _ in range(2):  # `stats` folds
            assert dict(query(pg_database18, COUNTED)) == items
            assert service.stats().items == items
            assert all(check.ok for check in service.doctor() if check.name == "tallies_are_right")

    service.add([NewItem(title="work"), NewItem(title="later", run_after_s=3600)])
    agree({"pending": 1, "waiting": 1}, 2)
    lease = service.next("coder")[0]
    agree({"in_progress": 1, "waiting": 1}, 1)
    service.done([Report(run=lease.run)])
    agree({"completed": 1, "waiting": 1}, 1)
    service.edit(lease.item.id + 1, {"priority": 5})
    agree({"completed": 1, "waiting": 1}, 2)
    assert query(pg_database18, "SELECT priority FROM tallied WHERE status = 'waiting' AND n <> 0") == [(5,)]
    service.store.prune_items(service.store.now_us() + 1, 0, 10, really=True)
    agree({"waiting": 1}, 1)
    service.close()


def test_whoever_may_only_read_gets_the_counts_too(pg_database18: str) -> None:
    service = service_at(pg_database18)
    service.add([NewItem(title="work")])
    service.close()
    with psycopg.connect(pg_database18, autocommit=True) as conn:
        conn.execute("DROP ROLE IF EXISTS looker")
        conn.execute("CREATE ROLE looker LOGIN")
        conn.execute("GRANT USAGE ON SCHEMA interlock TO looker")
        conn.execute("GRANT SELECT ON ALL TABLES IN SCHEMA interlock TO looker")
    looker = service_at(pg_database18.replace("postgres@", "looker@"))
    assert looker.stats().items == {"pending": 1}
    looker.close()
    assert query(pg_database18, UNFOLDED) == [(1,)]
    query(pg_database18, "DROP OWNED BY looker")
