"""What Python programs give to plans: whatever it is, it is taken or refused, and alike on both ways in."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from interlock.core.errors import EditRefused, InvalidInput, InvalidPlan
from interlock.core.model import RetryLane
from interlock.core.plans.model import (
    UPDATABLE,
    AddEdge,
    AddTask,
    EdgeSpec,
    Graph,
    RemoveEdge,
    RemoveTask,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
)
from interlock.service.contract import Service
from tests.conformance.conftest import OpenService

#: Some of it is right for some fields.
ANYTHING: tuple[Any, ...] = (
    None,
    5,
    0.5,
    True,
    "",
    "x",
    b"x",
    "\x00",
    "\ud800",
    [],
    [5],
    {},
    {"a": 1},
    {1},
    object(),
    float("nan"),
)
TASK_FIELDS = tuple(TaskSpec.__dataclass_fields__)
EDGE_FIELDS = tuple(EdgeSpec.__dataclass_fields__)


class Keys(StrEnum):
    A = "a"


@pytest.fixture
def service(open_service: OpenService) -> Service:
    service = open_service()
    service.set_agent("x", labels=["x"])
    return service


def made(service: Service) -> int:
    return service.create_plan("plan", Graph(tasks=(TaskSpec(key="a"), TaskSpec(key="b")))).id


def refused(service: Service, plan: int, graph: Any, *operations: Any) -> tuple[bool, bool]:
    """Whether a new plan and an edit are refused; anything else than a refusal is raised."""
    try:
        service.create_plan("another", graph)
        create = False
    except InvalidInput:
        create = True
    try:
        service.edit_plan(plan, base=1, operations=operations)
        edit = False
    except (InvalidInput, EditRefused):
        edit = True
    return create, edit


@pytest.mark.parametrize("field", TASK_FIELDS)
def test_a_new_plan_and_an_edit_accept_the_same_tasks(service: Service, field: str) -> None:
    for value in ANYTHING:
        plan, task = made(service), TaskSpec(**{"key": "new", field: value})
        create, edit = refused(service, plan, Graph(tasks=(task,)), AddTask(task=task))
        assert create == edit, (field, value)


@pytest.mark.parametrize("field", sorted(UPDATABLE))
def test_an_update_accepts_the_same_values_as_a_new_task(service: Service, field: str) -> None:
    for value in ANYTHING:
        graph = Graph(tasks=(TaskSpec(**{"key": "a", field: value}),))
        create, edit = refused(service, made(service), graph, UpdateTask(key="a", changes={field: value}))
        assert create == edit, (field, value)


@pytest.mark.parametrize("field", EDGE_FIELDS)
def test_a_new_plan_and_an_edit_refuse_the_same_edges(service: Service, field: str) -> None:
    for value in ANYTHING:
        edge = EdgeSpec(**{"source": "a", "target": "b", field: value})
        graph = Graph(tasks=(TaskSpec(key="a"), TaskSpec(key="b")), edges=(edge,))
        assert refused(service, made(service), graph, AddEdge(edge=edge)) == (True, True), (field, value)


def test_values_that_are_not_operations_or_graphs_are_refused(service: Service) -> None:
    plan = made(service)
    for value in ANYTHING:
        lists: tuple[Any, ...] = (
            [value],
            [RemoveTask(key=value)],
            [RemoveEdge(source=value, target="a")],
            [UpdateEdge(source="a", target=value)],
            [UpdateEdge(source="a", target="b", when=value)],
            [UpdateTask(key=value, changes={"priority": 1})],
            [AddTask(task=value)],
            [AddEdge(edge=value)],
        )
        for operations in lists:
            with pytest.raises((InvalidInput, EditRefused)):
                service.edit_plan(plan, base=1, operations=operations)
        graphs: tuple[Any, ...] = (
            value,
            Graph(tasks=value),
            Graph(tasks=(value,)),
            Graph(tasks=(TaskSpec(key="a"),), edges=(value,)),
        )
        for graph in graphs:
            with pytest.raises(InvalidInput):
                service.create_plan("another", graph)
            if value is not None and value != []:
                with pytest.raises((InvalidInput, EditRefused)):
                    service.edit_plan(plan, base=1, graph=graph)
        if value not in ([], None) and not isinstance(value, dict | str):
            with pytest.raises(InvalidInput):
                service.edit_plan(plan, base=1, operations=value)
    no_changes: tuple[Any, ...] = (5, None, {5: 1}, [("priority", 1)])
    for changes in no_changes:
        with pytest.raises(InvalidPlan, match="not a mapping of changes"):
            service.edit_plan(plan, base=1, operations=[UpdateTask(key="a", changes=changes)])
    assert service.plan(plan).revision == 1


@pytest.mark.parametrize("value", [5, None, [], b"x"])
def test_other_values_of_a_plan_are_checked_as_well(service: Service, value: Any) -> None:
    plan, graph = made(service), Graph(tasks=(TaskSpec(key="a"),))
    more: dict[str, Any]
    for more in ({"editor": value}, {"project": value}, {"by": value}, {"edit_deadline_s": str(value)}):
        with pytest.raises(InvalidInput):
            service.create_plan("plan", graph, **more)
    with pytest.raises(InvalidInput):
        service.create_plan(value, graph)
    for more in ({"by": value}, {"why": value}, {"base": str(value)}, {"run": value or 5}, {"base": 1.0}):
        with pytest.raises(InvalidInput):
            service.edit_plan(plan, **{"base": 1, "operations": [], **more})
    with pytest.raises(InvalidInput):
        service.edit_plan(str(value), base=1, operations=[])  # type: ignore[arg-type]


def test_texts_of_choices_and_lists_for_tuples_are_accepted(service: Service) -> None:
    loose: Any = {"labels": ["x"], "retry_lane": "keep"}
    tasks: Any = [TaskSpec(key=Keys.A, **loose), TaskSpec(key="b")]
    when: Any = "failure"
    edges: Any = [EdgeSpec(source=Keys.A, target="b", when=when)]
    plan = service.create_plan("plan", Graph(tasks=tasks, edges=edges)).id
    exact = Graph(
        tasks=(
            TaskSpec(key="a", title="a", labels=("x",), retry_lane=RetryLane.KEEP),
            TaskSpec(key="b", title="b"),
        ),
        edges=(EdgeSpec(source="a", target="b", when=When.FAILURE),),
    )
    assert service.plan_at(plan, 1) == exact
    same: Any = [UpdateTask(key="a", changes=loose), UpdateEdge(source="a", target="b", when=when)]
    assert service.edit_plan(plan, base=1, operations=same).revision == 1
    assert service.edit_plan(plan, base=1, graph=Graph(tasks=tasks, edges=edges)).revision == 1
