"""Plans on every backend: what a graph may be, and how its tasks are given out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from interlock.core.errors import (
    EditRefused,
    InvalidPlan,
)
from interlock.core.plans.model import (
    EdgeSpec,
    Graph,
    RemoveTask,
)
from interlock.store.postgres import database
from interlock.store.postgres.store import PostgresStore
from tests.clock import Clock
from tests.conformance.conftest import OpenService
from tests.conformance.planner import EDITOR, Planner, add, edge, task
from tests.patience import PATIENCE_S


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
    assert all("which this store does not know" in said for said in caught.value.reasons)
    assert [each.arguments for each in caught.value.cures] == [{"name": "stranger"}, {"name": "nobody"}]
    for each in caught.value.cures:
        planner.service.set_agent(**each.arguments)
    planner.service.create_plan("right", Graph(tasks=(task("A", agent="nobody"),)), editor="stranger")


@pytest.fixture
def patient_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits for a client which thinks about 10,000 tasks, however busy its machine is."""
    for name in ("idle_in_transaction_session_timeout", "transaction_timeout"):
        monkeypatch.setitem(database._SETTINGS, name, f"{PATIENCE_S:.0f}s")


@pytest.mark.usefixtures("patient_server")
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
    _analyse(planner.service)


def _analyse(service: Any) -> None:
    """As autovacuum does within a minute. The doctor asks everything at the end of each test, and with the
    statistics of the tests before, whose tables were nearly empty, that may take longer than it waits."""
    if isinstance(service.store, PostgresStore):
        with service.store.database.connection() as conn:
            conn.execute("ANALYZE interlock.items, interlock.tasks, interlock.edges")


def test_more_than_a_hundred_thousand_edges_are_no_plan(planner: Planner) -> None:
    keys = [f"t{n}" for n in range(450)]
    pairs = [(s, t) for n, s in enumerate(keys) for t in keys[n + 1 :]][:100_001]
    edges = tuple(EdgeSpec(source=s, target=t) for s, t in pairs)
    huge = Graph(tasks=tuple(map(task, keys)), edges=edges)
    with pytest.raises(InvalidPlan, match=r"100,001 edges\. Use at most 100,000") as caught:
        planner.service.create_plan("huge", huge)
    assert len(caught.value.reasons) == 1
    assert planner.service.plans() == []


def test_plans_do_not_disturb_each_other(open_service: OpenService, clock: Clock) -> None:
    one, two = Planner(open_service(), clock), Planner(open_service(), clock)
    one.make("A>B", editor=EDITOR)
    two.make("A>B")
    one.do("A")
    two.do("A")
    assert two.claim().item.id == two.task("B").item
    assert one.idle()
    assert [p.id for p in one.service.plans()] == [two.plan, one.plan]
