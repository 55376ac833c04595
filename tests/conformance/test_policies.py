"""supersede, latest and reject: what a newcomer does to those of its own kin, and never to others."""

from __future__ import annotations

import pytest

from interlock.core.model import OUR_BOT
from interlock.service.contract import LeaseView
from tests.conformance.scene import FIRST_BACK_OFF_S, GRACE_S, LANE, Scene, said

COMMENTS = ["one", "two", "three", "four", "five"]


def comment(scene: Scene, text: str, *, policy: str = "supersede", agent: str = "coder") -> int:
    return scene.put(f"comment {text}", lane=LANE, agent=agent, policy=policy, message=text)


def comment_running(scene: Scene, text: str, *, policy: str = "supersede") -> LeaseView:
    item = comment(scene, text, policy=policy)
    lease = scene.claim()
    assert lease.item.id == item
    return lease


class TestSupersede:
    @pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in one batch"])
    def test_five_quick_comments_make_one_run_with_all_five_in_its_hands(
        self, scene: Scene, at_once: bool
    ) -> None:
        new = [scene.new(t, lane=LANE, agent="coder", policy="supersede", message=t) for t in COMMENTS]
        batches = [new] if at_once else [[n] for n in new]
        answers = [answer for batch in batches for answer in scene.service.add(batch)]
        assert [a.decision for a in answers] == ["admitted"] + ["superseding"] * 4
        *older, newest = [a.arrival or 0 for a in answers]
        assert scene.statuses(*older) == ["superseded"] * 4
        lease = scene.claim()
        assert lease.item.id == newest
        assert said(lease.messages) == COMMENTS
        assert scene.idle()
        scene.done(lease)
        assert scene.idle()
        assert scene.service.stats().superseded == 4

    def test_five_quick_comments_on_a_run_stop_it_once_and_end_in_one_run_with_all_five(
        self, scene: Scene
    ) -> None:
        running = comment_running(scene, "one")
        items = [comment(scene, text) for text in COMMENTS[1:]]
        assert scene.statuses(running.item.id, *items) == [
            "in_progress",
            "superseded",
            "superseded",
            "superseded",
            "deferred",
        ]
        assert scene.renew(running).cancel_requested
        assert len(scene.events("cancel.requested")) == 1
        scene.pass_s(GRACE_S)
        lease = scene.claim()
        assert lease.item.id == items[-1]
        assert said(lease.messages) == COMMENTS
        assert scene.statuses(running.item.id, *items[:-1]) == ["superseded"] * 4
        assert scene.item(running.item.id).absorbed_by == items[-1]

    def test_what_was_stored_before_travels_through_a_batch_of_replacements(self, scene: Scene) -> None:
        comment(scene, "one")
        batch = [scene.new(t, lane=LANE, agent="coder", policy="supersede", message=t) for t in COMMENTS[1:]]
        scene.service.add(batch)
        assert said(scene.claim().messages) == COMMENTS

    def test_the_grace_of_the_first_request_is_not_moved_by_the_next(self, scene: Scene) -> None:
        running = comment_running(scene, "one")
        comment(scene, "two")
        end = scene.renew(running).expires_at
        scene.clock.advance(10)
        comment(scene, "three")
        assert scene.renew(running).expires_at == end

    def test_a_run_that_ends_in_its_grace_is_accepted_as_it_reports(self, scene: Scene) -> None:
        running = comment_running(scene, "one")
        newer = comment(scene, "two")
        view = scene.done(running)
        assert view.item is not None
        assert (view.status, view.item.status, view.promoted) == ("succeeded", "completed", (newer,))
        assert said(scene.claim().messages) == ["two"]

    @pytest.mark.parametrize("write", ["release", "fail"])
    def test_a_run_that_gives_up_in_its_grace_is_superseded_and_hands_everything_on(
        self, scene: Scene, write: str
    ) -> None:
        running = comment_running(scene, "one")
        newer = comment(scene, "two")
        view = getattr(scene, write)(running)
        assert view.item.status == "superseded"
        assert view.promoted == (newer,)
        assert said(scene.claim().messages) == ["one", "two"]

    def test_a_write_after_the_revocation_is_refused(self, scene: Scene) -> None:
        running = comment_running(scene, "one")
        comment(scene, "two")
        scene.pass_s(GRACE_S)
        refusal = scene.done(running).refusal
        assert refusal is not None
        assert "ended as cancelled (cancel_grace_over)" in refusal.message

    def test_the_newcomer_waits_first_in_line_before_those_of_others(self, scene: Scene) -> None:
        running = comment_running(scene, "one")
        other = scene.put("of the planner", lane=LANE, agent="planner")
        newer = scene.add("two", lane=LANE, agent="coder", policy="supersede")
        assert (newer.decision, newer.position) == ("superseding", 1)
        assert newer.holder is not None
        assert newer.holder.run == running.fence
        assert scene.line() == [newer.arrival, other]
        assert scene.release(running).promoted == (newer.arrival,)

    def test_items_of_other_agents_and_policies_keep_their_place(self, scene: Scene) -> None:
        scene.put_running("owner", lane=LANE, agent="planner")
        others = [
            scene.put("other agent", lane=LANE, agent="tester", policy="supersede"),
            scene.put("other policy", lane=LANE, agent="coder", policy="queue"),
            scene.put("no agent", lane=LANE, policy="supersede"),
        ]
        mine = comment(scene, "mine")
        newer = comment(scene, "newer")
        assert scene.status(mine) == "superseded"
        assert scene.line() == [*others, newer]

    def test_another_agents_run_is_not_asked_to_stop(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, agent="planner", policy="supersede")
        answer = scene.add("newer", lane=LANE, agent="coder", policy="supersede")
        assert answer.decision == "queued"
        assert not scene.renew(lease).cancel_requested

    def test_the_bots_own_comment_cancels_nothing_and_replaces_nothing(self, scene: Scene) -> None:
        running = comment_running(scene, "one")
        bot = {"lane": LANE, "agent": "coder", "policy": "supersede", "sender": OUR_BOT}
        first, second = scene.add("progress 50 %", **bot), scene.add("progress 90 %", **bot)
        assert (first.decision, second.decision) == ("coalesced", "coalesced")
        assert not scene.renew(running).cancel_requested
        assert scene.line() == []

    def test_a_newcomer_replaces_the_parked_retry_of_its_kin(self, scene: Scene) -> None:
        running = comment_running(scene, "one")
        scene.fail(running)
        comment(scene, "two")
        assert scene.status(running.item.id) == "superseded"
        assert said(scene.claim().messages) == ["one", "two"]

    def test_a_message_for_a_superseded_item_reaches_the_one_that_replaced_it(self, scene: Scene) -> None:
        oldest, older, newest = comment(scene, "one"), comment(scene, "two"), comment(scene, "three")
        view = scene.service.msg(oldest, "one more thing")
        assert (view.item.id, view.n) == (newest, 4)
        assert scene.texts(newest) == ["one", "two", "three", "one more thing"]
        assert scene.texts(older) == []


class TestLatest:
    def test_a_running_owner_finishes_and_only_the_newest_follows_it(self, scene: Scene) -> None:
        running = comment_running(scene, "one", policy="latest")
        items = [comment(scene, text, policy="latest") for text in COMMENTS[1:]]
        assert not scene.renew(running).cancel_requested
        assert scene.statuses(*items) == ["superseded"] * 3 + ["deferred"]
        assert scene.done(running).promoted == (items[-1],)
        lease = scene.claim()
        assert said(lease.messages) == COMMENTS[1:]
        scene.done(lease)
        assert scene.idle()

    def test_an_owner_that_has_not_started_is_replaced(self, scene: Scene) -> None:
        older = comment(scene, "one", policy="latest")
        answer = scene.add("two", lane=LANE, agent="coder", policy="latest", message="two")
        assert answer.decision == "superseding"
        assert scene.status(older) == "superseded"
        assert said(scene.claim().messages) == ["one", "two"]

    def test_who_replaces_the_only_one_in_line_is_told_the_first_place(self, scene: Scene) -> None:
        comment_running(scene, "one", policy="latest")
        comment(scene, "two", policy="latest")
        answer = scene.add("three", lane=LANE, agent="coder", policy="latest")
        assert (answer.decision, answer.position) == ("superseding", 1)

    def test_a_released_owner_gives_way_to_the_newer_one(self, scene: Scene) -> None:
        running = comment_running(scene, "one", policy="latest")
        newer = comment(scene, "two", policy="latest")
        view = scene.release(running)
        assert view.item is not None
        assert (view.item.status, view.promoted) == ("superseded", (newer,))
        assert said(scene.claim().messages) == ["one", "two"]

    def test_a_parked_owner_gives_way_when_its_time_comes(self, scene: Scene) -> None:
        running = comment_running(scene, "one", policy="latest")
        newer = comment(scene, "two", policy="latest")
        assert scene.fail(running).promoted == (newer,)
        lease = scene.claim()
        scene.pass_s(FIRST_BACK_OFF_S)
        assert scene.status(running.item.id) == "superseded"
        assert said(scene.service.inbox(lease.run)) == ["one", "two"]


class TestReject:
    def test_a_taken_lane_refuses_with_its_holder_and_leaves_an_event_but_no_row(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, by="planner")
        answer = scene.add("new", lane=LANE, agent="coder", policy="reject")
        assert (answer.decision, answer.reason) == ("rejected", "lane_held")
        assert (answer.item, answer.arrival, answer.position) == (None, None, None)
        assert answer.holder is not None
        assert (answer.holder.run, answer.holder.agent) == (lease.fence, "planner")
        assert [i.id for i in scene.every()] == [lease.item.id]
        event = scene.last("item.rejected")
        assert (event.reason, event.lane, event.agent, event.run) == ("lane_held", LANE, "coder", lease.fence)
        assert event.data["holder_item"] == lease.item.id
        assert scene.service.stats().rejected == 1

    def test_a_free_lane_admits(self, scene: Scene) -> None:
        assert scene.add("new", lane=LANE, policy="reject").decision == "admitted"

    def test_an_owner_that_has_not_started_holds_the_lane_too(self, scene: Scene) -> None:
        scene.put("owner", lane=LANE)
        assert scene.add("new", lane=LANE, policy="reject").decision == "rejected"

    def test_in_a_batch_the_second_of_a_lane_is_refused(self, scene: Scene) -> None:
        answers = scene.service.add([scene.new(f"item {n}", lane=LANE, policy="reject") for n in range(3)])
        assert [a.decision for a in answers] == ["admitted", "rejected", "rejected"]


class TestQueue:
    def test_every_item_keeps_its_place_and_its_messages(self, scene: Scene) -> None:
        items = [comment(scene, text, policy="queue") for text in COMMENTS]
        for item, text in zip(items, COMMENTS, strict=True):
            lease = scene.claim()
            assert (lease.item.id, said(lease.messages)) == (item, [text])
            scene.done(lease)
