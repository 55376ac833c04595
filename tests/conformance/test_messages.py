"""Messages: durable, numbered, read by fenced runs, and never lost with the item they were told to."""

from __future__ import annotations

import pytest

from interlock.core.errors import ItemEnded, NotFound
from interlock.core.model import OUR_BOT
from interlock.service.contract import Report
from tests.conformance.scene import FIRST_BACK_OFF_S, GRACE_S, LANE, Scene, said


class TestReading:
    def test_messages_are_numbered_and_keep_author_and_time(self, scene: Scene) -> None:
        item = scene.put("work", message="first", author="ann")
        scene.clock.advance(5)
        assert scene.service.msg(item, "second", author="bob").n == 2
        first, second = scene.claim().messages
        assert [(m.n, m.text, m.author) for m in (first, second)] == [
            (1, "first", "ann"),
            (2, "second", "bob"),
        ]
        assert (second.at - first.at).total_seconds() == 5
        assert first.origin is None

    def test_a_message_that_comes_during_the_run_is_announced_by_a_renewal(self, scene: Scene) -> None:
        lease = scene.put_running("work", message="first")
        assert scene.renew(lease, seen=1).unread == 0
        scene.service.msg(lease.item.id, "second")
        assert scene.renew(lease).unread == 1
        assert said(scene.service.inbox(lease.run)) == ["second"]

    def test_a_lost_answer_loses_nothing(self, scene: Scene) -> None:
        """The read mark moves only by what a later call says it has seen, never by reading."""
        lease = scene.put_running("work")
        scene.service.msg(lease.item.id, "one")
        scene.service.msg(lease.item.id, "two")
        for _ in range(3):
            assert said(scene.service.inbox(lease.run)) == ["one", "two"]
        assert said(scene.service.inbox(lease.run, seen=1)) == ["two"]
        assert said(scene.service.inbox(lease.run, seen=2)) == []

    def test_the_read_mark_never_goes_back(self, scene: Scene) -> None:
        lease = scene.put_running("work", message="one")
        assert scene.renew(lease, seen=1).unread == 0
        assert scene.renew(lease, seen=0).unread == 0
        scene.service.msg(lease.item.id, "two")
        assert said(scene.service.inbox(lease.run)) == ["two"]

    def test_each_attempt_starts_at_zero(self, scene: Scene) -> None:
        first = scene.put_running("work", message="one")
        scene.service.msg(first.item.id, "two")
        scene.renew(first, seen=2)
        scene.lose(first)
        second = scene.claim()
        assert said(second.messages) == ["one", "two"]
        assert scene.renew(second).unread == 2

    def test_a_great_many_messages_come_in_order(self, scene: Scene) -> None:
        item = scene.put("work")
        for n in range(30):
            scene.service.msg(item, f"message {n}")
        assert said(scene.claim().messages) == [f"message {n}" for n in range(30)]


class TestFollowUp:
    def test_what_was_never_read_becomes_an_item_of_its_own(self, scene: Scene) -> None:
        lease = scene.put_running(
            "work", agent="coder", priority=7, message="read", payload='{"a": 1}', labels=(), type="review"
        )
        scene.service.msg(lease.item.id, "unread")
        view = scene.done(lease)
        assert view.status == "succeeded"
        (follow_up,) = scene.unfinished()
        assert (follow_up.title, follow_up.status) == ("Follow-up: work", "pending")
        assert (follow_up.agent, follow_up.priority, follow_up.type) == ("coder", 7, "review")
        child = scene.claim()
        assert child.item.payload == {"a": 1}
        assert said(child.messages) == ["unread"]
        assert [m.n for m in child.messages] == [1]
        assert scene.texts(lease.item.id) == ["read"]
        event = next(e for e in scene.events("item.added") if e.item == follow_up.id)
        assert (event.reason, event.data["follows_item"]) == ("unread_messages", lease.item.id)

    def test_what_the_claim_delivered_counts_as_read(self, scene: Scene) -> None:
        lease = scene.put_running("work", message="one")
        scene.done(lease)
        assert scene.unfinished() == []

    @pytest.mark.parametrize("seen_by", ["renew", "inbox", "done"])
    def test_what_a_later_call_has_seen_is_read(self, scene: Scene, seen_by: str) -> None:
        lease = scene.put_running("work")
        scene.service.msg(lease.item.id, "one")
        if seen_by == "renew":
            scene.renew(lease, seen=1)
        elif seen_by == "inbox":
            scene.service.inbox(lease.run, seen=1)
        scene.done(lease, seen=1 if seen_by == "done" else 0)
        assert scene.unfinished() == []

    def test_an_answer_that_was_lost_makes_the_message_come_again(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.service.msg(lease.item.id, "one")
        scene.service.inbox(lease.run)
        scene.done(lease)
        assert said(scene.claim().messages) == ["one"]

    def test_it_stands_in_the_line_by_its_first_unread_message(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, agent="coder")
        early = scene.put("early", lane=LANE, agent="planner")
        scene.service.msg(lease.item.id, "unread")
        late = scene.put("late", lane=LANE, agent="planner")
        assert scene.done(lease).promoted == (early,)
        follow_up = scene.line()[0]
        assert scene.item(follow_up).title == "Follow-up: owner"
        assert scene.line() == [follow_up, late]

    def test_it_is_made_before_the_promotion_is_chosen(self, scene: Scene) -> None:
        lease = scene.put_running("owner", lane=LANE, agent="coder")
        scene.service.msg(lease.item.id, "unread")
        late = scene.put("late", lane=LANE, agent="planner")
        (promoted,) = scene.done(lease).promoted
        assert scene.item(promoted).title == "Follow-up: owner"
        assert scene.line() == [late]

    @pytest.mark.parametrize("ending", ["failed for good", "lost", "revoked", "forced"])
    def test_unread_messages_survive_every_end_of_their_item(self, scene: Scene, ending: str) -> None:
        lease = scene.put_running("work", lane=LANE, max_attempts=1)
        scene.service.msg(lease.item.id, "unread")
        if ending == "failed for good":
            scene.fail(lease)
        elif ending == "lost":
            scene.lose(lease)
        elif ending == "revoked":
            scene.cancel(lease.item.id)
            scene.pass_s(GRACE_S)
        else:
            scene.cancel(lease.item.id, force=True)
        assert said(scene.claim().messages) == ["unread"]

    def test_an_input_coalesced_into_a_run_that_was_just_ending_is_done_by_a_follow_up(
        self, scene: Scene
    ) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder", policy="coalesce")
        answer = scene.add(
            "more", lane=LANE, agent="coder", policy="coalesce", message="more", payload='{"b": 2}'
        )
        scene.done(lease)
        follow_up = scene.claim()
        (message,) = follow_up.messages
        assert (message.text, message.origin, message.payload) == ("more", answer.arrival, {"b": 2})

    def test_several_runs_end_with_messages_waiting_and_each_goes_on_once(self, scene: Scene) -> None:
        lanes = [f"issue:acme/app#{n}" for n in range(4)]
        leases = [scene.put_running("work", lane=lane) for lane in lanes]
        for lease in leases:
            scene.service.msg(lease.item.id, f"for {lease.item.lane}")
        views = scene.service.done([Report(run=x.run) for x in leases])
        assert len({p for v in views for p in v.promoted}) == 4
        follow_ups = scene.service.next("coder", limit=10)
        assert sorted(said([m for x in follow_ups for m in x.messages])) == [f"for {lane}" for lane in lanes]

    def test_what_did_not_fit_into_the_claims_answer_was_not_delivered_by_it(self, scene: Scene) -> None:
        """A claim brings a thousand messages at most; the others are not read because the run is done."""
        item = scene.put("work", lane=LANE, agent="coder", policy="coalesce")
        for size in (1_000, 7):
            new = scene.new("more", lane=LANE, agent="coder", policy="coalesce", message="hello")
            scene.service.add([new] * size)
        lease = scene.claim()
        assert (lease.item.id, lease.item.messages, len(lease.messages)) == (item, 1_007, 1_000)
        scene.done(lease)
        assert len(scene.claim().messages) == 7


class TestWaking:
    def test_a_persons_message_ends_a_back_off(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.fail(lease)
        view = scene.service.msg(lease.item.id, "try again", author="ann")
        assert view.item.status == "pending"
        again = scene.claim()
        assert (again.item.id, said(again.messages)) == (lease.item.id, ["try again"])
        assert scene.last("item.reentered").reason == "woken_by_message"

    def test_a_bots_message_is_kept_but_wakes_nothing(self, scene: Scene) -> None:
        lease = scene.put_running("work")
        scene.fail(lease)
        scene.service.msg(lease.item.id, "progress", sender=OUR_BOT)
        assert scene.status(lease.item.id) == "waiting"
        assert scene.idle()
        scene.clock.advance(FIRST_BACK_OFF_S)
        assert said(scene.claim().messages) == ["progress"]

    def test_a_woken_item_waits_behind_whoever_took_its_lane(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE)
        scene.fail(lease)
        scene.put_running("meanwhile", lane=LANE)
        assert scene.service.msg(lease.item.id, "try again").item.status == "deferred"

    def test_a_message_starts_nothing_that_is_scheduled_for_later(self, scene: Scene) -> None:
        item = scene.put("tomorrow", in_s=3600)
        assert scene.service.msg(item, "hello").item.status == "waiting"


class TestEnds:
    @pytest.mark.parametrize("ending", ["done", "cancelled"])
    def test_an_ended_item_takes_no_message(self, scene: Scene, ending: str) -> None:
        item = scene.put("work")
        if ending == "done":
            scene.done(scene.claim())
        else:
            scene.cancel(item)
        with pytest.raises(ItemEnded, match="takes no messages"):
            scene.service.msg(item, "too late")

    def test_a_message_for_a_coalesced_arrival_reaches_its_absorber(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder", policy="coalesce")
        answer = scene.add("more", lane=LANE, agent="coder", policy="coalesce")
        view = scene.service.msg(answer.arrival or 0, "even more")
        assert view.item.id == lease.item.id
        assert said(scene.service.inbox(lease.run)) == ["more", "even more"]

    def test_a_message_for_nobody_is_a_mistake(self, scene: Scene) -> None:
        with pytest.raises(NotFound):
            scene.service.msg(999_999_999, "hello")


def test_whoever_ends_a_run_is_told_which_item_its_unread_messages_became(scene: Scene) -> None:
    first, other = scene.put_running("first", lane=LANE), scene.put_running("other", lane="a:1")
    scene.service.msg(first.item.id, "one more thing")
    waiting = scene.put("waits", lane=LANE)
    told, untold = scene.service.done([Report(run=first.run), Report(run=other.run)])
    assert told.follow_up is not None
    assert scene.texts(told.follow_up) == ["one more thing"]
    assert untold.follow_up is None
    assert scene.statuses(told.follow_up, waiting) == ["pending", "deferred"]
