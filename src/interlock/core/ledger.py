"""One transaction: the rows it has loaded, the rules' changes to them so far, and what to write.

A store fills a `Snapshot` under locks; the rules read and change a `Ledger` made from it; the store writes
the `LedgerChanges`. All commands of a batch change one ledger: the second arrival on a lane sees the first.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from interlock.core.model import (
    A_PERSON,
    AHEAD_MAX,
    NO_AGENT,
    NO_STREAK,
    REPLACEABLE,
    UNPOSITIONED,
    Event,
    EventKind,
    Gate,
    Item,
    ItemId,
    ModeRule,
    MoveMessages,
    NewItem,
    NewMessage,
    PlanId,
    Policy,
    RunId,
    RunRecord,
    Sender,
    Spec,
    State,
    Streak,
    Unread,
)
from interlock.core.names import agent_key
from interlock.core.overtaking import AgentPresence
from interlock.core.plans.model import Plan, Revision
from interlock.core.plans.plan_ledger import PlanChanges, PlanLedger, PlanPart
from interlock.core.record import MutableRecord, Record, fresh
from interlock.core.states import ACTIVE, BIRTHS, TERMINAL, ItemStatus, check_item_move
from interlock.core.timing import Timing, sort_key, to_us

K = TypeVar("K", str, tuple[str, str], tuple[str, str, Policy])
_NO_DATA: Mapping[str, Any] = MappingProxyType({})
# Python 3.11 takes 0.15 µs to look up an enum member; every item of a batch needs these several times.
_PENDING, _DEFERRED = ItemStatus.PENDING, ItemStatus.DEFERRED


class Snapshot(Record):
    """Rows that were locked and read for one transaction.

    For every named lane, `items` has its active items (observed ones too), the first of its line (one per
    command on that lane, since each promotes at most one), and its unfinished items of replaceable policies.
    For every agent that a `coalesce` arrival names there, it has the oldest deferred and the oldest parked
    item.
    """

    items: Mapping[ItemId, Item] = fresh(dict)
    #: For each lane, the number of deferred items and the explicit positions of the first of them. Only for
    #: arrivals, whose answer has the place in line; counted only as far as needed.
    lines: Mapping[str, tuple[int, tuple[int, ...]]] = fresh(dict)
    #: Messages that an ending run may not have read, and those of an item that comes back: a newer running
    #: item may get them.
    unread: Mapping[ItemId, tuple[Unread, ...]] = fresh(dict)
    #: Wake-ups in a row, for lanes that had any since a person's last message.
    streaks: Mapping[str, Streak] = fresh(dict)
    #: The agent of each lane's last run that has ended.
    last_agents: Mapping[str, str] = fresh(dict)
    #: The gates of the lanes that have one.
    gates: Mapping[str, Gate] = fresh(dict)
    #: The lanes that are blocked.
    blocked: frozenset[str] = frozenset()
    #: For a gate about to open: another lane of its series that is open or has a current run.
    busy_gate: str | None = None
    #: Items whose time to be claimed has expired while a gate, a pause, a block or their plan held them back.
    held_back: Container[ItemId] = frozenset()
    #: For an owner about to be overtaken: the signs of life of its agent.
    presence: Mapping[str, AgentPresence] = fresh(dict)
    #: Dedupe keys seen before, with the first item of each.
    seen_keys: Mapping[tuple[str, str], ItemId] = fresh(dict)
    #: The questions of items whose live runs ask.
    questions: Mapping[ItemId, str] = fresh(dict)
    #: Ended runs, to explain why a late write is refused.
    ended_runs: Mapping[RunId, RunRecord] = fresh(dict)
    modes: tuple[ModeRule, ...] = ()
    #: The part of every plan with a locked lane that the commands may touch.
    plans: Mapping[PlanId, PlanPart] = fresh(dict)
    #: Agents with their labels; only for new plans and edits, which name agents.
    agents: Mapping[str, tuple[str, ...]] = fresh(dict)
    #: For an edit: the revisions since its base, and the payloads of the tasks that it updates.
    revisions: tuple[Revision, ...] = ()
    payloads: Mapping[ItemId, str] = fresh(dict)

    def spare_ids(self, named: Container[ItemId], now_us: int) -> int:
        """How many items the rules may add by themselves: follow-ups, and one to ask each plan's editor."""
        asked = sum(1 for p in self.plans.values() if p.plan.editor is not None) if self.plans else 0
        return asked + self.follow_ups(named, now_us)

    def follow_ups(self, named: Container[ItemId], now_us: int) -> int:
        """An upper bound of the follow-ups, so that the store reserves enough ids. It counts each run that
        may end (named, or past its deadline) and may leave messages unread: its own, or those of an item that
        comes back while it runs."""
        back = {(i.spec.lane, i.kin) for i in self.items.values() if i.comes_back and i.id in named}
        if not (self.unread or back):
            return 0
        ending = (i for i in self.items.values() if i.id in named or i.overdue(now_us))
        runs = [i for i in ending if i.state.run is not None]
        return sum(1 for i in runs if i.id in self.unread or (i.spec.lane, i.kin) in back)


class LedgerChanges(MutableRecord):
    """What one transaction writes, in the order in which it must be written."""

    #: Items that do not become active: written first, so that the unique index on active lanes never sees
    #: two owners.
    settled: list[Item] = fresh(list)
    born: list[Item] = fresh(list)
    #: Items that become active.
    raised: list[Item] = fresh(list)
    payloads: list[tuple[ItemId, str]] = fresh(list)
    #: Payloads that an edit changes; null removes one.
    changed_payloads: list[tuple[ItemId, str | None]] = fresh(list)
    #: Items whose spec an edit changes.
    respecified: list[ItemId] = fresh(list)
    #: From a parent to its follow-up, which works on the same payload.
    payload_copies: list[tuple[ItemId, ItemId]] = fresh(list)
    moves: list[MoveMessages] = fresh(list)
    messages: list[NewMessage] = fresh(list)
    runs: list[RunRecord] = fresh(list)
    events: list[Event] = fresh(list)
    forgotten_keys: list[tuple[str, str]] = fresh(list)
    #: Keys of a refused arrival that a later arrival of the batch has too, with the later item.
    passed_keys: list[tuple[str, str, ItemId]] = fresh(list)
    #: Agents at a quota limit: until when they start nothing, and why.
    quota_limits: list[tuple[str, int, str]] = fresh(list)
    #: Lanes whose wake-ups in a row changed.
    streaks: list[tuple[str, int, RunId | None]] = fresh(list)
    #: Lanes whose last run was by another agent than the run before.
    last_agents: list[tuple[str, str]] = fresh(list)
    #: Lanes whose gates changed; null: the gate was removed.
    gates: list[tuple[str, Gate | None]] = fresh(list)
    #: Items that ended while a block of their own held them: such blocks have ended.
    unblocked: list[ItemId] = fresh(list)
    plans: list[PlanChanges] = fresh(list)
    #: Tasks that are due at once, each in a transaction of its own: see `plans.dependents`.
    due_now: list[ItemId] = fresh(list)
    answers: list[Any] = fresh(list)
    #: Every item that was loaded or added, in its state after the transaction.
    after: Mapping[ItemId, Item] = fresh(dict)
    #: Something may have become claimable: wake up waiting claims.
    wakes: bool = False


class Ledger:
    """The state of one transaction while the rules change it. Pure: it holds only values."""

    def __init__(
        self, snapshot: Snapshot, now_us: int, timing: Timing, spare_ids: tuple[ItemId, ...] = ()
    ) -> None:
        self.snapshot = snapshot
        self.now_us = now_us
        self.timing = timing
        self.items: dict[ItemId, Item] = dict(snapshot.items)
        self.out = LedgerChanges()
        self.unread = dict(snapshot.unread)
        self.questions = dict(snapshot.questions)
        self._streaks = dict(snapshot.streaks)
        self._last_agents = dict(snapshot.last_agents)
        self._gates: dict[str, Gate | None] = dict(snapshot.gates)
        self.plan_ledgers: dict[PlanId, PlanLedger] = {
            k: PlanLedger(part) for k, part in snapshot.plans.items()
        }
        self._original = snapshot.items
        self._born: dict[ItemId, None] = {}
        self._arrivals = 0
        self._ids = list(reversed(spare_ids))
        self._keys: dict[tuple[str, str], ItemId] = {}
        #: For each lane and position: joined - left, the items that joined the line here and that left it.
        self._shifts: dict[str, dict[int, int]] = {}
        self._deferred: dict[str, dict[ItemId, None]] = {}
        self._active: dict[str, dict[ItemId, None]] = {}
        self._over_wake_limit: dict[str, dict[ItemId, None]] = {}
        self._kin: dict[tuple[str, str, Policy], dict[ItemId, None]] = {}
        #: Unfinished items by lane and agent key; none before the first `coalesce` arrival asks.
        self._named: dict[tuple[str, str], dict[ItemId, None]] | None = None
        for item in self.items.values():
            if item.spec.lane is not None or item.spec.observed_lane is not None:
                self._index(item)

    # -- reading ---------------------------------------------------------------------------------

    def before(self, item: ItemId) -> Item | None:
        """An item as it was loaded; null if it was added here."""
        return self._original.get(item)

    def owner(self, lane: str) -> Item | None:
        """The active item of the lane; after a switch to `enforce`, an observed item that is still active
        keeps the lane taken."""
        observed = None
        for item_id in self._active.get(lane, ()):
            item = self.items[item_id]
            if item.spec.lane == lane:
                return item
            observed = item if observed is None or item.id < observed.id else observed
        return observed

    def active(self, lane: str) -> list[Item]:
        """All pending and running items of a lane, observed ones too."""
        return [self.items[i] for i in self._active.get(lane, ())]

    def line(self, lane: str) -> list[Item]:
        """The loaded deferred items of a lane, in no order."""
        return [self.items[i] for i in self._deferred.get(lane, ())]

    def over_wake_limit(self, lane: str) -> list[Item]:
        """The items of a lane that wait for a person, oldest first."""
        return sorted((self.items[i] for i in self._over_wake_limit.get(lane, ())), key=lambda i: i.line[1:])

    def streak(self, of: str | ItemId) -> Streak:
        """The wake-ups in a row of a lane, or of an item that has none."""
        if isinstance(of, str):
            return self._streaks.get(of, NO_STREAK)
        return Streak(self.items[of].state.streak)

    def last_agent(self, lane: str) -> str:
        """The agent that runs a lane, or ran it last."""
        owner = self.owner(lane)
        running = owner.state.run_agent if owner is not None else None
        return running or self._last_agents.get(lane, NO_AGENT)

    def gate(self, lane: str) -> Gate | None:
        """The gate of a lane, if it has one."""
        return self._gates.get(lane)

    def is_shut(self, lane: str | None, type_: str) -> bool:
        """Whether the gate of a lane keeps items of a type from being started."""
        gate = self._gates.get(lane) if lane is not None else None
        return gate is not None and gate.shuts(type_)

    def is_withheld(self, item: Item) -> bool:
        """Whether a block or a shut gate keeps claims from an item; stored as `gated`."""
        held = self.blocked(item.spec.lane) or self.is_shut(item.spec.lane, item.spec.type)
        return held and item.state.status is _PENDING

    def blocked(self, lane: str | None) -> bool:
        """Whether a block keeps everything on a lane from being started."""
        return lane in self.snapshot.blocked

    def kin(self, lane: str, agent_key: str, policy: Policy) -> list[Item]:
        """Unfinished items of a lane with this agent key and policy, oldest first.

        Without items that are scheduled for later and have not been tried: an arrival must neither wait for
        one nor replace it.
        """
        ids = self._kin.get((lane, agent_key, policy), ())
        found = [i for i in map(self.items.__getitem__, ids) if not i.scheduled]
        return sorted(found, key=lambda i: i.line[1:])

    def items_of_agent(self, lane: str, agent_key: str) -> list[Item]:
        """Unfinished items of a lane that are addressed to this agent key or run by that agent, in no order.
        Like `kin`, without items that are scheduled for later and have not been tried."""
        if self._named is None:
            self._named = {}
            for item in self.items.values():
                self._note_name(item)
        found = [self.items[i] for i in self._named.get((lane, agent_key), ())]
        owner = self.owner(lane)
        if owner is not None and owner.spec.lane == lane and owner.spec.agent_key != agent_key:
            found += [owner] if owner.answers_to(agent_key) else []
        return [i for i in found if not i.scheduled]

    def place_in_line(self, item: Item) -> int:
        """The place of a newly deferred item, from 1, counted up to `AHEAD_MAX`. Arrivals not committed yet
        are not counted."""
        lane, position = item.spec.lane, item.spec.position
        assert lane is not None
        count, positions = self.snapshot.lines.get(lane, (0, ()))
        shifts = self._shifts[lane]
        if item.state.front:
            return 1
        if position == UNPOSITIONED:
            return min(AHEAD_MAX, count + sum(shifts.values()))
        # An item that waits for a stopping run goes first, whatever its position.
        first = sum(i.state.front and i.spec.position > position for i in self.line(lane))
        ahead = sum(p <= position for p in positions) + sum(n for p, n in shifts.items() if p <= position)
        return min(AHEAD_MAX, first + ahead)

    def remember_key(self, project: str, key: str, item: ItemId) -> ItemId | None:
        """Note a dedupe key; gives the earlier item of this batch that has it, if there is one."""
        first = self._keys.setdefault((project, key), item)
        if first != item:
            return first
        if (project, key) in self.out.forgotten_keys:  # refused with an earlier item of the batch
            self.out.forgotten_keys.remove((project, key))
            self.out.passed_keys.append((project, key, item))
        return None

    def forget_key(self, project: str, key: str) -> None:
        """Free the key of a refused arrival: it leaves no row, so the key may be used again."""
        self._keys.pop((project, key), None)
        self.out.passed_keys = [k for k in self.out.passed_keys if k[:2] != (project, key)]
        self.out.forgotten_keys.append((project, key))

    # -- writing ---------------------------------------------------------------------------------

    def sort_key(self, priority: int, ticket: int) -> int:
        """The place in the queue of the next item that this transaction adds."""
        self._arrivals += 1
        step_s = self.timing.ageing_step_s
        return sort_key(priority, ticket, self.now_us, step_s, nth=self._arrivals - 1)

    def spare_id(self) -> ItemId:
        """An id that the store reserved for an item that a rule adds."""
        return self._ids.pop()

    def spec(
        self,
        new: NewItem,
        item: ItemId,
        ticket: int,
        *,
        lane: str | None,
        observed_lane: str | None = None,
        plan: PlanId | None = None,
    ) -> Spec:
        """The spec of an item that this transaction adds."""
        return Spec(
            id=item,
            project=new.project,
            type=new.type,
            title=new.title,
            agent_key=agent_key(new.agent),
            policy=new.policy,
            priority=new.priority,
            position=UNPOSITIONED if new.position is None else new.position,
            ticket=ticket,
            sort_key=self.sort_key(new.priority, ticket),
            lane=lane,
            observed_lane=observed_lane,
            labels=new.labels,
            lease_s=new.lease_s,
            timeout_s=new.timeout_s,
            max_attempts=new.max_attempts,
            retry_lane=new.retry_lane,
            created_us=self.now_us,
            claim_within_s=new.claim_within_s,
            plan=plan,
        )

    def add(self, spec: Spec, state: State, payload: str | None = None) -> Item:
        """Add a new item."""
        assert state.status in BIRTHS, f"an item cannot begin {state.status}"
        self._born[spec.id] = None
        item = self._put(Item(spec, state))
        if payload is not None:
            self.out.payloads.append((item.id, payload))
        return item

    def change(self, item: Item, **changes: Any) -> Item:
        """Move an item to a new state along the transition table."""
        state = item.state._replace(**changes)
        check_item_move(item.id, item.status, state.status)
        return self._put(Item(item.spec, state))

    def set_state(self, item: Item, state: State) -> Item:
        """Like `change`, with the whole new state."""
        check_item_move(item.spec.id, item.state.status, state.status)
        return self._put(Item(item.spec, state))

    def change_spec(self, item: Item, **changes: Any) -> Item:
        """Change a spec: the attempts that a retry grants, or what an edit changes."""
        if item.spec.lane is not None:
            _note(self._kin, (item.spec.lane, item.spec.agent_key, item.spec.policy), item.id, belongs=False)
            if self._named is not None:
                _note(self._named, (item.spec.lane, item.spec.agent_key), item.id, belongs=False)
        return self._put(Item(item.spec._replace(**changes), item.state))

    def add_message(
        self,
        item: ItemId,
        text: str,
        *,
        ticket: int,
        origin: ItemId,
        author: str = "",
        sender: Sender = A_PERSON,
        reason: str = "",
        url: str = "",
        said: str = "",
    ) -> Item:
        """Append a message to an item under its next number."""
        target = self.items[item]
        n = target.state.message_count + 1
        who = author, origin, self.now_us, sender.kind, sender.agent
        self.out.messages.append(NewMessage(item, n, ticket, text, *who, reason, url, said))
        return self.change(target, message_count=n)

    def set_streak(self, of: str | ItemId, streak: Streak) -> None:
        """Change the wake-ups in a row of a lane, or of an item that has none."""
        if isinstance(of, str):
            self._streaks[of] = streak
        else:
            self.change(self.items[of], streak=streak.wakes)

    def set_last_agent(self, lane: str, agent: str) -> None:
        """Remember who ran a lane last."""
        self._last_agents[lane] = agent

    def set_gate(self, lane: str, gate: Gate | None) -> None:
        """Change the gate of a lane."""
        self._gates[lane] = gate

    def move_messages(self, source: ItemId, target: ItemId, *, after: int, shift: int) -> None:
        """Move messages above number `after` to another item. Messages of this transaction get their new item
        directly, so that the store can insert them after all moves."""
        for i, message in enumerate(self.out.messages):
            if message.item == source and message.n > after:
                self.out.messages[i] = message._replace(item=target, n=message.n + shift)
        moved = tuple(m._replace(n=m.n + shift) for m in self.unread.get(source, ()) if m.n > after)
        if moved:
            self.unread[target] = (*self.unread.get(target, ()), *moved)
        if source not in self._born:
            self.out.moves.append(MoveMessages(source=source, target=target, after=after, shift=shift))
            return
        for i, move in enumerate(self.out.moves):  # messages moved to an item added here move with it
            if move.target == source:
                self.out.moves[i] = move._replace(target=target, shift=move.shift + shift)

    def event(
        self,
        kind: EventKind,
        item: Item | None = None,
        reason: str = "",
        *,
        project: str | None = None,
        run: RunId | None = None,
        lane: str | None = None,
        agent: str | None = None,
        span_us: int | None = None,
        **data: Any,
    ) -> None:
        """Add an event about an item in its present state, or about none."""
        item_id = None
        if item is not None:
            spec = item.spec
            project, item_id = spec.project, spec.id
            lane = lane or spec.lane or spec.observed_lane
            agent = spec.agent_key if agent is None else agent
        line = (self.now_us, kind, reason, project, item_id, run, lane, agent, span_us, data or _NO_DATA)
        self.out.events.append(Event._make(line))

    def plan_event(
        self, kind: EventKind, plan: Plan, reason: str = "", *, span_us: int | None = None, **data: Any
    ) -> None:
        """Add an event about a plan, on the plan's lane."""
        data = {"plan": plan.id, **data}
        self.out.events.append(
            Event(
                self.now_us,
                kind,
                reason,
                plan.project,
                lane=plan.lane,
                agent=plan.editor,
                span_us=span_us,
                data=data,
            )
        )

    def changes(self) -> LedgerChanges:
        """Everything that changed, in the order of writing."""
        out = self.out
        out.after = self.items
        for item_id, item in self.items.items():
            before = self._original.get(item_id)
            if item_id in self._born:
                out.born.append(item)
            elif before is not None and before is not item:
                rises = item.state.status in ACTIVE and before.state.status not in ACTIVE
                (out.raised if rises else out.settled).append(item)
            else:
                continue
            if item.state.status is _PENDING and not (item.state.gated or item.state.blocked):
                out.wakes = True
        if out.due_now:
            due = (self.items[item_id] for item_id in dict.fromkeys(out.due_now))
            out.due_now = [i.id for i in due if i.status is ItemStatus.WAITING and i.overdue(self.now_us)]
        known = self.snapshot.streaks
        out.streaks = [(lane, *s) for lane, s in self._streaks.items() if s != known.get(lane, NO_STREAK)]
        last = self.snapshot.last_agents
        out.last_agents = [
            (lane, agent) for lane, agent in self._last_agents.items() if agent != last.get(lane)
        ]
        shut = self.snapshot.gates
        out.gates = [(lane, gate) for lane, gate in self._gates.items() if gate != shut.get(lane)]
        for plan_ledger in self.plan_ledgers.values():
            changes = plan_ledger.changes()
            if changes is not None:
                out.plans.append(changes)
                out.wakes = True  # tasks may be claimed again
        return out

    def _put(self, item: Item) -> Item:
        item_id, lane = item.spec.id, item.spec.lane
        before = self.items.get(item_id)
        if before is not None and before.state.blocked:
            item = self._still_blocked(item)
        if lane is not None:
            if (self._gates or self.snapshot.blocked or item.state.gated) and item.state.gated is not (
                withheld := self.is_withheld(item)
            ):
                item = Item(item.spec, item.state._replace(gated=withheld))
            was_in_line = before is not None and before.state.status is _DEFERRED
            is_in_line = item.state.status is _DEFERRED
            if was_in_line is not is_in_line:
                shifts = self._shifts.setdefault(lane, {})
                shifts[item.spec.position] = shifts.get(item.spec.position, 0) + (1 if is_in_line else -1)
        if item.spec.claim_within_s is not None:
            item = self._timed(item, before)
        self.items[item_id] = item
        if lane is not None or item.spec.observed_lane is not None:
            self._index(item)
        return item

    def _still_blocked(self, item: Item) -> Item:
        """A blocked item stays blocked until it ends, whatever the rules change."""
        ended = item.state.status in TERMINAL
        if ended:
            self.out.unblocked.append(item.spec.id)
        return Item(item.spec, item.state._replace(blocked=not ended))

    def _timed(self, item: Item, before: Item | None) -> Item:
        """The item with its deadline to be claimed, which runs while the item is ready, and starts again when
        its lane's gate opens."""
        state, within_s = item.state, item.spec.claim_within_s
        assert within_s is not None
        by_us: int | None = None
        if state.ready:
            by_us = state.claim_by_us
            was = None if before is None else before.state
            if was is None or not was.ready or (was.gated and not state.gated):
                by_us = self.now_us + to_us(within_s)
        return Item(item.spec, state._replace(claim_by_us=by_us))

    def _index(self, item: Item) -> None:
        spec, status = item.spec, item.state.status
        lane = spec.lane or spec.observed_lane
        if lane is None:
            return
        _note(self._active, lane, spec.id, status in ACTIVE)
        _note(self._deferred, lane, spec.id, status is _DEFERRED)
        if spec.lane is not None:
            _note(self._over_wake_limit, lane, spec.id, item.over_wake_limit)
        if spec.lane is not None and spec.policy in REPLACEABLE:
            _note(self._kin, (lane, spec.agent_key, spec.policy), spec.id, status not in TERMINAL)
        if self._named is not None:
            self._note_name(item)

    def _note_name(self, item: Item) -> None:
        spec = item.spec
        if spec.lane is not None and self._named is not None:
            _note(self._named, (spec.lane, spec.agent_key), spec.id, item.status not in TERMINAL)


def _note(index: dict[K, dict[ItemId, None]], key: K, item: ItemId, belongs: bool) -> None:
    """Put an item under a key or remove it. A dict keeps the order of arrival, unlike a set."""
    if belongs:
        index.setdefault(key, {})[item] = None
    elif key in index:
        index[key].pop(item, None)
