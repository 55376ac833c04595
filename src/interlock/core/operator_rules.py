"""The rules for commands on one item: cancel, take back, retry, edit, send a message."""

from __future__ import annotations

from typing import Any

from interlock.core.commands import Cancel, CommandAnswer, Edit, Retry, SendMessage, TakeBack
from interlock.core.cures import FROM_PERSON, Cure, cure
from interlock.core.endings import end_run
from interlock.core.errors import EditRefused, StaleRevision
from interlock.core.lanes import ask_to_stop, cancel_unstarted, promote, quote_question, reenter
from interlock.core.ledger import Ledger
from interlock.core.model import (
    A_PERSON,
    UNPOSITIONED,
    EventKind,
    Item,
    ItemId,
    Reason,
    Sender,
    SenderKind,
)
from interlock.core.plans.model import EDIT_TYPE
from interlock.core.record import replace
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import sort_key, to_us
from interlock.core.versions import version_of
from interlock.core.wakeups import restart, wake_by_message


def cancel(ledger: Ledger, command: Cancel) -> CommandAnswer:
    """End an item: at once if it is not running or `force` is given, else after its grace."""
    item = ledger.items[command.item]
    if item.terminal:
        return _refused(item, f"Item {item.id} has already ended as {item.status}.")
    if item.status is ItemStatus.IN_PROGRESS:
        ask_to_stop(ledger, item, ItemStatus.CANCELLED, command.why, by=command.by)
        if not command.force:
            return CommandAnswer(item=item.id, changed=True)
        item = ledger.items[item.id]
        promoted = end_run(ledger, item, RunStatus.CANCELLED, Reason.OPERATOR, why=command.why, by=command.by)
        return CommandAnswer(item=item.id, changed=True, promoted=promoted)
    promoted = cancel_unstarted(
        ledger, item, Reason.OPERATOR, cancel_why=command.why, why=command.why, by=command.by
    )
    return CommandAnswer(item=item.id, changed=True, promoted=promoted)


def take_back(ledger: Ledger, command: TakeBack) -> CommandAnswer:
    """Revoke the lease of a run that does not end, and offer the item again."""
    item = ledger.items[command.item]
    if item.status is not ItemStatus.IN_PROGRESS:
        return _refused(item, f"Item {item.id} is {item.status}: no run holds it.")
    if command.run is not None and item.state.run != command.run:
        now = f"which has run {item.state.run}"
        return CommandAnswer(
            item=item.id,
            changed=False,
            code=StaleRevision.code,
            refusal=f"Run {command.run} is not the current run of item {item.id}, {now}.",
            cures=(cure("show", "shows it as it is now", item=item.id),),
        )
    promoted = end_run(ledger, item, RunStatus.RELEASED, Reason.OPERATOR, why=command.why, by=command.by)
    return CommandAnswer(item=item.id, changed=True, promoted=promoted)


def retry(ledger: Ledger, command: Retry) -> CommandAnswer:
    """Give a failed or cancelled item one more attempt; end the back-off of a parked one."""
    from interlock.core.plans.dependents import wait_again, why_not_retried

    item = ledger.items[command.item]
    if item.parked:
        _log_retry(ledger, item, command)
        promoted = reenter(ledger, item, Reason.OPERATOR)
        return CommandAnswer(item=item.id, changed=True, promoted=promoted)
    if item.over_wake_limit:
        if command.sender.kind is not SenderKind.PERSON:
            return _needs_person(item)
        _log_retry(ledger, item, command)
        return CommandAnswer(
            item=item.id, changed=True, promoted=restart(ledger, item.chain, Reason.OPERATOR)
        )
    if item.status not in (ItemStatus.FAILED, ItemStatus.CANCELLED):
        hint = "Only items that failed, were cancelled or wait after a run can be retried."
        return _refused(item, f"Item {item.id} is {item.status} and cannot be retried.", hint)
    if item.is_hold:
        again = f"Run the command again in a new hold of lane {item.spec.lane}."
        return _refused(item, f"Item {item.id} is a hold, and its process has ended.", again)
    obstacle = why_not_retried(ledger, item)
    if obstacle:
        return _refused(item, obstacle)
    item = ledger.change_spec(item, max_attempts=max(item.spec.max_attempts, item.state.attempt + 1))
    _log_retry(ledger, item, command)
    promoted = () if wait_again(ledger, item) else reenter(ledger, item, Reason.OPERATOR)
    item = ledger.items[item.id]
    if not item.terminal:
        ledger.change(item, ended_us=None, releases=0, delivered=0, seen=0, cancel_why=None)
    return CommandAnswer(item=item.id, changed=True, promoted=promoted)


def _log_retry(ledger: Ledger, item: Item, command: Retry) -> None:
    ledger.event(
        EventKind.ITEM_RETRIED,
        item,
        Reason.OPERATOR,
        why=command.why,
        by=command.by,
        attempt=item.state.attempt + 1,
    )


def edit(ledger: Ledger, command: Edit) -> CommandAnswer:
    """Edit an item that has not started. The history keeps old and new values; queue and line follow at
    once."""
    item = ledger.items[command.item]
    if command.expected is not None and version_of(item) != command.expected:
        return CommandAnswer(
            item=item.id,
            changed=False,
            code=StaleRevision.code,
            refusal=f"Item {item.id} has changed since you read it.",
            cures=(cure("show", "shows it as it is now", item=item.id),),
        )
    timed = command.run_at_us is not None or command.run_after_s is not None
    if obstacle := _why_not_edited(item, command.sender if timed else A_PERSON):
        code = "" if item.terminal else EditRefused.code
        return replace(obstacle, code=code)
    spec = {name: value for name, value in command.spec.items() if getattr(item.spec, name) != value}
    old: dict[str, Any] = {name: getattr(item.spec, name) for name in spec}
    new: dict[str, Any] = dict(spec)
    due_us = _edited_due_us(ledger, item, command)
    rescheduled = due_us != item.state.due_us or (item.over_wake_limit and timed)
    if rescheduled:
        old["run_at_us"], new["run_at_us"] = item.state.due_us, due_us
    if not new:
        return CommandAnswer(item=item.id, changed=True)
    if "priority" in spec:
        step_s = ledger.timing.ageing_step_s
        spec["sort_key"] = sort_key(spec["priority"], item.spec.ticket, item.spec.created_us, step_s)
    if spec:
        item = ledger.change_spec(item, **spec)
        ledger.out.respecified.append(item.id)
    status = item.status if due_us is None else ItemStatus.WAITING
    ledger.event(EventKind.ITEM_EDITED, item, status=status, old=_shown(old), new=_shown(new), by=command.by)
    promoted = _reschedule(ledger, item, due_us) if rescheduled else ()
    return CommandAnswer(item=item.id, changed=True, promoted=promoted)


def _needs_person(item: Item) -> CommandAnswer:
    """The refusal of an item that only a person may start."""
    start = cure("msg", "starts it", item=item.id, text=None, sender=FROM_PERSON)
    return _refused(item, f"Item {item.id} waits for a person's message.", cures=(start,))


def _why_not_edited(item: Item, timed_by: Sender) -> CommandAnswer | None:
    """The refusal of an item that can no longer be changed, or not in this way.

    Only a person may reschedule an item that waits for a person: that starts it, like a person's message.
    """
    if item.over_wake_limit and timed_by.kind is not SenderKind.PERSON:
        return _needs_person(item)
    if item.terminal:
        return _refused(item, f"Item {item.id} has already ended as {item.status}.")
    if item.spec.plan is not None:  # an edit of the plan relies on its tasks as they were read
        change = cure("edit_plan", "changes it", plan=item.spec.plan, base=None, operations=None)
        return _refused(item, f"Item {item.id} is a task of plan {item.spec.plan}.", cures=(change,))
    if item.spec.type == EDIT_TYPE:
        hint = "Answer it, or cancel it."
        return _refused(item, f"Item {item.id} requests an edit of a plan and cannot be changed.", hint)
    if item.started:
        now = (
            f"is running (run {item.state.run} of {item.state.run_agent})"
            if item.state.run
            else "has started"
        )
        write = cure("msg", "sends it a message", item=item.id, text=None)
        stop = cure("cancel", "cancels it", item=item.id, why=None)
        return _refused(item, f"Item {item.id} {now} and can no longer be edited.", cures=(write, stop))
    return None


def _edited_due_us(ledger: Ledger, item: Item, command: Edit) -> int | None:
    """When the item is due after the edit; null: now."""
    due_us = command.run_at_us
    if command.run_after_s is not None:
        due_us = ledger.now_us + to_us(command.run_after_s)
    if due_us is None:
        return item.state.due_us
    return due_us if due_us > ledger.now_us else None


def _reschedule(ledger: Ledger, item: Item, due_us: int | None) -> tuple[ItemId, ...]:
    """Let an item enter its lane now, or take it out until it is due; then the next may have its place."""
    started: tuple[ItemId, ...] = ()
    if item.over_wake_limit:
        started = restart(ledger, item.chain, Reason.EDITED)
        item = ledger.items[item.id]
    elif due_us is None:
        return reenter(ledger, item, Reason.EDITED)
    if due_us is None or item.terminal:
        return started
    owned, lane = item.active, item.spec.lock_lane
    later = {"status": ItemStatus.WAITING, "due_us": due_us, "reason": Reason.SCHEDULED}
    ledger.change(item, **later, front=False, promoted_from=None)
    return (*started, *(promote(ledger, lane, None) if owned and lane is not None else ()))


def _shown(values: dict[str, Any]) -> dict[str, Any]:
    """Values of a spec as the history has them."""
    shown = {**values, "agent": values["agent_key"] or None} if "agent_key" in values else dict(values)
    if shown.get("position") == UNPOSITIONED:
        shown["position"] = None
    return {name: value for name, value in shown.items() if name != "agent_key"}


def send_message(ledger: Ledger, command: SendMessage) -> CommandAnswer:
    """Append a message. An absorbed item's messages go to its absorber."""
    item = ledger.items[command.item]
    if item.state.absorbed_by is not None and item.terminal:
        return CommandAnswer(item=item.id, changed=False, forward_to=item.state.absorbed_by)
    if item.terminal:
        return _refused(item, f"Item {item.id} has already ended as {item.status} and takes no messages.")
    sender = command.sender
    item = quote_question(ledger, item, sender, command.ticket)
    item = ledger.add_message(
        item.id,
        command.text,
        ticket=command.ticket,
        origin=item.id,
        author=command.author,
        sender=sender,
        reason=command.reason,
        url=command.url,
    )
    n, kind = item.state.message_count, None if sender.kind is SenderKind.PERSON else sender.kind
    ledger.event(EventKind.MESSAGE_ADDED, item, run=item.state.run, n=n, author=command.author, sender=kind)
    promoted = wake_by_message(ledger, item, sender)
    return CommandAnswer(item=item.id, changed=True, n=n, promoted=promoted)


def _refused(item: Item, sentence: str, hint: str = "", cures: tuple[Cure, ...] = ()) -> CommandAnswer:
    return CommandAnswer(item=item.id, changed=False, refusal=sentence, hint=hint, cures=cures)
