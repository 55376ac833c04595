"""The thirteen PostgreSQL traps. Each test springs the trap on the naive form, then shows that ours holds.

The naive forms work on tables of their own, so that the test proves the trap is still there to fall into.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

import interlock
from interlock.core.claims import Claim
from interlock.core.commands import TakeBack
from interlock.core.model import SPEC_FIELDS, ItemId, NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.port import Load
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.faults import racers
from tests.faults.failpoints import wait_for_lock_waiters
from tests.faults.processes import Crew, wait_until
from tests.faults.stores import assert_kept, open_service, query
from tests.integration.postgres_costs import Costs, watched_service

SOURCES = Path(interlock.__file__).parent
LANE = "issue:acme/app#1"


class Session:
    """A client of the naive kind."""

    def __init__(self, url: str) -> None:
        self.conn = psycopg.connect(url, autocommit=True)

    def run(self, *statements: str) -> Any:
        """Run statements; the number of rows the last one touched, or its first value."""
        cursor = None
        for statement in statements:
            cursor = self.conn.execute(statement.encode())
        assert cursor is not None
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else cursor.rowcount


@pytest.fixture
def sessions(pg_url: str) -> Iterator[tuple[Session, Session]]:
    pair = Session(pg_url), Session(pg_url)
    yield pair
    for session in pair:
        session.conn.close()


@pytest.fixture
def service(pg_url: str) -> Iterator[LocalService]:
    service = open_service(pg_url)
    yield service
    service.close()


@pytest.fixture
def later() -> Iterator[Callable[..., Future[Any]]]:
    """Run something that will have to wait, in a thread."""
    threads = ThreadPoolExecutor(8)
    yield threads.submit
    threads.shutdown(wait=False)  # after a failure they wait for locks that are freed only later


class Held:
    """A row that somebody keeps locked until the test lets go."""

    def __init__(self, url: str, statement: str) -> None:
        self._conn = psycopg.connect(url)
        assert self._conn.execute(statement.encode()).rowcount == 1

    def __enter__(self) -> Held:
        return self

    def let_go(self) -> None:
        self._conn.commit()

    def __exit__(self, *_: object) -> None:
        self._conn.close()


def hold_lane(url: str, lane: str = LANE) -> Held:
    return Held(url, f"SELECT 1 FROM interlock.lanes WHERE lane = '{lane}' FOR UPDATE")


def hold_agent(url: str, agent: str) -> Held:
    return Held(url, f"SELECT 1 FROM interlock.agents WHERE key = '{agent}' FOR UPDATE")


def hold_item(url: str, item: int) -> Held:
    return Held(url, f"SELECT 1 FROM interlock.items WHERE id = {item} FOR UPDATE")


def free_lane(service: LocalService) -> None:
    """Make a lane that exists and is free."""
    service.add([NewItem(title="first", lane=LANE)])
    service.done([Report(run=service.next("first")[0].run)])


def arrive_at_once(service: LocalService, url: str, later: Callable[..., Future[Any]]) -> list[str]:
    """Two arrivals that both wait for the lane's row, then go on one after the other."""
    with hold_lane(url) as held:
        adds = [later(service.add, [NewItem(title=f"arrival {n}", lane=LANE)]) for n in range(2)]
        wait_for_lock_waiters(url, 2)
        held.let_go()
        return sorted(add.result()[0].decision for add in adds)


def test_p1_two_that_waited_for_a_lane_do_not_both_find_it_free(
    service: LocalService,
    pg_url: str,
    sessions: tuple[Session, Session],
    later: Callable[..., Future[Any]],
) -> None:
    """Naive: one statement that locks a row and looks for a rival in a subquery. After the wait only the
    row is read again."""
    one, two = sessions
    one.run("CREATE TABLE lane (id int)", "CREATE TABLE run (id serial)", "INSERT INTO lane VALUES (1)")
    take = "UPDATE lane SET id = id WHERE id = 1 AND NOT EXISTS (SELECT 1 FROM run)"
    one.run("BEGIN", take, "INSERT INTO run DEFAULT VALUES")
    waiting = later(two.run, take)
    wait_for_lock_waiters(pg_url)
    one.run("COMMIT")
    assert waiting.result() == 1, "the second found no run although there is one: the trap"

    free_lane(service)
    assert arrive_at_once(service, pg_url, later) == ["admitted", "queued"]
    assert_kept(pg_url)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_p2_a_stricter_default_isolation_does_not_let_two_in(
    pg_url: str, sessions: tuple[Session, Session], later: Callable[..., Future[Any]], level: str
) -> None:
    """Naive: lock a row under REPEATABLE READ, then count. The lock changes nothing, so nothing fails, and
    the count is as old as the transaction. Ours says READ COMMITTED itself, whatever the database prefers."""
    one, two = sessions
    one.run("CREATE TABLE lane (id int)", "CREATE TABLE run (id serial)", "INSERT INTO lane VALUES (1)")
    one.run("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT id FROM lane FOR UPDATE")
    two.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    waiting = later(two.run, "SELECT id FROM lane FOR UPDATE")
    wait_for_lock_waiters(pg_url)
    one.run("INSERT INTO run DEFAULT VALUES", "COMMIT")
    assert waiting.result() == 1
    assert two.run("SELECT count(*) FROM run") == 0, "the second counts none although there is one: the trap"
    two.run("ROLLBACK")

    name = one.run("SELECT current_database()")
    one.run(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = '{level}'")
    service = open_service(pg_url)
    free_lane(service)
    assert arrive_at_once(service, pg_url, later) == ["admitted", "queued"]
    service.set_agent("coder", max_concurrency=1)
    service.add([NewItem(title=f"item {n}", agent="coder") for n in range(2)])
    with hold_agent(pg_url, "coder") as held:
        claims = [later(service.next, "coder") for _ in range(2)]
        wait_for_lock_waiters(pg_url, 2)
        held.let_go()
        leases = [lease for claim in claims for lease in claim.result()]
    assert len(leases) == 1
    with Held(pg_url, f"UPDATE interlock.items SET title = title WHERE id = {leases[0].item.id}") as held:
        renewal = later(service.renew, [Report(run=leases[0].run)])
        wait_for_lock_waiters(pg_url)
        held.let_go()
    assert renewal.result()[0].status == "running", "a row that changed meanwhile is no reason to fail"
    service.close()
    assert_kept(pg_url)


PLANS = {
    "nested loops": ["enable_hashjoin", "enable_mergejoin", "enable_material", "enable_memoize"],
    "hash joins": ["enable_nestloop", "enable_mergejoin", "enable_indexscan", "enable_bitmapscan"],
    "merge joins": ["enable_nestloop", "enable_hashjoin", "enable_indexonlyscan"],
    "sequential scans": ["enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan", "enable_hashagg"],
}


@pytest.mark.parametrize("plan", PLANS)
def test_p3_a_limit_is_a_limit_under_every_plan(
    pg_url: str, sessions: tuple[Session, Session], plan: str
) -> None:
    """Naive: `id IN (SELECT … LIMIT 1 FOR UPDATE SKIP LOCKED)`. As the inner side of a nested loop it runs
    once a row, and each time finds another."""
    one, _ = sessions
    if plan == "nested loops":
        one.run("CREATE TABLE job (id int, taken bool)")
        one.run("INSERT INTO job SELECT n, false FROM generate_series(1, 100) n", "ANALYZE job")
        one.run(*(f"SET {name} = off" for name in (*PLANS[plan], "enable_hashagg", "enable_sort")))
        naive = (
            "UPDATE job SET taken = true WHERE id IN"
            " (SELECT id FROM job WHERE NOT taken LIMIT 1 FOR UPDATE SKIP LOCKED)"
        )
        assert one.run(naive) > 1, "more than one was taken: the trap"

    store = PostgresStore(Database(pg_url, max_connections=1))
    service = LocalService(store)
    service.add([NewItem(title=f"item {n}", agent="coder" if n % 2 else "") for n in range(100)])
    with store.database.pool.connection() as conn:
        for name in PLANS[plan]:
            conn.execute(f"SET {name} = off".encode())
    for analysed in (False, True):
        if analysed:
            one.run("ANALYZE interlock.items")
        for limit in (1, 1, 3, 10):
            assert len(service.next("coder", limit=limit)) == limit
    assert query(pg_url, "SELECT count(*) FROM items WHERE status = 'in_progress'") == [(30,)]
    service.close()
    assert_kept(pg_url)


def test_p4_a_claim_passes_over_what_is_locked_and_takes_the_next(
    service: LocalService,
    pg_url: str,
    sessions: tuple[Session, Session],
    later: Callable[..., Future[Any]],
) -> None:
    """Naive: `WHERE id = (SELECT … LIMIT 1)` without a lock. Two wait for the same row: taken twice, or, if
    the state is tested again, a false "the queue is empty"."""
    one, two = sessions
    one.run("CREATE TABLE job (id int, taken bool)", "INSERT INTO job VALUES (1, false), (2, false)")
    first = "(SELECT id FROM job WHERE NOT taken ORDER BY id LIMIT 1)"
    for condition, found in (("", 1), ("AND NOT taken", 0)):
        take = f"UPDATE job SET taken = true WHERE id = {first} {condition} RETURNING id"
        one.run("UPDATE job SET taken = false", "BEGIN")
        assert one.run(take) == 1
        waiting = later(two.run, take)
        wait_for_lock_waiters(pg_url)
        one.run("COMMIT")
        assert waiting.result() == found, "job 1 again, or nothing although job 2 is free: the trap"

    first_item, second_item = (v.item.id for v in service.add([NewItem(title="x")] * 2) if v.item)
    with hold_item(pg_url, first_item):
        assert [lease.item.id for lease in service.next("coder")] == [second_item]
        assert service.next("coder") == [], "it never waits"
        waiting = later(service.next, "coder", wait_s=30)
    assert [lease.item.id for lease in waiting.result()] == [first_item], "and it forgets nothing"
    assert_kept(pg_url)


def test_p5_what_a_claim_sorts_by_never_changes(
    pg_url: str, sessions: tuple[Session, Session], later: Callable[..., Future[Any]]
) -> None:
    """Naive: `ORDER BY priority LIMIT 1 FOR UPDATE` while a priority changes gives a row by its old place.
    Ours has nothing to change: of what an item was asked to be, only its attempts are ever written again, and
    its time of arrival if a clock was ahead then, by which nobody sorts. An edit of a plan changes more, but
    only of a task that has not started and that it has locked: a claim at the same moment passes it over, or
    starts it at its old place."""
    one, two = sessions
    one.run("CREATE TABLE job (id int, priority int)", "INSERT INTO job VALUES (1, 9), (2, 5)")
    one.run("BEGIN", "UPDATE job SET priority = 0 WHERE id = 1")
    waiting = later(two.run, "SELECT priority FROM job ORDER BY priority DESC LIMIT 1 FOR UPDATE")
    wait_for_lock_waiters(pg_url)
    one.run("COMMIT")
    assert waiting.result() == 0, "the first by priority has priority 0: the trap"

    fixed = set(SPEC_FIELDS) - {"max_attempts", "created_us"}
    texts = {f: f.read_text() for f in (SOURCES / "store").rglob("*.sql")}
    edits = ("update_spec.sql", "update_specs.sql")
    writes = {
        f: t
        for f, t in texts.items()
        if f.name not in edits and re.search(r"UPDATE\s+(interlock\.)?items", t)
    }
    assert len(writes) >= 6, "claim, renew and update of both stores"
    for file, text in writes.items():
        for changes in re.findall(
            r"UPDATE\s+(?:interlock\.)?items.*?SET(.*?)(?:\bFROM\b|\bWHERE\b)", text, re.S
        ):
            assert not {c for c in fixed if re.search(rf"(?<![.\w]){c}\s*=", changes)}, file.name


def test_p6_a_lease_that_had_to_wait_for_a_lock_is_not_born_expired(
    service: LocalService,
    pg_url: str,
    sessions: tuple[Session, Session],
    later: Callable[..., Future[Any]],
) -> None:
    """Naive: a deadline from `now()`, which is the start of the transaction."""
    one, two = sessions
    one.run("CREATE TABLE lease (until timestamptz)", "INSERT INTO lease VALUES (now())")
    service.set_agent("coder", max_concurrency=5)
    service.add([NewItem(title="item", agent="coder", lane=LANE)])
    with hold_agent(pg_url, "coder") as agent, Held(pg_url, "SELECT 1 FROM public.lease FOR UPDATE") as row:
        naive = later(two.run, "UPDATE lease SET until = now() + interval '1 s'")
        claim = later(service.next, "coder")
        wait_for_lock_waiters(pg_url, 2)
        time.sleep(1.1)  # longer than the lease: this is the wait the trap needs
        row.let_go()
        agent.let_go()
        naive.result()
        assert one.run("SELECT until <= clock_timestamp() FROM lease"), "born expired: the trap"
        lease = claim.result()[0]
    assert _left_s(service, lease.expires_at) > 0.5
    assert service.sweep().expired == 0

    with hold_item(pg_url, lease.item.id) as item:
        renewal = later(service.renew, [Report(run=lease.run)])
        wait_for_lock_waiters(pg_url)
        time.sleep(1.1)
        item.let_go()
        view = renewal.result()[0]
    assert view.refusal is None
    assert _left_s(service, view.expires_at) > 0.5, "the clock of a renewal is read after its wait"

    with hold_lane(pg_url) as lane:
        fail = later(service.fail, [Report(run=lease.run)])
        wait_for_lock_waiters(pg_url)
        time.sleep(0.3)
        held_until_us = service.store.now_us()
        lane.let_go()
        fail.result()
    ended = query(pg_url, "SELECT ended_us FROM runs")
    assert ended[0][0] >= held_until_us, "and so is the clock of an ending"
    assert_kept(pg_url)


def _left_s(service: LocalService, until: Any) -> float:
    return float(until.timestamp() - service.store.now_us() / 1e6)


def test_p7_what_a_killed_client_was_waiting_for_is_not_committed_later(
    crew: Crew, service: LocalService, pg_url: str, sessions: tuple[Session, Session]
) -> None:
    """Naive: an autocommit statement that waits for a lock. Its client dies, and the server commits it all
    the same when the lock comes free."""
    one, _ = sessions
    one.run("CREATE TABLE lease (holder text)", "INSERT INTO lease VALUES ('nobody')")
    service.add([NewItem(title="item", lane=LANE)])
    lease = service.next("coder", lease_s=60)[0]
    before = query(pg_url, "SELECT lease_until_us FROM items")
    with (
        hold_item(pg_url, lease.item.id) as item,
        Held(pg_url, "SELECT 1 FROM public.lease FOR UPDATE") as row,
    ):
        take = "UPDATE public.lease SET holder = 'a dead client'"
        naive = crew.start(racers.execute, pg_url, take)
        renewal = crew.start(racers.renew, pg_url, lease.run)
        wait_for_lock_waiters(pg_url, 2)
        naive.kill()
        renewal.kill()
        wait_for_lock_waiters(pg_url, 1)  # the server noticed one of the two
        item.let_go()
        row.let_go()
        wait_for_lock_waiters(pg_url, 0)
    wait_until(lambda: one.run("SELECT holder FROM lease") != "nobody", "the dead client's write: the trap")
    assert query(pg_url, "SELECT lease_until_us FROM items") == before
    assert service.renew([Report(run=lease.run)])[0].refusal is None


@pytest.mark.parametrize("stage", ["locked", "sent"])
def test_p8_an_owner_stopped_inside_a_transaction_blocks_nobody_for_ever(
    crew: Crew, service: LocalService, pg_url: str, stage: str
) -> None:
    """A process is stopped while it has a lane locked. The server ends its session; the next one gets the
    lane, and the stopped one, when it goes on, does its work over again instead of failing. In the middle of
    a pipeline (`sent`) it looks busy to the server: there `transaction_timeout` ends it.

    Taken out: `transaction_timeout`; on PostgreSQL 18 whoever waits behind `sent` gives up after its lock
    timeout.
    """
    settings = session_settings(service)
    assert settings["idle_in_transaction_session_timeout"] < settings["lock_timeout"], (
        "whoever waits must outlast the patience with whoever is stopped"
    )
    assert all(settings.values()), "each of them is set"
    free_lane(service)
    stopped = crew.start(racers.add_slowly, pg_url, LANE, "1s", stage)
    assert stopped.hear() == "inside"
    stopped.stop()
    begun_s = time.monotonic()
    assert service.add([NewItem(title="not stopped", lane=LANE)])[0].decision == "admitted"
    assert time.monotonic() - begun_s > 0.1, "nobody had the lane locked: this test proves nothing"
    stopped.tell()
    stopped.go_on()
    assert stopped.join() == "queued"
    assert_kept(pg_url)


def session_settings(service: LocalService) -> dict[str, int]:
    """What the store's own sessions are set to, in milliseconds."""
    names = ["idle_in_transaction_session_timeout", "lock_timeout", "client_connection_check_interval"]
    store: Any = service.store
    with store.database.pool.connection() as conn:
        rows = conn.execute("SELECT name, setting::int FROM pg_settings WHERE name = ANY($1)", (names,))
        return dict(rows.fetchall())


def test_p9_no_lock_outlives_its_transaction(
    service: LocalService, pg_url: str, sessions: tuple[Session, Session]
) -> None:
    """Naive: a session's advisory lock. Behind a transaction pooler two clients share the session, and so
    both have the lock, and it stays when they are gone. Ours has none, so it needs no session."""
    one, two = sessions
    assert one.run("SELECT pg_try_advisory_lock(1)") is True
    assert one.run("SELECT pg_try_advisory_lock(1)") is True, "two clients of one session: the trap"
    assert two.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted") >= 1

    sources = {f: f.read_text() for f in SOURCES.rglob("*") if f.suffix in (".py", ".sql")}
    taken = {f.name for f, t in sources.items() if re.search(r"pg_(try_)?advisory_lock", t)}
    assert not taken, f"session advisory locks in {taken}"
    free_lane(service)
    service.set_agent("coder", max_concurrency=2)
    service.add([NewItem(title=f"item {n}", lane=LANE, dedupe_key=f"k{n}") for n in range(3)])
    service.done([Report(run=service.next("coder")[0].run)])
    service.sweep()
    held = query(
        pg_url,
        "SELECT l.locktype, l.mode FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
        " WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()"
        f" AND l.locktype <> 'virtualxid' AND a.pid <> {one.conn.info.backend_pid}",
    )
    assert held == [], "an idle session of the store holds nothing"


def test_p10_claims_touch_no_more_under_an_old_snapshot_and_without_statistics(pg_database18: str) -> None:
    """6,000 items come and go while somebody's old snapshot keeps every dead row, and nobody gathers
    statistics. More of them, and more kinds of claims: `tests/integration/test_churn.py`.

    Taken out: the indexes of ready items and of statuses; the claim then reads every row there ever was. Or
    the front: it touches 249 buffers instead of 44.
    """
    url, costs = pg_database18, Costs()
    service = watched_service(url, costs)
    claims: Any = service.store.claims  # type: ignore[attr-defined]
    # No claim is too quick to remember where it found work.
    claims.scan_starts.slow_us, claims.scan_starts.clock = 0, lambda: 0.0
    query(url, "ALTER TABLE items SET (autovacuum_enabled = off)")
    churn(service, 1_000)
    before = claim_buffers(service, costs)
    with psycopg.connect(url) as pin:
        pin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        pin.execute("SELECT 1")  # a snapshot from now on, and no lock on anything
        churn(service, 6_000)
        after = claim_buffers(service, costs)
        query(url, "DROP INDEX items_ready; DROP INDEX items_status")
        bare = claim_buffers(service, costs)
    service.close()
    assert after <= 2 * before, f"a claim touched {before} buffers, now {after}"
    assert bare > 2 * after, "a claim without its index touches as little: this test proves nothing"


def churn(service: LocalService, count: int) -> None:
    for _ in range(count // 1_000):
        service.add([NewItem(title="work") for _ in range(1_000)])
        for _ in range(2):
            leases = service.next("coder", limit=500)
            assert len(leases) == 500
            service.done([Report(run=lease.run) for lease in leases])


def claim_buffers(service: LocalService, costs: Costs) -> int:
    """What most claims of one item touch."""
    service.add([NewItem(title="work") for _ in range(11)])
    touched = []
    for _ in range(11):
        costs.touched.clear()
        with costs.watched():
            assert len(service.store.claim(Claim(agent="coder"), due_first=True).claimed) == 1
        touched.append(costs.touched["claim"])
    return statistics.median_low(touched)


def test_p11_the_takeover_itself_raises_the_fence(
    crew: Crew, service: LocalService, pg_url: str, sessions: tuple[Session, Session]
) -> None:
    """Naive: the resource accepts any token not below the highest it has seen. A zombie that writes before
    the new owner's first write is accepted. Ours compares with the run that holds the item *now*."""
    one, _ = sessions
    one.run("CREATE TABLE resource (highest int, writer int)", "INSERT INTO resource VALUES (1, 1)")
    write = "UPDATE resource SET highest = {0}, writer = {0} WHERE {0} >= highest"
    assert one.run(write.format(1)) == 1, "run 2 has taken over, but run 1 writes first: the trap"

    service.add([NewItem(title="item", lane=LANE)])
    zombie = service.next("zombie")[0]
    wait_until(lambda: service.sweep().expired, "the lease is over")
    owner = service.next("owner", lease_s=60)[0]
    row = query(pg_url, "SELECT * FROM items")
    for word in ("renew", "done", "fail", "release"):
        view = getattr(service, word)([Report(run=zombie.run, seen=1)])[0]
        assert view.refusal is not None, word
        assert query(pg_url, "SELECT * FROM items") == row, f"a refused {word} changed the item"
    assert service.done([Report(run=owner.run)])[0].refusal is None
    assert_kept(pg_url)


@pytest.mark.parametrize("word", ["done", "renew"])
def test_p12_a_write_that_waits_for_a_takeover_is_refused_after_it(
    service: LocalService,
    pg_url: str,
    sessions: tuple[Session, Session],
    later: Callable[..., Future[Any]],
    word: str,
) -> None:
    """Naive: `… AND EXISTS (SELECT 1 FROM lease WHERE token = …)` without locking the lease. It reads the
    lease as it was before its wait. Ours locks the row that says who holds the item, and reads it then."""
    one, two = sessions
    one.run("CREATE TABLE lease (token int)", "INSERT INTO lease VALUES (1)")
    one.run("CREATE TABLE work (writer int)", "INSERT INTO work VALUES (0)")
    one.run("BEGIN", "UPDATE lease SET token = 2", "UPDATE work SET writer = 2")
    naive = "UPDATE work SET writer = 1 WHERE EXISTS (SELECT 1 FROM lease WHERE token = 1)"
    waiting = later(two.run, naive)
    wait_for_lock_waiters(pg_url)
    one.run("COMMIT")
    assert waiting.result() == 1, "accepted after the takeover: the trap"

    service.add([NewItem(title="item", lane=LANE), NewItem(title="next", lane=LANE)])
    lease = service.next("zombie", lease_s=60)[0]
    take_back = TakeBack(item=ItemId(lease.item.id), why="an operator")
    late: list[Future[Any]] = []

    def build(_: object) -> list[TakeBack]:
        late.append(later(getattr(service, word), [Report(run=lease.run)]))
        wait_for_lock_waiters(pg_url)
        return [take_back]

    service.store.transact(Load(items=(take_back.item,)), build)
    view = late[0].result()[0]
    assert view.refusal is not None
    assert view.refusal.code == "lease_lost"
    assert query(pg_url, f"SELECT status, run FROM items WHERE id = {lease.item.id}") == [("pending", None)]
    assert_kept(pg_url)


def test_p13_a_message_that_came_while_the_end_waited_is_not_overlooked(
    sessions: tuple[Session, Session], service: LocalService, pg_url: str, later: Callable[..., Future[Any]]
) -> None:
    """A statement that waited for a row sees the row's new version, and nothing else that is newer than the
    statement. Taken out: the second look in `_unread`; nothing follows up, and the message stays unread with
    the item that ended."""
    naive, writer = sessions
    naive.run("CREATE TABLE counted (id int, n int)", "CREATE TABLE each_one (id int)")
    naive.run("INSERT INTO counted VALUES (1, 0)")
    writer.run("BEGIN", "UPDATE counted SET n = n + 1", "INSERT INTO each_one VALUES (1)")
    look = (
        "WITH locked AS MATERIALIZED (SELECT * FROM counted FOR UPDATE)"
        " SELECT n - (SELECT count(*) FROM each_one) FROM locked"
    )
    looked = later(naive.run, look)
    wait_for_lock_waiters(pg_url)
    writer.run("COMMIT")
    assert looked.result() == 1, "the trap is gone: it counts one and sees none"

    added = service.add([NewItem(title="no lane")])[0].item
    assert added is not None
    lease = service.next("coder")[0]
    writer.run("BEGIN", f"SELECT 1 FROM interlock.items WHERE id = {added.id} FOR UPDATE")
    told = later(service.msg, added.id, "one more thing", author="anna")
    wait_for_lock_waiters(pg_url)
    ended = later(service.done, [Report(run=lease.run)])
    wait_for_lock_waiters(pg_url, 2)
    writer.run("COMMIT")
    told.result()
    follow_up = ended.result()[0].follow_up
    assert query(pg_url, "SELECT item, text FROM messages") == [(follow_up, "one more thing")]
    assert_kept(pg_url)
