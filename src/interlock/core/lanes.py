"""Moves on a lane that several rules share: promote, cancel, supersede, re-enter, ask to stop."""

from __future__ import annotations

from typing import Any

from interlock.core.ledger import Ledger
from interlock.core.model import (
    NO_AGENT,
    REPLACEABLE,
    EventKind,
    Item,
    ItemId,
    Reason,
    RunId,
    Sender,
    SenderKind,
)
from interlock.core.states import ItemStatus
from interlock.core.timing import to_us


def promote(ledger: Ledger, lane: str, from_run: RunId | None) -> tuple[ItemId, ...]:
    """Make the first in line the owner of a free lane. Called in the transaction that freed it."""
    if ledger.owner(lane) is not None:
        return ()
    first = min(ledger.line(lane), key=lambda i: i.line, default=None)
    if first is None:
        return ()
    item = ledger.change(
        first, status=ItemStatus.PENDING, front=False, promoted_from=from_run, reason=Reason.PROMOTED
    )
    ledger.event(
        EventKind.LANE_PROMOTED,
        item,
        Reason.PROMOTED,
        run=from_run,
        from_run=from_run,
        to_item=item.id,
        agent_key=item.spec.agent_key,
    )
    return (item.id,)


def cancel_unstarted(
    ledger: Ledger, item: Item, reason: Reason, *, cancel_why: str | None = None, **data: Any
) -> tuple[ItemId, ...]:
    """Cancel an item that has no run; if it owned its lane, promote the next."""
    owned, lane = item.active, item.spec.lock_lane
    item = ledger.change(
        item,
        status=ItemStatus.CANCELLED,
        due_us=None,
        front=False,
        ended_us=ledger.now_us,
        reason=reason,
        cancel_why=cancel_why,
    )
    ledger.event(EventKind.ITEM_CANCELLED, item, reason, **data)
    return promote(ledger, lane, None) if owned and lane else ()


def carry_messages(ledger: Ledger, source: Item, target: Item, *, speaks: bool = False) -> None:
    """Move all messages of `source` to `target`, so that its input is not lost; without any, its title.

    A target that has not started and has no message gets its own title as a message: otherwise the title
    would be lost when the target is replaced. `speaks` means that a message of its own follows.
    """
    message_count = target.state.message_count
    if source.state.message_count:
        ledger.move_messages(source.id, target.id, after=0, shift=message_count)
        ledger.change(ledger.items[source.id], message_count=0, delivered=0, seen=0)
        ledger.change(ledger.items[target.id], message_count=message_count + source.state.message_count)
    else:
        _pass_title(ledger, source, target.id)
    if not (message_count or speaks) and target.status is not ItemStatus.IN_PROGRESS:
        _pass_title(ledger, target, target.id)


def _pass_title(ledger: Ledger, source: Item, target: ItemId) -> None:
    ledger.add_message(target, source.spec.title, ticket=source.spec.ticket, origin=source.id)


def supersede(ledger: Ledger, old: Item, newer: Item, *, speaks: bool = False) -> None:
    """End an item without a run in favour of a newer one, which gets its messages."""
    old = ledger.change(
        old,
        status=ItemStatus.SUPERSEDED,
        due_us=None,
        front=False,
        absorbed_by=newer.id,
        ended_us=ledger.now_us,
        reason=Reason.NEWER_ARRIVAL,
    )
    ledger.event(EventKind.ITEM_SUPERSEDED, old, Reason.NEWER_ARRIVAL, by_item=newer.id)
    carry_messages(ledger, old, newer, speaks=speaks)


def newest_replacement(ledger: Ledger, item: Item) -> Item | None:
    """The newest unfinished item that replaces this one, if its policy lets it be replaced."""
    spec = item.spec
    if spec.lane is None or spec.policy not in REPLACEABLE:
        return None
    kin = (k for k in ledger.kin(spec.lane, *item.kin) if item.over_wake_limit or not k.over_wake_limit)
    newer = [k for k in kin if k.spec.ticket > spec.ticket]
    return max(
        newer, key=lambda k: k.spec.ticket, default=None
    )  # not the last in line: a position may put it first


def reenter(ledger: Ledger, item: Item, reason: Reason) -> tuple[ItemId, ...]:
    """Bring back an item that waited (back-off, schedule, retry): it is queued with its old ticket.

    Gives the promoted item, if this one had kept its lane and a newer one replaces it.
    """
    lane = item.spec.lane
    newer = newest_replacement(ledger, item)
    if newer is not None:
        supersede(ledger, item, newer)
        return promote(ledger, lane, None) if lane is not None else ()
    owner = ledger.owner(lane) if lane is not None else None
    free = owner is None or owner.id == item.id
    status = ItemStatus.PENDING if free else ItemStatus.DEFERRED
    item = ledger.change(item, status=status, due_us=None, promoted_from=None, reason=reason)
    ledger.event(EventKind.ITEM_REENTERED, item, reason, status=item.status)
    return ()


def answer(ledger: Ledger, item: Item) -> tuple[ItemId, ...]:
    """A person's message answers the question of an item, and brings it back with both.

    A live run gets the message. It keeps the lease that its question gave it: the prompt may still be open.
    """
    ledger.event(
        EventKind.QUESTION_ANSWERED, item, Reason.ANSWERED, run=item.state.run, n=item.state.message_count
    )
    if item.asking_live:
        ledger.change(item, reason=Reason.ANSWERED)
        return ()
    return reenter(ledger, item, Reason.ANSWERED)


def quote_question(ledger: Ledger, item: Item, sender: Sender, ticket: int) -> Item:
    """Put the open question of a live run before the answer of a person: whoever reads the answer later, such
    as the next run, sees both. Most open questions are answered elsewhere, and become no message."""
    question = ledger.questions.get(item.id)
    if not (item.asking_live and question and sender.kind is SenderKind.PERSON):
        return item
    agent = item.state.run_agent or NO_AGENT
    asker = Sender(SenderKind.AGENT, agent)
    return ledger.add_message(item.id, question, ticket=ticket, origin=item.id, author=agent, sender=asker)


def ask_to_stop(
    ledger: Ledger, item: Item, into: ItemStatus, why: str, newer: Item | None = None, by: str | None = None
) -> None:
    """Ask a running item to stop; when its grace ends, its lease is revoked. An external run has no process
    to signal: its grace is the time to stop the work outside.

    A second request does not change the grace of the first; an operator's is only recorded. But a second
    request can end an item that the first would have offered again.
    """
    first = item.state.cancel_into is None
    if first:
        revoke_us = ledger.now_us + to_us(ledger.timing.cancel_grace_s)
        due_us = item.state.due_us
        item = ledger.change(
            item,
            cancel_into=into,
            cancel_why=why,
            revoke_us=revoke_us,
            due_us=revoke_us if due_us is None else min(due_us, revoke_us),
        )
    elif not item.stops_for_good and into is not ItemStatus.PENDING:
        first = True
        item = ledger.change(item, cancel_into=into, cancel_why=why)
    if first or newer is None:
        ledger.event(
            EventKind.CANCEL_REQUESTED,
            item,
            why,
            run=item.state.run,
            by=by,
            by_item=newer.id if newer else None,
            revoke_us=item.state.revoke_us,
        )
    if newer is not None and item.state.cancel_into is ItemStatus.SUPERSEDED:
        ledger.change(item, absorbed_by=newer.id)
