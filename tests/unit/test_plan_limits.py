"""How large a plan may become: an edit is judged by what the plan would have after it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from interlock.core.model import ItemId, PlanId
from interlock.core.plans.edit import Draft
from interlock.core.plans.model import (
    EDGES_MAX,
    TASKS_MAX,
    AddEdge,
    AddTask,
    EdgeSpec,
    EditOperation,
    Plan,
    PlanStatus,
    TaskSpec,
)
from interlock.core.plans.plan_ledger import PlanLedger, PlanPart

NEW = [ItemId(n) for n in range(1, 4)]


def reasons(tasks: int, edges: int, operations: Sequence[EditOperation]) -> list[str]:
    """Why a plan that has so many already cannot take these operations."""
    plan = Plan(PlanId(9), "default", "large", None, 600.0, PlanStatus.RUNNING, 0, tasks=tasks, edges=edges)
    draft = Draft({}, PlanLedger(PlanPart(plan=plan)), {}, NEW)
    draft.apply_all(operations)
    return draft.reasons


def chain(*keys: str) -> list[EditOperation]:
    edges = [EdgeSpec(source=s, target=t) for s, t in pairwise(keys)]
    return [*(AddTask(task=TaskSpec(key=k)) for k in keys), *(AddEdge(edge=e) for e in edges)]


@pytest.mark.parametrize(
    ("tasks", "edges", "said"),
    [
        (TASKS_MAX - 3, EDGES_MAX - 2, []),
        (TASKS_MAX - 3, EDGES_MAX - 1, ["The plan would have 100,001 edges. Use at most 100,000."]),
        (TASKS_MAX - 2, EDGES_MAX - 2, ["The plan would have 10,001 tasks. Use at most 10,000."]),
    ],
)
def test_a_plan_may_become_as_large_as_its_limits_and_no_larger(
    tasks: int, edges: int, said: list[str]
) -> None:
    assert reasons(tasks, edges, chain("A", "B", "C")) == said
