"""What the rules say of one of those that end alike is what they say of each.

Taken out one by one: that states, projects, errors, and heirs' projects and times to be claimed are the same,
that runs are live; each shows, the times in `tests/conformance/test_finish_anywhere.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from interlock.core.commands import Ended, Finish, Outcome
from interlock.core.decide import decide
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import Event, Item, Policy, RunId, RunRecord, State
from interlock.core.states import ItemStatus
from interlock.store.postgres.plain_ends import Changed, End, decided, paired, spread, stands_alone
from interlock.store.rows import was_promoted
from tests.unit.world import World

LANES = [f"lane:{n}" for n in range(6)]
#: Mostly alike, as batches are.
SORTS: list[dict[str, Any]] = [
    *({} for _ in range(12)),
    *({"project": "two"}, {"agent": "planner"}, {"message": "hello"}, {"position": 1}),
    *({"policy": Policy.LATEST}, {"policy": Policy.COALESCE}, {"claim_within_s": 9.0}, {"timeout_s": 7.0}),
]
ITEMS = st.lists(
    st.tuples(st.sampled_from([None, *LANES]), st.sampled_from(SORTS)).map(lambda d: {"lane": d[0], **d[1]}),
    min_size=4,
    max_size=16,
)
#: What becomes of the runs of a round, by turns, and how long it takes; then all that is ready starts again.
ROUNDS = st.lists(
    st.tuples(
        st.lists(
            st.sampled_from(["done", "done", "nothing", "fail", "release", "tell", "stop"]),
            min_size=1,
            max_size=5,
        ),
        st.sampled_from([1, 100]),
    ),
    max_size=3,
)
REPORTS: list[dict[str, Any]] = [*({} for _ in range(4)), {"result": "1"}, {"error": "odd"}, {"seen": 1}]


def start_all(world: World, agent: str) -> None:
    for item in [i.id for i in world.items.values() if i.state.ready]:
        world.start(item, agent)


def play(items: list[dict[str, Any]], rounds: list[tuple[list[str], int]]) -> tuple[World, list[Item]]:
    """A world in which runs are under way, and those that stand alone."""
    world = World()
    for fields in items:
        world.add(**fields)
    start_all(world, "coder")
    for turns, span_s in rounds:
        running = [i.id for i in world.items.values() if i.status is ItemStatus.IN_PROGRESS]
        for n, item in enumerate(running):
            match turns[n % len(turns)]:
                case "tell":
                    world.tell(item, "one more thing")
                case "stop":
                    world.cancel(item)
                case "nothing":
                    pass
                case verb:
                    world.finish(item, Outcome(verb))
        world.pass_s(span_s)
        for item in [i.id for i in world.items.values() if i.overdue(world.now_us)]:
            world.expire(item)
        start_all(world, "coder" if span_s > 1 else "other")
    world.pass_s(1)
    running_now = [i for i in world.items.values() if i.status is ItemStatus.IN_PROGRESS]
    return world, [i for i in running_now if stands_alone(i)]


def claimed_with(item: Item) -> State:
    """What items of one claim have in common."""
    return item.state._replace(run=None, promoted_from=None)


def heads_of(world: World) -> dict[str | None, tuple[Item, int]]:
    return {lane: (world.items[line[0]], 1) for lane in LANES if (line := world.line(lane))}


def by_names(ends: list[End], decision: Decision) -> tuple[list[RunRecord], list[Event]]:
    """The runs and the lines of history of all, as `settle_alike` makes them of those of one."""
    runs, events = [], []
    for report, item, _, heir, _ in ends:
        runs.append(decision.runs[0]._replace(run=report.run, item=item.id, result=report.result))
        told: dict[str, Any] = {"item": item.id, "run": report.run, "lane": item.spec.lane}
        events.append(decision.events[0]._replace(**told))
        if heir is not None:
            agent = heir.spec.agent_key
            data = {"from_run": report.run, "to_item": heir.id, "agent_key": agent}
            transfer = {**told, "item": heir.id, "agent": agent, "data": data}
            events.append(decision.events[1]._replace(**transfer))
    return runs, events


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(items=ITEMS, rounds=ROUNDS, said=st.lists(st.sampled_from(REPORTS), min_size=1, max_size=3))
def test_one_decision_stands_for_all_that_end_alike(
    items: list[dict[str, Any]], rounds: list[tuple[list[str], int]], said: list[dict[str, Any]]
) -> None:
    world, running = play(items, rounds)
    # Whoever runs many at once mostly claimed them at once; of the rest a few come along.
    first = Counter(map(claimed_with, running)).most_common(1)
    known = [i for i in running if claimed_with(i) == first[0][0] or i.id % 5 == 0]
    assume(len(known) > 1)
    reports = [
        Finish(run=world.run_of(i.id), item=i.id, outcome=Outcome.DONE, **said[n % len(said)])
        for n, i in enumerate(known)
    ]
    try:
        ends = paired([(item, 1) for item in known], reports, heads_of(world))
        decision = decided(ends, world.now_us, world.timing)
    except Changed:
        event("the long way")
        return
    event("the short way")
    whole = decide(Snapshot(items=dict(world.items)), reports, world.now_us, world.timing)
    short = spread(decision, ends, reports)
    assert short.answers == whole.answers
    assert short.after == {item.id: whole.after[item.id] for item in known}
    assert short.wakes == whole.wakes
    runs, events = by_names(ends, decision)
    assert runs == whole.runs
    assert events == whole.events
    assert {end.heir.id for end in ends if end.heir is not None} == {item.id for item in whole.raised}
    assert all(was_promoted(world.items[item.id], item) for item in whole.raised)


def ends_of(world: World, *fields: dict[str, Any]) -> tuple[list[tuple[Item, int]], list[Finish]]:
    ids = [world.put_running(lane=None, **f) for f in fields]
    reports = [Finish(run=world.run_of(i), item=i, outcome=Outcome.DONE) for i in ids]
    return [(world.items[i], 1) for i in ids], reports


def test_a_run_that_is_not_the_items_is_no_plain_end() -> None:
    known, reports = ends_of(World(), {}, {})
    with pytest.raises(Changed):
        paired(known, [reports[0], reports[1]._replace(run=RunId(77))], {})


def test_two_reports_of_one_run_are_no_plain_end() -> None:
    known, reports = ends_of(World(), {})
    with pytest.raises(Changed):
        paired(known, [*reports, *reports], {})


def test_each_answer_stands_where_its_report_stood() -> None:
    world = World()
    known, reports = ends_of(world, {}, {}, {})
    turned = reports[::-1]
    ends = paired(known, turned, {})
    answers: list[Ended] = spread(decided(ends, world.now_us, world.timing), ends, turned).answers
    assert [a.item for a in answers] == [r.item for r in turned]
