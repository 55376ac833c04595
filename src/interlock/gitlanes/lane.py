"""One lane as git has it: from two documents to a snapshot for the rules, from a decision to new documents.

There is no rule here. What is special is time: the deadline of a run, and of an item that must be claimed
soon, is counted from when *this machine* first saw it (`git_sight`), never from what a document says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.core.commands import Arrive, Command, Expire, Repair
from interlock.core.decide import decide
from interlock.core.errors import ItemEnded, NotFound, TooLarge
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import UNPOSITIONED, Item, ItemId, NewItem, NewMessage
from interlock.core.plans.commands import PlanCommand
from interlock.core.states import ItemStatus
from interlock.core.timing import DEDUPE_KEPT_S, Timing, to_us
from interlock.gitlanes.documents import (
    COUNT_BITS,
    LEASE_FIELDS,
    ActionsRun,
    Key,
    Owner,
    OwnerRun,
    Queue,
    lane_bits,
)
from interlock.gitlanes.first_seen import Ages
from interlock.store.port import StoredMessage

#: Ended items and runs stay in the queue for so long that late writers can be answered; all are in `git log`.
ENDED_ITEMS_KEPT, ENDED_RUNS_KEPT, KEYS_KEPT = 20, 20, 200

#: Whether a workflow run's attempt has ended, as its forge says. Anything but a certain yes is no.
HasEnded = Callable[[ActionsRun], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long something must have been seen unchanged before its time is over."""

    ages: Ages
    now_us: int
    grace_s: float
    #: Added to every span, as a share of it: clocks of two machines do not run at exactly the same rate.
    margin_share: float
    has_ended: HasEnded

    def of(self, sight: str, span_s: float) -> int:
        """When the span is over that began with this first sight, on the clock of `now_us`."""
        return self.now_us + to_us(span_s * (1 + self.margin_share)) - self.ages.get(sight, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane at one moment: its documents, and the commits that carry them."""

    name: str
    ref_id: str
    owner: Owner = field(default_factory=Owner)
    queue: Queue = field(default_factory=Queue)
    owner_oid: str | None = None
    queue_oid: str | None = None

    @property
    def items(self) -> dict[ItemId, Item]:
        """The items as written; the running one with its lease."""
        items = dict(self.queue.items)
        run = self.owner.run
        if run is not None:
            item = items[run.item]
            lease: dict[str, Any] = {name: getattr(run, name) for name in LEASE_FIELDS}
            items[run.item] = item._replace(state=item.state._replace(**lease))
        return items

    @property
    def holder(self) -> Item | None:
        """The item that owns the lane."""
        return next((i for i in self.items.values() if i.active), None)

    @property
    def line(self) -> list[Item]:
        """Who waits, first one first."""
        waiting = (i for i in self.queue.items.values() if i.status is ItemStatus.DEFERRED)
        return sorted(waiting, key=lambda i: i.line)

    def require(self, item: ItemId) -> Item:
        """The item, as long as it is kept."""
        found = self.queue.items.get(item)
        if found is None:
            raise NotFound(
                f"There is no item {item} on lane {self.name}.",
                "If it ended long ago, git log of the lane has it.",
            )
        return found

    def require_unended(self, item: ItemId) -> None:
        """Raise if the item can never be claimed."""
        found = self.require(item)
        if found.terminal:
            raise ItemEnded(
                f"Item {item} has already ended as {found.status} ({found.state.reason}).",
                "git log of the lane tells more.",
                reason=found.state.reason,
            )

    def last_absorber(self, item: ItemId) -> ItemId:
        """Where a message to an item ends up."""
        found = self.require(item)
        while found.terminal and found.state.absorbed_by is not None:
            found = self.require(found.state.absorbed_by)
        return found.id

    def messages(self, item: ItemId, after: int, limit: int) -> list[StoredMessage]:
        """Messages of an item above a number, with the payload of the arrival they came with."""
        told = sorted((m for m in self.queue.messages if m.item == item and m.n > after), key=lambda m: m.n)
        return [
            StoredMessage(
                item=m.item,
                n=m.n,
                text=m.text,
                author=m.author,
                origin=m.origin,
                at_us=m.at_us,
                payload=self.queue.payloads.get(m.origin) if m.origin != m.item else None,
            )
            for m in sorted(told[:limit], key=lambda m: (m.ticket, m.n))
        ]

    # -- time -----------------------------------------------------------------------------------------

    def sights(self) -> list[str]:
        """What must have been seen for a while before this lane's time is over."""
        seen = [_ready(i) for i in self.queue.items.values() if i.state.claim_by_us is not None]
        run = self.owner.run
        if run is not None:
            seen += [_lease(self), f"run:{run.run}"]
            seen += [f"asked:{run.run}"] if run.revoke_us is not None else []
        return seen

    def seen_items(self, deadlines: Deadlines) -> dict[ItemId, Item]:
        """The items with deadlines by this machine's first sights instead of those written."""
        items = self.items
        for item in items.values():
            if item.state.claim_by_us is not None and item.spec.claim_within_s is not None:
                by_us = deadlines.of(_ready(item), item.spec.claim_within_s)
                items[item.id] = item._replace(state=item.state._replace(claim_by_us=by_us))
        run = self.owner.run
        if run is not None:
            items[run.item] = self._seen_run(items[run.item], run, deadlines)
        return items

    def _seen_run(self, item: Item, run: OwnerRun, deadlines: Deadlines) -> Item:
        until_us = deadlines.of(_lease(self), run.run_lease_s)
        due_us, revoke_us = until_us, None
        if item.spec.timeout_s is not None:
            due_us = min(due_us, deadlines.of(f"run:{run.run}", item.spec.timeout_s))
        if run.revoke_us is not None:  # only a run that knows of the request has a grace that can end
            revoke_us = deadlines.of(f"asked:{run.run}", deadlines.grace_s)
            due_us = min(due_us, revoke_us)
        if run.actions is not None and due_us > deadlines.now_us and deadlines.has_ended(run.actions):
            due_us = until_us = deadlines.now_us
        state = item.state._replace(lease_until_us=until_us, due_us=due_us, revoke_us=revoke_us)
        return item._replace(state=state)

    # -- deciding -------------------------------------------------------------------------------------

    def decide(
        self,
        items: Mapping[ItemId, Item],
        commands: Sequence[Command],
        now_us: int,
        timing: Timing,
        *,
        arrivals: Sequence[NewItem] = (),
    ) -> tuple[Decision, Lane]:
        """What the rules say to these commands and then to these arrivals, and the lane that follows."""
        count, ticket = self.queue.last_count, self.queue.last_ticket
        commands = [*commands]
        for nth, new in enumerate(arrivals, 1):
            commands.append(Arrive(item=new, id=self._item_id(count + nth), ticket=ticket + nth))
        count += len(arrivals)
        snapshot = self._snapshot(items, now_us)
        named = {c.item for c in commands if not isinstance(c, Arrive | Repair | PlanCommand)}
        spare = snapshot.follow_ups(named, now_us)
        spare_ids = tuple(self._item_id(count + nth) for nth in range(1, spare + 1))
        decision = decide(snapshot, commands, now_us, timing, spare_ids)
        if not (decision.settled or decision.born or decision.raised or decision.messages):
            return decision, self
        queue = replace(
            _applied(self.queue, decision, arrivals, now_us, before=items),
            last_count=count + spare,
            last_ticket=ticket + len(arrivals),
        )
        return decision, self._followed(queue)

    def overdue(self, items: Mapping[ItemId, Item], now_us: int) -> list[Command]:
        """What time alone must move, the earliest first."""
        due = [i for i in items.values() if i.overdue(now_us)]
        due.sort(key=lambda i: (i.state.due_us or i.state.claim_by_us or 0, i.id))
        return [Expire(item=i.id) for i in due]

    def begun(self, item: Item, handle: str, actions: ActionsRun | None) -> Lane:
        """The lane with this started item's run as its owner."""
        run = item.state.run
        assert run is not None
        owner = Owner(last_run=run, run=_owner_run(item, handle, actions))
        queue = replace(self.queue, last_run=run, items={**self.queue.items, item.id: item})
        return replace(self, owner=owner, queue=queue)

    def kept(self, item: Item) -> Lane:
        """The lane with its run's lease as this renewed item has it. The queue stays."""
        run = self.owner.run
        assert run is not None and run.run == item.state.run
        return replace(self, owner=replace(self.owner, run=_owner_run(item, run.handle, run.actions)))

    def _followed(self, queue: Queue) -> Lane:
        run = self.owner.run
        item = queue.items.get(run.item) if run is not None else None
        if run is None or (item is not None and item.state.run == run.run):
            return replace(self, queue=queue)
        return replace(self, queue=queue, owner=replace(self.owner, run=None))

    def _item_id(self, count: int) -> ItemId:
        if count >= 1 << COUNT_BITS:
            raise TooLarge(
                f"The lane {self.name} has had {1 << COUNT_BITS:,} items.",
                "Use another name for it from now on.",
            )
        return ItemId((lane_bits(self.ref_id) << COUNT_BITS) + count)

    def _snapshot(self, items: Mapping[ItemId, Item], now_us: int) -> Snapshot:
        told: dict[ItemId, tuple[tuple[int, int], ...]] = {}
        for m in self.queue.messages:
            item = items[m.item]
            if m.n > item.state.delivered and (item.has_unread or item.comes_back):
                told[m.item] = (*told.get(m.item, ()), (m.n, m.ticket))
        waiting = [i.spec.position for i in items.values() if i.status is ItemStatus.DEFERRED]
        keys = {(k.project, k.key): k.item for k in self.queue.keys if k.expires_us > now_us}
        return Snapshot(
            items=items,
            lines={self.name: (len(waiting), tuple(p for p in waiting if p != UNPOSITIONED))},
            unread=told,
            seen_keys=keys,
            ended_runs={r.run: r for r in self.queue.ended},
        )


def _lease(lane: Lane) -> str:
    return f"owner:{lane.owner_oid}"


def _ready(item: Item) -> str:
    return f"ready:{item.id}:{item.state.claim_by_us}"


def _owner_run(item: Item, handle: str, actions: ActionsRun | None) -> OwnerRun:
    state = item.state
    lease: dict[str, Any] = {name: getattr(state, name) for name in LEASE_FIELDS}
    assert state.run is not None
    return OwnerRun(run=state.run, item=item.id, handle=handle, actions=actions, **lease)


def _applied(
    queue: Queue,
    decision: Decision,
    arrivals: Sequence[NewItem],
    now_us: int,
    *,
    before: Mapping[ItemId, Item],
) -> Queue:
    """The queue after a decision. What an ended item was told nobody reads any more; `git log` has it."""
    items = dict(queue.items)
    for item in (*decision.settled, *decision.born, *decision.raised):
        items[item.id] = _as_written(item, before.get(item.id), queue.items.get(item.id))
    payloads = {**queue.payloads, **dict(decision.payloads)}
    payloads |= {child: payloads[parent] for parent, child in decision.payload_copies if parent in payloads}
    messages = _moved(queue.messages, decision)
    keys = _keys(queue, decision, arrivals, now_us)
    items = _trimmed(items, {k.item for k in keys})
    messages = tuple(m for m in messages if m.item in items and not items[m.item].terminal)
    read = {i.id for i in items.values() if not i.terminal} | {m.origin for m in messages}
    ended = [r._replace(result=None, error=None) for r in queue.ended] if decision.runs else [*queue.ended]
    return replace(
        queue,
        items=items,
        payloads={item: text for item, text in payloads.items() if item in read},
        messages=messages,
        ended=tuple([*ended, *decision.runs][-ENDED_RUNS_KEPT:]),
        keys=keys,
    )


def _as_written(item: Item, loaded: Item | None, written: Item | None) -> Item:
    """A deadline that was only counted here, and did not change, stays as it was written."""
    if loaded is None or written is None or item.state.claim_by_us != loaded.state.claim_by_us:
        return item
    return item._replace(state=item.state._replace(claim_by_us=written.state.claim_by_us))


def _moved(messages: Sequence[NewMessage], decision: Decision) -> tuple[NewMessage, ...]:
    told = list(messages)
    for move in decision.moves:
        for i, m in enumerate(told):
            if m.item == move.source and m.n > move.after:
                told[i] = m._replace(item=move.target, n=m.n + move.shift)
    return (*told, *decision.messages)


def _trimmed(items: dict[ItemId, Item], keyed: set[ItemId]) -> dict[ItemId, Item]:
    """Without the items that ended longest ago, but for those that a dedupe key still leads to."""
    ended = sorted((i for i in items.values() if i.terminal), key=lambda i: (i.state.ended_us or 0, i.id))
    gone = {i.id for i in ended[:-ENDED_ITEMS_KEPT]} - keyed
    return {item: value for item, value in items.items() if item not in gone}


def _keys(queue: Queue, decision: Decision, arrivals: Sequence[NewItem], now_us: int) -> tuple[Key, ...]:
    keys = {(k.project, k.key): k for k in queue.keys if k.expires_us > now_us}
    came = [a for a in decision.answers if hasattr(a, "arrived")]
    for new, arrival in zip(arrivals, came, strict=True):
        if new.dedupe_key is not None and arrival.arrived is not None:
            key = (new.project, new.dedupe_key)
            keys.setdefault(key, Key(*key, arrival.arrived, now_us + to_us(DEDUPE_KEPT_S)))
    return tuple([*keys.values()][-KEYS_KEPT:])
