"""What a series does next: every small world comes to what the plain model says, and stays there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.core.series.decision import (
    Assign,
    EndRun,
    NoteAssignment,
    Release,
    SetMemberGate,
    Start,
    Unassign,
    decide,
)
from interlock.core.series.snapshot import (
    AssignmentLooks,
    Departure,
    LanePlacement,
    Member,
    RolloutStage,
    SeriesFacts,
    SeriesOptions,
    SeriesSnapshot,
    Stopped,
    Unassigned,
    position,
)
from tests.unit.series.model import World, check

NEEDS = [((), ()), (("#90",), ()), (("#{other}",), ("{other}",))]


def member(number: int, *, assigned: bool = False, needs: int = 0, other: int = 0) -> Member:
    words, own = NEEDS[needs]
    return Member(
        number=number,
        micro=number,
        assigned=("alice",) if assigned else (),
        needs=tuple(word.format(other=other) for word in words),
        needs_own=(other,) if own else (),
    )


def worlds(mode: RolloutStage) -> Iterator[World]:
    """Every world of two issues: assigned, in need, given back, placed, active, open at all."""
    each = list(product([False, True], range(3), [None, False, True], [False, True], [True, False]))
    for one, two, active in product(each, each, (0, 1, 2)):
        world = World(members={}, choices=SeriesOptions(stage=mode))
        for number, (assigned, needs, released, placed, is_open) in ((1, one), (2, two)):
            if is_open:
                world.members[number] = member(number, assigned=assigned, needs=needs, other=3 - number)
            elif needs or assigned:
                break  # the same as without
            if released is not None:
                world.released[number] = released
            if placed or active == number:
                run = 7 if active == number else None
                at = position(Member(number=number, micro=number))
                world.placed.append(LanePlacement(item=number, number=number, position=at, run=run))
        else:
            if active:
                world.placed.sort(key=lambda p: p.run is None)
            # Who is closed is needed by nobody.
            for number, found in list(world.members.items()):
                if found.needs_own and found.needs_own[0] not in world.members:
                    world.members[number] = member(number, assigned=bool(found.assigned))
            yield world


@pytest.mark.parametrize("mode", [RolloutStage.OBSERVE, RolloutStage.ENFORCE])
def test_every_world_of_two_issues_comes_to_what_the_model_says(mode: RolloutStage) -> None:
    count = 0
    for world in worlds(mode):
        check(world)
        assert decide(world.facts(), world.snapshot(), world.choices, world.now_s) == ()
        count += 1
    assert count > 5_000


@st.composite
def any_world(draw: st.DrawFn) -> World:
    numbers = list(range(1, draw(st.integers(1, 5)) + 1))
    world = World(members={}, choices=SeriesOptions(stage=draw(st.sampled_from(RolloutStage))))
    for number in numbers:
        if draw(st.integers(0, 5)):
            own = draw(st.sampled_from([0, 0, 0, *numbers]))
            needs = 2 if own and own != number else draw(st.integers(0, 1))
            world.members[number] = member(number, assigned=draw(st.booleans()), needs=needs, other=own)
        if draw(st.integers(0, 3)) == 0:
            world.released[number] = draw(st.booleans())
        for copy in range(draw(st.integers(0, 2))):
            at = draw(st.sampled_from([position(Member(number=number, micro=number)), 7]))
            world.placed.append(LanePlacement(item=10 * number + copy, number=number, position=at))
        if draw(st.integers(0, 1)):
            world.gates[number] = draw(st.booleans())
    for number, found in list(world.members.items()):
        if found.needs_own and found.needs_own[0] not in world.members:
            world.members[number] = member(number, assigned=bool(found.assigned))
    world.placed = list(draw(st.permutations(world.placed)))
    if draw(st.integers(0, 1)) and world.placed:
        first = world.placed[0]
        stopped = draw(st.sampled_from(Stopped))
        owner = LanePlacement(
            item=first.item, number=first.number, position=first.position, run=7, stopped=stopped
        )
        world.placed[0] = owner
    return world


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_world())
def test_any_world_settles_and_never_has_two(world: World) -> None:
    wrong_place = any(p.run is not None and p.position == 7 for p in world.placed)
    if any(p.stopped is Stopped.WITHDRAWN for p in world.placed) or wrong_place:
        world.settle()  # the model has no word for it
    else:
        check(world)
    assert decide(world.facts(), world.snapshot(), world.choices, world.now_s) == ()


# -- single steps ------------------------------------------------------------------------------------------


def active(number: int = 1, run: int = 7, **more: object) -> LanePlacement:
    at = position(Member(number=number, micro=number))
    return LanePlacement(item=number, number=number, position=at, run=run, **more)  # type: ignore[arg-type]


def test_a_handover_shuts_the_gate_waits_for_the_runs_and_only_then_ends() -> None:
    facts = SeriesFacts(members=(member(2),), left={1: Departure.COMPLETED})
    opened = SeriesSnapshot(placed=(active(),), gates={1: True, 2: False})
    assert decide(facts, opened, SeriesOptions(), 0) == (
        SetMemberGate(1, False, "closed by a merged pull request"),
    )
    busy = SeriesSnapshot(placed=(active(),), gates={1: False, 2: False}, busy=frozenset({1}))
    assert decide(facts, busy, SeriesOptions(), 0) == ()
    ended = SeriesSnapshot(placed=(active(),), gates={1: False, 2: False})
    assert decide(facts, ended, SeriesOptions(), 0) == (
        EndRun(1, 1, 7, True, "closed by a merged pull request"),
    )


@pytest.mark.parametrize(
    ("how", "completed"),
    [(Departure.COMPLETED, True), *((how, False) for how in Departure if how is not Departure.COMPLETED)],
)
def test_only_a_merged_one_is_completed(how: Departure, completed: bool) -> None:
    facts = SeriesFacts(left={1: how})
    (end,) = decide(facts, SeriesSnapshot(placed=(active(),), gates={1: False}), SeriesOptions(), 0)
    assert isinstance(end, EndRun)
    assert end.completed is completed


LOOKED = AssignmentLooks(run=7, seen=True)


@pytest.mark.parametrize(
    ("looks", "assigned", "now_s", "steps"),
    [
        (AssignmentLooks(), False, 100, (Assign(1, 7),)),
        (AssignmentLooks(run=6, seen=True, missing_since_s=0), False, 100, (Assign(1, 7),)),
        (AssignmentLooks(), True, 100, (NoteAssignment(AssignmentLooks(run=7, seen=True, seen_s=100)),)),
        (LOOKED, True, 100, ()),
        (LOOKED, False, 100, (NoteAssignment(AssignmentLooks(run=7, seen=True, missing_since_s=100)),)),
        (AssignmentLooks(run=7, seen=True, missing_since_s=41), False, 100, ()),
        (
            AssignmentLooks(run=7, seen=True, missing_since_s=40),
            False,
            100,
            (Release(1, True), SetMemberGate(1, False, "unassigned by hand")),
        ),
        (AssignmentLooks(run=7, seen=True, missing_since_s=40), True, 100, (NoteAssignment(LOOKED),)),
        (
            AssignmentLooks(run=7, seen=True, missing_since_s=400),
            False,
            100,
            (NoteAssignment(AssignmentLooks(run=7, seen=True, missing_since_s=100)),),
        ),
    ],
)
def test_an_assignment_is_gone_only_when_two_looks_a_minute_apart_agree(
    looks: AssignmentLooks, assigned: bool, now_s: float, steps: tuple[object, ...]
) -> None:
    facts = SeriesFacts(members=(member(1, assigned=assigned),))
    snapshot = SeriesSnapshot(placed=(active(),), gates={1: True}, looks=looks)
    assert decide(facts, snapshot, SeriesOptions(), now_s) == steps


@pytest.mark.parametrize(("unassigned_s", "leaves"), [(None, False), (80, True), (91, False), (49, False)])
def test_an_assignment_is_gone_at_once_where_the_history_says_so(
    unassigned_s: float | None, leaves: bool
) -> None:
    """Unless it is the history from before the assignment was seen, or somebody may be swapping assignees."""
    facts = SeriesFacts(members=(Member(number=1, micro=1, unassigned_s=unassigned_s),))
    looks = AssignmentLooks(run=7, seen=True, seen_s=50.7)
    steps = decide(
        facts, SeriesSnapshot(placed=(active(),), gates={1: True}, looks=looks), SeriesOptions(), 100
    )
    assert (Release(1, True) in steps) is leaves


def test_the_active_issue_is_assigned_after_all_others_are_unassigned() -> None:
    facts = SeriesFacts(members=(member(1), member(2, assigned=True)))
    snapshot = SeriesSnapshot(placed=(active(),), gates={1: True, 2: False}, released={2: False})
    *_, unassign, assign = decide(facts, snapshot, SeriesOptions(), 100)
    assert isinstance(unassign, Unassign)
    assert assign == Assign(1, 7, ((2, ("alice",)),))


def test_kept_by_choice() -> None:
    snapshot = SeriesSnapshot(
        placed=(active(),), gates={1: True}, looks=AssignmentLooks(run=7, seen=True, missing_since_s=0)
    )
    facts = SeriesFacts(members=(member(1),))
    assert decide(facts, snapshot, SeriesOptions(unassigned=Unassigned.KEPT), 100) == ()


def test_an_older_tools_order_comes_first() -> None:
    world = World(members={n: member(n) for n in (1, 2, 3)})
    snapshot = SeriesSnapshot(order=(3, 1))
    steps = decide(world.facts(), snapshot, SeriesOptions(stage=RolloutStage.OBSERVE), 0)
    assert [step.number for step in steps] == [3, 1, 2]  # type: ignore[union-attr]


def test_who_is_adopted_needs_no_assignment() -> None:
    world = World(members={1: member(1), 2: member(2, assigned=True)})
    steps = world.settle()
    assert [step for step in steps if isinstance(step, Start)] == [Start(101, 2, "alice")]
    assert not [step for step in steps if isinstance(step, Assign | Unassign)]


def test_who_becomes_blocked_by_something_else_stays_active() -> None:
    world = World(members={1: member(1, needs=1)}, placed=[active()])
    check(world)
    assert world.active == 1
