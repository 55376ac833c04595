"""Nothing wakes itself: own messages start nothing, and a chain of wake-ups without a person ends."""

from __future__ import annotations

import pytest

from interlock.client import Interlock
from interlock.core.model import A_PERSON, AN_OUTSIDER, ANOTHER_SYSTEM, OUR_BOT, Sender, SenderKind
from interlock.core.timing import WAKES_MAX
from interlock.service.contract import LeaseView
from tests.conformance.scene import LANE, LEASE_S, Scene

CODER, REVIEWER = Sender(SenderKind.AGENT, "coder"), Sender(SenderKind.AGENT, "reviewer")
#: Who starts nothing.
OWN = {"its agent": CODER, "our bot": OUR_BOT, "an outsider": AN_OUTSIDER}
WHY = {"its agent": "own_message", "our bot": "own_message", "an outsider": "outsider"}
OTHERS = {"a person": A_PERSON, "another agent": REVIEWER, "a system": ANOTHER_SYSTEM}
#: More than may ever be needed: a loop that does not end must fail, not hang.
TOO_MANY = 3 * WAKES_MAX


def said(lease: LeaseView) -> list[str]:
    return [m.text for m in lease.messages]


class TestOwnMessages:
    @pytest.mark.parametrize("who", OWN)
    @pytest.mark.parametrize("lane", [None, LANE])
    def test_they_make_no_follow_up_and_the_end_says_how_many(
        self, scene: Scene, who: str, lane: str | None
    ) -> None:
        lease = scene.put_running("work", lane=lane, by="coder")
        for text in ("one", "two"):
            scene.service.msg(lease.item.id, text, sender=OWN[who])
        ended = scene.done(lease)
        assert ended.follow_up is None
        assert scene.idle()
        end = scene.last("run.succeeded")
        assert (end.data["unread"], end.data["unread_why"]) == (2, WHY[who])
        assert scene.texts(lease.item.id) == ["one", "two"]

    @pytest.mark.parametrize("who", OTHERS)
    def test_everybody_elses_still_do_and_the_follow_up_has_all_in_order(
        self, scene: Scene, who: str
    ) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder")
        for text, sender in (("one", CODER), ("two", OTHERS[who]), ("three", OUR_BOT)):
            scene.service.msg(lease.item.id, text, sender=sender)
        ended = scene.done(lease)
        assert (ended.follow_up is not None, ended.unread) == (True, 3)
        assert said(scene.claim()) == ["one", "two", "three"]
        assert "unread" not in scene.last("run.succeeded").data

    @pytest.mark.parametrize("who", OWN)
    def test_they_wake_no_item_in_back_off(self, scene: Scene, who: str) -> None:
        """The item names no agent: its own one is the one that ran it last."""
        lease = scene.put_running("work", by="coder")
        scene.fail(lease)
        scene.service.msg(lease.item.id, "I will try again", sender=OWN[who])
        assert scene.status(lease.item.id) == "waiting"
        scene.service.msg(lease.item.id, "do", sender=REVIEWER)
        assert scene.status(lease.item.id) == "pending"
        assert said(scene.claim()) == ["I will try again", "do"]

    def test_the_agent_that_ran_it_before_the_last_one_is_somebody_else(self, scene: Scene) -> None:
        scene.release(scene.put_running("work", by="coder"))
        lease = scene.claim("reviewer")
        scene.fail(lease)
        scene.service.msg(lease.item.id, "hello", sender=CODER)
        assert scene.status(lease.item.id) == "pending"

    @pytest.mark.parametrize("who", OWN)
    @pytest.mark.parametrize("policy", ["coalesce", "supersede", "latest"])
    def test_an_arrival_becomes_a_message_of_the_run_and_stops_and_starts_nothing(
        self, scene: Scene, who: str, policy: str
    ) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder", policy=policy)
        for n in range(3):
            answer = scene.add(f"progress {n}", lane=LANE, agent="coder", policy=policy, sender=OWN[who])
            assert (answer.decision, answer.item and answer.item.id) == ("coalesced", lease.item.id)
        assert not scene.renew(lease).cancel_requested
        assert [m.text for m in scene.service.inbox(lease.run)] == ["progress 0", "progress 1", "progress 2"]
        assert scene.done(lease).follow_up is None
        assert scene.idle()

    @pytest.mark.parametrize("who", OWN)
    def test_so_does_one_of_another_policy_than_the_running_items(self, scene: Scene, who: str) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder")
        scene.add("progress", lane=LANE, agent="coder", policy="coalesce", sender=OWN[who])
        assert [m.text for m in scene.service.inbox(lease.run)] == ["progress"]
        scene.done(lease)
        assert scene.idle()

    @pytest.mark.parametrize("who", OWN)
    @pytest.mark.parametrize("policy", ["coalesce", "supersede", "latest"])
    def test_one_that_comes_late_starts_nothing_and_is_kept(
        self, scene: Scene, who: str, policy: str
    ) -> None:
        """The last comment of a run is delivered after the run has ended."""
        scene.done(scene.put_running("work", lane=LANE, agent="coder", policy=policy))
        sent = {"lane": LANE, "agent": "coder", "policy": policy, "message": "done", "dedupe_key": "d1"}
        answer = scene.add("comment", sender=OWN[who], **sent)
        assert answer.item is not None
        assert (answer.decision, answer.reason, answer.item.status) == (
            "rejected",
            WHY[who],
            "cancelled",
        )
        assert scene.idle()
        assert scene.texts(answer.item.id) == ["done"]
        assert scene.add("comment", sender=OWN[who], **sent).decision == "duplicate"
        scene.service.retry(answer.item.id)
        assert said(scene.claim()) == ["done"]

    @pytest.mark.parametrize("agent", ["", "coder"])
    @pytest.mark.parametrize("policy", ["coalesce", "supersede", "latest"])
    def test_one_for_nobody_in_particular_is_of_the_agent_that_runs_the_lane(
        self, scene: Scene, policy: str, agent: str
    ) -> None:
        lease = scene.put_running("work", lane=LANE, agent=agent, policy=policy, by="coder")
        inside = scene.service.sender_of(lease.run)
        for n, sender in enumerate((inside, CODER)):
            answer = scene.add(f"progress {n}", lane=LANE, policy=policy, sender=sender)
            assert (answer.decision, answer.item and answer.item.id) == ("coalesced", lease.item.id)
        assert not scene.renew(lease).cancel_requested
        assert scene.done(lease).follow_up is None
        for sender in (inside, CODER):
            answer = scene.add("late", lane=LANE, policy=policy, sender=sender)
            assert (answer.decision, answer.reason) == ("rejected", "own_message")
        assert scene.idle()
        assert scene.add("CI failed", lane=LANE, policy=policy, sender=REVIEWER).decision == "admitted"

    @pytest.mark.parametrize("end", ["fail", "release", "lost"])
    def test_a_lane_remembers_who_ran_it_however_the_run_ended(self, scene: Scene, end: str) -> None:
        lease = scene.put_running("work", lane=LANE, by="coder")
        if end == "lost":
            scene.pass_s(LEASE_S + 1)
        else:
            getattr(scene, end)(lease)
        answer = scene.add("late", lane=LANE, policy="supersede", sender=CODER)
        assert answer.decision in ("coalesced", "rejected")
        assert {i.title for i in scene.every(statuses=("pending", "waiting"))} == {"work"}

    def test_a_lane_remembers_its_last_agent_alone(self, scene: Scene) -> None:
        for agent in ("coder", "reviewer"):
            scene.done(scene.put_running("work", lane=LANE, by=agent))
        answer = scene.add("late", lane=LANE, policy="coalesce", sender=REVIEWER)
        assert (answer.decision, answer.reason) == ("rejected", "own_message")
        assert scene.add("hello", lane=LANE, policy="coalesce", sender=CODER).decision == "admitted"

    def test_what_an_agent_adds_on_another_lane_is_new_work(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder", policy="coalesce")
        me = scene.service.sender_of(lease.run)
        other = scene.add("split off", lane="issue:acme/app#43", agent="coder", policy="coalesce", sender=me)
        assert other.decision == "admitted"

    def test_what_an_agent_queues_for_itself_is_new_work(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder")
        me = scene.service.sender_of(lease.run)
        assert scene.add("then this", lane=LANE, agent="coder", sender=me).decision == "queued"


class TestOutsiders:
    """A stranger comments on a public issue: whoever runs reads it, and it starts nothing."""

    def test_with_own_messages_beside_it_the_end_still_names_the_outsider(self, scene: Scene) -> None:
        lease = scene.put_running("work", by="coder")
        for sender in (OUR_BOT, AN_OUTSIDER, CODER):
            scene.service.msg(lease.item.id, "hello", sender=sender)
        assert scene.done(lease).follow_up is None
        end = scene.last("run.succeeded")
        assert (end.data["unread"], end.data["unread_why"]) == (3, "outsider")

    @pytest.mark.parametrize("policy", ["coalesce", "supersede", "latest"])
    def test_whoever_runs_the_lane_gets_it_whomever_it_names(self, scene: Scene, policy: str) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder", policy="queue")
        answer = scene.add(
            "mention", lane=LANE, agent="reviewer", policy=policy, message="@reviewer", sender=AN_OUTSIDER
        )
        assert (answer.decision, answer.item and answer.item.id) == ("coalesced", lease.item.id)
        assert [m.text for m in scene.service.inbox(lease.run)] == ["@reviewer"]
        scene.done(lease)
        assert scene.idle()

    def test_it_starts_nothing_that_waits_for_a_person_and_is_no_person_for_the_bound(
        self, scene: Scene
    ) -> None:
        event = {"lane": LANE, "agent": "coder", "policy": "coalesce"}
        for _ in range(WAKES_MAX):
            scene.add("build failed", **event, sender=ANOTHER_SYSTEM)
            lease = scene.claim()
            scene.service.msg(lease.item.id, "me too", sender=AN_OUTSIDER)
            scene.done(lease)
        stopped = scene.add("build failed", **event, sender=ANOTHER_SYSTEM)
        assert (stopped.reason, stopped.item and stopped.item.status) == ("loop", "waiting")
        assert stopped.item is not None
        scene.add("me too", **event, message="me too", sender=AN_OUTSIDER)
        scene.service.msg(stopped.item.id, "me three", sender=AN_OUTSIDER)
        assert scene.idle()
        scene.service.msg(stopped.item.id, "go on", sender=A_PERSON)
        assert said(scene.claim()) == ["me too", "me three", "go on"]

    def test_it_answers_no_question(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder")
        scene.service.ask(lease.run, "Which?")
        scene.service.msg(lease.item.id, "the red one", sender=AN_OUTSIDER)
        assert scene.idle()

    def test_what_an_outsider_asks_for_by_a_rule_is_new_work(self, scene: Scene) -> None:
        """A rule that adds with `queue` means work, also where a stranger opened the issue."""
        assert scene.add("triage", lane=LANE, sender=AN_OUTSIDER).decision == "admitted"


class TestTheLoopOfAnIssue:
    """An agent is assigned, comments, and is mentioned by its own comment."""

    @pytest.mark.parametrize("policy", ["queue", "coalesce", "supersede", "latest"])
    def test_it_is_one_run(self, scene: Scene, policy: str) -> None:
        scene.add("assigned", lane=LANE, agent="coder", policy=policy)
        runs = 0
        while (leases := scene.service.next("coder")) and runs < TOO_MANY:
            runs += 1
            me = scene.service.sender_of(leases[0].run)
            scene.service.msg(leases[0].item.id, "working on it", sender=me)
            scene.add("mentioned", lane=LANE, agent="coder", policy="coalesce", message="@coder", sender=me)
            scene.done(leases[0])
            scene.add("mentioned", lane=LANE, agent="coder", policy="coalesce", message="late", sender=me)
            scene.add("by our bot", lane=LANE, agent="coder", policy="coalesce", sender=OUR_BOT)
        assert runs == 1

    def test_in_python(self, scene: Scene) -> None:
        il, runs = Interlock(scene.service), 0
        il.add("assigned", lane=LANE, agent="coder", policy="coalesce")
        while runs < TOO_MANY:
            with il.next("coder") as lease:
                if lease is None:
                    break
                runs += 1
                il.msg(lease.item.id, "working on it")
                il.add("mentioned", lane=LANE, agent="coder", policy="coalesce")
        assert runs == 1


def answer_each_other(scene: Scene, how: str, lane: str | None) -> list[str]:
    """Two agents that wake each other for as long as anything wakes; who ran."""
    ran: list[str] = []
    while len(ran) < TOO_MANY:
        found = [*scene.service.next("coder"), *scene.service.next("reviewer")]
        if not found:
            break
        (lease,) = found
        me = lease.item.run_agent or ""
        ran.append(me)
        other = "reviewer" if me == "coder" else "coder"
        if how == "msg":  # the other one has a terminal open on it
            scene.service.msg(lease.item.id, f"by {other}", sender=Sender(SenderKind.AGENT, other))
        else:
            sender = scene.service.sender_of(lease.run)
            policy = "queue" if how == "queue" else "coalesce"
            scene.add(f"for {other}", lane=lane, agent=other, policy=policy, message="@you", sender=sender)
        scene.done(lease)
    return ran


class TestTheBound:
    @pytest.mark.parametrize(
        ("how", "lane"), [("msg", LANE), ("msg", None), ("queue", LANE), ("coalesce", LANE)]
    )
    def test_two_agents_that_answer_each_other_stop_and_a_person_starts_them_again(
        self, scene: Scene, how: str, lane: str | None
    ) -> None:
        scene.put("work", lane=lane, agent="coder", policy="coalesce")
        assert len(answer_each_other(scene, how, lane)) == 1 + WAKES_MAX
        stop = scene.last("wake.stopped")
        assert (stop.reason, stop.data["wakes"], stop.lane) == ("loop", WAKES_MAX, lane)
        assert stop.item is not None
        stopped = scene.item(stop.item)
        assert (stopped.status, stopped.reason, stopped.messages) == ("waiting", "loop", 1)
        assert "waits for a person" in scene.service.why(stopped.id).why
        (check,) = [c for c in scene.service.doctor() if c.name == "nothing_waits_for_a_person"]
        assert (check.ok, f"item {stopped.id}" in check.detail) == (False, True)
        scene.pass_s(30 * 24 * 3600)
        assert scene.status(stopped.id) == "waiting"
        scene.service.msg(stopped.id, "still on it?", sender=REVIEWER)
        scene.service.msg(stopped.id, "CI failed", sender=ANOTHER_SYSTEM)
        assert scene.status(stopped.id) == "waiting"
        scene.service.msg(stopped.id, "go on", sender=A_PERSON)
        assert scene.status(stopped.id) == "pending"
        (lease,) = [*scene.service.next("coder"), *scene.service.next("reviewer")]
        assert said(lease)[-3:] == ["still on it?", "CI failed", "go on"]
        scene.done(lease)
        assert all(c.ok for c in scene.service.doctor() if c.name == check.name)

    def test_a_person_who_adds_to_the_lane_starts_what_was_stopped_there(self, scene: Scene) -> None:
        scene.put("work", lane=LANE, agent="coder", policy="coalesce")
        answer_each_other(scene, "coalesce", LANE)
        (stopped,) = scene.every(statuses=("waiting",))
        mine = scene.put("look", lane=LANE, agent="planner")
        assert scene.statuses(stopped.id, mine) == ["pending", "deferred"]
        scene.done(scene.claim(stopped.agent or ""))
        scene.done(scene.claim("planner"))
        assert scene.idle("coder")
        assert scene.idle("reviewer")

    def test_a_person_in_between_begins_the_count_anew(self, scene: Scene) -> None:
        scene.put("work", lane=LANE, agent="coder")
        for n in range(WAKES_MAX + 5):
            lease = scene.claim()
            scene.service.msg(lease.item.id, "CI failed", sender=ANOTHER_SYSTEM)
            if n % 3 == 0:
                scene.service.msg(lease.item.id, "thanks", sender=A_PERSON)
            scene.done(lease)
        assert not scene.idle()

    def test_a_run_that_fans_out_on_its_own_lane_counts_once(self, scene: Scene) -> None:
        lease = scene.put_running("plan it", lane=LANE, agent="coder")
        me = scene.service.sender_of(lease.run)
        parts = [scene.put(f"part {n}", lane=LANE, sender=me) for n in range(3 * WAKES_MAX)]
        assert set(scene.statuses(*parts)) == {"deferred"}

    def test_scripts_that_add_work_are_not_throttled(self, scene: Scene) -> None:
        for n in range(2 * WAKES_MAX):
            scene.add(f"nightly {n}", lane=LANE, agent="coder", sender=ANOTHER_SYSTEM)
            scene.done(scene.claim())
            lease = scene.put_running(f"elsewhere {n}", by="planner")
            scene.add(f"by a run {n}", lane=LANE, sender=scene.service.sender_of(lease.run))
            scene.done(lease)
            scene.done(scene.claim())
        assert scene.idle()

    def test_events_of_other_systems_are_stopped_where_each_starts_a_run(self, scene: Scene) -> None:
        """A build fails, an agent pushes, the build fails: nobody looks."""
        ci = {"lane": LANE, "agent": "coder", "policy": "coalesce", "sender": ANOTHER_SYSTEM}
        for _ in range(WAKES_MAX):
            scene.add("build failed", **ci)
            scene.add("another build failed", **ci)  # while it waits: no other run
            scene.done(scene.claim())
        answer = scene.add("build failed", **ci)
        assert (answer.decision, answer.reason) == ("queued", "loop")
        assert scene.idle()

    @pytest.mark.parametrize("policy", ["queue", "coalesce", "latest"])
    def test_an_agent_may_set_itself_a_time_but_not_for_ever(self, scene: Scene, policy: str) -> None:
        scene.put("watch the build", lane=LANE, agent="coder", policy=policy)
        runs = 0
        while leases := scene.service.next("coder"):
            runs += 1
            assert runs < TOO_MANY
            me = scene.service.sender_of(leases[0].run)
            later = {"lane": LANE, "agent": "coder", "policy": policy, "run_after_s": 60}
            scene.add("look again", **later, sender=me)
            scene.done(leases[0])
            scene.pass_s(61)
        assert runs == 1 + WAKES_MAX
        (stopped,) = scene.every(statuses=("waiting",))
        assert stopped.reason == "loop"
        scene.service.msg(stopped.id, "go on", sender=A_PERSON)
        assert scene.status(stopped.id) == "pending"

    @pytest.mark.parametrize("who", [OUR_BOT, AN_OUTSIDER], ids=["our bot", "an outsider"])
    def test_whoever_may_start_nothing_may_not_later_either(self, scene: Scene, who: Sender) -> None:
        scene.add("later", lane=LANE, agent="coder", policy="coalesce", run_after_s=60, sender=who)
        scene.pass_s(61)
        assert scene.idle()

    def test_a_back_off_is_not_cut_short_any_more_and_ends_in_its_time(self, scene: Scene) -> None:
        lease = scene.put_running("work", lane=LANE, agent="coder", max_attempts=TOO_MANY)
        for _ in range(WAKES_MAX):
            scene.fail(lease)
            scene.service.msg(lease.item.id, "again", sender=REVIEWER)
            lease = scene.claim()
        scene.fail(lease)
        scene.service.msg(lease.item.id, "again", sender=REVIEWER)
        assert scene.status(lease.item.id) == "waiting"
        assert scene.last("wake.stopped").item == lease.item.id
        scene.pass_s(24 * 3600)
        assert scene.status(lease.item.id) == "pending"

    def test_an_operators_retry_starts_it_too_and_a_cancel_ends_it(self, scene: Scene) -> None:
        scene.put("work", agent="coder")
        answer_each_other(scene, "msg", None)
        (stopped,) = scene.every(statuses=("waiting",))
        scene.service.retry(stopped.id, why="I looked")
        assert scene.status(stopped.id) == "pending"
        assert len(answer_each_other(scene, "msg", None)) == 1 + WAKES_MAX
        (stopped,) = scene.every(statuses=("waiting",))
        scene.service.cancel(stopped.id, why="enough")
        assert scene.status(stopped.id) == "cancelled"
