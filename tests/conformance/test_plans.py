"""Plans on every backend: graphs of tasks, edits while they run, and what becomes of what depends on what."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from interlock.core.errors import (
    CycleExpired,
    EditRefused,
    Held,
    InvalidInput,
    InvalidPlan,
    ItemEnded,
    LeaseLost,
    NotFound,
    PlanEnded,
    StaleRevision,
)
from interlock.core.model import NewItem, RetryLane
from interlock.core.plans.model import (
    AddEdge,
    AddTask,
    EdgeSpec,
    Graph,
    OnCancel,
    Operation,
    RemoveEdge,
    RemoveTask,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
)
from interlock.service.contract import ItemFilter, LeaseView, Report, Service
from interlock.service.planview import EditView, PlanView, TaskView
from interlock.service.sweeper import BATCH
from interlock.testing.clock import Clock
from tests.conformance.conftest import OpenService
from tests.conformance.scene import Scene

EDITOR = "planner"


class Planner(Scene):
    """The scene, in the words of plans. A graph is written `A>B, B>C, D`."""

    plan: int

    def __init__(self, service: Service, clock: Clock) -> None:
        super().__init__(service, clock)
        service.set_agent("coder", labels=["gpu"])
        service.set_agent(EDITOR)

    def make(
        self, text: str, *, editor: str = "", tasks: dict[str, Any] | None = None, **fields: Any
    ) -> PlanView:
        self.clock.advance(0.000001)
        view = self.service.create_plan("work", graph(text, **tasks or {}), editor=editor, **fields)
        self.plan = view.id
        return view

    def view(self) -> PlanView:
        return self.service.plan(self.plan)

    def task(self, key: str) -> TaskView:
        return next(t for t in self.view().tasks if t.key == key)

    def states(self) -> str:
        """Every task with the first letters of its status."""
        return " ".join(f"{t.key}:{t.status[:4]}" for t in self.view().tasks)

    def start(self, key: str) -> LeaseView:
        return self.claim(item=self.task(key).item)

    def do(self, *keys: str) -> None:
        """Start these tasks and end them well, one by one."""
        for key in keys:
            self.done(self.start(key))

    def edit(self, *operations: Operation, lease: LeaseView | None = None, **fields: Any) -> EditView:
        fields.setdefault("base", self.view().revision)
        run = lease.run if lease else None
        return self.service.edit_plan(self.plan, operations=operations, run=run, **fields)

    def ask(self) -> LeaseView:
        """The editor takes the edit it is asked for."""
        return self.claim(EDITOR, types=["plan.edit"])

    def refused(self, *operations: Operation, **fields: Any) -> tuple[str, ...]:
        """The reasons why an edit is refused, which must leave the plan as it was."""
        before = self.view()
        with pytest.raises(EditRefused) as caught:
            self.edit(*operations, **fields)
        assert self.view() == before
        return caught.value.reasons


def graph(text: str, **tasks: Any) -> Graph:
    keys: dict[str, None] = {}
    edges = []
    for part in text.replace(" ", "").split(","):
        path = part.split(">")
        keys.update(dict.fromkeys(path))
        edges += [EdgeSpec(source=s, target=t) for s, t in pairwise(path)]
    return Graph(tasks=tuple(task(k, **tasks.get(k, {})) for k in keys), edges=tuple(edges))


def task(key: str, **fields: Any) -> TaskSpec:
    return TaskSpec(key=key, **fields)


def add(key: str, **fields: Any) -> AddTask:
    return AddTask(task=task(key, **fields))


def edge(source: str, target: str, **fields: Any) -> AddEdge:
    return AddEdge(edge=EdgeSpec(source=source, target=target, **fields))


@pytest.fixture
def planner(service: Service, clock: Clock) -> Planner:
    return Planner(service, clock)


# -- graphs ---------------------------------------------------------------------------------------


def test_a_task_is_offered_when_all_its_predecessors_are_done(planner: Planner) -> None:
    view = planner.make("A>C, B>C, C>D")
    assert (view.revision, view.status) == (1, "running")
    assert planner.states() == "A:pend C:wait B:pend D:wait"
    planner.do("A")
    assert planner.states() == "A:comp C:wait B:pend D:wait"
    planner.do("B")
    assert planner.states() == "A:comp C:pend B:comp D:wait"
    planner.do("C", "D")
    assert planner.view().status == "completed"
    assert [e.reason for e in planner.events("plan.ended")] == ["completed"]


def test_tasks_and_other_items_are_claimed_in_one_order(planner: Planner) -> None:
    planner.make("low, high", tasks={"low": {"priority": 1}, "high": {"priority": 9}})
    planner.put("middle", priority=5)
    planner.put("mine", priority=7, agent="coder")
    leases = planner.service.next("coder", limit=2)
    assert [lease.item.title for lease in leases] == ["high", "mine"]
    leases = planner.service.next("coder", limit=5)
    assert [lease.item.title for lease in leases] == ["middle", "low"]


def test_a_task_keeps_its_agent_its_labels_and_its_payload(planner: Planner) -> None:
    planner.service.set_agent("other")
    planner.make(
        "A, B",
        tasks={"A": {"agent": "Coder", "labels": ("gpu",), "payload": '{"n": 1}'}, "B": {"agent": "other"}},
    )
    lease = planner.claim("coder")
    assert (lease.item.title, lease.item.payload, lease.item.plan) == ("A", {"n": 1}, planner.plan)
    assert planner.idle("coder")
    assert planner.claim("other").item.title == "B"


def test_every_mistake_in_a_new_plan_is_named_and_nothing_is_made(planner: Planner) -> None:
    wrong = Graph(
        tasks=(
            task("A"),
            task("A"),
            task("B", agent="nobody"),
            task("C", labels=("tpu",)),
            task("D", priority=9999),
        ),
        edges=(
            EdgeSpec(source="A", target="A"),
            EdgeSpec(source="A", target="X"),
            EdgeSpec(source="B", target="C"),
            EdgeSpec(source="C", target="B"),
            EdgeSpec(source="C", target="B"),
        ),
    )
    with pytest.raises(InvalidPlan) as caught:
        planner.service.create_plan("wrong", wrong)
    said = " ".join(caught.value.reasons)
    for part in (
        "already a task A",
        "nobody",
        "tpu",
        "priority",
        "itself",
        "names task X",
        "already an edge C → B",
        "cycle",
    ):
        assert part in said, part
    assert planner.service.plans() == []
    assert planner.unfinished() == []
    with pytest.raises(InvalidPlan, match="editor stranger") as caught:
        planner.service.create_plan("wrong", Graph(tasks=(task("A", agent="nobody"),)), editor="stranger")
    for name, said in zip(("stranger", "nobody"), caught.value.reasons, strict=True):
        assert f"`interlock agents set {name}` makes it known" in said


def test_ten_thousand_tasks_are_a_plan_and_one_more_is_not(planner: Planner) -> None:
    keys = [f"t{n}" for n in range(10_000)]
    tasks = tuple(task(k) for k in keys)
    edges = tuple(EdgeSpec(source=s, target=t) for s, t in pairwise(keys))
    with pytest.raises(InvalidPlan, match="10,001 tasks"):
        planner.service.create_plan("huge", Graph(tasks=(*tasks, task("more"))))
    view = planner.service.create_plan("large", Graph(tasks=tasks, edges=edges))
    planner.plan = view.id
    with pytest.raises(EditRefused, match="10,001 tasks"):
        planner.service.edit_plan(view.id, base=1, operations=[add("more")])
    edited = planner.service.edit_plan(
        view.id,
        base=1,
        operations=[RemoveTask(key="t5000"), add("new"), edge("t4999", "new"), edge("new", "t5001")],
    )
    assert (edited.revision, edited.added, edited.removed) == (2, ("new",), ("t5000",))
    assert planner.claim().item.title == "t0"


def test_more_than_a_hundred_thousand_edges_are_no_plan(planner: Planner) -> None:
    keys = [f"t{n}" for n in range(450)]
    pairs = [(s, t) for n, s in enumerate(keys) for t in keys[n + 1 :]][:100_001]
    edges = tuple(EdgeSpec(source=s, target=t) for s, t in pairs)
    huge = Graph(tasks=tuple(map(task, keys)), edges=edges)
    with pytest.raises(InvalidPlan, match="100,001 edges; at most 100,000") as caught:
        planner.service.create_plan("huge", huge)
    assert len(caught.value.reasons) == 1
    assert planner.service.plans() == []


# -- edges ----------------------------------------------------------------------------------------


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


def test_what_can_never_start_is_cancelled_with_all_that_depends_on_it(planner: Planner) -> None:
    planner.make("A>B>C>D, E>D")
    planner.fail(planner.start("A"), retry=False)
    assert planner.states() == "A:fail B:canc C:canc D:canc E:pend"
    assert planner.view().status == "running"
    planner.do("E")
    assert planner.view().status == "partially_failed"


def test_a_handler_that_was_not_needed_is_no_failure(planner: Planner) -> None:
    spec = EdgeSpec(source="A", target="cleanup", when=When.FAILURE)
    made = planner.service.create_plan("work", Graph(tasks=(task("A"), task("cleanup")), edges=(spec,)))
    planner.plan = made.id
    planner.do("A")
    assert planner.states() == "A:comp cleanup:canc"
    assert planner.view().status == "completed"


def test_a_failed_attempt_that_is_tried_again_breaks_nothing(planner: Planner) -> None:
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


# -- lanes ----------------------------------------------------------------------------------------


def test_tasks_on_a_lane_take_their_turns_with_everybody_else(planner: Planner) -> None:
    lane = "issue:acme/app#7"
    held = planner.put_running("before", lane=lane)
    planner.make("A>B, A>C", tasks={"B": {"lane": lane}, "C": {"lane": lane}})
    planner.do("A")
    assert planner.states() == "A:comp B:defe C:defe"
    after = planner.put("after", lane=lane)
    planner.done(held)
    assert planner.states() == "A:comp B:pend C:defe"
    planner.do("B", "C")
    assert planner.status(after) == "pending"


def test_a_removed_task_hands_its_lane_on_and_one_that_must_wait_again_too(planner: Planner) -> None:
    lane = "issue:acme/app#7"
    planner.make("A, B", tasks={"A": {"lane": lane}, "B": {"lane": lane}})
    other = planner.put("other", lane=lane)
    assert planner.states() == "A:pend B:defe"
    planner.edit(add("first"), edge("first", "A"))
    assert planner.states() == "A:wait B:pend first:pend"
    planner.edit(RemoveTask(key="B"))
    assert planner.status(other) == "pending"
    planner.do("first")
    assert planner.states() == "A:defe first:comp"


# -- edits ----------------------------------------------------------------------------------------


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


def test_a_removed_key_may_come_again(planner: Planner) -> None:
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


def test_an_edge_that_an_edit_leaves_as_it_was_is_not_judged_anew(planner: Planner) -> None:
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


def test_what_has_started_or_ended_is_left_alone_and_every_reason_is_said(planner: Planner) -> None:
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
        "no 'wings'",
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


def test_edges_can_be_put_in_front_again_and_again(planner: Planner) -> None:
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
    with pytest.raises(InvalidPlan, match="2 tasks A"):
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


def test_every_revision_can_be_had_again(planner: Planner) -> None:
    planner.make("A>B>C", tasks={"B": {"payload": '{"n": 1}', "priority": 3}})
    graphs = [planner.service.plan_at(planner.plan, 1)]
    edits: tuple[list[Operation], ...] = (
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


# -- edit cycles ----------------------------------------------------------------------------------


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


def test_no_change_answers_too_as_does_saying_done(planner: Planner) -> None:
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


def test_an_edit_answers_what_there_is_to_answer_and_nothing_else(planner: Planner) -> None:
    planner.make("A, B, C, D", editor=EDITOR)
    planner.do("A")
    planner.edit(lease=planner.ask())
    second, third = planner.start("B"), planner.start("C")
    planner.done(second)
    asked = planner.ask()
    planner.done(third)
    for through in (1, 4, 2**31 - 1):
        reasons = planner.refused(add("E"), lease=asked, through=through)
        assert reasons == (
            f"Plan {planner.plan} has completions 2 to 3 to answer, so nothing answers through {through}.",
        )
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


def test_only_a_run_answers(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    with pytest.raises(InvalidInput, match="Only the run that owes an edit"):
        planner.edit(add("C"), through=1)


def test_an_editor_that_is_late_is_not_waited_for_and_its_edit_is_refused(planner: Planner) -> None:
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
def test_what_an_edit_run_reports_after_the_deadline_is_refused_before_anybody_sweeps(
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


def test_others_need_not_wait_for_an_editor_whose_time_is_over(planner: Planner) -> None:
    late(planner)
    planner.edit(RemoveTask(key="B"), by="sam")
    assert planner.states() == "A:comp C:pend"
    assert planner.service.plan_stats(planner.plan).edits_timed_out == 1


def test_what_an_editor_was_told_too_late_is_kept_when_its_time_is_over(planner: Planner) -> None:
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


def test_others_edit_only_while_no_editor_is_asked(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.edit(UpdateTask(key="B", changes={"title": "x"}))
    planner.do("A")
    asked = planner.view().cycle
    assert asked is not None
    with pytest.raises(Held, match=rf"planner \(item {asked.item}\), for 10 min") as caught:
        planner.edit(add("C"))
    assert f"`interlock cancel {asked.item} --reason TEXT`" in caught.value.hint
    planner.service.cancel(asked.item, why="go on", by="sam")
    assert "asks for an edit again" in planner.service.why(asked.item).why
    planner.edit(add("C"))
    planner.do("B")
    lease = planner.put_running("something else")
    with pytest.raises(InvalidInput, match="not been asked to edit"):
        planner.edit(add("C"), lease=lease)


# -- operators ------------------------------------------------------------------------------------


def test_a_paused_plan_gives_out_nothing_until_it_is_resumed(planner: Planner) -> None:
    planner.make("A>B")
    planner.service.pause_plan(planner.plan, why="lunch", by="sam")
    assert planner.view().paused_reason == "lunch"
    assert planner.idle()
    assert "lunch" in planner.service.why(planner.task("A").item).why
    planner.service.resume_plan(planner.plan)
    planner.do("A", "B")


def test_a_cancelled_plan_ends_with_its_last_task(planner: Planner) -> None:
    planner.make("A>B, R>S", editor=EDITOR)
    running = planner.start("R")
    planner.service.cancel_plan(planner.plan, why="obsolete", by="sam")
    assert planner.states() == "A:canc B:canc R:in_p S:canc"
    assert (planner.view().status, planner.view().ended_at) == ("cancelled", None)
    assert planner.renew(running).cancel_requested
    planner.release(running)
    assert planner.view().ended_at is not None
    with pytest.raises(PlanEnded):
        planner.service.cancel_plan(planner.plan, why="again")


def test_every_task_of_a_cancelled_plan_ends_because_of_that_however_many_there_are(planner: Planner) -> None:
    planner.make(">".join(f"T{n}" for n in range(BATCH + 20)))
    planner.service.cancel_plan(planner.plan, why="obsolete")
    assert {(t.status, t.reason) for t in planner.view().tasks} == {("cancelled", "operator")}
    assert planner.service.plan_stats(planner.plan).failed == BATCH + 20
    planner.service.retry(planner.task("T0").item)
    assert planner.states().startswith("T0:pend T1:canc T2:canc")


def test_cancelling_takes_the_edit_from_its_editor(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    planner.service.cancel_plan(planner.plan, why="obsolete")
    assert (planner.view().status, planner.view().cycle) == ("cancelled", None)
    with pytest.raises(LeaseLost):
        planner.edit(add("C"), lease=asked)


def test_the_deadline_of_an_open_cycle_can_be_moved(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.do("A")
    planner.service.set_edit_deadline(planner.plan, 10)
    planner.pass_s(10)
    planner.do("B")


def test_lanes_and_types_of_plans_are_for_plans_alone(planner: Planner) -> None:
    for wrong in (NewItem(title="x", lane="plan:1"), NewItem(title="x", type="plan.edit")):
        with pytest.raises(InvalidInput, match="alone"):
            planner.service.add([wrong])


def test_why_a_task_waits_is_said(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    assert f"waits in plan {planner.plan} for A" in planner.service.why(planner.task("B").item).why
    planner.do("A")
    assert "waits for an edit of planner" in planner.service.why(planner.task("B").item).why


def test_the_number_of_a_plan_is_no_item_and_that_is_said(planner: Planner) -> None:
    planner.make("A")
    with pytest.raises(NotFound, match=f"{planner.plan} is a plan"):
        planner.service.show(planner.plan)
    with pytest.raises(NotFound, match="lists them"):
        planner.service.show(planner.plan + 100)


def test_what_brings_a_cancelled_task_back_is_said_and_does(planner: Planner) -> None:
    planner.make("A>B, C")
    planner.fail(planner.start("A"), retry=False)
    planner.edit(RemoveTask(key="C"))
    removed = next(i for i in planner.service.items(ItemFilter(all=True)) if i.title == "C")
    assert "retry" not in planner.service.why(removed.id).why
    assert "it waited for A, whose retry brings it back." in planner.service.why(planner.task("B").item).why
    with pytest.raises(ItemEnded, match="can never start"):
        planner.service.retry(planner.task("B").item)
    planner.service.retry(planner.task("A").item)
    assert planner.states() == "A:pend B:wait"
    planner.service.cancel(planner.task("B").item, why="not now", by="sam")
    assert "`interlock retry" in planner.service.why(planner.task("B").item).why


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


def test_plans_do_not_disturb_each_other(open_service: OpenService, clock: Clock) -> None:
    one, two = Planner(open_service(), clock), Planner(open_service(), clock)
    one.make("A>B", editor=EDITOR)
    two.make("A>B")
    one.do("A")
    two.do("A")
    assert two.claim().item.id == two.task("B").item
    assert one.idle()
    assert [p.id for p in one.service.plans()] == [two.plan, one.plan]


def test_a_task_that_keeps_its_lane_in_back_off_goes_on(planner: Planner) -> None:
    planner.make("A>B", tasks={"A": {"lane": "branch:x", "retry_lane": RetryLane.KEEP}})
    planner.fail(planner.start("A"))
    planner.pass_s(20)
    planner.do("A", "B")
    assert planner.view().status == "completed"


def test_an_edit_whose_cycle_has_closed_is_not_asked_for_again(planner: Planner) -> None:
    planner.make("A, B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    planner.fail(asked, retry=False)
    with pytest.raises(ItemEnded, match="cycle has closed"):
        planner.service.retry(asked.item.id)


def test_what_is_said_too_late_to_an_editor_becomes_work_of_its_own(planner: Planner) -> None:
    planner.make("A>B", editor=EDITOR)
    planner.do("A")
    asked = planner.ask()
    planner.service.msg(asked.item.id, "mind the budget")
    planner.edit(lease=asked)
    assert planner.view().cycle is None
    follow_up = planner.claim(EDITOR, types=["task"], item=max(i.id for i in planner.unfinished()))
    assert (follow_up.item.type, follow_up.item.lane, follow_up.item.plan) == ("task", None, None)
    assert [m.text for m in follow_up.messages] == ["mind the budget"]
