"""The one entry to the rules: `decide(snapshot, commands, now) -> Decision`.

Every command on items and plans is applied here, one after the other over the same ledger, so that a batch
means the same as its commands in sequence. What follows for plans whose tasks ended is decided last, once for
the batch; the rules of plans are imported where there is a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from interlock.core.arrival import arrive
from interlock.core.commands import (
    Arrive,
    Cancel,
    Command,
    Edit,
    EndExternal,
    Expire,
    Finish,
    Moved,
    Overtake,
    Repair,
    Retry,
    SetGate,
    TakeBack,
    Tell,
)
from interlock.core.ending import end_external, expire, finish
from interlock.core.gates import set_gate
from interlock.core.ledger import Decision, Ledger, Snapshot
from interlock.core.model import Item, ItemId
from interlock.core.operating import cancel, edit, overtake, repair, retry, take_back, tell
from interlock.core.timing import Timing


def decide(
    snapshot: Snapshot,
    commands: Sequence[Command],
    now_us: int,
    timing: Timing,
    spare_ids: tuple[ItemId, ...] = (),
) -> Decision:
    """Apply `commands` to a snapshot. `answers` has one value per command, in order."""
    ledger = Ledger(snapshot, now_us, timing, spare_ids)
    answers = [_answer(ledger, command) for command in commands]
    if ledger.books:
        from interlock.core.plans.cycle import update_plans

        update_plans(ledger)
    decision = ledger.decision()
    decision.answers = answers
    return decision


#: The rules of commands that need nothing else.
_RULES: dict[type, Callable[[Ledger, Any], Any]] = {
    Arrive: arrive,
    Cancel: cancel,
    TakeBack: take_back,
    EndExternal: end_external,
    Retry: retry,
    Edit: edit,
    Tell: tell,
    Repair: repair,
    Overtake: overtake,
    SetGate: set_gate,
}


def _answer(ledger: Ledger, command: Command) -> Any:
    match command:
        case Finish():
            if ledger.books:
                _close_late_cycle(ledger, command)
            return finish(ledger, command)
        case Expire():
            before = ledger.items.get(command.item)
            if before is None:  # found before a failover to a standby that never had it
                return Moved(item=command.item, changed=False)
            promoted = _expire_in_plan(ledger, before) if ledger.books else expire(ledger, before)
            changed = ledger.items[command.item] is not before
            return Moved(item=command.item, changed=changed, promoted=promoted)
        case _ if (rule := _RULES.get(type(command))) is not None:
            return rule(ledger, command)
        case plan_command:
            from interlock.core.plans.operating import operate

            return operate(ledger, plan_command)  # type: ignore[arg-type]


def _expire_in_plan(ledger: Ledger, item: Item) -> tuple[ItemId, ...]:
    from interlock.core.plans.cycle import book_of, expire_in_plan

    book = book_of(ledger, item)
    return expire(ledger, item) if book is None else expire_in_plan(ledger, book, item)


def _close_late_cycle(ledger: Ledger, command: Finish) -> None:
    """A report of an editor after its deadline finds the cycle closed, though no sweep has run yet."""
    from interlock.core.plans.cycle import book_of, close_late_cycle

    item = ledger.items.get(command.item)
    book = book_of(ledger, item) if item is not None else None
    if book is not None and book.plan.edit_item == command.item:
        close_late_cycle(ledger, book)
