"""supersede and latest: one run at the end, and everything that was said in its hands, in order."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.model import EventKind, ItemId, Policy, RetryLane
from tests.unit.world import World

COMMENTS = ["one", "two", "three", "four", "five"]


def comment(world: World, text: str, *, policy: Policy = Policy.SUPERSEDE, agent: str = "coder") -> ItemId:
    return world.put(f"comment {text}", agent=agent, policy=policy, message=text)


@pytest.mark.parametrize("policy", [Policy.SUPERSEDE, Policy.LATEST])
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in one batch"])
def test_five_quick_comments_make_one_item_that_has_all_five(policy: Policy, at_once: bool) -> None:
    world = World()
    arrivals = [world.arrival(f"comment {t}", agent="coder", policy=policy, message=t) for t in COMMENTS]
    if at_once:
        world.decide(*arrivals)
    else:
        for arrival in arrivals:
            world.decide(arrival)
    *older, newest = [a.id for a in arrivals]
    assert world.statuses(*older) == ["superseded"] * 4
    assert world.status(newest) == "pending"
    assert world.texts(newest) == COMMENTS
    assert all(world.texts(i) == [] for i in older)


def test_what_waited_already_travels_with_a_whole_batch_that_replaces_it() -> None:
    """The first comment is stored when the others come: it has to go two steps in one transaction."""
    world = World()
    first = comment(world, "one")
    arrivals = [
        world.arrival(f"comment {t}", agent="coder", policy=Policy.SUPERSEDE, message=t) for t in COMMENTS[1:]
    ]
    world.decide(*arrivals)
    newest = arrivals[-1].id
    assert world.status(first) == "superseded"
    assert world.texts(newest) == COMMENTS


def test_five_quick_comments_on_a_running_owner_ask_it_to_stop_once() -> None:
    world = World()
    running = comment(world, "one")
    world.start(running)
    revoke_us = None
    for text in COMMENTS[1:]:
        world.pass_s(1)
        comment(world, text)
        revoke_us = revoke_us or world.items[running].state.revoke_us
    state = world.items[running].state
    assert state.revoke_us == revoke_us, "a second request must not move the end of the grace"
    assert world.kinds().count("cancel.requested") == 1
    newest = world.line()[0]
    assert state.absorbed_by == newest
    assert world.texts(newest) == COMMENTS[1:]

    world.pass_s(world.timing.cancel_grace_s)
    assert world.expire(running).promoted == (newest,)
    assert world.status(running) == "superseded"
    assert world.texts(newest) == COMMENTS
    assert [i.status.value for i in world.items.values()].count("superseded") == 4


def test_a_done_that_comes_before_the_revocation_is_accepted_as_reported() -> None:
    world = World()
    running = comment(world, "one")
    world.start(running)
    newer = comment(world, "two")
    world.pass_s(world.timing.cancel_grace_s - 1)
    assert world.done(running).promoted == (newer,)
    assert world.status(running) == "completed"
    assert world.items[running].state.absorbed_by is None
    assert world.texts(newer) == ["two"], "what the first run has done is not done again"


def test_a_release_under_the_request_ends_superseded_and_hands_everything_on() -> None:
    world = World()
    running = comment(world, "one")
    world.start(running)
    newer = comment(world, "two")
    world.release(running)
    assert world.status(running) == "superseded"
    assert world.texts(newer) == ["one", "two"]


def test_an_item_that_was_told_nothing_gives_its_title() -> None:
    world = World()
    world.put("fix the login", agent="coder", policy=Policy.SUPERSEDE)
    newer = world.put("fix the logout", agent="coder", policy=Policy.SUPERSEDE)
    assert world.texts(newer) == ["fix the login", "fix the logout"]
    newest = world.put("fix the signup", agent="coder", policy=Policy.SUPERSEDE)
    assert world.texts(newest) == ["fix the login", "fix the logout", "fix the signup"]


def test_latest_lets_the_running_owner_finish_and_replaces_only_what_waits() -> None:
    world = World()
    running = comment(world, "one", policy=Policy.LATEST)
    world.start(running)
    waiting = comment(world, "two", policy=Policy.LATEST)
    newest = comment(world, "three", policy=Policy.LATEST)
    assert world.items[running].state.cancel_into is None
    assert world.statuses(running, waiting, newest) == ["in_progress", "superseded", "deferred"]
    assert world.texts(newest) == ["two", "three"]
    assert world.done(running).promoted == (newest,)


def test_only_kin_gives_way_and_all_others_keep_their_place() -> None:
    world = World()
    world.put_running("owner", agent="planner")
    mine = comment(world, "mine")
    others = [
        world.put("other agent", agent="tester", policy=Policy.SUPERSEDE),
        world.put("other policy", agent="coder", policy=Policy.LATEST),
        world.put("nobody's", policy=Policy.SUPERSEDE),
    ]
    newer = comment(world, "newer")
    assert world.status(mine) == "superseded"
    assert world.statuses(*others) == ["deferred"] * 3
    assert world.line() == [*others, newer]


def test_an_arrival_replaces_the_parked_retry_of_its_kin_and_takes_its_messages() -> None:
    world = World()
    parked = comment(world, "one")
    world.start(parked)
    world.fail(parked)
    newer = comment(world, "two")
    assert world.statuses(parked, newer) == ["superseded", "pending"]
    assert world.items[parked].state.due_us is None, "nothing is left for the sweeper"
    assert world.texts(newer) == ["one", "two"]


def test_when_the_replacement_was_cancelled_the_stopped_run_still_loses_no_unread_message() -> None:
    world = World()
    running = comment(world, "one")
    world.start(running)
    newer = comment(world, "two")
    world.cancel(newer, "a mistake")
    world.tell(running, "unread")
    world.release(running)
    assert world.status(running) == "superseded"
    follow_up = world.newest()
    assert world.texts(follow_up.id) == ["unread"]
    assert follow_up.status == "pending"


def test_an_operators_request_stands_although_a_newer_item_arrives() -> None:
    world = World()
    running = comment(world, "one")
    world.start(running)
    world.cancel(running, "wrong branch")
    newer = comment(world, "two")
    world.release(running)
    assert world.status(running) == "cancelled"
    assert world.items[running].state.reason == "wrong branch"
    assert world.owner() == newer


class TestReentry:
    """Retry, due and release bring an item back as `queue` with its old ticket, or as superseded."""

    def parked(self, world: World, **fields: Any) -> ItemId:
        item = world.put("parked", **fields)
        world.start(item)
        world.fail(item)
        return item

    def wait_out(self, world: World, item: ItemId) -> None:
        due_us = world.items[item].state.due_us
        assert due_us is not None
        world.now_us = due_us
        world.expire(item)

    def bring_back(self, world: World, item: ItemId, way: str) -> None:
        if way == "due":
            self.wait_out(world, item)
        elif way == "woken":
            world.tell(item, "and this")
        else:
            assert way == "retried by hand"
            world.retry(item)

    def test_it_comes_back_pending_to_a_free_lane(self) -> None:
        world = World()
        item = self.parked(world)
        self.wait_out(world, item)
        assert world.status(item) == "pending"
        event = world.last(EventKind.ITEM_REENTERED)
        assert (event.item, event.reason, event.data["status"]) == (item, "due", "pending")

    def test_it_comes_back_behind_the_owner_and_before_all_that_came_after_it(self) -> None:
        world = World()
        item = self.parked(world)
        world.put_running("meanwhile")
        later = world.put("later")
        self.wait_out(world, item)
        assert world.status(item) == "deferred"
        assert world.line() == [item, later]

    @pytest.mark.parametrize("policy", Policy)
    def test_it_queues_whatever_its_policy_was(self, policy: Policy) -> None:
        world = World()
        item = self.parked(world, agent="coder", policy=policy)
        world.put_running("meanwhile", agent="planner")
        self.wait_out(world, item)
        assert world.status(item) == "deferred"

    def test_a_kept_lane_is_still_its_own_when_the_back_off_is_over(self) -> None:
        world = World()
        item = self.parked(world, retry_lane=RetryLane.KEEP)
        waiting = world.put("waiting")
        self.wait_out(world, item)
        assert world.statuses(item, waiting) == ["pending", "deferred"]
        assert world.items[item].state.due_us is None

    @staticmethod
    def put_scheduled(world: World, policy: Policy) -> ItemId:
        newer = world.put("newer", agent="coder", policy=policy, message="two", run_at_us=world.now_us + 1)
        world.pass_s(1)
        world.expire(newer)
        return newer

    @pytest.mark.parametrize("policy", [Policy.SUPERSEDE, Policy.LATEST])
    @pytest.mark.parametrize("way", ["due", "woken", "retried by hand"])
    def test_it_gives_way_to_a_newer_item_of_its_kin(self, policy: Policy, way: str) -> None:
        """An arrival that is scheduled replaces nobody, so the newer one is there beside the parked one."""
        world = World()
        item = world.put_running("older", agent="coder", policy=policy, message="one")
        world.fail(item)
        newer = self.put_scheduled(world, policy)
        self.bring_back(world, item, way)
        assert world.statuses(item, newer) == ["superseded", "pending"]
        assert world.items[item].state.absorbed_by == newer
        assert world.texts(newer) == (["one", "two", "and this"] if way == "woken" else ["one", "two"])

    @pytest.mark.parametrize("way", ["due", "woken", "retried by hand"])
    def test_an_owner_that_gives_way_on_reentry_hands_the_lane_on_at_once(self, way: str) -> None:
        """It kept its lane through the back-off while a newer item of its kin waited behind it."""
        world = World()
        item = world.put_running("older", agent="coder", policy=Policy.LATEST, retry_lane=RetryLane.KEEP)
        newer = world.put("newer", agent="coder", policy=Policy.LATEST)
        world.fail(item)
        self.bring_back(world, item, way)
        assert world.status(item) == "superseded"
        assert world.owner() == newer

    def test_a_released_item_gives_way_to_a_newer_latest_item(self) -> None:
        world = World()
        item = world.put_running("older", agent="coder", policy=Policy.LATEST, message="one")
        newer = world.put("newer", agent="coder", policy=Policy.LATEST, message="two")
        assert world.release(item).promoted == (newer,)
        assert world.status(item) == "superseded"
        assert world.texts(newer) == ["one", "two"]

    def test_a_lost_item_keeps_its_lane_although_a_newer_latest_item_waits(self) -> None:
        world = World()
        item = world.put_running("older", agent="coder", policy=Policy.LATEST)
        newer = world.put("newer", agent="coder", policy=Policy.LATEST)
        world.pass_s(world.timing.lease_s)
        world.expire(item)
        assert world.statuses(item, newer) == ["pending", "deferred"]

    def test_messages_go_to_a_newer_item_that_runs_already_and_are_not_lost_when_it_ends(self) -> None:
        world = World()
        older = world.put_running("older", agent="coder", policy=Policy.LATEST, message="one")
        world.fail(older)
        newer = self.put_scheduled(world, Policy.LATEST)
        world.start(newer)
        self.wait_out(world, older)
        assert world.status(older) == "superseded"
        world.done(newer)
        assert world.texts(world.newest().id) == ["one"]

    def test_a_scheduled_item_comes_due_behind_the_owner_with_its_first_ticket(self) -> None:
        world = World()
        later = world.put("later", run_at_us=world.now_us + 1)
        owner, next_one = world.put("now"), world.put("next")
        world.pass_s(1)
        world.expire(later)
        assert world.owner() == owner
        assert world.line() == [later, next_one]
