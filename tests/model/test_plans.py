"""Random graphs, edits, ends and crashes, said to a plain model of plans and to the real stores alike.

After every step all statuses agree, a claim gives exactly what the model allows, and an edit is refused
exactly when the model refuses it. In the end every plan is worked off: every task has ended, ran at most once
an attempt, and never before its predecessors allowed it.

    INTERLOCK_MODEL_EXAMPLES=500 make test ARGS="tests/model/test_plans.py -k sqlite"
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from interlock.contract import LeaseView, Report
from interlock.core.errors import InterlockError, ItemEnded
from interlock.core.plan_model import (
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
    When,
)
from interlock.service import LocalService
from interlock.store.postgres import PostgresStore
from interlock.store.sqlite import SqliteStore
from interlock.testing.clock import Clock
from tests.model.plan_reference import Edge, PlanReference, Task, acyclic

KEYS = "ABCDEFGH"
EDITOR = "planner"
DEADLINE_S = 300
STEPS = 40

pytestmark = pytest.mark.slow

keys = st.sampled_from(KEYS)
whens = st.sampled_from(list(When))
on_cancels = st.sampled_from(list(OnCancel))


@st.composite
def operations(draw: st.DrawFn, model: PlanReference) -> Operation:
    """One operation: mostly one that the plan as it stands allows, now and then any."""
    lawful = draw(st.integers(0, 5)) > 0
    known = sorted(model.tasks) if lawful and model.tasks else list(KEYS)
    free = [k for k in known if k in model.tasks and model.unstarted(k)] or known
    pairs = [p for p in model.edges if p[1] in free] or [(known[0], free[0])]
    source, target = draw(st.sampled_from(known)), draw(st.sampled_from(free))
    pair = draw(st.sampled_from(pairs))
    match draw(st.integers(0, 6)):
        case 0:
            return RemoveTask(key=target)
        case 1:
            new = [k for k in KEYS if k not in model.tasks] if lawful else list(KEYS)
            return AddTask(task=TaskSpec(key=draw(st.sampled_from(new or list(KEYS)))))
        case 2:
            return RemoveEdge(source=pair[0], target=pair[1])
        case 3:
            return UpdateEdge(source=pair[0], target=pair[1], when=draw(whens))
        case _:
            spec = EdgeSpec(source=source, target=target, when=draw(whens), on_cancel=draw(on_cancels))
            return AddEdge(edge=spec)


class PlansKeepTheRules(RuleBasedStateMachine):
    """One plan a run, on a store that all runs share."""

    service: LocalService
    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.model = PlanReference(has_editor=False)
        self.plan = 0
        self.items: dict[str, int] = {}
        self.leases: dict[str, LeaseView] = {}
        self.asked: LeaseView | None = None

    @initialize(
        data=st.data(),
        has_editor=st.sampled_from([True, True, False]),
        size=st.integers(1, 6),
    )
    def begin(self, data: st.DataObject, has_editor: bool, size: int) -> None:
        self.model = PlanReference(has_editor=has_editor)
        self.model.tasks = {k: Task() for k in KEYS[:size]}
        pairs = [(s, t) for n, s in enumerate(KEYS[:size]) for t in KEYS[n + 1 : size]]
        chosen = data.draw(
            st.lists(st.sampled_from(pairs), unique=True, max_size=6) if pairs else st.just([])
        )
        specs = [
            EdgeSpec(source=s, target=t, when=data.draw(whens), on_cancel=data.draw(on_cancels))
            for s, t in chosen
        ]
        self.model.edges = {e.pair: Edge(e.when.value, e.on_cancel.value) for e in specs}
        self.model.settle()
        self.plan = self.service.create_plan(
            "model",
            Graph(tasks=tuple(TaskSpec(key=k) for k in self.model.tasks), edges=tuple(specs)),
            editor=EDITOR if has_editor else "",
            edit_deadline_s=DEADLINE_S,
        ).id
        self._learn()

    def _learn(self) -> None:
        self.items = {t.key: t.item for t in self.service.plan(self.plan).tasks}

    # -- tasks ------------------------------------------------------------------------------------

    @rule(limit=st.integers(1, 3))
    def claim(self, limit: int) -> None:
        leases = self.service.next("coder", types=["task"], limit=limit)
        allowed = self.model.claimable()
        assert len(leases) == min(limit, len(allowed)), f"{leases} where {allowed} may be claimed"
        for lease in leases:
            key = next(k for k, item in self.items.items() if item == lease.item.id)
            assert key in allowed
            task = self.model.tasks[key]
            task.runs = task.started = True
            task.attempts += 1
            self.leases[key] = lease

    @precondition(lambda self: self.leases)
    @rule(
        n=st.integers(0, 9), how=st.sampled_from(["done", "done", "done", "fail for good", "fail", "release"])
    )
    def end(self, n: int, how: str) -> None:
        key = sorted(self.leases)[n % len(self.leases)]
        report = [Report(run=self.leases.pop(key).run, retry=how != "fail for good")]
        task = self.model.tasks[key]
        self.clock.advance(0.001)
        if how == "done":
            self.service.done(report)
            self.model.finish(key, "completed")
        elif how == "release":
            self.service.release(report)
            task.runs = False
            task.attempts -= 1
            task.parked = self.service.show(self.items[key]).item.run_at is not None
        else:
            self.service.fail(report)
            if how == "fail" and task.attempts < 3:
                task.runs, task.parked = False, True
            else:
                self.model.finish(key, "failed")

    @precondition(lambda self: any(t.parked for t in self.model.tasks.values()) or len(self.leases) > 2)
    @rule()
    def time_passes(self) -> None:
        """Back-offs end, and every run that is under way is lost: its holder has crashed."""
        self.clock.advance(61)
        self.service.sweep()
        self._lose_runs()
        self._lose_edit()

    def _lose_runs(self) -> None:
        """What ends in one sweep ends in the order of the items."""
        for key in sorted(self.leases, key=self.items.__getitem__):
            task = self.model.tasks[key]
            task.runs = False
            if task.attempts >= 3:
                self.model.finish(key, "failed")
        for task in self.model.tasks.values():
            task.parked = False
        self.leases.clear()

    def _lose_edit(self) -> None:
        """A lost edit is offered again twice; the third loss closes the cycle, as does the deadline."""
        view = self.service.plan(self.plan)
        self.asked = None
        if self.model.cycle and view.cycle is None:
            self.model.give_up()

    @rule(key=keys)
    def cancel(self, key: str) -> None:
        if key in self.items and not self.model.tasks[key].runs:
            self._cancel(key)

    def _cancel(self, key: str) -> None:
        try:
            self.service.cancel(self.items[key], why="not needed")
        except ItemEnded:
            assert self.model.tasks[key].end
            return
        self.model.finish(key, "cancelled")

    @precondition(lambda self: self.model.ended())
    @rule(n=st.integers(0, 9))
    def retry(self, n: int) -> None:
        ended = self.model.ended()
        self._retry(ended[n % len(ended)])

    @precondition(lambda self: self.model.waited_for())
    @rule(n=st.integers(0, 9))
    def cancel_and_think_better_of_it(self, n: int) -> None:
        """What was cancelled because of a task comes back with it."""
        waited_for = self.model.waited_for()
        key = waited_for[n % len(waited_for)]
        self._cancel(key)
        self.they_agree()
        self._retry(key)

    def _retry(self, key: str) -> None:
        before = copy.deepcopy(self.model)
        back = self.model.retry(key)
        try:
            self.service.retry(self.items[key])
            assert back, f"{key} came back"
            self.model.tasks[key].attempts = min(self.model.tasks[key].attempts, 2)  # one more is granted
        except ItemEnded:
            assert not back, f"{key} did not come back"
            self.model = before

    # -- edits ------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.cycle and self.asked is None)
    @rule()
    def ask(self) -> None:
        self.asked = self.service.next(EDITOR, types=["plan.edit"])[0]

    @precondition(lambda self: self.asked is not None)
    @rule(data=st.data(), all_of_them=st.booleans())
    def answer(self, data: st.DataObject, all_of_them: bool) -> None:
        assert self.asked is not None
        wishes = data.draw(st.lists(operations(self.model), max_size=3))
        batch = self.service.plan_batch(self.asked.run)
        assert [c.key for c in batch.completions] == self.model.owed
        count = len(batch.completions)
        keep = count if all_of_them else max(1, count - 1)
        if self._edit(wishes, run=self.asked.run, through=batch.completions[keep - 1].n):
            self.asked = None
            self.model.answer(keep)

    @precondition(lambda self: self.asked is not None)
    @rule()
    def fail_to_answer(self) -> None:
        assert self.asked is not None
        self.service.fail([Report(run=self.asked.run, retry=False)])
        self.asked = None
        self.model.give_up()

    @precondition(lambda self: self.model.cycle)
    @rule()
    def deadline_passes(self) -> None:
        late = self.asked
        self.clock.advance(DEADLINE_S)
        self.service.sweep()
        self.model.give_up()
        self.asked = None
        self._lose_runs()
        if late is not None:
            with pytest.raises(InterlockError):
                self.service.edit_plan(self.plan, base=1, operations=[], run=late.run)

    @rule(data=st.data())
    def operate(self, data: st.DataObject) -> None:
        self._edit(data.draw(st.lists(operations(self.model), min_size=1, max_size=3)))

    def _edit(self, wishes: list[Operation], run: str | None = None, through: int | None = None) -> bool:
        before = copy.deepcopy(self.model)
        lawful = self._apply(wishes)
        if run is None:
            lawful = lawful and not before.cycle and not before.over
        if not lawful:
            self.model = before
        try:
            edited = self.service.edit_plan(
                self.plan, base=before.revision, operations=wishes, run=run, through=through
            )
            assert lawful, f"{wishes} should have been refused"
            self.model.revision = edited.revision
        except InterlockError:
            if lawful:
                raise
            return False
        self._learn()
        return True

    def _apply(self, wishes: list[Operation]) -> bool:
        """What the operations make of the model, and whether all of them are lawful; tasks before edges."""
        gone: set[tuple[str, str]] = set()
        new: set[str] = set()
        lawful = all(self._apply_task(wish, new, gone) for wish in wishes)
        old = copy.deepcopy(self.model.edges)
        lawful = lawful and all(self._apply_edge(wish, gone, set(old)) for wish in wishes)
        for pair, was in old.items():
            now = self.model.edges.get(pair)
            if now is not None and (now.when, now.on_cancel) == (was.when, was.on_cancel):
                now.state = was.state
        if not lawful or not acyclic(set(self.model.tasks), set(self.model.edges)):
            return False
        self.model.settle()
        return True

    def _apply_task(self, wish: Operation, new: set[str], gone: set[tuple[str, str]]) -> bool:
        model = self.model
        if isinstance(wish, AddTask):
            if wish.task.key in model.tasks:
                return False
            model.tasks[wish.task.key] = Task()
            new.add(wish.task.key)
        elif isinstance(wish, RemoveTask):
            if wish.key not in model.tasks or wish.key in new or not model.unstarted(wish.key):
                return False
            del model.tasks[wish.key]
            gone |= {p for p in model.edges if wish.key in p}
            model.edges = {p: e for p, e in model.edges.items() if p not in gone}
        return True

    def _apply_edge(self, wish: Operation, gone: set[tuple[str, str]], old: set[tuple[str, str]]) -> bool:
        """`old` are the edges that the edit has found: one that it adds itself it changes no more."""
        model = self.model
        if isinstance(wish, AddEdge):
            edge = wish.edge
            known = edge.source in model.tasks and edge.target in model.tasks
            if not known or edge.source == edge.target or edge.pair in model.edges:
                return False
            if not model.unstarted(edge.target):
                return False
            model.edges[edge.pair] = Edge(edge.when.value, edge.on_cancel.value)
        elif isinstance(wish, RemoveEdge | UpdateEdge):
            pair = (wish.source, wish.target)
            if isinstance(wish, RemoveEdge) and pair in gone:
                return True
            if pair not in model.edges or pair not in old or not model.unstarted(wish.target):
                return False
            if isinstance(wish, RemoveEdge):
                del model.edges[pair]
            else:
                assert wish.when is not None
                model.edges[pair].when, model.edges[pair].state = wish.when.value, "open"
        return True

    @rule()
    def pause_or_resume(self) -> None:
        if self.model.over:
            return
        if self.model.paused:
            self.service.resume_plan(self.plan)
        else:
            self.service.pause_plan(self.plan, why="a break")
        self.model.paused = not self.model.paused

    # -- what always holds ------------------------------------------------------------------------

    @invariant()
    def they_agree(self) -> None:
        if not self.plan:
            return
        view = self.service.plan(self.plan)
        wanted = {k: self.model.status(k) for k in self.model.tasks}
        assert {t.key: t.status for t in view.tasks} == wanted
        assert (view.cycle is not None, view.revision) == (self.model.cycle, self.model.revision)
        assert view.status == self.model.outcome
        assert {(e.source, e.target): e.state for e in view.edges} == self.model.edge_states()
        (counted,) = self.service.plans(ended=True, limit=1)
        assert (counted.open_tasks, counted.completed, counted.failed) == self.model.counts()
        if view.cycle is not None:
            assert list(view.cycle.pending) == self.model.owed

    def teardown(self) -> None:
        """Everything is worked off, and nothing is left over."""
        if not self.plan:
            return
        if self.model.paused and not self.model.over:
            self.service.resume_plan(self.plan)
        for _ in range(200):
            if self.service.plan(self.plan).ended_at is not None:
                break
            self.clock.advance(61)
            self.service.sweep()
            for lease in self.service.next("coder", types=["task"], limit=10):
                self.service.done([Report(run=lease.run)])
            for lease in self.service.next(EDITOR, types=["plan.edit"]):
                self.service.done([Report(run=lease.run)])
        view = self.service.plan(self.plan)
        assert view.ended_at is not None, f"nothing moves it: {view}"
        assert all(t.status in ("completed", "failed", "cancelled") for t in view.tasks)
        for task in view.tasks:
            attempts = [r.attempt for r in self.service.show(task.item).runs if r.status != "released"]
            assert attempts == sorted(set(attempts)), "a run is one attempt"
        broken = [c for c in self.service.doctor() if not c.ok and c.name != "clock_agrees"]
        assert [c for c in broken if c.name != "writes_are_durable"] == []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sqlite(tmp_path: Path, clock: Clock) -> Iterator[LocalService]:
    service = LocalService(SqliteStore(tmp_path / "plans.db", now=clock))
    yield service
    service.close()


@pytest.fixture
def postgres(pg_database18: str, clock: Clock) -> Iterator[LocalService]:
    service = LocalService(PostgresStore(pg_database18, now=clock))
    yield service
    service.close()


def keep_the_rules(service: LocalService, clock: Clock, examples: int) -> None:
    service.set_agent("coder")
    service.set_agent(EDITOR)
    machine = type("Machine", (PlansKeepTheRules,), {"service": service, "clock": clock})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=int(os.environ.get("INTERLOCK_MODEL_EXAMPLES", examples)),
            stateful_step_count=STEPS,
            phases=(Phase.generate,) if os.environ.get("INTERLOCK_MODEL_SHRINK") == "no" else tuple(Phase),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_plans_in_sqlite_keep_the_rules(sqlite: LocalService, clock: Clock) -> None:
    keep_the_rules(sqlite, clock, 40)


def test_plans_in_postgres_keep_the_rules(postgres: LocalService, clock: Clock) -> None:
    keep_the_rules(postgres, clock, 10)
