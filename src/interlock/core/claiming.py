"""Who may start what: the little that a claim has to decide. Lanes play no part in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from interlock.core.model import ItemId


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A name, what it can do, and how many runs at once."""

    key: str
    name: str
    max_concurrency: int | None = None
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    paused_why: str | None = None
    seen_us: int | None = None
    #: Counted for showing; a claim counts again under the agent's lock.
    running: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A wish to start work. No types means any type; an item is offered if its labels are all held."""

    agent: str
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    limit: int = 1
    lease_s: float | None = None
    worker: str | None = None
    #: Only this one, if it may be claimed.
    item: ItemId | None = None


def narrowed(wish: Claim, agent: Agent | None) -> Claim | None:
    """The wish within what the agent can do, or nothing if it is paused or the two do not meet.

    A wish narrows the agent's own types; its labels stand in for the agent's own where it names any.
    """
    if agent is None:
        return wish
    if agent.paused_why is not None:
        return None
    types = wish.types or agent.types
    if wish.types and agent.types:
        types = tuple(t for t in wish.types if t in agent.types)
        if not types:
            return None
    return replace(wish, types=types, labels=wish.labels or agent.labels)


def with_room(wish: Claim, agent: Agent | None, running: int) -> Claim | None:
    """The wish cut to the runs the agent has room for, or nothing."""
    if agent is None or agent.max_concurrency is None:
        return wish
    room = agent.max_concurrency - running
    return replace(wish, limit=min(wish.limit, room)) if room > 0 else None
