"""Edit cycles on every backend: a task ends, and the plan waits for its editor."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.errors import (
    InvalidInput,
    LeaseLost,
)
from interlock.core.plans.model import (
    RemoveEdge,
    RemoveTask,
)
from interlock.service.contract import Report
from tests.conformance.planner import EDITOR, Planner, add, edge, graph


def test_an_end_stops_the_plan_until_its_editor_has_answered(planner: Planner) -> None:
    planner.make("A>B, C", editor=EDITOR)
    planner.done(planner.start("A"), result='{"answer": 42}')
    assert planner.task("B").status == "pending"
    assert planner.idle("coder"), "neither B nor C is given out"
    cycle = planner.view().cycle
    assert cycle is not None
    assert (cycle.pending, cycle.deadline_at) == (("A",), planner.clock.in_s(600))
    asked = planner.ask()
    assert asked.item.payload == {"plan": planner.plan, "name": "work"}
    batch = planner.service.plan_batch(asked.run)
    assert [(c.key, c.status, c.result) for c in batch.completions] == [("A", "completed", {"answer": 42})]
    edited = planner.edit(RemoveTask(key="B"), add("B2"), edge("A", "B2"), lease=asked, through=batch.through)
    assert (edited.ready, edited.editing) == (("B2",), False)
    assert planner.status(asked.item.id) == "completed"
    assert planner.view().cycle is None
    assert {lease.item.title for lease in planner.service.next("coder", limit=5)} == {"B2", "C"}
    kinds = [e.kind for e in planner.history() if e.kind.startswith("plan.")]
    assert kinds == ["plan.created", "plan.cycle_opened", "plan.modified", "plan.cycle_closed"]


def test_a_plan_without_an_editor_never_stops(planner: Planner) -> None:
    planner.make("A, B, C")
    planner.do("A", "B", "C")
    assert planner.events("plan.cycle_opened") == []


def test_an_edit_without_changes_and_a_plain_done_both_answer(planner: Planner) -> None:
    planner.make("A, B, C", editor=EDITOR)
    planner.do("A")
    edited = planner.edit(lease=planner.ask())
    assert (edited.revision, planner.view().cycle) == (1, None)
    planner.do("B")
    planner.done(planner.ask())
    assert planner.view().cycle is None
    assert planner.service.plan_stats(planner.plan).edits_completed == 2


def test_ends_that_come_together_or_before_the_answer_are_one_batch(planner: Planner) -> None:
    planner.make("A, B, C, D", editor=EDITOR)
    leases = [planner.start(k) for k in "ABC"]
    planner.service.done([Report(run=lease.run) for lease in leases[:2]])
    asked = planner.ask()
    planner.done(leases[2])
    batch = planner.service.plan_batch(asked.run)
    assert ([c.key for c in batch.completions], batch.through) == (["A", "B", "C"], 3)
    assert not planner.edit(lease=asked, through=batch.through).editing
    assert len(planner.events("plan.cycle_opened")) == 1
    assert planner.start("D")


def test_an_end_during_the_edit_stays_for_the_next_and_keeps_its_result(planner: Planner) -> None:
    planner.make("A>X, B>X", editor=EDITOR)
    first, second = planner.start("A"), planner.start("B")
    planner.done(first)
    asked = planner.ask()
    batch = planner.service.plan_batch(asked.run)
    planner.clock.advance(5)
    planner.done(second, result='"kept"')
    edited = planner.edit(add("Y"), edge("B", "Y"), lease=asked, through=batch.through)
    assert edited.editing, "B's end is not answered yet"
    assert planner.states() == "A:comp X:pend B:comp Y:pend"
    assert planner.idle("coder")
    cycle = planner.view().cycle
    assert cycle is not None
    assert (cycle.pending, cycle.deadline_at) == (("B",), planner.clock.in_s(600))
    again = planner.ask()
    assert [c.result for c in planner.service.plan_batch(again.run).completions] == ["kept"]
    planner.edit(lease=again)
    planner.do("X")
    assert len(planner.events("plan.cycle_opened")) == 2


def test_done_without_an_edit_answers_only_what_there_was_when_the_run_began(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    first, second = planner.start("A"), planner.start("B")
    planner.done(first)
    asked = planner.ask()
    planner.clock.advance(1)
    planner.done(second)
    planner.done(asked)
    cycle = planner.view().cycle
    assert cycle is not None
    assert cycle.pending == ("B",)


def test_an_edit_answers_only_unanswered_completions(planner: Planner) -> None:
    planner.make("A, B, C, D", editor=EDITOR)
    planner.do("A")
    planner.edit(lease=planner.ask())
    second, third = planner.start("B"), planner.start("C")
    planner.done(second)
    asked = planner.ask()
    planner.done(third)
    for through in (1, 4, 2**31 - 1):
        reasons = planner.refused(add("E"), lease=asked, through=through)
        assert reasons == (f"Plan {planner.plan} has completions 2 to 3 to answer, not {through}.",)
    assert planner.service.plan_stats(planner.plan).edits_refused == 3
    assert planner.edit(lease=asked, through=2).editing
    again = planner.ask()
    assert not planner.edit(lease=again, through=3).editing
    with pytest.raises(LeaseLost, match="ended as succeeded"):
        planner.edit(lease=again, through=3)


@pytest.mark.parametrize("number", [0, -1, -(2**70), 2**31, 2**63, 2**70])
def test_numbers_that_no_store_keeps_are_refused_at_once(planner: Planner, number: int) -> None:
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    both: tuple[dict[str, Any], ...] = ({"base": number}, {"base": 1, "through": number})
    for wrong in both:
        with pytest.raises(InvalidInput, match="is out of range") as caught:
            planner.edit(add("C"), lease=asked, **wrong)
        assert caught.value.exit_code == 2
        with pytest.raises(InvalidInput, match="is out of range"):
            planner.service.edit_plan(planner.plan, graph=graph("A, C"), run=asked.run, **wrong)
    if number:
        with pytest.raises(InvalidInput, match="is out of range"):
            planner.service.plan_history(planner.plan, after=number)
    planner.edit(lease=asked, through=1)


def test_a_task_whose_predecessor_failed_can_be_saved_by_an_edit(planner: Planner) -> None:
    planner.make("A>B>C", editor=EDITOR)
    planner.fail(planner.start("A"), retry=False)
    assert planner.states() == "A:fail B:wait C:wait", "not judged while the editor may still act"
    planner.service.sweep()
    asked = planner.ask()
    planner.edit(add("A2"), RemoveEdge(source="A", target="B"), edge("A2", "B"), lease=asked)
    for key in ("A2", "B", "C"):
        planner.do(key)
        planner.edit(lease=planner.ask())
    assert planner.states() == "A:fail B:comp C:comp A2:comp"
    assert planner.view().status == "partially_failed"


def test_a_task_that_no_edit_saves_is_cancelled_when_the_cycle_closes(planner: Planner) -> None:
    planner.make("A>B>C, D", editor=EDITOR)
    planner.fail(planner.start("A"), retry=False)
    planner.edit(lease=planner.ask())
    assert planner.states() == "A:fail B:canc C:canc D:pend"


def test_a_plan_does_not_end_before_its_last_edit_which_may_make_it_longer(planner: Planner) -> None:
    planner.make("A", editor=EDITOR)
    planner.do("A")
    assert planner.view().status == "running"
    planner.edit(add("B"), lease=planner.ask())
    planner.do("B")
    planner.edit(lease=planner.ask())
    assert planner.view().status == "completed"
