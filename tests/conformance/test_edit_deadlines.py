"""Deadlines of edit cycles on every backend: what an editor may still do, and what happens without it."""

from __future__ import annotations

import pytest

from interlock.core.errors import (
    CycleExpired,
)
from interlock.core.plans.model import (
    RemoveTask,
)
from interlock.service.contract import LeaseView
from tests.conformance.planner import EDITOR, Planner, add


def test_claims_resume_after_the_deadline_and_the_late_edit_is_refused(planner: Planner) -> None:
    planner.make("A>B, C", editor=EDITOR, edit_deadline_s=100)
    running = planner.claim(item=planner.task("C").item, lease_s=3_600)
    planner.do("A")
    asked = planner.ask()
    for _ in range(2):
        planner.clock.advance(50)
        planner.renew(asked) if _ == 0 else None
    assert planner.claim().item.title == "B", "claiming has resumed"
    with pytest.raises(CycleExpired) as caught:
        planner.edit(RemoveTask(key="C"), lease=asked)
    assert caught.value.code == "edit_cycle_expired"
    with pytest.raises(CycleExpired):
        planner.service.plan_batch(asked.run)
    stats = planner.service.plan_stats(planner.plan)
    assert (stats.revision, stats.edits_timed_out, stats.edits_refused, stats.lock_s) == (1, 1, 0, 100.0)
    planner.done(running)
    assert planner.task("C").status == "completed"
    again = planner.ask()
    assert [c.key for c in planner.service.plan_batch(again.run).completions] == ["A", "C"]
    assert planner.events("plan.cycle_closed")[0].reason == "edit_cycle_expired"


def late(planner: Planner) -> LeaseView:
    """An editor that was asked of A's end, whose time is over by the store's clock; nobody has swept."""
    planner.make("A>B, C", editor=EDITOR, edit_deadline_s=100)
    planner.do("A")
    asked = planner.ask()
    planner.clock.advance(100)
    return asked


def saw_it_end(planner: Planner) -> None:
    """The cycle closed as a sweep would have closed it, and A's end comes again."""
    stats = planner.service.plan_stats(planner.plan)
    assert (stats.revision, stats.edits_timed_out, stats.edits_refused, stats.lock_s) == (1, 1, 0, 100.0)
    assert planner.last("plan.cycle_closed").reason == "edit_cycle_expired"
    assert planner.view().cycle is None
    planner.do("C")
    assert [c.key for c in planner.service.plan_batch(planner.ask().run).completions] == ["A", "C"]


@pytest.mark.parametrize("through", [None, 1])
def test_an_edit_after_the_deadline_is_refused_before_anybody_sweeps(
    planner: Planner, through: int | None
) -> None:
    asked = late(planner)
    with pytest.raises(CycleExpired, match=f"the edit cycle of plan {planner.plan} has expired"):
        planner.edit(RemoveTask(key="C"), lease=asked, through=through)
    saw_it_end(planner)


def test_a_batch_after_the_deadline_is_refused_before_anybody_sweeps(planner: Planner) -> None:
    asked = late(planner)
    with pytest.raises(CycleExpired):
        planner.service.plan_batch(asked.run)
    saw_it_end(planner)


@pytest.mark.parametrize("word", ["done", "fail", "release"])
def test_a_report_of_an_edit_run_after_the_deadline_is_refused_before_anybody_sweeps(
    planner: Planner, word: str
) -> None:
    asked = late(planner)
    view = getattr(planner, word)(asked)
    assert view.refusal is not None
    assert view.refusal.code == "edit_cycle_expired"
    assert planner.service.stats().refused_writes == 1
    assert planner.service.show(asked.item.id).runs[0].status == "cancelled"
    saw_it_end(planner)


def test_an_answer_in_the_last_moment_counts(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR, edit_deadline_s=100)
    planner.do("A")
    asked = planner.ask()
    planner.clock.advance(99.999999)
    planner.edit(add("C"), lease=asked)
    assert planner.service.plan_stats(planner.plan).edits_timed_out == 0


def test_an_operator_can_edit_after_the_deadline_before_anybody_sweeps(planner: Planner) -> None:
    late(planner)
    planner.edit(RemoveTask(key="B"), by="sam")
    assert planner.states() == "A:comp C:pend"
    assert planner.service.plan_stats(planner.plan).edits_timed_out == 1


def test_a_message_to_an_editor_survives_its_deadline(planner: Planner) -> None:
    asked = late(planner)
    planner.service.msg(asked.item.id, "one more thing")
    planner.edit(add("D"))
    assert "one more thing" in planner.texts(
        next(i.id for i in planner.unfinished() if i.type == "task" and i.messages)
    )


def test_an_edit_that_nobody_takes_stops_the_plan_no_longer_than_its_deadline(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR, edit_deadline_s=30)
    planner.do("A")
    planner.pass_s(29)
    assert planner.idle()
    planner.pass_s(1)
    planner.do("B")


def test_the_deadline_of_an_open_cycle_can_be_moved(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.do("A")
    planner.service.set_edit_deadline(planner.plan, 10)
    planner.pass_s(10)
    planner.do("B")
