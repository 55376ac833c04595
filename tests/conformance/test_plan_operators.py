"""Operators of plans on every backend: pause, cancel, retry, and why a task waits."""

from __future__ import annotations

import pytest

from interlock.core.cures import cure
from interlock.core.errors import (
    InvalidInput,
    ItemEnded,
    LeaseLost,
    NotFound,
    PlanEnded,
)
from interlock.core.model import NewItem
from interlock.core.plans.model import (
    RemoveTask,
)
from interlock.service.contract import ItemFilter
from interlock.service.sweeper import BATCH
from tests.conformance.planner import EDITOR, Planner, add


def test_a_paused_plan_gives_out_nothing_until_it_is_resumed(planner: Planner) -> None:
    planner.make("A>B")
    planner.service.pause_plan(planner.plan, why="lunch", by="sam")
    assert planner.view().paused_reason == "lunch"
    assert planner.idle()
    assert "lunch" in planner.service.why(planner.task("A").item).why
    planner.service.resume_plan(planner.plan)
    planner.do("A", "B")


def test_a_cancelled_plan_ends_with_its_last_task(planner: Planner) -> None:
    planner.make("A>B, R>S", editor=EDITOR)
    running = planner.start("R")
    planner.service.cancel_plan(planner.plan, why="obsolete", by="sam")
    assert planner.states() == "A:canc B:canc R:in_p S:canc"
    assert (planner.view().status, planner.view().ended_at) == ("cancelled", None)
    assert planner.renew(running).cancel_requested
    planner.release(running)
    assert planner.view().ended_at is not None
    with pytest.raises(PlanEnded):
        planner.service.cancel_plan(planner.plan, why="again")


def test_every_task_of_a_cancelled_plan_ends_because_of_that_however_many_there_are(planner: Planner) -> None:
    planner.make(">".join(f"T{n}" for n in range(BATCH + 20)))
    planner.service.cancel_plan(planner.plan, why="obsolete")
    assert {(t.status, t.reason) for t in planner.view().tasks} == {("cancelled", "operator")}
    assert planner.service.plan_stats(planner.plan).failed == BATCH + 20
    planner.service.retry(planner.task("T0").item)
    assert planner.states().startswith("T0:pend T1:canc T2:canc")


def test_cancelling_takes_the_edit_from_its_editor(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    planner.service.cancel_plan(planner.plan, why="obsolete")
    assert (planner.view().status, planner.view().cycle) == ("cancelled", None)
    with pytest.raises(LeaseLost):
        planner.edit(add("C"), lease=asked)


def test_lanes_and_types_of_plans_are_for_plans_alone(planner: Planner) -> None:
    for wrong in (NewItem(title="x", lane="plan:1"), NewItem(title="x", type="plan.edit")):
        with pytest.raises(InvalidInput, match="reserved for plans"):
            planner.service.add([wrong])


def test_why_explains_what_a_task_waits_for(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    assert f"waits in plan {planner.plan} for A" in planner.service.why(planner.task("B").item).why
    planner.do("A")
    assert "waits for an edit of planner" in planner.service.why(planner.task("B").item).why


def test_showing_a_plan_as_an_item_explains_that_it_is_a_plan(planner: Planner) -> None:
    planner.make("A")
    with pytest.raises(NotFound, match=f"^{planner.plan} is a plan"):
        planner.service.show(planner.plan)
    with pytest.raises(NotFound, match="lists all items"):
        planner.service.show(planner.plan + 100)


def test_why_names_what_brings_a_cancelled_task_back(planner: Planner) -> None:
    planner.make("A>B, C")
    planner.fail(planner.start("A"), retry=False)
    planner.edit(RemoveTask(key="C"))
    removed = next(i for i in planner.service.items(ItemFilter(all=True)) if i.title == "C")
    assert "retry" not in planner.service.why(removed.id).why
    a = planner.task("A").item
    said = planner.service.why(planner.task("B").item)
    assert said.cures == (cure("retry", "brings it back", item=a),)
    with pytest.raises(ItemEnded, match="B cannot start"):
        planner.service.retry(planner.task("B").item)
    planner.service.retry(planner.task("A").item)
    assert planner.states() == "A:pend B:wait"
    planner.service.cancel(planner.task("B").item, why="not now", by="sam")
    assert planner.service.why(planner.task("B").item).cures[0].operation == "retry"
