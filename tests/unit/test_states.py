"""Both transition tables: every lawful move, every unlawful one, and what is final."""

from __future__ import annotations

import itertools

import pytest

from interlock.core.errors import IllegalTransition
from interlock.core.ledger import Ledger, Snapshot
from interlock.core.model import State
from interlock.core.states import (
    ACTIVE,
    BIRTHS,
    ITEM_MOVES,
    RUN_MOVES,
    TERMINAL,
    UNSTARTED,
    ItemStatus,
    RunStatus,
    check_item_move,
    check_run_move,
)
from interlock.core.timing import Timing
from tests.unit.world import START_US, World

#: Written out once more, by hand, from the design: a change of the table must be meant twice.
ITEM_TABLE = {
    "waiting": "deferred pending cancelled superseded",
    "deferred": "pending waiting cancelled superseded",
    "pending": "in_progress deferred waiting cancelled superseded",
    "in_progress": "pending waiting completed failed cancelled superseded",
    "failed": "pending deferred superseded",
    "cancelled": "pending deferred waiting superseded",
    "completed": "",
    "superseded": "",
    "coalesced": "",
}
LAWFUL = {(ItemStatus(a), ItemStatus(b)) for a, row in ITEM_TABLE.items() for b in row.split()}
PAIRS = [(a, b) for a, b in itertools.product(ItemStatus, repeat=2) if a is not b]


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda s: s.value)
def test_an_item_moves_only_along_the_table(before: ItemStatus, after: ItemStatus) -> None:
    if (before, after) in LAWFUL:
        check_item_move(1, before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"Item 1 cannot go from {before} to {after}"):
            check_item_move(1, before, after)


@pytest.mark.parametrize("status", ItemStatus)
def test_an_item_may_stay_what_it_is(status: ItemStatus) -> None:
    check_item_move(1, status, status)


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(RunStatus, repeat=2)), ids=lambda s: s.value
)
def test_a_run_ends_once_and_only_a_running_one_ends(before: RunStatus, after: RunStatus) -> None:
    if before is RunStatus.RUNNING and after is not RunStatus.RUNNING:
        check_run_move(7, before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"Run 7 cannot go from {before} to {after}"):
            check_run_move(7, before, after)


def test_every_status_has_a_row_in_its_table() -> None:
    assert set(ITEM_MOVES) == set(ItemStatus)
    assert set(RUN_MOVES) == set(RunStatus)


def test_completed_superseded_and_coalesced_are_final_and_a_retry_leaves_the_two_others() -> None:
    assert {s.value for s in TERMINAL} == {"completed", "failed", "cancelled", "superseded", "coalesced"}
    final = {s.value for s in TERMINAL if not ITEM_MOVES[s]}
    assert final == {"completed", "superseded", "coalesced"}


def test_the_groups_of_states_do_not_overlap() -> None:
    assert {s.value for s in ACTIVE} == {"pending", "in_progress"}
    assert {s.value for s in UNSTARTED} == {"waiting", "deferred", "pending"}
    assert not ACTIVE & TERMINAL
    assert not UNSTARTED & TERMINAL


def test_work_in_progress_is_reached_only_from_pending() -> None:
    assert [s.value for s, moves in ITEM_MOVES.items() if ItemStatus.IN_PROGRESS in moves] == ["pending"]


def test_an_illegal_move_raises_and_changes_nothing() -> None:
    world = World()
    item = world.put_running()
    world.done(item)
    ledger = Ledger(Snapshot(items=dict(world.items)), START_US, Timing())

    with pytest.raises(IllegalTransition):
        ledger.change(ledger.items[item], status=ItemStatus.PENDING)
    with pytest.raises(IllegalTransition):
        ledger.set_state(ledger.items[item], State(status=ItemStatus.CANCELLED))

    assert ledger.items == world.items
    decision = ledger.changes()
    assert not decision.settled
    assert not decision.raised


@pytest.mark.parametrize("status", sorted(set(ItemStatus) - BIRTHS))
def test_no_item_is_born_started_or_ended_but_coalesced_ones(status: ItemStatus) -> None:
    world = World()
    spec = world.items[world.put()].spec
    ledger = Ledger(Snapshot(), START_US, Timing())
    with pytest.raises(AssertionError, match=f"cannot begin {status}"):
        ledger.add(spec, State(status=status))
