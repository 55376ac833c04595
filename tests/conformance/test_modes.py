"""Modes: off, observe and enforce, for a project or a lane prefix, and the switch between them."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput
from interlock.service.contract import Service
from tests.conformance.scene import LANE, Scene


def observe(scene: Scene) -> None:
    scene.service.set_mode(scope="lane", value="issue:", mode="observe")


def enforce(scene: Scene) -> None:
    scene.service.set_mode(scope="lane", value="issue:", mode="enforce")


class TestOff:
    def test_lanes_hold_nothing_back(self, scene: Scene) -> None:
        scene.service.set_mode(scope="project", value="default", mode="off")
        answers = [scene.add(f"item {n}", lane=LANE, policy="reject") for n in range(3)]
        assert [(a.decision, a.reason) for a in answers] == [("admitted", "no_lane")] * 3
        assert len(scene.service.next("coder", limit=9)) == 3
        assert scene.lane() is None


class TestObserve:
    def test_nothing_is_held_back_and_what_would_have_been_is_told(self, scene: Scene) -> None:
        observe(scene)
        first = scene.add("first", lane=LANE, agent="coder", policy="coalesce")
        second = scene.add("second", lane=LANE, agent="coder", policy="coalesce")
        third = scene.add("third", lane=LANE, agent="planner", policy="coalesce")
        assert [(a.decision, a.reason) for a in (first, second, third)] == [
            ("observed", "would_be_admitted"),
            ("observed", "would_be_coalesced"),
            ("observed", "would_be_queued"),
        ]
        for answer in (first, second, third):
            assert answer.item is not None
            assert (answer.item.status, answer.item.lane, answer.item.observed_lane) == (
                "pending",
                None,
                LANE,
            )
        assert len(scene.service.next("coder", limit=9)) == 2
        assert len(scene.service.next("planner", limit=9)) == 1

    @pytest.mark.parametrize(
        ("policy", "would"),
        [
            ("queue", "would_be_queued"),
            ("coalesce", "would_be_coalesced"),
            ("supersede", "would_be_superseding"),
            ("latest", "would_be_superseding"),
            ("reject", "would_be_rejected"),
        ],
    )
    def test_each_policy_is_counted_by_what_it_would_have_done(
        self, scene: Scene, policy: str, would: str
    ) -> None:
        observe(scene)
        lease = scene.put_running("owner", lane=LANE, agent="coder", policy=policy)
        answer = scene.add("newcomer", lane=LANE, agent="coder", policy=policy, message="hello")
        assert (answer.decision, answer.reason) == ("observed", would)
        assert answer.holder is not None
        assert answer.holder.run == lease.fence
        assert not scene.renew(lease).cancel_requested
        assert scene.last("item.observed").reason == would
        assert scene.service.stats().would_have == {"would_be_admitted": 1, would: 1}

    def test_runs_of_one_observed_lane_go_side_by_side_and_end_by_themselves(self, scene: Scene) -> None:
        observe(scene)
        leases = [scene.put_running(f"item {n}", lane=LANE) for n in range(3)]
        for lease in leases:
            view = scene.done(lease)
            assert (view.status, view.promoted) == ("succeeded", ())


class TestSwitch:
    def test_after_the_switch_to_enforce_the_lane_opens_when_the_observed_runs_have_ended(
        self, scene: Scene
    ) -> None:
        observe(scene)
        one, two = scene.put_running("one", lane=LANE), scene.put_running("two", lane=LANE)
        enforce(scene)
        answer = scene.add("held", lane=LANE)
        assert answer.decision == "queued"
        assert answer.holder is not None
        assert answer.holder.item == one.item.id
        assert scene.done(one).promoted == ()
        assert scene.idle()
        assert scene.done(two).promoted == (answer.arrival,)
        assert scene.claim().item.id == answer.arrival

    @pytest.mark.parametrize("ending", ["failed", "lost", "cancelled", "parked"])
    def test_the_lane_opens_whatever_way_the_observed_run_ended(self, scene: Scene, ending: str) -> None:
        observe(scene)
        lease = scene.put_running("observed", lane=LANE, max_attempts=3 if ending == "parked" else 1)
        enforce(scene)
        held = scene.put("held", lane=LANE)
        if ending in ("failed", "parked"):
            scene.fail(lease)
        elif ending == "lost":
            scene.lose(lease)
        else:
            scene.cancel(lease.item.id, force=True)
        assert scene.owner() == held

    def test_an_observed_run_of_the_same_agent_takes_nothing_in(self, scene: Scene) -> None:
        observe(scene)
        scene.put_running("observed", lane=LANE, agent="coder", policy="coalesce")
        enforce(scene)
        answer = scene.add("held", lane=LANE, agent="coder", policy="coalesce")
        assert (answer.decision, answer.reason) == ("queued", "lane_queued")

    def test_an_arrival_repairs_an_observed_run_that_is_past_its_lease(self, scene: Scene) -> None:
        observe(scene)
        lease = scene.put_running("observed", lane=LANE, max_attempts=1)
        enforce(scene)
        scene.lose(lease)
        assert scene.add("newcomer", lane=LANE).decision == "admitted"

    def test_what_was_queued_while_enforced_is_not_forgotten_after_the_switch_to_observe(
        self, scene: Scene
    ) -> None:
        owner = scene.put_running("owner", lane=LANE)
        waiting = scene.put("waiting", lane=LANE)
        observe(scene)
        beside = scene.put_running("beside", lane=LANE)
        scene.done(owner)
        scene.done(beside)
        assert scene.claim().item.id == waiting


class TestScopes:
    def test_the_longest_lane_prefix_wins_over_shorter_ones_and_over_the_project(self, scene: Scene) -> None:
        scene.service.set_mode(scope="project", value="default", mode="off")
        scene.service.set_mode(scope="lane", value="issue:", mode="observe")
        scene.service.set_mode(scope="lane", value="issue:acme/", mode="enforce")
        assert scene.add("a", lane="issue:acme/app#1").reason == "lane_free"
        assert scene.add("b", lane="issue:other/app#1").reason == "would_be_admitted"
        assert scene.add("c", lane="branch:main").reason == "no_lane"

    def test_a_project_has_its_own_mode(self, scene: Scene) -> None:
        scene.service.set_mode(scope="project", value="trial", mode="observe")
        assert scene.add("a", project="trial", lane=LANE).decision == "observed"
        assert scene.add("b", project="other", lane="issue:acme/app#7").decision == "admitted"

    def test_a_prefix_of_issue_lanes_is_compared_without_case_like_the_lanes_themselves(
        self, scene: Scene
    ) -> None:
        scene.service.set_mode(scope="lane", value="issue:Acme/App", mode="observe")
        assert scene.add("a", lane="issue:Acme/App#1").decision == "observed"

    def test_a_lane_is_shown_with_its_mode(self, scene: Scene) -> None:
        observe(scene)
        scene.put_running("observed", lane=LANE)
        found = scene.lane()
        assert found is not None
        assert found.mode == "observe"

    def test_a_change_of_mode_stands_in_the_history(self, scene: Scene) -> None:
        observe(scene)
        event = scene.last("mode.set")
        assert (event.reason, event.data) == ("observe", {"scope": "lane", "value": "issue:"})

    @pytest.mark.parametrize(
        "wrong",
        [
            {"scope": "planet", "value": "earth", "mode": "off"},
            {"scope": "lane", "value": "issue:", "mode": "strict"},
            {"scope": "project", "value": "no spaces", "mode": "off"},
            {"scope": "lane", "value": "../", "mode": "off"},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, service: Service, wrong: dict[str, str]) -> None:
        with pytest.raises(InvalidInput):
            service.set_mode(**wrong)
