"""Two guards for each promise. With one taken out the other still holds, or a check says so; with both, a
check says so. A test that stays green here when a guard is gone would prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import apsw
import psycopg
import pytest
from psycopg.pq import TransactionStatus

import interlock.core.decide
from interlock.core import continuity, endings
from interlock.core.errors import Refusal
from interlock.core.model import NewItem
from interlock.proof.checker import History
from interlock.service import sweeper
from interlock.service.contract import LeaseView, RefusalView, Report
from interlock.service.local import LocalService
from tests.clock import Clock
from tests.faults import mutations
from tests.faults.failpoints import wait_for_lock_waiters
from tests.faults.mutations import Meeting, at_once
from tests.faults.past import Past
from tests.faults.stores import (
    assert_kept,
    broken,
    is_sqlite,
    open_service,
    query,
    read_log,
    statuses,
    writing,
)
from tests.patience import PATIENCE_S

LANE = "issue:acme/app#1"
Mutation = Callable[[LocalService], None]


def violations(url: str) -> set[str]:
    history = History(read_log(url))
    history.check_inputs()
    history.check_store(statuses(url))
    return {v.rule for v in history.violations}


def ailments(service: LocalService) -> set[str]:
    return {finding.partition(":")[0] for finding in broken(service.doctor())}


# -- promise 1: one run owns a lane -------------------------------------------------------------------


def arrive_together(
    monkeypatch: pytest.MonkeyPatch, url: str, *mutate: Mutation
) -> tuple[list[Any], Meeting]:
    """Two arrivals at a free lane that have both read before either writes, if nothing keeps them apart."""
    services = [open_service(url), open_service(url)]
    services[0].add([NewItem(title="first", lane=LANE)])
    services[0].done([Report(run=services[0].next("first")[0].run)])
    for service in services:
        for change in mutate:
            change(service)
    meeting = Meeting(monkeypatch, url, "decide")
    works = [lambda s=s: s.add([NewItem(title="arrival", lane=LANE)])[0].decision for s in services]
    outcomes = at_once(*works)
    for service in services:
        service.close()
    return outcomes, meeting


def test_with_both_guards_one_of_two_arrivals_owns_the_lane(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes, meeting = arrive_together(monkeypatch, any_url)
    assert sorted(outcomes) == ["admitted", "queued"]
    assert not meeting.met, "both decided at once"
    assert_kept(any_url)


def test_without_its_index_the_rules_keep_one_owner(any_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_service(any_url).close()
    mutations.drop_owner_index(any_url)
    outcomes, _ = arrive_together(monkeypatch, any_url)
    assert sorted(outcomes) == ["admitted", "queued"]
    assert_kept(any_url)


def test_without_the_lock_the_index_refuses_the_second_owner(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes, meeting = arrive_together(monkeypatch, any_url, mutations.unlock_lanes)
    assert meeting.met, "the lock was still there: nothing was taken out"
    refused = [o for o in outcomes if isinstance(o, psycopg.errors.UniqueViolation | apsw.ConstraintError)]
    assert len(refused) == 1
    assert [o for o in outcomes if isinstance(o, str)] == ["admitted"]
    assert_kept(any_url)


def test_without_lock_and_index_the_doctor_and_the_history_see_two_owners(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service(any_url)
    mutations.drop_owner_index(any_url)
    outcomes, _ = arrive_together(monkeypatch, any_url, mutations.unlock_lanes)
    assert outcomes == ["admitted", "admitted"]
    assert "one_owner_a_lane" in ailments(service)
    assert "one_owner_a_lane" in violations(any_url)
    monkeypatch.undo()
    assert len(service.next("coder", limit=2)) == 2
    assert "one_run_a_lane" in violations(any_url)
    service.close()


def claim_together(url: str, agents: list[str], *mutate: Mutation) -> list[int]:
    """Two claims at once; how many items each got."""
    services = [open_service(url) for _ in agents]
    for service in services:
        for change in mutate:
            change(service)
    works = [lambda s=s, a=a: len(s.next(a, lease_s=60)) for s, a in zip(services, agents, strict=True)]
    counts = at_once(*works)
    for service in services:
        service.close()
    return counts


@pytest.mark.parametrize("locked", [True, False], ids=["as it is", "without the row lock"])
def test_without_the_row_lock_an_item_is_claimed_twice_and_the_history_says_so(
    pg_url: str, locked: bool
) -> None:
    """One claim has updated the item and not yet committed when the other looks. On SQLite a claim is one
    statement, which needs no more than itself."""
    first, second = open_service(pg_url), open_service(pg_url)
    first.add([NewItem(title="the only one", lane=LANE)])
    first.set_agent("ada", max_concurrency=5)  # so that its claim is a transaction that can be held open
    if not locked:
        mutations.replace_statement(second, "claim", "FOR NO KEY UPDATE SKIP LOCKED", "")
    store: Any = first.store
    send, late = store.claims.send, []

    def slowly(conn: Any, *args: Any, **options: Any) -> Any:
        sent = send(conn, *args, **options)
        if conn.info.transaction_status == TransactionStatus.IDLE:  # it has just learned of the limit
            return sent
        sent.fetchall()  # the server has started it
        late.append(threads.submit(second.next, "bob", lease_s=60))
        if locked:
            assert late[0].result() == [], "it never waits"
        else:
            wait_for_lock_waiters(pg_url)
        sent.scroll(0, mode="absolute")
        return sent

    store.claims.send = slowly
    with ThreadPoolExecutor(1) as threads:
        assert len(first.next("ada", lease_s=60)) == 1
        assert len(late[0].result()) == (0 if locked else 1)
    assert ("promoted_before_started" in violations(pg_url)) is not locked
    first.close()
    second.close()


@pytest.mark.parametrize("locked", [True, False], ids=["as it is", "without the agent's lock"])
def test_without_the_agents_lock_its_limit_is_passed_and_the_doctor_says_so(
    any_url: str, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    service = open_service(any_url)
    service.add([NewItem(title=f"item {n}") for n in range(4)])
    service.set_agent("ada", max_concurrency=1)
    Meeting(monkeypatch, any_url, "with_room")
    counts = claim_together(any_url, ["ada", "ada"], *([] if locked else [mutations.unlock_agent]))
    if locked:
        assert sorted(counts) == [0, 1]
        assert_kept(any_url)
    else:
        assert counts == [1, 1]
        assert "agents_within_limit" in ailments(service)
    service.close()


@pytest.mark.parametrize("locked", [True, False], ids=["as it is", "without the pool's lock"])
def test_without_the_pools_lock_its_limit_is_passed_and_the_doctor_says_so(
    any_url: str, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    service = open_service(any_url)
    service.add([NewItem(title=f"item {n}") for n in range(4)])
    service.set_pool("gpu", max_concurrency=1)
    for agent in ("ada", "bob"):
        service.set_agent(agent, pool="gpu")
    Meeting(monkeypatch, any_url, "with_room")
    counts = claim_together(any_url, ["ada", "bob"], *([] if locked else [mutations.unlock_pool]))
    if locked:
        assert sorted(counts) == [0, 1]
        assert_kept(any_url)
    else:
        assert counts == [1, 1]
        assert "pools_within_limit" in ailments(service)
    service.close()


@pytest.mark.parametrize("locked", [True, False], ids=["as it is", "without the row lock"])
def test_without_the_row_lock_an_edit_undoes_a_start_and_the_history_says_so(
    pg_url: str, locked: bool
) -> None:
    """The item is claimed between what the edit reads and what it writes. On SQLite both are in one
    transaction, and no other writes meanwhile."""
    service, other = open_service(pg_url), open_service(pg_url)
    item = service.add([NewItem(title="work", lane=LANE)])[0].arrival or 0
    if not locked:
        mutations.replace_statement(service, "load_items", "FOR NO KEY UPDATE", "")
    write, leases = writing(service), []
    whole = write.get()

    def late(*args: Any) -> None:
        leases.extend(other.next("coder", lease_s=60))
        whole(*args)

    write.put(late)
    service.edit(item, {"run_after_s": 600.0})
    write.put(whole)
    assert len(leases) == (0 if locked else 1)
    assert bool(violations(pg_url)) is not locked
    service.close()
    other.close()


# -- promise 2: every write of a run is fenced --------------------------------------------------------


def zombie_and_heir(service: LocalService, clock: Clock) -> tuple[LeaseView, LeaseView]:
    service.add([NewItem(title="work", lane=LANE), NewItem(title="next", lane=LANE)])
    zombie = service.next("zombie")[0]
    clock.advance(service.store.timing.lease_s + 1)
    service.sweep()
    return zombie, service.next("heir")[0]


def write_late(service: LocalService, url: str, zombie: LeaseView, word: str) -> None:
    """The check of every zombie test: refused, and nothing changed."""
    before = query(url, "SELECT * FROM items ORDER BY id"), query(url, "SELECT * FROM runs ORDER BY run")
    view = getattr(service, word)([Report(run=zombie.run)])[0]
    assert view.refusal is not None, f"a late {word} was accepted"
    after = query(url, "SELECT * FROM items ORDER BY id"), query(url, "SELECT * FROM runs ORDER BY run")
    assert after == before, f"a late {word} was refused and changed something"


ACCEPTANCE = "not item.is_run_of(command.run, command.bits)"
LAX = {
    "any run": "False",
    "a run not above the current one": "item.state.run < command.run",
    "any run while one is running": "item.state.run is None",
}


@pytest.mark.parametrize("lax", LAX)
@pytest.mark.parametrize("word", ["done", "fail", "release"])
def test_a_lax_acceptance_is_noticed_by_the_zombie_test_and_by_the_history(
    any_url: str, monkeypatch: pytest.MonkeyPatch, lax: str, word: str
) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    zombie, heir = zombie_and_heir(service, clock)
    write_late(service, any_url, zombie, word)
    mutated = mutations.replace_source(endings, ACCEPTANCE, LAX[lax])
    monkeypatch.setattr(interlock.core.decide, "finish", mutated["finish"])
    with pytest.raises(AssertionError, match="was accepted"):
        write_late(service, any_url, zombie, word)
    history = History(read_log(any_url))
    history.check_acknowledged([(zombie.fence, zombie.item.id)])
    assert "acknowledged_is_kept" in {v.rule for v in history.violations}
    monkeypatch.undo()
    assert service.done([Report(run=heir.run)])[0].refusal is not None, "the heir was robbed of its run"
    service.close()


def test_a_lax_renewal_is_noticed(sqlite_url: str) -> None:
    clock = Clock()
    service = open_service(sqlite_url, now=clock)
    zombie, _ = zombie_and_heir(service, clock)
    clock.advance(0.5)
    write_late(service, sqlite_url, zombie, "renew")
    mutations.replace_statement(service, "renew", "AND run = :run AND run_bits = :bits", "AND run >= :run")
    with pytest.raises(AssertionError, match="late renew"):
        write_late(service, sqlite_url, zombie, "renew")
    service.close()


FIRST, SECOND = "AND w.run = l.run AND w.bits = l.run_bits", "AND i.run = k.run"


@pytest.mark.parametrize(
    ("taken_out", "noticed"), [((FIRST,), False), ((SECOND,), False), ((FIRST, SECOND), True)]
)
def test_a_renewal_is_fenced_twice(pg_url: str, taken_out: tuple[str, ...], noticed: bool) -> None:
    """With one comparison gone the other refuses; with both gone a zombie keeps the heir's lease alive."""
    clock = Clock()
    service = open_service(pg_url, now=clock)
    zombie, _ = zombie_and_heir(service, clock)
    clock.advance(0.5)
    for guard in taken_out:
        mutations.replace_statement(service, "renew", guard, "")
    if noticed:
        with pytest.raises(AssertionError, match="late renew"):
            write_late(service, pg_url, zombie, "renew")
    else:
        write_late(service, pg_url, zombie, "renew")
    service.close()


def zombie_of_a_lost_past(service: LocalService, url: str, clock: Clock) -> LeaseView:
    """A run that the store has forgotten; another item and another lane have its numbers now."""
    past = Past(url)
    service.add([NewItem(title="before", lane="issue:acme/app#2")])
    zombie = service.next("zombie")[0]
    past.come_back()
    service.add([NewItem(title="after", lane=LANE)])
    heir = service.next("heir")[0]
    assert (zombie.fence, zombie.item.id) == (heir.fence, heir.item.id)
    clock.advance(0.5)
    return zombie


@pytest.mark.parametrize("word", ["done", "fail", "release"])
def test_where_only_numbers_are_compared_a_lost_past_ends_the_run_of_another(
    any_url: str, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    zombie = zombie_of_a_lost_past(service, any_url, clock)
    write_late(service, any_url, zombie, word)
    mutated = mutations.replace_source(endings, ACCEPTANCE, "item.state.run != command.run")
    monkeypatch.setattr(interlock.core.decide, "finish", mutated["finish"])
    with pytest.raises(AssertionError, match="was accepted"):
        write_late(service, any_url, zombie, word)
    service.close()


def test_where_only_numbers_are_compared_a_lost_past_keeps_the_lease_of_another(any_url: str) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    zombie = zombie_of_a_lost_past(service, any_url, clock)
    write_late(service, any_url, zombie, "renew")
    bits = "AND run_bits = :bits" if is_sqlite(any_url) else "AND w.bits = l.run_bits"
    mutations.replace_statement(service, "renew", bits, "")
    with pytest.raises(AssertionError, match="late renew"):
        write_late(service, any_url, zombie, "renew")
    service.close()


def test_a_run_cannot_be_recorded_as_ended_twice(any_url: str) -> None:
    """Behind the acceptance stands a key: the schema refuses a second end of a run."""
    clock = Clock()
    service = open_service(any_url, now=clock)
    zombie, _ = zombie_and_heir(service, clock)
    with pytest.raises((psycopg.errors.UniqueViolation, apsw.ConstraintError)):
        query(
            any_url,
            "INSERT INTO runs (run, item, attempt, agent, started_us, ended_us, status, reason)"
            f" VALUES ({zombie.fence}, {zombie.item.id}, 1, 'zombie', 0, 0, 'succeeded', '')",
        )
    service.close()


@pytest.mark.parametrize("leaps", [1, 2], ids=["as it is", "without their turns"])
def test_of_two_runs_that_meet_forgotten_fences_at_once_one_skips_numbers(
    any_url: str, monkeypatch: pytest.MonkeyPatch, leaps: int
) -> None:
    """The second one reads the numbers before the first one moves them, if nothing keeps them apart."""
    services = [open_service(any_url), open_service(any_url)]
    services[0].add([NewItem(title="work", lane=f"issue:acme/app#{n}") for n in range(2)])
    leases = services[0].next("coder", limit=2, lease_s=60)
    forgotten = leases[1].fence + 5_000
    services[1].renew([Report(run=leases[1].run)])  # it knows its database
    rule, deciding, met, together = continuity.last_run_after_lag, Event(), Event(), []

    def decide(counter: int, past: int, *args: Any, **options: Any) -> int | None:
        if past == forgotten:
            deciding.set()
            together.append(met.wait(0.4))  # a lock keeps the other away
        else:
            met.set()
            assert first.result(PATIENCE_S)
        return rule(counter, past, *args, **options)

    monkeypatch.setattr(continuity, "last_run_after_lag", decide)
    if leaps == 2:
        for service in services:
            mutations.skip_at_once(service)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(services[0].pass_fence, leases[0].run, fence=forgotten, armed_us=0)
        assert deciding.wait(PATIENCE_S)
        second = threads.submit(services[1].pass_fence, leases[1].run, fence=forgotten + 1, armed_us=0)
        assert second.result(PATIENCE_S)
    assert together == [leaps == 2]
    assert [line.kind for line in read_log(any_url)].count("store.leapt") == leaps
    for service in services:
        service.close()


# -- promise 3: no input is lost ----------------------------------------------------------------------


def no_promotion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finish that forgets whom it should hand its lane to."""
    monkeypatch.setattr(endings, "promote", lambda *_: ())


def owner_and_heir(service: LocalService) -> tuple[LeaseView, int]:
    service.add([NewItem(title="owner", lane=LANE)])
    heir = service.add([NewItem(title="heir", lane=LANE)])[0].item
    assert heir is not None
    return service.next("coder", lease_s=60)[0], heir.id


def test_without_promotion_at_the_finish_the_sweeper_leads_the_line(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service(any_url)
    owner, heir = owner_and_heir(service)
    no_promotion(monkeypatch)
    assert service.done([Report(run=owner.run)])[0].promoted == ()
    assert "no_stranded_lane" in ailments(service)
    assert "nothing_lost" in violations(any_url)
    assert "which has no owner" in service.why(heir).why
    assert service.sweep().promoted == 1
    assert_kept(any_url)
    service.close()


def test_without_promotion_at_the_finish_the_next_arrival_leads_the_line_too(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service(any_url)
    owner, heir = owner_and_heir(service)
    no_promotion(monkeypatch)
    service.done([Report(run=owner.run)])
    assert service.add([NewItem(title="third", lane=LANE)])[0].decision == "queued"
    assert service.next("coder")[0].item.id == heir
    assert_kept(any_url)
    service.close()


def test_without_promotion_and_without_the_sweepers_repair_the_doctor_says_so(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service(any_url)
    owner, _ = owner_and_heir(service)
    no_promotion(monkeypatch)
    monkeypatch.setattr(sweeper, "promote_stranded", lambda *_: None)
    service.done([Report(run=owner.run)])
    service.sweep()
    assert "no_stranded_lane" in ailments(service)
    assert "nothing_lost" in violations(any_url)
    service.close()


def heard(service: LocalService, text: str) -> None:
    """The check of every message test: whatever was said is in the hands of a run at the end."""
    said = [m.text for lease in service.next("coder", limit=10) for m in lease.messages]
    assert text in said, "what was said is lost"


def test_a_message_forgotten_at_the_finish_is_noticed(any_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for forgets in (False, True):
        service = open_service(any_url)
        service.add([NewItem(title="work", lane=f"{LANE}{forgets:d}")])
        lease = service.next("coder", lease_s=60)[0]
        service.msg(lease.item.id, "one more thing")
        if forgets:
            monkeypatch.setattr(endings, "_settle_messages", lambda *_: None)
        service.done([Report(run=lease.run)])
        if forgets:
            with pytest.raises(AssertionError, match="lost"):
                heard(service, "one more thing")
        else:
            heard(service, "one more thing")
        service.close()


def test_a_change_without_a_line_of_history_is_noticed(any_url: str) -> None:
    """Whatever is done past the rules shows: the rows no longer say what the lines say."""
    service = open_service(any_url)
    service.add([NewItem(title="work")])
    assert_kept(any_url)
    query(any_url, "UPDATE items SET status = 'cancelled', ended_us = 1")
    assert "rows_match_lines" in violations(any_url)
    service.close()


@pytest.mark.parametrize("looked", [True, False], ids=["as it is", "without the second look"])
def test_without_the_second_look_an_item_that_is_retried_meanwhile_is_pruned(
    pg_url: str, looked: bool
) -> None:
    """It is retried between the look for old items and their locks. On SQLite both are one transaction."""
    service, other = open_service(pg_url), open_service(pg_url)
    item = service.add([NewItem(title="work")])[0].arrival or 0
    service.cancel(item, why="not now")
    if not looked:
        mutations.replace_statement(service, "lock_prunable_items", "ended_us <", "0::bigint <")
    store: Any = service.store
    locked = store.tables.still_prunable

    def late(*args: Any) -> Any:
        other.retry(item)
        return locked(*args)

    store.tables.still_prunable = late
    gone = store.prune_items(store.now_us() + 1, 0, 100, really=True)
    assert gone.items == (0 if looked else 1)
    assert query(pg_url, "SELECT count(*) FROM items") == [(1 if looked else 0,)]
    service.close()
    other.close()


# -- promise 4: no lock outlives its holder -----------------------------------------------------------


def lose_holder(service: LocalService, clock: Clock, seconds: float) -> int:
    item = service.add([NewItem(title="work", lane=LANE)])[0].item
    assert item is not None
    service.next("dying")
    clock.advance(seconds)
    return item.id


def test_without_a_sweeper_the_next_claim_frees_what_is_overdue(any_url: str) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    item = lose_holder(service, clock, 2)
    assert service.next("coder")[0].item.id == item
    assert_kept(any_url)
    service.close()


def test_without_a_sweeper_the_next_arrival_frees_what_is_overdue(any_url: str) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    lose_holder(service, clock, 2)
    service.add([NewItem(title="next", lane=LANE)])
    assert [line.kind for line in read_log(any_url)].count("run.lost") == 1
    assert_kept(any_url)
    service.close()


def test_without_repair_at_the_claim_the_sweeper_frees_what_is_overdue(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    item = lose_holder(service, clock, 2)
    with monkeypatch.context() as lazy:
        lazy.setattr(sweeper, "move_due", lambda *_: None)
        assert service.next("coder") == []
    assert service.sweep().expired == 1
    assert service.next("coder")[0].item.id == item
    assert_kept(any_url)
    service.close()


def test_without_either_the_doctor_names_the_overdue_lease(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    lose_holder(service, clock, 62)
    assert "no_overdue_lease" in ailments(service)
    monkeypatch.setattr(sweeper, "move_due", lambda *_: None)
    service.sweep()
    assert service.next("coder") == []
    assert "no_overdue_lease" in ailments(service)
    service.close()


# -- promise 5: every refusal explains itself ---------------------------------------------------------


def explains(refusal: RefusalView | None, zombie: LeaseView, heir: LeaseView) -> None:
    """The check of every refusal: whose run, how it ended, who has the item now, what to do."""
    assert refusal is not None
    assert refusal.code == "lease_lost"
    for part in (f"Run {zombie.fence}", "lost", "lease_expired", f"run {heir.fence}", "heir"):
        assert part in refusal.message, f"{part!r} is not said"
    assert refusal.cures, "it is not said what to do"


def test_a_refusal_that_explains_nothing_is_noticed(any_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    zombie, heir = zombie_and_heir(service, clock)
    for word in ("done", "renew"):
        view = getattr(service, word)([Report(run=zombie.run)])[0]
        explains(view.refusal, zombie, heir)
    bare = Refusal(code="lease_lost", sentence="No.", hint="")
    monkeypatch.setattr(endings, "explain_loss", lambda *_: bare)
    view = service.done([Report(run=zombie.run)])[0]
    with pytest.raises(AssertionError, match="is not said"):
        explains(view.refusal, zombie, heir)
    service.close()


def test_a_refusal_that_is_not_written_down_is_noticed(any_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the answer stands the history: every refusal is counted."""
    clock = Clock()
    service = open_service(any_url, now=clock)
    zombie, _ = zombie_and_heir(service, clock)
    for refused in (1, 2):
        service.done([Report(run=zombie.run)])
        assert service.stats().refused_writes == refused
    mutated = mutations.replace_source(
        endings, "ledger.event(EventKind.RUN_REFUSED", "(lambda *a, **k: None)(EventKind.RUN_REFUSED"
    )
    monkeypatch.setattr(interlock.core.decide, "finish", mutated["finish"])
    service.done([Report(run=zombie.run)])
    assert service.stats().refused_writes == 2, "nothing was taken out"
    service.close()


def test_whoever_waits_is_told_for_whom_and_until_when(any_url: str) -> None:
    clock = Clock()
    service = open_service(any_url, now=clock)
    service.add([NewItem(title="work", lane=LANE)])
    lease = service.next("holder")[0]
    for policy in ("queue", "reject"):
        view = service.add([NewItem(title="late", lane=LANE, policy=policy)])[0]  # type: ignore[arg-type]
        assert view.holder is not None
        assert (view.holder.run, view.holder.agent) == (lease.fence, "holder")
        assert view.holder.since == clock.now
        assert view.holder.expires_at == lease.expires_at
    assert "it moves up when run" in service.why(2).why
    service.close()
