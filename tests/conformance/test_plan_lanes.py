"""Which lanes tasks stand on, on every backend."""

from __future__ import annotations

import json

import pytest

from interlock.core.errors import EditRefused, InvalidPlan
from interlock.core.model import RetryLane
from interlock.core.plans.model import RemoveTask, UpdateTask
from tests.conformance.planner import Planner, add, edge, graph
from tests.conformance.scene import LANE

NAMES_IT = json.dumps({"repository": "Acme/App", "number": 42})
NAMES_ANOTHER = json.dumps({"repository": "acme/app", "number": 43})


def test_tasks_about_one_issue_run_one_at_a_time_unless_they_opt_out(planner: Planner) -> None:
    free = {"payload": NAMES_IT, "no_lane": True}
    planner.make("A, B, C", tasks={"A": {"payload": NAMES_IT}, "B": {"payload": NAMES_IT}, "C": free})
    assert [t.lane for t in planner.view().tasks] == [LANE, LANE, None]
    assert planner.states() == "A:pend B:defe C:pend"
    other = planner.put("other", lane=LANE)
    planner.edit(add("D", payload=NAMES_IT))
    planner.do("C", "A", "B")
    assert (planner.status(other), planner.states()) == ("pending", "A:comp B:comp C:comp D:defe")


def test_a_task_keeps_the_lane_that_its_payload_gave_it(planner: Planner) -> None:
    fields = {"A": {"payload": NAMES_IT}, "B": {"payload": NAMES_IT, "no_lane": True}}
    planner.make("A>B>C", tasks=fields)
    same = graph("A>B>C", **fields)
    assert planner.service.edit_plan(planner.plan, base=1, graph=same).revision == 1
    again = planner.service.plan_at(planner.plan, 1)
    assert [t.no_lane for t in again.tasks] == [False, True, False]
    assert planner.service.edit_plan(planner.plan, base=1, graph=again).revision == 1
    planner.edit(UpdateTask(key="B", changes={"payload": NAMES_ANOTHER}))
    planner.edit(UpdateTask(key="C", changes={"payload": NAMES_ANOTHER}))
    assert [t.lane for t in planner.view().tasks] == [LANE, None, None]
    moved = graph("A>B>C", A={"payload": NAMES_ANOTHER}, B=fields["B"])
    with pytest.raises(EditRefused, match="The lane of task A cannot change"):
        planner.service.edit_plan(planner.plan, base=1, graph=moved)


def test_a_payload_that_names_no_lawful_lane_is_refused_as_it_is_for_items(planner: Planner) -> None:
    wrong = json.dumps({"repository": "acme app", "number": 1})
    with pytest.raises(InvalidPlan, match=r"Task 'A': .*contains an invalid character"):
        planner.make("A", tasks={"A": {"payload": wrong}})
    planner.make("A", tasks={"A": {"payload": wrong, "no_lane": True}})
    with pytest.raises(InvalidPlan, match="cannot be combined"):
        planner.make("A", tasks={"A": {"lane": LANE, "no_lane": True}})


def test_tasks_on_a_lane_take_their_turns_with_everybody_else(planner: Planner) -> None:
    lane = "issue:acme/app#7"
    held = planner.put_running("before", lane=lane)
    planner.make("A>B, A>C", tasks={"B": {"lane": lane}, "C": {"lane": lane}})
    planner.do("A")
    assert planner.states() == "A:comp B:defe C:defe"
    after = planner.put("after", lane=lane)
    planner.done(held)
    assert planner.states() == "A:comp B:pend C:defe"
    planner.do("B", "C")
    assert planner.status(after) == "pending"


def test_a_task_that_is_removed_or_must_wait_again_frees_its_lane(planner: Planner) -> None:
    lane = "issue:acme/app#7"
    planner.make("A, B", tasks={"A": {"lane": lane}, "B": {"lane": lane}})
    other = planner.put("other", lane=lane)
    assert planner.states() == "A:pend B:defe"
    planner.edit(add("first"), edge("first", "A"))
    assert planner.states() == "A:wait B:pend first:pend"
    planner.edit(RemoveTask(key="B"))
    assert planner.status(other) == "pending"
    planner.do("first")
    assert planner.states() == "A:defe first:comp"


def test_a_task_that_keeps_its_lane_in_back_off_goes_on(planner: Planner) -> None:
    planner.make("A>B", tasks={"A": {"lane": "branch:x", "retry_lane": RetryLane.KEEP}})
    planner.fail(planner.start("A"))
    planner.pass_s(20)
    planner.do("A", "B")
    assert planner.view().status == "completed"
