"""Arrival beyond the table: who takes an input in first, dedupe keys, schedules, positions, bots."""

from __future__ import annotations

import pytest

from interlock.core.model import OUR_BOT, EventKind, Item, ItemId, Mode, ModeRule, Policy, mode_for
from tests.unit.world import LANE, World


def item_of(world: World, item: ItemId | None) -> Item:
    assert item is not None
    return world.items[item]


class TestCoalesce:
    """The absorber is looked for in this order: parked retry, pending, deferred, running."""

    def put(self, world: World, title: str) -> ItemId:
        return world.put(title, agent="coder", policy=Policy.COALESCE)

    def put_parked(self, world: World) -> ItemId:
        """An item that failed and waits out its back-off while its lane is free."""
        item = self.put(world, "parked")
        world.start(item)
        world.fail(item)
        return item

    def put_cancelled(self, world: World) -> ItemId:
        """An item that a retry brings back beside a newer one of its kin."""
        item = self.put(world, "cancelled")
        world.cancel(item)
        return item

    def test_a_parked_retry_takes_the_input_in_and_waits_on_behind_the_lane(self) -> None:
        world = World()
        parked = self.put_parked(world)
        world.put_running("of another", agent="planner")

        arrival = world.add("more", agent="coder", policy=Policy.COALESCE)

        assert arrival.item == parked
        assert world.status(parked) == "deferred"
        assert world.texts(parked) == ["more"]

    def test_a_pending_item_takes_the_input_in(self) -> None:
        world = World()
        pending = self.put(world, "pending")
        assert world.add("more", agent="coder", policy=Policy.COALESCE).item == pending

    def test_a_deferred_item_takes_the_input_in_and_not_the_owner_of_another_agent(self) -> None:
        world = World()
        world.put_running("of another", agent="planner")
        deferred = self.put(world, "deferred")
        assert world.add("more", agent="coder", policy=Policy.COALESCE).item == deferred

    def test_a_running_item_takes_the_input_in_when_nothing_else_of_the_agent_waits(self) -> None:
        world = World()
        running = self.put(world, "running")
        run = world.start(running)
        arrival = world.add("more", agent="coder", policy=Policy.COALESCE)
        assert arrival.item == running
        assert arrival.holder is not None
        assert arrival.holder.state.run == run
        assert world.last(EventKind.ITEM_COALESCED).run == run

    def test_a_pending_item_is_preferred_to_an_older_deferred_one(self) -> None:
        world = World()
        retried = self.put_cancelled(world)
        pending = self.put(world, "pending")
        world.retry(retried)
        assert world.statuses(pending, retried) == ["pending", "deferred"]
        assert world.add("more", agent="coder", policy=Policy.COALESCE).item == pending

    def test_a_deferred_item_is_preferred_to_the_running_one_that_has_read_its_messages(self) -> None:
        world = World()
        retried = self.put_cancelled(world)
        running = self.put(world, "running")
        world.start(running)
        world.retry(retried)
        assert world.statuses(running, retried) == ["in_progress", "deferred"]
        assert world.add("more", agent="coder", policy=Policy.COALESCE).item == retried

    def test_a_parked_retry_is_preferred_to_a_pending_item(self) -> None:
        world = World()
        retried = self.put_cancelled(world)
        parked = self.put_parked(world)
        world.retry(retried)
        assert world.statuses(parked, retried) == ["waiting", "pending"]
        assert world.add("more", agent="coder", policy=Policy.COALESCE).item == parked

    def test_an_item_scheduled_for_later_takes_nothing_in(self) -> None:
        world = World()
        world.put("tomorrow", agent="coder", policy=Policy.COALESCE, run_at_us=world.now_us + 1)
        assert world.add("now", agent="coder", policy=Policy.COALESCE).verdict == "admitted"

    def test_an_input_without_a_message_travels_by_its_title_and_keeps_its_payload(self) -> None:
        world = World()
        absorber = self.put(world, "first")
        arrival = world.add("look at the log", agent="coder", policy=Policy.COALESCE, payload='{"a": 1}')
        assert world.texts(absorber) == ["look at the log"]
        arrived = item_of(world, arrival.arrived)
        assert world.payloads[arrived.id] == '{"a": 1}'
        assert world.messages[absorber, 1].origin == arrived.id

    def test_five_inputs_of_one_agent_make_one_run_with_all_of_them_in_order(self) -> None:
        world = World()
        first = self.put(world, "first")
        world.start(first)
        for n in range(4):
            self.put(world, f"input {n}")
        assert world.texts(first) == ["input 0", "input 1", "input 2", "input 3"]
        assert world.owner() == first
        assert world.line() == []


class TestDedupe:
    def test_a_key_seen_in_the_project_answers_with_the_first_item_and_leaves_no_row(self) -> None:
        world = World()
        first = world.put("first", dedupe_key="delivery-1")
        again = world.add("again", lane="issue:other/repo#7", dedupe_key="delivery-1")
        assert (again.verdict, again.reason, again.item, again.arrived) == (
            "duplicate",
            "dedupe_key_seen",
            first,
            None,
        )
        assert list(world.items) == [first]
        event = world.last(EventKind.ITEM_DUPLICATE)
        assert (event.item, event.data["dedupe_key"]) == (first, "delivery-1")

    def test_the_same_key_in_another_project_is_another_key(self) -> None:
        world = World()
        world.put("first", lane=None, project="one", dedupe_key="delivery-1")
        assert world.add("other", lane=None, project="two", dedupe_key="delivery-1").verdict == "admitted"

    def test_a_key_that_comes_twice_in_one_batch_is_kept_by_its_first_item(self) -> None:
        world = World()
        batch = [world.arrival(f"item {n}", lane=None, dedupe_key="same") for n in range(3)]
        answers = world.decide(*batch)
        assert [a.verdict for a in answers] == ["admitted", "duplicate", "duplicate"]
        assert [a.item for a in answers] == [batch[0].id] * 3

    def test_a_rejected_arrival_does_not_burn_its_key(self) -> None:
        world = World()
        owner = world.put_running("owner")
        assert world.add("new", policy=Policy.REJECT, dedupe_key="once").verdict == "rejected"
        world.done(owner)
        assert world.add("new", policy=Policy.REJECT, dedupe_key="once").verdict == "admitted"
        assert world.add("new", policy=Policy.REJECT, dedupe_key="once").verdict == "duplicate"

    def test_a_key_refused_and_then_taken_within_one_batch_belongs_to_the_item_that_was_taken_in(
        self,
    ) -> None:
        world = World()
        world.put_running("owner")
        refused = world.arrival("refused", policy=Policy.REJECT, dedupe_key="once")
        taken = world.arrival("taken", lane=None, dedupe_key="once")
        again = world.arrival("again", lane=None, dedupe_key="once")
        answers = world.decide(refused, taken, again)
        assert [a.verdict for a in answers] == ["rejected", "admitted", "duplicate"]
        assert world.keys == {("default", "once"): taken.id}
        assert world.add("later", lane=None, dedupe_key="once").item == taken.id

    def test_a_duplicate_wakes_nobody_and_tells_nobody(self) -> None:
        world = World()
        item = world.put("first", agent="coder", policy=Policy.COALESCE, dedupe_key="same")
        world.start(item)
        world.fail(item)
        world.add("again", agent="coder", policy=Policy.COALESCE, dedupe_key="same", message="again")
        assert world.status(item) == "waiting"
        assert world.texts(item) == []


class TestSchedule:
    def test_an_item_for_later_waits_without_its_lane_and_does_not_block_it(self) -> None:
        world = World()
        later = world.add("later", run_at_us=world.now_us + 1)
        assert (later.verdict, later.reason) == ("queued", "scheduled")
        assert world.add("now").verdict == "admitted"

    def test_a_time_that_has_come_already_is_no_schedule(self) -> None:
        world = World()
        arrival = world.add("now", run_at_us=world.now_us)
        assert arrival.verdict == "admitted"
        assert item_of(world, arrival.item).state.due_us is None

    def test_a_delay_counts_from_the_arrival_on_the_stores_clock(self) -> None:
        world = World()
        arrival = world.add("later", run_after_s=1.5)
        assert item_of(world, arrival.item).state.due_us == world.now_us + 1_500_000
        assert world.add("now", run_after_s=0).verdict == "admitted"

    def test_an_observed_item_for_later_waits_too(self) -> None:
        world = World()
        world.set_mode(Mode.OBSERVE)
        arrival = world.add("later", run_at_us=world.now_us + 5)
        assert arrival.verdict == "observed"
        assert item_of(world, arrival.item).status == "waiting"

    def test_what_arrives_now_neither_waits_for_nor_replaces_what_is_scheduled(self) -> None:
        world = World()
        later = world.put("later", agent="coder", policy=Policy.SUPERSEDE, run_at_us=world.now_us + 1)
        arrival = world.add("now", agent="coder", policy=Policy.SUPERSEDE)
        assert arrival.verdict == "admitted"
        assert world.status(later) == "waiting"


class TestLine:
    def test_the_line_is_ordered_by_position_then_by_ticket_and_priority_plays_no_part(self) -> None:
        world = World()
        owner = world.put_running("RFC-093-01", position=1)
        third = world.put("RFC-093-03", position=3, priority=10)
        late = world.put("no position", priority=100)
        second = world.put("RFC-093-02", position=2)
        also_second = world.put("RFC-093-02 again", position=2)
        assert world.line() == [second, also_second, third, late]
        assert world.done(owner).promoted == (second,)

    def test_an_arrival_is_told_its_place_in_the_line(self) -> None:
        world = World()
        world.put_running("owner")
        assert [world.add(f"item {n}").position for n in range(3)] == [1, 2, 3]
        assert world.add("first of all", position=1).position == 1
        assert world.add("second", position=2).position == 2

    def test_a_positioned_arrival_stands_behind_whoever_waits_for_a_run_to_stop(self) -> None:
        world = World()
        world.put_running("owner", agent="coder", policy=Policy.SUPERSEDE)
        first = world.put("first", agent="coder", policy=Policy.SUPERSEDE, position=2)
        for position, place in ((1, 2), (2, 3), (3, 4)):
            arrival = world.add("other", position=position)
            assert world.line().index(arrival.arrived or ItemId(0)) + 1 == arrival.position == place
        assert world.line()[0] == first

    def test_the_arrivals_of_a_batch_are_told_their_places_too(self) -> None:
        world = World()
        world.put_running("owner")
        world.put("waiting")
        answers = world.decide(*(world.arrival(f"item {n}") for n in range(3)))
        assert [a.position for a in answers] == [2, 3, 4]

    @pytest.mark.parametrize("policy", [Policy.SUPERSEDE, Policy.LATEST])
    def test_who_replaces_the_only_one_in_line_is_told_the_first_place(self, policy: Policy) -> None:
        world = World()
        world.put_running("of another", agent="planner")
        world.put("older", agent="coder", policy=policy)
        newer = world.add("newer", agent="coder", policy=policy)
        assert world.line() == [newer.item]
        assert newer.position == 1

    def test_who_finds_the_owner_gone_and_the_first_promoted_is_told_the_place_after_that(self) -> None:
        world = World()
        world.put_running("owner", max_attempts=1)
        first, second = world.put("first"), world.put("second")
        world.pass_s(world.timing.lease_s)
        arrival = world.add("third")
        assert world.owner() == first
        assert world.line() == [second, arrival.item]
        assert arrival.position == 2

    def test_a_superseding_newcomer_waits_first_in_line_before_items_of_others(self) -> None:
        world = World()
        world.put_running("owner", agent="coder", policy=Policy.SUPERSEDE)
        other = world.put("of another", agent="planner", position=1)
        newer = world.add("newer", agent="coder", policy=Policy.SUPERSEDE)
        assert world.line() == [newer.item, other]
        assert newer.position == 1

    def test_a_latest_newcomer_keeps_to_its_place_behind_items_of_others(self) -> None:
        world = World()
        world.put_running("owner", agent="coder", policy=Policy.LATEST)
        other = world.put("of another", agent="planner")
        newer = world.add("newer", agent="coder", policy=Policy.LATEST)
        assert world.line() == [other, newer.item]


class TestBots:
    """The own bot's events never wake, cancel or supersede."""

    @pytest.mark.parametrize("policy", [Policy.SUPERSEDE, Policy.LATEST])
    def test_a_bots_arrival_becomes_a_message_and_replaces_nobody(self, policy: Policy) -> None:
        world = World()
        running = world.put_running("running", agent="coder", policy=policy)
        arrival = world.add("progress", agent="coder", policy=policy, sender=OUR_BOT)
        assert (arrival.verdict, arrival.item) == ("coalesced", running)
        assert item_of(world, running).state.cancel_into is None
        assert world.texts(running) == ["progress"]
        world.done(running)
        assert world.statuses(running) == ["completed"]
        assert len(world.items) == 2

    def test_a_bots_input_is_kept_but_ends_no_back_off(self) -> None:
        world = World()
        item = world.put_running("work", agent="coder", policy=Policy.COALESCE)
        world.fail(item)
        world.add("progress", agent="coder", policy=Policy.COALESCE, sender=OUR_BOT)
        assert world.status(item) == "waiting"
        assert world.texts(item) == ["progress"]

    def test_a_persons_input_ends_the_back_off(self) -> None:
        world = World()
        item = world.put_running("work", agent="coder", policy=Policy.COALESCE)
        world.fail(item)
        world.add("please go on", agent="coder", policy=Policy.COALESCE)
        assert world.status(item) == "pending"
        assert world.last(EventKind.ITEM_REENTERED).reason == "woken_by_message"


class TestRefusal:
    def test_a_rejected_arrival_names_the_holder_and_leaves_an_event_but_no_row(self) -> None:
        world = World()
        owner = world.put_running("owner", agent="planner")
        run = item_of(world, owner).state.run
        arrival = world.add("new", agent=" Coder", policy=Policy.REJECT)
        assert arrival.holder == item_of(world, owner)
        assert list(world.items) == [owner]
        event = world.last(EventKind.ITEM_REJECTED)
        assert (event.lane, event.agent, event.run, event.data["holder_item"]) == (LANE, "coder", run, owner)


class TestModes:
    def rules(self, *rules: tuple[str, str, str]) -> tuple[ModeRule, ...]:
        return tuple(ModeRule(scope=s, value=v, mode=Mode(m)) for s, v, m in rules)

    def test_lanes_are_enforced_where_nothing_was_said(self) -> None:
        assert mode_for((), "default", LANE) is Mode.ENFORCE

    def test_the_project_decides_where_no_prefix_does(self) -> None:
        rules = self.rules(("project", "acme", "observe"), ("lane", "series:", "off"))
        assert mode_for(rules, "acme", LANE) is Mode.OBSERVE
        assert mode_for(rules, "other", LANE) is Mode.ENFORCE

    def test_the_longest_prefix_wins_over_shorter_ones_and_over_the_project(self) -> None:
        rules = self.rules(
            ("project", "acme", "off"), ("lane", "issue:", "observe"), ("lane", "issue:acme/", "enforce")
        )
        assert mode_for(rules, "acme", "issue:acme/app#1") is Mode.ENFORCE
        assert mode_for(rules, "acme", "issue:other/app#1") is Mode.OBSERVE
        assert mode_for(rules, "acme", "branch:main") is Mode.OFF

    def test_what_would_have_been_counts_every_observed_item_and_not_just_the_oldest(self) -> None:
        """Enforced, the second input of the coder would have gone to its deferred first one."""
        world = World()
        world.set_mode(Mode.OBSERVE)
        world.put_running("of the planner", agent="planner", policy=Policy.COALESCE)
        assert world.add("one", agent="coder", policy=Policy.COALESCE).reason == "would_be_queued"
        assert world.add("two", agent="coder", policy=Policy.COALESCE).reason == "would_be_coalesced"

    def test_after_a_switch_to_enforce_the_lane_opens_when_the_last_observed_run_has_ended(self) -> None:
        world = World()
        world.set_mode(Mode.OBSERVE)
        one, two = world.put_running("one"), world.put_running("two")
        world.set_mode(Mode.ENFORCE)
        held = world.put("held")
        assert world.status(held) == "deferred"
        assert world.done(one).promoted == ()
        assert world.done(two).promoted == (held,)

    @pytest.mark.parametrize("ending", ["failed", "lost", "cancelled", "parked"])
    def test_the_lane_opens_whatever_way_the_observed_run_ended(self, ending: str) -> None:
        world = World()
        world.set_mode(Mode.OBSERVE)
        observed = world.put_running("observed", max_attempts=3 if ending == "parked" else 1)
        world.set_mode(Mode.ENFORCE)
        held = world.put("held")
        if ending in ("failed", "parked"):
            world.fail(observed)
        elif ending == "lost":
            world.pass_s(world.timing.lease_s)
            world.expire(observed)
        else:
            world.cancel(observed, force=True)
        assert world.owner() == held
