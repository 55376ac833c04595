"""What follows from the fields of an item: stores and views rely on these words."""

from __future__ import annotations

import pytest

from interlock.core.model import ItemId, Policy, RetryLane
from tests.unit.test_operator_rules import put
from tests.unit.world import LANE, World

STATES = ["waiting", "deferred", "pending", "in_progress", "parked", "completed", "failed", "cancelled"]


@pytest.mark.parametrize(
    ("word", "of"),
    [
        ("active", {"pending", "in_progress"}),
        ("terminal", {"completed", "failed", "cancelled"}),
        ("parked", {"parked"}),
        ("scheduled", {"waiting"}),
    ],
)
@pytest.mark.parametrize("state", STATES)
def test_each_word_says_the_states_it_is_meant_for(state: str, word: str, of: set[str]) -> None:
    world = World()
    item = world.items[put(world, state)]
    assert getattr(item, word) == (state in of)


def test_an_owner_that_waits_out_a_back_off_is_both_active_and_parked() -> None:
    world = World()
    item = world.items[put(world, "parked", retry_lane=RetryLane.KEEP)]
    assert item.active
    assert item.parked


def test_a_release_that_gave_its_attempt_back_may_still_be_parked() -> None:
    world = World()
    item = world.put("work")
    for _ in range(3):
        world.start(item)
        world.release(item)
    assert world.items[item].state.attempt == 0
    assert world.items[item].parked


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("state", ["waiting", "parked", "pending", "in_progress", "completed"])
def test_only_what_waits_for_its_time_under_supersede_or_latest_may_find_its_place_taken(
    state: str, policy: Policy
) -> None:
    world = World()
    item = world.items[put(world, state, policy=policy)]
    expected = state in ("waiting", "parked") and policy in (Policy.SUPERSEDE, Policy.LATEST)
    assert item.comes_back == expected


def test_without_a_lane_nothing_can_take_its_place() -> None:
    world = World()
    item = world.put("later", lane=None, policy=Policy.LATEST, run_at_us=world.now_us + 1)
    assert not world.items[item].comes_back


def test_only_a_run_expires_and_it_does_at_its_earliest_deadline() -> None:
    world = World()
    later = world.put("later", lane=None, run_at_us=world.now_us + 1)
    assert world.items[later].expires_us is None
    running = world.put_running("work", timeout_s=30)
    assert world.items[running].expires_us == world.now_us + 30_000_000
    world.cancel(running)
    assert world.items[running].expires_us == world.now_us + 15_000_000
    world.done(running)
    assert world.items[running].expires_us is None


def test_time_moves_an_item_from_the_very_microsecond_on_that_it_is_due() -> None:
    world = World()
    item = world.items[world.put("later", run_at_us=world.now_us + 5)]
    assert [item.overdue(world.now_us + n) for n in (4, 5, 6)] == [False, True, True]
    assert not world.items[world.put("now")].overdue(world.now_us + 10**12)


def test_a_run_may_leave_unread_only_what_came_after_its_claim() -> None:
    world = World()
    item = world.put("work", message="before")
    assert not world.items[item].has_unread, "it has no run that could leave anything"
    world.start(item)
    assert not world.items[item].has_unread
    world.tell(item, "after")
    assert world.items[item].has_unread


@pytest.mark.parametrize(("lane", "locked"), [(LANE, LANE), (None, None)])
def test_the_lane_to_lock_is_the_one_it_stands_on(lane: str | None, locked: str | None) -> None:
    world = World()
    assert world.items[world.put("work", lane=lane)].spec.lock_lane == locked


def test_kin_is_agent_and_policy() -> None:
    world = World()
    one: ItemId = world.put("one", agent=" Coder", policy=Policy.LATEST)
    assert world.items[one].kin == ("coder", Policy.LATEST)
