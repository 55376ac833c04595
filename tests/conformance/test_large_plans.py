"""Plans with much in them, and with much going on at once: what is done costs what it touches, and what is
read is of one moment."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from interlock.core.errors import LeaseLost
from interlock.core.plans.model import EdgeSpec, Graph, OnCancel, UpdateEdge
from interlock.service.local import LocalService
from interlock.store import plan_parts
from interlock.store.statements import Statements
from tests.clock import Clock
from tests.conformance.conftest import OpenService
from tests.conformance.planner import EDITOR, Planner, add, edge, task


@pytest.mark.parametrize("shape", ["chain", "fan"])
def test_any_number_of_unreachable_tasks_end_at_once(
    planner: Planner, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what one transaction judges, and with a task on a lane on the way, which has one of its own."""
    monkeypatch.setattr(plan_parts, "BEHIND_MAX", 50)
    keys = [f"t{n}" for n in range(400)]
    pairs = list(pairwise(keys))
    if shape == "fan":  # one that many wait for, and one that waits for all of them
        pairs = [("t0", k) for k in keys[1:-1]] + [(k, keys[-1]) for k in keys[1:-1]]
    tasks = tuple(task(k, lane="branch:x" if k == "t120" else None) for k in keys)
    edges = tuple(EdgeSpec(source=s, target=t) for s, t in pairs)
    planner.plan = planner.service.create_plan("deep", Graph(tasks=tasks, edges=edges)).id
    planner.fail(planner.start("t0"), retry=False)
    view = planner.view()
    assert view.status == "failed"
    assert {t.reason for t in view.tasks[1:]} == {"unreachable"}
    assert {e.state for e in view.edges} == {"broken"}
    planner.service.retry(planner.task("t0").item)
    assert {t.status for t in planner.view().tasks[1:]} == {"waiting"}


def test_a_chain_of_cancellations_stops_at_an_edge_that_one_satisfies(planner: Planner) -> None:
    planner.make("A>B>C>D, C>E, Z>E")
    planner.edit(UpdateEdge(source="B", target="C", on_cancel=OnCancel.SATISFY))
    planner.edit(add("F"), edge("A", "F"), edge("F", "D"))
    planner.fail(planner.start("A"), retry=False)
    assert planner.states() == "A:fail B:canc C:pend D:canc E:wait Z:pend F:canc"
    planner.do("C", "Z", "E")
    assert planner.view().status == "partially_failed"


def test_an_end_during_the_edit_costs_the_same_however_many_tasks_wait_for_the_editor(
    planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    text = Statements.__getitem__

    def noting(statements: Statements, name: str) -> str:
        asked.append(name)
        return text(statements, name)

    planner.make("A>B, A>C, D, E", editor=EDITOR)
    leases = {key: planner.start(key) for key in ("A", "D")}
    planner.fail(leases["A"], retry=False)
    monkeypatch.setattr(Statements, "__getitem__", noting)
    planner.done(leases["D"])
    assert "tasks_doomed" not in asked
    assert "unanswered" not in asked
    planner.edit(lease=planner.ask(), through=2)
    assert "tasks_doomed" in asked
    assert planner.states() == "A:fail B:canc C:canc D:comp E:pend"


def test_a_revision_is_read_as_a_whole_while_others_edit(
    open_service: OpenService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edges that an edit adds lead to tasks that were not there when the tasks were read."""
    planner, other = (Planner(open_service(), clock) for _ in range(2))
    planner.make("A>B")
    other.plan = planner.plan
    before = planner.service.plan_at(planner.plan, 1)
    meanwhile(monkeypatch, planner, "edges", lambda: other.edit(add("N"), edge("N", "B")))
    assert planner.service.plan_at(planner.plan, 1) == before
    assert planner.view().revision == 2
    meanwhile(monkeypatch, planner, "edges", lambda: other.edit(add("O"), edge("O", "N")))
    view = planner.view()
    assert (view.revision, len(view.tasks), len(view.edges)) == (2, 3, 2)


def test_a_batch_is_read_as_a_whole_while_it_is_answered(
    open_service: OpenService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, other = (Planner(open_service(), clock) for _ in range(2))
    planner.make("A>B", editor=EDITOR)
    other.plan = planner.plan
    planner.do("A")
    asked = planner.ask()
    meanwhile(monkeypatch, planner, "plan", lambda: other.edit(lease=asked))
    assert [end.key for end in planner.service.plan_batch(asked.run).completions] == ["A"]
    with pytest.raises(LeaseLost):
        planner.service.plan_batch(asked.run)


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, planner: Planner, reading: str, happens: Callable[[], object]
) -> None:
    """Let something happen once, just before the store reads this."""
    assert isinstance(planner.service, LocalService)
    store: Any = planner.service.store
    read = getattr(store, reading)

    def after(*args: Any, **fields: Any) -> Any:
        monkeypatch.setattr(store, reading, read)
        happens()
        return read(*args, **fields)

    monkeypatch.setattr(store, reading, after)
