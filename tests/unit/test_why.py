"""Why an item is where it is: one sentence for every state, always with what will move it next."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.claims import Agent
from interlock.core.cures import cure
from interlock.core.model import ItemId, Policy, RetryLane
from interlock.core.overtaking import AgentPresence
from interlock.core.states import ItemStatus
from interlock.core.timing import ago, span, until
from tests.unit.test_operator_rules import put
from tests.unit.test_overtaking import at
from tests.unit.world import World


def sentence(world: World, item: ItemId, **facts: object) -> str:
    """The sentence, checked to be one."""
    text = world.why(item, **facts).sentence
    assert text.startswith(f"Item {item} ")
    assert text.endswith(".")
    assert "\n" not in text
    assert "None" not in text
    assert "  " not in text
    return text


EVERY_STATE = [*(s.value for s in ItemStatus), "parked"]


@pytest.mark.parametrize("status", EVERY_STATE)
def test_every_state_has_its_sentence(status: str) -> None:
    world = World()
    item = put(world, status)
    assert sentence(world, item)


class TestPending:
    def test_anyone_may_take_it(self) -> None:
        world = World()
        text = sentence(world, world.put("work"))
        assert "is ready and first in the queue for anyone; any agent may claim it" in text

    def test_others_go_before_it(self) -> None:
        world = World()
        assert "3 for anyone ahead of it" in sentence(world, world.put("work"), ahead=3)

    def test_its_agent_has_never_asked(self) -> None:
        world = World()
        item = world.put("work", agent="coder")
        assert "coder, which has never asked for work" in sentence(world, item)

    @pytest.mark.parametrize(
        ("agent", "says"),
        [
            (Agent(key="coder", name="Coder"), "coder's next claim takes it"),
            (Agent(key="coder", name="Coder", paused_why="holiday"), "paused (holiday)"),
            (Agent(key="coder", name="Coder", max_concurrency=2, running=2), "has 2 of 2 runs"),
            (Agent(key="coder", name="Coder", max_concurrency=2, running=1), "coder's next claim takes it"),
        ],
        ids=["free", "paused", "full", "with room"],
    )
    def test_its_agent_decides(self, agent: Agent, says: str) -> None:
        world = World()
        assert says in sentence(world, world.put("work", agent="coder"), agents={"coder": agent})

    @pytest.mark.parametrize(
        ("presence", "says"),
        [
            (
                AgentPresence(seen_us=at(-600)),
                "no worker of coder is alive: its last sign of life was 10 min ago.",
            ),
            (AgentPresence(seen_us=at(-600), worker_us=at(-300)), "its last sign of life was 5 min ago."),
            (AgentPresence(seen_us=at(-600), overtake_after_s=0), "its last sign of life was 10 min ago."),
            (AgentPresence(seen_us=at(-600), worker_us=at(-20)), "coder's next claim takes it."),
            (AgentPresence(seen_us=at(-600), running=True), "coder's next claim takes it."),
            (AgentPresence(seen_us=at(-30)), "coder's next claim takes it."),
            (AgentPresence(), "coder's next claim takes it."),
        ],
        ids=["silent", "killed", "never overtaken", "alive", "at work", "by hand", "new"],
    )
    def test_nobody_claims_for_its_agent(self, presence: AgentPresence, says: str) -> None:
        """It said that the agent's next claim takes it, and nothing claimed for the agent."""
        world = World()
        facts = {"agents": {"coder": Agent(key="coder", name="Coder")}, "presence": {"coder": presence}}
        item = world.put("work", agent="coder")
        assert sentence(world, item, **facts).endswith(says)
        if presence == AgentPresence():
            world.pass_s(61)
            text = sentence(world, item, **facts)
            assert text.endswith("takes it, but coder has never asked for work and no worker of it is alive.")

    def test_its_project_is_paused(self) -> None:
        world = World()
        text = sentence(world, world.put("work", project="acme"), paused_projects={"acme": "release day"})
        assert "project acme is paused (release day)" in text
        assert text.endswith("it can start when project acme is resumed.")

    def test_it_keeps_its_lane_through_a_back_off(self) -> None:
        world = World()
        item = put(world, "parked", retry_lane=RetryLane.KEEP)
        assert "is in back-off after a failed attempt and keeps its lane" in sentence(world, item)
        assert "in 10 s" in sentence(world, item)


class TestInProgress:
    def test_it_names_the_run_its_agent_and_its_end(self) -> None:
        world = World()
        item = world.put("work")
        world.start(item, "coder")
        world.pass_s(20)
        text = sentence(world, item)
        assert "has been running for 20 s (run 1 of coder)" in text
        then = "and then it is retried (attempt 2 of 3) and keeps its lane"
        assert f"its lease ends in 40 s unless renewed, {then}" in text

    def test_a_timeout_that_comes_before_the_end_of_the_lease_is_told(self) -> None:
        world = World()
        item = world.put_running("work", timeout_s=30)
        assert "its time is up in 30 s, and then it is retried (attempt 2 of 3)" in sentence(world, item)

    def test_it_says_that_it_was_asked_to_stop_and_what_becomes_of_it(self) -> None:
        world = World()
        item = world.put_running("work")
        world.cancel(item, "wrong branch")
        text = sentence(world, item)
        assert "was asked to stop (wrong branch)" in text
        assert "its grace ends in 15 s, and then it is ended as cancelled" in text


class TestDeferred:
    def test_it_names_the_run_that_holds_the_lane(self) -> None:
        world = World()
        owner = world.put("owner")
        world.start(owner, "planner")
        text = sentence(world, world.put("work"))
        assert "next in line on lane issue:acme/app#42" in text
        assert "held by run 1 of planner (item 1)" in text
        assert "it moves up when run 1 is done or fails" in text
        assert "if run 1 is released or loses its lease, item 1 is retried first" in text

    def test_it_says_that_the_holder_was_asked_to_stop(self) -> None:
        world = World()
        world.put_running("owner", agent="coder", policy=Policy.SUPERSEDE)
        newer = world.put("newer", agent="coder", policy=Policy.SUPERSEDE)
        text = sentence(world, newer)
        assert "which was asked to stop, whose grace ends in 15 s" in text

    def test_it_names_an_owner_that_has_not_started_and_whom_that_waits_for(self) -> None:
        world = World()
        world.put("owner", agent="planner")
        text = sentence(world, world.put("work"), ahead=2)
        assert "behind 2 more in line" in text
        assert "behind item 1, which waits for planner to start it; the line moves up when item 1 has" in text

    def test_it_says_when_nobody_leads_the_lane(self) -> None:
        world = World()
        owner, item = world.put("owner"), world.put("work")
        del world.items[owner]
        assert "has no owner; the next sweep promotes the first in line" in sentence(world, item)


class TestHold:
    def test_a_turn_is_left_to_its_hold_and_what_was_left_over_to_the_next_one(self) -> None:
        world = World()
        hold: dict[str, Any] = {"type": "hold", "labels": ("hold",), "agent": "ann"}
        hold |= {"max_attempts": 1, "claim_within_s": 120}
        item = world.put("hold: true", **hold)
        assert "is the turn of a hold of ann; that hold takes it; it ends in 2 min" in sentence(world, item)
        world.start(item)
        world.tell(item, "too late")
        world.fail(item)
        follow_up = max(world.items)
        assert "the next hold on its lane takes it; it ends in 2 min" in sentence(world, follow_up)

    def test_a_hold_whose_agent_may_not_start_says_so(self) -> None:
        world = World()
        item = world.put("hold: true", type="hold", labels=("hold",), agent="ann", claim_within_s=120)
        full = Agent(key="ann", name="ann", max_concurrency=1, running=1)
        text = sentence(world, item, agents={"ann": full})
        assert "is ready, but ann has 1 of 1 runs; it can start when one of ann's runs ends" in text
        other = Agent(key="ann", name="ann", types=("fix", "review"))
        assert "is ready, but ann takes only fix, review and no hold;" in sentence(
            world, item, agents={"ann": other}
        )


class TestWaiting:
    def test_a_schedule_and_a_back_off_are_told_apart(self) -> None:
        world = World()
        later = world.put("later", run_at_us=world.now_us + 7_200_000_000)
        assert "is scheduled; it is due in 2 h" in sentence(world, later)
        parked = put(world, "parked")
        assert "in back-off after a failed attempt; it is retried in 10 s" in sentence(world, parked)

    def test_an_item_that_was_only_given_back_has_not_failed(self) -> None:
        world = World()
        item = world.put("work")
        for _ in range(3):
            world.start(item)
            world.release(item)
        assert "in back-off after 3 releases in a row; it" in sentence(world, item)


class TestEnded:
    def test_a_dead_letter_says_how_often_it_was_tried_and_how_to_bring_it_back(self) -> None:
        world = World()
        item = world.put_running("work", max_attempts=1)
        world.fail(item)
        world.pass_s(300)
        said = world.why(item)
        tried = "failed 5 min ago after 1 attempt (attempts_exhausted)"
        assert said.sentence == f"Item {item} {tried} and stays failed."
        assert said.cures == (cure("retry", "gives it another attempt", item=item),)

    def test_a_cancelled_item_says_why(self) -> None:
        world = World()
        item = world.put("work")
        world.cancel(item, "not needed")
        assert "(not needed)" in sentence(world, item)

    def test_an_absorbed_item_names_who_carries_it_on(self) -> None:
        world = World()
        assert "superseded by the newer item 2" in sentence(world, put(world, "superseded"))
        world = World()
        assert "was coalesced into item 1 of the same agent;" in sentence(world, put(world, "coalesced"))

    def test_an_absorbed_item_for_anyone_has_no_agent(self) -> None:
        world = World()
        world.put("work", policy=Policy.COALESCE)
        item = world.put("more", policy=Policy.COALESCE)
        assert "was coalesced into item 1;" in sentence(world, item)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (8.4, "8.4 s"),
        (90, "90 s"),
        (119, "2 min"),
        (150, "2 min"),
        (3_599, "1 h"),
        (5_400, "1.5 h"),
        (7_199, "2 h"),
        (7_200, "2 h"),
        (86_400, "24 h"),
        (200_000, "2.3 d"),
        (3_456_000, "40 d"),
    ],
)
def test_spans_are_written_for_people(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_moments_are_written_for_people() -> None:
    assert [until(at_us, 0) for at_us in (None, 400_000, 1_400_000)] == ["now", "now", "in 1 s"]
    assert [ago(at_us, 9_000_000) for at_us in (None, 8_600_000, 1_000_000)] == [
        *("some time ago", "just now", "8 s ago")
    ]
