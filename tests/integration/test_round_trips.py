"""Round trips to PostgreSQL: on a network they are what an operation costs, and they are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import psycopg
import pytest

from interlock.core.model import NewItem, Policy
from interlock.core.plans.model import AddTask, Graph, TaskSpec
from interlock.service.contract import LeaseView, NextWish, Report
from interlock.service.local import LocalService
from interlock.service.trace_export import TraceExporter
from interlock.store.access import RepeatableRequest
from interlock.store.outbox import Effect
from interlock.store.port import EventQuery
from interlock.store.postgres.database import Database
from interlock.store.postgres.early_ends import EarlyEnds
from interlock.store.postgres.store import PostgresStore
from tests.wire import CountingWire

#: Until the driver has prepared every statement and the server keeps their plans.
WARM_UP = 12


class Desk:
    """A service behind a wire, and what an operation on it costs once it is warm."""

    def __init__(self, wire: CountingWire) -> None:
        self.wire = wire
        self.store = PostgresStore(Database(wire.url, max_connections=1))
        self.store.database.notify = lambda: None  # type: ignore[method-assign]  # a thread of its own sends them
        self.store.claims.scan_starts.slow_us = 10**12  # after a slow claim the next is another one
        self.service = LocalService(self.store)
        self.lanes = 0

    def cost(
        self, work: Callable[[Any], object], prepare: Callable[[], Any] = lambda: None
    ) -> tuple[int, int]:
        """Round trips and statements of `work`, each time on what `prepare` made."""
        for _ in range(WARM_UP):
            work(prepare())
        given = prepare()
        with self.wire.counted() as counted:
            work(given)
        return counted.round_trips, counted.statements

    def lane(self) -> str:
        self.lanes += 1
        return f"issue:acme/app#{self.lanes}"

    def add(self, count: int = 1, **fields: Any) -> None:
        self.service.add([NewItem(title="work", **fields) for _ in range(count)])

    def claimed(self, count: int = 1, agent: str = "coder", **fields: Any) -> list[LeaseView]:
        self.add(count, **fields)
        return self.service.next(agent, limit=count)

    def renewed(self, count: int = 1, **fields: Any) -> list[LeaseView]:
        leases = self.claimed(count, **fields)
        self.service.renew(reports(leases))
        return leases

    def with_heirs(self, count: int) -> list[LeaseView]:
        lanes = [self.lane() for _ in range(count)]
        self.service.add([NewItem(title="owner", lane=lane) for lane in lanes])
        self.service.add([NewItem(title="heir", lane=lane, agent="heir") for lane in lanes])
        leases = self.service.next("coder", limit=count)
        self.service.renew(reports(leases))
        return leases

    def done(self, leases: list[LeaseView]) -> None:
        assert all(view.refusal is None for view in self.service.done(reports(leases)))


def reports(leases: list[LeaseView]) -> list[Report]:
    return [Report(run=lease.run) for lease in leases]


@pytest.fixture
def desk(pg_database18: str) -> Iterator[Desk]:
    with CountingWire(pg_database18) as wire:
        desk = Desk(wire)
        yield desk
        desk.service.close()


def test_a_claim_that_hits_takes_one_round_trip(desk: Desk) -> None:
    hit = desk.cost(lambda _: desk.service.next("coder")[0], desk.add)
    assert hit == (1, 1)
    assert desk.cost(lambda _: desk.service.next("coder", types=["task"])[0], desk.add) == hit
    desk.service.set_agent("coder", types=["task"], labels=["gpu"])
    assert desk.cost(lambda _: desk.service.next("coder")[0], desk.add) == hit


def test_a_claim_whose_answer_is_kept_takes_three(desk: Desk) -> None:
    """One looks for the answer to an earlier request with its key, one claims, one keeps and commits."""
    keys = count()

    def claim(_: Any) -> None:
        request = RepeatableRequest(key=f"key {next(keys)}", asked="next")
        assert desk.service.answering(request).next("coder")

    assert desk.cost(claim, desk.add) == (3, 5)


def test_claims_of_several_agents_that_share_take_three(desk: Desk) -> None:
    keys = count()

    def claim(_: Any) -> None:
        requests = [RepeatableRequest(key=f"key {next(keys)}", asked="next") for _ in range(8)]
        steps = [desk.service.steps("next", request)(f"a{n}") for n, request in enumerate(requests)]
        assert all(each.value for each in desk.service.carry_out_all(steps))

    assert desk.cost(claim, lambda: desk.add(8)) == (3, 12)


def test_a_claim_of_an_agent_with_a_limit_takes_two(desk: Desk) -> None:
    """One to lock the agent and count its runs, one to start within the room that is left and commit."""
    desk.service.set_agent("coder", max_concurrency=1000)
    trips, _ = desk.cost(lambda _: desk.service.next("coder")[0], desk.add)
    assert trips == 2


def test_a_claim_of_a_task_takes_one(desk: Desk) -> None:
    def plan() -> None:
        desk.service.create_plan(name="plan", graph=Graph(tasks=(TaskSpec(key="a", title="a"),)))

    trips, _ = desk.cost(lambda _: desk.service.next("coder")[0], plan)
    assert trips == 1


def test_a_claim_that_misses_takes_two(desk: Desk) -> None:
    """The second looks whether somebody had just locked what there is."""
    trips, _ = desk.cost(lambda _: desk.service.next("coder"))
    assert trips == 2


@pytest.mark.parametrize("count", [1, 4, 100])
def test_a_renewal_takes_one_however_many_runs(desk: Desk, count: int) -> None:
    assert desk.cost(lambda leases: desk.service.renew(reports(leases)), lambda: desk.claimed(count)) == (
        1,
        1,
    )


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("kind", ["claimed", "renewed"])
def test_a_finish_without_a_lane_takes_one_whether_its_runs_were_renewed_or_not(
    desk: Desk, count: int, kind: str
) -> None:
    """It was decided before."""
    assert desk.cost(desk.done, lambda: getattr(desk, kind)(count)) == (1, 1)


@pytest.mark.parametrize("count", [1, 100])
def test_a_finish_by_a_process_that_neither_claimed_nor_renewed_the_run_takes_two(
    desk: Desk, count: int
) -> None:
    """Begin, lock, load; then end the item, record what happened, commit."""

    def claimed_elsewhere() -> list[LeaseView]:
        leases = desk.claimed(count)
        desk.store.transactions.early_ends = EarlyEnds(desk.store.database)
        return leases

    assert desk.cost(desk.done, claimed_elsewhere) == (2, 6)


def test_a_finish_whose_answer_is_kept_takes_three(desk: Desk) -> None:
    """One looks for the answer to an earlier request with its key."""
    keys = count()

    def done(leases: list[LeaseView]) -> None:
        request = RepeatableRequest(key=f"key {next(keys)}", asked="done")
        desk.service.answering(request).done(reports(leases))

    assert desk.cost(done, desk.renewed) == (3, 5)


@pytest.mark.parametrize("count", [1, 100])
def test_a_finish_on_lanes_that_promotes_heirs_takes_two(desk: Desk, count: int) -> None:
    """The eighth statement is for new lanes: they remember who ran them."""
    assert desk.cost(desk.done, lambda: desk.with_heirs(count)) == (2, 8)


def test_a_lane_that_the_same_agent_runs_again_is_not_written(desk: Desk) -> None:
    assert desk.cost(desk.done, lambda: desk.renewed(lane="issue:acme/app#1")) == (2, 6)


@pytest.mark.parametrize("outcome", ["fail", "release"])
def test_every_other_end_takes_two_as_well(desk: Desk, outcome: str) -> None:
    end = getattr(desk.service, outcome)
    trips, _ = desk.cost(lambda leases: end(reports(leases)), desk.renewed)
    assert trips == 2


@pytest.mark.parametrize(
    ("limit", "lane", "cost"),
    [(None, None, (1, 4)), (1000, None, (2, 7)), (None, "issue:acme/app#1", (2, 7))],
    ids=["plain", "limited", "on a lane"],
)
def test_an_end_with_a_claim_shares_its_commit_and_on_a_lane_takes_one_less(
    desk: Desk, limit: int | None, lane: str | None, cost: tuple[int, int]
) -> None:
    """Without a lane the claim of the first item travels behind the end, on a lane with what the end writes.
    With a limit the agent's runs are counted in between: the client waits for that as well, by a flush, which
    the wire does not see."""
    if limit is not None:
        desk.service.set_agent("coder", max_concurrency=limit)

    def prepare() -> list[LeaseView]:
        leases = desk.renewed(lane=lane)
        desk.add()
        return leases

    wish = NextWish("coder")
    found = desk.cost(lambda leases: desk.service.done(reports(leases), next=wish).leases[0], prepare)
    assert found == cost
    leases = prepare()
    with desk.wire.counted() as counted:
        desk.service.done(reports(leases), next=wish)
    assert counted.commits == 1


def test_an_arrival_takes_four(desk: Desk) -> None:
    """A ticket before any lock, an id, lock and load, write and commit."""
    assert desk.cost(lambda lane: desk.add(lane=lane), desk.lane)[0] == 4
    lane = desk.lane()
    desk.claimed(lane=lane)
    assert desk.cost(lambda _: desk.add(lane=lane))[0] == 4
    assert desk.cost(lambda _: desk.add(100))[0] == 4


def test_a_sweep_with_nothing_due_takes_five(desk: Desk) -> None:
    """Plans that stop, deadlines, lines, and two for dedupe keys: each is asked whether there is anything."""
    assert desk.cost(lambda _: desk.service.sweep())[0] == 5


def test_an_edit_of_a_plan_takes_a_bounded_number(desk: Desk) -> None:
    plan = desk.service.create_plan(name="plan", graph=Graph(tasks=(TaskSpec(key="a", title="a"),)))
    keys = iter(range(1000))

    def edit(_: object) -> None:
        operation = AddTask(task=TaskSpec(key=f"t{next(keys)}", title="new"))
        base = desk.service.plan(plan.id).revision
        desk.service.edit_plan(plan.id, base=base, operations=[operation])

    assert desk.cost(edit)[0] < 40


def test_the_wire_counts_what_a_plain_client_does(pg_database18: str) -> None:
    with CountingWire(pg_database18) as wire, psycopg.connect(wire.url, autocommit=True) as conn:
        with wire.counted() as one:
            conn.execute("SELECT 1")
        with wire.counted() as three, conn.transaction():
            conn.execute("SELECT 1")
        assert (one.round_trips, three.round_trips, three.statements) == (1, 3, 3)


def test_the_history_of_a_hundred_items_becomes_spans_with_two(desk: Desk) -> None:
    """One for the items and who absorbed them, one for their payloads."""
    desk.add(50, payload='{"n": 1}')
    desk.add(50, lane=desk.lane(), agent="coder", policy=Policy.COALESCE, message="look")
    nowhere: Any = None
    following = TraceExporter(desk.store, nowhere, {})
    found = desk.store.events(EventQuery(limit=200))
    assert len({each.event.item for each in found}) == 100
    assert desk.cost(lambda _: following.spans_of(found))[0] == 2


def test_a_worker_that_says_it_is_there_takes_two(desk: Desk) -> None:
    """One for itself, and one for those that were not seen for long; every few seconds."""

    def see(_: object) -> None:
        desk.service.see_worker("w", host="h", pid=1, folder="/", agent="coder", slots=1, runs=0)

    assert desk.cost(see)[0] == 2
    assert desk.cost(lambda _: desk.service.workers())[0] == 2


def test_recent_runs_are_listed_in_one(desk: Desk) -> None:
    assert desk.cost(lambda _: desk.service.recent_runs(worker="actions-"))[0] == 1


def test_what_waits_for_a_person_is_listed_in_one(desk: Desk) -> None:
    assert desk.cost(lambda _: desk.service.stopped())[0] == 1


def test_external_runs_are_listed_in_one(desk: Desk) -> None:
    assert desk.cost(lambda _: desk.service.external())[0] == 1


def test_a_notice_takes_five(desk: Desk) -> None:
    """One to read the mark, one to lease it, and a transaction to move it."""
    store = desk.store
    store.begin_mark("on_question", 0)

    def lease(_: object) -> None:
        mark = store.mark("on_question")
        assert mark is not None
        store.lease_mark(mark, 1, 60.0)
        store.move_mark("on_question", 1, seq=mark.seq)

    assert desk.cost(lease)[0] == 5


def test_the_name_of_the_store_and_its_ancestors_take_one(desk: Desk) -> None:
    assert desk.cost(lambda _: desk.service.lineage())[0] == 1


def test_an_effect_is_owed_in_five_and_sent_with_ten(desk: Desk) -> None:
    """A transaction each to owe, to take and to settle: with begin and commit five each."""
    github = desk.store.github
    github.repository(1, "acme/app")
    outbox, names = github.outbox, iter(range(1_000))

    def enqueue(_: object) -> None:
        outbox.enqueue([Effect(1, 4, f"effect-{next(names)}", "comment", "{}")])

    def send(_: object) -> None:
        taken = outbox.take(60)
        assert taken is not None
        assert outbox.settle(taken, made=1, outcome="")

    def send_notice(_: object) -> None:
        taken = outbox.take(60, -1)
        assert taken is not None
        assert outbox.settle(taken, made=None, outcome="")

    assert desk.cost(enqueue)[0] == 5
    assert desk.cost(send)[0] == 10
    assert desk.cost(lambda _: outbox.take(60))[0] == 3
    github.repository(-1, "hooks.example.com")
    outbox.enqueue([Effect(-1, 0, f"question:{n}", "notice", "{}") for n in range(50)])
    assert desk.cost(send_notice)[0] == 9  # it is not marked as sent


def test_what_is_next_takes_three_more_for_each_further_item(desk: Desk) -> None:
    """Taken out: what several predictions need is read once; then it took eleven."""
    desk.add(10, agent="coder")

    one, _ = desk.cost(lambda _: desk.service.upcoming(limit=1))
    nine, _ = desk.cost(lambda _: desk.service.upcoming(limit=9))
    assert nine == one + 8 * 3


def test_the_start_of_a_window_of_the_history_takes_one(desk: Desk) -> None:
    """Taken out: the bisection inside of the statement; each of its steps was a round trip."""

    def counted() -> int:
        return desk.cost(lambda _: desk.service.stats(window_s=60.0))[0]

    desk.add(2)
    few = counted()
    desk.add(500)
    assert counted() == few
