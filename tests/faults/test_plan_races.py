"""Plans are edited while tasks end and are claimed. Docstrings name the guard taken out to see them fail."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from interlock.core.errors import EditRefused
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, Graph, TaskSpec
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from interlock.service.plan_view import PlanView
from tests.faults import plan_racers
from tests.faults.plan_racers import replace_or_add, replacing
from tests.faults.processes import Actor, Crew, wait_until
from tests.faults.stores import assert_kept, is_sqlite, open_service, query
from tests.patience import PATIENCE_S

ROUNDS = int(os.environ.get("INTERLOCK_PLAN_ROUNDS", "200"))
CLAIMERS = 16
EDITOR = "planner"


def graph(*paths: str, **tasks: str) -> Graph:
    """Tasks by key, with the agent of some, and the edges along paths written as `A>B`."""
    edges = [EdgeSpec(source=s, target=t) for s, t in (path.split(">") for path in paths if ">" in path)]
    keys = dict.fromkeys(key for path in paths for key in path.split(">"))
    return Graph(tasks=tuple(TaskSpec(key=k, agent=tasks.get(k, "")) for k in keys), edges=tuple(edges))


def opened(url: str) -> LocalService:
    service = open_service(url)
    for agent in ("starter", EDITOR, "coder"):
        service.set_agent(agent)
    return service


def take(service: LocalService, agent: str, *, lease_s: float | None = None) -> LeaseView:
    types = ["plan.edit"] if agent == EDITOR else ["task"]
    leases = service.next(agent, types=types, wait_s=min(PATIENCE_S, 60), lease_s=lease_s)
    assert leases, f"there is nothing for {agent}"
    return leases[0]


def answer_until_ended(service: LocalService, plan: int) -> str:
    """Be an editor that changes nothing, until the plan is over."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (view := service.plan(plan)).ended_at is None:
        assert time.monotonic() < deadline_s, f"plan {plan} does not end: {view}"
        for lease in service.next(EDITOR, types=["plan.edit"], wait_s=0.02) if view.editor else ():
            service.edit_plan(plan, base=service.plan(plan).revision, operations=[], run=lease.run)
        service.sweep()
    return view.status


@pytest.fixture
def claimers(crew: Crew, url: str) -> list[Actor]:
    """Processes that claim and do whatever there is, as fast as they can."""
    opened(url).close()
    actors = crew.start_many(CLAIMERS, plan_racers.work_until_told, url, "coder")
    for actor in actors:
        assert actor.hear() == "there"
    return actors


class Balance:
    """Two steps that race. The second is put off a little after a round that it won, and the first after one
    that it lost: so each wins now and then, on any machine."""

    def __init__(self) -> None:
        self._lead_s = 0.0
        self._thread = ThreadPoolExecutor(1)

    def race(self, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
        """Do both at about the same time; what the second gives."""
        begun = self._thread.submit(_after, max(0.0, -self._lead_s), first)
        try:
            return _after(max(0.0, self._lead_s), second)
        finally:
            begun.result()

    def delay(self, more: bool) -> None:
        """Let the second begin later the next time, or earlier."""
        self._lead_s += random.uniform(0, 0.002) * (1 if more else -1)


def _after(span_s: float, step: Callable[[], Any]) -> Any:
    if span_s:
        time.sleep(span_s)
    return step()


def test_a_task_is_removed_in_time_or_the_edit_is_refused_and_its_replacement_always_runs(
    crew: Crew, claimers: list[Actor], url: str
) -> None:
    """16 claimers, while A ends and the editor puts B2 in the place of B: 200 rounds, of two kinds in turn.

    Where the end of A makes B ready, the cycle opens with it: nobody gets B before the edit, which is never
    refused. Where B is ready and the claimers are let loose on it as A ends, B may have started before the
    cycle opened; then the edit is refused and names it. Meanwhile the claimers have enough to do: B2, C and
    the cycles of their ends go on when the next round has begun.

    Taken out: `cycle_us IS NULL` in SQLite's `claim.sql`: B is claimed once A has ended, the edit refused.
    Taken out: the gate's `open` in PostgreSQL's, which is read a second time there, when it is locked: of 40
    rounds, 5 have tasks that started during a cycle.
    """
    service, other = opened(url), open_service(url)
    editor = crew.start(plan_racers.replace_until_told, url, EDITOR)
    assert editor.hear() == "there"
    outcomes: dict[str, dict[int, str]] = {"after": {}, "beside": {}}
    balance = Balance()
    for n in range(ROUNDS):
        kind = "beside" if n % 2 else "after"
        paths = ["A>B", "A>C"] if kind == "after" else ["A"]
        plan = service.create_plan("race", graph(*paths, A="starter"), editor=EDITOR)
        end_a = partial(service.done, [Report(run=start(service, plan, "A"))])
        if kind == "after":
            end_a()
        else:
            service.pause_plan(plan.id, why="on your marks")
            service.edit_plan(plan.id, base=1, operations=[AddTask(task=TaskSpec(key="B"))])
            balance.race(partial(other.resume_plan, plan.id), end_a)
        told, outcome = editor.hear()
        assert told == plan.id
        outcomes[kind][plan.id] = outcome
        if kind == "beside":
            balance.delay(outcome == "removed")
    assert set(outcomes["after"].values()) == {"removed"}
    assert_both(outcomes["beside"])
    check_rounds(service, [*claimers, editor], url, outcomes["after"] | outcomes["beside"])
    other.close()
    service.close()


def test_an_operators_edit_meets_claims_and_either_wins_as_a_whole(claimers: list[Actor], url: str) -> None:
    """No editor, so B may be claimed as soon as A has ended: then the edit is refused and says so.

    Taken out: the check of `started` in `Draft._unstarted`: the edit cancels tasks under their runs.
    """
    service, other = opened(url), open_service(url)
    outcomes: dict[int, str] = {}
    balance = Balance()
    for _ in range(ROUNDS // 4):
        plan = service.create_plan("race", graph("A>B", "Z", A="starter", Z="starter"))
        ends, last = Report(run=start(service, plan, "A")), Report(run=start(service, plan, "Z"))
        edit = partial(replace_or_add, partial(service.edit_plan, plan.id, base=1))
        outcomes[plan.id] = balance.race(partial(other.done, [ends]), edit)
        balance.delay(outcomes[plan.id] == "removed")
        service.done([last])
    assert_both(outcomes)
    check_rounds(service, claimers, url, outcomes)
    other.close()
    service.close()


def start(service: LocalService, plan: PlanView, key: str) -> str:
    """Claim a task of the starter's; the handle of its run."""
    item = next(t.item for t in plan.tasks if t.key == key)
    return service.next("starter", item=item, lease_s=60)[0].run


def assert_both(outcomes: dict[int, str]) -> None:
    """The race was one: each side has won. A few rounds may be too few for that."""
    counts = Counter(outcomes.values())
    assert set(counts) <= {"removed", "refused"}, counts
    assert len(counts) == 2 or len(outcomes) < 50, counts


def check_rounds(service: LocalService, actors: list[Actor], url: str, outcomes: dict[int, str]) -> None:
    """Wait for the end of every plan, then read what has happened in all of them."""
    wait_until(lambda: not service.plans(limit=1), "every plan ends")
    dismiss(actors)
    assert starts_during_a_cycle(url) == []
    rows = query(
        url,
        "SELECT i.plan, t.key, i.status, i.reason, count(e.seq) FROM items i JOIN tasks t ON t.item = i.id"
        " LEFT JOIN events e ON e.item = i.id AND e.kind = 'run.started' GROUP BY 1, 2, 3, 4",
    )
    found = {(plan, key): tuple(end) for plan, key, *end in rows}
    ran, gone = ("completed", "reported", 1), ("cancelled", "removed_by_edit", 0)
    for plan, outcome in outcomes.items():
        assert found[plan, "B2"] == ran, f"plan {plan}: B2 always runs"
        assert found[plan, "B"] == {"removed": gone, "refused": ran}[outcome], f"plan {plan}: {outcome}"
    assert_kept(url)


def test_no_task_starts_while_an_editor_owes_an_edit(claimers: list[Actor], url: str) -> None:
    """A wide plan: claims are under way whenever a task ends and a cycle opens.

    Taken out: the lock in `lock_gates.sql`. The clock is then read before the claims that were under way have
    ended, and their starts lie between the times at which a cycle opened and closed.
    """
    service = opened(url)
    keys = [f"w{n}" for n in range(ROUNDS // 4)]
    plan = service.create_plan("wide", graph(*keys), editor=EDITOR).id
    assert answer_until_ended(service, plan) == "completed"
    dismiss(claimers)
    assert starts_during_a_cycle(url) == []
    assert service.plan_stats(plan).completed == len(keys)
    assert_kept(url)
    service.close()


def test_three_ends_at_once_are_one_batch(crew: Crew, url: str) -> None:
    """Taken out: the plan's lane among those that a finish locks in PostgreSQL: two cycles, or a lost end.
    (SQLite has one writer at a time.)"""
    service = opened(url)
    for _ in range(max(3, ROUNDS // 60)):
        plan = service.create_plan("three", graph("A", "B", "C", "D"), editor=EDITOR).id
        leases = service.next("coder", limit=3, lease_s=60)
        assert set(crew.race_roles([x.run for x in leases], plan_racers.finish, url)) == {"succeeded"}
        asked = take(service, EDITOR)
        batch = service.plan_batch(asked.run)
        assert (batch.through, sorted(c.n for c in batch.completions)) == (3, [1, 2, 3])
        assert {c.result for c in batch.completions} == {"kept"}
        service.edit_plan(plan, base=1, operations=[], run=asked.run, through=3)
        service.cancel_plan(plan, why="enough")
        assert count(url, "plan.cycle_opened", plan) == 1
    assert_kept(url)
    service.close()


def test_an_end_during_an_edit_is_in_this_batch_or_the_next_and_its_result_survives(
    crew: Crew, url: str
) -> None:
    """Taken out: the plan's lane, as above: the later writer of the plan's row undoes the other."""
    service = opened(url)
    for _ in range(max(3, ROUNDS // 60)):
        plan = service.create_plan("during", graph("A>B", "X"), editor=EDITOR).id
        held = {lease.item.title: lease for lease in service.next("coder", limit=2, lease_s=60)}
        service.done([Report(run=held["A"].run)])
        asked = take(service, EDITOR, lease_s=60)
        roles = [("finish", held["X"].run, plan), ("edit", asked.run, plan)]
        assert crew.race_roles(roles, plan_racers.finish_or_edit, url) == ["succeeded", 2]
        view = service.plan(plan)
        assert {t.key: t.status for t in view.tasks} == {"A": "completed", "X": "completed", "B2": "pending"}
        assert view.cycle is not None
        assert view.cycle.pending == ("X",), "its end is not answered yet"
        again = take(service, EDITOR)
        assert [c.result for c in service.plan_batch(again.run).completions] == ["kept"]
        service.edit_plan(plan, base=2, operations=[], run=again.run)
        assert service.plan(plan).cycle is None
        service.cancel_plan(plan, why="enough")
    assert_kept(url)
    service.close()


def test_an_editor_that_is_killed_is_asked_again_and_the_edit_happens_once(crew: Crew, url: str) -> None:
    """kill -9 at any moment of the edit: it is there as a whole, or not at all and somebody else is asked."""
    service = opened(url)
    for n in range(max(4, ROUNDS // 50)):
        plan = service.create_plan("killed", graph("A>B", A="starter"), editor=EDITOR).id
        service.done([Report(run=take(service, "starter").run)])
        actor = crew.start(plan_racers.edit_when_told, url, EDITOR, plan, 1)
        actor.hear()
        actor.tell()
        if n:
            time.sleep(random.uniform(0, 0.012))
        actor.kill()
        lost = wait_until(partial(settled, service, plan), "the edit is there, or it is offered again")
        if lost == "offered":
            asked = take(service, EDITOR)
            service.edit_plan(plan, base=1, operations=replacing("B", "B2", "A"), run=asked.run)
        assert [r.revision for r in service.plan_history(plan)] == [1, 2]
        assert take(service, "coder").item.title == "B2"
        service.cancel_plan(plan, why="enough")
        wait_until(partial(ended, service, plan), "the plan ends")
    assert_kept(url)
    service.close()


def ended(service: LocalService, plan: int) -> bool:
    service.sweep()
    return service.plan(plan).ended_at is not None


def settled(service: LocalService, plan: int) -> str:
    service.sweep()
    view = service.plan(plan)
    if view.cycle is None:
        return "edited"
    return "offered" if view.cycle.run is None else ""


def test_an_editor_that_stops_past_its_deadline_is_not_waited_for(crew: Crew, url: str) -> None:
    """Claiming resumes, the late edit is refused and counted, and a task that runs meanwhile stays.

    Its lease would last longer. Taken out: the plans past their deadline in `due.sql`: nothing is claimed.
    """
    service = opened(url)
    plan = service.create_plan("late", graph("A>B", "X", A="starter"), editor=EDITOR, edit_deadline_s=1).id
    running = take(service, "coder", lease_s=60)
    assert running.item.title == "X"
    service.done([Report(run=take(service, "starter").run)])
    actor = crew.start(plan_racers.edit_when_told, url, EDITOR, plan, 60)
    actor.hear()
    actor.stop()
    assert take(service, "coder", lease_s=60).item.title == "B"
    actor.go_on()
    actor.tell()
    assert actor.join() == "edit_cycle_expired"
    stats = service.plan_stats(plan)
    assert (stats.revision, stats.edits_timed_out, stats.edits_refused) == (1, 1, 0)
    assert service.done([Report(run=running.run)])[0].status == "succeeded"
    assert_kept(url)
    service.close()


def test_two_edits_at_once_from_the_same_base_do_not_both_win(url: str) -> None:
    """One is rebased on the other, or refused: here both want the same edge."""
    service, other = opened(url), open_service(url)
    plan = service.create_plan("two", graph("A", "B")).id
    wish = [AddEdge(edge=EdgeSpec(source="A", target="B"))]
    service.edit_plan(plan, base=1, operations=wish, by="one")
    with pytest.raises(EditRefused, match="A → B was added in revision 2 by one"):
        other.edit_plan(plan, base=1, operations=wish, by="two")
    assert_kept(url)
    other.close()
    service.close()


def dismiss(actors: list[Actor]) -> None:
    for actor in actors:
        actor.tell("enough")
    assert sum(actor.join() for actor in actors) > 0


def count(url: str, kind: str, plan: int) -> int:
    return int(
        query(url, f"SELECT count(*) FROM events WHERE kind = '{kind}' AND lane = 'plan:{plan}'")[0][0]
    )


def starts_during_a_cycle(url: str) -> list[tuple[int, int]]:
    """Tasks that were started after the time at which a cycle of their plan opened and before it closed."""
    spans: dict[int, list[tuple[int, int]]] = {}
    kinds = "'plan.cycle_opened', 'plan.cycle_closed'"
    bounds = query(url, f"SELECT lane, kind, at_us FROM events WHERE kind IN ({kinds}) ORDER BY at_us, seq")
    for lane, kind, at_us in bounds:
        cycles = spans.setdefault(int(lane.removeprefix("plan:")), [])
        if kind == "plan.cycle_opened":
            cycles.append((at_us, sys.maxsize))
        else:
            cycles[-1] = (cycles[-1][0], at_us)
    starts = query(
        url,
        "SELECT i.id, i.plan, s.at_us FROM items i JOIN events s ON s.item = i.id AND s.kind = 'run.started'"
        " WHERE i.plan IS NOT NULL",
    )
    return [
        (item, plan)
        for item, plan, at_us in starts
        if any(opened_us < at_us < closed_us for opened_us, closed_us in spans.get(plan, ()))
    ]


def test_the_question_for_starts_during_a_cycle_finds_one(url: str) -> None:
    """The check of the first race has power."""
    service = opened(url)
    plan = service.create_plan("one", graph("A", "B", A="starter"), editor=EDITOR).id
    service.done([Report(run=take(service, "starter").run)])
    service.edit_plan(plan, base=1, operations=[], run=take(service, EDITOR).run)
    assert starts_during_a_cycle(url) == []
    take(service, "coder", lease_s=60)
    opened_us = query(url, "SELECT at_us FROM events WHERE kind = 'plan.cycle_opened'")[0][0]
    table = "events" if is_sqlite(url) else "interlock.events"
    query(url, f"UPDATE {table} SET at_us = {opened_us + 1} WHERE kind = 'run.started' AND agent = 'coder'")
    assert len(starts_during_a_cycle(url)) == 1
    service.close()
