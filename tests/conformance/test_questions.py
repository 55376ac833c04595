"""Questions: a run ends by asking a person, and the answer brings its item back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.model import ANOTHER_SYSTEM, OUR_BOT, Sender, SenderKind
from interlock.core.plans.model import Graph, TaskSpec
from interlock.core.timing import QUESTION_TIMEOUT_S
from interlock.service.contract import ItemFilter, LeaseView, RunView
from tests.conformance.scene import LANE, LEASE_S, Scene, said

QUESTION = "Which branch?"
ITSELF = Sender(SenderKind.AGENT, "coder")
ANOTHER = Sender(SenderKind.AGENT, "reviewer")


def ask(scene: Scene, lease: LeaseView, **options: Any) -> RunView:
    return scene.service.ask(lease.run, QUESTION, **options)


def asking(scene: Scene) -> list[tuple[int, str | None]]:
    return [(i.id, i.question) for i in scene.service.items(ItemFilter(asking=True))]


def test_a_question_ends_the_run_and_costs_no_attempt_and_no_slot(scene: Scene) -> None:
    scene.service.set_agent("coder", max_concurrency=1)
    lease = scene.put_running(max_attempts=1)
    ended = ask(scene, lease)
    assert (ended.status, ended.refusal) == ("released", None)
    assert ended.item is not None
    assert (ended.item.status, ended.item.reason, ended.item.attempt) == ("waiting", "asked", 0)
    assert scene.put_running("more").item.title == "more"
    assert scene.renew(lease).status == "refused"
    event = scene.last("question.asked")
    assert (event.item, event.agent, event.data["question"], event.data["n"]) == (
        *(lease.item.id, "coder", QUESTION),
        1,
    )
    assert asking(scene) == [(lease.item.id, QUESTION)]
    why = scene.service.why(lease.item.id).why
    assert QUESTION in why
    assert "It is retried when a person answers" in why
    assert scene.service.show(lease.item.id).item.question == QUESTION


def test_the_answer_of_a_person_brings_it_back_with_both(scene: Scene) -> None:
    lease = scene.put_running(max_attempts=1)
    ask(scene, lease)
    scene.service.msg(lease.item.id, "main", author="anna")
    again = scene.claim()
    assert (again.item.id, again.item.attempt) == (lease.item.id, 1)
    assert said(again.messages) == [QUESTION, "main"]
    assert scene.last("question.answered").data["n"] == 2
    assert asking(scene) == []
    assert scene.done(again).follow_up is None


@pytest.mark.parametrize("sender", [OUR_BOT, ITSELF, ANOTHER, ANOTHER_SYSTEM])
def test_nobody_but_a_person_answers(scene: Scene, sender: Sender) -> None:
    lease = scene.put_running()
    ask(scene, lease)
    scene.service.msg(lease.item.id, "progress: 40 %", sender=sender)
    assert scene.idle()
    assert asking(scene) == [(lease.item.id, QUESTION)]
    scene.service.msg(lease.item.id, "main")
    assert said(scene.claim().messages) == [QUESTION, "progress: 40 %", "main"]


def test_it_keeps_its_lane_and_nobody_overtakes_it(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, agent="coder")
    behind = scene.put(lane=LANE, agent="reviewer")
    ended = ask(scene, lease)
    assert ended.item is not None
    assert (ended.item.status, ended.promoted) == ("pending", ())
    scene.service.pause_agent("coder", paused=True, why="holiday")
    assert scene.idle("reviewer")
    assert (scene.owner(), scene.status(behind)) == (lease.item.id, "deferred")


def test_it_gives_up_its_lane_if_it_says_so(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    behind = scene.put(lane=LANE)
    assert ask(scene, lease, yield_lane=True).promoted == (behind,)
    scene.service.msg(lease.item.id, "main")
    assert scene.statuses(lease.item.id, behind) == ["deferred", "pending"]


def test_after_the_time_out_its_lane_goes_on_and_it_goes_on_asking(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    behind = scene.put(lane=LANE)
    ended = ask(scene, lease)
    assert ended.item is not None
    assert ended.item.run_at == scene.clock.now + timedelta(seconds=QUESTION_TIMEOUT_S)
    scene.pass_s(QUESTION_TIMEOUT_S - 1)
    assert scene.idle()
    scene.pass_s(1)
    assert scene.statuses(lease.item.id, behind) == ["waiting", "pending"]
    assert scene.last("question.timed_out").item == lease.item.id
    assert asking(scene) == [(lease.item.id, QUESTION)]
    scene.done(scene.claim())
    assert scene.idle()
    scene.service.msg(lease.item.id, "main")
    assert said(scene.claim().messages) == [QUESTION, "main"]


def test_a_coalesced_arrival_of_a_person_is_the_answer(scene: Scene) -> None:
    fields: dict[str, Any] = {"lane": LANE, "agent": "coder", "policy": "coalesce"}
    lease = scene.put_running(**fields)
    ask(scene, lease)
    assert scene.add("progress", sender=OUR_BOT, **fields).decision == "coalesced"
    assert scene.idle()
    assert scene.add("comment", message="main", **fields).decision == "coalesced"
    assert said(scene.claim().messages) == [QUESTION, "progress", "main"]
    assert len(scene.events("question.answered")) == 1


def test_a_superseding_arrival_of_a_person_has_question_and_answer(scene: Scene) -> None:
    fields: dict[str, Any] = {"lane": LANE, "agent": "coder", "policy": "supersede"}
    lease = scene.put_running(**fields)
    ask(scene, lease)
    newer = scene.add("comment", message="main", **fields)
    assert newer.decision == "superseding"
    again = scene.claim()
    assert (again.item.id, said(again.messages)) == (newer.arrival, [QUESTION, "main"])
    assert scene.last("question.answered").item == lease.item.id
    assert asking(scene) == []


def test_an_operator_brings_it_back_or_ends_it(scene: Scene) -> None:
    first, second = scene.put_running(), scene.put_running()
    ask(scene, first)
    ask(scene, second)
    scene.service.retry(first.item.id)
    assert scene.claim().item.id == first.item.id
    scene.cancel(second.item.id)
    assert asking(scene) == []
    assert scene.status(second.item.id) == "cancelled"


def test_a_run_that_was_asked_to_stop_asks_nobody(scene: Scene) -> None:
    lease = scene.put_running()
    scene.cancel(lease.item.id)
    assert ask(scene, lease).status == "cancelled"
    assert scene.events("question.asked") == []
    assert len(scene.every()) == 1, "the question is no follow-up"


def test_a_run_that_lost_its_lease_asks_nobody(scene: Scene) -> None:
    lease = scene.put_running()
    scene.pass_s(LEASE_S)
    assert ask(scene, lease).status == "refused"
    assert asking(scene) == []


def test_a_task_of_a_plan_asks_and_goes_on(scene: Scene) -> None:
    scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),)))
    lease = scene.claim()
    ask(scene, lease)
    scene.pass_s(QUESTION_TIMEOUT_S)
    assert asking(scene) == [(lease.item.id, QUESTION)]
    scene.service.msg(lease.item.id, "main")
    scene.done(scene.claim())
    assert scene.status(lease.item.id) == "completed"


def test_an_edit_of_a_plan_waits_for_nobody(scene: Scene) -> None:
    for agent in ("coder", "planner"):
        scene.service.set_agent(agent)
    scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A", agent="coder"),)), editor="planner")
    scene.done(scene.claim())
    edit = scene.claim("planner")
    with pytest.raises(InvalidInput, match="edit of a plan"):
        ask(scene, edit)
    assert scene.status(edit.item.id) == "in_progress"


@pytest.mark.parametrize(
    ("question", "options"),
    [("", {}), (" ", {}), ("x" * 10_001, {}), ("?", {"timeout_s": 0}), ("?", {"yield_lane": "no"}), (7, {})],
)
def test_a_bad_question_is_refused_and_nothing_changes(
    scene: Scene, question: Any, options: dict[str, Any]
) -> None:
    lease = scene.put_running()
    with pytest.raises(InvalidInput):
        scene.service.ask(lease.run, question, **options)
    assert scene.status(lease.item.id) == "in_progress"


OTHERS = {"a system": ANOTHER_SYSTEM, "another agent": ANOTHER, "our bot": OUR_BOT, "itself": ITSELF}


@pytest.mark.parametrize("who", OTHERS)
@pytest.mark.parametrize("policy", ["coalesce", "supersede", "latest"])
@pytest.mark.parametrize("yields", [False, True])
def test_nobody_but_a_person_takes_an_item_out_of_its_question(
    scene: Scene, policy: str, who: str, yields: bool
) -> None:
    """What others send becomes a message of the item that asks; the answer brings it back with all of it."""
    lease = scene.put_running(lane=LANE, agent="coder", policy=policy)
    ask(scene, lease, yield_lane=yields)
    event = scene.add("CI", lane=LANE, agent="coder", policy=policy, message="red", sender=OTHERS[who])
    assert (event.decision, event.item and event.item.id) == ("coalesced", lease.item.id)
    assert asking(scene) == [(lease.item.id, QUESTION)]
    assert scene.idle()
    scene.service.msg(lease.item.id, "main", author="anna")
    assert said(scene.claim().messages) == [QUESTION, "red", "main"]


@pytest.mark.parametrize("policy", ["supersede", "latest"])
def test_an_item_that_asks_off_its_lane_leaves_a_running_one_to_the_policy(scene: Scene, policy: str) -> None:
    ask(scene, scene.put_running(lane=LANE, agent="coder", policy=policy), yield_lane=True)
    first = asking(scene)
    running = scene.add("by hand", lane=LANE, agent="coder", policy="queue")
    lease = scene.claim()
    assert running.item is not None
    assert lease.item.id == running.item.id
    scene.add("CI", lane=LANE, agent="coder", policy=policy, sender=ANOTHER_SYSTEM)
    assert asking(scene) == first


@pytest.mark.parametrize("policy", ["supersede", "latest"])
def test_a_person_who_replaces_it_has_answered(scene: Scene, policy: str) -> None:
    lease = scene.put_running(lane=LANE, agent="coder", policy=policy)
    ask(scene, lease)
    newer = scene.put("newer", lane=LANE, agent="coder", policy=policy, message="main, please")
    assert scene.last("question.answered").data["by_item"] == newer
    assert said(scene.claim().messages) == [QUESTION, "main, please"]
