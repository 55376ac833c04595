"""The one entry to the rules: `decide(snapshot, commands, now) -> Decision`.

Arrival, finish, expiry, cancel, retry, message, repair, overtaking and whatever is done to plans come through
here, one by one over the same ledger, so that a batch means the same as its commands in sequence. What
follows for plans whose tasks ended is decided last, once for the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from interlock.core.arrival import arrive
from interlock.core.commands import (
    Arrive,
    Cancel,
    Command,
    Expire,
    Finish,
    Moved,
    Overtake,
    Repair,
    Retry,
    TakeBack,
    Tell,
)
from interlock.core.ending import finish
from interlock.core.ledger import Decision, Ledger, Snapshot
from interlock.core.model import ItemId
from interlock.core.operating import cancel, overtake, repair, retry, take_back, tell
from interlock.core.plans.commands import CancelPlan, CreatePlan, EditPlan, PausePlan, SetEditDeadline
from interlock.core.plans.cycle import expire_in_plan, finish_in_plan, follow
from interlock.core.plans.operating import operate
from interlock.core.timing import Timing


def decide(
    snapshot: Snapshot,
    commands: Sequence[Command],
    now_us: int,
    timing: Timing,
    spare_ids: tuple[ItemId, ...] = (),
) -> Decision:
    """Fold `commands` over a snapshot. `answers` has one value a command, in order."""
    ledger = Ledger(snapshot, now_us, timing, spare_ids)
    answers = [_answer(ledger, command) for command in commands]
    if ledger.books:
        follow(ledger)
    decision = ledger.decision()
    decision.answers = answers
    return decision


def _answer(ledger: Ledger, command: Command) -> Any:
    match command:
        case Finish():
            return finish_in_plan(ledger, command) if ledger.books else finish(ledger, command)
        case Arrive():
            return arrive(ledger, command)
        case Expire():
            before = ledger.items[command.item]
            promoted = expire_in_plan(ledger, before)
            changed = ledger.items[command.item] is not before
            return Moved(item=command.item, changed=changed, promoted=promoted)
        case Cancel():
            return cancel(ledger, command)
        case TakeBack():
            return take_back(ledger, command)
        case Retry():
            return retry(ledger, command)
        case Tell():
            return tell(ledger, command)
        case Repair():
            return repair(ledger, command)
        case Overtake():
            return overtake(ledger, command)
        case CreatePlan() | EditPlan() | PausePlan() | SetEditDeadline() | CancelPlan():
            return operate(ledger, command)
        case other:
            assert_never(other)
