"""Which ends of runs may be decided before their items are locked."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.commands import Finish, Outcome
from interlock.core.decide import decide
from interlock.core.early_ends import decide_early, ended_at
from interlock.core.ledger import Snapshot
from interlock.core.model import UNPOSITIONED, Item, ItemId, PlanId, Policy, RetryLane, RunId, Spec, State
from interlock.core.states import ItemStatus
from interlock.core.timing import Timing

ITEM, RUN, BITS = ItemId(1), RunId(7), 77
RUNNING = Item(
    Spec(
        id=ITEM,
        project="default",
        type="task",
        title="work",
        agent_key="",
        policy=Policy.QUEUE,
        priority=0,
        position=UNPOSITIONED,
        ticket=1,
        sort_key=1,
        lane=None,
        observed_lane=None,
        labels=(),
        lease_s=None,
        timeout_s=None,
        max_attempts=3,
        retry_lane=RetryLane.YIELD,
        created_us=1,
    ),
    State(
        status=ItemStatus.IN_PROGRESS,
        attempt=1,
        due_us=60,
        run=RUN,
        run_bits=BITS,
        run_agent="coder",
        run_started_us=2,
        lease_until_us=60,
        message_count=2,
        delivered=2,
        first_claimed_us=2,
    ),
)
DONE = Finish(RUN, ITEM, Outcome.DONE, bits=BITS)


def test_an_early_decision_is_the_one_that_is_made_under_the_lock() -> None:
    early = decide_early({ITEM: RUNNING}, [DONE], Timing())
    assert early is not None
    locked = decide(Snapshot(items={ITEM: RUNNING}), [DONE], 50, Timing())
    seen = ended_at(early, 50)
    assert (seen.answers, seen.after) == (locked.answers, locked.after)


@pytest.mark.parametrize(
    "command",
    [
        DONE._replace(outcome=Outcome.FAIL),
        DONE._replace(outcome=Outcome.RELEASE),
        DONE._replace(run=RunId(6)),
        DONE._replace(bits=78),
        DONE._replace(seen=3),
        DONE._replace(item=ItemId(2)),
    ],
    ids=["fail", "release", "another run", "other bits", "a mark above the last message", "not known"],
)
def test_these_reports_are_decided_under_the_lock(command: Finish) -> None:
    assert decide_early({ITEM: RUNNING}, [command], Timing()) is None


def test_two_reports_of_one_run_are_decided_under_the_lock() -> None:
    assert decide_early({ITEM: RUNNING}, [DONE, DONE], Timing()) is None


@pytest.mark.parametrize(
    "change",
    [
        {"lane": "issue:acme/app#1"},
        {"observed_lane": "issue:acme/app#1"},
        {"plan": PlanId(1)},
        {"message_count": 3},
        {"cancel_into": ItemStatus.CANCELLED},
        {"blocked": True},
    ],
    ids=str,
)
def test_runs_of_these_items_end_under_the_lock(change: dict[str, Any]) -> None:
    spec, state = RUNNING
    of_spec = {name: value for name, value in change.items() if name in Spec._fields}
    of_state = {name: value for name, value in change.items() if name in State._fields}
    item = Item(spec._replace(**of_spec), state._replace(**of_state))
    assert decide_early({ITEM: item}, [DONE], Timing()) is None
