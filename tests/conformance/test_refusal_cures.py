"""The cures of refusals do what they say: each is performed on a store, with its blanks filled in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.core.errors import InterlockError
from interlock.core.model import ANOTHER_SYSTEM
from interlock.core.plans.model import Graph, TaskSpec, UpdateTask
from interlock.service.contract import Report
from tests.conformance.planner import EDITOR, Planner
from tests.conformance.scene import LANE, Scene
from tests.conformance.test_cures import in_a_loop
from tests.cures import performed

Refused = tuple[InterlockError, Callable[[], Any]]


def refused(act: Callable[[], Any]) -> Refused:
    """The refusal of a call, and the call, which may be repeated."""
    with pytest.raises(InterlockError) as caught:
        act()
    return caught.value, act


def cured(scene: Scene, error: InterlockError, *operations: str, **blanks: Any) -> list[Any]:
    """Perform all cures of a refusal, in their order; gives their answers."""
    assert [cure.operation for cure in error.cures] == list(operations)
    return [performed(scene.service, cure, **blanks) for cure in error.cures]


def test_a_late_run_claims_another_item(scene: Scene) -> None:
    late = scene.put_running(agent="coder")
    scene.service.take_back(late.item.id, why="too slow")
    (view,) = scene.service.done([Report(run=late.run)])
    assert view.refusal is not None
    ((lease,),) = cured(scene, view.refusal.error(), "next")
    assert lease.item.id == late.item.id


def test_a_run_that_is_not_external_is_asked_to_stop(scene: Scene) -> None:
    item = scene.put_running().item
    assert item.run is not None
    run = item.run
    error, _ = refused(lambda: scene.service.end_external(item.id, run, "done", why="merged"))
    cured(scene, error, "cancel")
    assert scene.item(item.id).cancel_requested


def test_a_running_item_gets_a_message_or_is_cancelled(scene: Scene) -> None:
    item = scene.put_running().item.id
    error, _ = refused(lambda: scene.service.edit(item, {"priority": 3}))
    cured(scene, error, "msg", "cancel", text="more")
    assert scene.texts(item) == ["more"]
    assert scene.item(item).cancel_requested


def test_a_stale_edit_reads_the_item_again(scene: Scene) -> None:
    item = scene.put()
    error, _ = refused(lambda: scene.service.edit(item, {"priority": 3}, expected="old"))
    (shown,) = cured(scene, error, "show")
    assert shown.item.id == item


def test_a_person_starts_what_only_a_person_may_start(scene: Scene) -> None:
    item = in_a_loop(scene)
    error, _ = refused(lambda: scene.service.edit(item, {"run_at_us": 0}, sender=ANOTHER_SYSTEM))
    cured(scene, error, "msg")
    assert scene.status(item) == "pending"


def test_a_task_changes_with_its_plan(scene: Scene) -> None:
    plan = scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),)))
    task = plan.tasks[0].item
    error, _ = refused(lambda: scene.service.edit(task, {"priority": 3}))
    update = [{"op": "update_task", "key": "A", "priority": 3}]
    cured(scene, error, "edit_plan", operations=update)
    assert scene.item(task).priority == 3


def test_an_edit_that_a_plan_waits_for_is_cancelled(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    error, again = refused(lambda: planner.edit(UpdateTask(key="B", changes={"priority": 3})))
    cured(planner, error, "cancel")
    again()


def test_an_editor_reads_which_completions_to_answer(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    error, _ = refused(lambda: planner.edit(lease=asked, through=9))
    (batch,) = cured(planner, error, "plan_batch", run=asked.run)
    assert batch.through == 1


@pytest.mark.parametrize(
    ("act", "operation"),
    [
        (lambda s: s.show(99), "items"),
        (lambda s: s.plan(99), "plans"),
        (lambda s: s.revoke_token("ci"), "tokens"),
        (lambda s: s.remove_agent("ann"), "agents"),
        (lambda s: s.remove_pool("gpu"), "pools"),
        (lambda s: s.pause_agent("ann", paused=False, why="back"), "agents"),
        (lambda s: s.pause_project("web", paused=False, why="back"), "paused_projects"),
    ],
)
def test_what_is_not_found_can_be_looked_up(scene: Scene, act: Callable[..., Any], operation: str) -> None:
    error, _ = refused(lambda: act(scene.service))
    assert not cured(scene, error, operation)[0]


def test_a_plan_that_was_taken_for_an_item_is_shown(scene: Scene) -> None:
    plan = scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),)))
    error, _ = refused(lambda: scene.service.show(plan.id))
    assert cured(scene, error, "plan")[0].id == plan.id
    scene.service.cancel_plan(plan.id, why="enough")
    error, _ = refused(lambda: scene.service.pause_plan(plan.id, why="late"))
    assert cured(scene, error, "plan")[0].status == "cancelled"


def test_the_history_of_what_has_ended_is_shown(scene: Scene) -> None:
    item = scene.put()
    scene.cancel(item)
    for act in (
        lambda: scene.cancel(item),
        lambda: scene.service.take_back(item, why="late"),
        lambda: scene.service.next("coder", item=item),
        lambda: scene.service.msg(item, "late"),
    ):
        assert cured(scene, refused(act)[0], "show")[0].item.status == "cancelled"


def test_a_missing_pool_is_created(scene: Scene) -> None:
    error, again = refused(lambda: scene.service.set_agent("ann", pool="gpu"))
    cured(scene, error, "set_pool")
    assert again().pool == "gpu"
    error, again = refused(lambda: scene.service.remove_pool("gpu"))
    cured(scene, error, "set_agent", name="ann")
    assert again() == "gpu"


def test_items_of_an_agent_are_listed_and_given_to_any_agent(scene: Scene) -> None:
    item = scene.put(agent="coder")
    scene.service.set_agent("coder")
    error, again = refused(lambda: scene.service.remove_agent("coder"))
    (listed, _) = cured(scene, error, "items", "edit", item=item)
    assert [each.id for each in listed] == [item]
    assert again() == "coder"


def test_a_name_is_paused_before_its_first_use(scene: Scene) -> None:
    error, _ = refused(lambda: scene.service.pause_agent("ann", paused=True, why="later"))
    cured(scene, error, "pause_agent")
    error, _ = refused(lambda: scene.service.pause_project("web", paused=True, why="later"))
    cured(scene, error, "pause_project")
    assert scene.service.agents()[0].paused_reason is not None
    assert "web" in scene.service.paused_projects()


def test_tokens_with_one_name_are_revoked_by_their_ids(scene: Scene) -> None:
    for _ in range(2):
        scene.service.create_token("ci", scope="read")
    error, again = refused(lambda: scene.service.revoke_token("ci"))
    cured(scene, error, "revoke_token", "revoke_token")
    assert again().revoked_at is not None


def test_the_owner_of_a_stalled_lane_is_explained(scene: Scene) -> None:
    scene.service.set_agent("coder", types=["review"])
    owner = scene.put(lane=LANE, agent="coder", retry_lane="keep")
    scene.put(lane=LANE, agent="cto")
    scene.pass_s(60)
    (check,) = (each for each in scene.service.doctor() if each.name == "stalled_lanes")
    (cure,) = check.cures
    assert (check.ok, performed(scene.service, cure).item.id) == (False, owner)
