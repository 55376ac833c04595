"""Questions of live runs: a run asks a person, keeps its lease, and goes on with the answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.model import ANOTHER_SYSTEM, OUR_BOT, Sender, SenderKind
from interlock.core.timing import LIVE_QUESTION_TIMEOUT_S, QUESTION_TIMEOUT_S
from interlock.service.contract import ItemFilter, LeaseView, Report, RunView
from tests.conformance.scene import LANE, LEASE_S, Scene, said

QUESTION = "May the agent use Bash? npm install"
HOUR_S = LIVE_QUESTION_TIMEOUT_S
ITSELF = Sender(SenderKind.AGENT, "coder")


def ask(scene: Scene, lease: LeaseView, question: str = QUESTION, **options: Any) -> RunView:
    return scene.service.ask(lease.run, question, keep_lease=True, **options)


def close(scene: Scene, lease: LeaseView) -> RunView:
    return scene.service.close_question(lease.run)


def asking(scene: Scene) -> list[tuple[int, str | None]]:
    return [(i.id, i.question) for i in scene.service.items(ItemFilter(asking=True))]


def ends_in(scene: Scene, view: RunView) -> float:
    assert view.expires_at is not None
    return (view.expires_at - scene.clock.now).total_seconds()


def test_a_live_run_asks_and_keeps_its_lease_until_the_time_out(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    asked = ask(scene, lease)
    assert (asked.status, asked.refusal) == ("running", None)
    assert ends_in(scene, asked) == HOUR_S
    assert asked.item is not None
    assert (asked.item.status, asked.item.asking, asked.item.messages) == ("in_progress", True, 0)
    assert asking(scene) == [(lease.item.id, QUESTION)]
    event = scene.last("question.asked")
    assert (event.run, event.agent, event.data["question"]) == (asked.item.run, "coder", QUESTION)
    scene.pass_s(HOUR_S - 1)
    assert scene.idle()
    assert scene.done(lease).refusal is None
    assert asking(scene) == []


def test_it_is_shown_as_asking_everywhere(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    ask(scene, lease)
    shown = scene.service.show(lease.item.id).item
    assert (shown.asking, shown.question) == (True, QUESTION)
    why = scene.service.why(lease.item.id)
    assert QUESTION in why.why
    assert "the run goes on when a person answers" in why.why
    assert [cure.operation for cure in why.cures] == ["msg"]
    (concern,) = scene.service.attention().needs
    assert (concern.kind, concern.said) == ("question", QUESTION)
    items = scene.service.stats().items
    assert (items["asking"], items.get("in_progress", 0)) == (1, 0)
    (lane,) = scene.service.lanes()
    assert lane.holder is not None
    assert (lane.holder.asking, lane.holder.run) == (True, shown.run)
    close(scene, lease)
    items = scene.service.stats().items
    assert (items.get("asking", 0), items["in_progress"]) == (0, 1)
    assert scene.service.attention().needs == ()


def test_the_answer_of_a_person_reaches_the_run_with_the_question(scene: Scene) -> None:
    lease = scene.put_running()
    ask(scene, lease)
    scene.service.msg(lease.item.id, "yes", author="anna")
    assert asking(scene) == []
    assert said(scene.service.inbox(lease.run)) == [QUESTION, "yes"]
    answered = scene.last("question.answered")
    assert (answered.item, answered.data["n"]) == (lease.item.id, 2)
    assert scene.done(lease).status == "succeeded"


def test_after_an_answer_from_elsewhere_the_prompt_has_the_time_that_it_had(scene: Scene) -> None:
    lease = scene.put_running()
    ask(scene, lease)
    scene.service.msg(lease.item.id, "yes")
    scene.pass_s(HOUR_S - 1)
    scene.service.sweep()
    renewed = scene.renew(lease)
    assert renewed.status == "running"
    assert ends_in(scene, renewed) == LEASE_S
    scene.pass_s(LEASE_S)
    scene.service.sweep()
    assert scene.renew(lease).status == "refused"
    assert said(scene.claim().messages) == [QUESTION, "yes"]


@pytest.mark.parametrize("sender", [OUR_BOT, ITSELF, ANOTHER_SYSTEM])
def test_nobody_but_a_person_answers(scene: Scene, sender: Sender) -> None:
    lease = scene.put_running()
    ask(scene, lease)
    scene.service.msg(lease.item.id, "progress: 40 %", sender=sender)
    assert asking(scene) == [(lease.item.id, QUESTION)]
    assert said(scene.service.inbox(lease.run)) == ["progress: 40 %"]


def test_a_comment_that_arrives_as_an_item_answers(scene: Scene) -> None:
    fields: dict[str, Any] = {"lane": LANE, "agent": "coder", "policy": "coalesce"}
    lease = scene.put_running(**fields)
    ask(scene, lease)
    assert scene.add("comment", message="yes", **fields).decision == "coalesced"
    assert asking(scene) == []
    assert said(scene.service.inbox(lease.run)) == [QUESTION, "yes"]
    assert len(scene.events("question.answered")) == 1


def test_an_answer_at_the_terminal_leaves_no_message_and_a_lease_of_its_usual_length(scene: Scene) -> None:
    lease = scene.put_running()
    ask(scene, lease)
    scene.pass_s(HOUR_S / 2)
    closed = close(scene, lease)
    assert (closed.status, ends_in(scene, closed), closed.unread) == ("running", LEASE_S, 0)
    assert asking(scene) == []
    assert len(scene.events("question.answered")) == 1
    scene.pass_s(LEASE_S)
    scene.service.sweep()
    assert scene.renew(lease).status == "refused"
    assert said(scene.claim().messages) == []


def test_a_prompt_answered_twice_counts_once(scene: Scene) -> None:
    lease = scene.put_running()
    ask(scene, lease)
    scene.service.msg(lease.item.id, "yes")
    assert close(scene, lease).status == "running"
    assert close(scene, lease).status == "running"
    assert len(scene.events("question.answered")) == 1
    ask(scene, lease, "And now?")
    close(scene, lease)
    scene.service.msg(lease.item.id, "yes")
    assert len(scene.events("question.answered")) == 2
    assert said(scene.service.inbox(lease.run)) == [QUESTION, "yes", "yes"]


def test_asking_the_same_again_changes_nothing_and_another_question_replaces_it(scene: Scene) -> None:
    lease = scene.put_running()
    ask(scene, lease)
    scene.pass_s(60)
    assert ends_in(scene, ask(scene, lease)) == HOUR_S - 60
    assert len(scene.events("question.asked")) == 1
    assert ends_in(scene, ask(scene, lease, "And this?")) == HOUR_S
    assert asking(scene) == [(lease.item.id, "And this?")]
    scene.service.msg(lease.item.id, "yes")
    assert said(scene.service.inbox(lease.run)) == ["And this?", "yes"]


def test_if_nobody_answers_the_run_ends_with_the_question_and_the_answer_starts_it_again(
    scene: Scene,
) -> None:
    lease = scene.put_running(lane=LANE, max_attempts=1)
    behind = scene.put(lane=LANE)
    ask(scene, lease)
    scene.pass_s(HOUR_S)
    scene.service.sweep()
    item = scene.service.show(lease.item.id).item
    assert (item.status, item.reason, item.attempt, item.asking) == ("pending", "asked", 0, True)
    assert item.run_at == scene.clock.now + timedelta(seconds=QUESTION_TIMEOUT_S)
    assert asking(scene) == [(lease.item.id, QUESTION)]
    assert (scene.owner(), scene.status(behind)) == (lease.item.id, "deferred")
    (run,) = scene.service.show(lease.item.id).runs
    assert (run.status, run.reason) == ("released", "asked")
    assert len(scene.events("question.asked")) == len(scene.events("question.timed_out")) == 1
    late = scene.done(lease)
    assert late.status == "refused"
    assert scene.last("run.refused").data["wanted"] == "done"
    scene.service.msg(lease.item.id, "yes")
    again = scene.claim()
    assert (again.item.id, again.item.attempt, said(again.messages)) == (lease.item.id, 1, [QUESTION, "yes"])


def test_a_worker_renews_as_always_and_a_dead_one_frees_the_item_after_one_lease(scene: Scene) -> None:
    scene.put(lane=LANE)
    (lease,) = scene.service.next("coder", worker="w1")
    asked = ask(scene, lease)
    assert ends_in(scene, asked) == LEASE_S
    for _ in range(3):
        scene.pass_s(LEASE_S / 2)
        assert ends_in(scene, scene.renew(lease)) == LEASE_S
    assert asking(scene) == [(lease.item.id, QUESTION)]
    scene.pass_s(LEASE_S)
    scene.service.sweep()
    assert asking(scene) == []
    item = scene.service.show(lease.item.id).item
    assert (item.status, item.reason) == ("pending", "lease_expired")
    assert len(scene.events("question.timed_out")) == 0


def test_a_renewal_does_not_shorten_the_lease_of_an_open_question(scene: Scene) -> None:
    lease = scene.put_running()
    ask(scene, lease)
    for passed_s in (10, 20):
        scene.pass_s(10)
        assert ends_in(scene, scene.renew(lease)) == HOUR_S - passed_s
    scene.pass_s(HOUR_S - 30)
    assert ends_in(scene, scene.renew(lease)) == LEASE_S


def test_a_run_timeout_and_a_cancel_request_end_it_as_always(scene: Scene) -> None:
    timed = scene.put_running(timeout_s=300, max_attempts=1)
    assert ends_in(scene, ask(scene, timed)) == 300
    assert "time is up" in scene.service.why(timed.item.id).why
    scene.pass_s(300)
    scene.service.sweep()
    assert scene.last("run.timed_out").item == timed.item.id
    stopped = scene.put_running("stopped", agent="other")
    ask(scene, stopped)
    scene.cancel(stopped.item.id)
    scene.pass_s(60)
    scene.service.sweep()
    assert scene.status(stopped.item.id) == "cancelled"
    assert asking(scene) == []


def test_a_run_that_was_asked_to_stop_asks_nobody(scene: Scene) -> None:
    lease = scene.put_running()
    scene.cancel(lease.item.id)
    view = ask(scene, lease)
    assert (view.status, view.cancel_requested) == ("running", True)
    assert asking(scene) == []
    assert scene.events("question.asked") == []


def test_a_superseded_question_is_given_up_when_it_times_out(scene: Scene) -> None:
    fields: dict[str, Any] = {"lane": LANE, "agent": "coder", "policy": "latest"}
    lease = scene.put_running(**fields)
    ask(scene, lease)
    newer = scene.add("newer", **fields)
    scene.pass_s(HOUR_S)
    scene.service.sweep()
    assert scene.status(lease.item.id) == "superseded"
    assert scene.claim().item.id == newer.arrival


def test_a_lost_run_neither_asks_nor_closes(scene: Scene) -> None:
    lease = scene.put_running()
    scene.pass_s(LEASE_S)
    scene.service.sweep()
    assert ask(scene, lease).status == "refused"
    assert close(scene, lease).status == "refused"
    assert [e.data["wanted"] for e in scene.events("run.refused")] == ["ask", "close_question"]
    assert asking(scene) == []


def test_a_question_ends_with_its_run(scene: Scene) -> None:
    for end in (scene.service.done, scene.service.fail, scene.service.release):
        lease = scene.put_running()
        ask(scene, lease)
        assert end([Report(run=lease.run, retry=False)])[0].refusal is None
        assert asking(scene) == []


def test_bad_input_changes_nothing(scene: Scene) -> None:
    lease = scene.put_running()
    for question, options in (
        (" ", {}),
        (QUESTION, {"yield_lane": True}),
        (QUESTION, {"timeout_s": 0}),
    ):
        with pytest.raises(InvalidInput):
            ask(scene, lease, question, **options)
    assert asking(scene) == []
