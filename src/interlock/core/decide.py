"""The one entry to the rules: `decide(snapshot, commands, now) -> LedgerChanges`.

Every command on items and plans is applied here, one after the other over the same ledger, so that a batch
means the same as its commands in sequence. Consequences for plans whose tasks ended are decided last, once
for the batch. The rules of plans are imported only if there is a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from interlock.core.arrival import arrive
from interlock.core.commands import (
    Arrive,
    AskLive,
    Cancel,
    CloseQuestion,
    Command,
    CommandAnswer,
    Edit,
    EndExternal,
    Expire,
    Finish,
    Overtake,
    Repair,
    Retry,
    SendMessage,
    SetGate,
    TakeBack,
)
from interlock.core.endings import end_external, expire, finish
from interlock.core.gates import repair, set_gate
from interlock.core.ledger import Ledger, LedgerChanges, Snapshot
from interlock.core.model import Item, ItemId
from interlock.core.operator_rules import cancel, edit, retry, send_message, take_back
from interlock.core.overtaking import overtake
from interlock.core.questions import ask_live, close_question
from interlock.core.timing import Timing


def decide(
    snapshot: Snapshot,
    commands: Sequence[Command],
    now_us: int,
    timing: Timing,
    spare_ids: tuple[ItemId, ...] = (),
) -> LedgerChanges:
    """Apply `commands` to a snapshot. `answers` has one value per command, in order."""
    ledger = Ledger(snapshot, now_us, timing, spare_ids)
    answers = [_answer(ledger, command) for command in commands]
    if ledger.plan_ledgers:
        from interlock.core.plans.cycle import update_plans

        update_plans(ledger)
    changes = ledger.changes()
    changes.answers = answers
    return changes


#: The rules of commands that need nothing else.
_RULES: dict[type, Callable[[Ledger, Any], Any]] = {
    Arrive: arrive,
    AskLive: ask_live,
    CloseQuestion: close_question,
    Cancel: cancel,
    TakeBack: take_back,
    EndExternal: end_external,
    Retry: retry,
    Edit: edit,
    SendMessage: send_message,
    Repair: repair,
    Overtake: overtake,
    SetGate: set_gate,
}


def _answer(ledger: Ledger, command: Command) -> Any:
    match command:
        case Finish():
            if ledger.plan_ledgers:
                _close_late_cycle(ledger, command)
            return finish(ledger, command)
        case Expire():
            before = ledger.items.get(command.item)
            if before is None:  # found before a failover to a standby that lacked it
                return CommandAnswer(item=command.item, changed=False)
            promoted = _expire_in_plan(ledger, before) if ledger.plan_ledgers else expire(ledger, before)
            changed = ledger.items[command.item] is not before
            return CommandAnswer(item=command.item, changed=changed, promoted=promoted)
        case _ if (rule := _RULES.get(type(command))) is not None:
            return rule(ledger, command)
        case plan_command:
            from interlock.core.plans.plan_rules import operate

            return operate(ledger, plan_command)  # type: ignore[arg-type]


def _expire_in_plan(ledger: Ledger, item: Item) -> tuple[ItemId, ...]:
    from interlock.core.plans.cycle import expire_in_plan, plan_ledger_of

    plan_ledger = plan_ledger_of(ledger, item)
    return expire(ledger, item) if plan_ledger is None else expire_in_plan(ledger, plan_ledger, item)


def _close_late_cycle(ledger: Ledger, command: Finish) -> None:
    """A report of an editor after its deadline finds the cycle closed, though no sweep has run yet."""
    from interlock.core.plans.cycle import close_late_cycle, plan_ledger_of

    item = ledger.items.get(command.item)
    plan_ledger = plan_ledger_of(ledger, item) if item is not None else None
    if plan_ledger is not None and plan_ledger.plan.edit_item == command.item:
        close_late_cycle(ledger, plan_ledger)
