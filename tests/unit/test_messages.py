"""Messages: nothing said to an item is lost with it, and nothing is said twice without need."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.commands import Finish, Outcome
from interlock.core.model import OUR_BOT, EventKind, Item, ItemId, Mode, Policy
from tests.unit.world import LANE, World


class TestReadMarks:
    def test_what_the_claim_delivered_counts_as_read_when_the_run_is_done(self) -> None:
        world = World()
        item = world.put("work", message="first")
        world.tell(item, "second")
        world.start(item)
        world.done(item)
        assert world.status(item) == "completed"
        assert list(world.items) == [item]
        assert world.texts(item) == ["first", "second"]

    def test_what_came_later_and_was_seen_makes_no_follow_up(self) -> None:
        world = World()
        item = world.put("work", message="first")
        world.start(item)
        world.tell(item, "second")
        world.done(item, seen=2)
        assert list(world.items) == [item]

    def test_each_attempt_reads_from_the_start(self) -> None:
        world = World()
        item = world.put("work", message="first")
        world.start(item)
        world.tell(item, "second")
        world.pass_s(world.timing.lease_s)
        world.expire(item)
        state = world.items[item].state
        assert (state.delivered, state.seen, state.message_count) == (0, 0, 2)
        world.start(item)
        assert world.items[item].state.delivered == 2


class TestFollowUp:
    """Messages never read by a run that ended become an item of their own, before anyone is promoted."""

    def ended(self, world: World, **fields: Any) -> tuple[ItemId, Item]:
        """An item that was told two things after its claim and saw neither; and its follow-up."""
        item = world.put(
            "work",
            agent="coder",
            policy=Policy.COALESCE,
            priority=7,
            message="read",
            payload='{"a": 1}',
            labels=("gpu",),
            max_attempts=1,
            **fields,
        )
        world.start(item)
        world.tell(item, "unread one")
        world.tell(item, "unread two")
        return item, world.items[item]

    @pytest.mark.parametrize("ending", ["done", "failed", "lost", "cancelled by force"])
    def test_unread_messages_go_on_whatever_way_the_run_ended(self, ending: str) -> None:
        world = World()
        item, _ = self.ended(world)
        if ending == "done":
            world.done(item)
        elif ending == "failed":
            world.fail(item)
        elif ending == "lost":
            world.pass_s(world.timing.lease_s)
            world.expire(item)
        else:
            world.cancel(item, force=True)
        follow_up = world.newest()
        assert follow_up.id != item
        assert follow_up.status == "pending"
        assert world.texts(item) == ["read"]
        assert world.texts(follow_up.id) == ["unread one", "unread two"]

    def test_it_has_the_agent_priority_policy_labels_and_payload_of_its_parent(self) -> None:
        world = World()
        item, parent = self.ended(world)
        world.done(item)
        child = world.newest()
        assert child.spec.title == "Follow-up: work"
        for name in ("project", "type", "agent_key", "policy", "priority", "lane", "labels", "max_attempts"):
            assert getattr(child.spec, name) == getattr(parent.spec, name), name
        assert world.payloads[child.id] == '{"a": 1}'
        event = next(e for e in world.events if e.item == child.id and e.kind is EventKind.ITEM_ADDED)
        assert (event.reason, event.data["follows_item"]) == ("unread_messages", item)

    def test_only_what_lies_above_the_read_mark_goes_on(self) -> None:
        world = World()
        item, _ = self.ended(world)
        world.done(item, seen=2)
        assert world.texts(item) == ["read", "unread one"]
        assert world.texts(world.newest().id) == ["unread two"]

    def test_it_takes_the_lane_before_whoever_came_after_its_first_message(self) -> None:
        world = World()
        item = world.put_running("work", agent="coder")
        early = world.put("earlier than the message", agent="planner")
        world.tell(item, "unread")
        late = world.put("later than the message", agent="planner")
        assert world.done(item).promoted == (early,)
        follow_up = world.newest()
        assert follow_up.status == "deferred"
        assert world.line() == [follow_up.id, late]

    def test_its_place_is_that_of_its_first_unread_message_and_not_of_one_that_was_seen(self) -> None:
        world = World()
        item = world.put_running("work", agent="coder")
        world.tell(item, "seen")
        waiting = world.put("between the two messages", agent="planner")
        world.tell(item, "unread")
        assert world.done(item, seen=1).promoted == (waiting,)
        assert world.texts(world.newest().id) == ["unread"]

    def test_it_is_promoted_itself_when_its_message_was_first(self) -> None:
        world = World()
        item = world.put_running("work", agent="coder")
        world.tell(item, "unread")
        waiting = world.put("later than the message", agent="planner")
        run = world.items[item].state.run
        answer = world.done(item)
        follow_up = world.newest()
        assert answer.promoted == (follow_up.id,)
        assert world.status(waiting) == "deferred"
        assert follow_up.state.promoted_from == run

    def test_it_keeps_the_place_that_a_position_gave_its_parent(self) -> None:
        world = World()
        item = world.put_running("RFC-093-01", position=1)
        world.put("RFC-093-02", position=2)
        world.tell(item, "unread")
        world.done(item)
        assert world.owner() == world.newest().id

    def test_the_title_says_follow_up_once(self) -> None:
        world = World()
        item = world.put_running("work")
        for _ in range(3):
            world.tell(item, "unread")
            world.done(item)
            item = world.newest().id
            world.start(item)
        assert world.items[item].spec.title == "Follow-up: work"

    def test_a_title_of_full_length_is_cut_and_not_refused(self) -> None:
        world = World()
        item = world.put_running("t" * 500)
        world.tell(item, "unread")
        world.done(item)
        assert world.newest().spec.title == ("Follow-up: " + "t" * 500)[:500]

    def test_without_a_lane_it_may_be_claimed_at_once(self) -> None:
        world = World()
        item = world.put_running("work", lane=None)
        world.tell(item, "unread")
        world.done(item)
        assert world.newest().status == "pending"
        assert world.newest().spec.lane is None

    def test_on_an_observed_lane_it_is_held_back_by_nothing_either(self) -> None:
        world = World()
        world.set_mode(Mode.OBSERVE)
        item = world.put_running("work")
        world.put_running("beside")
        world.tell(item, "unread")
        world.done(item)
        assert world.newest().status == "pending"
        assert world.newest().spec.observed_lane == LANE

    def test_a_run_that_is_tried_again_needs_no_follow_up(self) -> None:
        world = World()
        item = world.put_running("work")
        world.tell(item, "unread")
        world.fail(item)
        assert list(world.items) == [item]
        assert world.texts(item) == ["unread"]

    def test_several_runs_end_in_one_batch_and_each_lane_is_handed_on_once(self) -> None:
        world = World()
        lanes = [f"issue:acme/app#{n}" for n in range(4)]
        owners = [world.put_running("work", lane=lane) for lane in lanes]
        waiting = [world.put("next", lane=lane) for lane in lanes]
        for owner in owners:
            world.tell(owner, "unread")
        answers = world.decide(*(Finish(run=world.run_of(o), item=o, outcome=Outcome.DONE) for o in owners))
        assert [a.promoted for a in answers] == [(w,) for w in waiting]
        follow_ups = [i for i in world.items.values() if i.spec.title == "Follow-up: work"]
        assert sorted(i.spec.lane or "" for i in follow_ups) == lanes
        assert all(i.status == "deferred" for i in follow_ups)

    def test_an_arrival_that_finds_the_owner_spent_lets_the_owners_unread_messages_go_first(self) -> None:
        world = World()
        owner = world.put_running("owner", max_attempts=1)
        world.tell(owner, "unread")
        world.pass_s(world.timing.lease_s)
        arrival = world.add("newcomer")
        assert arrival.verdict == "queued"
        assert world.items[world.owner() or ItemId(0)].spec.title == "Follow-up: owner"

    def test_an_arrival_that_replaces_the_follow_up_it_caused_gets_the_unread_messages_itself(self) -> None:
        world = World()
        owner = world.put_running(
            "owner", agent="coder", policy=Policy.SUPERSEDE, message="read", max_attempts=1
        )
        world.tell(owner, "unread")
        world.pass_s(world.timing.lease_s)
        newcomer = world.put("newcomer", agent="coder", policy=Policy.SUPERSEDE, message="new")
        assert world.owner() == newcomer
        assert world.texts(newcomer) == ["unread", "new"]
        assert world.texts(owner) == ["read"]


class TestTelling:
    @pytest.mark.parametrize("status", ["waiting", "deferred", "pending", "in_progress"])
    def test_every_unfinished_item_can_be_told_something(self, status: str) -> None:
        world = World()
        if status == "deferred":
            world.put_running("owner")
        item = world.put("work", run_at_us=world.now_us + 1 if status == "waiting" else None)
        if status == "in_progress":
            world.start(item)
        assert world.status(item) == status
        answer = world.tell(item, "hello")
        assert (answer.changed, answer.n) == (True, 1)
        assert world.tell(item, "again").n == 2
        assert world.texts(item) == ["hello", "again"]
        assert world.status(item) == status

    def test_an_ended_item_says_that_it_reads_nothing_any_more(self) -> None:
        world = World()
        item = world.put_running("work")
        world.done(item)
        answer = world.tell(item, "too late")
        assert not answer.changed
        assert "has already ended as completed and takes no messages" in answer.refusal
        assert world.texts(item) == []

    def test_a_message_for_an_absorbed_item_is_sent_on_to_its_absorber(self) -> None:
        world = World()
        absorber = world.put("work", agent="coder", policy=Policy.COALESCE)
        coalesced = world.put("more", agent="coder", policy=Policy.COALESCE)
        answer = world.tell(coalesced, "even more")
        assert (answer.changed, answer.forward_to) == (False, absorber)

    def test_a_persons_message_ends_a_back_off_and_a_bots_does_not(self) -> None:
        world = World()
        item = world.put_running("work")
        world.fail(item)
        world.tell(item, "progress: 50 %", sender=OUR_BOT)
        assert world.status(item) == "waiting"
        world.tell(item, "please go on")
        assert world.status(item) == "pending"
        assert world.texts(item) == ["progress: 50 %", "please go on"]

    def test_a_persons_message_does_not_start_what_is_scheduled_for_later(self) -> None:
        world = World()
        item = world.put("tomorrow", run_at_us=world.now_us + 1)
        world.tell(item, "hello")
        assert world.status(item) == "waiting"

    def test_a_message_to_a_running_item_names_its_run_in_the_history(self) -> None:
        world = World()
        item = world.put("work")
        run = world.start(item)
        world.tell(item, "hello")
        event = world.last(EventKind.MESSAGE_ADDED)
        assert (event.run, event.data["n"]) == (run, 1)
