"""Rule A: a `coalesce` arrival becomes a message of the item that has its name, by address or by run."""

from __future__ import annotations

import pytest

from interlock.core.model import HOLD, ArrivalDecision, Policy, Reason
from tests.unit.world import World

COALESCE = {"agent": "coder", "policy": Policy.COALESCE}


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("addressed", ["", "coder"], ids=["for nobody", "for coder"])
def test_a_comment_for_the_agent_that_runs_the_lane_goes_to_its_run(policy: Policy, addressed: str) -> None:
    world = World()
    item = world.put("for whoever comes", agent=addressed, policy=policy)
    world.start(item, "coder")
    arrival = world.add("a comment", message="look", **COALESCE)
    assert (arrival.verdict, arrival.reason, arrival.item) == (
        ArrivalDecision.COALESCED,
        Reason.SAME_NAME,
        item,
    )
    assert world.texts(item)[-1] == "look"


def test_who_ran_an_item_for_nobody_before_has_no_claim_to_its_name() -> None:
    world = World()
    item = world.put("for whoever comes")
    world.start(item, "coder")
    world.release(item)
    arrival = world.add("a comment", **COALESCE)
    assert (arrival.verdict, arrival.reason) == (ArrivalDecision.QUEUED, Reason.DEFERRED)


@pytest.mark.parametrize("policy", Policy)
def test_the_policy_of_a_waiting_item_is_all_one(policy: Policy) -> None:
    world = World()
    world.put_running("another's", agent="cto")
    if policy is Policy.REJECT:  # it would be refused here
        return
    waiting = world.put("waits", agent="coder", policy=policy)
    assert world.add("a comment", **COALESCE).item == waiting


def test_a_hold_absorbs_nothing_and_its_line_is_no_obstacle() -> None:
    world = World()
    world.put_running("held", agent="coder", type=HOLD, labels=(HOLD,))
    world.put("waits to hold", agent="coder", type=HOLD, labels=(HOLD,))
    first = world.add("a comment", **COALESCE)
    assert (first.verdict, first.reason) == (ArrivalDecision.QUEUED, Reason.LANE_QUEUED)
    assert world.add("another", **COALESCE).item == first.item


def test_ranks_go_before_age() -> None:
    """Parked retry, pending, deferred, running, each the oldest of its kind."""
    world = World()
    parked = world.put("retry", agent="coder")
    world.start(parked, "coder")
    running = world.put("runs", agent="coder")
    world.fail(parked)
    world.start(running, "coder")
    older, younger = world.put("older", agent="coder"), world.put("younger", agent="coder")
    found = []
    for _ in range(4):
        item = world.add("a comment", **COALESCE).item
        assert item is not None
        found.append(item)
        if world.items[item].status != "in_progress":
            world.cancel(item)
    assert found == [parked, older, younger, running]
