"""Sentences about the future that were once wrong. `tests/model/test_predictions.py` looks for more."""

from __future__ import annotations

import pytest

from tests.conformance.scene import LANE, Scene


def why(scene: Scene, item: int) -> str:
    return scene.service.why(item).why


def test_an_item_whose_label_nobody_has_is_not_said_to_be_for_any_agent(scene: Scene) -> None:
    item = scene.put(labels=("gpu",))
    assert "no agent has the label gpu; `interlock agents set NAME --label gpu`" in why(scene, item)
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


def test_a_last_attempt_is_not_offered_again(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, max_attempts=1)
    heir = scene.put(lane=LANE)
    said = why(scene, lease.item.id)
    assert f"then it has failed for good, as attempt 1 is its last, and item {heir} gets its lane" in said
    assert "it moves up when run" in why(scene, heir)
    scene.lose(lease)
    assert scene.statuses(lease.item.id, heir) == ["failed", "pending"]


def test_a_lost_owner_with_attempts_left_keeps_its_lane(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    heir = scene.put(lane=LANE)
    stays = f"loses its lease, item {lease.item.id} keeps the lane for another attempt"
    assert stays in why(scene, heir)
    scene.lose(lease)
    assert scene.statuses(lease.item.id, heir) == ["pending", "deferred"]


def test_a_failed_owner_that_keeps_its_lane_for_a_retry_is_told(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, retry_lane="keep")
    said = why(scene, scene.put(lane=LANE))
    assert f"it moves up when run {lease.fence} is done; if it fails and is to be tried again" in said


def test_unread_messages_go_before_who_waits_longer(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, agent="coder")
    scene.service.msg(lease.item.id, "and this", author="sam")
    heir = scene.put(lane=LANE)
    said = f"the messages that item {lease.item.id} has not read go first, as an item of their own, when"
    assert said in why(scene, heir)
    scene.done(lease)
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
