"""Requests that share a transaction: each gets its own answer, whatever becomes of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from interlock.core.errors import InvalidInput, Repeated, StoreUnavailable
from interlock.core.model import NewItem, Policy
from interlock.service import gathering
from interlock.service.contract import ItemFilter, LeaseView, NextWish, Report
from interlock.service.gathering import RENEW, Gathering, StoreCall
from interlock.service.local import LocalService
from interlock.store.access import AccessStore, RepeatableRequest
from interlock.store.port import CallOutcome, outcome_of
from interlock.store.postgres.database import BEGIN, Database, commit, roll_back
from interlock.store.postgres.store import PostgresStore
from tests.clock import Clock
from tests.faults.failpoints import COMMIT, MOMENTS, Moment, Proxy, wait_for_lock_waiters
from tests.faults.processes import wait_until
from tests.faults.stores import assert_kept, file_of, is_sqlite, open_service, query
from tests.patience import PATIENCE_S

#: All that requests write, but for what differs from store to store (bits, numbers of events) and the
#: numbers of runs: those of one claim are dealt out in no order.
ROWS = (
    "SELECT to_jsonb(i) - '{run,run_bits,promoted_from,absorbed_run}'::text[] FROM items i ORDER BY id",
    "SELECT to_jsonb(r) - '{run,bits}'::text[] FROM runs r ORDER BY item, 1",
    """SELECT at_us, kind, reason, item, lane, agent, span_us,
    regexp_replace(data::text, '"[a-z_]*run": ?[0-9]+', '') FROM events ORDER BY 1, 2, 3, 4, 5, 6, 7, 8""",
    "SELECT to_jsonb(m) FROM messages m ORDER BY item, n",
    "SELECT status, priority, sum(n) FROM tallied GROUP BY 1, 2 HAVING sum(n) <> 0 ORDER BY 1, 2",
)
ANYTHING = ("coder", (), (), None, None, False)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second group begins because the machine is slow."""
    monkeypatch.setattr(gathering, "SLOW_S", PATIENCE_S)


def gathered(service: LocalService, kind: Hashable, works: Sequence[Callable[[], Any]]) -> list[CallOutcome]:
    """The outcomes of requests that queue up in this order, behind one that is under way."""
    core: Gathering = service._gathering
    begun, go = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        assert go.wait(PATIENCE_S)

    def queued() -> bool:
        return len(line.waiting) == sum(not each.done() for each in found)

    found: list[Future[CallOutcome]] = []
    with ThreadPoolExecutor(len(works) + 1) as threads:
        try:
            first = threads.submit(core._run, StoreCall(kind, None, block, lambda: 1))
            assert begun.wait(PATIENCE_S)
            (line,) = core._lines.values()
            for work in works:
                found.append(threads.submit(outcome_of, work))
                wait_until(queued, "a request waits")
        finally:
            go.set()
        first.result(PATIENCE_S)
        outcomes = [each.result(PATIENCE_S) for each in found]
    assert not core._lines
    assert not core._keys
    return outcomes


def counted(service: LocalService, name: str) -> list[Any]:
    """The calls of a function of the store."""
    calls: list[Any] = []
    work = getattr(service.store, name)

    def noted(*args: Any, **more: Any) -> Any:
        calls.append(args)
        return work(*args, **more)

    setattr(service.store, name, noted)
    return calls


@pytest.fixture
def service(any_url: str) -> Iterator[LocalService]:
    service = open_service(any_url)
    yield service
    service.close()


def claimed(service: LocalService, count: int, **fields: Any) -> list[LeaseView]:
    service.add([NewItem(title=f"item {n}", **fields) for n in range(count)])
    return service.next("coder", limit=count, lease_s=600)


def done(service: Any, lease: LeaseView, **said: Any) -> Any:
    return service.done([Report(run=lease.run, **said)])[0]


# -- one transaction, and an answer for each ----------------------------------------------------------


def test_reports_share_a_transaction_and_each_gets_its_own_answer(
    service: LocalService, any_url: str
) -> None:
    leases = claimed(service, 5)
    calls = counted(service, "together" if is_sqlite(any_url) else "transact")
    found = gathered(service, "done", [partial(done, service, lease) for lease in leases])
    assert [each.value.run for each in found] == [lease.run for lease in leases]
    assert [each.value.status for each in found] == ["succeeded"] * 5
    assert len(calls) == 1


def test_a_lone_request_runs_in_its_own_thread(
    service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gathering, "_in_group", None)
    leases = claimed(service, 1)
    assert done(service, leases[0]).refusal is None


def test_a_refused_report_concerns_its_caller_alone(service: LocalService) -> None:
    leases = claimed(service, 3)
    done(service, leases[1])
    found = gathered(service, "done", [partial(done, service, lease) for lease in leases])
    assert [each.value.refusal is None for each in found] == [True, False, True]


def test_two_reports_of_one_run_in_a_group_are_accepted_once(service: LocalService) -> None:
    leases = claimed(service, 2)
    asked = [leases[0], leases[1], leases[0]]
    found = gathered(service, "done", [partial(done, service, lease) for lease in asked])
    assert [each.value.refusal is None for each in found] == [True, True, False]


def test_what_only_the_transaction_finds_wrong_is_an_error_of_its_caller_alone(service: LocalService) -> None:
    """Taken out: the retry of each member after a rollback; all get the error of one."""
    leases = claimed(service, 3, lane=None)
    works = [partial(done, service, lease, seen=7 if n == 1 else 0) for n, lease in enumerate(leases)]
    found = gathered(service, "done", works)
    assert [type(each.error) for each in found] == [type(None), InvalidInput, type(None)]
    assert [each.value.status for each in found[::2]] == ["succeeded"] * 2


def test_invalid_input_never_joins_a_group(service: LocalService) -> None:
    leases = claimed(service, 1)
    works: list[Callable[[], Any]] = [
        partial(done, service, leases[0]),
        lambda: service.done([Report(run="no handle")]),
    ]
    found = gathered(service, "done", works)
    assert [each.error is None for each in found] == [True, False]


def test_arrivals_of_a_group_stand_in_line_in_order(service: LocalService) -> None:
    works = [partial(service.add, [NewItem(title=f"{n}", lane="issue:acme/app#1")]) for n in range(4)]
    found = [each.value[0] for each in gathered(service, "add", works)]
    assert [(view.item.title, view.decision) for view in found] == [
        ("0", "admitted"),
        *((f"{n}", "queued") for n in (1, 2, 3)),
    ]
    assert [view.position for view in found] == [None, 1, 2, 3]


def test_messages_of_a_group_are_all_there(service: LocalService) -> None:
    (lease,) = claimed(service, 1)
    works = [partial(service.msg, lease.item.id, f"{n}") for n in range(4)]
    found = gathered(service, "msg", [*works, partial(service.msg, 1 << 40, "to nothing")])
    assert [each.value.n for each in found[:4]] == [1, 2, 3, 4]
    assert found[4].error is not None
    assert [each.text for each in service.inbox(lease.run)] == ["0", "1", "2", "3"]


def test_heartbeats_of_workers_share(service: LocalService) -> None:
    works = [
        partial(service.see_worker, f"w{n % 3}", host="h", pid=n, folder="/", agent="coder", slots=1, runs=n)
        for n in range(5)
    ]
    assert [each.error for each in gathered(service, "see_worker", works)] == [None] * 5
    assert sorted(each.name for each in service.workers()) == ["w0", "w1", "w2"]


# -- claims -------------------------------------------------------------------------------------------


def test_claims_for_the_same_are_dealt_out_in_order_of_arrival(service: LocalService) -> None:
    """Taken out: the order of the line, or the dealing in order."""
    service.add([NewItem(title=f"{n}") for n in range(4)])
    calls = counted(service, "claim")
    limits = [1, 2, 1, 1]
    found = gathered(service, ANYTHING, [partial(service.next, "coder", limit=n) for n in limits])
    titles = [[lease.item.title for lease in each.value] for each in found]
    assert titles == [["0"], ["1", "2"], ["3"], []]
    # The second claim is of those who got nothing.
    assert [args[0].limit for args in calls] == [5, 1]


def test_a_limit_of_runs_holds_for_claims_that_share(service: LocalService) -> None:
    service.set_agent("coder", max_concurrency=2)
    service.add([NewItem(title=f"{n}") for n in range(4)])
    found = gathered(service, ANYTHING, [partial(service.next, "coder") for _ in range(4)])
    assert [len(each.value) for each in found] == [1, 1, 0, 0]


def test_a_shared_claim_keeps_an_answer_for_each_key(service: LocalService) -> None:
    service.add([NewItem(title=f"{n}") for n in range(2)])
    keys = [RepeatableRequest(f"k{n}", "asked") for n in range(3)]
    found = gathered(service, ANYTHING, [partial(service.answering(key).next, "coder") for key in keys])
    kept = [service.answered(key) for key in keys]
    assert [[lease.run for lease in service.claimed(each["claimed"])] for each in kept[:2]] == [
        [lease.run for lease in each.value] for each in found[:2]
    ]
    assert (kept[2], found[2].value) == (None, [])


# -- renewals -----------------------------------------------------------------------------------------


def test_renewals_share_and_a_lost_lease_is_told_to_its_holder(service: LocalService) -> None:
    leases = claimed(service, 3)
    done(service, leases[1])
    calls = counted(service, "renew")
    found = gathered(service, RENEW, [partial(service.renew, [Report(run=lease.run)]) for lease in leases])
    assert [each.value[0].refusal is None for each in found] == [True, False, True]
    assert len(calls) == 1


def _member(kind: str, parts: int) -> Any:
    return gathering._Member(StoreCall(kind, None, lambda: None, lambda: parts))


def test_renewals_share_with_renewals_only_and_take_turns() -> None:
    """Taken out: the choice in `_GroupQueue.take`; a heartbeat waits for batches."""
    line = gathering._GroupQueue()
    for kind in ("add", "done", RENEW, "add", RENEW, *("add" for _ in range(40))):
        line.waiting.append(_member(kind, 1))
    groups = []
    while line.waiting:
        groups.append([member.call.kind for member in line.take()])
    assert groups == [[RENEW, RENEW], ["add", "done", *["add"] * 30], ["add"] * 11]


def test_a_group_has_as_many_parts_as_a_batch_and_never_none() -> None:
    line = gathering._GroupQueue()
    for parts in (2_000, 400, 400, 400):
        line.waiting.append(_member("add", parts))
    assert [len(line.take()) for _ in range(3)] == [1, 2, 1]


# -- one thread for all -------------------------------------------------------------------------------


def steps(service: LocalService, operation: str, key: RepeatableRequest | None = None) -> Callable[..., Any]:
    return service.steps(operation, key)


def test_claims_of_several_agents_share_a_transaction(service: LocalService, any_url: str) -> None:
    """Taken out: `claim_each`; each agent's claim is a transaction of its own."""
    service.add([NewItem(title=f"{n}", agent=f"a{n}") for n in range(3)])
    service.next("a9")  # what is known of an agent makes no difference
    calls = counted(service, "together" if is_sqlite(any_url) else "claim_each")
    alone = counted(service, "claim")
    keys = [RepeatableRequest(f"k{n}", "asked") for n in range(3)]
    asking = [steps(service, "next", key)(f"a{n}") for n, key in enumerate(keys)]
    found = service.carry_out_all(asking)
    assert [[lease.item.title for lease in each.value] for each in found] == [["0"], ["1"], ["2"]]
    assert len(calls) == 1
    assert is_sqlite(any_url) or not alone
    kept = [service.claimed(service.answered(key)["claimed"]) for key in keys]
    assert [[lease.run for lease in each] for each in kept] == [
        [lease.run for lease in each.value] for each in found
    ]


def test_claims_that_share_keep_limits_and_find_nothing_by_themselves(service: LocalService) -> None:
    """Taken out: the claim by itself of a limited agent, or of one whose limits have changed."""
    known, set_now, paused = "known", "set-now", "paused"
    for agent in (known, paused):
        service.set_agent(agent, max_concurrency=1)
        service.next(agent)
    service.next(set_now)
    service.set_agent(set_now, max_concurrency=1)
    service.pause_agent(paused, paused=True, why="lunch")
    service.add([NewItem(title="x") for _ in range(20)])
    asking = [known, known, set_now, set_now, paused, "free", "free"]
    found = service.carry_out_all([steps(service, "next")(agent) for agent in asking])
    assert [len(each.value) for each in found] == [1, 0, 1, 0, 0, 1, 1]


def test_a_thread_carries_out_requests_of_all_kinds(service: LocalService) -> None:
    leases = claimed(service, 3)
    key = RepeatableRequest("key", "asked")
    asking = [
        steps(service, "done")([Report(run=leases[0].run)]),
        steps(service, "add", key)([NewItem(title="once")]),
        steps(service, "add", key)([NewItem(title="once")]),
        steps(service, "renew")([Report(run=leases[1].run)]),
        steps(service, "done")([Report(run=leases[1].run)], next=NextWish(agent="other")),
        steps(service, "msg")(leases[2].item.id, "hello"),
        steps(service, "inbox")(leases[2].run),
        steps(service, "fail")([Report(run="no handle")]),
        steps(service, "next")("third", item=1 << 40),
        steps(service, "see_worker")("w", host="h", pid=1, folder="/", agent="a", slots=1, runs=0),
    ]
    found = service.carry_out_all(asking)
    assert [type(each.error).__name__ for each in found] == [
        *("NoneType", "NoneType", "Repeated", "NoneType", "NoneType", "NoneType", "NoneType"),
        *("UnknownRun", "NotFound", "NoneType"),
    ]
    assert found[0].value[0].status == found[4].value.runs[0].status == "succeeded"
    assert len(service.items(ItemFilter(all=True))) == 4
    assert not service._gathering._keys


def test_a_message_that_goes_on_to_an_absorber_takes_another_turn(service: LocalService) -> None:
    """Taken out: the second round of `carry_out_all`; its caller gets no answer."""
    new = [NewItem(title=f"{n}", lane="l", policy=Policy.COALESCE, agent="coder") for n in range(3)]
    _, kept, absorbed = [view.item for view in service.add(new) if view.item is not None]
    found = service.carry_out_all([steps(service, "msg")(each.id, "hello") for each in (kept, absorbed)])
    assert [each.value.item.id for each in found] == [kept.id] * 2
    assert sorted(each.value.n for each in found) == [3, 4]  # behind what the absorbed arrivals left


# -- keys ---------------------------------------------------------------------------------------------


def test_a_key_that_was_used_before_is_answered_without_ending_the_group(
    service: LocalService,
) -> None:
    """Taken out: the look at kept keys in `_outcomes`; on PostgreSQL the group is undone and tried again."""
    leases = claimed(service, 3)
    keys = [RepeatableRequest(f"k{n}", "asked") for n in range(3)]
    done(service.answering(keys[1]), leases[1])
    calls = counted(service, "transact")
    works = [partial(done, service.answering(key), lease) for key, lease in zip(keys, leases, strict=True)]
    found = gathered(service, "done", works)
    assert [type(each.error) for each in found] == [type(None), Repeated, type(None)]
    assert len(calls) == 1
    assert [service.answered(key)[0]["status"] for key in keys] == ["succeeded"] * 3


def test_a_key_that_comes_twice_at_once_is_carried_out_once(service: LocalService) -> None:
    """Taken out: the keys under way; on PostgreSQL the group is undone and tried again."""
    (lease,) = claimed(service, 1)
    key = RepeatableRequest("key", "asked")
    add = partial(service.answering(key).add, [NewItem(title="once")])
    others = [partial(service.add, [NewItem(title=f"{n}")]) for n in range(2)]
    found = gathered(service, "add", [others[0], add, add, others[1]])
    assert sorted(str(type(each.error).__name__) for each in found) == ["NoneType"] * 3 + ["Repeated"]
    assert [each.error for each in (found[0], found[3])] == [None, None]
    assert len(service.items(ItemFilter())) == 4
    assert done(service, lease).refusal is None


def test_a_key_that_another_server_uses_meanwhile_concerns_its_caller_alone(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the retry of each member; all get `Repeated`."""
    service, elsewhere = open_service(any_url), open_service(any_url)
    key = RepeatableRequest("key", "asked")
    kept = AccessStore.kept_keys

    def late(access: AccessStore, keys: Any) -> Any:
        found = kept(access, keys)
        elsewhere.answering(key).add([NewItem(title="elsewhere")])
        return found

    monkeypatch.setattr(AccessStore, "kept_keys", late)
    works = [
        partial(service.add, [NewItem(title="one")]),
        partial(service.answering(key).add, [NewItem(title="twice")]),
        partial(service.add, [NewItem(title="two")]),
    ]
    found = gathered(service, "add", works)
    assert [type(each.error) for each in found] == [type(None), Repeated, type(None)]
    assert sorted(item.title for item in service.items(ItemFilter())) == ["elsewhere", "one", "two"]
    service.close()
    elsewhere.close()


# -- what goes wrong ----------------------------------------------------------------------------------


def test_no_request_waits_for_a_thread_that_was_interrupted(service: LocalService) -> None:
    """Taken out: the `finally` of `_lead`; the others wait for ever."""
    leases = claimed(service, 2)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    service._gathering._outcomes = interrupted  # type: ignore[method-assign, assignment]

    def work(lease: LeaseView) -> Any:
        try:
            return done(service, lease)
        except KeyboardInterrupt:
            return "interrupted"

    found = gathered(service, "done", [partial(work, lease) for lease in leases])
    assert found[0].value == "interrupted"
    assert isinstance(found[1].error, StoreUnavailable)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("lane", [True, False], ids=["lanes", "plain"])
@pytest.mark.parametrize("keyed", [False, True], ids=["", "keys"])
def test_a_group_whose_commit_has_no_answer_ends_each_run_once(
    proxy: Proxy, pg_url: str, moment: Moment, lane: bool, keyed: bool
) -> None:
    """The connection breaks in the middle of a group, before or after its commit."""
    service = open_service(proxy.url)
    new = [NewItem(title=f"{n}", lane=f"issue:acme/app#{n}" if lane else None) for n in range(4)]
    service.add(new)
    leases = service.next("coder", limit=4, lease_s=600)
    if not lane:
        service.store.transactions.early_ends._known.clear()  # type: ignore[attr-defined]
    proxy.lose(COMMIT, moment)
    asking = [service.answering(RepeatableRequest(f"k{n}", "")) if keyed else service for n in range(4)]
    works = [partial(done, who, lease) for who, lease in zip(asking, leases, strict=True)]
    found = gathered(service, "done", works)
    assert proxy.sprung.is_set()
    assert [each.error for each in found] == [None] * 4
    assert [each.value.refusal for each in found] == [None] * 4
    assert_kept(pg_url, done=tuple((lease.fence, lease.item.id) for lease in leases))
    service.close()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_group_of_arrivals_whose_commit_has_no_answer_is_added_once(
    proxy: Proxy, pg_url: str, moment: Moment
) -> None:
    service = open_service(proxy.url)
    proxy.lose(COMMIT, moment)
    found = gathered(service, "add", [partial(service.add, [NewItem(title=f"{n}")]) for n in range(4)])
    assert proxy.sprung.is_set()
    assert [each.value[0].item.title for each in found] == ["0", "1", "2", "3"]
    assert query(pg_url, "SELECT count(*) FROM items") == [(4,)]
    service.close()


def test_a_group_that_may_be_committed_is_not_tried_again(service: LocalService, any_url: str) -> None:
    """Taken out: the case of `StoreUnavailable`; a run that has ended is refused."""
    leases = claimed(service, 3)
    name = "together" if is_sqlite(any_url) else "transact"
    work = getattr(service.store, name)

    def lost(*args: Any) -> Any:
        work(*args)
        raise StoreUnavailable("the answer is lost")

    setattr(service.store, name, lost)
    found = gathered(service, "done", [partial(done, service, lease) for lease in leases])
    assert [type(each.error) for each in found] == [StoreUnavailable] * 3


def test_a_slow_lane_stalls_no_finish_of_other_lanes(
    pg_database18: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the group beside a slow one in `_wait`; the second end waits for the lock as well."""
    monkeypatch.setattr(gathering, "SLOW_S", 0.02)
    service = open_service(pg_database18)
    service.add([NewItem(title=f"{n}", lane=f"issue:acme/app#{n}") for n in range(2)])
    slow, other = service.next("coder", limit=2, lease_s=600)
    with psycopg.connect(pg_database18) as holder, ThreadPoolExecutor(1) as threads:
        lock = "SELECT 1 FROM interlock.lanes WHERE lane = %s FOR UPDATE"
        holder.execute(lock, (slow.item.lane,))
        waits = threads.submit(done, service, slow)
        wait_for_lock_waiters(pg_database18)
        assert done(service, other).refusal is None
        assert not waits.done()
        holder.rollback()
        assert waits.result(PATIENCE_S).refusal is None
    service.close()


def test_a_commit_behind_a_failed_statement_leaves_the_session_usable(pg_database18: str) -> None:
    """Taken out: `prepare=False` of `commit`. The driver takes the COMMIT of a failed pipeline for prepared,
    and later transactions of the session fail as if a pooler had lost their statements."""
    database = Database(pg_database18)
    for broken in (False, False, False, *[True] * 9):
        with database.connection() as conn:
            try:
                with database.pipeline(conn):
                    conn.execute(BEGIN)
                    if broken:
                        conn.execute("SELECT 1 / 0")
                    commit(conn)
            except psycopg.errors.DivisionByZero:
                roll_back(conn)
    with database.connection() as conn, database.transaction(conn):
        conn.execute("SELECT 1")
    database.close()


# -- the same rows ------------------------------------------------------------------------------------

_LANES = st.sampled_from([None, "issue:acme/app#1", "issue:acme/app#2"])
_ITEM = st.builds(
    NewItem,
    title=st.just("work"),
    lane=_LANES,
    policy=st.sampled_from(list(Policy)),
    agent=st.sampled_from(["", "coder"]),
    message=st.sampled_from([None, "hello"]),
    dedupe_key=st.sampled_from([None, None, "a", "b"]),
)
_GROUP = st.one_of(
    st.tuples(st.just("add"), st.lists(st.lists(_ITEM, min_size=1, max_size=2), min_size=1, max_size=4)),
    st.tuples(
        st.sampled_from(["done", "fail", "release"]), st.lists(st.integers(0, 9), min_size=1, max_size=4)
    ),
    st.tuples(st.just("msg"), st.lists(st.integers(1, 8), min_size=1, max_size=4)),
    st.tuples(st.just("next"), st.lists(st.integers(1, 2), min_size=1, max_size=3)),
)


#: Each by itself, several threads, and one thread for all.
ALONE, THREADS, ONE_THREAD = "alone", "threads", "one thread"


def _tell(service: LocalService, groups: Sequence[tuple[str, Any]], clock: Clock, *, share: str) -> list[str]:
    """What callers of these groups hear."""
    leases: list[LeaseView] = []
    heard: list[str] = []
    for kind, each in groups:
        clock.advance(1)
        given: list[tuple[tuple[Any, ...], dict[str, Any]]]
        match kind:
            case "add":
                given = [((items,), {}) for items in each]
            case "msg":
                # What goes on to an absorber is a transaction of its own, behind the group.
                given = [((i, f"to {i}"), {}) for i in each if not _is_absorbed(service, i)]
            case "next":
                given = [(("coder",), {"limit": n, "lease_s": 1_000}) for n in each]
            case _:
                given = [(([Report(run=leases[n].run)],), {}) for n in each if n < len(leases)]
        if not given:
            continue
        works = [partial(getattr(service, kind), *args, **named) for args, named in given]
        if share == THREADS:
            line = ("coder", (), (), 1_000, None, False) if kind == "next" else kind
            found = gathered(service, line, works)
        elif share == ONE_THREAD:
            found = service.carry_out_all([steps(service, kind)(*args, **named) for args, named in given])
        else:
            found = [outcome_of(work) for work in works]
        if kind == "next":
            leases += [lease for outcome in found for lease in outcome.value]
        heard += [f"{type(o.error)} {len(o.value) if isinstance(o.value, list) else 0}" for o in found]
    return heard


def _is_absorbed(service: LocalService, item: int) -> bool:
    shown = outcome_of(partial(service.show, item))
    return shown.error is None and shown.value.item.status in ("coalesced", "superseded")


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(groups=st.lists(_GROUP, min_size=1, max_size=8))
def test_requests_leave_the_same_rows_alone_and_in_groups(
    groups: list[tuple[str, Any]], pg_database18: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    found = []
    for share in (ALONE, THREADS, ONE_THREAD):
        clock = Clock()
        with psycopg.connect(pg_database18, autocommit=True) as connection:
            _empty(connection)
        service = LocalService(PostgresStore(Database(pg_database18, now=clock)))
        heard = _tell(service, groups, clock, share=share)
        found.append((heard, [query(pg_database18, rows) for rows in ROWS]))
        service.close()
    _assert_alike(found)


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(groups=st.lists(_GROUP, min_size=1, max_size=8))
def test_requests_leave_the_same_rows_in_a_file_alone_and_in_groups(
    groups: list[tuple[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    found = []
    for n, share in enumerate((ALONE, THREADS, ONE_THREAD)):
        clock, url = Clock(), f"sqlite://{tmp_path / f'{n}.db'}"
        for suffix in ("", "-wal", "-shm"):
            Path(f"{file_of(url)}{suffix}").unlink(missing_ok=True)
        service = open_service(url, now=clock)
        heard = _tell(service, groups, clock, share=share)
        service.close()
        found.append((heard, [_rows(url, table) for table in ("items", "runs", "events", "messages")]))
    _assert_alike(found)


def _rows(url: str, table: str) -> list[tuple[str, ...]]:
    """A table of a file, but for what differs as above."""
    columns = [name for _, name, *_ in query(url, f"PRAGMA table_info({table})")]
    varies = ("run", "run_bits", "bits", "promoted_from", "absorbed_run", "seq", "data")
    wanted = [name for name in columns if name not in varies]
    return sorted(tuple(map(str, row)) for row in query(url, f"SELECT {', '.join(wanted)} FROM {table}"))


def _assert_alike(found: Sequence[tuple[list[str], list[Any]]]) -> None:
    (heard, alone), *others = found
    for other_heard, shared in others:
        assert other_heard == heard
        for own, of_group in zip(alone, shared, strict=True):
            assert of_group == own


def _empty(connection: psycopg.Connection[Any]) -> None:
    """No row, and numbers from the beginning."""
    kept = "('migrations', 'meta', 'clock', 'stores')"
    names = connection.execute(
        f"SELECT tablename FROM pg_tables WHERE schemaname = 'interlock' AND tablename NOT IN {kept}"
    )
    tables = ", ".join(f"interlock.{name}" for (name,) in names)
    connection.execute(f"TRUNCATE {tables} RESTART IDENTITY".encode())
    sequences = connection.execute("SELECT sequencename FROM pg_sequences WHERE schemaname = 'interlock'")
    for (name,) in sequences.fetchall():
        connection.execute(f"ALTER SEQUENCE interlock.{name} RESTART".encode())
