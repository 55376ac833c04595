"""Many callers at once: threads here, processes in the fault tests. Every promise holds in between, too."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from interlock.core.commands import Arrive
from interlock.core.errors import ItemEnded
from interlock.core.model import CheckedItem, NewItem
from interlock.core.timing import LIVE_QUESTION_TIMEOUT_S
from interlock.service.contract import ItemFilter, LeaseView, Report, Service
from interlock.service.local import LocalService
from interlock.store.port import Load, Store
from tests.conformance.scene import LANE, LEASE_S, Scene

THREADS = 4


def together(work: Callable[[int], object], threads: int = THREADS) -> None:
    """Run `work` in several threads that start at the same moment; what one raises is raised here."""
    gate = threading.Barrier(threads)
    raised: list[BaseException] = []

    def run(n: int) -> None:
        try:
            gate.wait()
            work(n)
        except BaseException as error:
            raised.append(error)

    running = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if raised:
        raise raised[0]


@pytest.fixture
def store(service: Service) -> Store:
    assert isinstance(service, LocalService)
    return service.store


class TestLanes:
    def test_at_no_point_of_history_has_a_lane_two_runs(self, scene: Scene) -> None:
        each, lanes = 10, [LANE, "issue:acme/app#43"]

        def work(n: int) -> None:
            for m in range(each):
                scene.service.add([NewItem(title=f"{n}.{m}", lane=lanes[(n + m) % 2])])
                for lease in scene.service.next(f"worker-{n}", limit=2):
                    scene.service.done([Report(run=lease.run)])

        together(work)
        while leases := scene.service.next("rest", limit=9):
            scene.service.done([Report(run=x.run) for x in leases])

        for lane in lanes:
            fences: list[int] = []
            holder: int | None = None
            for event in scene.history():
                if event.lane != lane or event.run is None:
                    continue
                if event.kind == "run.started":
                    assert holder is None, f"run {event.run} started beside run {holder}"
                    holder = event.run
                    fences.append(event.run)
                elif event.kind == "run.succeeded":
                    assert holder == event.run
                    holder = None
            assert holder is None
            assert fences == sorted(fences), "the fence of a lane grows"
        assert Counter(i.status for i in scene.every()) == {"completed": each * THREADS}

    def test_an_arrival_that_meets_the_holders_finish_is_never_left_without_a_promoter(
        self, scene: Scene
    ) -> None:
        for n in range(8):
            lane = f"issue:acme/app#{n}"
            lease = scene.put_running("owner", lane=lane)

            def meet(who: int, lane: str = lane, run: str = lease.run) -> None:
                if who == 0:
                    scene.service.done([Report(run=run)])
                else:
                    scene.service.add([NewItem(title="newcomer", lane=lane)])

            together(meet, 2)
            owner = scene.owner(lane)
            assert owner is not None
            assert scene.item(owner).title == "newcomer"
            assert scene.status(owner) == "pending"
            scene.done(scene.claim())

    def test_two_reports_of_one_run_end_it_once(self, scene: Scene) -> None:
        for _ in range(8):
            lease = scene.put_running("work", lane=LANE)
            statuses: list[str] = []

            def report(who: int, run: str = lease.run, into: list[str] = statuses) -> None:
                write = scene.service.done if who == 0 else scene.service.fail
                into.append(write([Report(run=run, retry=False)])[0].status)

            together(report, 2)
            assert sorted(statuses) in (["refused", "succeeded"], ["failed", "refused"])
            assert len(scene.service.show(lease.item.id).runs) == 1


class TestArrivals:
    def test_one_delivery_to_many_servers_makes_one_item(self, scene: Scene) -> None:
        decisions: list[str] = []

        def deliver(_: int) -> None:
            for n in range(5):
                new = NewItem(title="work", dedupe_key=f"delivery-{n}", lane=f"issue:acme/app#{n}")
                decisions.append(scene.service.add([new])[0].decision)

        together(deliver)
        assert Counter(decisions) == {"admitted": 5, "duplicate": 5 * (THREADS - 1)}
        assert len(scene.every()) == 5

    def test_many_agents_on_one_free_lane_make_one_owner(self, scene: Scene) -> None:
        decisions: list[str] = []

        def arrive(n: int) -> None:
            decisions.append(
                scene.service.add([NewItem(title="work", lane=LANE, agent=f"agent-{n}")])[0].decision
            )

        together(arrive, 8)
        assert Counter(decisions) == {"admitted": 1, "queued": 7}
        assert len(scene.line()) == 7

    def test_many_inputs_of_one_agent_make_one_run_and_none_is_lost(self, scene: Scene) -> None:
        def arrive(n: int) -> None:
            for m in range(5):
                new = NewItem(
                    title=f"{n}.{m}", lane=LANE, agent="coder", policy=scene.new(policy="coalesce").policy
                )
                scene.service.add([new])

        together(arrive)
        (owner,) = scene.unfinished()
        told = scene.texts(owner.id)
        assert sorted([owner.title, *told]) == sorted(f"{n}.{m}" for n in range(THREADS) for m in range(5))

    def test_the_line_follows_the_tickets_and_not_who_won_the_lock(self, scene: Scene, store: Store) -> None:
        scene.put_running("owner", lane=LANE)
        (early,) = store.tickets(1)
        scene.clock.advance(0.001)
        late = scene.put("took its ticket later but arrived first", lane=LANE)
        scene.clock.advance(5)

        def build(ids: object) -> list[Arrive]:
            assert isinstance(ids, list)
            return [Arrive(item=CheckedItem(title="early", lane=LANE), id=ids[0], ticket=early)]

        decision = store.transact(Load(lanes=(LANE,), keys=(None,), arrivals=1), build)
        assert scene.line() == [decision.answers[0].arrived, late]

    def test_whoever_arrives_after_another_has_arrived_has_a_higher_ticket(self, scene: Scene) -> None:
        items = []
        for step_s in (1, 0, 0, -3600, 0, 1):
            scene.clock.advance(step_s)
            items += [a.arrival or 0 for a in scene.service.add([NewItem(title="work")] * 2)]
        tickets = [scene.item(i).ticket for i in items]
        assert tickets == sorted(set(tickets))


class TestClaims:
    def test_an_agent_that_asks_from_many_places_keeps_to_its_limit(self, scene: Scene) -> None:
        scene.service.set_agent("coder", max_concurrency=3)
        for n in range(12):
            scene.put(f"item {n}")
        claimed: list[int] = []

        def claim(_: int) -> None:
            claimed.extend(x.fence for x in scene.service.next("coder", limit=2))

        together(claim)
        while more := scene.service.next("coder", limit=5):
            claimed.extend(x.fence for x in more)
        assert len(claimed) == len(set(claimed)) == 3

    def test_many_takers_of_one_blocked_lane_start_one_run(self, scene: Scene) -> None:
        for n in range(5):
            lane = f"issue:acme/app#{n}"
            scene.put("owner", lane=lane, agent="unknown")
            for taker in range(THREADS):
                scene.put("item", lane=lane, agent=f"taker-{taker}")
        lanes: list[str | None] = []

        def take(n: int) -> None:
            lanes.extend(x.item.lane for x in scene.service.next(f"taker-{n}", limit=5))

        together(take)
        assert len(lanes) == len(set(lanes))
        for n in range(THREADS):
            take(n)
        assert len(lanes) == len(set(lanes)) == 5

    def test_an_item_claimed_while_it_is_cancelled_ends_and_is_never_both(self, scene: Scene) -> None:
        for _ in range(8):
            item = scene.put("work")
            started: list[Report] = []

            def meet(who: int, item: int = item, into: list[Report] = started) -> None:
                if who == 0:
                    into.extend(Report(run=x.run) for x in scene.service.next("coder"))
                else:
                    scene.service.cancel(item, why="not needed")

            together(meet, 2)
            view = scene.item(item)
            if started:
                assert view.status == "in_progress"
                assert view.cancel_requested
                scene.service.release(started)
            assert scene.status(item) == "cancelled"


class TestSweeps:
    def test_many_sweepers_end_each_run_once_and_hand_each_lane_on_once(self, scene: Scene) -> None:
        lanes = [f"issue:acme/app#{n}" for n in range(10)]
        for lane in lanes:
            scene.put("owner", lane=lane, max_attempts=1)
            scene.put("next", lane=lane)
        assert len(scene.service.next("coder", limit=10)) == 10
        scene.clock.advance(LEASE_S)
        together(lambda _: scene.service.sweep())
        assert Counter(i.status for i in scene.every()) == {"failed": 10, "pending": 10}
        assert len(scene.events("run.lost")) == len(scene.events("lane.promoted")) == 10

    def test_a_renewal_that_meets_the_sweeper_is_kept_or_refused_and_never_both(self, scene: Scene) -> None:
        for _ in range(8):
            lease = scene.put_running("work")
            scene.clock.advance(LEASE_S)
            seen: list[str] = []

            def meet(who: int, run: str = lease.run, into: list[str] = seen) -> None:
                if who == 0:
                    into.append(scene.service.renew([Report(run=run)])[0].status)
                else:
                    scene.service.sweep()

            together(meet, 2)
            kept = scene.item(lease.item.id).run == lease.fence
            assert seen == ["running" if kept else "refused"]
            scene.cancel(lease.item.id, force=True)


class TestLiveQuestions:
    """A live run asks, and two callers meet."""

    ROUNDS = 8

    def _asking(self, scene: Scene, n: int) -> LeaseView:
        lease = scene.put_running(f"round {n}", lane=f"issue:acme/app#{n}")
        scene.service.ask(lease.run, "Which?", keep_lease=True)
        return lease

    def _counts(self, scene: Scene, item: int) -> Counter[str]:
        return Counter(e.kind.removeprefix("question.") for e in scene.service.show(item).events)

    def test_an_answer_that_meets_the_end_of_the_run_is_refused_or_kept(self, scene: Scene) -> None:
        for n in range(self.ROUNDS):
            lease = self._asking(scene, n)
            told: list[str] = []

            def meet(who: int, lease: LeaseView = lease, told: list[str] = told) -> None:
                if who == 0:
                    assert scene.done(lease).status == "succeeded"
                else:
                    with suppress(ItemEnded):
                        scene.service.msg(lease.item.id, "This one.")
                        told.append("kept")

            together(meet, 2)
            counts = self._counts(scene, lease.item.id)
            assert scene.service.items(ItemFilter(asking=True)) == []
            assert (counts["asked"], counts["answered"]) == (1, len(told))
            follow_ups = [i for i in scene.unfinished() if i.title.startswith("Follow-up: ")]
            assert [scene.texts(i.id) for i in follow_ups] == [["Which?", "This one."]] * len(told)
            for item in follow_ups:
                scene.cancel(item.id)

    def test_a_prompt_answered_at_the_terminal_and_elsewhere_is_answered_once(self, scene: Scene) -> None:
        for n in range(self.ROUNDS):
            lease = self._asking(scene, n)

            def meet(who: int, lease: LeaseView = lease) -> None:
                if who == 0:
                    assert scene.service.close_question(lease.run).status == "running"
                else:
                    scene.service.msg(lease.item.id, "This one.")

            together(meet, 2)
            counts = self._counts(scene, lease.item.id)
            assert (counts["asked"], counts["answered"]) == (1, 1)
            assert scene.texts(lease.item.id)[-1] == "This one."
            assert scene.service.items(ItemFilter(asking=True)) == []
            assert scene.done(lease, seen=scene.item(lease.item.id).messages).status == "succeeded"

    def test_a_time_out_that_meets_a_late_renewal_ends_the_run_or_not_but_never_both(
        self, scene: Scene
    ) -> None:
        for n in range(self.ROUNDS):
            lease = self._asking(scene, n)
            scene.pass_s(LIVE_QUESTION_TIMEOUT_S)
            renewed: list[str] = []

            def meet(
                who: int, run: str = lease.run, item: int = lease.item.id, renewed: list[str] = renewed
            ) -> None:
                if who == 0:
                    scene.service.sweep()
                else:
                    renewed.append(scene.service.renew([Report(run=run)])[0].status)

            together(meet, 2)
            item, counts = scene.item(lease.item.id), self._counts(scene, lease.item.id)
            assert item.asking
            assert (item.status, counts["timed_out"]) == (
                ("in_progress", 0) if renewed == ["running"] else ("pending", 1)
            )
            scene.cancel(lease.item.id, force=True)
