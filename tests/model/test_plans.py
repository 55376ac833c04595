"""Random graphs, edits, ends and crashes, said to a plain model of plans and to the real stores alike.

After every step all statuses agree, a claim gives exactly what the model allows, and an edit is refused
exactly when the model refuses it, be it operations or a whole graph, made for the plan as it stands or for an
earlier revision. In the end every plan is worked off: every task has ended, ran at most once an
attempt, and never before its predecessors allowed it.

Two things are not predicted but held to what must be true: which of several tasks on one lane goes first, and
how the tasks of a cancelled plan end.

    INTERLOCK_MODEL_EXAMPLES=500 make test ARGS="tests/model/test_plans.py -k sqlite"
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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

from interlock.core.errors import InterlockError, ItemEnded
from interlock.core.plans.model import EdgeSpec, EditOperation, Graph
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.model.plan_edits import (
    KEYS,
    WORKERS,
    Editing,
    conflicting,
    difference,
    graph_of,
    on_cancels,
    operations,
    spec,
    wanted,
    whens,
)
from tests.model.plan_reference import Edge, PlanReference, Shape, Wanted

EDITOR = "planner"
DEADLINE_S = 300
STEPS = 40

pytestmark = pytest.mark.slow

keys = st.sampled_from(KEYS)
hows = st.sampled_from(["done", "done", "done", "fail for good", "fail", "release"])


class PlansKeepTheRules(RuleBasedStateMachine):
    """One plan a run, on a store that all runs share."""

    service: LocalService
    clock: Clock
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.model = PlanReference(has_editor=False)
        self.plan = 0
        self.items: dict[str, int] = {}
        self.leases: dict[str, LeaseView] = {}
        self.asked: LeaseView | None = None
        self.deadline_s = DEADLINE_S
        self.lane = ""

    @initialize(
        data=st.data(),
        has_editor=st.sampled_from([True, True, False]),
        size=st.integers(1, 6),
    )
    def begin(self, data: st.DataObject, has_editor: bool, size: int) -> None:
        self.model = PlanReference(has_editor=has_editor)
        self.lane = f"deploy:{next(self.numbers)}"
        for key in KEYS[:size]:
            self.model.bear(key, data.draw(wanted(self.lane)))
        pairs = [(s, t) for n, s in enumerate(KEYS[:size]) for t in KEYS[n + 1 : size]]
        chosen = data.draw(
            st.lists(st.sampled_from(pairs), unique=True, max_size=6) if pairs else st.just([])
        )
        specs = [
            EdgeSpec(source=s, target=t, when=data.draw(whens), on_cancel=data.draw(on_cancels))
            for s, t in chosen
        ]
        self.model.edges = {e.pair: Edge(e.when.value, e.on_cancel.value) for e in specs}
        self.model.shapes.append(self.model.shape())
        self.model.settle()
        self.plan = self.service.create_plan(
            "model",
            graph_of(self.model.shape()),
            editor=EDITOR if has_editor else "",
            edit_deadline_s=self.deadline_s,
        ).id
        self._learn()

    def _learn(self) -> None:
        self.items = {t.key: t.item for t in self.service.plan(self.plan).tasks}

    # -- tasks ------------------------------------------------------------------------------------

    @rule(limit=st.integers(1, 3), who=st.sampled_from([*WORKERS]))
    def claim(self, limit: int, who: str) -> None:
        """Exactly what may be claimed, but for lanes: of tasks that share one, at most one at a time."""
        leases = self.service.next(who, types=["task"], limit=limit)
        tasks = self.model.tasks
        allowed = self.model.claimable(who, WORKERS[who])
        at_least = len([k for k in allowed if tasks[k].wanted.lane is None])
        assert min(limit, at_least) <= len(leases) <= min(limit, len(allowed)), f"{leases} of {allowed}"
        for lease in leases:
            key = next(k for k, item in self.items.items() if item == lease.item.id)
            assert key in allowed
            held = [k for k in self.leases if tasks[k].wanted.lane is not None]
            assert tasks[key].wanted.lane is None or not held, f"{key} starts while {held} hold its lane"
            tasks[key].runs = tasks[key].started = True
            tasks[key].attempts += 1
            self.leases[key] = lease

    @precondition(lambda self: not self.model.cancelled)
    @rule(who=st.sampled_from([*WORKERS]), how=hows)
    def work(self, who: str, how: str) -> None:
        """Claim something and end it, or whatever else is under way."""
        self.claim(1, who)
        if self.leases:
            self.end(0, how)

    @precondition(lambda self: self.leases and not self.model.cancelled)
    @rule(n=st.integers(0, 9), how=hows)
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
    @precondition(lambda self: not self.model.cancelled)
    @rule()
    def time_passes(self) -> None:
        """Back-offs end, and every run that is under way is lost: its holder has crashed."""
        self._pass(61)

    def _pass(self, span_s: float) -> None:
        """A lost edit is offered again twice; the third loss closes the cycle, as does the deadline. A cycle
        that is open after that is one that the end of a task has opened anew."""
        before = self._given_up()
        self.clock.advance(span_s)
        self.service.sweep()
        closed = self._given_up() > before
        again = self.service.plan(self.plan).cycle is not None
        self.asked = None
        if closed and again:
            self.model.give_up()
        self._lose_runs()
        if closed and not again:
            self.model.give_up()

    def _given_up(self) -> int:
        stats = self.service.plan_stats(self.plan)
        return stats.edits_timed_out + stats.edits_failed

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

    @precondition(lambda self: not self.model.cancelled)
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

    @precondition(lambda self: self.model.ended() and not self.model.cancelled)
    @rule(n=st.integers(0, 9))
    def retry(self, n: int) -> None:
        ended = self.model.ended()
        self._retry(ended[n % len(ended)])

    @precondition(lambda self: self.model.waited_for() and not self.model.cancelled)
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

    @precondition(lambda self: self.model.cycle)
    @rule(data=st.data(), all_of_them=st.booleans())
    def answer(self, data: st.DataObject, all_of_them: bool) -> None:
        if self.asked is None:
            self.ask()
        assert self.asked is not None
        batch = self.service.plan_batch(self.asked.run)
        assert [c.key for c in batch.completions] == self.model.owed
        count = len(batch.completions)
        keep = count if all_of_them else max(1, count - 1)
        if self._draw_edit(data, run=self.asked.run, through=batch.completions[keep - 1].n):
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
        self._pass(max(61, self.deadline_s))
        if late is not None:
            with pytest.raises(InterlockError):
                self.service.edit_plan(self.plan, base=1, operations=[], run=late.run)

    @precondition(lambda self: not self.model.cycle and not self.model.over)
    @rule(data=st.data(), count=st.integers(1, 4))
    def operate(self, data: st.DataObject, count: int) -> None:
        """Some edits in a row, so that there are revisions to be behind of."""
        for _ in range(count):
            self._draw_edit(data)
            self.they_agree()

    @precondition(lambda self: self.model.cycle or self.model.over)
    @rule(data=st.data())
    def operate_out_of_turn(self, data: st.DataObject) -> None:
        self._draw_edit(data)

    def _draw_edit(self, data: st.DataObject, **answer: Any) -> bool:
        """Operations or a whole graph, made for the plan as it stands or as it was some revisions ago: mostly
        such as are allowed."""
        base = max(1, self.model.revision + data.draw(st.sampled_from([0, 0, 0, 0, -1, -1, -2, -9, 1])))
        if base > self.model.revision or data.draw(st.integers(0, 3)):
            lawful = data.draw(st.integers(0, 5)) > 0
            some = operations(self.model, self.lane, lawful)
            wishes = [
                wish for drawn in data.draw(st.lists(some, min_size=lawful, max_size=3)) for wish in drawn
            ]
            return self._edit(base, wishes, operations=wishes, **answer)
        then = self.model.shapes[base - 1]
        graph = self._draw_graph(data, then)
        return self._edit(base, difference(graph_of(then), graph), graph=graph, **answer)

    def _draw_graph(self, data: st.DataObject, then: Shape) -> Graph:
        """A graph with some of the tasks and edges of another; mostly what has started stays."""
        started = {k for k in self.model.tasks if not self.model.unstarted(k)}
        loose = sorted(then.tasks.keys() - started if data.draw(st.integers(0, 5)) else then.tasks)
        gone = set(data.draw(st.lists(st.sampled_from(loose), max_size=2)) if loose else ())
        before = graph_of(then)
        tasks = {t.key: t for t in before.tasks if t.key not in gone}
        more = sorted(set(KEYS) - tasks.keys() - gone)
        for key in data.draw(st.lists(st.sampled_from(more), max_size=2)) if more else ():
            tasks[key] = spec(key, data.draw(wanted(self.lane)))
        edges = {e.pair: e for e in before.edges if e.source in tasks and e.target in tasks}
        new = [(s, t) for s in tasks for t in tasks if s != t and t not in started]
        for s, t in data.draw(st.lists(st.sampled_from(new), max_size=2)) if new else ():
            if edges.pop((s, t), None) is None:
                edges[s, t] = EdgeSpec(source=s, target=t, when=data.draw(whens))
        return Graph(tasks=tuple(tasks.values()), edges=tuple(edges.values()))

    def _edit(self, base: int, wishes: list[EditOperation], run: str | None = None, **edit: Any) -> bool:
        """Said to both: they refuse alike, and what is refused has changed nothing."""
        before = copy.deepcopy(self.model)
        lawful = 1 <= base <= before.revision and not conflicting(wishes, before.shapes[base - 1 :])
        lawful = lawful and not before.cancelled and Editing(self.model).apply(wishes)
        if run is None:
            lawful = lawful and not before.cycle and not before.over
        changes = lawful and self.model.shape() != before.shapes[-1]
        if changes:
            self.model.shapes.append(self.model.shape())
        if not lawful:
            self.model = before
        try:
            edited = self.service.edit_plan(self.plan, base=base, run=run, **edit)
            assert lawful, f"{wishes} should have been refused"
            assert edited.rebased == (changes and base < before.revision)
        except InterlockError:
            if lawful:
                raise
            return False
        self._learn()
        return True

    @precondition(lambda self: self.model.revision)
    @rule(n=st.integers(0, 9))
    def remember(self, n: int) -> None:
        """The graph as any revision had it."""
        revision = n % self.model.revision + 1
        then, now = graph_of(self.model.shapes[revision - 1]), self.service.plan_at(self.plan, revision)
        assert difference(then, now) == []

    @rule(deadline_s=st.sampled_from([30, DEADLINE_S, 3 * DEADLINE_S]))
    def set_deadline(self, deadline_s: int) -> None:
        """It holds for the cycle that is open, which may thereby be over."""
        self.service.set_edit_deadline(self.plan, deadline_s)
        self.deadline_s = deadline_s
        self.service.sweep()
        if self.model.cycle and self.service.plan(self.plan).cycle is None:
            self.asked = None
            self.model.give_up()

    @precondition(lambda self: self.model.revision > 3 and not self.model.over and not self.model.cancelled)
    @rule()
    def cancel_plan(self) -> None:
        """From here on only what must hold is looked at: nothing starts, no edit is taken, ends stay."""
        self.service.cancel_plan(self.plan, why="enough")
        self.model.cancelled, self.model.cycle, self.asked = True, False, None

    @precondition(lambda self: self.leases and self.model.cancelled)
    @rule(n=st.integers(0, 9))
    def end_all_the_same(self, n: int) -> None:
        key = sorted(self.leases)[n % len(self.leases)]
        self.service.done([Report(run=self.leases.pop(key).run)])
        self.model.tasks[key].end = "completed"

    @rule()
    def pause_or_resume(self) -> None:
        if self.model.over or self.model.cancelled:
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
        assert (view.cycle is not None, view.revision) == (self.model.cycle, self.model.revision)
        if self.model.cancelled:
            ends = {k: t.end for k, t in self.model.tasks.items() if t.end}
            assert {t.key: t.status for t in view.tasks if t.key in ends} == ends
            assert view.status == "cancelled"
            return
        asked = {t.key: Wanted(t.agent or "", t.labels, t.lane, t.priority) for t in view.tasks}
        assert asked == {k: t.wanted for k, t in self.model.tasks.items()}
        behind = {t.key for t in view.tasks if t.status == "deferred"}
        assert all(self.model.tasks[key].wanted.lane for key in behind)
        found = {t.key: "pending" if t.key in behind else t.status for t in view.tasks}
        assert found == {k: self.model.status(k) for k in self.model.tasks}
        assert view.status == self.model.outcome
        assert {(e.source, e.target): e.state for e in view.edges} == self.model.edge_states()
        (counted,) = self.service.plans(ended=True, limit=1)
        assert (counted.open_tasks, counted.completed, counted.failed) == self.model.counts()
        if view.cycle is not None:
            # In which order tasks on a lane end in one sweep is not told here.
            assert sorted(view.cycle.pending) == sorted(self.model.owed)
            lanes = any(t.wanted.lane for t in self.model.tasks.values())
            assert lanes or list(view.cycle.pending) == self.model.owed
            self.model.owed = list(view.cycle.pending)

    def teardown(self) -> None:
        """Everything is worked off, and nothing is left over."""
        if not self.plan:
            return
        if self.model.paused and not self.model.over and not self.model.cancelled:
            self.service.resume_plan(self.plan)
        for _ in range(200):
            if self.service.plan(self.plan).ended_at is not None:
                break
            self.clock.advance(61)
            self.service.sweep()
            for who in WORKERS:
                for lease in self.service.next(who, types=["task"], labels=["gpu"], limit=10):
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
    service = LocalService(PostgresStore(Database(pg_database18, now=clock)))
    yield service
    service.close()


def keep_the_rules(service: LocalService, clock: Clock, examples: int) -> None:
    for name, labels in {**WORKERS, EDITOR: ()}.items():
        service.set_agent(name, labels=labels)
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
