"""What a plan's figures count, on every backend."""

from __future__ import annotations

import pytest

from interlock.core.errors import CycleExpired, EditRefused
from interlock.core.plans.model import Graph
from tests.conformance.planner import EDITOR, Planner, add, task


def edits(planner: Planner) -> dict[str, int]:
    """How the plan's edits ended, as far as any did; they must add up."""
    stats = planner.service.plan_stats(planner.plan)
    found = {
        "completed": stats.edits_completed,
        "timed out": stats.edits_timed_out,
        "refused": stats.edits_refused,
        "failed": stats.edits_failed,
    }
    assert sum(found.values()) == stats.edits_total
    return {how: count for how, count in found.items() if count}


def closed_by(planner: Planner) -> str:
    return planner.events("plan.cycle_closed")[-1].reason


def test_an_edit_that_fails_for_good_counts_and_one_that_is_tried_again_does_not_yet(
    planner: Planner,
) -> None:
    planner.make("A, B, C", editor=EDITOR)
    planner.do("A")
    planner.lose(planner.ask())
    planner.lose(planner.ask())
    assert edits(planner) == {}
    planner.lose(planner.ask())
    assert (edits(planner), closed_by(planner)) == ({"failed": 1}, "edit_failed")
    planner.do("B")
    planner.fail(planner.ask(), retry=False)
    assert (edits(planner), closed_by(planner)) == ({"failed": 2}, "edit_failed")
    planner.do("C")
    planner.edit(lease=planner.ask())
    assert (edits(planner), closed_by(planner)) == ({"failed": 2, "completed": 1}, "edit_answered")


def test_an_edit_that_times_out_or_is_cancelled_counts_once_and_history_tells_why(planner: Planner) -> None:
    planner.make("A, B, C, D", editor=EDITOR, edit_deadline_s=30)
    planner.do("A")
    late = planner.ask()
    planner.pass_s(30)
    with pytest.raises(CycleExpired):
        planner.edit(add("E"), lease=late)
    assert (edits(planner), closed_by(planner)) == ({"timed out": 1}, "edit_cycle_expired")
    assert planner.last("plan.edit_refused").reason == "edit_cycle_expired"
    planner.do("B")
    cycle = planner.view().cycle
    assert cycle is not None
    planner.cancel(cycle.item)
    assert (edits(planner), closed_by(planner)) == ({"timed out": 1, "failed": 1}, "operator")
    planner.do("C")
    planner.ask()
    planner.service.cancel_plan(planner.plan, why="obsolete")
    assert (edits(planner), closed_by(planner)) == ({"timed out": 1, "failed": 2}, "operator")


def test_a_graph_that_is_too_large_is_a_refused_edit(planner: Planner) -> None:
    planner.make("A, B")
    huge = Graph(tasks=tuple(task(f"t{n}") for n in range(10_001)))
    with pytest.raises(EditRefused, match="10,001 tasks"):
        planner.service.edit_plan(planner.plan, base=1, graph=huge)
    assert edits(planner) == {"refused": 1}
    planner.edit(add("C"))
    assert edits(planner) == {"refused": 1, "completed": 1}


def test_a_task_took_as_long_as_its_runs_and_not_the_days_between_them(planner: Planner) -> None:
    planner.make("A>B>D, A>C>D, X")

    def work(key: str, seconds: float, *, well: bool = True) -> None:
        lease = planner.claim(item=planner.task(key).item, lease_s=600)
        planner.clock.advance(seconds)
        planner.done(lease) if well else planner.fail(lease, retry=False)

    work("A", 10)
    work("B", 20)
    work("C", 5)
    running = planner.start("D")
    stats = planner.service.plan_stats(planner.plan)
    assert (stats.critical_path, stats.critical_path_s, stats.total_work_s) == (("A", "B"), 30.0, 35.0)
    assert (stats.parallelism, stats.depth) == (35 / 30, 3)
    planner.done(running)
    work("X", 100, well=False)
    planner.pass_s(86_400)
    planner.service.retry(planner.task("X").item)
    assert planner.service.plan_stats(planner.plan).total_work_s == 35.0, "X has not ended"
    work("X", 1)
    stats = planner.service.plan_stats(planner.plan)
    assert (stats.critical_path, stats.critical_path_s, stats.total_work_s) == (("X",), 101.0, 136.0)
