"""Edits of a plan on every backend: what may change, what is refused, and what the history keeps."""

from __future__ import annotations

import pytest

from interlock.core.errors import (
    EditRefused,
    InvalidPlan,
    PlanEnded,
    StaleRevision,
)
from interlock.core.plans.model import (
    AddEdge,
    EdgeSpec,
    EditOperation,
    Graph,
    OnCancel,
    RemoveEdge,
    RemoveTask,
    UpdateEdge,
    UpdateTask,
    When,
)
from tests.conformance.planner import Planner, add, edge, graph, task


def test_an_edit_replaces_a_task_before_it_starts(planner: Planner) -> None:
    planner.make("A>B>C")
    edited = planner.edit(
        RemoveTask(key="B"), add("B2"), edge("A", "B2"), edge("B2", "C"), by="sam", why="better"
    )
    assert (edited.revision, edited.rebased, edited.added, edited.removed) == (2, False, ("B2",), ("B",))
    removed = next(i for i in planner.every() if i.title == "B")
    assert (removed.status, removed.reason) == ("cancelled", "removed_by_edit")
    planner.do("A", "B2", "C")
    assert planner.view().status == "completed"
    made, changed = planner.service.plan_history(planner.plan)
    assert (made.revision, made.operations) == (1, ())
    assert (changed.by, changed.why, changed.base) == ("sam", "better", 1)
    assert [o["op"] for o in changed.operations] == [
        "remove_task", "add_task", "remove_edge", "remove_edge", "add_edge", "add_edge"
    ]  # fmt: skip


def test_the_key_of_a_removed_task_can_be_used_again(planner: Planner) -> None:
    planner.make("A>B")
    planner.edit(RemoveTask(key="B"))
    planner.edit(add("B", title="another"), edge("A", "B"))
    planner.do("A", "B")
    assert planner.view().status == "completed"
    assert planner.task("B").title == "another"


def test_a_task_is_replaced_under_its_key_in_one_edit(planner: Planner) -> None:
    planner.make("A>B")
    planner.edit(RemoveTask(key="B"), add("B", title="another"), edge("A", "B"))
    planner.do("A", "B")
    assert planner.view().status == "completed"
    assert planner.task("B").title == "another"


@pytest.mark.parametrize("ready", [True, False], ids=["owner of its lane", "not ready"])
def test_a_task_gets_another_lane_by_being_removed_and_added_in_one_edit(
    planner: Planner, ready: bool
) -> None:
    first, second = "issue:acme/app#7", "issue:acme/app#8"
    planner.make("B, K" if ready else "A>B, K", tasks={"B": {"lane": first}})
    behind = planner.put("behind", lane=first)
    back = [] if ready else [edge("A", "B")]
    planner.edit(RemoveTask(key="B"), add("B", lane=second), *back)
    assert (planner.task("B").lane, planner.status(behind)) == (second, "pending")
    planner.edit(RemoveTask(key="B"), add("B", lane=second, title="once more"), *back)
    if not ready:
        planner.do("A")
    assert planner.owner(second) == planner.task("B").item
    planner.do("B", "K")
    assert planner.view().status == "completed"


def test_an_edit_that_leaves_an_edge_unchanged_keeps_its_state(planner: Planner) -> None:
    """B was let go when A ended, and is not called back because A is tried again: not by an edit either that
    changes something else and says of their edge what it says already."""
    spec = EdgeSpec(source="A", target="B", when=When.COMPLETION)
    planner.plan = planner.service.create_plan("work", Graph(tasks=(task("A"), task("B")), edges=(spec,))).id
    planner.fail(planner.start("A"), retry=False)
    planner.service.retry(planner.task("A").item)
    same = UpdateEdge(source="A", target="B", when=When.COMPLETION)
    again = (RemoveEdge(source="A", target="B"), AddEdge(edge=spec))
    for operations in ([same], [same, add("C")], [*again, add("D")]):
        planner.edit(*operations)
        assert planner.states().startswith("A:pend B:pend")
    *_, last = planner.service.plan_history(planner.plan)
    assert [o["op"] for o in last.operations] == ["add_task"]
    planner.edit(UpdateEdge(source="A", target="B", when=When.SUCCESS))
    assert planner.states().startswith("A:pend B:wait")


def test_an_edit_of_started_or_ended_tasks_is_refused_with_every_reason(planner: Planner) -> None:
    planner.make("done, runs, A>B")
    planner.do("done")
    planner.start("runs")
    reasons = planner.refused(
        RemoveTask(key="done"),
        RemoveTask(key="runs"),
        UpdateTask(key="runs", changes={"title": "x"}),
        edge("A", "runs"),
        edge("B", "A"),
        edge("A", "A"),
        edge("A", "nowhere"),
        add("A"),
        add("new", agent="nobody"),
        RemoveEdge(source="A", target="done"),
        UpdateTask(key="A", changes={"lane": "x", "wings": 2}),
    )
    said = "\n".join(reasons)
    for part in (
        "Task done has ended as completed and cannot be removed",
        "Task runs is running",
        "and cannot be changed",
        "The edge A → runs cannot change",
        "cycle: A → B → A",
        "cannot depend on itself",
        "names task nowhere",
        "already a task A",
        "nobody",
        "The edge A → done cannot change",
        "The lane of task A cannot change",
        "Unknown field 'wings'",
    ):
        assert part in said, part
    assert planner.service.plan_stats(planner.plan).edits_refused == 1
    assert planner.last("plan.edit_refused").reason == "edit_refused"


def test_a_long_cycle_is_found_and_named(planner: Planner) -> None:
    planner.make("A>B>C>D>E, C>F")
    assert planner.refused(edge("E", "B")) == ("The edges would close a cycle: B → C → D → E → B.",)
    assert "cycle" in planner.refused(add("N"), edge("E", "N"), edge("N", "A"))[0]
    planner.edit(edge("F", "D"))
    assert "cycle" in planner.refused(edge("D", "F"))[0]


def test_tasks_can_be_inserted_at_the_same_place_again_and_again(planner: Planner) -> None:
    """Room between two ranks is used up now and then; the plan is ranked anew and nobody notices."""
    planner.make("A>Z")
    last = "Z"
    for n in range(80):
        planner.edit(add(f"n{n}"), edge("A", f"n{n}"), edge(f"n{n}", last))
        last = f"n{n}"
    assert "cycle" in planner.refused(edge("Z", "n79"))[0]
    planner.do("A", "n79", "n78")


def test_a_task_can_be_changed_until_it_starts(planner: Planner) -> None:
    planner.make("A>B", tasks={"B": {"payload": '{"n": 1}'}})
    changes = {"title": "new", "agent": "coder", "labels": ("gpu",), "priority": 7, "payload": '{"n": 2}'}
    assert planner.edit(UpdateTask(key="B", changes=changes)).updated == ("B",)
    planner.do("A")
    lease = planner.claim("coder")
    assert (lease.item.title, lease.item.priority, lease.item.payload) == ("new", 7, {"n": 2})
    (operation,) = planner.service.plan_history(planner.plan, after=1)[0].operations
    assert operation["before"]["payload"] == {"n": 1}
    assert operation["before"]["title"] == "B"
    planner.edit(add("C", payload="{}"))
    planner.edit(UpdateTask(key="C", changes={"payload": None}))
    assert planner.start("C").item.payload is None


def test_an_edge_can_be_changed_until_its_target_starts(planner: Planner) -> None:
    planner.make("A>B, Z>B")
    planner.fail(planner.start("A"), retry=False)
    assert planner.task("B").status == "cancelled"
    planner.make("A>B, Z>B")
    planner.edit(UpdateEdge(source="A", target="B", when=When.FAILURE))
    planner.fail(planner.start("A"), retry=False)
    assert planner.task("B").unmet == 1
    planner.edit(RemoveEdge(source="Z", target="B"))
    assert planner.task("B").status == "pending"


def test_a_whole_graph_is_taken_as_the_changes_it_makes_to_its_base(planner: Planner) -> None:
    planner.make("A>B>C")
    planner.do("A")
    wanted = graph("A>B2>C, B2>D", C={"title": "the end"})
    edited = planner.service.edit_plan(planner.plan, base=1, graph=wanted)
    assert (edited.added, edited.removed, edited.updated) == (("B2", "D"), ("B",), ("C",))
    assert edited.ready == ("B2",)
    planner.do("B2", "C", "D")
    assert planner.view().status == "completed"
    with pytest.raises(InvalidPlan, match="Task A is defined 2 times"):
        planner.service.edit_plan(planner.plan, base=1, graph=Graph(tasks=(task("A"), task("A"))))


def test_the_graph_that_a_plan_was_made_from_is_no_change_however_it_is_written(planner: Planner) -> None:
    fields = {"agent": " Coder ", "lane": "issue:Acme/App#42", "payload": '{"b": 1, "a": true}'}
    planner.make("A>B", tasks={"A": fields})
    planner.do("A")
    same = graph("A>B", A={**fields, "payload": '{"a":true,"b":1}'})
    assert planner.service.edit_plan(planner.plan, base=1, graph=same).revision == 1
    more = graph("A>B, C", A=fields, B={"payload": '{"n": 1}'})
    assert planner.service.edit_plan(planner.plan, base=1, graph=more).updated == ("B",)
    other = graph("A>B, C", A=fields, B={"payload": '{"n": true}'})
    assert planner.service.edit_plan(planner.plan, base=2, graph=other).updated == ("B",)
    assert planner.start("B").item.payload == {"n": True}


def test_every_revision_can_be_read_again(planner: Planner) -> None:
    planner.make("A>B>C", tasks={"B": {"payload": '{"n": 1}', "priority": 3}})
    graphs = [planner.service.plan_at(planner.plan, 1)]
    edits: tuple[list[EditOperation], ...] = (
        [RemoveTask(key="B"), add("B2"), edge("A", "B2"), edge("B2", "C", when=When.COMPLETION)],
        [
            UpdateTask(key="C", changes={"title": "end", "payload": '{"n": 2}'}),
            UpdateEdge(source="B2", target="C", on_cancel=OnCancel.SATISFY),
        ],
        [add("B"), edge("B2", "B"), RemoveEdge(source="B2", target="C"), edge("B", "C")],
    )
    for operations in edits:
        planner.edit(*operations)
        graphs.append(planner.service.plan_at(planner.plan, planner.view().revision))
    for n, remembered in enumerate(graphs, 1):
        again = planner.service.plan_at(planner.plan, n)
        assert again == remembered, f"revision {n}"
    assert {t.key: t.payload for t in graphs[0].tasks} == {"A": None, "B": '{"n": 1}', "C": None}
    planner.service.edit_plan(planner.plan, base=4, graph=graphs[3])
    assert planner.view().revision == 4, "nothing changed"


def test_an_edit_of_an_older_revision_is_rebased_where_nothing_it_touches_changed(planner: Planner) -> None:
    planner.make("A>B, C>D")
    planner.edit(UpdateTask(key="B", changes={"title": "new"}), by="sam")
    edited = planner.edit(RemoveTask(key="D"), base=1)
    assert (edited.revision, edited.rebased) == (3, True)
    assert planner.service.plan_stats(planner.plan).edits_rebased == 1
    with pytest.raises(StaleRevision) as caught:
        planner.edit(RemoveTask(key="B"), base=1)
    assert caught.value.reasons == ("Task B was changed in revision 2 by sam.",)
    assert caught.value.exit_code == 6
    with pytest.raises(StaleRevision, match="Task D was removed in revision 3"):
        planner.edit(edge("A", "D"), base=2)
    with pytest.raises(EditRefused, match="no revision 9"):
        planner.edit(add("E"), base=9)


def test_an_ended_plan_is_edited_no_more(planner: Planner) -> None:
    planner.make("A")
    planner.do("A")
    with pytest.raises(PlanEnded):
        planner.edit(add("B"))
