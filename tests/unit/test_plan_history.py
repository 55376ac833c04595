"""What changed between two graphs, and whether two edits touch the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.core.model import PlanId
from interlock.core.plans.history import conflicts, diff
from interlock.core.plans.model import (
    AddEdge,
    AddTask,
    EdgeSpec,
    EditOperation,
    Graph,
    RemoveEdge,
    RemoveTask,
    Revision,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
)


def task(key: str, **fields: Any) -> TaskSpec:
    return TaskSpec(key=key, **fields)


def edge(source: str, target: str, **fields: Any) -> EdgeSpec:
    return EdgeSpec(source=source, target=target, **fields)


OLD = Graph(
    tasks=(task("A", title="A"), task("B", title="B", payload='{"n": 1}'), task("C", title="C")),
    edges=(edge("A", "B"), edge("B", "C")),
)


def test_a_graph_that_is_the_same_is_no_change() -> None:
    same = Graph(tasks=(task("A"), task("B", payload='{"n":1}'), task("C")), edges=OLD.edges)
    assert diff(OLD, same) == ()


def test_a_graph_is_compared_in_normal_form() -> None:
    stored = Graph(tasks=(task("A", title="A", agent="coder", lane="issue:acme/app#42"),))
    assert diff(stored, Graph(tasks=(task("A", agent=" Coder ", lane="issue:Acme/App#42"),))) == ()
    other = Graph(tasks=(task("A", agent="coder", lane="issue:acme/app#43"),))
    assert diff(stored, other) == (UpdateTask(key="A", changes={"lane": "issue:acme/app#43"}),)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ('{"x": true}', '{"x": 1}', True),
        ('{"x": 1}', '{"x": 1.0}', True),
        ('{"x": [0]}', '{"x": [false]}', True),
        ('{"x": 1, "y": "é"}', '{"y":"\\u00e9","x":1}', False),
    ],
)
def test_payloads_are_compared_by_what_they_say(before: str, after: str, changes: bool) -> None:
    old, new = (Graph(tasks=(task("A", title="A", payload=p),)) for p in (before, after))
    assert diff(old, new) == ((UpdateTask(key="A", changes={"payload": after}),) if changes else ())


def test_a_graph_becomes_another_by_the_fewest_operations() -> None:
    new = Graph(
        tasks=(task("A"), task("C", priority=3), task("D")),
        edges=(edge("A", "C", when=When.FAILURE), edge("A", "D")),
    )
    assert diff(OLD, new) == (
        RemoveTask(key="B"),
        UpdateTask(key="C", changes={"priority": 3}),
        AddTask(task=task("D")),
        AddEdge(edge=edge("A", "C", when=When.FAILURE)),
        AddEdge(edge=edge("A", "D")),
    )
    back = Graph(tasks=OLD.tasks, edges=(edge("A", "B", when=When.COMPLETION),))
    assert diff(OLD, back) == (
        RemoveEdge(source="B", target="C"),
        UpdateEdge(source="A", target="B", when=When.COMPLETION, on_cancel=edge("A", "B").on_cancel),
    )


def revision(*operations: dict[str, Any]) -> Revision:
    return Revision(PlanId(1), 2, 1, 0, "sam", None, "", json.dumps(operations))


ADDED = {"op": "add_edge", "from": "A", "to": "B", "source": 1, "target": 2}


@pytest.mark.parametrize(
    ("operation", "theirs", "said"),
    [
        (UpdateTask(key="A"), {"op": "update_task", "key": "A"}, "Task A was changed in revision 2 by sam."),
        (RemoveTask(key="A"), ADDED, "The edge A → B was added in revision 2 by sam."),
        (
            AddEdge(edge=edge("A", "B")),
            {"op": "remove_task", "key": "B"},
            "Task B was removed in revision 2 by sam.",
        ),
        (RemoveEdge(source="A", target="B"), ADDED, "The edge A → B was added in revision 2 by sam."),
        (AddTask(task=task("N")), {"op": "add_task", "key": "N"}, "Task N was added in revision 2 by sam."),
        (UpdateTask(key="A"), ADDED, None),
        (AddEdge(edge=edge("A", "C")), ADDED, None),
        (AddEdge(edge=edge("A", "C")), {"op": "update_task", "key": "A"}, None),
        (RemoveTask(key="C"), ADDED, None),
    ],
)
def test_an_edit_conflicts_with_what_touches_the_same_place(
    operation: EditOperation, theirs: dict[str, Any], said: str | None
) -> None:
    assert conflicts([operation], [revision(theirs)]) == ([said] if said else [])
