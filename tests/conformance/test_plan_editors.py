"""Editors on every backend: lost, failed and busy ones, and who else may edit."""

from __future__ import annotations

import pytest

from interlock.core.cures import cure
from interlock.core.errors import (
    Held,
    InvalidInput,
    ItemEnded,
    LeaseLost,
)
from interlock.core.plans.model import (
    RemoveTask,
    UpdateTask,
)
from tests.conformance.planner import EDITOR, Planner, add


def test_an_edit_without_a_run_cannot_answer_completions(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    with pytest.raises(InvalidInput, match="Only the run of the open edit cycle"):
        planner.edit(add("C"), through=1)


def test_an_editor_that_died_is_asked_again_and_its_late_edit_is_refused(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    planner.lose(asked)
    again = planner.ask()
    assert again.item.id == asked.item.id
    with pytest.raises(LeaseLost):
        planner.edit(RemoveTask(key="B"), lease=asked)
    planner.edit(add("C"), lease=again)
    assert planner.states() == "A:comp B:pend C:pend"


def test_an_edit_that_fails_for_good_closes_the_cycle_and_its_ends_come_again(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    planner.fail(planner.ask(), retry=False)
    assert planner.view().cycle is None
    planner.do("B")
    batch = planner.service.plan_batch(planner.ask().run)
    assert [c.key for c in batch.completions] == ["A", "B"]


def test_an_editor_that_is_full_of_its_own_tasks_can_still_edit(planner: Planner) -> None:
    planner.service.set_agent("solo", max_concurrency=1)
    planner.make("A, B", editor="solo")
    lease_a = planner.claim("solo", item=planner.task("A").item)
    other = planner.start("B")
    planner.done(other)
    asked = planner.claim("solo")
    assert asked.item.type == "plan.edit"
    assert planner.idle("solo")
    planner.edit(lease=asked)
    planner.done(lease_a)
    assert planner.claim("solo").item.type == "plan.edit"


@pytest.mark.parametrize("most", [1, 2])
def test_an_editor_has_no_more_edits_at_once_than_its_limit(planner: Planner, most: int) -> None:
    planner.service.set_agent("solo", max_concurrency=most)
    for _ in range(4):
        planner.make("A, B", editor="solo")
        planner.do("A")
    got = [lease for _ in range(6) for lease in planner.service.next("solo")]
    assert [lease.item.type for lease in got] == ["plan.edit"] * most
    works = [planner.put("own work", agent="solo") for _ in range(3)]
    first = planner.claim("solo", limit=9)
    assert first.item.id == works[0], "beside one edit there is room for what is no edit, not for more"
    assert planner.idle("solo", limit=9)
    planner.done(got.pop())
    if most > 1:
        assert planner.claim("solo", limit=9).item.type == "task"
        assert planner.idle("solo")
        planner.done(got.pop())
    assert planner.claim("solo").item.type == "plan.edit", "its slot is free again, however full the agent is"
    assert planner.idle("solo")


def test_edits_and_other_work_that_are_asked_for_together_stay_within_the_limit(planner: Planner) -> None:
    planner.service.set_agent("solo", max_concurrency=3)
    for _ in range(5):
        planner.make("A, B", editor="solo")
        planner.do("A")
        planner.put("own work", agent="solo", priority=100)
    got = [lease for _ in range(6) for lease in planner.service.next("solo", limit=9)]
    edits = sum(lease.item.type == "plan.edit" for lease in got)
    assert (len(got), 0 < edits <= 3) == (4, True)


def test_others_edit_only_while_no_editor_is_asked(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.edit(UpdateTask(key="B", changes={"title": "x"}))
    planner.do("A")
    asked = planner.view().cycle
    assert asked is not None
    with pytest.raises(
        Held, match=rf"waits up to 10 min for an edit of planner \(item {asked.item}\)"
    ) as caught:
        planner.edit(add("C"))
    assert caught.value.cures == (cure("cancel", "ends that wait", item=asked.item, why=None),)
    planner.service.cancel(asked.item, why="go on", by="sam")
    assert "requests an edit again" in planner.service.why(asked.item).why
    planner.edit(add("C"))
    planner.do("B")
    lease = planner.put_running("something else")
    with pytest.raises(InvalidInput, match="was not asked to edit"):
        planner.edit(add("C"), lease=lease)


def test_edits_of_operators_count_as_those_of_editors_do(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.edit(add("C"))
    planner.edit(add("D"), base=1)
    planner.refused(add("C"))
    planner.do("A")
    planner.edit(add("E"), lease=planner.ask())
    stats = planner.service.plan_stats(planner.plan)
    assert (stats.edits_total, stats.edits_completed, stats.edits_refused, stats.edits_rebased) == (
        4,
        3,
        1,
        1,
    )


def test_an_edit_whose_cycle_has_closed_is_not_asked_for_again(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    planner.fail(asked, retry=False)
    with pytest.raises(ItemEnded, match="closed edit cycle"):
        planner.service.retry(asked.item.id)


def test_an_unread_message_to_an_editor_becomes_a_follow_up_item(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    planner.service.msg(asked.item.id, "mind the budget")
    planner.edit(lease=asked)
    assert planner.view().cycle is None
    follow_up = planner.claim(EDITOR, types=["task"], item=max(i.id for i in planner.unfinished()))
    assert (follow_up.item.type, follow_up.item.lane, follow_up.item.plan) == ("task", None, None)
    assert [m.text for m in follow_up.messages] == ["mind the budget"]
