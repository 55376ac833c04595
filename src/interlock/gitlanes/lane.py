"""One lane in git: from two documents to a snapshot for the rules, from a decision to new documents.

This module contains no rules. It computes deadlines as `first seen here + span * (1 + margin)`, for runs and
for items that must be claimed in time. Times in documents are never trusted.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from interlock.core.claims import Claim, wanted
from interlock.core.commands import Arrive, Command, Expire, Repair, SetGate
from interlock.core.decide import decide
from interlock.core.errors import InterlockError, ItemEnded, NotFound, TooLarge, UnreadableState
from interlock.core.ledger import LedgerChanges, Snapshot
from interlock.core.model import (
    UNPOSITIONED,
    CheckedItem,
    EventKind,
    Gate,
    Item,
    ItemId,
    ModeRule,
    NewMessage,
    RecentRun,
    RunId,
    Streak,
    Unread,
)
from interlock.core.overtaking import may_overtake
from interlock.core.plans.commands import PlanCommand
from interlock.core.record import replace as replace_record
from interlock.core.states import ItemStatus, RunStatus
from interlock.core.timing import DEDUPE_KEPT_S, Timing, to_us
from interlock.git.plumbing import lane_ref_id
from interlock.gitlanes.documents import (
    COUNT_BITS,
    FORMAT,
    LEASE_FIELDS,
    DedupeKey,
    GateRun,
    Owner,
    OwnerRun,
    Queue,
    ShorteningRefusal,
    check_pair,
    lane_bits,
    read_owner,
    read_queue,
    unreadable,
)
from interlock.process.reaction import INTERRUPTED, PostedReaction, PreviousRun
from interlock.process.workplace import ActionsRun
from interlock.service.contract import MessageView
from interlock.service.view_builders import message_view

OWNERS, QUEUES = "refs/interlock/owner/", "refs/interlock/queue/"
#: Refs of the old chains, after a new owner began new ones: `<id>/<its run>-<end of the old owner>`.
HISTORIES = "refs/interlock/history/"
#: How many ended items and runs the queue keeps, to answer late writers. `git log` has all of them.
ENDED_ITEMS_KEPT, ENDED_RUNS_KEPT, KEYS_KEPT = 20, 20, 200

Document = TypeVar("Document", Owner, Queue)

#: Whether a workflow run's attempt has ended, according to its forge. False if unknown.
HasEnded = Callable[[ActionsRun], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Turns spans into deadlines, measured from when this machine first saw their start."""

    #: How long ago each key of `Lane.clock_keys` was first seen.
    ages_us: Mapping[str, int]
    now_us: int
    grace_s: float
    #: Added to every span, as a share of it: the clocks of two machines differ in rate.
    margin_share: float
    has_ended: HasEnded

    def of(self, key: str, span_s: float) -> int:
        """The end of a span that began when this key was first seen."""
        return self.now_us + to_us(span_s * (1 + self.margin_share)) - self.ages_us.get(key, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A snapshot of a lane: its documents, and the ids of their commits."""

    name: str
    ref_id: str
    owner: Owner = field(default_factory=Owner)
    queue: Queue = field(default_factory=Queue)
    owner_oid: str | None = None
    queue_oid: str | None = None
    #: The refs now point to something unreadable: the next change writes both of them.
    broken: bool = False

    @property
    def items(self) -> dict[ItemId, Item]:
        """The items as documented; the running one with its lease."""
        items = dict(self.queue.items)
        run = self.owner.run
        if run is not None:
            item = items[run.item]
            lease: dict[str, Any] = {name: getattr(run, name) for name in LEASE_FIELDS}
            items[run.item] = item._replace(state=item.state._replace(**lease))
        return items

    @property
    def holder(self) -> Item | None:
        """The item that owns the lane. After a switch to `enforce`, an observed item may still own it."""
        active = [i for i in self.items.values() if i.active]
        return next((i for i in active if i.spec.lane), next(iter(active), None))

    @property
    def line(self) -> list[Item]:
        """The waiting items, in order."""
        waiting = (i for i in self.queue.items.values() if i.status is ItemStatus.DEFERRED)
        return sorted(waiting, key=lambda i: i.line)

    def is_open_for(self, series: Lane | UnreadableLane) -> bool:
        """Whether the lane's gate is open for the current run of its series. It is shut if the series is
        unreadable or no run holds it."""
        run = series.owner.run if isinstance(series, Lane) else None
        return run is not None and GateRun(run.run, run.handle) == self.queue.gate_run

    def gated_by(self, series: Lane | UnreadableLane | None) -> Lane:
        """The lane with its gate in its effective state: shut, unless open for the current series run."""
        gate = self.queue.gate
        if gate is None or not gate.open or (series is not None and self.is_open_for(series)):
            return self
        return replace(self, queue=replace(self.queue, gate=gate._replace(open=False), gate_run=None))

    def with_gate_of(self, other: Lane) -> Lane:
        """The lane with the gate of another state of it."""
        gate, run = other.queue.gate, other.queue.gate_run
        return replace(self, queue=replace(self.queue, gate=gate, gate_run=run))

    def startable(self, claim: Claim) -> tuple[Item, Item | None] | None:
        """The item that a claim may start, and the owner that it overtakes, if any. An owner that the gate
        blocks is overtaken by items that the gate lets through."""
        observed = (i for i in self.queue.items.values() if i.spec.lane is None and wanted(claim, i))
        if (item := next(observed, None)) is not None:
            return item, None
        gate, owner = self.queue.gate, self.holder
        if owner is None or not owner.state.ready or owner.spec.lane is None:
            return None
        if gate is None or not gate.shuts(owner.spec.type):
            return (owner, None) if wanted(claim, owner) else None
        for item in self.line:
            ready = item._replace(state=item.state._replace(status=ItemStatus.PENDING))
            if not gate.shuts(item.spec.type) and may_overtake(item, owner) and wanted(claim, ready):
                return item, owner
        return None

    def require(self, item: ItemId) -> Item:
        """The item, if the queue still has it."""
        found = self.queue.items.get(item)
        if found is None:
            raise NotFound(
                f"There is no item {item} on lane {self.name}.",
                "If it ended long ago, see git log of the lane.",
            )
        return found

    def require_unended(self, item: ItemId) -> None:
        """Raise if the item has ended: it can never be claimed."""
        found = self.require(item)
        if found.terminal:
            raise ItemEnded(
                f"Item {item} has already ended as {found.status} ({found.state.reason}).",
                "See git log of the lane.",
                reason=found.state.reason,
            )

    def handle_of(self, run: RunId, item: ItemId) -> str | None:
        """The digest of the handle of a live run; None if the run has ended."""
        owner = self.owner.run
        if owner is not None and (owner.run, owner.item) == (run, item):
            return owner.handle
        observed = self.queue.items.get(item)
        return self.queue.handles.get(run) if observed is not None and observed.state.run == run else None

    def last_absorber(self, item: ItemId) -> ItemId:
        """The item that receives the messages to an absorbed item."""
        found = self.require(item)
        while found.terminal and found.state.absorbed_by is not None:
            found = self.require(found.state.absorbed_by)
        return found.id

    def messages(self, item: ItemId, after: int, limit: int) -> tuple[MessageView, ...]:
        """Messages of an item above a number, each with the payload of its arrival."""
        found = sorted((m for m in self.queue.messages if m.item == item and m.n > after), key=lambda m: m.n)
        ordered = sorted(found[:limit], key=lambda m: (m.ticket, m.n))
        return tuple(message_view(m, self.queue.payloads.get(m.origin)) for m in ordered)

    def recent_runs(self) -> list[RecentRun]:
        """The run that holds the lane, and those that ended recently."""
        items = self.queue.items
        ended = [
            RecentRun(
                *(r.run, r.item, self.name, r.agent, r.worker, r.status, r.reason, r.started_us, r.ended_us),
                item_status=items[r.item].status if r.item in items else None,
            )
            for r in self.queue.ended
        ]
        for item in self.items.values():
            state = item.state
            if state.run is not None:
                started_us = state.run_started_us or 0
                who = state.run_agent or "", state.run_worker
                ended.append(
                    RecentRun(
                        *(state.run, item.id, self.name, *who, RunStatus.RUNNING, "", started_us, None),
                        item_status=item.status,
                    )
                )
        return ended

    def previous_run(self) -> PreviousRun | None:
        """The last run that ended, if it showed a reaction on GitHub."""
        reaction, ended = self.owner.before, self.queue.ended
        if reaction is None or not ended:
            return None
        last = ended[-1]
        return PreviousRun(
            name=f"run-{last.run}",
            reaction=reaction,
            ended_us=last.ended_us,
            interrupted=(last.error or "").startswith(INTERRUPTED),
            lost=last.status in (RunStatus.LOST, RunStatus.TIMED_OUT),
        )

    # -- time -----------------------------------------------------------------------------------------

    def clock_keys(self) -> list[str]:
        """Names for the states whose age decides a deadline. A changed state gets a new name."""
        keys = [_ready(i) for i in self.queue.items.values() if i.state.claim_by_us is not None]
        run = self.owner.run
        if run is not None:
            keys += [_lease(self), f"run:{run.run}"]
            keys += [f"asked:{run.run}"] if self._is_asked(run) else []
        for item in self.observed_runs:
            keys += [_observed(item), f"run:{item.state.run}"]
            keys += [f"asked:{item.state.run}"] if item.state.revoke_us is not None else []
        return keys

    @property
    def observed_runs(self) -> list[Item]:
        """The items whose runs are only observed."""
        return [i for i in self.queue.items.values() if i.spec.lane is None and i.state.run is not None]

    def timed_items(self, deadlines: Deadlines) -> dict[ItemId, Item]:
        """The items with this machine's deadlines instead of the documented ones."""
        items = self.items
        for item in items.values():
            if item.state.claim_by_us is not None and item.spec.claim_within_s is not None:
                by_us = deadlines.of(_ready(item), item.spec.claim_within_s)
                items[item.id] = item._replace(state=item.state._replace(claim_by_us=by_us))
        run = self.owner.run
        if run is not None:
            timed = _timed_run(items[run.item], _lease(self), deadlines, asked=self._is_asked(run))
            due_us = timed.state.due_us
            lasts = due_us is not None and due_us > deadlines.now_us
            if run.actions is not None and lasts and deadlines.has_ended(run.actions):
                now_us = deadlines.now_us
                timed = timed._replace(state=timed.state._replace(lease_until_us=now_us, due_us=now_us))
            items[run.item] = timed
        for item in self.observed_runs:
            asked = item.state.revoke_us is not None
            items[item.id] = _timed_run(items[item.id], _observed(item), deadlines, asked=asked)
        return items

    def _is_asked(self, run: OwnerRun) -> bool:
        """Whether the grace of a request to stop has begun. It begins once the run has seen the request. An
        external run sees no requests, so its grace begins with the request."""
        asked = self.queue.items[run.item].state.cancel_into is not None
        return run.revoke_us is not None or (run.external and asked)

    # -- deciding -------------------------------------------------------------------------------------

    def decide(
        self,
        items: Mapping[ItemId, Item],
        commands: Sequence[Command],
        now_us: int,
        timing: Timing,
        *,
        arrivals: Sequence[CheckedItem] = (),
        modes: tuple[ModeRule, ...] = (),
        busy_gate: str | None = None,
    ) -> tuple[LedgerChanges, Lane]:
        """Let the rules decide these commands, then these arrivals. Returns the decision and the new lane."""
        count, ticket = self.queue.last_count, self.queue.last_ticket
        commands = [*commands]
        for nth, new in enumerate(arrivals, 1):
            commands.append(Arrive(item=new, id=self._item_id(count + nth), ticket=ticket + nth))
        count += len(arrivals)
        snapshot = replace_record(self.snapshot(items, now_us), modes=modes, busy_gate=busy_gate)
        named = {c.item for c in commands if not isinstance(c, Arrive | Repair | SetGate | PlanCommand)}
        spare = snapshot.follow_ups(named, now_us)
        spare_ids = tuple(self._item_id(count + nth) for nth in range(1, spare + 1))
        decision = decide(snapshot, commands, now_us, timing, spare_ids)
        changed = decision.settled or decision.born or decision.raised or decision.messages
        if not (changed or decision.gates):
            return decision, self
        queue = replace(
            _applied(self.queue, decision, arrivals, now_us, before=items),
            last_count=count + spare,
            last_ticket=ticket + len(arrivals),
        )
        observed = Counter(e.reason for e in decision.events if e.kind is EventKind.ITEM_OBSERVED)
        return decision, self._with_queue(queue).with_counts(observed)

    def overdue(self, items: Mapping[ItemId, Item], now_us: int) -> list[Command]:
        """An `Expire` for each item whose deadline has passed, the earliest first."""
        due = [i for i in items.values() if i.overdue(now_us)]
        due.sort(key=lambda i: (i.state.due_us or i.state.claim_by_us or 0, i.id))
        return [Expire(item=i.id) for i in due]

    def with_start(
        self, item: Item, handle: str, actions: ActionsRun | None, reaction: PostedReaction | None = None
    ) -> Lane:
        """The lane after this item was started."""
        run = item.state.run
        assert run is not None
        if item.spec.lane is None:
            handles = {**self.queue.handles, run: handle}
            items = {**self.queue.items, item.id: item}
            queue = replace(self.queue, last_run=run, items=items, handles=handles)
            return replace(self, owner=replace(self.owner, last_run=run), queue=queue)
        started = _owner_run(item, handle)._replace(actions=actions, sign=reaction)
        owner = replace(self.owner, last_run=run, run=started)
        queue = replace(self.queue, last_run=run, items={**self.queue.items, item.id: item})
        return replace(self, owner=owner, queue=queue)

    def with_counts(self, more: Mapping[str, int]) -> Lane:
        """The lane with its counters increased."""
        if not more:
            return self
        counts = Counter(self.queue.counts) + Counter(more)
        return replace(self, queue=replace(self.queue, counts=dict(counts)))

    def with_kept(self, kept: ShorteningRefusal | None) -> Lane:
        """The lane with a note on why its chains are long, or without that note."""
        return replace(self, owner=replace(self.owner, kept=kept))

    def with_renewal(self, item: Item) -> Lane:
        """The lane after a run was renewed. The queue changes only if the run is observed."""
        if item.spec.lane is None:
            return replace(self, queue=replace(self.queue, items={**self.queue.items, item.id: item}))
        run = self.owner.run
        assert run is not None and run.run == item.state.run
        renewed = _owner_run(item, run.handle)._replace(actions=run.actions, sign=run.sign)
        return replace(self, owner=replace(self.owner, run=renewed))

    def _with_queue(self, queue: Queue) -> Lane:
        """The lane with this queue, and without an owner if its run has ended there."""
        observed = {i.state.run for i in queue.items.values() if i.spec.lane is None}
        if not queue.handles.keys() <= observed:
            handles = {run: handle for run, handle in queue.handles.items() if run in observed}
            queue = replace(queue, handles=handles)
        run = self.owner.run
        item = queue.items.get(run.item) if run is not None else None
        if run is None or (item is not None and item.state.run == run.run):
            return replace(self, queue=queue)
        return replace(self, queue=queue, owner=replace(self.owner, run=None, before=run.sign))

    def _item_id(self, count: int) -> ItemId:
        if count >= 1 << COUNT_BITS:
            raise TooLarge(
                f"The lane {self.name} has had {1 << COUNT_BITS:,} items.",
                "Use another name for it.",
            )
        return ItemId((lane_bits(self.ref_id) << COUNT_BITS) + count)

    def snapshot(self, items: Mapping[ItemId, Item], now_us: int) -> Snapshot:
        """The state of the lane for the rules."""
        unread: dict[ItemId, tuple[Unread, ...]] = {}
        for m in self.queue.messages:
            item = items[m.item]
            if m.n > item.state.delivered and (item.has_unread or item.comes_back):
                unread[m.item] = (*unread.get(m.item, ()), Unread(m.n, m.ticket, m.sender, m.agent))
        gate = self.queue.gate
        if gate is not None:
            items = {item: _flagged(value, gate) for item, value in items.items()}
        waiting = [i.spec.position for i in items.values() if i.status is ItemStatus.DEFERRED]
        keys = {(k.project, k.key): k.item for k in self.queue.keys if k.expires_us > now_us}
        return Snapshot(
            items=items,
            lines={self.name: (len(waiting), tuple(p for p in waiting if p != UNPOSITIONED))},
            unread=unread,
            streaks={self.name: self.queue.streak},
            gates={} if gate is None else {self.name: gate},
            seen_keys=keys,
            ended_runs={r.run: r for r in self.queue.ended},
        )


def _timed_run(item: Item, lease: str, deadlines: Deadlines, *, asked: bool) -> Item:
    """A running item with this machine's deadlines; `lease` is the key of its lease."""
    state, until_us, revoke_us, timeout_us = item.state, None, None, None
    if state.run_lease_s is not None:
        until_us = deadlines.of(lease, state.run_lease_s)
    if item.spec.timeout_s is not None:
        timeout_us = deadlines.of(f"run:{state.run}", item.spec.timeout_s)
    if asked:
        revoke_us = deadlines.of(f"asked:{state.run}", deadlines.grace_s)
    due_us = min((end for end in (until_us, timeout_us, revoke_us) if end is not None), default=None)
    return item._replace(state=state._replace(lease_until_us=until_us, due_us=due_us, revoke_us=revoke_us))


def _observed(item: Item) -> str:
    return f"observed:{item.state.run}:{item.state.lease_until_us}"


def _lease(lane: Lane) -> str:
    return f"owner:{lane.owner_oid}"


def _ready(item: Item) -> str:
    return f"ready:{item.id}:{item.state.claim_by_us}"


def _flagged(item: Item, gate: Gate) -> Item:
    """The item with the flag that the rules give it on a lane with this gate. Documents do not store the
    flag: whether a gate is open also depends on its series."""
    gated = item.status is ItemStatus.PENDING and gate.shuts(item.spec.type)
    return item._replace(state=item.state._replace(gated=gated)) if gated else item


def _owner_run(item: Item, handle: str) -> OwnerRun:
    state = item.state
    lease: dict[str, Any] = {name: getattr(state, name) for name in LEASE_FIELDS}
    assert state.run is not None
    return OwnerRun(run=state.run, item=item.id, handle=handle, **lease)


def _applied(
    queue: Queue,
    decision: LedgerChanges,
    arrivals: Sequence[CheckedItem],
    now_us: int,
    *,
    before: Mapping[ItemId, Item],
) -> Queue:
    """The queue after a decision. Messages of ended items are dropped; `git log` has them."""
    items = dict(queue.items)
    for item in (*decision.settled, *decision.born, *decision.raised):
        items[item.id] = _documented(item, before.get(item.id), queue.items.get(item.id))
    payloads = {**queue.payloads, **dict(decision.payloads)}
    payloads |= {child: payloads[parent] for parent, child in decision.payload_copies if parent in payloads}
    messages = _with_moves(queue.messages, decision)
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
        streak=next((Streak(wakes, run) for _, wakes, run in decision.streaks), queue.streak),
        gate=next((gate for _, gate in decision.gates), queue.gate),
    )


def _documented(item: Item, loaded: Item | None, written: Item | None) -> Item:
    """The item without its flag, with its documented deadline unless the decision changed the deadline."""
    item = item._replace(state=item.state._replace(gated=False)) if item.state.gated else item
    if loaded is None or written is None or item.state.claim_by_us != loaded.state.claim_by_us:
        return item
    return item._replace(state=item.state._replace(claim_by_us=written.state.claim_by_us))


def _with_moves(messages: Sequence[NewMessage], decision: LedgerChanges) -> tuple[NewMessage, ...]:
    moved = list(messages)
    for move in decision.moves:
        for i, m in enumerate(moved):
            if m.item == move.source and m.n > move.after:
                moved[i] = m._replace(item=move.target, n=m.n + move.shift)
    return (*moved, *decision.messages)


def _trimmed(items: dict[ItemId, Item], keyed: set[ItemId]) -> dict[ItemId, Item]:
    """Drop the items that ended longest ago, unless a dedupe key still points to them."""
    ended = sorted((i for i in items.values() if i.terminal), key=lambda i: (i.state.ended_us or 0, i.id))
    gone = {i.id for i in ended[:-ENDED_ITEMS_KEPT]} - keyed
    return {item: value for item, value in items.items() if item not in gone}


def _keys(
    queue: Queue, decision: LedgerChanges, arrivals: Sequence[CheckedItem], now_us: int
) -> tuple[DedupeKey, ...]:
    keys = {(k.project, k.key): k for k in queue.keys if k.expires_us > now_us}
    came = [a for a in decision.answers if hasattr(a, "arrived")]
    for new, arrival in zip(arrivals, came, strict=True):
        if new.dedupe_key is not None and arrival.arrived is not None:
            key = (new.project, new.dedupe_key)
            keys.setdefault(key, DedupeKey(*key, arrival.arrived, now_us + to_us(DEDUPE_KEPT_S)))
    return tuple([*keys.values()][-KEYS_KEPT:])


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableLane:
    """A lane whose documents cannot be read. It counts as held, by an unknown holder."""

    ref_id: str
    error: UnreadableState
    #: Its name, if at least one document still has it.
    name: str | None
    owner_oid: str | None
    queue_oid: str | None
    #: The readable document, or both if they do not match.
    owner: Owner | None
    queue: Queue | None
    #: Written by a newer version of Interlock.
    newer: bool


def read_lane(ref_id: str, found: Mapping[str, tuple[str, Any]]) -> Lane | UnreadableLane:
    """The lane behind two refs; `found` has the commit id and the document of each ref that exists."""
    owner_oid, owner_document = found.get(f"{OWNERS}{ref_id}", (None, None))
    queue_oid, queue_document = found.get(f"{QUEUES}{ref_id}", (None, None))
    if owner_oid is None and queue_oid is None:
        return Lane(name="", ref_id=ref_id)
    try:
        if owner_document is None or queue_document is None:
            missing = "owner" if owner_document is None else "queue"
            raise unreadable(ref_id, f"its {missing} is not a document of Interlock")
        name, queue = read_queue(ref_id, queue_document)
        name, owner = read_owner(ref_id, owner_document)
        check_pair(ref_id, owner, queue)
    except UnreadableState as error:
        documents = [document for document in (owner_document, queue_document) if document]
        formats = [document.get("format") for document in documents]
        return UnreadableLane(
            ref_id=ref_id,
            error=error,
            name=next((d["lane"] for d in documents if _is_name_of(ref_id, d.get("lane"))), None),
            owner_oid=owner_oid,
            queue_oid=queue_oid,
            owner=_readable_document(read_owner, ref_id, owner_document),
            queue=_readable_document(read_queue, ref_id, queue_document),
            newer=any(type(number) is int and number > FORMAT for number in formats),
        )
    return Lane(name=name, ref_id=ref_id, owner=owner, queue=queue, owner_oid=owner_oid, queue_oid=queue_oid)


def missing_lane(ref_id: str, name: str) -> UnreadableLane:
    """A lane that should exist but is missing."""
    error = unreadable(ref_id, "it is not there")
    return UnreadableLane(
        ref_id=ref_id,
        error=error,
        name=name,
        owner_oid=None,
        queue_oid=None,
        owner=None,
        queue=None,
        newer=False,
    )


def _readable_document(
    read: Callable[[str, Any], tuple[str, Document]], ref_id: str, document: Any
) -> Document | None:
    """One of the two documents, if it is readable."""
    with contextlib.suppress(UnreadableState):
        return read(ref_id, document)[1] if document is not None else None
    return None


def _is_name_of(ref_id: str, name: object) -> bool:
    try:
        return isinstance(name, str) and lane_ref_id(name) == ref_id
    except InterlockError:
        return False
