"""The answer to a commit is lost. Whether the commit was lost too, nothing is doubled and nothing missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from interlock.core.model import NewItem
from interlock.service.contract import NextWish, Report
from interlock.service.item_view import moment as at
from interlock.service.local import LocalService
from interlock.service.operations import ROOT
from interlock.store.access import RepeatableRequest
from tests.faults.failpoints import COMMIT, MOMENTS, Moment, Proxy
from tests.faults.processes import wait_until
from tests.faults.stores import assert_kept, open_service, query, read_log
from tests.http.requests import ask
from tests.http.serving import Serving
from tests.postgres_fixtures import StartPostgres
from tests.postgres_server import PostgresServer


@pytest.fixture
def service(proxy: Proxy) -> Iterator[LocalService]:
    service = open_service(proxy.url)
    yield service
    service.close()


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_arrival_is_added_once(service: LocalService, proxy: Proxy, pg_url: str, moment: Moment) -> None:
    """Taken out: `_was_committed`, always false: two items. Always true: none."""
    service.add([NewItem(title="earlier")])  # the first number of a store has a commit of its own
    proxy.lose(COMMIT, moment)
    view = service.add([NewItem(title="once", lane="issue:acme/app#1", message="hello")])[0]
    assert proxy.sprung.is_set()
    assert view.decision == "admitted"
    assert view.item is not None
    assert query(pg_url, "SELECT id, status FROM items WHERE lane IS NOT NULL") == [(view.item.id, "pending")]
    assert query(pg_url, "SELECT count(*) FROM messages") == [(1,)]
    assert_kept(pg_url, added=(view.item.id,))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("word", ["done", "fail", "release"])
def test_a_run_ends_once_and_hands_its_lane_on_once(
    service: LocalService, proxy: Proxy, pg_url: str, moment: Moment, word: str
) -> None:
    service.add([NewItem(title=f"item {n}", lane="issue:acme/app#1") for n in range(3)])
    lease = service.next("coder", lease_s=60)[0]
    proxy.lose(COMMIT, moment)
    view = getattr(service, word)([Report(run=lease.run)])[0]
    assert proxy.sprung.is_set()
    assert view.refusal is None, "the end of a run is not refused for having been accepted already"
    ends = [line for line in read_log(pg_url) if line.run == lease.fence and line.kind != "run.started"]
    assert len([line for line in ends if line.kind.startswith("run.")]) == 1
    promoted = [line for line in ends if line.kind == "lane.promoted"]
    assert len(promoted) == (0 if word == "release" else 1)
    attempts = {"done": 1, "fail": 1, "release": 0}
    assert query(pg_url, f"SELECT attempt FROM items WHERE id = {lease.item.id}") == [(attempts[word],)]
    done = ((lease.fence, lease.item.id),) if word == "done" else ()
    assert_kept(pg_url, done=done)


@pytest.mark.parametrize("limited", [False, True], ids=["plain", "limited"])
@pytest.mark.parametrize("keyed", [False, True], ids=["", "with a key"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_end_with_a_claim_happens_once_and_its_lease_arrives(
    service: LocalService, proxy: Proxy, pg_url: str, moment: Moment, keyed: bool, limited: bool
) -> None:
    """Taken out: `recall`; the end is answered, and its claim is nobody's until the lease is over."""
    if limited:
        service.set_agent("coder", max_concurrency=1)
    service.add([NewItem(title=f"item {n}", lane="issue:acme/app#1", payload='{"n": 1}') for n in range(3)])
    lease, wish = service.next("coder", lease_s=60)[0], NextWish("coder", lease_s=60)
    key = RepeatableRequest("key", "asked")
    proxy.lose(COMMIT, moment)
    found = (service.answering(key) if keyed else service).done([Report(run=lease.run)], next=wish)
    assert proxy.sprung.is_set()
    assert found.runs[0].refusal is None
    (got,) = found.leases
    assert got.item.payload == {"n": 1}
    started = [line.item for line in read_log(pg_url) if line.kind == "run.started"]
    assert started == [lease.item.id, got.item.id]
    if keyed:
        kept = service.answered(key)
        assert [run["status"] for run in kept["runs"]] == ["succeeded"]
        assert [again.run for again in service.claimed(kept["claimed"])] == [got.run]
    assert service.done([Report(run=got.run)])[0].refusal is None
    assert_kept(pg_url, done=((lease.fence, lease.item.id), (got.fence, got.item.id)))


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_database_that_crashes_at_the_commit_of_an_end_with_a_claim_has_both_or_neither(
    start_postgres: StartPostgres, directory: Path, moment: Moment
) -> None:
    server = start_postgres(18)
    url = server.create_database("crashing")
    proxy = Proxy(url, directory)
    service = open_service(proxy.url)
    service.add([NewItem(title=f"item {n}", lane="issue:acme/app#1") for n in range(2)])
    lease = service.next("coder", lease_s=60)[0]
    proxy.lose(COMMIT, moment, lambda: _crash(server))
    found = service.done([Report(run=lease.run)], next=NextWish("coder", lease_s=60))
    assert proxy.sprung.is_set()
    (got,) = found.leases
    assert service.done([Report(run=got.run)])[0].refusal is None
    assert_kept(url, done=((lease.fence, lease.item.id), (got.fence, got.item.id)))
    service.close()
    proxy.close()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kept", [False, True], ids=["by itself", "with its answer"])
def test_a_run_that_ends_in_one_statement_ends_once(
    service: LocalService, proxy: Proxy, pg_url: str, moment: Moment, kept: bool
) -> None:
    """Taken out: `_ended_before`: the second attempt refuses what the first one wrote."""
    service.add([NewItem(title=f"item {n}") for n in range(3)])
    leases = service.next("coder", lease_s=60, limit=3)
    proxy.lose(COMMIT if kept else b"known.place", moment)
    ending = service.answering(RepeatableRequest(key="once", asked="done")) if kept else service
    views = ending.done([Report(run=lease.run, result='"merged"') for lease in leases])
    assert proxy.sprung.is_set()
    assert [view.refusal for view in views] == [None] * 3
    assert [line.kind for line in read_log(pg_url)].count("run.succeeded") == 3
    assert query(pg_url, "SELECT count(*) FROM requests") == [(kept,)]
    recorded = query(pg_url, "SELECT DISTINCT ended_us FROM runs UNION SELECT DISTINCT ended_us FROM items")
    assert [(at(at_us),) for (at_us,) in recorded] == [(views[0].item and views[0].item.ended_at,)]
    assert_kept(pg_url, done=tuple((lease.fence, lease.item.id) for lease in leases))


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_claim_whose_answer_was_lost_is_offered_again_and_never_runs_twice_at_once(
    service: LocalService, proxy: Proxy, pg_url: str, moment: Moment
) -> None:
    """Nobody was told of the lost run, so nobody works on it: its lease runs out."""
    service.add([NewItem(title="the only one", lane="issue:acme/app#1")])
    proxy.lose(b"nextval('interlock.run_numbers')", moment)
    leases = service.next("coder")
    assert proxy.sprung.is_set()
    if moment == "never forwarded":
        assert len(leases) == 1
    else:
        assert not leases, "the first claim holds the item until its lease is over"
        leases = wait_until(lambda: service.next("coder"), "the item is offered again")
        assert [line.kind for line in read_log(pg_url) if line.run == leases[0].fence - 1] == [
            "run.started",
            "run.lost",
        ]
    assert service.done([Report(run=leases[0].run)])[0].refusal is None
    assert_kept(pg_url, done=((leases[0].fence, leases[0].item.id),))


@pytest.mark.parametrize("limited", [False, True], ids=["plain", "limited"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_claim_with_a_key_gets_its_lease_from_a_server(
    proxy: Proxy, pg_url: str, moment: Moment, limited: bool
) -> None:
    """Taken out: `ClaimRequests._kept`; the second attempt finds no work, and the lease is nobody's."""
    service = open_service(proxy.url)
    if limited:
        service.set_agent("coder", max_concurrency=1)
    service.add([NewItem(title="the only one")])
    service.next("coder", types=["none"])  # the limits of the agent are known
    serving = Serving(service)
    try:
        proxy.lose(COMMIT, moment)
        token, body = serving.token(), {"agent": "coder", "lease_s": 60}
        headers = {"Idempotency-Key": "once"}
        answers = [
            ask(serving.url, "POST", f"{ROOT}/claims", body, token=token, headers=headers) for _ in range(2)
        ]
        assert proxy.sprung.is_set()
        runs = [[lease["fence"] for lease in answer.json["leases"]] for answer in answers]
        started = [line.run for line in read_log(pg_url) if line.kind == "run.started"]
        assert runs == [started, started]
        assert len(started) == 1
    finally:
        serving.stop()
        service.close()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_database_that_crashes_in_the_middle_of_a_claim_gives_the_item_once(
    start_postgres: StartPostgres, directory: Path, moment: Moment
) -> None:
    """Whether the claim was committed before the crash or not, nobody has to come and help."""
    server = start_postgres(18)
    url = server.create_database("crashing")
    proxy = Proxy(url, directory)
    service = open_service(proxy.url)
    item = service.add([NewItem(title="the only one", lane="issue:acme/app#1")])[0].item
    proxy.lose(b"nextval('interlock.run_numbers')", moment, lambda: _crash(server))
    leases = service.next("coder") or wait_until(lambda: service.next("coder"), "the item is offered again")
    assert proxy.sprung.is_set()
    assert len(leases) == 1
    assert service.done([Report(run=leases[0].run)])[0].refusal is None
    assert item is not None
    assert_kept(url, added=(item.id,), done=((leases[0].fence, item.id),))
    service.close()
    proxy.close()


@pytest.mark.parametrize("version", [16, 18])
@pytest.mark.parametrize("reused", [True, False], ids=["number reused", "number forgotten"])
def test_an_arrival_lost_in_a_crash_is_added_again_although_its_number_was_given_to_another(
    start_postgres: StartPostgres, directory: Path, version: int, reused: bool
) -> None:
    """Transaction numbers are not durable: after a crash another transaction can commit under the number of
    the lost one, and the server then says "committed" of both.

    Taken out: the look for the transaction's own first line (`wrote_line.sql`); the arrival is then
    acknowledged and gone.
    """
    # Nothing may write the log ahead of a commit, or the number becomes durable by chance.
    quiet = {"wal_writer_delay": "10s", "autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0"}
    server = start_postgres(version, settings=quiet)
    url = server.create_database("crashing")
    proxy = Proxy(url, directory)
    service = open_service(proxy.url)
    service.add([NewItem(title="earlier")])  # the first number of a store has a commit of its own
    lost: list[int] = []

    def crash() -> None:
        lost.extend(_open_transactions(url))
        _crash(server)
        if reused:
            while max(_take_number(url)) < lost[0]:
                pass

    proxy.lose(COMMIT, "never forwarded", crash)
    query(url, "SELECT pg_switch_wal()")  # a page of the log that the arrival does not fill
    view = service.add([NewItem(title="once")])[0]
    assert proxy.sprung.is_set()
    assert len(lost) == 1
    fate = query(url, f"SELECT pg_xact_status('{lost[0]}')")
    assert fate == [("committed",)], "the server no longer reuses numbers: this test proves nothing"
    assert view.item is not None
    assert query(url, "SELECT id, status FROM items WHERE title = 'once'") == [(view.item.id, "pending")]
    assert_kept(url, added=(view.item.id,))
    service.close()
    proxy.close()


def _crash(server: PostgresServer) -> None:
    server.stop("immediate")
    server.start()


def _open_transactions(url: str) -> list[int]:
    with psycopg.connect(url, autocommit=True) as conn:
        rows = conn.execute(
            "SELECT backend_xid::text::bigint FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
        ).fetchall()
    return [xid for (xid,) in rows]


def _take_number(url: str) -> list[int]:
    with psycopg.connect(url, autocommit=True) as conn:
        row = conn.execute(
            "INSERT INTO interlock.meta VALUES (gen_random_uuid(), '')"
            " RETURNING pg_current_xact_id()::text::bigint"
        ).fetchone()
    assert row is not None
    return [row[0]]
