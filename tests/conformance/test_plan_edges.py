"""Edges of a plan on every backend: what the end of a task means for the tasks that depend on it."""

from __future__ import annotations

import pytest

from interlock.core.plans.model import (
    EdgeSpec,
    Graph,
    OnCancel,
    When,
)
from tests.conformance.planner import Planner, task


@pytest.mark.parametrize(
    ("when", "on_cancel", "end", "becomes"),
    [
        ("success", "block", "done", "pending"),
        ("success", "block", "fail", "cancelled"),
        ("success", "satisfy", "cancel", "pending"),
        ("completion", "block", "done", "pending"),
        ("completion", "block", "fail", "pending"),
        ("completion", "block", "cancel", "cancelled"),
        ("failure", "block", "fail", "pending"),
        ("failure", "block", "done", "cancelled"),
        ("failure", "satisfy", "cancel", "pending"),
    ],
)
def test_an_edge_is_satisfied_by_the_end_it_waits_for(
    planner: Planner, when: str, on_cancel: str, end: str, becomes: str
) -> None:
    spec = EdgeSpec(source="A", target="B", when=When(when), on_cancel=OnCancel(on_cancel))
    planner.plan = planner.service.create_plan("work", Graph(tasks=(task("A"), task("B")), edges=(spec,))).id
    if end == "cancel":
        planner.cancel(planner.task("A").item)
    else:
        lease = planner.start("A")
        planner.done(lease) if end == "done" else planner.fail(lease, retry=False)
    assert planner.task("B").status == becomes
    assert planner.task("B").reason == ("unreachable" if becomes == "cancelled" else "predecessors_met")


def test_an_unreachable_task_is_cancelled_with_everything_that_depends_on_it(planner: Planner) -> None:
    planner.make("A>B>C>D, E>D")
    planner.fail(planner.start("A"), retry=False)
    assert planner.states() == "A:fail B:canc C:canc D:canc E:pend"
    assert planner.view().status == "running"
    planner.do("E")
    assert planner.view().status == "partially_failed"


def test_a_failure_handler_that_was_not_needed_does_not_fail_the_plan(planner: Planner) -> None:
    spec = EdgeSpec(source="A", target="cleanup", when=When.FAILURE)
    made = planner.service.create_plan("work", Graph(tasks=(task("A"), task("cleanup")), edges=(spec,)))
    planner.plan = made.id
    planner.do("A")
    assert planner.states() == "A:comp cleanup:canc"
    assert planner.view().status == "completed"


def test_a_failed_attempt_with_a_retry_left_breaks_no_edge(planner: Planner) -> None:
    planner.make("A>B")
    planner.fail(planner.start("A"))
    assert planner.states() == "A:wait B:wait"
    planner.pass_s(20)
    planner.do("A", "B")
    assert planner.view().status == "completed"


def test_a_retry_brings_back_what_was_cancelled_because_of_it(planner: Planner) -> None:
    planner.make("A>B>C, X>C")
    planner.fail(planner.start("X"), retry=False)
    planner.fail(planner.start("A"), retry=False)
    assert (planner.states(), planner.view().status) == ("A:fail B:canc C:canc X:fail", "failed")
    planner.service.retry(planner.task("A").item)
    assert planner.states() == "A:pend B:wait C:canc X:fail", "C still waits for X, which failed"
    assert planner.view().status == "running"
    planner.service.retry(planner.task("X").item)
    assert planner.states() == "A:pend B:wait C:wait X:pend"
    planner.do("A", "B", "X", "C")
    assert planner.view().status == "completed"
    assert [e.kind for e in planner.history() if e.kind.startswith("plan.")] == [
        "plan.created",
        "plan.ended",
        "plan.reopened",
        "plan.ended",
    ]


def test_a_task_that_was_cancelled_before_its_turn_waits_for_it_again(planner: Planner) -> None:
    planner.make("A>B")
    planner.cancel(planner.task("B").item)
    planner.service.retry(planner.task("B").item)
    assert planner.states() == "A:pend B:wait"
    planner.do("A", "B")
    assert planner.view().status == "completed"


def test_a_lost_run_of_a_task_is_offered_again_and_ends_its_plan_when_attempts_are_used_up(
    planner: Planner,
) -> None:
    planner.make("A>B", tasks={"A": {"max_attempts": 2}})
    planner.lose(planner.start("A"))
    assert planner.states() == "A:pend B:wait"
    planner.lose(planner.start("A"))
    assert planner.states() == "A:fail B:canc"
    assert planner.view().status == "failed"
