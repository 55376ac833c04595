"""Locks are taken in one order everywhere: agent, lanes sorted, items sorted. So nobody ever deadlocks.

A deadlock would be undone and tried again, so that nothing is lost by it; but each costs a second, and tells
that the order is broken somewhere.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from interlock.core.model import NewItem
from interlock.core.plans.model import Graph, TaskSpec
from interlock.service.contract import NextWish, Report
from tests.faults import racers
from tests.faults.failpoints import wait_for_lock_waiters
from tests.faults.processes import CONTEXT, Crew, wait_until
from tests.faults.stores import assert_kept, open_service, query
from tests.postgres_server import PostgresServer

ROLES = ["arrivals", "holder", "holder", "holder", "operator", "sweeper"]


def deadlocks(url: str) -> int:
    return int(query(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0][0])


def test_batches_of_everything_on_the_same_lanes_never_deadlock(crew: Crew, pg_url: str) -> None:
    """Batches name their lanes, items, runs and keys in whatever order they like.

    Taken out: `ORDER BY` in `lock_lanes.sql`, and in `renew.sql`; each shows within three seconds.
    """
    service = open_service(pg_url)
    service.set_agent("ada", max_concurrency=30)
    service.close()
    done = crew.race_roles(ROLES, racers.do_batches, pg_url, 3.0)
    assert min(done) > 0, dict(zip(ROLES, done, strict=True))
    assert deadlocks(pg_url) == 0
    assert_kept(pg_url)


@pytest.mark.parametrize("first", ["agent", "pool"])
def test_an_end_with_a_claim_locks_what_limits_the_claim_before_any_lane(pg_url: str, first: str) -> None:
    """Taken out: `_ClaimAfterEnds.locking`; the end has its lane and waits for the limit, whose holder
    waits for the lane."""
    service, lane = open_service(pg_url), "issue:acme/app#1"
    service.set_pool("gpu", max_concurrency=1)
    service.set_agent("coder", **{"max_concurrency": 1} if first == "agent" else {"pool": "gpu"})
    service.add([NewItem(title="work", lane=lane) for _ in range(2)])
    (lease,) = service.next("coder", lease_s=60)
    table, key = ("agents", "key = 'coder'") if first == "agent" else ("pools", "name = 'gpu'")
    with psycopg.connect(pg_url) as holder, ThreadPoolExecutor(1) as threads:
        holder.execute(f"SELECT FROM interlock.{table} WHERE {key} FOR NO KEY UPDATE".encode())
        wish = NextWish("coder", lease_s=60)
        end = threads.submit(service.done, [Report(run=lease.run)], next=wish)
        wait_for_lock_waiters(pg_url)
        holder.execute("SET LOCAL lock_timeout = '1s'")
        holder.execute("SELECT FROM interlock.lanes WHERE lane = %s FOR NO KEY UPDATE", (lane,))
        holder.rollback()
        assert len(end.result().leases) == 1
    assert deadlocks(pg_url) == 0
    service.close()


def test_edits_that_add_tasks_on_new_lanes_and_arrivals_there_never_deadlock(crew: Crew, pg_url: str) -> None:
    """The edit has locked the lane of a task that it names, and its plan's; the arrival names that lane too.

    Taken out: `task_lanes` in the load of an edit, in favour of lanes that are made when the edit is written;
    it shows within a few rounds.
    """
    rounds = 40
    service = open_service(pg_url)
    task = TaskSpec(key="first", title="first", lane=racers.OLD_LANE)
    plan = service.create_plan(name="plan", graph=Graph(tasks=(task,))).id
    service.close()
    barrier = CONTEXT.Barrier(2)
    actors = [
        crew.start(racers.meet_on_new_lanes, barrier, pg_url, role, plan, rounds)
        for role in ("editor", "arrival")
    ]
    assert [actor.join() for actor in actors] == [rounds, rounds]
    assert deadlocks(pg_url) == 0
    assert_kept(pg_url)


def test_new_lanes_are_made_in_one_order_however_the_planner_looks_for_missing_ones(pg_url: str) -> None:
    """Two batches whose new lanes were made in different orders would wait for each other.

    Taken out: `ORDER BY` in `add_lanes.sql`; with few lanes in the table, the planner looks them up by a
    hash, and they are made in its order.
    """
    lanes = [f"issue:acme/app#{n}" for n in range(100, 140)]
    service = open_service(pg_url)
    service.add([NewItem(title="work", lane=lane) for lane in lanes])
    service.close()
    made = query(pg_url, "SELECT lane FROM interlock.lanes ORDER BY ctid")
    assert made == [(lane,) for lane in lanes]


@pytest.mark.deadlocks
def test_a_deadlock_would_be_counted_and_its_statements_quoted(
    request: pytest.FixtureRequest, pg_url: str
) -> None:
    """The tests above have power: the server counts what it looks for, and its log explains it."""
    query(pg_url, "CREATE TABLE public.thing AS SELECT generate_series(1, 2) AS id")
    one, two = psycopg.connect(pg_url), psycopg.connect(pg_url)
    for conn, thing in ((one, 1), (two, 2)):
        conn.execute("SET deadlock_timeout = '100ms'")
        conn.execute(f"SELECT 1 FROM thing WHERE id = {thing} FOR UPDATE".encode())
    two.pgconn.send_query(b"SELECT 1 FROM thing WHERE id = 1 FOR UPDATE")
    try:
        one.execute("SELECT 1 FROM thing WHERE id = 2 FOR UPDATE")
    except psycopg.errors.DeadlockDetected:
        one.rollback()
    two.close()
    one.close()
    # Either of the two may be the one that is given up, and a session reports its counts when it has ended.
    wait_until(lambda: deadlocks(pg_url) == 1, "the deadlock is counted")
    server: PostgresServer = request.getfixturevalue(request.node.callspec.params["pg_url"])
    (database,) = query(pg_url, "SELECT current_database()")[0]
    quoted = server.deadlocks(database)
    assert "WHERE id = 1 FOR UPDATE" in quoted
    assert "WHERE id = 2 FOR UPDATE" in quoted
