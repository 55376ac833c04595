"""Handing out work: who gets what, in which order, how often, and what is kept of it."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

import pytest

from interlock.core.errors import InvalidInput
from interlock.service.contract import ItemFilter, LeaseView, Report, Service
from tests.conformance.conftest import OpenService
from tests.conformance.scene import FIRST_BACK_OFF_S, LEASE_S, Scene, said


class TestOrder:
    def test_the_highest_priority_goes_first_and_among_equals_the_oldest(self, scene: Scene) -> None:
        low = scene.put("low", priority=1)
        old, young = scene.put("old", priority=5), scene.put("young", priority=5)
        high = scene.put("high", priority=10)
        unwanted = scene.put("negative", priority=-3)
        assert [scene.claim().item.id for _ in range(5)] == [high, old, young, low, unwanted]

    def test_a_batch_is_claimed_in_the_same_order_and_each_run_has_a_fence_of_its_own(
        self, scene: Scene
    ) -> None:
        for n in range(9):
            scene.put(str(n), priority=n % 3)
        leases = scene.service.next("coder", limit=9)
        assert "".join(x.item.title for x in leases) == "258147036"
        assert len({x.fence for x in leases}) == 9

    def test_items_of_one_batch_keep_their_order(self, scene: Scene) -> None:
        answers = scene.service.add([scene.new(f"item {n}") for n in range(50)])
        leases = scene.service.next("coder", limit=50)
        assert [x.item.id for x in leases] == [a.arrival for a in answers]

    def test_items_for_me_and_items_for_anyone_stand_in_one_order(self, scene: Scene) -> None:
        anyone = scene.put("for anyone", priority=5)
        mine = scene.put("for me", priority=5, agent="coder")
        urgent = scene.put("for anyone, urgent", priority=9)
        leases = scene.service.next("coder", limit=2)
        assert [x.item.id for x in leases] == [urgent, anyone]
        assert scene.claim().item.id == mine

    def test_with_ageing_an_old_item_of_low_priority_is_at_last_first(
        self, open_service: OpenService, scene: Scene
    ) -> None:
        ageing = Scene(open_service(ageing_step_s=60), scene.clock)
        low = ageing.put("low", priority=0)
        scene.clock.advance(4 * 60)
        high = ageing.put("high", priority=5)
        scene.clock.advance(2 * 60)
        late = ageing.put("too late for its priority", priority=5)
        assert [ageing.claim().item.id for _ in range(3)] == [high, low, late]


class TestMatching:
    def test_an_item_for_another_agent_is_not_mine(self, scene: Scene) -> None:
        theirs = scene.put("theirs", agent="planner")
        assert scene.idle("coder")
        assert scene.claim("planner").item.id == theirs

    def test_agents_are_compared_trimmed_and_in_lower_case(self, scene: Scene) -> None:
        item = scene.put("work", agent=" Coder ")
        assert scene.claim("CODER\t").item.id == item
        assert scene.item(item).run_agent == "coder"

    def test_a_claim_may_name_types(self, scene: Scene) -> None:
        scene.put("triage", type="issue_triage", priority=10)
        review, build = scene.put("review", type="pr_review"), scene.put("build", type="build_failure")
        wanted = ["pr_review", "build_failure"]
        assert scene.claim(types=wanted).item.id == review
        assert scene.claim(types=wanted).item.id == build
        assert scene.idle(types=wanted)

    def test_an_agents_own_types_hold_for_each_of_its_claims(self, scene: Scene) -> None:
        scene.service.set_agent("coder", types=["pr_review"])
        scene.put("triage", type="issue_triage")
        assert scene.idle()
        assert scene.idle(types=["issue_triage"])
        review = scene.put("review", type="pr_review")
        assert scene.claim().item.id == review

    def test_an_item_is_offered_only_where_all_its_labels_are_held(self, scene: Scene) -> None:
        both = scene.put("needs both", labels=("gpu", "linux"))
        assert scene.idle()
        assert scene.idle(labels=["gpu"])
        assert scene.claim(labels=["linux", "gpu", "big"]).item.id == both

    def test_an_agents_own_labels_count(self, scene: Scene) -> None:
        scene.service.set_agent("coder", labels=["gpu"])
        item = scene.put("needs a gpu", labels=("gpu",))
        assert scene.idle("planner")
        assert scene.claim("coder").item.id == item

    def test_an_item_nobody_can_do_does_not_stand_in_the_way_of_the_next(self, scene: Scene) -> None:
        scene.put("needs a unicorn", labels=("unicorn",), priority=10)
        plain = scene.put("plain")
        assert scene.claim().item.id == plain

    def test_a_claim_needs_a_name(self, service: Service) -> None:
        with pytest.raises(InvalidInput, match="agent name is empty"):
            service.next("  ")


class TestConcurrency:
    def test_an_agent_runs_no_more_at_once_than_it_may(self, scene: Scene) -> None:
        scene.service.set_agent("coder", max_concurrency=2)
        for n in range(4):
            scene.put(f"item {n}")
        leases = scene.service.next("coder", limit=4)
        assert len(leases) == 2
        assert scene.idle("coder")
        scene.done(leases[0])
        assert len(scene.service.next("coder", limit=4)) == 1

    @pytest.mark.parametrize("ending", ["fail", "release", "lost", "taken back", "forced"])
    def test_room_comes_back_whatever_way_a_run_ended(self, scene: Scene, ending: str) -> None:
        scene.service.set_agent("coder", max_concurrency=1)
        lease = scene.put_running("first")
        second = scene.put("second", priority=10)
        assert scene.idle()
        if ending == "fail":
            scene.fail(lease)
        elif ending == "release":
            scene.release(lease)
        elif ending == "lost":
            scene.lose(lease)
        elif ending == "taken back":
            scene.service.take_back(lease.item.id, why="gone")
        else:
            scene.cancel(lease.item.id, force=True)
        assert scene.claim().item.id == second

    def test_the_limit_of_one_agent_is_not_that_of_another(self, scene: Scene) -> None:
        scene.service.set_agent("coder", max_concurrency=1)
        scene.put("one")
        scene.put("two")
        scene.claim("coder")
        assert scene.idle("coder")
        scene.claim("planner")

    def test_a_limit_may_be_lifted(self, scene: Scene) -> None:
        scene.service.set_agent("coder", max_concurrency=1)
        assert scene.service.set_agent("coder", unlimited=True).max is None
        scene.put("one")
        scene.put("two")
        assert len(scene.service.next("coder", limit=5)) == 2

    def test_what_is_not_named_stays_when_an_agent_is_set_again(self, scene: Scene) -> None:
        scene.service.set_agent("coder", max_concurrency=3, types=["review"], labels=["gpu"])
        view = scene.service.set_agent("coder", types=["triage"])
        assert (view.max, view.types, view.labels) == (3, ("triage",), ("gpu",))

    def test_many_claims_at_once_give_each_item_to_one_of_them(self, scene: Scene) -> None:
        ids = {scene.put(f"item {n}") for n in range(12)}
        claimed: list[list[LeaseView]] = []
        gate = threading.Barrier(4)

        def worker(name: str) -> None:
            gate.wait()
            claimed.append(scene.service.next(name, limit=3))

        threads = [threading.Thread(target=worker, args=(f"worker-{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        got = [lease.item.id for leases in claimed for lease in leases]
        assert len(got) == len(set(got))
        while leases := scene.service.next("rest", limit=12):
            got += [lease.item.id for lease in leases]
        assert set(got) == ids


class TestLease:
    def test_a_claim_answers_with_the_right_to_write_and_everything_about_the_item(
        self, scene: Scene
    ) -> None:
        payload = {"a": [1, None, {"ü": "🔒"}]}
        item = scene.put("work", payload=json.dumps(payload), type="review", priority=3, message="look")
        lease = scene.claim("coder", worker="host-1")
        assert lease.item.id == item
        assert lease.item.status == "in_progress"
        assert lease.item.payload == payload
        assert (lease.item.run, lease.item.run_agent, lease.item.worker) == (lease.fence, "coder", "host-1")
        assert (lease.item.type, lease.item.priority, lease.item.attempt) == ("review", 3, 1)
        assert lease.expires_at == scene.clock.in_s(LEASE_S)
        assert (lease.lease_s, lease.renew_within_s) == (LEASE_S, LEASE_S / 3)
        assert said(lease.messages) == ["look"]
        assert scene.service.item_of(lease.run) == item

    def test_an_empty_queue_is_an_empty_answer(self, scene: Scene) -> None:
        assert scene.service.next("coder", limit=10) == []

    def test_fences_grow_over_all_items_of_a_store(self, scene: Scene) -> None:
        scene.put("one")
        first = scene.claim()
        scene.release(first)
        second = scene.claim()
        scene.put("two")
        third = scene.claim()
        assert first.fence < second.fence < third.fence

    def test_waiting_for_work_ends_when_work_arrives(self, scene: Scene) -> None:
        other = threading.Thread(target=lambda: scene.put("work"))
        other.start()
        leases = scene.service.next("coder", wait_s=30)
        other.join()
        assert [lease.item.title for lease in leases] == ["work"]

    def test_waiting_for_longer_than_the_limit_is_refused(self, service: Service) -> None:
        with pytest.raises(InvalidInput, match="wait 61 is out of range"):
            service.next("coder", wait_s=61)


class TestEndings:
    def test_complete_ends_the_item_and_records_the_run(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        started = scene.clock.now
        scene.clock.advance(30)
        view = scene.done(lease, result='{"pull": 7}')
        assert view.status == "succeeded"
        assert view.item is not None
        assert (view.item.status, view.item.run, view.item.expires_at) == ("completed", None, None)
        assert view.item.ended_at == scene.clock.now
        (run,) = scene.service.show(lease.item.id).runs
        assert (run.run, run.agent, run.attempt, run.status) == (lease.fence, "coder", 1, "succeeded")
        assert (run.started_at, run.ended_at) == (started, started + timedelta(seconds=30))
        assert run.result == {"pull": 7}

    def test_a_run_that_goes_on_is_shown_without_an_end(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        (run,) = scene.service.show(lease.item.id).runs
        assert (run.run, run.status, run.ended_at) == (lease.fence, "running", None)

    def test_release_gives_the_item_to_the_next_agent(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        view = scene.release(lease)
        assert view.item is not None
        assert (view.status, view.item.status) == ("released", "pending")
        again = scene.claim("planner")
        assert (again.item.id, again.item.attempt) == (lease.item.id, 1)

    def test_fail_waits_out_a_back_off_and_tries_again(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        view = scene.fail(lease, error="tests are red")
        assert view.item is not None
        assert (view.status, view.item.status) == ("failed", "waiting")
        assert view.item.run_at is not None
        assert scene.clock.in_s(7.5) <= view.item.run_at <= scene.clock.in_s(12.5)
        assert scene.idle()
        scene.clock.advance(FIRST_BACK_OFF_S)
        again = scene.claim()
        assert (again.item.id, again.item.attempt) == (lease.item.id, 2)
        runs = scene.service.show(lease.item.id).runs
        assert [(r.status, r.error) for r in runs] == [("failed", "tests are red"), ("running", None)]

    def test_after_the_last_attempt_the_item_is_a_dead_letter_that_can_be_listed_and_retried(
        self, scene: Scene
    ) -> None:
        lease = scene.put_running("work", max_attempts=2)
        scene.fail(lease)
        scene.clock.advance(FIRST_BACK_OFF_S)
        scene.fail(scene.claim())
        dead = scene.service.items(ItemFilter(statuses=("failed",)))
        assert [(i.id, i.reason) for i in dead] == [(lease.item.id, "attempts_exhausted")]
        assert scene.idle()
        view = scene.service.retry(lease.item.id, why="the runner is mended")
        assert view.item.status == "pending"
        again = scene.claim()
        assert again.item.attempt == 3
        scene.fail(again)
        assert scene.status(lease.item.id) == "failed"

    def test_fail_without_retry_is_for_good_although_attempts_are_left(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        view = scene.fail(lease, retry=False)
        assert view.item is not None
        assert (view.item.status, view.item.reason) == ("failed", "no_retry")

    def test_back_offs_grow_from_attempt_to_attempt(self, scene: Scene) -> None:
        scene.put("work", max_attempts=4)
        for least_s, most_s in ((7.5, 12.5), (15, 25), (30, 50)):
            view = scene.fail(scene.claim())
            assert view.item is not None
            assert view.item.run_at is not None
            assert scene.clock.in_s(least_s) <= view.item.run_at <= scene.clock.in_s(most_s)
            scene.clock.advance(most_s)

    def test_three_releases_in_a_row_cause_a_back_off(self, scene: Scene) -> None:
        item = scene.put("work")
        for expected in ("pending", "pending", "waiting"):
            scene.release(scene.claim())
            assert scene.status(item) == expected
        assert scene.item(item).reason == "released_often"
        assert scene.idle()
        scene.clock.advance(FIRST_BACK_OFF_S)
        assert scene.claim().item.attempt == 1

    def test_a_batch_of_finishes_ends_each_run_once(self, scene: Scene) -> None:
        for n in range(20):
            scene.put(f"item {n}")
        leases = scene.service.next("coder", limit=20)
        views = scene.service.done([Report(run=x.run) for x in leases])
        assert [v.run for v in views] == [x.run for x in leases]
        assert {v.status for v in views} == {"succeeded"}
        again = scene.service.done([Report(run=x.run) for x in leases])
        assert {v.status for v in again} == {"refused"}

    def test_one_late_run_in_a_batch_does_not_spoil_the_others(self, scene: Scene) -> None:
        late, good = scene.put_running("one"), scene.put_running("two")
        scene.done(late)
        first, second = scene.service.done([Report(run=late.run), Report(run=good.run)])
        assert (first.status, second.status) == ("refused", "succeeded")

    def test_a_result_must_be_json(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        with pytest.raises(InvalidInput, match="result is not valid JSON"):
            scene.done(lease, result="{")
        assert scene.status(lease.item.id) == "in_progress"


class TestListing:
    def test_unfinished_items_are_listed_unless_all_are_asked_for(self, scene: Scene) -> None:
        ended = scene.put_running("ended")
        scene.done(ended)
        open_one = scene.put("open")
        assert [i.id for i in scene.unfinished()] == [open_one]
        assert [i.id for i in scene.every()] == [ended.item.id, open_one]

    def test_filters_are_combined(self, scene: Scene) -> None:
        wanted = scene.put("a", project="acme", type="review", agent="coder", lane="issue:acme/app#1")
        scene.put("b", project="acme", type="review", agent="planner", lane="issue:acme/app#2")
        scene.put("c", project="other", type="review", agent="coder", lane="issue:acme/app#3")
        scene.put("d", project="acme", type="triage", agent="coder")
        for only in (
            {"project": "acme", "type": "review", "agent": " CODER "},
            {"lane": "Issue:Acme/App#1"},
            {"statuses": ("pending",), "lane": "issue:acme/app#1"},
        ):
            assert [i.id for i in scene.every(**only)] == [wanted]

    def test_a_list_has_a_limit_and_keeps_to_the_newest(self, scene: Scene) -> None:
        ids = [scene.put(f"item {n}") for n in range(5)]
        assert [i.id for i in scene.every(limit=2)] == ids[-2:]

    def test_a_status_that_does_not_exist_is_a_mistake(self, service: Service) -> None:
        with pytest.raises(InvalidInput, match="Unknown status 'open'"):
            service.items(ItemFilter(statuses=("open",)))

    def test_agents_are_listed_with_what_they_run_and_what_waits_for_them(self, scene: Scene) -> None:
        scene.put_running("one", agent="coder")
        scene.put("two", agent="coder")
        scene.put("three", agent="coder")
        (view,) = scene.service.agents()
        assert (view.key, view.running, view.pending, view.paused) == ("coder", 1, 2, False)
        assert view.last_seen_at is not None
