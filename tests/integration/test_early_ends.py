"""Ends of runs in one statement, decided from what the process knows of their items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from interlock.core.ledger import LedgerChanges
from interlock.core.model import NewItem
from interlock.service.contract import LeaseView, Report, RunView
from interlock.service.local import LocalService
from interlock.store.access import RepeatableRequest
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.clock import Clock
from tests.faults.failpoints import wait_for_lock_waiters
from tests.faults.stores import query

LANE = "issue:acme/app#1"
#: All rows that a finish may write, but for what differs from store to store: bits, and numbers of events.
ROWS = (
    "SELECT to_jsonb(i) - 'run_bits' FROM items i ORDER BY id",
    "SELECT to_jsonb(r) - 'bits' FROM runs r ORDER BY run",
    "SELECT to_jsonb(e) - 'seq' FROM events e ORDER BY seq",
    "SELECT status, priority, sum(n) FROM tallied GROUP BY 1, 2 HAVING sum(n) <> 0 ORDER BY 1, 2",
    "SELECT to_jsonb(b) FROM blocks b ORDER BY item",
)


class Desk:
    """A worker on a store, and an operator who works on it from another process."""

    def __init__(self, url: str, *, clock: Clock | None = None, forgets: bool = False) -> None:
        self.url = url
        self.store, elsewhere = (PostgresStore(Database(url, now=clock)) for _ in range(2))
        self.worker, self.operator = LocalService(self.store), LocalService(elsewhere)
        self.early: list[bool] = []
        self.leases: list[LeaseView] = []
        ends: Any = self.store.transactions.early_ends
        if forgets:
            ends.remember = lambda _: None
        end = ends.end

        def noted(*args: Any) -> LedgerChanges | None:
            decision: LedgerChanges | None = end(*args)
            self.early.append(decision is not None)
            return decision

        ends.end = noted

    def claimed(self, **fields: Any) -> LeaseView:
        self.worker.add([NewItem(title="work", **fields)])
        return self.worker.next("coder", lease_s=60)[0]

    def done(self, *leases: LeaseView, **said: Any) -> list[RunView]:
        return self.worker.done([Report(run=lease.run, **said) for lease in leases])

    def done_with(self, company: Sequence[LeaseView], lease: LeaseView) -> RunView:
        """End a run, with others in one batch."""
        return self.done(lease, *company)[0]

    def close(self) -> None:
        self.worker.close()
        self.operator.close()


@pytest.fixture
def desk(pg_database18: str) -> Iterator[Desk]:
    desk = Desk(pg_database18)
    yield desk
    desk.close()


@pytest.fixture(params=["alone", "in a batch"])
def company(request: pytest.FixtureRequest, desk: Desk) -> list[LeaseView]:
    """Runs that end with the one that a test is about: alone it is ended by a statement of its own."""
    return [desk.claimed()] if request.param == "in a batch" else []


# -- what falls to the early end, and what does not -----------------------------------------------


def test_a_renewal_in_between_changes_nothing(desk: Desk) -> None:
    lease = desk.claimed()
    desk.operator.renew([Report(run=lease.run)])
    view = desk.done(lease, result='"merged"')[0]
    assert (view.status, desk.early) == ("succeeded", [True])
    assert view.item is not None
    assert view.item.ended_at == desk.operator.show(lease.item.id).item.ended_at
    assert query(desk.url, "SELECT status, reason, result FROM runs") == [
        ("succeeded", "reported", '"merged"')
    ]


def test_a_process_that_has_only_renewed_the_run_ends_it_early(desk: Desk) -> None:
    desk.operator.add([NewItem(title="work")])
    lease = desk.operator.next("coder")[0]
    desk.worker.renew([Report(run=lease.run)])
    assert desk.done(lease)[0].refusal is None
    assert desk.early == [True]


def test_the_times_of_a_claim_and_an_end_are_those_of_the_store(desk: Desk) -> None:
    """Taken out: the offset in `claim_first.sql`, and then in `end_run.sql`."""
    desk.done(desk.claimed())  # the next claim looks at the first item only
    query(desk.url, "UPDATE clock SET offset_us = 86400000000")
    desk.done(desk.claimed())
    times = "SELECT abs(clock_us() - started_us), abs(clock_us() - ended_us) FROM runs WHERE run = 2"
    assert all(off_us < 3_600_000_000 for off_us in query(desk.url, times)[0])
    assert desk.early == [True, True]


def test_no_run_ends_in_a_way_that_the_rules_do_not_know(desk: Desk) -> None:
    desk.done(desk.claimed())
    with pytest.raises(psycopg.errors.CheckViolation, match="runs_status_check"):
        query(desk.url, "UPDATE runs SET status = 'running'")


def test_a_message_in_between_becomes_a_follow_up(desk: Desk, company: list[LeaseView]) -> None:
    """Taken out: the comparison of `message_count` in `end_run.sql` and `end_runs.sql`."""
    lease = desk.claimed()
    desk.operator.msg(lease.item.id, "wait")
    view = desk.done_with(company, lease)
    assert (view.follow_up is not None, desk.early) == (True, [False])


def test_a_message_that_a_renewal_told_of_becomes_a_follow_up_too(desk: Desk) -> None:
    """Taken out: `has_unread` in `core.early_ends`; the renewed count is then the known one."""
    lease = desk.claimed()
    desk.operator.msg(lease.item.id, "wait")
    desk.worker.renew([Report(run=lease.run)])
    assert desk.done(lease)[0].follow_up is not None
    assert desk.early == []


def test_a_cancel_request_in_between_leaves_no_trace_on_the_ended_item(
    desk: Desk, company: list[LeaseView]
) -> None:
    """Taken out: `cancel_into IS NULL` in `end_run.sql` and `end_runs.sql`."""
    lease = desk.claimed()
    desk.operator.cancel(lease.item.id, why="not needed")
    assert (desk.done_with(company, lease).status, desk.early) == ("succeeded", [False])
    assert set(query(desk.url, "SELECT status, cancel_into FROM items")) == {("completed", None)}


def test_a_block_in_between_ends_with_its_item(desk: Desk, company: list[LeaseView]) -> None:
    """Taken out: `NOT blocked` in `end_run.sql` and `end_runs.sql`."""
    lease = desk.claimed()
    desk.operator.block(item=lease.item.id, blocker="acme/app#2", why="first that")
    assert (desk.done_with(company, lease).status, desk.early) == ("succeeded", [False])
    assert set(query(desk.url, "SELECT blocked FROM items")) == {(False,)}


def test_a_run_that_was_taken_back_is_refused_though_its_item_runs_again(
    desk: Desk, company: list[LeaseView]
) -> None:
    """Taken out: the comparison of `run` and of `run_bits` in `end_run.sql` and `end_runs.sql`."""
    lease = desk.claimed()
    desk.operator.take_back(lease.item.id, why="by hand")
    again = desk.operator.next("other")[0]
    view = desk.done_with(company, lease)
    assert view.refusal is not None
    assert (view.refusal.code, desk.early) == ("lease_lost", [False])
    assert query(desk.url, "SELECT run FROM items WHERE run IS NOT NULL") == [(again.fence,)]


def test_one_run_of_a_batch_that_is_over_ends_the_others_and_is_refused(desk: Desk) -> None:
    """Taken out: the comparison of the counts in `end_runs.sql`; then the second report is believed."""
    leases = [desk.claimed() for _ in range(3)]
    desk.operator.done([Report(run=leases[1].run)])
    assert [view.refusal is None for view in desk.done(*leases)] == [True, False, True]
    assert desk.early == [False]


@pytest.mark.parametrize(
    "lock",
    ["UPDATE interlock.items SET seen = seen", "SELECT FROM interlock.items FOR NO KEY UPDATE"],
    ids=["changes", "locks"],
)
def test_an_end_is_timed_and_numbered_after_the_wait_for_its_row(
    desk: Desk, company: list[LeaseView], lock: str
) -> None:
    """Taken out: the lock ahead of the update in `end_run.sql`. An update that waits for a row computes anew
    only if the row was changed meanwhile, and else writes the time from before the wait."""
    lease = desk.claimed()
    with psycopg.connect(desk.url) as other, ThreadPoolExecutor(1) as threads:
        other.execute(lock.encode())
        ending = threads.submit(desk.done_with, company, lease)
        wait_for_lock_waiters(desk.url)
        desk.operator.add([NewItem(title="meanwhile")])
        ((clock_us, seq),) = query(desk.url, "SELECT clock_us(), max(seq) FROM events")
        other.commit()
        assert (ending.result().status, desk.early) == ("succeeded", [True])
    ended = "SELECT i.ended_us, e.at_us, e.seq FROM items i JOIN events e ON e.item = i.id"
    for ended_us, at_us, end_seq in query(desk.url, f"{ended} WHERE e.kind = 'run.succeeded'"):
        assert ended_us == at_us > clock_us
        assert end_seq > seq


@pytest.mark.parametrize("fields", [{"lane": LANE}, {"no_lane": True, "message": "unread"}])
def test_only_items_without_a_lane_end_early(desk: Desk, fields: dict[str, Any]) -> None:
    assert desk.done(desk.claimed(**fields))[0].refusal is None
    assert desk.early == ([] if "lane" in fields else [True]), "the claim delivered the message"


def test_two_reports_of_one_run_end_it_once(desk: Desk) -> None:
    lease = desk.claimed()
    assert [view.refusal is None for view in desk.done(lease, lease)] == [True, False]
    assert desk.early == []


def test_results_that_are_too_large_for_one_statement_are_written_in_portions(desk: Desk) -> None:
    leases = [desk.claimed() for _ in range(3)]
    assert [view.refusal for view in desk.done(*leases, result=f'"{"x" * 500_000}"')] == [None] * 3
    assert desk.early == []


def test_the_answer_is_kept_in_the_same_transaction(desk: Desk) -> None:
    lease = desk.claimed()
    request = RepeatableRequest(key="once", asked="done")
    repeatable = desk.worker.answering(request)
    assert repeatable.done([Report(run=lease.run)])[0].refusal is None
    assert desk.early == [True]
    kept = query(desk.url, "SELECT key, answer::json -> 0 ->> 'status' FROM requests")
    assert kept == [("once", "succeeded")]


# -- the same rows, whichever way ----------------------------------------------------------------

_items = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 2),
        "lane": st.sampled_from([None] * 5 + [LANE]),
        "message": st.sampled_from([None, "hello"]),
        "max_attempts": st.integers(1, 2),
    }
)
#: Runs by their age, the newest first: some of the older ones are over.
_some = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)
_step = st.one_of(
    st.tuples(st.just("add"), st.lists(_items, min_size=2, max_size=6)),
    st.tuples(st.just("claim"), st.integers(1, 4)),
    st.tuples(st.just("done"), _some),
    st.tuples(st.just("claim"), st.integers(1, 4)),
    st.tuples(st.just("done"), _some),
    st.tuples(st.sampled_from(["fail", "release", "renew", "renew_elsewhere", "done_elsewhere"]), _some),
    st.tuples(st.sampled_from(["message", "cancel", "block", "unblock", "take_back"]), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


def act(desk: Desk, what: str, which: Any) -> Any:
    """Do one step, and say what came of it."""
    if what == "add":
        news = [NewItem(title="work", **fields) for fields in which]
        return [added.decision for added in desk.worker.add(news)]
    if what == "claim":
        for _ in range(which):  # of a batch, the order of rows on disk decides who gets which number
            desk.leases += desk.worker.next("coder", lease_s=30)
        return [lease.item.id for lease in desk.leases]
    if not desk.leases:
        return None
    if isinstance(which, list):
        reports = [Report(run=desk.leases[-1 - n % len(desk.leases)].run, result=f"{n}") for n in which]
        service = desk.operator if what.endswith("elsewhere") else desk.worker
        views = getattr(service, what.removesuffix("_elsewhere"))(reports)
        return [(v.status, v.refusal, v.follow_up, v.item and v.item.ended_at) for v in views]
    item = desk.leases[-1 - which % len(desk.leases)].item.id
    if what == "message":
        return desk.operator.msg(item, "and this").item.status
    if what == "block":
        return desk.operator.block(item=item, blocker="acme/app#2", why="first that") is not None
    if what == "unblock":
        return desk.operator.unblock(item=item) is not None
    return getattr(desk.operator, what)(item, why="because").item.status


@pytest.mark.slow
@pytest.mark.parametrize("early", [16, 18])
def test_an_early_end_leaves_the_same_rows_as_one_that_locks_and_loads(
    early: int, pg_database16: str, pg_database18: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)  # back-offs
    clock, ended = Clock(), 0
    urls = (pg_database18, pg_database16)[:: 1 if early == 18 else -1]

    @given(st.lists(_step, min_size=15, max_size=40))
    @settings(
        max_examples=15,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def agree(steps: list[tuple[str, Any]]) -> None:
        nonlocal ended
        for what, which in [("add", [{}]), ("claim", 1), *steps]:
            if what == "wait":
                clock.advance(which)
                continue
            first, second = ([_outcome(desk, what, which)] for desk in desks)
            assert first == second, what
        for desk in desks:
            desk.worker.sweep()
        for rows in ROWS:
            pairs = zip(*(query(desk.url, rows) for desk in desks), strict=True)
            assert [pair for pair in pairs if pair[0] != pair[1]] == []
        ended += sum(desks[0].early)
        for desk in desks:
            desk.leases.clear()
            desk.early.clear()

    desks = [Desk(urls[0], clock=clock), Desk(urls[1], clock=clock, forgets=True)]
    try:
        agree()
        assert ended > 10, "hardly any run ended early: nothing was compared"
    finally:
        for desk in desks:
            desk.close()


def _outcome(desk: Desk, what: str, which: Any) -> Any:
    try:
        return act(desk, what, which)
    except Exception as error:  # both must raise the same
        return type(error).__name__, str(error)
