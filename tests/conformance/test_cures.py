"""Cures do what they say: for each state of an item that has one, it is performed on a store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.core.commands import QuotaLimit
from interlock.core.cures import Cure
from interlock.core.model import ANOTHER_SYSTEM
from interlock.core.plans.model import Graph, TaskSpec
from interlock.core.timing import WAKES_MAX
from tests.conformance.planner import EDITOR, Planner
from tests.conformance.scene import LANE, Scene
from tests.cures import performed

SERIES = "series:acme/app/RFC-093"


def failed(scene: Scene) -> int:
    lease = scene.put_running(max_attempts=1)
    scene.fail(lease)
    return lease.item.id


def cancelled(scene: Scene) -> int:
    item = scene.put()
    scene.cancel(item)
    return item


def in_back_off(scene: Scene) -> int:
    lease = scene.put_running()
    scene.fail(lease)
    return lease.item.id


def at_quota_limit(scene: Scene) -> int:
    lease = scene.put_running()
    scene.release(lease, wall=QuotaLimit(for_s=3600, why="weekly quota"))
    return lease.item.id


def asking(scene: Scene) -> int:
    lease = scene.put_running(lane=LANE)
    scene.service.ask(lease.run, "Which?")
    return lease.item.id


def in_a_loop(scene: Scene) -> int:
    lease = scene.put_running(lane=LANE, agent="coder", max_attempts=WAKES_MAX + 3)
    for _ in range(WAKES_MAX):
        scene.fail(lease)
        scene.service.msg(lease.item.id, "look again", sender=ANOTHER_SYSTEM)
        lease = scene.claim("coder")
    scene.service.msg(lease.item.id, "one more", sender=ANOTHER_SYSTEM)
    stopped = scene.done(lease).follow_up
    assert stopped is not None
    return stopped


def ready(scene: Scene) -> int:
    scene.put("before it", priority=9)
    return scene.put(agent="coder")


def ready_for_anyone(scene: Scene) -> int:
    return scene.put()


def in_a_paused_project(scene: Scene) -> int:
    item = scene.put(project="frozen")
    scene.service.pause_project("frozen", paused=True, why="release day")
    return item


def of_a_paused_agent(scene: Scene) -> int:
    scene.service.set_agent("coder")
    scene.service.pause_agent("coder", paused=True, why="holiday")
    return scene.put(agent="coder")


def of_an_agent_at_its_quota_limit(scene: Scene) -> int:
    lease = scene.put_running()
    scene.release(lease, wall=QuotaLimit(for_s=3600, why="weekly quota", whole_agent=True))
    return scene.put(agent="coder")


def of_another_type(scene: Scene) -> int:
    scene.service.set_agent("coder", types=("review",))
    return scene.put(agent="coder")


def with_a_label_of_nobody(scene: Scene) -> int:
    return scene.put(labels=("gpu",))


def with_a_label_that_its_agent_lacks(scene: Scene) -> int:
    scene.service.set_agent("coder", labels=("big",))
    return scene.put(agent="coder", labels=("gpu", "big"))


def blocked(scene: Scene) -> int:
    item = scene.put()
    scene.service.block(item=item, blocker="acme/app#3", why="blocked by")
    return item


def on_a_blocked_lane(scene: Scene) -> int:
    scene.service.block(lane=LANE, blocker="acme/app#3", why="blocked by")
    return scene.put(lane=LANE)


def behind_a_blocked_owner(scene: Scene) -> int:
    owner = scene.put(lane=LANE)
    scene.service.block(item=owner, blocker="acme/app#3", why="blocked by")
    return scene.put(lane=LANE)


def running_outside(scene: Scene) -> int:
    item = scene.put()
    scene.service.next("coder", item=item, external=True)
    return item


def in_a_paused_plan(scene: Scene) -> int:
    plan = scene.service.create_plan("work", Graph(tasks=(TaskSpec(key="A"),)))
    scene.service.pause_plan(plan.id, why="release day")
    return plan.tasks[0].item


def in_an_edit_cycle(scene: Scene) -> int:
    scene.service.set_agent(EDITOR)
    planner = Planner(scene.service, scene.clock)
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    return planner.task("B").item


def after_a_failed_task(scene: Scene) -> int:
    planner = Planner(scene.service, scene.clock)
    planner.make("A>B")
    planner.fail(planner.start("A"), retry=False)
    scene.service.sweep()
    return planner.task("B").item


CASES: dict[Callable[[Scene], int], str] = {
    failed: "retry",
    cancelled: "retry",
    in_back_off: "retry",
    at_quota_limit: "retry",
    asking: "msg",
    in_a_loop: "msg",
    ready: "next",
    ready_for_anyone: "next",
    in_a_paused_project: "pause_project",
    of_a_paused_agent: "pause_agent",
    of_an_agent_at_its_quota_limit: "pause_agent",
    of_another_type: "set_agent",
    with_a_label_of_nobody: "set_agent",
    with_a_label_that_its_agent_lacks: "set_agent",
    blocked: "unblock",
    on_a_blocked_lane: "unblock",
    behind_a_blocked_owner: "unblock",
    running_outside: "cancel",
    in_a_paused_plan: "resume_plan",
    in_an_edit_cycle: "cancel",
    after_a_failed_task: "retry",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_first_cure_of_an_item_has_its_effect(scene: Scene, case: Callable[[Scene], int]) -> None:
    item = case(scene)
    before = scene.service.why(item)
    cure = before.cures[0]
    assert cure.operation == CASES[case]
    performed(scene.service, cure)
    after = scene.service.why(item)
    assert after.why != before.why
    assert cure not in after.cures
    assert _is_cured(scene, item, cure), after.why


def _is_cured(scene: Scene, item: int, cure: Cure) -> bool:
    """Whether what a cure promises has happened to an item."""
    now = scene.service.show(item).item
    match cure.operation:
        case "retry" | "msg":
            return now.status in ("pending", "waiting") and now.run_at is None
        case "next":
            return now.run is not None
        case "cancel" if cure.arguments["item"] == item:
            return now.cancel_requested or now.status == "cancelled"
        case _:
            return not scene.service.why(item).hindered


def test_what_was_absorbed_names_who_has_it(scene: Scene) -> None:
    first = scene.put(lane=LANE, agent="coder", policy="coalesce")
    absorbed = scene.put(lane=LANE, agent="coder", policy="coalesce")
    (cure,) = scene.service.why(absorbed).cures
    assert performed(scene.service, cure).item.id == first


def test_show_has_the_cures_of_why(scene: Scene) -> None:
    item = failed(scene)
    assert scene.service.show(item).cures == scene.service.why(item).cures != ()
