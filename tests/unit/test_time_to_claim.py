"""The time to be claimed: it runs while an item is ready; one that nobody claims gives its lane away."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.model import EventKind, ItemId, NewItem, Policy, Reason, RetryLane
from interlock.core.timing import to_us
from interlock.core.validation import checked
from tests.unit.world import World


def by_us(world: World, item: ItemId) -> int | None:
    return world.items[item].state.claim_by_us


def test_an_item_that_is_ready_and_not_claimed_in_time_ends_and_the_next_is_promoted() -> None:
    world = World()
    owner, heir = world.put(claim_within_s=30), world.put()
    world.pass_s(30)
    moved = world.expire(owner)
    assert (moved.changed, moved.promoted) == (True, (heir,))
    assert world.statuses(owner, heir) == ["cancelled", "pending"]
    state = world.items[owner].state
    assert (state.reason, state.ended_us, state.claim_by_us) == (Reason.UNCLAIMED, world.now_us, None)
    assert world.last(EventKind.ITEM_CANCELLED).reason == Reason.UNCLAIMED


def test_before_its_time_nothing_moves_it() -> None:
    world = World()
    item = world.put(claim_within_s=30)
    world.pass_s(29.999999)
    assert not world.expire(item).changed


def test_without_a_time_to_claim_an_item_waits_for_ever() -> None:
    world = World()
    item = world.put()
    world.pass_s(10**9)
    assert not world.expire(item).changed
    assert by_us(world, item) is None


def test_a_claim_stops_it_and_an_item_that_is_offered_again_has_its_whole_time_again() -> None:
    world = World()
    item = world.put(claim_within_s=30)
    world.pass_s(29)
    world.start(item)
    world.pass_s(20)
    assert not world.expire(item).changed
    world.release(item)
    assert by_us(world, item) == world.now_us + to_us(30)


def test_in_line_no_time_runs_and_a_promotion_starts_it() -> None:
    world = World()
    owner = world.put_running()
    heir = world.put(claim_within_s=30)
    assert by_us(world, heir) is None
    world.pass_s(1_000)
    assert not world.expire(heir).changed
    world.done(owner)
    assert by_us(world, heir) == world.now_us + to_us(30)


def test_a_message_or_a_failed_overtaking_gives_no_new_time() -> None:
    world = World()
    item = world.put(claim_within_s=30)
    started_us = world.now_us
    world.pass_s(10)
    world.tell(item, "still there?")
    assert by_us(world, item) == started_us + to_us(30)


def test_an_owner_that_is_overtaken_stands_in_line_without_time_and_its_rival_has_its_own() -> None:
    world = World()
    owner = world.put(agent="full", claim_within_s=30)
    rival = world.put(agent="free", claim_within_s=60)
    world.pass_s(10)
    world.overtake(rival, owner)
    assert by_us(world, owner) is None
    assert by_us(world, rival) == world.now_us + to_us(60)


def test_back_off_and_schedule_are_no_time_to_claim() -> None:
    world = World()
    kept = world.put(lane="a:1", claim_within_s=30, retry_lane=RetryLane.KEEP)
    world.start(kept)
    world.fail(kept)
    scheduled = world.put(lane=None, claim_within_s=30, run_after_s=100)
    assert world.statuses(kept, scheduled) == ["pending", "waiting"]
    assert (by_us(world, kept), by_us(world, scheduled)) == (None, None)
    world.pass_s(100)
    for item in (kept, scheduled):
        world.expire(item)
        assert world.status(item) == "pending"
        assert by_us(world, item) == world.now_us + to_us(30)


def test_an_arrival_ends_an_owner_that_nobody_claimed_and_lets_the_line_go_first() -> None:
    world = World()
    dead = world.put(claim_within_s=30)
    waiting = world.put(claim_within_s=30)
    world.pass_s(30)
    late = world.put(policy=Policy.REJECT, lane="a:1")
    newcomer = world.put()
    assert world.statuses(dead, waiting, newcomer, late) == ["cancelled", "pending", "deferred", "pending"]
    assert by_us(world, waiting) == world.now_us + to_us(30), "a whole time from its promotion"


def test_a_retry_brings_it_back_with_a_whole_time() -> None:
    world = World()
    item = world.put(claim_within_s=30)
    world.pass_s(31)
    world.expire(item)
    world.retry(item)
    assert world.status(item) == "pending"
    assert by_us(world, item) == world.now_us + to_us(30)


def test_a_follow_up_of_such_an_item_is_one_too() -> None:
    world = World()
    item = world.put_running(claim_within_s=30)
    world.tell(item, "and this")
    world.done(item)
    assert by_us(world, world.newest().id) == world.now_us + to_us(30)


def test_why_tells_when_it_ends() -> None:
    world = World()
    assert "it ends in 30 s unless claimed" in world.why(world.put(claim_within_s=30)).sentence


@pytest.mark.parametrize("span_s", [0, 0.5, -1, 31 * 24 * 3600.0])
def test_a_time_out_of_range_is_refused(span_s: float) -> None:
    with pytest.raises(InvalidInput, match="time to claim"):
        checked(NewItem(title="work", claim_within_s=span_s))
