"""Gates: which items carry the flag, which runs are asked to stop, and what may open."""

from __future__ import annotations

import pytest

from interlock.core.commands import Edit, Question, SetGate
from interlock.core.model import ArrivalDecision, EventKind, Policy, Reason
from interlock.core.states import ItemStatus
from tests.unit.world import LANE, SERIES, World


@pytest.fixture
def world() -> World:
    return World()


def gated(world: World) -> list[int]:
    return [i.id for i in world.items.values() if i.state.gated]


def test_only_the_owner_carries_the_flag_however_long_the_line_is(world: World) -> None:
    first, second, _third = world.put(), world.put(), world.put()
    answer = world.gate(is_open=False)
    assert (answer.changed, answer.run, answer.waits_for) == (True, None, None)
    assert gated(world) == [first]
    world.cancel(first)
    assert gated(world) == [second]
    world.gate(is_open=True)
    assert gated(world) == []


def test_the_same_again_decides_nothing(world: World) -> None:
    world.put()
    world.gate(is_open=False)
    before = dict(world.items), len(world.events)
    world.pass_s(9)
    answer = world.gate(is_open=False)
    assert not answer.changed
    assert (world.items, len(world.events)) == before
    assert world.gates[LANE].at_us == world.now_us - 9_000_000


def test_the_exempt_types_may_change_while_it_is_shut(world: World) -> None:
    item = world.put(type="look")
    world.gate(is_open=False)
    since_us = world.gates[LANE].at_us
    world.pass_s(9)
    assert world.gate(is_open=False, exempt=("look",)).changed
    assert gated(world) == []
    assert world.gates[LANE].at_us == since_us
    world.start(item)


def test_a_run_is_asked_to_stop_and_its_item_comes_back(world: World) -> None:
    item = world.put_running(agent="coder", max_attempts=1)
    run = world.run_of(item)
    assert world.gate(is_open=False).run == run
    state = world.items[item].state
    assert (state.cancel_into, state.cancel_why) == (ItemStatus.PENDING, Reason.SERIES_QUEUED)
    world.fail(item)
    state = world.items[item].state
    assert (state.status, state.attempt, state.releases, state.gated) == ("pending", 0, 0, True)
    assert state.reason == Reason.SERIES_QUEUED
    assert state.cancel_into is None


@pytest.mark.parametrize("often", [1, 5])
def test_stopping_counts_no_release(world: World, often: int) -> None:
    item = world.put()
    for _ in range(often):
        world.start(item)
        world.gate(is_open=False)
        world.release(item)
        world.gate(is_open=True)
    assert (world.items[item].state.releases, world.items[item].state.due_us) == (0, None)


def test_a_cancel_after_it_ends_the_item_in_the_first_grace(world: World) -> None:
    item = world.put_running()
    world.gate(is_open=False)
    revoke_us = world.items[item].state.revoke_us
    world.pass_s(3)
    world.cancel(item, "not wanted")
    state = world.items[item].state
    assert (state.cancel_into, state.cancel_why, state.revoke_us) == ("cancelled", "not wanted", revoke_us)
    assert [e.reason for e in world.events if e.kind is EventKind.CANCEL_REQUESTED] == [
        Reason.SERIES_QUEUED,
        "not wanted",
    ]


def test_a_newer_arrival_after_it_replaces_the_item(world: World) -> None:
    item = world.put_running(policy=Policy.SUPERSEDE)
    world.gate(is_open=False)
    newer = world.add(policy=Policy.SUPERSEDE)
    assert (newer.verdict, newer.reason) == (ArrivalDecision.SUPERSEDING, Reason.SERIES_QUEUED)
    world.release(item)
    assert world.status(item) == "superseded"
    assert gated(world) == [newer.item]


def test_a_question_under_it_is_asked(world: World) -> None:
    item = world.put_running()
    world.gate(is_open=False)
    world.release(item, question=Question("Which?", ticket=9, timeout_s=60.0))
    assert world.items[item].asking
    assert world.texts(item) == ["Which?"]
    assert gated(world) == [item]
    world.tell(item, "That one.")
    assert world.items[item].state.ready
    assert gated(world) == [item]


def test_what_is_gated_overtakes_nobody(world: World) -> None:
    owner, rival, look = world.put(), world.put(), world.put(type="look")
    world.gate(is_open=False, exempt=("look",))
    assert not world.overtake(rival, owner).changed
    assert world.overtake(look, owner).changed
    assert gated(world) == []
    assert world.statuses(owner, rival, look) == ["deferred", "deferred", "pending"]


def test_a_repair_obeys_the_gate(world: World) -> None:
    item = world.put_running()
    world.gate(is_open=False)
    found = world.items[item]
    world.items[item] = found._replace(state=found.state._replace(cancel_into=None, revoke_us=None))
    assert world.repair().changed
    assert world.items[item].state.cancel_into is ItemStatus.PENDING
    assert not world.repair().changed


def test_an_edit_of_the_type_changes_the_flag(world: World) -> None:
    item = world.put()
    world.gate(is_open=False, exempt=("look",))
    world.decide(Edit(item=item, spec={"type": "look"}))
    assert gated(world) == []
    world.decide(Edit(item=item, spec={"type": "task"}))
    assert gated(world) == [item]


def test_it_stays_shut_while_another_lane_of_the_series_is_busy(world: World) -> None:
    item = world.put()
    world.gate(is_open=False)
    world.busy_gate = "issue:acme/app#41"
    answer = world.gate(is_open=True)
    assert (answer.changed, answer.waits_for) == (False, "issue:acme/app#41")
    assert gated(world) == [item]
    world.busy_gate = None
    assert world.gate(is_open=True).waits_for is None
    world.busy_gate = "issue:acme/app#41"
    assert not world.gate(is_open=True).changed, "one that is open stays open"
    world.start(item)


def test_a_new_gate_that_may_not_open_is_shut(world: World) -> None:
    item = world.put_running()
    world.busy_gate = "issue:acme/app#41"
    assert not world.gates
    answer = world.gate(is_open=True)
    assert answer.gate is not None
    assert (answer.gate.open, answer.run) == (False, world.run_of(item))
    assert world.items[item].state.cancel_into is ItemStatus.PENDING


def test_it_opens_for_the_run_of_the_series_alone(world: World) -> None:
    world.gate(is_open=False)
    assignment = world.put(lane=SERIES)
    run = world.start(assignment)
    assert world.gate(is_open=True, run=run).waits_for is None
    world.gate(is_open=False)
    world.done(assignment)
    assert world.gate(is_open=True, run=run).waits_for == SERIES


def test_without_a_gate_the_flag_is_gone(world: World) -> None:
    world.put()
    world.gate(is_open=False)
    answer = world.decide(SetGate(lane=LANE, gate=None, why="it left"))[0]
    assert (answer.gate, answer.changed) == (None, True)
    assert gated(world) == []
    assert world.last(EventKind.GATE_REMOVED).data["series"] == SERIES
    assert not world.decide(SetGate(lane=LANE, gate=None, why="it left"))[0].changed
