"""Which items a claim may start, and how many. Lanes play no part in it.

A database picks, starts and renews in one statement of its own, by the same rules; a store without a database
uses `wanted`, `started` and `renewed`.
"""

from __future__ import annotations

from interlock.core.errors import InvalidInput
from interlock.core.model import NO_AGENT, Item, ItemId, RunId
from interlock.core.plans.model import EDIT_TYPE
from interlock.core.record import Record, replace
from interlock.core.states import ItemStatus
from interlock.core.timing import deadline_us, to_us

#: A run gets at most this many messages at once.
MESSAGES_AT_ONCE = 1_000


class Agent(Record):
    """A name, what it can do, and how many runs at once."""

    key: str
    name: str
    max_concurrency: int | None = None
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    paused_why: str | None = None
    seen_us: int | None = None
    #: The end and the name of its quota limit. It starts no run until then; null without a limit.
    wall_us: int | None = None
    wall_why: str | None = None
    #: How long it may make no claim before its items can be overtaken: see `overtaking`.
    overtake_after_s: float | None = None
    #: The pool whose capacity it shares; its limit and its runs are for display, like the counts below.
    pool: str | None = None
    pool_max: int | None = None
    pool_running: int = 0
    #: For display only: a claim counts again under the agent's lock.
    running: int = 0
    pending: int = 0
    #: In the list of all agents: its items that wait behind others of their lanes; and, if it has never made
    #: a claim, when the oldest of the items that wait for it was added.
    deferred: int = 0
    oldest_us: int | None = None
    #: How many of its runs are edits of plans.
    editing: int = 0

    @property
    def waiting(self) -> int:
        """How many items wait for it, in a queue or behind others of their lanes."""
        return self.pending + self.deferred


class Claim(Record):
    """A request to start work. Without types it takes any; it needs all labels of an item that it starts."""

    agent: str
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    limit: int = 1
    lease_s: float | None = None
    worker: str | None = None
    #: Only this item, if it may be claimed.
    item: ItemId | None = None
    #: Whether `plan.edit` items are wanted too.
    edits: bool = True
    #: The work is done outside, by no process of Interlock: the run has no lease.
    external: bool = False


def narrowed(claim: Claim, agent: Agent | None) -> Claim | None:
    """The claim limited to what the agent can do.

    None if the agent is paused, has hit a quota limit, or does none of the types.
    The types of a claim narrow the agent's own; its labels replace the agent's own.
    """
    if agent is None:
        return claim
    if agent.paused_why is not None or agent.wall_us is not None:
        return None
    types = claim.types or agent.types
    if claim.types and agent.types:
        types = tuple(t for t in claim.types if t in agent.types)
        if not types:
            return None
    return replace(claim, types=types, labels=claim.labels or agent.labels)


def with_room(
    claim: Claim, agent: Agent | None, running: int, editing: int, pool_room: int | None = None
) -> Claim | None:
    """The claim limited to the runs that the agent and its pool have room for; None without room.

    `room = max_concurrency - running - max(0, editing - 1)`, where `editing` counts `plan.edit` runs and
    `running` all others; `pool_room` is the same for its pool, summed over the agents there. The lesser
    counts. So one edit has a slot of its own: a full agent may still do one, or an editor that works on
    its own plan's tasks would wait for itself for ever. Further edits need room like other work, and an agent
    with nothing but edits has no more of them than its limit. A claim for many beside one running edit may
    get one item less than there is room for; the next claim gets it.
    """
    room = _room(agent, running, editing, pool_room)
    if room is None:
        return claim
    if room <= 0:
        wants_edits = claim.edits and (not claim.types or EDIT_TYPE in claim.types)
        return replace(claim, types=(EDIT_TYPE,), limit=1) if wants_edits and not editing else None
    if not editing:
        return replace(claim, limit=min(claim.limit, room))
    if room > 1:
        return replace(claim, limit=min(claim.limit, room - 1))
    types = tuple(t for t in claim.types if t != EDIT_TYPE)
    return replace(claim, types=types, limit=1, edits=False) if types or not claim.types else None


def has_room(agent: Agent | None, running: int, editing: int, pool_room: int | None = None) -> bool:
    """Whether the agent may start one more run that is not a `plan.edit`."""
    room = _room(agent, running, editing, pool_room)
    return room is None or room > 0


def _room(agent: Agent | None, running: int, editing: int, pool_room: int | None) -> int | None:
    most = None if agent is None else agent.max_concurrency
    if most is None:
        return pool_room
    own = most - running - max(0, editing - 1)
    return own if pool_room is None else min(own, pool_room)


class Pool(Record):
    """A capacity that several agents share."""

    name: str
    max_concurrency: int
    #: For display only: a claim counts again under the pool's lock. One edit of each agent does not count.
    running: int = 0
    agents: tuple[str, ...] = ()


def wanted(claim: Claim, item: Item) -> bool:
    """Whether this claim may start the item."""
    spec = item.spec
    return (
        item.state.ready
        and (claim.item is None or claim.item == item.id)
        and spec.agent_key in (claim.agent, NO_AGENT)
        and (not claim.types or spec.type in claim.types)
        and (claim.edits or spec.type != EDIT_TYPE)
        and set(spec.labels) <= set(claim.labels)
    )


def started(item: Item, claim: Claim, run: RunId, lease_s: float, now_us: int) -> Item:
    """The item as a run of this claim's agent. The run gets the item's messages so far, and a lease unless
    it is external."""
    state = item.state
    until_us = None if claim.external else now_us + to_us(lease_s)
    return item._replace(
        state=state._replace(
            status=ItemStatus.IN_PROGRESS,
            attempt=state.attempt + 1,
            run=run,
            run_agent=claim.agent,
            run_worker=claim.worker,
            run_started_us=now_us,
            run_lease_s=None if claim.external else lease_s,
            lease_until_us=until_us,
            due_us=deadline_us(item.spec, until_us, now_us, None),
            claim_by_us=None,
            delivered=min(state.message_count, MESSAGES_AT_ONCE),
            seen=0,
            first_claimed_us=state.first_claimed_us or now_us,
        )
    )


def check_seen(item: Item, seen: int) -> None:
    """Raise if a read mark is above the item's last message: it would cover messages that come later."""
    last = item.state.message_count
    if seen > last:
        raise InvalidInput(
            f"Item {item.id} has no message {seen}: {f'the last is {last}' if last else 'it has none yet'}.",
            "Pass the number of the last message that you have read.",
        )


def renewed(item: Item, seen: int, now_us: int) -> Item:
    """The running item with a renewed lease; after a cancel request it ends with the grace at the latest. An
    external run has no lease to renew."""
    check_seen(item, seen)
    state = item.state
    assert state.run_started_us is not None
    until_us = None if state.run_lease_s is None else now_us + to_us(state.run_lease_s)
    if until_us is not None and state.revoke_us is not None:
        until_us = min(until_us, state.revoke_us)
    return item._replace(
        state=state._replace(
            lease_until_us=until_us,
            due_us=deadline_us(item.spec, until_us, state.run_started_us, state.revoke_us),
            seen=max(state.seen, seen),
        )
    )
