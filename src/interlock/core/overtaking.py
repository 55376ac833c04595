"""Overtaking: when the owner of a lane that has not started gives way to an item behind it.

An owner can be overtaken while it cannot start: its agent is full, paused, at a quota limit or unknown, or
lacks the type or a label; its project is paused; it is blocked; its plan starts no tasks. And once its agent
is *gone*:

    gone_us = max(last claim + overtake_after, last heartbeat of a worker + 30 s), while it has no run

All times are the store's. The decision whether an agent is gone is made here; a database only finds
candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.core.commands import CommandAnswer, Overtake
from interlock.core.model import UNPOSITIONED, EventKind, Item, Reason, RetryLane
from interlock.core.record import Record, replace
from interlock.core.states import ItemStatus
from interlock.core.timing import to_us
from interlock.core.workers import ALIVE_S

if TYPE_CHECKING:
    from interlock.core.ledger import Ledger

#: How long an agent may make no claim before its items can be overtaken, unless it was set otherwise.
OVERTAKE_AFTER_S = 60.0
#: The longest that can be set: a week.
OVERTAKE_AFTER_MAX_S = 7 * 24 * 3600.0


class AgentPresence(Record):
    """The signs of life of an agent."""

    #: When it made its last claim; null if it never did.
    seen_us: int | None = None
    #: The last heartbeat of one of its workers.
    worker_us: int | None = None
    #: It has a run within its deadline.
    running: bool = False
    #: How long it may make no claim; null: the default; 0: its items are never overtaken because it is gone.
    overtake_after_s: float | None = None


def gone_us(owner: Item, agent: AgentPresence) -> int | None:
    """From when the agent of an owner counts as gone without a sign of life; null: never.

    For an agent that has never made a claim, the wait begins when the item was added.
    """
    after_s = OVERTAKE_AFTER_S if agent.overtake_after_s is None else agent.overtake_after_s
    if agent.running or after_s == 0:
        return None
    since_us = owner.spec.created_us if agent.seen_us is None else agent.seen_us
    heard_us = 0 if agent.worker_us is None else agent.worker_us + to_us(ALIVE_S)
    return max(since_us + to_us(after_s), heard_us)


def last_sign_us(item: Item, agent: AgentPresence, now_us: int) -> int | None:
    """The last sign of life of an agent that has been silent for the usual time and has no live worker. Null
    while the agent is alive, 0 if it never gave a sign of life."""
    at_us = gone_us(item, replace(agent, overtake_after_s=None))
    if at_us is None or at_us > now_us:
        return None
    return max(agent.seen_us or 0, agent.worker_us or 0)


def is_absent(agent: AgentPresence, oldest_us: int | None, now_us: int) -> bool:
    """Whether an agent has no run and no live worker, and has made no claim for the usual time. For an agent
    that has never made a claim, the time begins when the oldest item that waits for it was added."""
    since_us = oldest_us if agent.seen_us is None else agent.seen_us
    if agent.running or (since_us or 0) + to_us(OVERTAKE_AFTER_S) > now_us:
        return False
    return agent.worker_us is None or agent.worker_us + to_us(ALIVE_S) < now_us


def is_gone(owner: Item, agent: AgentPresence | None, now_us: int) -> bool:
    """Whether the agent of an owner is gone. An agent that the store does not know is unknown, not gone."""
    at_us = None if agent is None else gone_us(owner, agent)
    return at_us is not None and at_us <= now_us


def may_overtake(item: Item, owner: Item) -> bool:
    """Only an owner that has not started is overtaken, and never where a position orders the lane or the
    owner keeps it for its retries."""
    return (
        item.status is ItemStatus.DEFERRED
        and owner.state.ready
        and item.spec.lane == owner.spec.lane
        and item.spec.position == owner.spec.position == UNPOSITIONED
        and owner.spec.retry_lane is not RetryLane.KEEP
    )


def overtake(ledger: Ledger, command: Overtake) -> CommandAnswer:
    """Swap a deferred item with an owner that cannot start or whose agent is gone. The owner keeps its
    ticket."""
    item, owner = ledger.items[command.item], ledger.items[command.owner]
    lane = item.spec.lane
    held = item.state.blocked or ledger.blocked(lane) or ledger.is_shut(lane, item.spec.type)
    if held or not may_overtake(item, owner):
        return CommandAnswer(item=item.id, changed=False)
    agent = ledger.snapshot.presence.get(owner.spec.agent_key)
    if command.gone and not is_gone(owner, agent, ledger.now_us):
        return CommandAnswer(item=item.id, changed=False)
    reason = Reason.AGENT_GONE if command.gone else Reason.OVERTAKEN
    owner = ledger.change(owner, status=ItemStatus.DEFERRED, reason=reason)
    item = ledger.change(item, status=ItemStatus.PENDING, front=False, reason=reason)
    ledger.event(EventKind.LANE_OVERTAKEN, owner, reason, by_item=item.id, by_agent=item.spec.agent_key)
    return CommandAnswer(item=item.id, changed=True)
