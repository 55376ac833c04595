"""What operators, claims and the sweeper may do to an item: cancel, take back, retry, repair, overtake."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.model import EventKind, ItemId, Mode, Policy, RetryLane
from tests.unit.world import World


def put(world: World, status: str, **fields: Any) -> ItemId:
    """An item in the state named, on the world's lane."""
    match status:
        case "deferred":
            world.put_running("owner")
            return world.put("work", **fields)
        case "waiting":
            return world.put("work", run_at_us=world.now_us + 1, **fields)
        case "parked":
            item = world.put_running("work", **fields)
            world.fail(item)
        case "pending":
            return world.put("work", **fields)
        case "in_progress":
            return world.put_running("work", **fields)
        case "completed":
            item = world.put_running("work", **fields)
            world.done(item)
        case "failed":
            item = world.put_running("work", **fields)
            world.fail(item, retry=False)
        case "cancelled":
            item = world.put("work", **fields)
            world.cancel(item)
        case "superseded":
            item = world.put("work", agent="coder", policy=Policy.SUPERSEDE, **fields)
            world.put("newer", agent="coder", policy=Policy.SUPERSEDE)
        case "coalesced":
            world.put("work", agent="coder", policy=Policy.COALESCE)
            item = world.put("more", agent="coder", policy=Policy.COALESCE, **fields)
        case _:
            raise AssertionError(status)
    return item


class TestCancel:
    @pytest.mark.parametrize("status", ["waiting", "deferred", "pending", "parked"])
    @pytest.mark.parametrize("force", [False, True])
    def test_what_has_not_started_ends_at_once_with_the_reason(self, status: str, force: bool) -> None:
        world = World()
        item = put(world, status)
        answer = world.cancel(item, "not needed", force=force)
        assert answer.changed
        assert world.status(item) == "cancelled"
        assert world.items[item].state.due_us is None
        event = world.last(EventKind.ITEM_CANCELLED)
        assert (event.item, event.reason, event.data["why"]) == (item, "operator", "not needed")

    def test_a_pending_owner_hands_its_lane_on(self) -> None:
        world = World()
        owner, waiting = world.put("owner"), world.put("waiting")
        assert world.cancel(owner).promoted == (waiting,)
        assert world.last(EventKind.LANE_PROMOTED).data["from_run"] is None

    def test_an_owner_parked_on_its_lane_hands_it_on(self) -> None:
        world = World()
        owner = put(world, "parked", retry_lane=RetryLane.KEEP)
        waiting = world.put("waiting")
        assert world.cancel(owner).promoted == (waiting,)

    def test_one_that_only_waits_hands_on_nothing(self) -> None:
        world = World()
        owner = world.put_running("owner")
        first, second = world.put("first"), world.put("second")
        assert world.cancel(first).promoted == ()
        assert world.owner() == owner
        assert world.line() == [second]

    def test_a_running_item_is_asked_to_stop_and_has_its_grace(self) -> None:
        world = World()
        item = world.put_running("work")
        answer = world.cancel(item, "wrong branch")
        assert answer.changed
        state = world.items[item].state
        assert world.status(item) == "in_progress"
        assert (state.cancel_into, state.cancel_why) == ("cancelled", "wrong branch")
        assert state.revoke_us == world.now_us + 15_000_000
        assert state.due_us == state.revoke_us
        assert world.last(EventKind.CANCEL_REQUESTED).reason == "wrong branch"

    def test_a_grace_longer_than_the_lease_does_not_lengthen_the_lease(self) -> None:
        world = World()
        item = world.put("work", lease_s=5)
        world.start(item)
        due_us = world.items[item].state.due_us
        world.cancel(item)
        assert world.items[item].state.due_us == due_us

    def test_asking_again_moves_no_deadline_but_stands_in_the_history(self) -> None:
        world = World()
        item = world.put_running("work")
        world.cancel(item, "first reason")
        revoke_us = world.items[item].state.revoke_us
        world.pass_s(5)
        assert world.cancel(item, "second reason").changed
        assert world.items[item].state.revoke_us == revoke_us
        assert [e.reason for e in world.events if e.kind is EventKind.CANCEL_REQUESTED] == [
            "first reason",
            "second reason",
        ]

    def test_force_ends_the_run_at_once_and_hands_the_lane_on(self) -> None:
        world = World()
        item, waiting = world.put_running("work"), world.put("waiting")
        assert world.cancel(item, "runaway", force=True).promoted == (waiting,)
        assert world.status(item) == "cancelled"
        assert world.items[item].state.reason == "runaway"

    def test_force_on_a_run_that_was_asked_already_leaves_its_own_reason_in_the_history(self) -> None:
        world = World()
        item = world.put_running("work", agent="coder", policy=Policy.SUPERSEDE)
        newer = world.put("newer", agent="coder", policy=Policy.SUPERSEDE)
        world.cancel(item, "runaway", force=True)
        assert world.status(item) == "superseded"
        assert world.owner() == newer
        assert "runaway" in [e.reason for e in world.events if e.item == item]

    @pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "superseded", "coalesced"])
    def test_what_has_ended_is_not_ended_again(self, status: str) -> None:
        world = World()
        item = put(world, status)
        before = (dict(world.items), list(world.events))
        answer = world.cancel(item)
        assert not answer.changed
        assert f"has already ended as {status}" in answer.refusal
        assert (world.items, world.events) == before


class TestTakeBack:
    def test_the_item_is_offered_again_and_keeps_its_lane(self) -> None:
        world = World()
        item, waiting = world.put_running("work"), world.put("waiting")
        run = world.run_of(item)
        assert world.take_back(item, "worker is gone").changed
        assert world.statuses(item, waiting) == ["pending", "deferred"]
        assert world.runs[run].status == "released"
        assert world.done(item, run=run).refusal is not None

    def test_the_reason_stands_in_the_history(self) -> None:
        world = World()
        item = world.put_running("work")
        world.take_back(item, "worker is gone")
        event = world.last(EventKind.RUN_RELEASED)
        assert event.reason == "operator"
        assert event.data["why"] == "worker is gone"

    def test_under_a_cancel_request_the_item_ends(self) -> None:
        world = World()
        item = world.put_running("work")
        world.cancel(item)
        world.take_back(item)
        assert world.status(item) == "cancelled"

    @pytest.mark.parametrize("status", ["waiting", "deferred", "pending", "completed", "failed"])
    def test_there_is_nothing_to_take_from_an_item_that_does_not_run(self, status: str) -> None:
        world = World()
        item = put(world, status)
        answer = world.take_back(item)
        assert not answer.changed
        assert f"is {status}: no run holds it" in answer.refusal


class TestRetry:
    @pytest.mark.parametrize("status", ["failed", "cancelled"])
    def test_an_ended_item_comes_back_for_one_more_attempt(self, status: str) -> None:
        world = World()
        item = put(world, status, max_attempts=1)
        attempt = world.items[item].state.attempt
        assert world.retry(item, "fixed the runner").changed
        assert world.status(item) == "pending"
        world.start(item)
        assert world.items[item].state.attempt == attempt + 1
        world.fail(item)
        assert world.status(item) == "failed"
        event = world.last(EventKind.ITEM_RETRIED)
        assert (event.item, event.data["why"], event.data["attempt"]) == (
            item,
            "fixed the runner",
            attempt + 1,
        )

    def test_a_dead_letter_keeps_its_history_of_attempts(self) -> None:
        world = World()
        item = put(world, "failed", max_attempts=1)
        world.retry(item)
        world.start(item)
        world.done(item)
        assert [r.attempt for r in world.runs.values()] == [1, 2]

    def test_it_waits_behind_the_owner_with_its_old_ticket(self) -> None:
        world = World()
        item = put(world, "failed")
        owner, later = world.put("owner"), world.put("later")
        world.retry(item)
        assert world.owner() == owner
        assert world.line() == [item, later]

    def test_it_gives_way_to_a_newer_item_of_its_kin(self) -> None:
        world = World()
        item = put(world, "failed", agent="coder", policy=Policy.LATEST, message="old")
        newer = world.put("newer", agent="coder", policy=Policy.LATEST)
        world.retry(item)
        assert world.status(item) == "superseded"
        assert world.texts(newer) == ["old", "newer"]

    def test_messages_are_read_again_from_the_start(self) -> None:
        world = World()
        item = put(world, "failed", message="hello")
        world.retry(item)
        state = world.items[item].state
        assert (state.message_count, state.delivered, state.seen) == (1, 0, 0)

    def test_it_ends_a_back_off_at_once(self) -> None:
        world = World()
        item = put(world, "parked")
        assert world.retry(item, "network is back").changed
        assert world.status(item) == "pending"
        assert world.last(EventKind.ITEM_RETRIED).data["why"] == "network is back"

    def test_it_forgets_the_run_that_once_promoted_it(self) -> None:
        world = World()
        owner, item = world.put_running("owner"), world.put("item")
        world.done(owner)
        world.cancel(item)
        world.retry(item)
        assert world.items[item].state.promoted_from is None

    def test_a_cancelled_item_forgets_why_it_was_cancelled(self) -> None:
        world = World()
        item = put(world, "cancelled")
        world.retry(item)
        assert world.items[item].state.cancel_why is None

    @pytest.mark.parametrize(
        "status", ["waiting", "deferred", "pending", "in_progress", "completed", "superseded", "coalesced"]
    )
    def test_only_failed_and_cancelled_items_are_retried(self, status: str) -> None:
        world = World()
        item = put(world, status)
        answer = world.retry(item)
        assert not answer.changed
        assert "and cannot be retried" in answer.refusal
        assert world.status(item) == status


class TestWhoDidIt:
    """Every operator's action stands in the history with a name, if one was given."""

    def signed(self, world: World) -> list[tuple[str, str]]:
        return [(str(e.kind), e.data["by"]) for e in world.events if e.data.get("by") is not None]

    def test_a_cancelled_item_says_who_cancelled_it(self) -> None:
        world = World()
        world.cancel(world.put("work"), by="alice")
        assert self.signed(world) == [("item.cancelled", "alice")]

    def test_a_request_and_the_one_who_repeats_it_are_told_apart(self) -> None:
        world = World()
        item = world.put_running("work")
        world.cancel(item, by="alice")
        world.cancel(item, by="bob", force=True)
        assert self.signed(world) == [
            ("cancel.requested", "alice"),
            ("cancel.requested", "bob"),
            ("run.cancelled", "bob"),
        ]

    def test_taking_back_and_retrying_are_signed(self) -> None:
        world = World()
        item = world.put_running("work")
        world.take_back(item, by="alice")
        world.start(item)
        world.fail(item)
        world.retry(item, by="bob")
        world.start(item)
        world.fail(item, retry=False)
        world.retry(item, by="carol")
        assert self.signed(world) == [
            ("run.released", "alice"),
            ("item.retried", "bob"),
            ("item.retried", "carol"),
        ]

    def test_a_newer_arrival_signs_nothing(self) -> None:
        world = World()
        world.put_running("work", agent="coder", policy=Policy.SUPERSEDE)
        world.put("newer", agent="coder", policy=Policy.SUPERSEDE)
        assert self.signed(world) == []


class TestRepair:
    def test_a_line_that_nobody_leads_gets_its_first_as_the_owner(self) -> None:
        """No rule leaves such a line; a database restored by hand might."""
        world = World()
        owner, first = world.put("owner"), world.put("first")
        del world.items[owner]
        assert world.repair().promoted == (first,)

    def test_a_lane_that_is_owned_or_empty_is_left_alone(self) -> None:
        world = World()
        assert not world.repair().changed
        world.put("owner")
        world.put("first")
        assert not world.repair().changed

    def test_an_arrival_repairs_the_lane_it_touches_and_waits_its_turn(self) -> None:
        world = World()
        owner, first = world.put("owner"), world.put("first")
        del world.items[owner]
        arrival = world.add("newcomer")
        assert world.owner() == first
        assert arrival.verdict == "queued"

    def test_a_lane_with_an_observed_run_is_not_opened_by_a_repair(self) -> None:
        world = World()
        world.set_mode(Mode.OBSERVE)
        world.put_running("observed")
        world.set_mode(Mode.ENFORCE)
        world.put("held")
        assert not world.repair().changed


class TestOvertake:
    """Only past an owner that has not started, and never where a position or a kept retry orders."""

    def test_the_deferred_item_takes_the_lane_and_the_owner_keeps_its_ticket(self) -> None:
        world = World()
        owner = world.put("owner", agent="busy")
        item, later = world.put("item", agent="free"), world.put("later")
        assert world.overtake(item, owner).changed
        assert world.owner() == item
        assert world.line() == [owner, later]
        event = world.last(EventKind.LANE_OVERTAKEN)
        assert (event.item, event.data["by_item"], event.data["by_agent"]) == (owner, item, "free")
        world.start(item)
        assert world.done(item).promoted == (owner,)

    def test_an_owner_that_started_meanwhile_is_not_overtaken(self) -> None:
        world = World()
        owner, item = world.put_running("owner"), world.put("item")
        assert not world.overtake(item, owner).changed
        assert world.owner() == owner

    @pytest.mark.parametrize(("of_owner", "of_item"), [(1, None), (None, 2), (1, 2)])
    def test_positions_are_never_overtaken(self, of_owner: int | None, of_item: int | None) -> None:
        world = World()
        owner, item = world.put("owner", position=of_owner), world.put("item", position=of_item)
        assert not world.overtake(item, owner).changed

    @pytest.mark.parametrize("parked", [True, False], ids=["in its back-off", "after its back-off"])
    def test_a_retry_that_keeps_its_lane_is_never_overtaken(self, parked: bool) -> None:
        world = World()
        owner = put(world, "parked", retry_lane=RetryLane.KEEP)
        item = world.put("item")
        if not parked:
            world.retry(owner)
        assert not world.overtake(item, owner).changed

    def test_an_item_that_was_promoted_or_ended_meanwhile_overtakes_nobody(self) -> None:
        world = World()
        owner, item = world.put("owner"), world.put("item")
        world.cancel(item)
        assert not world.overtake(item, owner).changed

    def test_an_item_of_another_lane_overtakes_nobody(self) -> None:
        world = World()
        owner = world.put("owner")
        world.put("other owner", lane="issue:acme/app#43")
        item = world.put("item", lane="issue:acme/app#43")
        assert not world.overtake(item, owner).changed
