"""Commands of operators and others on an item: cancel, take back, retry, edit, message, repair, overtake."""

from __future__ import annotations

from typing import Any

from interlock.core.commands import Cancel, Edit, Moved, Overtake, Repair, Retry, TakeBack, Tell
from interlock.core.ending import end_run
from interlock.core.errors import EditRefused, StaleRevision
from interlock.core.gates import obey_gate
from interlock.core.lanes import ask_to_stop, cancel_unstarted, promote, reenter
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
from interlock.core.overtaking import is_gone, may_overtake
from interlock.core.plans.model import EDIT_TYPE
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import sort_key, to_us
from interlock.core.versions import version_of
from interlock.core.waking import hear, restart


def cancel(ledger: Ledger, command: Cancel) -> Moved:
    """End an item: at once if it is not running or `force` is given, else after its grace."""
    item = ledger.items[command.item]
    if item.terminal:
        return _refused(item, f"Item {item.id} has already ended as {item.status}.")
    if item.status is ItemStatus.IN_PROGRESS:
        ask_to_stop(ledger, item, ItemStatus.CANCELLED, command.why, by=command.by)
        if not command.force:
            return Moved(item=item.id, changed=True)
        item = ledger.items[item.id]
        promoted = end_run(ledger, item, RunStatus.CANCELLED, Reason.OPERATOR, why=command.why, by=command.by)
        return Moved(item=item.id, changed=True, promoted=promoted)
    promoted = cancel_unstarted(
        ledger, item, Reason.OPERATOR, cancel_why=command.why, why=command.why, by=command.by
    )
    return Moved(item=item.id, changed=True, promoted=promoted)


def take_back(ledger: Ledger, command: TakeBack) -> Moved:
    """Revoke the lease of a run that does not end, and offer the item again."""
    item = ledger.items[command.item]
    if item.status is not ItemStatus.IN_PROGRESS:
        return _refused(item, f"Item {item.id} is {item.status}: no run holds it.")
    promoted = end_run(ledger, item, RunStatus.RELEASED, Reason.OPERATOR, why=command.why, by=command.by)
    return Moved(item=item.id, changed=True, promoted=promoted)


def retry(ledger: Ledger, command: Retry) -> Moved:
    """Give a failed or cancelled item one more attempt; end the back-off of a parked one."""
    from interlock.core.plans.dependents import wait_again, why_not_retried

    item = ledger.items[command.item]
    if item.parked:
        _log_retry(ledger, item, command)
        promoted = reenter(ledger, item, Reason.OPERATOR)
        return Moved(item=item.id, changed=True, promoted=promoted)
    if item.stopped:
        if command.sender.kind is not SenderKind.PERSON:
            return _refused(item, *_needs_person(item))
        _log_retry(ledger, item, command)
        return Moved(item=item.id, changed=True, promoted=restart(ledger, item.chain, Reason.OPERATOR))
    if item.status not in (ItemStatus.FAILED, ItemStatus.CANCELLED):
        what = "only what failed, was cancelled or waits out a back-off is retried"
        return _refused(item, f"Item {item.id} is {item.status}: {what}.")
    if item.held:
        again = f"Run the command again: `interlock hold {item.spec.lane} -- …`."
        return _refused(
            item, f"Item {item.id} is a hold, whose process has ended: nobody would claim it.", again
        )
    obstacle = why_not_retried(ledger, item)
    if obstacle:
        return _refused(item, obstacle)
    item = ledger.respec(item, max_attempts=max(item.spec.max_attempts, item.state.attempt + 1))
    _log_retry(ledger, item, command)
    promoted = () if wait_again(ledger, item) else reenter(ledger, item, Reason.OPERATOR)
    item = ledger.items[item.id]
    if not item.terminal:
        ledger.change(item, ended_us=None, releases=0, delivered=0, seen=0, cancel_why=None)
    return Moved(item=item.id, changed=True, promoted=promoted)


def _log_retry(ledger: Ledger, item: Item, command: Retry) -> None:
    ledger.event(
        EventKind.ITEM_RETRIED,
        item,
        Reason.OPERATOR,
        why=command.why,
        by=command.by,
        attempt=item.state.attempt + 1,
    )


def edit(ledger: Ledger, command: Edit) -> Moved:
    """Change what has not started. The history keeps old and new; queue and line follow at once."""
    item = ledger.items[command.item]
    if command.expected is not None and version_of(item) != command.expected:
        return Moved(
            item=item.id,
            changed=False,
            code=StaleRevision.code,
            refusal=f"Item {item.id} has changed since you looked.",
            hint="Look at it again, and decide anew.",
        )
    timed = command.run_at_us is not None or command.run_after_s is not None
    if obstacle := _why_not_edited(item, command.sender if timed else A_PERSON):
        code = "" if item.terminal else EditRefused.code
        return Moved(item=item.id, changed=False, refusal=obstacle[0], hint=obstacle[1], code=code)
    spec = {name: value for name, value in command.spec.items() if getattr(item.spec, name) != value}
    old: dict[str, Any] = {name: getattr(item.spec, name) for name in spec}
    new: dict[str, Any] = dict(spec)
    due_us = _edited_due_us(ledger, item, command)
    rescheduled = due_us != item.state.due_us or (item.stopped and timed)
    if rescheduled:
        old["run_at_us"], new["run_at_us"] = item.state.due_us, due_us
    if not new:
        return Moved(item=item.id, changed=True)
    if "priority" in spec:
        step_s = ledger.timing.ageing_step_s
        spec["sort_key"] = sort_key(spec["priority"], item.spec.ticket, item.spec.created_us, step_s)
    if spec:
        item = ledger.respec(item, **spec)
        ledger.out.respecified.append(item.id)
    status = item.status if due_us is None else ItemStatus.WAITING
    ledger.event(EventKind.ITEM_EDITED, item, status=status, old=_shown(old), new=_shown(new), by=command.by)
    promoted = _reschedule(ledger, item, due_us) if rescheduled else ()
    return Moved(item=item.id, changed=True, promoted=promoted)


def _needs_person(item: Item) -> tuple[str, str]:
    """What waits for a person is not started by anybody else."""
    hint = f"A person starts it, with `interlock msg {item.id} …`."
    return f"Item {item.id} waits for a person, and none has written.", hint


def _why_not_edited(item: Item, timed_by: Sender) -> tuple[str, str] | None:
    """Why an item can no longer be changed, or not in this way, and what to do.

    What waits for a person gets another time from a person alone: that starts it, like a person's message.
    """
    if item.stopped and timed_by.kind is not SenderKind.PERSON:
        return _needs_person(item)
    if item.terminal:
        return f"Item {item.id} has already ended as {item.status}.", ""
    if item.spec.plan is not None:  # an edit of its plan must be able to rely on what it is based on
        plan = item.spec.plan
        return f"Item {item.id} is a task of plan {plan}.", f"Change it with `interlock plan edit {plan}`."
    if item.spec.type == EDIT_TYPE:
        return f"Item {item.id} asks for an edit of a plan and stays as it is.", "Answer it, or cancel it."
    if item.started:
        now = f"is worked on by {item.state.run_agent}" if item.state.run else "has started before"
        hint = f"Send it a message: `interlock msg {item.id} …`, or cancel it and add another."
        return f"Item {item.id} {now}, so it is not edited any more.", hint
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
    if item.stopped:
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


def tell(ledger: Ledger, command: Tell) -> Moved:
    """Append a message. An absorbed item's messages go to its absorber."""
    item = ledger.items[command.item]
    if item.state.absorbed_by is not None and item.terminal:
        return Moved(item=item.id, changed=False, forward_to=item.state.absorbed_by)
    if item.terminal:
        return _refused(item, f"Item {item.id} has already ended as {item.status} and reads no messages.")
    sender = command.sender
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
    promoted = hear(ledger, item, sender)
    return Moved(item=item.id, changed=True, n=n, promoted=promoted)


def repair(ledger: Ledger, command: Repair) -> Moved:
    """Promote the first in line of a lane without an owner; bring an owner into line with its lane's gate."""
    promoted = promote(ledger, command.lane, None)
    obeyed = obey_gate(ledger, command.lane)
    return Moved(item=None, changed=bool(promoted) or obeyed, promoted=promoted)


def overtake(ledger: Ledger, command: Overtake) -> Moved:
    """Swap a deferred item with an owner that cannot start or whose agent is gone; the owner keeps its
    ticket."""
    item, owner = ledger.items[command.item], ledger.items[command.owner]
    lane = item.spec.lane
    held = item.state.blocked or ledger.blocked(lane) or ledger.shut(lane, item.spec.type)
    if held or not may_overtake(item, owner):
        return Moved(item=item.id, changed=False)
    agent = ledger.snapshot.presence.get(owner.spec.agent_key)
    if command.gone and not is_gone(owner, agent, ledger.now_us):
        return Moved(item=item.id, changed=False)
    reason = Reason.AGENT_GONE if command.gone else Reason.OVERTAKEN
    owner = ledger.change(owner, status=ItemStatus.DEFERRED, reason=reason)
    item = ledger.change(item, status=ItemStatus.PENDING, front=False, reason=reason)
    ledger.event(EventKind.LANE_OVERTAKEN, owner, reason, by_item=item.id, by_agent=item.spec.agent_key)
    return Moved(item=item.id, changed=True)


def _refused(item: Item, sentence: str, hint: str = "") -> Moved:
    return Moved(item=item.id, changed=False, refusal=sentence, hint=hint)
