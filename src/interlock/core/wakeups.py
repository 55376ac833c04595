"""What a message may start, by who wrote it; and where a chain of wake-ups without a person ends.

===============================  ====================================  ==============================
written by                       wakes, makes a follow-up, supersedes  the wake-ups in a row
===============================  ====================================  ==============================
a person                         yes                                   begin again at zero
another agent, another system    yes, up to `wakes_max` in a row       one more
our own bot, an outsider, the    never: a current run gets it          stay
agent that runs the item or
ran it last
===============================  ====================================  ==============================

They are counted for each lane, and for each chain of follow-ups of an item without a lane. What would be one
too many is *over the wake limit*: it keeps its messages and waits for a person (`loop`).
"""

from __future__ import annotations

from collections.abc import Iterable

from interlock.core.lanes import answer, reenter
from interlock.core.ledger import Ledger
from interlock.core.model import (
    ABSORBING,
    ANOTHER_SYSTEM,
    NO_STREAK,
    EventKind,
    Item,
    ItemId,
    NewItem,
    Reason,
    Sender,
    SenderKind,
    Streak,
)
from interlock.core.names import agent_key

#: Who starts nothing, on whatever item.
_MUTE = frozenset({SenderKind.BOT, SenderKind.OUTSIDER})


def starts_nothing(item: Item, kind: SenderKind, agent: str | None) -> bool:
    """Whether our own bot wrote a message of the item, or an outsider, or the agent that runs it or ran it
    last."""
    return kind in _MUTE or (kind is SenderKind.AGENT and agent == item.worked_by)


def why_nothing(kinds: Iterable[SenderKind]) -> Reason:
    """Why messages of these senders start nothing."""
    return Reason.OUTSIDER if SenderKind.OUTSIDER in kinds else Reason.OWN_MESSAGE


def is_echo(new: NewItem, lane: str, last_agent: str) -> bool:
    """Whether an arrival only repeats to an agent what it, our own bot or an outsider wrote.

    It is for the agent that it names; if it names none, for the agent that runs the lane or ran it last.
    Under `queue` and `reject` it is new work. So is what a run adds on another lane.
    """
    sender = new.sender
    if new.policy not in ABSORBING:
        return False
    if sender.kind is SenderKind.AGENT:
        elsewhere = sender.run is not None and sender.lane != lane
        return not elsewhere and sender.agent == (agent_key(new.agent) or last_agent)
    return sender.kind in _MUTE


def one_more(ledger: Ledger, of: str | ItemId, sender: Sender = ANOTHER_SYSTEM) -> Streak | None:
    """The wake-ups in a row of a lane, or of an item without one, after one more; none if it is one too many.

    What one run adds to its own lane counts once.
    """
    streak, run = ledger.streak(of), sender.run if sender.lane == of else None
    if run is not None and streak.run == run:
        return streak
    if streak.wakes >= ledger.timing.wakes_max:
        return None
    return Streak(streak.wakes + 1, run or streak.run)


def record_wake_limit(ledger: Ledger, item: Item) -> None:
    """Record that a wake-up of the item was one too many."""
    ledger.event(EventKind.WAKE_STOPPED, item, Reason.LOOP, wakes=ledger.streak(item.chain).wakes)


def wake_by_message(ledger: Ledger, item: Item, sender: Sender) -> tuple[ItemId, ...]:
    """Let a new message of the item start it, if its sender may; gives the promoted items."""
    promoted: tuple[ItemId, ...] = ()
    if sender.kind is SenderKind.PERSON:
        promoted = restart(ledger, item.chain)
        item = ledger.items[item.id]
    # A message does not end a quota limit, and only a person answers a question.
    if item.asking and sender.kind is SenderKind.PERSON:
        return (*promoted, *answer(ledger, item))
    if (
        not item.parked
        or item.at_quota_limit
        or item.asking
        or starts_nothing(item, sender.kind, sender.agent)
    ):
        return promoted
    if sender.kind is not SenderKind.PERSON:
        streak = one_more(ledger, item.chain, sender)
        if streak is None:
            record_wake_limit(ledger, item)
            return promoted
        ledger.set_streak(item.chain, streak)
    return (*promoted, *reenter(ledger, ledger.items[item.id], Reason.WOKEN))


def restart(ledger: Ledger, of: str | ItemId, reason: Reason = Reason.WOKEN) -> tuple[ItemId, ...]:
    """A person has written: count from zero, and start what is over the wake limit."""
    if ledger.streak(of).wakes:
        ledger.set_streak(of, NO_STREAK)
    found = ledger.over_wake_limit(of) if isinstance(of, str) else [ledger.items[of]]
    waiting = [item.id for item in found if item.over_wake_limit]
    # One may be replaced by the next, which gets its messages.
    return tuple(moved for each in waiting for moved in reenter(ledger, ledger.items[each], reason))


def one_too_many(ledger: Ledger, new: NewItem, lane: str, kin: list[Item]) -> bool:
    """Whether an arrival on a lane would be one wake-up too many; counts it if not.

    An arrival that may absorb or replace others is an event: it counts where it starts a run, and not where
    another waits already. Other arrivals are new work, and count only if a run adds them to its own lane.
    """
    sender = new.sender
    if sender.kind is SenderKind.PERSON:
        return False
    if new.policy in ABSORBING:
        counts = not any(k.state.run is None and not k.over_wake_limit for k in kin)
    else:
        counts = sender.run is not None and sender.lane == lane
    if not counts:
        return False
    streak = one_more(ledger, lane, sender)
    if streak is not None:
        ledger.set_streak(lane, streak)
    return streak is None
