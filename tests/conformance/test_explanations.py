"""Sentences about the future that were once wrong. `tests/model/test_predictions.py` looks for more."""

from __future__ import annotations

import pytest

from interlock.core.commands import QuotaLimit
from interlock.core.cures import Cure, cure, python_call
from interlock.core.errors import ItemEnded
from interlock.core.model import A_PERSON, ANOTHER_SYSTEM, Sender, SenderKind
from interlock.core.plans.model import Graph, OnCancel, TaskSpec, When
from interlock.core.timing import WAKES_MAX
from interlock.service.contract import LeaseView
from tests.conformance.planner import EDITOR, Planner, edge
from tests.conformance.scene import LANE, Scene


def why(scene: Scene, item: int) -> str:
    return scene.service.why(item).why


def calls(scene: Scene, item: int) -> list[str]:
    """The cures of an item, as calls in Python."""
    return [python_call(cure) for cure in scene.service.why(item).cures]


def test_an_item_whose_label_nobody_has_is_not_said_to_be_for_any_agent(scene: Scene) -> None:
    item = scene.put(labels=("gpu",))
    assert "no agent has the label gpu; it can start when an agent has the label gpu" in why(scene, item)
    assert calls(scene, item) == ["set_agent(..., labels=['gpu'])"]
    scene.service.set_agent("trainer", labels=("gpu",))
    assert "only an agent with label gpu (trainer) may claim it" in why(scene, item)
    scene.service.pause_agent("trainer", paused=True, why="holiday")
    assert "is ready, but trainer is paused (holiday)" in why(scene, item)


def test_agents_that_may_not_take_what_anyone_may_are_named(scene: Scene) -> None:
    item = scene.put()
    scene.service.set_agent("coder", types=("review",))
    scene.service.set_agent("ada")
    scene.service.pause_agent("ada", paused=True, why="holiday")
    assert "any agent but ada (paused), coder (takes only review) may claim it" in why(scene, item)


def test_an_item_for_anyone_is_not_said_to_go_before_what_an_agent_has_of_its_own(scene: Scene) -> None:
    own, item = scene.put(agent="coder"), scene.put()
    assert "is ready and first in the queue for anyone; any agent may claim it" in why(scene, item)
    assert "is ready, with up to 1 for anyone ahead of it;" in why(scene, scene.put())
    assert scene.claim("coder").item.id == own
    assert "is ready for coder, with up to 2 ahead of it;" in why(scene, scene.put(agent="coder"))


def test_a_last_attempt_is_not_offered_again(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, max_attempts=1)
    heir = scene.put(lane=LANE)
    said = why(scene, lease.item.id)
    assert f"then it fails, as attempt 1 is its last, and item {heir} gets its lane" in said
    assert "it moves up when run" in why(scene, heir)
    scene.lose(lease)
    assert scene.statuses(lease.item.id, heir) == ["failed", "pending"]


def test_a_lost_owner_with_attempts_left_keeps_its_lane(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    heir = scene.put(lane=LANE)
    stays = f"loses its lease, item {lease.item.id} is retried first"
    assert stays in why(scene, heir)
    scene.lose(lease)
    assert scene.statuses(lease.item.id, heir) == ["pending", "deferred"]


def test_a_failed_owner_that_keeps_its_lane_for_a_retry_is_told(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, retry_lane="keep")
    said = why(scene, scene.put(lane=LANE))
    run = f"run {lease.fence}"
    assert f"it moves up when {run} is done; if {run} fails with attempts left" in said


def test_unread_messages_go_before_who_waits_longer(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, agent="coder")
    scene.service.msg(lease.item.id, "and this", author="sam")
    heir = scene.put(lane=LANE)
    said = f"the messages that item {lease.item.id} has not read go first, as an item of their own, when"
    assert said in why(scene, heir)
    scene.done(lease)
    assert scene.status(heir) == "deferred"


def test_unread_messages_stay_with_an_item_that_is_tried_again(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, agent="coder")
    scene.service.msg(lease.item.id, "and this", author="sam")
    heir = scene.put(lane=LANE)
    assert (
        f"their own, when run {lease.fence} is done; it moves up when run {lease.fence} fails; if run"
        in why(scene, heir)
    )
    scene.fail(lease)
    assert scene.statuses(lease.item.id, heir) == ["waiting", "pending"]


@pytest.mark.parametrize("end", ["done", "fail", "lose"])
def test_a_hold_runs_its_command_again_for_messages_before_it_is_done(scene: Scene, end: str) -> None:
    """`hold` reads what a person wrote before it reports that it is done, and then no item is made of it."""
    hold = scene.put(type="hold", labels=("hold",), agent="coder", lane=LANE, max_attempts=1)
    lease = scene.claim("coder", item=hold, types=("hold",), labels=("hold",))
    scene.service.msg(hold, "and this", author="sam")
    heir, run = scene.put(lane=LANE), f"run {lease.fence}"
    again = (
        f"{run} is done, which first runs its command again for the messages that item {hold} has not read;"
    )
    first = f"those not read by then go first, as an item of their own, when {run} fails or loses its lease;"
    assert f"; it moves up when {again} {first} if {run} is released" in why(scene, heir)
    assert f"the lane goes to the next in line when {again} {first}" in (scene.service.why(hold).lane or "")
    match end:
        case "done":
            scene.done(lease, seen=1)
        case "fail":
            scene.fail(lease, retry=False)
        case _:
            scene.lose(lease)
    assert scene.status(heir) == ("pending" if end == "done" else "deferred")


@pytest.mark.parametrize("asked_to_stop", [False, True])
def test_what_a_hold_does_not_read_before_it_is_done_goes_first(scene: Scene, asked_to_stop: bool) -> None:
    """It runs again for persons only, and not if it was asked to stop."""
    hold = scene.put(type="hold", labels=("hold",), agent="coder", lane=LANE, max_attempts=1)
    lease = scene.claim("coder", item=hold, types=("hold",), labels=("hold",))
    scene.service.msg(hold, "and this", sender=A_PERSON if asked_to_stop else ANOTHER_SYSTEM)
    heir = scene.put(lane=LANE)
    if asked_to_stop:
        scene.cancel(hold)
    assert "has not read go first, as an item of their own, when run" in why(scene, heir)
    assert scene.done(lease).follow_up
    assert scene.status(heir) == "deferred"


@pytest.mark.parametrize("gone", ["paused project", "other types"])
def test_the_answer_to_add_knows_who_may_claim_it(scene: Scene, gone: str) -> None:
    if gone == "paused project":
        scene.put(project="frozen")
        scene.service.pause_project("frozen", paused=True, why="release day")
    scene.service.set_agent("coder", types=("review",))
    item = scene.put(project="frozen" if gone == "paused project" else "default", agent="coder")
    said = scene.service.why(item)
    assert said.hindered
    assert said.state.startswith("is ready, but ")
    assert "coder takes only review and no task" in said.state
    assert ("project frozen is paused (release day) and " in said.state) is (gone == "paused project")


def test_a_run_that_dies_is_said_to_let_others_overtake_its_item(scene: Scene) -> None:
    """Taken out: the look at who waits behind it. Only that the item keeps its lane was said."""
    lease = scene.put_running(lane=LANE, agent="coder")
    item = lease.item.id
    retried = "then it is retried (attempt 2 of 3) and keeps its lane"
    assert scene.service.why(item).why.endswith(f"{retried}.")
    behind = scene.put(lane=LANE, agent="cto")
    overtaken = f"; unless coder makes a claim before, another agent's claim may overtake it on {LANE}."
    assert scene.service.why(item).why.endswith(retried + overtaken)
    scene.lose(lease)
    assert scene.claim("cto").item.id == behind
    assert scene.status(item) == "deferred"


def test_an_item_that_is_never_overtaken_is_not_said_to_be(scene: Scene) -> None:
    scene.service.set_agent("coder", overtake_after_s=0)
    first = scene.put_running(lane=LANE, agent="coder").item.id
    second = scene.put_running(lane="l:2", agent="painter", retry_lane="keep").item.id
    scene.put(lane=LANE, agent="cto")
    scene.put(lane="l:2", agent="cto")
    assert "overtake" not in scene.service.why(first).why + scene.service.why(second).why


def test_an_item_that_is_overtaken_later_says_when(scene: Scene) -> None:
    scene.service.set_agent("coder", overtake_after_s=3600)
    first = scene.put_running(lane=LANE, agent="coder").item.id
    scene.put(lane=LANE, agent="cto")
    assert scene.service.why(first).why.endswith(f"may overtake it on {LANE} in 1 h.")


# -- tasks of plans -------------------------------------------------------------------------------


def why_task(planner: Planner, key: str) -> str:
    return planner.service.why(planner.task(key).item).why


def task_cures(planner: Planner, key: str) -> tuple[Cure, ...]:
    return planner.service.why(planner.task(key).item).cures


def test_a_task_says_which_ends_it_waits_for(planner: Planner) -> None:
    planner.make("A, B, C, D")
    planner.edit(
        edge("A", "D"),
        edge("B", "D", when=When.FAILURE),
        edge("C", "D", when=When.COMPLETION, on_cancel=OnCancel.SATISFY),
    )
    said = why_task(planner, "D")
    assert "for A, B, C; it is ready when A succeeds and B fails and C ends" in said
    assert said.endswith("; if one of them ends otherwise, it can never start and is cancelled.")
    planner.do("A")
    planner.fail(planner.start("B"), retry=False)
    assert "for C; it is ready when C ends." in why_task(planner, "D")
    planner.service.cancel(planner.task("C").item, why="not now", by="sam")
    assert planner.task("D").status == "pending"


def test_a_task_that_only_an_edit_can_save_is_not_said_to_become_ready(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    assert f"is cancelled, unless an edit of {EDITOR} saves it" in why_task(planner, "B")
    planner.service.cancel(planner.task("A").item, why="not now", by="sam")
    said = why_task(planner, "B")
    assert "cannot start as plan" in said
    assert "was cancelled" in said
    assert "is ready when" not in said
    assert f"it is cancelled when the edit cycle closes, unless an edit of {EDITOR} (item" in said
    planner.done(planner.ask())
    planner.service.sweep()
    assert planner.task("B").status == "cancelled"


def test_a_task_whose_source_can_never_start_is_not_told_to_be_brought_back_by_its_retry(
    planner: Planner,
) -> None:
    planner.make("A>B>C")
    planner.fail(planner.start("A"), retry=False)
    planner.service.sweep()
    a = planner.task("A").item
    assert "it comes back when A is retried" in why_task(planner, "B")
    assert task_cures(planner, "B") == (cure("retry", "brings it back", item=a),)
    assert "it comes back when B comes back" in why_task(planner, "C")
    assert task_cures(planner, "C") == ()
    planner.service.retry(a)
    assert planner.states() == "A:pend B:wait C:wait"


def test_a_task_comes_back_only_with_all_that_have_to_be_retried(planner: Planner) -> None:
    planner.make("A>C, B>C, D>C")
    planner.fail(planner.start("A"), retry=False)
    planner.fail(planner.start("B"), retry=False)
    a, b = planner.task("A").item, planner.task("B").item
    assert "it comes back when A, B are retried" in why_task(planner, "C")
    assert [each.arguments["item"] for each in task_cures(planner, "C")] == [a, b]
    planner.service.retry(a)
    assert planner.task("C").status == "cancelled"
    planner.service.retry(b)
    assert planner.task("C").status == "waiting"


def test_a_success_that_rules_out_a_task_cannot_be_retried(planner: Planner) -> None:
    planner.make("A, B")
    planner.edit(edge("A", "B", when=When.FAILURE))
    planner.do("A")
    planner.service.sweep()
    assert "A succeeded, which rules it out; that is final" in why_task(planner, "B")
    b = planner.task("B").item
    with pytest.raises(ItemEnded) as refused:
        planner.service.retry(b)
    sentence = "Task B cannot start: a task that it depends on did not end as required."
    assert str(refused.value) == f"{sentence} `show({b})` shows its history."


def test_a_cancelled_task_is_not_offered_a_retry_that_is_refused(planner: Planner) -> None:
    planner.make("A>B")
    planner.service.cancel(planner.task("B").item, why="not now", by="sam")
    b = planner.task("B").item
    assert task_cures(planner, "B") == (cure("retry", "brings it back", item=b),)
    planner.fail(planner.start("A"), retry=False)
    first = cure("retry", "brings A back, which comes first", item=planner.task("A").item)
    assert task_cures(planner, "B") == (first,)
    with pytest.raises(ItemEnded, match="B cannot start"):
        planner.service.retry(planner.task("B").item)


def test_a_plan_goes_on_only_when_every_end_is_answered(planner: Planner) -> None:
    planner.make("A, B, C", editor=EDITOR)
    second = planner.start("B")
    planner.do("A")
    asked = planner.ask()
    planner.clock.advance(1)
    planner.done(second)
    said = why_task(planner, "C")
    assert f"plan {planner.plan} waits for an edit of {EDITOR} (item {asked.item.id})" in said
    assert "the plan continues when every end is answered, or at the deadline, in 10 min" in said
    planner.done(asked)
    assert "is ready, but" in why_task(planner, "C")


def test_an_edit_past_its_deadline_is_not_said_to_be_taken(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    edit = planner.view().cycle
    assert edit is not None
    assert f"{EDITOR}'s " in planner.service.why(edit.item).why
    planner.clock.advance(601)
    ends = f"Item {edit.item} was not claimed in time; with the next claim or sweep it is ended as cancelled."
    assert planner.service.why(edit.item).why == ends
    assert edit.item not in [lease.item.id for lease in planner.service.next(EDITOR)]
    assert planner.status(edit.item) == "cancelled"


def test_an_item_that_nobody_claimed_in_time_is_not_said_to_be_ready(scene: Scene) -> None:
    item = scene.put(lane=LANE, claim_within_s=30)
    heir = scene.put(lane=LANE)
    scene.clock.advance(31)
    ends = f"with the next claim or sweep it is ended as cancelled, and item {heir} gets its lane"
    assert why(scene, item) == f"Item {item} was not claimed in time; {ends}."
    assert scene.claim("coder").item.id == heir
    assert scene.status(item) == "cancelled"


def test_an_item_behind_one_of_its_own_agent_is_not_said_to_overtake_it(scene: Scene) -> None:
    """Whoever could overtake the owner takes the owner."""
    scene.put("first", lane=LANE, agent="coder")
    assert "overtake" not in why(scene, scene.put("second", lane=LANE, agent="coder", policy="coalesce"))
    assert "may overtake it" in why(scene, scene.put("third", lane=LANE, agent="reviewer"))


def test_a_lease_that_is_over_is_not_said_to_end_now(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    item, heir = lease.item.id, scene.put(lane=LANE)
    scene.clock.advance(74)
    assert "; its lease has expired, and with the next claim or sweep, unless renewed before, it is" in why(
        scene, item
    )
    assert f"(item {item}), whose lease has expired; it moves up when" in why(scene, heir)
    assert scene.renew(lease).refusal is None
    assert "its lease ends in 60 s unless renewed, and then it is retried" in why(scene, item)


def test_a_question_that_nobody_answered_in_time_is_not_said_to_time_out_now(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    item, heir = lease.item.id, scene.put(lane=LANE)
    scene.service.ask(lease.run, "Which?", timeout_s=50)
    scene.clock.advance(60)
    gives_up = "; without an answer it gives up its lane with the next claim or sweep and keeps asking"
    assert gives_up in why(scene, item)
    assert "or its question times out, with the next claim or sweep." in why(scene, heir)
    scene.service.sweep()
    assert scene.statuses(item, heir) == ["waiting", "pending"]


def test_a_back_off_that_is_over_is_not_said_to_come_back_now(scene: Scene) -> None:
    lease = scene.put_running()
    scene.fail(lease)
    scene.clock.advance(60)
    assert "; it is retried with the next claim or sweep." in why(scene, lease.item.id)


def test_a_deadline_that_is_over_is_not_said_to_be_now(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    edit = planner.ask()
    planner.clock.advance(30)
    planner.renew(edit)
    planner.clock.advance(601)
    goes_on = (
        "continues when every end is answered, or with the next claim or sweep, as the deadline has passed"
    )
    assert goes_on in why_task(planner, "B")


def test_a_quota_limit_is_told_with_its_reason_and_the_way_out(scene: Scene) -> None:
    lease = scene.put_running()
    item = lease.item.id
    scene.release(lease, wall=QuotaLimit(for_s=3600, why="weekly quota"))
    assert why(scene, item) == f"Item {item} hit a quota limit (weekly quota); it is retried in 1 h."
    assert calls(scene, item) == [f"retry({item})"]
    scene.service.retry(item)
    assert scene.status(item) == "pending"


def test_a_back_off_is_told_with_the_way_out(scene: Scene) -> None:
    item = scene.fail(scene.put_running(lane=LANE)).item
    assert item is not None
    assert calls(scene, item.id) == [f"retry({item.id})"]
    assert calls(scene, scene.put(in_s=60)) == [], "what is only scheduled cannot be retried"


# -- near the bound of wake-ups -------------------------------------------------------------------

SYSTEM, OTHER = ANOTHER_SYSTEM, Sender(SenderKind.AGENT, "reviewer")


def awake(scene: Scene, lane: str | None, wakes: int) -> LeaseView:
    """A run on a lane, or of an item without one, after so many wake-ups in a row without a person."""
    lease = scene.put_running(lane=lane, agent="coder", max_attempts=WAKES_MAX + 3)
    for _ in range(wakes):
        scene.fail(lease)
        scene.service.msg(lease.item.id, "look again", sender=SYSTEM)
        lease = scene.claim("coder")
    return lease


@pytest.mark.parametrize("lane", [None, LANE])
@pytest.mark.parametrize("sender", [SYSTEM, OTHER])
def test_a_back_off_at_the_bound_is_ended_by_a_person_alone(
    scene: Scene, lane: str | None, sender: Sender
) -> None:
    before = awake(scene, lane, WAKES_MAX - 1)
    item = before.item.id
    scene.fail(before)
    assert "(loop)" not in why(scene, item)
    scene.service.msg(item, "look again", sender=sender)
    assert scene.status(item) == "pending"  # the last wake-up that may be
    scene.fail(scene.claim("coder"))
    assert "; before that only a person's message starts it (loop)." in why(scene, item)
    scene.service.msg(item, "look again", sender=sender)
    assert scene.status(item) == "waiting"
    scene.service.msg(item, "do", sender=A_PERSON)
    assert scene.status(item) == "pending"


@pytest.mark.parametrize("lane", [None, LANE])
def test_what_a_run_at_the_bound_does_not_read_waits_for_a_person(scene: Scene, lane: str | None) -> None:
    before = awake(scene, lane, WAKES_MAX - 1)
    assert "(loop)" not in why(scene, before.item.id)
    scene.fail(before)
    scene.service.msg(before.item.id, "look again", sender=SYSTEM)
    lease = scene.claim("coder")
    said = "; messages that it does not read wait for a person, unless a person wrote them (loop)."
    assert said in why(scene, lease.item.id)
    scene.service.msg(lease.item.id, "one more", sender=OTHER)
    heir = scene.put(lane=lane, sender=SYSTEM)  # a person's arrival would count from zero
    if lane is not None:
        assert "go first" not in why(scene, heir)
    stopped = scene.done(lease).follow_up
    assert stopped is not None
    assert scene.status(stopped) == "waiting"
    assert "waits for a person" in why(scene, stopped)
    assert scene.status(heir) == "pending"


def test_a_person_at_the_bound_makes_a_follow_up_as_ever(scene: Scene) -> None:
    lease = awake(scene, LANE, WAKES_MAX)
    scene.service.msg(lease.item.id, "one more", sender=SYSTEM)
    scene.service.msg(lease.item.id, "and this", sender=A_PERSON)
    heir = scene.put(lane=LANE)
    assert "(loop)" not in why(scene, lease.item.id)
    assert "has not read go first" in why(scene, heir)
    follow_up = scene.done(lease).follow_up
    assert follow_up is not None
    assert scene.statuses(follow_up, heir) == ["pending", "deferred"]


# -- what a claim sweeps before it looks ------------------------------------------------------------


@pytest.mark.parametrize("how", ["blocked", "project paused", "gated"])
def test_behind_an_owner_that_nobody_may_start_the_same_agent_is_told_that_it_may_pass(
    scene: Scene, how: str
) -> None:
    scene.idle("coder")
    owner = scene.put("owner", lane=LANE, agent="coder", project="frozen")
    item = scene.put("next", lane=LANE, agent="coder", type="look")
    if how == "blocked":
        scene.service.block(item=owner, blocker="acme/app#3", why="blocked by")
    elif how == "gated":
        series = "series:acme/app/RFC-093"
        scene.service.set_gate(LANE, series=series, open=False, exempt=["look"], why="not its turn")
    else:
        scene.service.pause_project("frozen", paused=True, why="release day")
    assert "a claim of coder may overtake it" in scene.service.why(item).why
    assert scene.claim("coder").item.id == item


def test_behind_an_owner_whose_unknown_agent_lacks_its_label_that_agent_is_told_that_it_may_pass(
    scene: Scene,
) -> None:
    scene.put("owner", lane=LANE, agent="newcomer", labels=("gpu",))
    item = scene.put("next", lane=LANE, agent="newcomer")
    assert "a claim of newcomer may overtake it" in scene.service.why(item).why
    assert scene.claim("newcomer").item.id == item


@pytest.mark.parametrize("limit", ["agent", "pool"])
def test_a_run_whose_lease_is_over_counts_against_no_limit(scene: Scene, limit: str) -> None:
    if limit == "pool":
        scene.service.set_pool("gpu", max_concurrency=1)
        scene.service.set_agent("coder", pool="gpu")
    else:
        scene.service.set_agent("coder", max_concurrency=1)
    scene.put_running("lost", agent="coder", max_attempts=1, lease_s=10)
    item = scene.put("next", agent="coder")
    assert "1 of 1 runs" in scene.service.why(item).why
    scene.clock.advance(11)
    assert "coder's next claim takes it" in scene.service.why(item).why
    assert scene.claim("coder").item.id == item


def test_an_overdue_item_of_higher_priority_goes_first(scene: Scene) -> None:
    lost = scene.put_running("lost", agent="coder", priority=9, lease_s=10)
    item = scene.put("next", agent="coder")
    assert "coder's next claim takes it" in scene.service.why(item).why
    scene.clock.advance(11)
    assert "with up to 1 ahead of it" in scene.service.why(item).why
    assert scene.claim("coder").item.id == lost.item.id


def test_a_lost_task_of_a_plan_goes_first_too(scene: Scene) -> None:
    scene.service.set_agent("coder")
    tasks = tuple(TaskSpec(key=key, agent="coder", max_attempts=2) for key in "AB")
    lost, item = (task.item for task in scene.service.create_plan("work", Graph(tasks=tasks)).tasks)
    scene.claim("coder", item=lost, lease_s=10)
    assert "coder's next claim takes it" in scene.service.why(item).why
    scene.clock.advance(11)
    assert "with up to 1 ahead of it" in scene.service.why(item).why
    assert scene.claim("coder").item.id == lost


def test_behind_an_owner_that_was_not_claimed_in_time_it_gets_the_lane(scene: Scene) -> None:
    scene.idle("coder")
    owner = scene.put("owner", lane=LANE, agent="coder", claim_within_s=10)
    item = scene.put("next", lane=LANE, agent="cto")
    scene.clock.advance(11)
    why = scene.service.why(item).why
    assert f"behind item {owner}, which was not claimed in time" in why
    assert f"item {owner} is ended and it gets the lane" in why
    assert scene.claim("cto").item.id == item
