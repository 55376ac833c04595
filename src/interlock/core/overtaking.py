"""Overtaking: when the owner of a lane that has not started gives way to an item behind it.

An owner can be overtaken while it cannot start: its agent is full, paused, behind a wall or unknown, or lacks
the type or a label; its project is paused; it is blocked; its plan gives out no tasks. And once its agent is
*gone*:

    gone_us = max(last claim + overtake_after, last word of a worker + 30 s), while it has no run

All times are the store's. Whether an agent is gone is decided here; a database looks for owners that may be.
"""

from __future__ import annotations

from interlock.core.model import UNPOSITIONED, Item, RetryLane
from interlock.core.record import Record, replace
from interlock.core.states import ItemStatus
from interlock.core.timing import to_us
from interlock.core.workers import ALIVE_S

#: How long an agent may make no claim before its items can be overtaken, unless it was set otherwise.
OVERTAKE_AFTER_S = 60.0
#: The longest that can be set: a week.
OVERTAKE_AFTER_MAX_S = 7 * 24 * 3600.0


class Presence(Record):
    """The signs of life of an agent."""

    #: When it made its last claim; null if it never did.
    seen_us: int | None = None
    #: When one of its workers was last heard.
    worker_us: int | None = None
    #: It has a run whose time is not over.
    running: bool = False
    #: How long it may make no claim; null: the default; 0: its items are never overtaken because it is gone.
    overtake_after_s: float | None = None


def gone_us(owner: Item, agent: Presence) -> int | None:
    """From when the agent of an owner counts as gone, if it shows no sign of life before; null: not at all.

    An agent that has never made a claim is waited for from the time at which the item was added.
    """
    after_s = OVERTAKE_AFTER_S if agent.overtake_after_s is None else agent.overtake_after_s
    if agent.running or after_s == 0:
        return None
    since_us = owner.spec.created_us if agent.seen_us is None else agent.seen_us
    heard_us = 0 if agent.worker_us is None else agent.worker_us + to_us(ALIVE_S)
    return max(since_us + to_us(after_s), heard_us)


def last_sign_us(item: Item, agent: Presence, now_us: int) -> int | None:
    """When an agent gave its last sign of life, if it was silent for as long as it usually takes to count as
    gone: it has no live worker. Null while it is there, 0 if it never gave one."""
    at_us = gone_us(item, replace(agent, overtake_after_s=None))
    if at_us is None or at_us > now_us:
        return None
    return max(agent.seen_us or 0, agent.worker_us or 0)


def is_gone(owner: Item, agent: Presence | None, now_us: int) -> bool:
    """Whether the agent of an owner is gone. One that nobody knows is not gone, but unknown."""
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
