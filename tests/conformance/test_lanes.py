"""Lanes: at most one run owns an issue at a time, and whoever ends promotes the next."""

from __future__ import annotations

import json

import pytest

from interlock.core.model import AHEAD_MAX, OUR_BOT, NewItem
from interlock.service.contract import LeaseView, Report
from tests.conformance.scene import FIRST_BACK_OFF_S, GRACE_S, LANE, LEASE_S, Scene

OTHER_LANE = "issue:acme/app#43"


class TestOneOwner:
    def test_a_free_lane_admits_and_a_taken_one_does_not(self, scene: Scene) -> None:
        first = scene.add("first", lane=LANE)
        assert (first.decision, first.reason, first.holder, first.position) == (
            "admitted",
            "lane_free",
            None,
            None,
        )
        second = scene.add("second", lane=LANE)
        assert (second.decision, second.reason, second.position) == ("queued", "lane_queued", 1)
        assert second.item is not None
        assert second.item.status == "deferred"

    def test_a_place_far_behind_is_not_counted_to_the_end(self, scene: Scene) -> None:
        """Else an arrival would cost more the longer the line is."""
        for count in (500, 500):
            scene.service.add([NewItem(title="in line", lane=LANE) for _ in range(count)])
        places = [scene.add("next", lane=LANE).position for _ in range(3)]
        assert places == [AHEAD_MAX, AHEAD_MAX, AHEAD_MAX]
        assert scene.add("first", lane=LANE, position=1).position == 1

    def test_the_answer_names_the_run_that_holds_the_lane_since_when_and_until_when(
        self, scene: Scene
    ) -> None:
        lease = scene.put_running("owner", lane=LANE, by="planner")
        started = scene.clock.now
        scene.clock.advance(5)
        holder = scene.add("second", lane=LANE).holder
        assert holder is not None
        assert (holder.item, holder.run, holder.agent) == (lease.item.id, lease.fence, "planner")
        assert (holder.since, holder.expires_at) == (started, lease.expires_at)

    def test_an_owner_that_has_not_started_is_named_without_a_run(self, scene: Scene) -> None:
        owner = scene.put("owner", lane=LANE, agent="planner")
        holder = scene.add("second", lane=LANE).holder
        assert holder is not None
        assert (holder.item, holder.run, holder.agent, holder.expires_at) == (owner, None, "planner", None)

    def test_no_agent_gets_a_second_item_of_a_lane_however_many_it_asks_for(self, scene: Scene) -> None:
        for n in range(5):
            scene.put(f"item {n}", lane=LANE)
            scene.put(f"other {n}", lane=OTHER_LANE)
        leases = scene.service.next("coder", limit=10)
        assert sorted(x.item.lane or "" for x in leases) == [LANE, OTHER_LANE]
        assert scene.idle("planner", limit=10)

    def test_separate_issues_are_worked_on_in_parallel(self, scene: Scene) -> None:
        leases = [scene.put_running("work", lane=f"issue:acme/app#{n}") for n in range(5)]
        assert len({x.item.lane for x in leases}) == 5
        assert scene.service.stats().current_locks == 5

    def test_items_without_a_lane_know_nothing_of_lanes(self, scene: Scene) -> None:
        scene.put_running("owner", lane=LANE)
        for policy in ("queue", "coalesce", "supersede", "latest", "reject"):
            answer = scene.add("free", policy=policy, agent="coder")
            assert (answer.decision, answer.reason, answer.holder) == ("admitted", "no_lane", None)
        assert len(scene.service.next("coder", limit=9)) == 5

    def test_a_payload_that_names_an_issue_or_a_pull_request_gets_its_lane(self, scene: Scene) -> None:
        issue = {"repository": {"full_name": "Acme/App"}, "issue": {"number": 42}}
        pull = {"repository": "acme/app", "pull_request": {"number": 42}}
        assert scene.add("comment", payload=json.dumps(issue)).decision == "admitted"
        answer = scene.add("review", payload=json.dumps(pull))
        assert answer.decision == "queued"
        assert answer.item is not None
        assert answer.item.lane == LANE

    def test_a_caller_may_opt_out_of_the_lane_of_its_payload(self, scene: Scene) -> None:
        payload = json.dumps({"repository": "acme/app", "number": 42})
        scene.put("first", payload=payload)
        answer = scene.add("second", payload=payload, no_lane=True)
        assert answer.decision == "admitted"
        assert answer.item is not None
        assert answer.item.lane is None


class TestSameName:
    """coalesce: an agent is not woken for an issue that it works on already."""

    def test_a_second_wake_of_the_running_agent_makes_no_run_and_answers_with_the_one_there_is(
        self, scene: Scene
    ) -> None:
        lease = scene.put_running("assigned", lane=LANE, agent="coder", policy="coalesce")
        answer = scene.add("commented", lane=LANE, agent=" Coder", policy="coalesce", message="and the tests")
        assert (answer.decision, answer.reason) == ("coalesced", "issue_execution_same_name")
        assert answer.item is not None
        assert (answer.item.id, answer.item.run) == (lease.item.id, lease.fence)
        assert answer.arrival not in (None, lease.item.id)
        arrival = scene.item(answer.arrival or 0)
        assert (arrival.status, arrival.absorbed_by, arrival.reason) == (
            "coalesced",
            lease.item.id,
            "issue_execution_same_name",
        )
        assert scene.idle("coder")
        assert scene.line() == []
        event = scene.last("item.coalesced")
        assert (event.item, event.run, event.data["into_item"]) == (
            answer.arrival,
            lease.fence,
            lease.item.id,
        )

    def test_the_input_reaches_the_run_as_a_message_with_its_payload(self, scene: Scene) -> None:
        lease = scene.put_running("assigned", lane=LANE, agent="coder", policy="coalesce")
        answer = scene.add(
            "commented", lane=LANE, agent="coder", policy="coalesce", message="look", payload='{"id": 7}'
        )
        (message,) = scene.service.inbox(lease.run)
        assert (message.text, message.origin, message.payload) == ("look", answer.arrival, {"id": 7})

    def test_an_agent_that_waits_in_line_takes_its_own_inputs_in(self, scene: Scene) -> None:
        scene.put_running("of the coder", lane=LANE, agent="coder", policy="coalesce")
        cto = scene.put("mention", lane=LANE, agent="cto", policy="coalesce")
        answer = scene.add("mention again", lane=LANE, agent="CTO", policy="coalesce")
        assert answer.item is not None
        assert answer.item.id == cto
        assert scene.line() == [cto]

    def test_no_agent_at_all_is_one_name_as_well(self, scene: Scene) -> None:
        first = scene.put("one", lane=LANE, policy="coalesce")
        answer = scene.add("two", lane=LANE, policy="coalesce")
        assert answer.item is not None
        assert answer.item.id == first

    @pytest.mark.parametrize("policy", ["queue", "supersede", "latest", "reject"])
    def test_the_policy_that_an_item_came_with_does_not_matter(self, scene: Scene, policy: str) -> None:
        lease = scene.put_running("one", lane=LANE, agent="coder", policy=policy)
        answer = scene.add("two", lane=LANE, agent="coder", policy="coalesce")
        assert answer.decision == "coalesced"
        assert answer.item is not None
        assert answer.item.id == lease.item.id

    def test_an_item_for_nobody_has_the_name_of_the_agent_that_runs_it(self, scene: Scene) -> None:
        lease = scene.put_running("for whoever comes", lane=LANE, by="coder")
        answer = scene.add("a comment", lane=LANE, agent="coder", policy="coalesce", message="look")
        assert (answer.decision, answer.reason) == ("coalesced", "issue_execution_same_name")
        assert [m.text for m in scene.service.inbox(lease.run)] == ["look"]

    def test_of_a_long_line_and_many_retries_the_first_takes_it_in(self, scene: Scene) -> None:
        parked = []
        for _ in range(3):
            lease = scene.put_running("fails", lane=LANE, agent="coder")
            scene.fail(lease)
            parked.append(lease.item.id)
        scene.put_running("of the cto", lane=LANE, agent="cto")
        line = [scene.put("waits", lane=LANE, agent="coder") for _ in range(3)]
        for expected in (*parked, *line):
            answer = scene.add("said", lane=LANE, agent="coder", policy="coalesce", sender=OUR_BOT)
            assert answer.item is not None
            assert answer.item.id == expected
            scene.cancel(expected)

    def test_a_hold_and_an_external_run_take_nothing_in(self, scene: Scene) -> None:
        hold = scene.put("held", lane=LANE, agent="coder", type="hold", labels=("hold",))
        answer = scene.add("said", lane=LANE, agent="coder", policy="coalesce")
        assert (answer.decision, answer.reason) == ("queued", "lane_queued")
        scene.cancel(hold)
        scene.claim("coder", external=True)
        again = scene.add("said", lane=LANE, agent="coder", policy="coalesce")
        assert (again.decision, again.reason) == ("queued", "lane_queued")

    def test_a_parked_retry_takes_the_input_in_and_a_person_wakes_it(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder", policy="coalesce")
        scene.fail(lease)
        answer = scene.add("please", lane=LANE, agent="coder", policy="coalesce")
        assert answer.item is not None
        assert (answer.item.id, answer.item.status) == (lease.item.id, "pending")
        again = scene.claim()
        assert [m.text for m in again.messages] == ["please"]


class TestOtherName:
    """A different agent may wake for the issue, but waits until its present run has ended."""

    def test_mentioning_another_agent_during_a_run_does_not_start_it(self, scene: Scene) -> None:
        lease = scene.put_running("assigned", lane=LANE, agent="coder", policy="coalesce")
        answer = scene.add("mention", lane=LANE, agent="cto", policy="coalesce")
        assert (answer.decision, answer.reason) == ("queued", "issue_execution_deferred")
        assert answer.holder is not None
        assert answer.holder.run == lease.fence
        assert scene.idle("cto")
        assert scene.done(lease).promoted == (answer.arrival,)
        promoted = scene.claim("cto")
        assert promoted.item.id == answer.arrival

    def test_the_handover_is_told_with_from_run_to_item_lane_and_agent(self, scene: Scene) -> None:
        lease = scene.put_running("assigned", lane=LANE, agent="coder", policy="coalesce")
        waiting = scene.put("mention", lane=LANE, agent="CTO", policy="coalesce")
        scene.done(lease)
        event = scene.last("lane.promoted")
        assert (event.reason, event.lane, event.item) == ("issue_execution_promoted", LANE, waiting)
        assert event.data["from_run"] == lease.fence
        assert event.data["to_item"] == waiting
        assert event.data["agent_key"] == "cto"
        scene.claim("cto")
        assert scene.last("run.started").data["promoted_from"] == lease.fence
        assert scene.item(waiting).reason == "issue_execution_promoted"

    def test_the_oldest_of_the_line_is_promoted_whatever_its_priority(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE)
        old = scene.put("old", lane=LANE, priority=0)
        scene.put("urgent", lane=LANE, priority=10)
        assert scene.done(lease).promoted == (old,)

    def test_a_run_that_was_not_promoted_names_no_other(self, scene: Scene) -> None:
        scene.put_running("owner", lane=LANE)
        assert "promoted_from" not in scene.last("run.started").data


class TestPromotion:
    """Whatever way the owner ends, the first of the line owns the lane in the same transaction."""

    ENDINGS = (
        "done",
        "fail for good",
        "fail on the last attempt",
        "cancelled and done",
        "cancelled and released",
        "cancelled and failed",
        "cancelled and revoked",
        "cancelled before the start",
        "cancelled by force",
        "lost on the last attempt",
        "timed out on the last attempt",
        "parked",
        "parked after releases",
        "superseded",
    )

    def end(self, scene: Scene, lease: LeaseView, ending: str) -> None:
        item = lease.item.id
        if ending.startswith("cancelled and"):
            scene.cancel(item)
        if ending == "parked after releases":
            for _ in range(2):
                scene.release(lease)
                lease = scene.claim("coder")
        if ending == "cancelled before the start":
            scene.release(lease)
        ends = {
            "done": lambda: scene.done(lease),
            "fail for good": lambda: scene.fail(lease, retry=False),
            "fail on the last attempt": lambda: scene.fail(lease),
            "cancelled and done": lambda: scene.done(lease),
            "cancelled and released": lambda: scene.release(lease),
            "cancelled and failed": lambda: scene.fail(lease),
            "cancelled and revoked": lambda: scene.pass_s(GRACE_S),
            "cancelled before the start": lambda: scene.cancel(item),
            "cancelled by force": lambda: scene.cancel(item, force=True),
            "lost on the last attempt": lambda: scene.pass_s(LEASE_S),
            "timed out on the last attempt": lambda: scene.pass_s(30),
            "parked": lambda: scene.fail(lease),
            "parked after releases": lambda: scene.release(lease),
            "superseded": lambda: scene.release(lease),
        }
        ends[ending]()

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_the_first_of_the_line_is_promoted(self, scene: Scene, ending: str) -> None:
        lease = scene.put_running(
            "owner",
            lane=LANE,
            agent="coder",
            policy="latest",
            max_attempts=1 if "last attempt" in ending else 3,
            timeout_s=30 if "timed out" in ending else None,
        )
        first = scene.put("first", lane=LANE, agent="planner")
        second = scene.put("second", lane=LANE, agent="planner")
        if ending == "superseded":
            newer = scene.put("newer", lane=LANE, agent="coder", policy="latest")
            self.end(scene, lease, ending)
            assert scene.line() == [second, newer]
        else:
            self.end(scene, lease, ending)
            assert scene.line() == [second]
        assert scene.owner() == first
        assert scene.status(first) == "pending"
        assert scene.claim("planner").item.id == first
        assert len([e for e in scene.events("lane.promoted") if e.item == first]) == 1

    @pytest.mark.parametrize("ending", ["release", "lost", "timed out", "taken back"])
    def test_an_item_that_is_offered_again_keeps_its_lane(self, scene: Scene, ending: str) -> None:
        lease = scene.put_running("owner", lane=LANE, timeout_s=30 if ending == "timed out" else None)
        waiting = scene.put("waiting", lane=LANE)
        if ending == "release":
            scene.release(lease)
        elif ending == "lost":
            scene.pass_s(LEASE_S)
        elif ending == "timed out":
            scene.pass_s(30)
        else:
            scene.service.take_back(lease.item.id, why="stuck")
        assert scene.owner() == lease.item.id
        assert scene.statuses(lease.item.id, waiting) == ["pending", "deferred"]

    def test_a_batch_of_finishes_hands_each_lane_on_once(self, scene: Scene) -> None:
        lanes = [f"issue:acme/app#{n}" for n in range(6)]
        for lane in lanes:
            scene.put("owner", lane=lane)
        waiting = [scene.put("waiting", lane=lane) for lane in lanes]
        leases = scene.service.next("coder", limit=6)
        views = scene.service.done([Report(run=x.run) for x in leases])
        assert sorted(p for v in views for p in v.promoted) == sorted(waiting)
        assert len(scene.events("lane.promoted")) == 6

    def test_a_lane_goes_through_its_whole_line_one_by_one(self, scene: Scene) -> None:
        items = [scene.put(f"item {n}", lane=LANE, priority=n) for n in range(8)]
        fences = []
        for item in items:
            lease = scene.claim()
            assert lease.item.id == item
            assert scene.idle()
            fences.append(lease.fence)
            scene.done(lease)
        assert fences == sorted(fences)
        assert scene.lane() is None

    def test_an_arrival_repairs_a_lane_whose_owner_is_past_its_lease(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, max_attempts=1)
        scene.clock.advance(LEASE_S)
        answer = scene.add("newcomer", lane=LANE)
        assert answer.decision == "admitted"
        assert scene.status(lease.item.id) == "failed"
        assert scene.done(lease).status == "refused"

    def test_an_arrival_that_repairs_lets_whoever_waited_go_first(self, scene: Scene) -> None:
        scene.put_running("owner", lane=LANE, max_attempts=1)
        waiting = scene.put("waiting", lane=LANE)
        scene.clock.advance(LEASE_S)
        answer = scene.add("newcomer", lane=LANE)
        assert (answer.decision, answer.position) == ("queued", 1)
        assert scene.owner() == waiting

    def test_a_stale_owner_with_attempts_left_keeps_its_lane_on_an_arrival(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE)
        scene.clock.advance(LEASE_S)
        answer = scene.add("newcomer", lane=LANE)
        assert answer.holder is not None
        assert (answer.decision, answer.holder.item, answer.holder.run) == ("queued", lease.item.id, None)

    def test_an_arrival_repairs_an_owner_that_leaves_unread_messages(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, max_attempts=1)
        scene.service.msg(lease.item.id, "never read")
        scene.clock.advance(LEASE_S)
        answer = scene.add("newcomer", lane=LANE)
        assert answer.decision == "queued"
        follow_up = scene.item(scene.owner() or 0)
        assert follow_up.title == "Follow-up: owner"
        assert scene.texts(follow_up.id) == ["never read"]


class TestPositions:
    def test_a_series_goes_in_the_order_of_its_positions_and_not_of_arrival(self, scene: Scene) -> None:
        lane = "series:acme/app/RFC-093"
        owner = scene.put_running("RFC-093-01", lane=lane, position=1)
        third = scene.put("RFC-093-03", lane=lane, position=3)
        second = scene.add("RFC-093-02", lane=lane, position=2, priority=-5)
        fourth = scene.add("RFC-093-04", lane=lane, position=4, priority=100)
        assert (second.position, fourth.position) == (1, 3)
        order = []
        lease = owner
        for _ in range(3):
            scene.done(lease)
            lease = scene.claim()
            order.append(lease.item.id)
        assert order == [second.arrival, third, fourth.arrival]

    def test_what_has_no_position_goes_last(self, scene: Scene) -> None:
        scene.put_running("owner", lane=LANE)
        without, with_one = scene.put("without", lane=LANE), scene.put("with", lane=LANE, position=9)
        assert scene.line() == [with_one, without]

    def test_equal_positions_go_by_arrival(self, scene: Scene) -> None:
        scene.put_running("owner", lane=LANE)
        items = [scene.put(f"item {n}", lane=LANE, position=2) for n in range(3)]
        assert scene.line() == items


class TestRetries:
    def test_a_failed_item_frees_its_lane_while_it_waits_out_its_back_off(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE)
        waiting = scene.put("waiting", lane=LANE)
        assert scene.fail(lease).promoted == (waiting,)
        assert scene.statuses(lease.item.id, waiting) == ["waiting", "pending"]

    def test_it_comes_back_into_the_line_with_its_old_ticket(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE)
        scene.put("meanwhile", lane=LANE)
        scene.fail(lease)
        running = scene.claim()
        late = scene.put("late", lane=LANE)
        scene.pass_s(FIRST_BACK_OFF_S)
        assert scene.line() == [lease.item.id, late]
        scene.done(running)
        again = scene.claim()
        assert (again.item.id, again.item.attempt) == (lease.item.id, 2)

    def test_a_retry_that_finds_a_newer_pending_item_waits_behind_it(self, scene: Scene) -> None:
        lease = scene.put_running("older", lane=LANE)
        scene.fail(lease)
        newer = scene.put("newer", lane=LANE)
        scene.pass_s(FIRST_BACK_OFF_S)
        assert scene.owner() == newer
        assert scene.statuses(newer, lease.item.id) == ["pending", "deferred"]
        assert len(scene.service.next("coder", limit=5)) == 1

    def test_a_kept_lane_stays_taken_through_the_back_off(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, retry_lane="keep")
        waiting = scene.put("waiting", lane=LANE)
        view = scene.fail(lease)
        assert view.promoted == ()
        assert view.item is not None
        assert view.item.status == "pending"
        assert scene.idle()
        assert scene.owner() == lease.item.id
        scene.clock.advance(FIRST_BACK_OFF_S)
        assert scene.claim().item.id == lease.item.id
        assert scene.status(waiting) == "deferred"

    def test_a_kept_lane_is_handed_on_after_the_last_attempt(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, retry_lane="keep", max_attempts=1)
        waiting = scene.put("waiting", lane=LANE)
        assert scene.fail(lease).promoted == (waiting,)

    def test_a_kept_owner_replaced_on_its_return_hands_the_lane_on_in_that_moment(self, scene: Scene) -> None:
        lease = scene.put_running("older", lane=LANE, agent="coder", policy="latest", retry_lane="keep")
        newer = scene.put("newer", lane=LANE, agent="coder", policy="latest")
        scene.fail(lease)
        scene.clock.advance(FIRST_BACK_OFF_S)
        assert scene.claim("coder").item.id == newer
        assert scene.status(lease.item.id) == "superseded"

    def test_a_retried_dead_letter_queues_behind_the_owner_of_its_lane(self, scene: Scene) -> None:
        lease = scene.put_running("dead", lane=LANE, max_attempts=1)
        scene.fail(lease)
        owner, later = scene.put("owner", lane=LANE), scene.put("later", lane=LANE)
        view = scene.service.retry(lease.item.id)
        assert view.item.status == "deferred"
        assert scene.owner() == owner
        assert scene.line() == [lease.item.id, later]

    def test_an_item_scheduled_for_later_never_blocks_the_ready_ones_behind_it(self, scene: Scene) -> None:
        later = scene.put("later", lane=LANE, in_s=100)
        ready = scene.put("ready", lane=LANE)
        assert scene.claim().item.id == ready
        scene.pass_s(100)
        assert scene.statuses(later, ready)[0] == "deferred"
