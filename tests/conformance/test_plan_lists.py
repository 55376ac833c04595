"""Lists of plans and of a plan's tasks on every backend: filters and pages."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput, NotFound
from tests.conformance.planner import EDITOR, Planner


def test_pages_of_plans_follow_each_other_without_a_gap(planner: Planner) -> None:
    made = [planner.make("A").id for _ in range(5)]
    first = planner.service.plans(limit=2)
    second = planner.service.plans(limit=2, before=first[-1].id)
    last = planner.service.plans(limit=2, before=second[-1].id)
    assert [plan.id for plan in (*first, *second, *last)] == made[::-1]


def test_plans_are_filtered_by_status_project_and_editor(planner: Planner) -> None:
    done = planner.make("A", project="web").id
    planner.do("A")
    cancelled = planner.make("A", project="web").id
    planner.service.cancel_plan(cancelled, why="obsolete")
    edited = planner.make("A", editor=EDITOR).id

    def ids(**filters: object) -> list[int]:
        return [plan.id for plan in planner.service.plans(**filters)]  # type: ignore[arg-type]

    assert ids(statuses=["completed"]) == [done]
    assert ids(statuses=["completed", "cancelled"]) == [cancelled, done]
    assert ids(statuses=["running"]) == [edited]
    assert ids(project="web") == []
    assert ids(project="web", ended=True) == [cancelled, done]
    assert ids(project="web", ended=True, before=cancelled) == [done]
    assert ids(editor="Planner") == [edited]
    assert ids(editor="stranger", ended=True) == []
    with pytest.raises(InvalidInput, match="status"):
        planner.service.plans(statuses=["finished"])


def test_tasks_come_in_pages_and_ended_ones_on_request(planner: Planner) -> None:
    planner.make("A>B>C, D, E")
    planner.do("A", "D")

    def keys(**wanted: object) -> list[str]:
        return [task.key for task in planner.service.plan_tasks(planner.plan, **wanted)]  # type: ignore[arg-type]

    assert keys() == ["B", "C", "E"]
    assert keys(limit=2) == ["B", "C"]
    assert keys(limit=2, after=planner.task("C").item) == ["E"]
    assert keys(all=True) == ["A", "B", "C", "D", "E"]
    assert keys(statuses=["waiting"]) == ["C"]
    assert keys(statuses=["completed", "waiting"]) == ["A", "C", "D"]
    assert planner.service.plan_tasks(planner.plan, statuses=["waiting"])[0] == planner.task("C")
    with pytest.raises(NotFound):
        planner.service.plan_tasks(planner.plan + 1_000)
    with pytest.raises(InvalidInput, match="status"):
        planner.service.plan_tasks(planner.plan, statuses=["ready"])


def test_a_large_plan_can_be_read_without_its_tasks(planner: Planner) -> None:
    planner.make("A>B>C, D", editor=EDITOR)
    planner.do("A")
    found = planner.service.plan(planner.plan, tasks_max=3)
    assert (found.tasks, found.edges) == ((), ())
    assert (found.task_count, found.edge_count, found.open_tasks, found.completed) == (4, 2, 3, 1)
    assert found.cycle == planner.view().cycle
    assert len(planner.service.plan(planner.plan, tasks_max=4).tasks) == 4
