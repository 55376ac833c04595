"""Arrival: what happens to an item when it is added. One entry for every way in.

The rules when the lane is taken (*kin* means same agent key and same policy; a *namesake* is addressed to the
arrival's agent or run by it, whatever its policy, and is no hold, no edit of a plan and no external run):

==========  ==================  ===========================================================
policy      owner is            the arrival
==========  ==================  ===========================================================
queue       anyone              is deferred
coalesce    (namesake anywhere) becomes a message of the unfinished namesake
coalesce    someone else        is deferred
supersede   kin, not started    replaces the owner
supersede   kin, running        asks the owner to stop, waits first in line
supersede   someone else        is deferred; waiting kin is replaced
latest      kin, not started    replaces the owner
latest      kin, running        is deferred; waiting kin is replaced
both        kin, asking         becomes a message of it, unless a person sends it
reject      anyone              is refused and leaves no row
==========  ==================  ===========================================================

A lane that is shut by its gate is not taken: an item that arrives there enters it and waits for the gate.
"""

from __future__ import annotations

from typing import assert_never

from interlock.core.commands import Arrival, Arrive
from interlock.core.endings import expire
from interlock.core.lanes import ask_to_stop, promote, quote_question, supersede
from interlock.core.ledger import Ledger
from interlock.core.model import (
    ArrivalDecision,
    EventKind,
    Item,
    ItemId,
    Mode,
    NewItem,
    Policy,
    Reason,
    SenderKind,
    Spec,
    State,
    mode_for,
)
from interlock.core.names import agent_key
from interlock.core.plans.model import EDIT_TYPE
from interlock.core.record import replace
from interlock.core.states import ItemStatus
from interlock.core.timing import to_us
from interlock.core.wakeups import (
    is_echo,
    one_too_many,
    record_wake_limit,
    restart,
    starts_nothing,
    wake_by_message,
    why_nothing,
)


def arrive(ledger: Ledger, command: Arrive) -> Arrival:
    """Decide on one arrival."""
    new = command.item
    first = _seen_before(ledger, command)
    if first is not None:
        ledger.event(
            EventKind.ITEM_DUPLICATE,
            ledger.items.get(first),
            Reason.DEDUPE_KEY,
            dedupe_key=new.dedupe_key,
            title=new.title,
        )
        return Arrival(verdict=ArrivalDecision.DUPLICATE, reason=Reason.DEDUPE_KEY, item=first, arrived=None)
    if new.lane is None:
        return _decide(ledger, command, lane=None)
    match mode_for(ledger.snapshot.modes, new.project, new.lane):
        case Mode.OFF:
            return _decide(ledger, command, lane=None)
        case Mode.OBSERVE:
            return _observe(ledger, command, new.lane)
        case Mode.ENFORCE:
            arrival = _decide(ledger, command, new.lane)
            if new.sender.kind is SenderKind.PERSON and arrival.arrived is not None:
                restart(ledger, new.lane)
            return arrival
        case other:
            assert_never(other)


def _seen_before(ledger: Ledger, command: Arrive) -> ItemId | None:
    key = command.item.dedupe_key
    if key is None:
        return None
    first = ledger.snapshot.seen_keys.get((command.item.project, key))
    if first is not None:
        return first
    return ledger.remember_key(command.item.project, key, command.id)


def _decide(ledger: Ledger, command: Arrive, lane: str | None) -> Arrival:
    new = command.item
    due_us = _due_us(ledger, new)
    if due_us is not None:
        return _schedule(ledger, command, lane, due_us)
    if lane is None:
        state = State(status=ItemStatus.PENDING, reason=Reason.NO_LANE)
        return _added(ledger, command, lane, state, ArrivalDecision.ADMITTED)
    _repair(ledger, lane)
    if new.sender.kind is SenderKind.PERSON and new.policy is not Policy.REJECT:
        restart(ledger, lane)  # earlier arrivals go first
    owner = ledger.owner(lane)
    kin = _kin(ledger, new, lane)
    if is_echo(new, lane, ledger.last_agent(lane)):
        return _decide_echo(ledger, command, lane, owner, kin)
    if new.policy is Policy.COALESCE and kin:
        return _coalesce(ledger, command, lane, _absorber(kin))
    if new.sender.kind is not SenderKind.PERSON:  # only a person answers a question
        asking = [k for k in kin if k.asking and k.parked]
        kin = [k for k in kin if k not in asking]
        if asking and not kin:
            return _coalesce(ledger, command, lane, asking[0])
    return _by_policy(ledger, command, lane, owner, kin)


def _schedule(ledger: Ledger, command: Arrive, lane: str | None, due_us: int) -> Arrival:
    """An arrival that is due later. An agent may schedule itself as often as the wake-up limit allows."""
    new = command.item
    if lane is not None:
        owner, kin = ledger.owner(lane), _kin(ledger, new, lane)
        if new.sender.kind is not SenderKind.AGENT and is_echo(new, lane, ledger.last_agent(lane)):
            return _decide_echo(ledger, command, lane, owner, kin)
        if one_too_many(ledger, new, lane, kin):
            return _wait_for_person(ledger, command, lane, owner)
    state = State(status=ItemStatus.WAITING, due_us=due_us, reason=Reason.SCHEDULED)
    return _added(ledger, command, lane, state, ArrivalDecision.QUEUED)


def _wait_for_person(ledger: Ledger, command: Arrive, lane: str, owner: Item | None) -> Arrival:
    """The wake-up limit is exceeded: the item waits for a person."""
    state = State(status=ItemStatus.WAITING, reason=Reason.LOOP)
    arrival = _added(ledger, command, lane, state, ArrivalDecision.QUEUED, owner)
    record_wake_limit(ledger, ledger.items[command.id])
    return arrival


def _by_policy(ledger: Ledger, command: Arrive, lane: str, owner: Item | None, kin: list[Item]) -> Arrival:
    """An arrival that no item absorbs."""
    new = command.item
    if new.policy is Policy.REJECT and owner is not None:
        return _reject(ledger, command, lane, owner)
    if one_too_many(ledger, new, lane, kin):
        return _wait_for_person(ledger, command, lane, owner)
    match new.policy:
        case Policy.QUEUE:
            return _queue(ledger, command, lane, owner, Reason.LANE_QUEUED)
        case Policy.COALESCE:
            other = owner is not None and not owner.answers_to(agent_key(new.agent))
            reason = Reason.DEFERRED if other else Reason.LANE_QUEUED
            return _with_policy_reason(_queue(ledger, command, lane, owner, reason), new)
        case Policy.SUPERSEDE | Policy.LATEST:
            return _with_policy_reason(_replace(ledger, command, lane, owner, kin), new)
        case Policy.REJECT:
            return _queue(ledger, command, lane, owner, Reason.LANE_FREE)
        case other:
            assert_never(other)


def _with_policy_reason(arrival: Arrival, new: NewItem) -> Arrival:
    """The answer, with the reason why the arrival was queued instead of coalesced or replacing an item."""
    owner = arrival.holder
    if owner is None or arrival.verdict is not ArrivalDecision.QUEUED:
        return arrival
    key = agent_key(new.agent)
    whom = f"of {key}" if key else "without an agent"
    if _is_kin(owner, new) and owner.spec.lane is None:
        why = f"item {owner.id} was admitted while the lane was in observe mode, so the new item waits"
    elif new.policy is Policy.COALESCE:
        why = f"no item {whom} on this lane takes messages, so the new item waits"
    elif _is_kin(owner, new):
        why = f"item {owner.id} is running; only items that have not started are replaced"
    else:
        why = f"no item {whom} on this lane has this policy, so none is replaced"
    return replace(arrival, policy_why=f"{new.policy}: {why}")


def _due_us(ledger: Ledger, new: NewItem) -> int | None:
    """When an arrival is due, if that is in the future. A delay counts from now on the store's clock."""
    due_us = new.run_at_us
    if due_us is None and new.run_after_s is not None:
        due_us = ledger.now_us + to_us(new.run_after_s)
    return due_us if due_us is not None and due_us > ledger.now_us else None


def _repair(ledger: Ledger, lane: str) -> None:
    """Repair the lane before the arrival: expire an owner past its deadline, promote on a free lane.

    A task is left to the sweeper and to claims: it ends under the lock of its plan's lane.
    """
    owner = ledger.owner(lane)
    if owner is not None and owner.spec.plan is None:
        expire(ledger, owner)
    promote(ledger, lane, None)


def _queue(ledger: Ledger, command: Arrive, lane: str, owner: Item | None, reason: Reason) -> Arrival:
    shut = ledger.is_shut(lane, command.item.type)
    if owner is None:
        state = State(status=ItemStatus.PENDING, reason=Reason.SERIES_QUEUED if shut else Reason.LANE_FREE)
        return _added(
            ledger, command, lane, state, ArrivalDecision.QUEUED if shut else ArrivalDecision.ADMITTED
        )
    state = State(status=ItemStatus.DEFERRED, reason=Reason.SERIES_QUEUED if shut else reason)
    return _added(ledger, command, lane, state, ArrivalDecision.QUEUED, owner)


def _kin(ledger: Ledger, new: NewItem, lane: str) -> list[Item]:
    """The unfinished items of a lane that an arrival may be absorbed by or may replace."""
    key = agent_key(new.agent)
    if new.policy is Policy.COALESCE:
        return [i for i in ledger.items_of_agent(lane, key) if _absorbs(i)]
    return ledger.kin(lane, key, new.policy)


def _absorbs(item: Item) -> bool:
    """Whether an item takes messages for its agent. A hold, an edit of a plan and an external run have no
    reader."""
    return not (item.is_hold or item.spec.type == EDIT_TYPE or item.external)


def _absorber(kin: list[Item]) -> Item:
    """Parked retry, then pending, deferred, running, then over the wake limit; the oldest of each."""
    ranks = {ItemStatus.PENDING: 1, ItemStatus.DEFERRED: 2, ItemStatus.IN_PROGRESS: 3, ItemStatus.WAITING: 4}
    return min(kin, key=lambda i: (0 if i.parked else ranks[i.status], i.line[1:]))


def _decide_echo(ledger: Ledger, command: Arrive, lane: str, owner: Item | None, kin: list[Item]) -> Arrival:
    """Text by our own bot, an outsider or the agent itself starts no work. An unfinished item of the lane
    gets it as a message.

    Without such an item the arrival is cancelled. An operator's retry starts it.
    """
    sender = command.item.sender
    if kin:
        return _coalesce(ledger, command, lane, _absorber(kin))
    if owner is not None and starts_nothing(owner, sender.kind, sender.agent):
        return _coalesce(ledger, command, lane, owner)
    reason = why_nothing({sender.kind})
    state = State(status=ItemStatus.CANCELLED, ended_us=ledger.now_us, reason=reason)
    return _added(ledger, command, lane, state, ArrivalDecision.REJECTED, owner)


def _coalesce(ledger: Ledger, command: Arrive, lane: str, absorber: Item) -> Arrival:
    new = command.item
    state = State(
        status=ItemStatus.COALESCED,
        absorbed_by=absorber.id,
        ended_us=ledger.now_us,
        reason=Reason.SAME_NAME,
    )
    arrived = ledger.add(_spec(ledger, command, lane), state, new.payload)
    absorber = quote_question(ledger, absorber, new.sender, command.ticket)
    _add_message(ledger, absorber, command, new.message if new.message is not None else new.title)
    ledger.event(
        EventKind.ITEM_COALESCED,
        arrived,
        Reason.SAME_NAME,
        run=absorber.state.run,
        into_item=absorber.id,
        verdict=ArrivalDecision.COALESCED,
    )
    wake_by_message(ledger, ledger.items[absorber.id], new.sender)
    absorber = ledger.items[absorber.id]
    return Arrival(
        verdict=ArrivalDecision.COALESCED,
        reason=Reason.SAME_NAME,
        item=absorber.id,
        arrived=arrived.id,
        holder=ledger.owner(lane),
    )


def _replace(ledger: Ledger, command: Arrive, lane: str, owner: Item | None, kin: list[Item]) -> Arrival:
    """`supersede` and `latest`: replace kin that has not started; only `supersede` stops a running one."""
    running = owner if owner in kin and owner.status is ItemStatus.IN_PROGRESS else None
    waiting = [k for k in kin if k.status is not ItemStatus.IN_PROGRESS]
    takes_lane = owner is None or owner in waiting
    stops = running is not None and command.item.policy is Policy.SUPERSEDE
    shut = ledger.is_shut(lane, command.item.type)
    verdict = ArrivalDecision.SUPERSEDING if waiting or stops else ArrivalDecision.QUEUED
    if takes_lane:
        verdict = (
            ArrivalDecision.SUPERSEDING
            if waiting
            else ArrivalDecision.QUEUED
            if shut
            else ArrivalDecision.ADMITTED
        )
        state = State(status=ItemStatus.PENDING, reason=Reason.LANE_FREE)
    else:
        state = State(status=ItemStatus.DEFERRED, front=stops, reason=Reason.LANE_QUEUED)
    if shut:
        state = state._replace(reason=Reason.SERIES_QUEUED)
    spec = _spec(ledger, command, lane)
    newcomer = ledger.add(spec, state, command.item.payload)
    for old in waiting:
        if old.asking:
            ledger.event(EventKind.QUESTION_ANSWERED, old, Reason.ANSWERED, by_item=newcomer.id)
        supersede(ledger, old, ledger.items[newcomer.id], speaks=command.item.message is not None)
    if stops and running is not None:
        ask_to_stop(ledger, running, ItemStatus.SUPERSEDED, Reason.NEWER_ARRIVAL, newcomer)
    return _record_arrival(ledger, command, ledger.items[newcomer.id], verdict, None if takes_lane else owner)


def _reject(ledger: Ledger, command: Arrive, lane: str, owner: Item) -> Arrival:
    new = command.item
    if new.dedupe_key is not None:
        ledger.forget_key(new.project, new.dedupe_key)
    ledger.event(
        EventKind.ITEM_REJECTED,
        None,
        Reason.LANE_HELD,
        project=new.project,
        lane=lane,
        agent=agent_key(new.agent),
        run=owner.state.run,
        title=new.title,
        holder_item=owner.id,
    )
    return Arrival(
        verdict=ArrivalDecision.REJECTED, reason=Reason.LANE_HELD, item=None, arrived=None, holder=owner
    )


def _observe(ledger: Ledger, command: Arrive, lane: str) -> Arrival:
    """Admit the item, and record what `enforce` would have done."""
    new = command.item
    owner = ledger.owner(lane)
    same = bool(_kin(ledger, new, lane)) or any(_is_kin(i, new) for i in ledger.active(lane))
    if owner is None:
        would = Reason.WOULD_ADMIT
    elif new.policy is Policy.REJECT:
        would = Reason.WOULD_REJECT
    elif same and new.policy is Policy.COALESCE:
        would = Reason.WOULD_COALESCE
    elif same and new.policy in (Policy.SUPERSEDE, Policy.LATEST):
        would = Reason.WOULD_SUPERSEDE
    else:
        would = Reason.WOULD_QUEUE
    due_us = _due_us(ledger, new)
    state = State(
        status=ItemStatus.PENDING if due_us is None else ItemStatus.WAITING, due_us=due_us, reason=would
    )
    item = ledger.add(_spec(ledger, command, None, observed=lane), state, new.payload)
    return _record_arrival(ledger, command, item, ArrivalDecision.OBSERVED, owner, EventKind.ITEM_OBSERVED)


def _is_kin(item: Item, new: NewItem) -> bool:
    """Whether an admitted item would be absorbed by another or replace it."""
    key = agent_key(new.agent)
    if new.policy is Policy.COALESCE:
        return item.answers_to(key) and _absorbs(item)
    return item.kin == (key, new.policy)


def _added(
    ledger: Ledger,
    command: Arrive,
    lane: str | None,
    state: State,
    verdict: ArrivalDecision,
    owner: Item | None = None,
) -> Arrival:
    item = ledger.add(_spec(ledger, command, lane), state, command.item.payload)
    return _record_arrival(ledger, command, item, verdict, owner)


def _record_arrival(
    ledger: Ledger,
    command: Arrive,
    item: Item,
    verdict: ArrivalDecision,
    owner: Item | None,
    kind: EventKind = EventKind.ITEM_ADDED,
) -> Arrival:
    if command.item.message is not None:
        _add_message(ledger, item, command, command.item.message)
    ledger.event(
        kind,
        item,
        item.state.reason,
        verdict=verdict,
        status=item.status,
        priority=item.spec.priority,
        holder_item=owner.id if owner else None,
        holder_run=owner.state.run if owner else None,
    )
    position = None
    if item.status is ItemStatus.DEFERRED:
        position = ledger.place_in_line(item)
    return Arrival(
        verdict=verdict,
        reason=item.state.reason,
        item=item.id,
        arrived=item.id,
        holder=owner,
        position=position,
    )


def _add_message(ledger: Ledger, target: Item, command: Arrive, text: str) -> None:
    new = command.item
    ledger.add_message(
        target.id,
        text,
        ticket=command.ticket,
        origin=command.id,
        author=new.author,
        sender=new.sender,
        reason=new.reason,
        url=new.url,
        said=new.said,
    )


def _spec(ledger: Ledger, command: Arrive, lane: str | None, observed: str | None = None) -> Spec:
    return ledger.spec(command.item, command.id, command.ticket, lane=lane, observed_lane=observed)
