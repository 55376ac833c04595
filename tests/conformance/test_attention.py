"""What needs a person, what is stuck, and what is claimed next, on every backend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from interlock.core.commands import QuotaLimit
from interlock.core.errors import InvalidInput
from interlock.core.model import ANOTHER_SYSTEM
from interlock.service.contract import ConcernView
from interlock.service.local import LocalService
from tests.conformance.planner import EDITOR, Planner, graph
from tests.conformance.scene import LANE, LEASE_S, Scene

SERIES = "series:acme/app/RFC-093"


def notes(scene: Scene, kind: str) -> list[ConcernView]:
    """The notes of a kind; each kind is counted as often as it is noted, up to the limits."""
    found = scene.service.attention()
    each = [note for note in (*found.needs, *found.stuck) if note.kind == kind]
    assert len(each) == min(5, found.counts.get(kind, 0))
    return each


def operations(note: ConcernView) -> list[str]:
    return [cure.operation for cure in note.cures]


def upcoming(scene: Scene, limit: int = 10) -> list[int]:
    return [why.item.id for why in scene.service.upcoming(limit=limit)]


def claimed(scene: Scene, *agents: str) -> list[int]:
    return [lease.item.id for agent in agents for lease in scene.service.next(agent)]


class TestUpcoming:
    def test_it_is_the_order_of_the_next_claims(self, scene: Scene) -> None:
        """Taken out: the order by sort key, or any of the steps from one queue to the next."""
        for n in range(3):
            scene.put(f"usual {n}", agent="coder")
        scene.put("urgent", agent="coder", priority=5)
        scene.put("for anyone", priority=3)
        scene.put("review", agent="coder", type="review", priority=1)
        scene.put("other project", agent="coder", project="acme", priority=2)
        foreseen = upcoming(scene)
        assert len(foreseen) == 7
        assert foreseen == claimed(scene, *["coder"] * 7)
        assert upcoming(scene) == []

    def test_each_is_explained(self, scene: Scene) -> None:
        scene.put("first", agent="coder")
        (why,) = scene.service.upcoming()
        assert why.why.startswith(f"Item {why.item.id} is ready for coder")
        assert not why.hindered

    def test_what_cannot_start_is_left_out(self, scene: Scene) -> None:
        ready = scene.put("ready", agent="coder")
        scene.put("paused agent", agent="painter")
        scene.service.pause_agent("painter", paused=True, why="lunch", create=True)
        scene.put("paused project", project="acme")
        scene.service.pause_project("acme", paused=True, why="release")
        scene.put("later", in_s=60)
        scene.put("blocked", lane="issue:acme/app#7")
        scene.service.block(lane="issue:acme/app#7", blocker="acme/app#3", why="blocked by")
        scene.put("held", lane=LANE)
        scene.put("behind", lane=LANE)
        assert upcoming(scene) == [ready, ready + 5]
        scene.service.pause_agent("painter", paused=False, why="")
        assert upcoming(scene) == [ready, ready + 1, ready + 5]

    def test_an_agent_at_a_quota_limit_is_left_out_until_it_is_over(self, scene: Scene) -> None:
        lease = scene.put_running(agent="coder")
        waits = scene.put(agent="coder")
        scene.release(lease, wall=QuotaLimit(for_s=60.0, whole_agent=True))
        assert upcoming(scene) == []
        scene.pass_s(61.0)
        assert waits in upcoming(scene)

    def test_a_plan_that_waits_for_an_edit_is_left_out(self, planner: Planner) -> None:
        planner.make("A>B, C", editor=EDITOR)
        assert len(planner.service.upcoming()) == 2
        planner.do("A")
        (edit,) = planner.service.upcoming()
        assert edit.item.type == "plan.edit"

    def test_few_are_read_of_many(self, scene: Scene) -> None:
        first = scene.put("the one", priority=9)
        for n in range(30):
            scene.put(agent=f"agent-{n}")
        assert upcoming(scene, limit=3)[0] == first
        assert len(upcoming(scene, limit=3)) == 3

    @pytest.mark.parametrize("limit", [0, 51, True, "x"])
    def test_a_wrong_limit_is_refused(self, scene: Scene, limit: Any) -> None:
        with pytest.raises(InvalidInput):
            scene.service.upcoming(limit=limit)


class TestNeeds:
    def test_nothing_needs_anyone_at_first(self, scene: Scene) -> None:
        scene.put_running()
        scene.put(agent="coder")
        found = scene.service.attention()
        assert (found.needs, found.stuck, dict(found.counts)) == ((), (), {})

    def test_a_question_comes_with_its_answer(self, scene: Scene) -> None:
        lease = scene.put_running("colour")
        scene.service.ask(lease.run, "Which colour?")
        (note,) = notes(scene, "question")
        assert "Which colour?" in note.sentence
        assert (note.item and note.item.id, operations(note)) == (lease.item.id, ["msg"])
        scene.service.msg(lease.item.id, "green")
        assert notes(scene, "question") == []

    def test_a_dead_letter_tells_its_error(self, scene: Scene) -> None:
        lease = scene.put_running("doomed")
        scene.fail(lease, error="3 of 212 tests fail", retry=False)
        (note,) = notes(scene, "dead_letter")
        assert (note.said, operations(note)) == ("3 of 212 tests fail", ["retry"])
        scene.clock.advance(8 * 24 * 3600.0)
        assert notes(scene, "dead_letter") == [], "an old one needs nobody"

    def test_they_are_counted_beyond_those_that_are_listed(self, scene: Scene) -> None:
        for _ in range(12):
            scene.fail(scene.put_running(), error="no", retry=False)
        found = scene.service.attention()
        assert len(found.needs) == 5
        assert dict(found.counts) == {"dead_letter": 12}

    def test_an_item_that_was_woken_too_often_is_started_by_a_message(self, scene: Scene) -> None:
        item = scene.put("chatty", lane=LANE, message="hello")
        while scene.status(item) != "waiting":
            lease = scene.claim()
            scene.service.msg(lease.item.id, "again", sender=ANOTHER_SYSTEM)
            item = scene.done(lease).follow_up or item
        (note,) = notes(scene, "wake_up_loop")
        assert (note.item and note.item.id, operations(note)) == (item, ["msg"])


class TestStuck:
    def test_a_run_that_missed_a_renewal(self, scene: Scene) -> None:
        lease = scene.put_running(lane=LANE)
        scene.clock.advance(LEASE_S * 0.6)
        assert notes(scene, "silent_run") == []
        scene.clock.advance(LEASE_S * 0.1)
        (note,) = notes(scene, "silent_run")
        assert (note.lane, note.agent, note.until) == (LANE, "coder", lease.expires_at)
        assert operations(note)[-1] == "take_back"
        assert note.cures[-1].arguments["run"] == lease.fence, "a later run is left alone"
        assert note.sentence.startswith(f"Agent coder has not renewed the lease of run {lease.fence} since ")
        assert lease.expires_at is not None
        assert note.since == lease.expires_at - timedelta(seconds=LEASE_S)
        scene.renew(lease)
        assert notes(scene, "silent_run") == []

    def test_a_silent_run_names_its_worker(self, scene: Scene) -> None:
        scene.put(lane=LANE, agent="coder")
        scene.service.next("coder", lease_s=60.0, worker="coder@forge")
        scene.clock.advance(48.0)
        (note,) = notes(scene, "silent_run")
        assert note.sentence.startswith("Worker coder@forge has not renewed the lease of run ")
        assert note.sentence.endswith(" UTC. When the lease ends, the run is lost.")

    def test_paused_agents_and_those_at_a_quota_limit_only_if_something_waits(self, scene: Scene) -> None:
        scene.service.pause_agent("painter", paused=True, why="lunch", create=True)
        assert notes(scene, "paused_agent") == []
        scene.put(agent="painter")
        (note,) = notes(scene, "paused_agent")
        assert note.sentence == "painter is paused (lunch); 1 item waits for it."
        (cure,) = note.cures
        scene.service.pause_agent(**cure.arguments)
        assert notes(scene, "paused_agent") == []
        lease = scene.put_running(agent="coder")
        scene.put(agent="coder")
        scene.release(lease, wall=QuotaLimit(for_s=60.0, whole_agent=True))
        (note,) = notes(scene, "quota_limit")
        assert note.sentence.startswith("coder is at a quota limit")
        assert note.until is not None
        scene.service.pause_agent(**note.cures[0].arguments)
        assert notes(scene, "quota_limit") == []

    def test_an_agent_without_a_live_worker(self, scene: Scene) -> None:
        scene.done(scene.put_running(agent="coder"))
        scene.put(agent="coder")
        assert notes(scene, "absent_agent") == []
        scene.clock.advance(600.0)
        (note,) = notes(scene, "absent_agent")
        assert note.sentence == (
            "No worker of coder is alive (its last sign of life was 10 min ago); 1 item waits for it."
        )
        scene.service.see_worker("w", host="h", pid=1, folder="/", agent="coder", slots=1, runs=0)
        assert notes(scene, "absent_agent") == []

    def test_an_agent_whose_items_wait_behind_others_of_their_lanes(self, scene: Scene) -> None:
        """Taken out: deferred items of agents that have no live worker, that are paused or unknown."""
        scene.done(scene.put_running(agent="reviewer"))
        scene.service.pause_agent("painter", paused=True, why="lunch", create=True)
        lease = scene.put_running(lane=LANE, agent="coder")
        for agent in ("reviewer", "reviewer", "painter", "codr"):
            scene.put(lane=LANE, agent=agent)
        scene.clock.advance(600.0)
        scene.renew(lease)
        (note,) = notes(scene, "absent_agent")
        assert (note.agent, note.sentence.endswith("2 items wait for it.")) == ("reviewer", True)
        (note,) = notes(scene, "paused_agent")
        assert note.sentence == "painter is paused (lunch); 1 item waits for it."
        (note,) = notes(scene, "unknown_agent")
        assert note.sentence == "codr has never asked for work; 1 item waits for it."

    @pytest.mark.parametrize("lane", [None, LANE])
    def test_a_new_agent_is_absent_once_its_first_item_has_waited(
        self, scene: Scene, lane: str | None
    ) -> None:
        lease = scene.put_running(lane=lane, agent="coder")
        scene.service.set_agent("reviewer", max_concurrency=1)
        scene.put(lane=lane, agent="reviewer")
        scene.clock.advance(59.0)
        scene.renew(lease)
        scene.put(lane=lane, agent="reviewer")
        assert notes(scene, "absent_agent") == []
        scene.clock.advance(2.0)
        (note,) = notes(scene, "absent_agent")
        assert note.sentence == "No worker of reviewer is alive (it was never seen); 2 items wait for it."

    def test_an_agent_that_never_asked_for_work(self, scene: Scene) -> None:
        scene.put("one", agent="codr")
        scene.put("two", agent="codr")
        (note,) = notes(scene, "unknown_agent")
        assert "has never asked for work" in note.sentence

    def test_a_paused_project_and_a_block(self, scene: Scene) -> None:
        scene.service.pause_project("acme", paused=True, why="release", create=True)
        (note,) = notes(scene, "paused_project")
        assert note.sentence == "Project acme is paused (release); none of its items starts."
        scene.service.pause_project(**note.cures[0].arguments)
        assert notes(scene, "paused_project") == []
        scene.service.block(lane=LANE, blocker="acme/app#3", why="blocked by")
        (note,) = notes(scene, "block")
        scene.service.unblock(**note.cures[0].arguments)
        assert notes(scene, "block") == []

    def test_a_series_whose_gate_is_shut_is_told_once(self, scene: Scene) -> None:
        for n in range(3):
            lane = f"issue:acme/app#{n + 42}"
            scene.service.set_gate(lane, series=SERIES, open=False, why="#41 is active")
            scene.put(lane=lane)
        (note,) = notes(scene, "gate")
        assert note.lane == LANE
        assert "series RFC-093" in note.sentence

    def test_an_edit_deadline_that_is_near(self, planner: Planner) -> None:
        planner.make("A>B, C", editor=EDITOR, edit_deadline_s=400)
        planner.do("A")
        assert notes(planner, "edit_deadline") == []
        planner.clock.advance(301)
        (note,) = notes(planner, "edit_deadline")
        assert (note.plan, note.agent) == (planner.plan, EDITOR)

    def test_a_paused_plan(self, scene: Scene) -> None:
        plan = scene.service.create_plan("release", graph("A>B")).id
        scene.service.pause_plan(plan, why="lunch")
        (note,) = notes(scene, "paused_plan")
        assert note.sentence == f"Plan {plan}, release, is paused (lunch); none of its tasks starts."
        scene.service.resume_plan(**note.cures[0].arguments)
        assert notes(scene, "paused_plan") == []


class TestTrend:
    def keep(self, scene: Scene) -> None:
        service: Any = scene.service
        if not isinstance(service, LocalService):
            pytest.skip("a server keeps the numbers by itself")
        service.count_history()

    def test_a_minute_tells_what_was_there_and_what_happened_since_the_one_before(self, scene: Scene) -> None:
        scene.clock.advance(60 - scene.clock.now_us / 1e6 % 60)
        self.keep(scene)
        for n in range(3):
            scene.put(lane=LANE if n else None)
        scene.done(scene.claim())
        scene.clock.advance(60)
        self.keep(scene)
        scene.fail(scene.claim(), error="no", retry=False)
        scene.clock.advance(59)
        self.keep(scene)  # the same minute: only its first numbers are kept
        scene.clock.advance(1)
        self.keep(scene)
        first, second, third = scene.service.trend()
        assert (first.arrivals, first.ready, first.running) == (None, 0, 0)
        assert (second.ready, second.waiting, second.running) == (1, 1, 0)
        assert 59 < second.oldest_ready_s < 61
        assert (second.arrivals, second.claims, second.completions, second.failures) == (3, 1, 1, 0)
        assert (third.arrivals, third.claims, third.completions, third.failures) == (0, 1, 0, 1)
        assert [point.at for point in scene.service.trend(minutes=1)] == [second.at, third.at]

    def test_numbers_are_kept_for_three_hours_and_gaps_are_unknown(self, scene: Scene) -> None:
        for _ in range(2):
            self.keep(scene)
            scene.clock.advance(120)
        assert [point.claims for point in scene.service.trend()] == [None, None]
        scene.clock.advance(4 * 3600.0)
        self.keep(scene)
        assert len(scene.service.trend(minutes=180)) == 1
        store = scene.service.store  # type: ignore[attr-defined]
        assert len(store.meter.samples(0)) == 1
