"""The rules of items, lanes, leases and messages, written a second time: plainly, with lists, and slowly.

This is what the stores are compared with. It shares no rule with `interlock.core`: only the names of states,
policies and reasons come from there, and `NewItem`, the value a caller hands in. One command is handled after
the other, as if the world had a single thread. Nothing here is fast, and nothing is clever: every question
("who owns the lane?") is answered by looking at all items.

Items and runs are numbered from one in the order in which they come to be; a store's own numbers are mapped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from interlock.core.model import ArrivalDecision, EventKind, Mode, NewItem, Policy, Reason, RetryLane, Sender
from interlock.core.states import ItemStatus, RunStatus
from tests.model.records import (
    BACK_OFF_FIRST_S,
    BACK_OFF_MAX_S,
    BACK_OFF_SPREAD,
    CANCEL_GRACE_S,
    GONE_S,
    KEY_KEPT_S,
    LEASE_S,
    OVERDUE_S,
    RELEASES_IN_A_ROW,
    SECOND,
    SEEN_S,
    WAKES_MAX,
    Added,
    Agent,
    Finished,
    Item,
    Line,
    Message,
    Refused,
    Run,
    Swept,
    key_of,
    micro,
)

#: Policies of what is an event, and may be absorbed.
EVENTS = (Policy.COALESCE, Policy.SUPERSEDE, Policy.LATEST)


class Reference:
    """One store's worth of items, and the rules that move them."""

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us
        #: What a step of priority is worth in time; 0 lets no age pass a priority.
        self.ageing_step_s = 0.0
        self.items: dict[int, Item] = {}
        self.runs: dict[int, Run] = {}
        self.agents: dict[str, Agent] = {}
        self.paused_projects: set[str] = set()
        self.modes: dict[tuple[str, str], Mode] = {}
        self.keys: dict[tuple[str, str], tuple[int, int]] = {}
        self.history: list[Line] = []
        self.last_ticket = 0
        #: Of each lane with a gate: the types that may start there; null if it is open.
        self.gates: dict[str, tuple[str, ...] | None] = {}
        #: Wake-ups in a row without a person, by lane.
        self.streaks: dict[str, int] = {}

    # -- looking ----------------------------------------------------------------------------------

    def owner(self, lane: str) -> Item | None:
        """The active item of a lane. Without one, an observed item that is still active keeps it shut."""
        on_lane = [i for i in self.items.values() if i.lane == lane and i.active]
        observed = [i for i in self.items.values() if i.observed_lane == lane and i.active]
        return next(iter(on_lane + observed), None)

    def worker(self, lane: str, owner: Item | None) -> str:
        """The agent that runs a lane, or ran it last."""
        if owner is not None and owner.run is not None:
            return owner.run.agent
        return next((r.agent for r in reversed(self.runs.values()) if self.items[r.item].lane == lane), "")

    def line(self, lane: str) -> list[Item]:
        waiting = [i for i in self.items.values() if i.lane == lane and i.status is ItemStatus.DEFERRED]
        return sorted(waiting, key=_line_order)

    def kin(self, lane: str, agent: str, policy: Policy) -> list[Item]:
        """Unfinished items of the same agent and policy, but for those whose first time is yet to come. To
        `coalesce`, who works on an item is as good as whom it is for, and its policy does not matter."""
        found = [i for i in self.items.values() if i.lane == lane and not i.ended and not i.scheduled]
        if policy is Policy.COALESCE:
            return [i for i in found if _same_name(i, agent) and _reads(i)]
        return [i for i in found if i.agent == agent and i.policy is policy]

    def mode(self, project: str, lane: str) -> Mode:
        prefixes = [v for scope, v in self.modes if scope == "lane" and lane.startswith(v)]
        if prefixes:
            return self.modes["lane", max(prefixes, key=len)]
        return self.modes.get(("project", project), Mode.ENFORCE)

    def shut(self, lane: str | None, type_: str) -> bool:
        """Whether nothing of this type may start on a lane."""
        exempt = self.gates.get(lane or "")
        return exempt is not None and type_ not in exempt

    def gated(self, item: Item) -> bool:
        return item.status is ItemStatus.PENDING and self.shut(item.lane, item.new.type)

    def running(self, agent: str) -> int:
        return sum(i.run is not None and i.run.agent == agent for i in self.items.values())

    def lanes(self) -> list[str]:
        named = {i.lane or i.observed_lane for i in self.items.values() if i.active}
        named |= {i.lane for i in self.items.values() if i.status is ItemStatus.DEFERRED}
        return sorted(lane for lane in named if lane is not None)

    def due(self) -> list[Item]:
        """What time must move, the earliest first, of one moment the oldest first."""
        late = [i for i in self.items.values() if i.moves_us is not None and i.moves_us <= self.now_us]
        return sorted(late, key=lambda i: (i.moves_us, i.id))

    def queue_order(self, item: Item) -> tuple[int, int]:
        """Priority descending, then oldest; with ageing a step of priority is a head start in time."""
        if self.ageing_step_s:
            return item.created_us - item.new.priority * micro(self.ageing_step_s), item.id
        return -item.new.priority, item.ticket

    # -- arrival ----------------------------------------------------------------------------------

    def add(self, batch: Sequence[NewItem]) -> list[Added]:
        return [self._arrive(new) for new in batch]

    def _arrive(self, new: NewItem) -> Added:
        self.last_ticket += 1
        if new.dedupe_key is not None:
            first, expires_us = self.keys.get((new.project, new.dedupe_key), (0, 0))
            if first and expires_us > self.now_us:
                self._note(EventKind.ITEM_DUPLICATE, Reason.DEDUPE_KEY, self.items[first])
                return Added(ArrivalDecision.DUPLICATE, Reason.DEDUPE_KEY, first, None)
        added = self._enter(new)
        arrived = self.items.get(added.arrival or 0)
        if new.sender.kind == "person" and arrived is not None and arrived.lane is not None:
            self._restart(arrived)
        if new.dedupe_key is not None:
            if added.arrival is None:
                self.keys.pop((new.project, new.dedupe_key), None)
            else:
                expires_us = self.now_us + micro(KEY_KEPT_S)
                self.keys[new.project, new.dedupe_key] = (added.arrival, expires_us)
        return added

    def _enter(self, new: NewItem) -> Added:
        lane = _lane_of(new)
        mode = self.mode(new.project, lane) if lane is not None else Mode.OFF
        if lane is not None and mode is Mode.OBSERVE:
            return self._observe(new, lane)
        if mode is Mode.OFF:
            lane = None
        if new.run_at_us is not None and new.run_at_us > self.now_us:
            return self._schedule(new, lane)
        if lane is None:
            return self._admit(
                self._bear(new, None, ItemStatus.PENDING, Reason.NO_LANE), ArrivalDecision.ADMITTED
            )
        self._mend(lane)
        if new.sender.kind == "person" and new.policy is not Policy.REJECT:
            self._restart(lane)
        kin = self.kin(lane, key_of(new.agent), new.policy)
        owner = self.owner(lane)
        to_itself = new.sender.kind == "agent" and new.sender.agent == (
            key_of(new.agent) or self.worker(lane, owner)
        )
        if new.policy in EVENTS and (new.sender.kind in ("bot", "outsider") or to_itself):
            return self._start_nothing(new, lane, kin, owner)
        if new.policy is Policy.COALESCE and kin:
            return self._coalesce(new, lane, kin)
        if self._one_too_many(new, lane, kin):
            return self._stop(new, lane, owner)
        if new.policy in (Policy.SUPERSEDE, Policy.LATEST):
            return self._replace(new, lane, kin)
        return self._queue(new, lane, owner)

    def _queue(self, new: NewItem, lane: str, owner: Item | None) -> Added:
        shut = self.shut(lane, new.type)
        if owner is None:
            reason = Reason.SERIES_QUEUED if shut else Reason.LANE_FREE
            verdict = ArrivalDecision.QUEUED if shut else ArrivalDecision.ADMITTED
            return self._admit(self._bear(new, lane, ItemStatus.PENDING, reason), verdict)
        if new.policy is Policy.REJECT:
            self._note(EventKind.ITEM_REJECTED, Reason.LANE_HELD, None, owner.run)
            return Added(ArrivalDecision.REJECTED, Reason.LANE_HELD, None, None, holder=owner.id)
        another = new.policy is Policy.COALESCE and not _same_name(owner, key_of(new.agent))
        reason = Reason.DEFERRED if another else Reason.LANE_QUEUED
        if shut:
            reason = Reason.SERIES_QUEUED
        return self._admit(self._bear(new, lane, ItemStatus.DEFERRED, reason), ArrivalDecision.QUEUED, owner)

    def _schedule(self, new: NewItem, lane: str | None) -> Added:
        """Due later. Our bot and outsiders start nothing then either, and an agent not without end."""
        if lane is not None:
            kin, owner = self.kin(lane, key_of(new.agent), new.policy), self.owner(lane)
            if new.policy in EVENTS and new.sender.kind in ("bot", "outsider"):
                return self._start_nothing(new, lane, kin, owner)
            if self._one_too_many(new, lane, kin):
                return self._stop(new, lane, owner)
        item = self._bear(new, lane, ItemStatus.WAITING, Reason.SCHEDULED)
        item.wakes_us = new.run_at_us
        return self._admit(item, ArrivalDecision.QUEUED)

    def _one_too_many(self, new: NewItem, lane: str, kin: list[Item]) -> bool:
        waits = any(i.run is None and not i.over_wake_limit for i in kin)
        return new.policy in EVENTS and not waits and new.sender.kind != "person" and not self._count(lane)

    def _stop(self, new: NewItem, lane: str, owner: Item | None) -> Added:
        item = self._bear(new, lane, ItemStatus.WAITING, Reason.LOOP)
        added = self._admit(item, ArrivalDecision.QUEUED, owner)
        self._note(EventKind.WAKE_STOPPED, Reason.LOOP, item)
        return added

    def _start_nothing(self, new: NewItem, lane: str, kin: list[Item], owner: Item | None) -> Added:
        """Our side or an outsider wrote it: whoever is there gets it, and nobody is started by it."""
        if kin or (owner is not None and owner.unmoved_by(new.sender)):
            return self._coalesce(new, lane, kin or [i for i in (owner,) if i is not None])
        reason = Reason.OUTSIDER if new.sender.kind == "outsider" else Reason.OWN_MESSAGE
        item = self._bear(new, lane, ItemStatus.CANCELLED, reason)
        item.ended_us = self.now_us
        return self._admit(item, ArrivalDecision.REJECTED, owner)

    def _observe(self, new: NewItem, lane: str) -> Added:
        owner = self.owner(lane)
        agent = key_of(new.agent)
        observed = [i for i in self.items.values() if i.observed_lane == lane and i.active]
        same = [i for i in observed if i.agent == agent and i.policy is new.policy]
        if new.policy is Policy.COALESCE:
            same = [i for i in observed if _same_name(i, agent) and _reads(i)]
        same += self.kin(lane, agent, new.policy)
        if owner is None:
            would = Reason.WOULD_ADMIT
        elif new.policy is Policy.REJECT:
            would = Reason.WOULD_REJECT
        elif new.policy is Policy.COALESCE and same:
            would = Reason.WOULD_COALESCE
        elif new.policy in (Policy.SUPERSEDE, Policy.LATEST) and same:
            would = Reason.WOULD_SUPERSEDE
        else:
            would = Reason.WOULD_QUEUE
        item = self._bear(new, None, ItemStatus.PENDING, would, observed_lane=lane)
        if new.run_at_us is not None and new.run_at_us > self.now_us:
            item.status, item.wakes_us = ItemStatus.WAITING, new.run_at_us
        return self._admit(item, ArrivalDecision.OBSERVED, owner, EventKind.ITEM_OBSERVED)

    def _mend(self, lane: str) -> None:
        """An arrival repairs what it touches: an owner past its time, a line that nobody leads."""
        owner = self.owner(lane)
        if owner is not None:
            self._expire(owner)
        self._promote(lane, None)

    def _coalesce(self, new: NewItem, lane: str, kin: list[Item]) -> Added:
        def rank(item: Item) -> int:
            if item.in_back_off:
                return 0
            order = [ItemStatus.PENDING, ItemStatus.DEFERRED, ItemStatus.IN_PROGRESS, ItemStatus.WAITING]
            return order.index(item.status) + 1

        absorber = min(kin, key=lambda i: (rank(i), *_line_order(i)[1:]))
        item = self._bear(new, lane, ItemStatus.COALESCED, Reason.SAME_NAME)
        item.absorbed_by, item.ended_us = absorber.id, self.now_us
        text = new.message if new.message is not None else new.title
        absorber.messages.append(Message(item.ticket, text, new.author, item.id, self.now_us, new.sender))
        self._note(EventKind.ITEM_COALESCED, Reason.SAME_NAME, item, absorber.run)
        self._hear(absorber, new.sender)
        owner = self.owner(lane)
        holder = owner.id if owner else None
        return Added(ArrivalDecision.COALESCED, Reason.SAME_NAME, absorber.id, item.id, holder)

    def _replace(self, new: NewItem, lane: str, kin: list[Item]) -> Added:
        owner = self.owner(lane)
        running = owner if owner is not None and owner in kin and owner.run is not None else None
        replaced = [i for i in sorted(kin, key=_line_order) if i.run is None]
        stop = running is not None and new.policy is Policy.SUPERSEDE
        shut = self.shut(lane, new.type)
        if owner is None or owner in replaced:
            verdict = ArrivalDecision.QUEUED if shut else ArrivalDecision.ADMITTED
            verdict = ArrivalDecision.SUPERSEDING if replaced else verdict
            item = self._bear(new, lane, ItemStatus.PENDING, Reason.LANE_FREE)
            owner = None
        else:
            verdict = ArrivalDecision.SUPERSEDING if replaced or stop else ArrivalDecision.QUEUED
            item = self._bear(new, lane, ItemStatus.DEFERRED, Reason.LANE_QUEUED)
            item.first_in_line = stop
        if shut:
            item.reason = Reason.SERIES_QUEUED
        for old in sorted(replaced, key=lambda i: _line_order(i)[1:]):
            self._supersede(old, item, speaks=new.message is not None)
        if stop and running is not None:
            self._ask_to_stop(running, ItemStatus.SUPERSEDED, Reason.NEWER_ARRIVAL, item)
        return self._admit(item, verdict, owner)

    def _bear(
        self,
        new: NewItem,
        lane: str | None,
        status: ItemStatus,
        reason: Reason,
        observed_lane: str | None = None,
    ) -> Item:
        item = Item(
            id=len(self.items) + 1,
            new=new,
            title=new.title,
            agent=key_of(new.agent),
            lane=lane,
            observed_lane=observed_lane,
            ticket=self.last_ticket,
            created_us=self.now_us,
            max_attempts=new.max_attempts,
            payload=new.payload,
            status=status,
            reason=reason,
            offered_us=self.now_us,
        )
        self.items[item.id] = item
        return item

    def _admit(
        self,
        item: Item,
        verdict: ArrivalDecision,
        owner: Item | None = None,
        kind: EventKind = EventKind.ITEM_ADDED,
    ) -> Added:
        new = item.new
        if new.message is not None:
            said = Message(item.ticket, new.message, new.author, item.id, self.now_us, new.sender)
            item.messages.append(said)
        self._note(kind, item.reason, item)
        place = None
        if item.status is ItemStatus.DEFERRED and item.lane is not None:
            place = self.line(item.lane).index(item) + 1
        holder = owner.id if owner else None
        return Added(verdict, item.reason, item.id, item.id, holder, place)

    # -- moves on a lane --------------------------------------------------------------------------

    def _promote(self, lane: str | None, from_run: Run | None) -> list[int]:
        if lane is None or self.owner(lane) is not None:
            return []
        line = self.line(lane)
        if not line:
            return []
        first = line[0]
        first.status, first.reason, first.offered_us = ItemStatus.PENDING, Reason.PROMOTED, self.now_us
        first.first_in_line = False
        first.promoted_from = from_run.number if from_run else None
        self._note(EventKind.LANE_PROMOTED, Reason.PROMOTED, first, from_run)
        return [first.id]

    def _supersede(self, old: Item, newer: Item, *, speaks: bool = False) -> None:
        """An item that has no run gives way, and its input travels with the newer one."""
        old.status, old.reason = ItemStatus.SUPERSEDED, Reason.NEWER_ARRIVAL
        old.absorbed_by, old.ended_us = newer.id, self.now_us
        old.wakes_us = None
        old.first_in_line = False
        self._note(EventKind.ITEM_SUPERSEDED, Reason.NEWER_ARRIVAL, old)
        self._hand_over(old, newer, speaks=speaks)

    def _hand_over(self, old: Item, newer: Item, *, speaks: bool = False) -> None:
        """All messages go along; an item that was told nothing gives its title, and a newer one that has not
        started and has nothing of its own notes its title too, so that it can give it on in turn."""
        silent = not newer.messages and not speaks and newer.run is None
        newer.messages.extend(old.messages or [self._title(old)])
        old.messages = []
        if silent:
            newer.messages.append(self._title(newer))

    def _title(self, item: Item) -> Message:
        return Message(item.ticket, item.title, "", item.id, self.now_us)

    def _newer_kin(self, item: Item) -> Item | None:
        if item.lane is None or item.policy not in (Policy.SUPERSEDE, Policy.LATEST):
            return None
        kin = (
            i
            for i in self.kin(item.lane, item.agent, item.policy)
            if item.over_wake_limit or not i.over_wake_limit
        )
        newer = [i for i in kin if i.ticket > item.ticket]
        return max(newer, key=lambda i: i.ticket) if newer else None

    def _reenter(self, item: Item, reason: Reason) -> list[int]:
        """Back after a wait: queued with the old ticket, unless something newer took its place."""
        newer = self._newer_kin(item)
        if newer is not None:
            self._supersede(item, newer)
            return self._promote(item.lane, None)
        owner = self.owner(item.lane) if item.lane is not None else None
        item.status = ItemStatus.PENDING if owner in (None, item) else ItemStatus.DEFERRED
        item.reason, item.wakes_us, item.offered_us = reason, None, self.now_us
        item.promoted_from = None
        self._note(EventKind.ITEM_REENTERED, reason, item)
        return []

    def _ask_to_stop(self, item: Item, into: ItemStatus, why: str, newer: Item | None) -> None:
        run = item.run
        assert run is not None
        if run.cancel_into is None:
            run.cancel_into, run.cancel_why = into, why
            run.revoke_us = self.now_us + micro(CANCEL_GRACE_S)
            self._note(EventKind.CANCEL_REQUESTED, why, item, run)
        elif run.cancel_into is ItemStatus.PENDING and into is not ItemStatus.PENDING:
            run.cancel_into, run.cancel_why = into, why  # it was only to wait, and ends after all
            if newer is not None:
                self._note(EventKind.CANCEL_REQUESTED, why, item, run)
        if newer is not None and run.cancel_into is ItemStatus.SUPERSEDED:
            item.absorbed_by = newer.id

    # -- claiming ---------------------------------------------------------------------------------

    def next(
        self,
        agent: str,
        *,
        types: tuple[str, ...] = (),
        labels: tuple[str, ...] = (),
        limit: int = 1,
        lease_s: float | None = None,
        worker: str | None = None,
        only: Item | None = None,
        external: bool = False,
    ) -> list[Run]:
        key = key_of(agent)
        known = self.agents.setdefault(key, Agent(agent.strip()))
        if known.seen_us is None or known.seen_us < self.now_us - micro(SEEN_S):
            known.seen_us = self.now_us
        self._bring_due(Swept())
        if only is not None and only.ended:
            raise Refused("item_ended")
        if known.paused:
            return []
        if known.types:
            types = tuple(t for t in types if t in known.types) if types else known.types
            if not types:
                return []
        labels = labels or known.labels

        def wanted(item: Item) -> bool:
            return (
                item.agent in ("", key)
                and (not types or item.new.type in types)
                and set(item.new.labels) <= set(labels)
                and item.new.project not in self.paused_projects
                and not self.shut(item.lane, item.new.type)
            )

        def room() -> bool:
            return len(claimed) < limit and (known.max is None or self.running(key) < known.max)

        claimed: list[Run] = []
        ready = [i for i in self.items.values() if i.status is ItemStatus.PENDING and i.wakes_us is None]
        if only is not None:
            ready = [i for i in ready if i is only]
        for item in sorted(filter(wanted, ready), key=self.queue_order):
            if room():
                claimed.append(self._start(item, key, lease_s, worker, external=external))
        rivals = []
        held_up = [(i, why) for i in self.items.values() if (why := self._held_up(i)) is not None]
        for owner, why in held_up:
            assert owner.lane is not None
            mine = [i for i in self.line(owner.lane) if wanted(i) and i.new.position is None]
            if mine and only in (None, mine[0]):
                rivals.append((mine[0], owner, why))
        for item, owner, why in sorted(rivals, key=lambda rival: self.queue_order(rival[0])):
            if room():
                self._overtake(item, owner, why)
                claimed.append(self._start(item, key, lease_s, worker, external=external))
        return claimed

    def _held_up(self, owner: Item) -> Reason | None:
        """Why an owner holds up its lane for nothing, so that a claim may overtake it; null: it does not."""
        if owner.status is not ItemStatus.PENDING or owner.lane is None or owner.wakes_us is not None:
            return None
        if owner.new.position is not None or owner.new.retry_lane is RetryLane.KEEP:
            return None
        agent = self.agents.get(owner.agent)
        if owner.new.project in self.paused_projects or self.gated(owner):
            return Reason.OVERTAKEN
        if not owner.agent:
            return None
        if agent is None or agent.paused or not agent.can_do(owner.new):
            return Reason.OVERTAKEN
        if agent.max is not None and self.running(owner.agent) >= agent.max:
            return Reason.OVERTAKEN
        return Reason.AGENT_GONE if self._gone(owner, agent) else None

    def _gone(self, owner: Item, agent: Agent) -> bool:
        """Whether the agent of an owner has no run and has made no claim for a minute. No workers here."""
        since_us = owner.created_us if agent.seen_us is None else agent.seen_us
        return not self.running(owner.agent) and self.now_us >= since_us + micro(GONE_S)

    def _overtake(self, item: Item, owner: Item, reason: Reason) -> None:
        owner.status, owner.reason = ItemStatus.DEFERRED, reason
        item.status, item.reason, item.offered_us = ItemStatus.PENDING, reason, self.now_us
        item.first_in_line = False
        self._note(EventKind.LANE_OVERTAKEN, reason, owner)

    def _start(
        self, item: Item, agent: str, lease_s: float | None, worker: str | None, *, external: bool
    ) -> Run:
        span_s = None if external else lease_s or item.new.lease_s or LEASE_S
        item.attempt += 1
        run = Run(
            number=len(self.runs) + 1,
            item=item.id,
            agent=agent,
            worker=worker,
            attempt=item.attempt,
            started_us=self.now_us,
            lease_s=span_s,
            lease_until_us=None if span_s is None else self.now_us + micro(span_s),
            delivered=len(item.messages),
        )
        self.runs[run.number] = run
        item.status, item.run, item.last_agent = ItemStatus.IN_PROGRESS, run, agent
        if item.first_claimed_us is None:
            item.first_claimed_us = self.now_us
        self._note(EventKind.RUN_STARTED, "", item, run, item.promoted_from)
        return run

    # -- what a holder says -----------------------------------------------------------------------

    def holds(self, run: Run) -> bool:
        """A write is accepted iff the item's current run is this run. No clock is asked."""
        return self.items[run.item].run is run

    def refuse_guess(self, run: int) -> None:
        """Count a report with a handle that no run has."""
        self.history.append(Line(str(EventKind.RUN_REFUSED), str(Reason.FOREIGN_HANDLE), 0, run, 0))

    def refuse(self, run: Run) -> None:
        if run.reason != Reason.REPORTED:  # else it has said itself that it is over
            self._note(EventKind.RUN_REFUSED, Reason.LEASE_LOST, self.items[run.item], run)

    def renew(self, run: Run, seen: int) -> bool:
        if not self.holds(run):
            return False
        if run.lease_s is not None:
            until_us = self.now_us + micro(run.lease_s)
            run.lease_until_us = until_us if run.revoke_us is None else min(until_us, run.revoke_us)
        run.seen = max(run.seen, min(seen, len(self.items[run.item].messages)))
        return True

    def finish(self, run: Run, outcome: RunStatus, *, seen: int, retry: bool, jitter: float) -> Finished:
        if not self.holds(run):
            self.refuse(run)
            return Finished(None, [])
        if outcome is RunStatus.RELEASED and run.cancel_into not in (None, ItemStatus.PENDING):
            outcome = RunStatus.CANCELLED
        run.seen = max(run.seen, seen)
        item = self.items[run.item]
        return Finished(outcome, self._end(item, outcome, Reason.REPORTED, retry=retry, jitter=jitter))

    def _end(
        self, item: Item, status: RunStatus, reason: str, *, retry: bool = True, jitter: float = 0.5
    ) -> list[int]:
        """The item's run ends, the item is settled, and its lane goes on, all at once."""
        run = item.run
        assert run is not None
        run.status, run.reason, run.ended_us = status, reason, self.now_us
        item.run = None
        item.promoted_from = None
        item.offered_us = self.now_us
        self._settle(item, run, retry=retry, jitter=jitter)
        self._note(EventKind(f"run.{status}"), reason, item, run)
        if item.status is ItemStatus.SUPERSEDED:
            self._note(EventKind.ITEM_SUPERSEDED, item.reason, item)
        if item.status is ItemStatus.CANCELLED:
            self._note(EventKind.ITEM_CANCELLED, item.reason, item)
        if item.wakes_us is not None:
            self._note(EventKind.ITEM_PARKED, item.reason, item)
        if item.ended:
            item.ended_us = self.now_us
            item.releases = 0
            self._settle_messages(item, run)
        if item.active:
            return []
        return self._promote(item.lane or item.observed_lane, run)

    def _settle(self, item: Item, run: Run, *, retry: bool, jitter: float) -> None:
        exhausted = run.attempt >= item.max_attempts
        if run.status is RunStatus.SUCCEEDED:
            item.status, item.reason, item.absorbed_by = ItemStatus.COMPLETED, run.reason, None
            return
        if run.cancel_into not in (None, ItemStatus.PENDING):
            item.status, item.reason = run.cancel_into, run.cancel_why or ""
            return
        if run.cancel_into is not None and (retry or run.status is not RunStatus.FAILED):
            self._give_back(item, run, jitter)
            return
        if run.status is RunStatus.FAILED:
            if exhausted or not retry:
                item.status = ItemStatus.FAILED
                item.reason = Reason.ATTEMPTS_EXHAUSTED if retry else Reason.NO_RETRY
            else:
                item.releases = 0
                self._park(item, Reason.BACK_OFF, run.attempt, jitter)
        elif run.status in (RunStatus.LOST, RunStatus.TIMED_OUT):
            item.releases = 0
            item.status = ItemStatus.FAILED if exhausted else ItemStatus.PENDING
            item.reason = Reason.ATTEMPTS_EXHAUSTED if exhausted else run.reason
        else:
            assert run.status is RunStatus.RELEASED
            self._give_back(item, run, jitter)

    def _give_back(self, item: Item, run: Run, jitter: float) -> None:
        newer = self._newer_kin(item)
        if newer is not None:
            item.status, item.reason = ItemStatus.SUPERSEDED, Reason.NEWER_ARRIVAL
            item.absorbed_by = newer.id
            return
        item.attempt -= 1  # an item given back unworked was not tried
        if run.cancel_into is not None:  # its lane was shut
            item.status, item.reason = ItemStatus.PENDING, run.cancel_why or ""
            return
        item.releases += 1
        if item.releases < RELEASES_IN_A_ROW:
            item.status, item.reason = ItemStatus.PENDING, run.reason
            return
        nth = max(item.attempt, item.releases - RELEASES_IN_A_ROW + 1)
        self._park(item, Reason.RELEASED_OFTEN, nth, jitter)

    def _park(self, item: Item, reason: Reason, nth: int, jitter: float) -> None:
        plain_s = min(BACK_OFF_FIRST_S * 2 ** (max(nth, 1) - 1), BACK_OFF_MAX_S)
        spread = 1 + BACK_OFF_SPREAD * (2 * jitter - 1)
        item.wakes_us = self.now_us + micro(plain_s * spread)
        keep = item.lane is not None and item.new.retry_lane is RetryLane.KEEP
        item.status, item.reason = ItemStatus.PENDING if keep else ItemStatus.WAITING, reason

    def _settle_messages(self, item: Item, run: Run) -> None:
        """A superseded item gives all to its successor. What no run read becomes a follow-up."""
        newer = self.items.get(item.absorbed_by or 0)
        if item.status is ItemStatus.SUPERSEDED and newer is not None and not newer.ended:
            self._hand_over(item, newer)
            return
        read = max(run.seen, run.delivered)
        unread = item.messages[read:]
        if not unread:
            return
        if all(item.unmoved_by(m.sender) for m in unread):
            return
        item.messages = item.messages[:read]
        streak, starts = item.streak, any(m.sender.kind == "person" for m in unread) or self._count(item)
        status = ItemStatus.DEFERRED if item.lane is not None else ItemStatus.PENDING
        reason = Reason.UNREAD_MESSAGES
        if not starts:
            status, reason = ItemStatus.WAITING, Reason.LOOP
        follow_up = self._bear(item.new, item.lane, status, reason, item.observed_lane)
        follow_up.streak, item.streak = item.streak, streak
        prefix = "" if item.title.startswith("Follow-up: ") else "Follow-up: "
        follow_up.title = prefix + item.title
        follow_up.ticket = min(m.ticket for m in unread)
        follow_up.max_attempts = item.max_attempts
        follow_up.messages = unread
        self._note(EventKind.ITEM_ADDED, Reason.UNREAD_MESSAGES, follow_up)
        if not starts:
            self._note(EventKind.WAKE_STOPPED, Reason.LOOP, follow_up)

    # -- time -------------------------------------------------------------------------------------

    def sweep(self) -> Swept:
        swept = Swept()
        self._bring_due(swept)
        for lane in self.lanes():
            swept.promoted += len(self._promote(lane, None))
        gone = [k for k, (_, expires_us) in self.keys.items() if expires_us <= self.now_us]
        for key in gone:
            del self.keys[key]
        swept.forgotten_keys = len(gone)
        return swept

    def _bring_due(self, swept: Swept) -> None:
        for item in self.due():
            ends = item.run is not None or item.wakes_us is None
            if item.moves_us is None or item.moves_us > self.now_us:
                continue  # an earlier one of this sweep took it along
            had_run = item.run
            swept.promoted += len(self._expire(item))
            if ends and had_run is None and not item.ended:
                continue  # its time to be claimed began anew
            if ends:
                swept.expired += 1
            else:
                swept.reentered += 1

    def _expire(self, item: Item) -> list[int]:
        if item.moves_us is None or item.moves_us > self.now_us:
            return []
        run = item.run
        if run is None and item.wakes_us is None:
            agent = self.agents.get(item.agent)
            paused = item.new.project in self.paused_projects or (agent is not None and agent.paused)
            if paused or self.gated(item):
                item.offered_us = self.now_us  # nobody could claim it
                return []
            item.status, item.reason, item.ended_us = ItemStatus.CANCELLED, Reason.UNCLAIMED, self.now_us
            self._note(EventKind.ITEM_CANCELLED, Reason.UNCLAIMED, item)
            return self._promote(item.lane or item.observed_lane, None)
        if run is None:
            return self._reenter(item, Reason.DUE)
        if run.revoke_us is not None and run.revoke_us <= self.now_us:
            return self._end(item, RunStatus.CANCELLED, Reason.CANCEL_GRACE_OVER)
        timeout_s = item.new.timeout_s
        if timeout_s is not None and run.started_us + micro(timeout_s) <= self.now_us:
            return self._end(item, RunStatus.TIMED_OUT, Reason.RUN_TIMEOUT)
        return self._end(item, RunStatus.LOST, Reason.LEASE_EXPIRED)

    # -- operators and messages -------------------------------------------------------------------

    def cancel(self, item: Item, why: str, *, force: bool) -> list[int]:
        if item.ended:
            raise Refused("item_ended")
        if item.run is not None:
            if item.run.cancel_into is not None:  # asked before: only the history learns of it
                self._note(EventKind.CANCEL_REQUESTED, why, item, item.run)
            self._ask_to_stop(item, ItemStatus.CANCELLED, why, None)
            return self._end(item, RunStatus.CANCELLED, Reason.OPERATOR) if force else []
        owned = item.active
        item.status, item.reason, item.cancel_why = ItemStatus.CANCELLED, Reason.OPERATOR, why
        item.wakes_us, item.ended_us = None, self.now_us
        item.first_in_line = False
        self._note(EventKind.ITEM_CANCELLED, Reason.OPERATOR, item)
        return self._promote(item.lane or item.observed_lane, None) if owned else []

    def take_back(self, item: Item) -> list[int]:
        if item.run is None:
            raise Refused("item_ended")
        return self._end(item, RunStatus.RELEASED, Reason.OPERATOR)

    def retry(self, item: Item) -> list[int]:
        if item.in_back_off:
            self._note(EventKind.ITEM_RETRIED, Reason.OPERATOR, item)
            return self._reenter(item, Reason.OPERATOR)
        if item.over_wake_limit:
            self._note(EventKind.ITEM_RETRIED, Reason.OPERATOR, item)
            return self._restart(item, Reason.OPERATOR)
        if item.status not in (ItemStatus.FAILED, ItemStatus.CANCELLED):
            raise Refused("item_ended")
        item.max_attempts = max(item.max_attempts, item.attempt + 1)
        self._note(EventKind.ITEM_RETRIED, Reason.OPERATOR, item)
        promoted = self._reenter(item, Reason.OPERATOR)
        if not item.ended:
            item.ended_us = item.cancel_why = None
            item.releases = 0
        return promoted

    def tell(self, item: Item, text: str, author: str, *, sender: Sender) -> tuple[Item, int, list[int]]:
        """Append a message; gives the item that got it, its number there, and who was promoted."""
        self.last_ticket += 1
        while item.ended and item.absorbed_by is not None:
            item = self.items[item.absorbed_by]
        if item.ended:
            raise Refused("item_ended")
        item.messages.append(Message(self.last_ticket, text, author, item.id, self.now_us, sender))
        n = len(item.messages)
        self._note(EventKind.MESSAGE_ADDED, "", item, item.run)
        return item, n, self._hear(item, sender)

    def _hear(self, item: Item, sender: Sender) -> list[int]:
        """A message ends a back-off, unless our side wrote it, or too many did before it without a person."""
        person = sender.kind == "person"
        promoted = self._restart(item) if person else []
        if not item.in_back_off or item.unmoved_by(sender):
            return promoted
        if not person and not self._count(item):
            self._note(EventKind.WAKE_STOPPED, Reason.LOOP, item)
            return promoted
        return [*promoted, *self._reenter(item, Reason.WOKEN)]

    def _restart(self, chain: Item | str, reason: Reason = Reason.WOKEN) -> list[int]:
        """A person spoke: the count begins anew, and what had been stopped goes on."""
        lane = chain if isinstance(chain, str) else chain.lane
        if lane is not None:
            self.streaks.pop(lane, None)
            on_lane = [i for i in self.items.values() if i.lane == lane]
        else:
            assert isinstance(chain, Item)
            chain.streak, on_lane = 0, [chain]
        stopped = [i for i in sorted(on_lane, key=lambda i: _line_order(i)[1:]) if i.over_wake_limit]
        return [n for each in stopped for n in self._reenter(each, reason)]

    def _count(self, item: Item | str) -> bool:
        """One more wake-up without a person; false if it is one too many."""
        lane = item if isinstance(item, str) else item.lane
        before = self.streaks.get(lane, 0) if lane is not None else item.streak  # type: ignore[union-attr]
        if before >= WAKES_MAX:
            return False
        if lane is not None:
            self.streaks[lane] = before + 1
        else:
            item.streak = before + 1  # type: ignore[union-attr]
        return True

    def inbox(self, run: Run, seen: int) -> list[tuple[int, Message]]:
        """Unread messages with their numbers, oldest first."""
        if not self.renew(run, seen):
            self.refuse(run)
            raise Refused("lease_lost")
        return self.numbered(self.items[run.item], after=run.seen)

    @staticmethod
    def numbered(item: Item, after: int = 0) -> list[tuple[int, Message]]:
        told = list(enumerate(item.messages, start=1))[after:]
        return sorted(told, key=lambda pair: (pair[1].ticket, pair[0]))

    # -- agents, projects, modes ------------------------------------------------------------------

    def set_agent(self, name: str, **changes: object) -> None:
        agent = self.agents.setdefault(key_of(name), Agent(name.strip()))
        agent.name = name.strip()
        for field_name, value in changes.items():
            setattr(agent, field_name, value)
        self.note_setting(EventKind.AGENT_SET)

    def pause_agent(self, name: str, why: str, *, paused: bool) -> None:
        agent = self.agents.setdefault(key_of(name), Agent(name.strip()))
        if agent.paused and not paused:
            self._restart_times_to_claim(i for i in self.items.values() if i.agent == key_of(name))
        agent.paused = paused
        self.note_setting(EventKind.AGENT_PAUSED if paused else EventKind.AGENT_RESUMED, why)

    def pause_project(self, project: str, why: str, *, paused: bool) -> None:
        if project in self.paused_projects and not paused:
            self._restart_times_to_claim(i for i in self.items.values() if i.new.project == project)
        (self.paused_projects.add if paused else self.paused_projects.discard)(project)
        self.note_setting(EventKind.PROJECT_PAUSED if paused else EventKind.PROJECT_RESUMED, why)

    def _restart_times_to_claim(self, items: Iterable[Item]) -> None:
        for item in items:
            if item.claim_by_us is not None:
                item.offered_us = self.now_us

    def set_gate(self, lane: str, exempt: tuple[str, ...] | None) -> int | None:
        """Open or shut a lane; gives the run that goes on there and is not exempt."""
        lane = lane.lower() if lane.lower().startswith("issue:") else lane
        opens = exempt is None and self.gates.get(lane, ()) is not None
        if opens and any(self._busy(other) for other in self.gates if other != lane):
            exempt = ()
        shut = self._shut_owners(lane)
        if lane not in self.gates or self.gates[lane] != exempt:
            self.gates[lane] = exempt
            self._offer(shut)
            self.note_setting(EventKind.GATE_OPENED if exempt is None else EventKind.GATE_CLOSED, "turn")
        owner = next((i for i in self.items.values() if i.lane == lane and i.active), None)
        if owner is None or owner.run is None:
            return None
        if self.shut(lane, owner.new.type) and owner.run.cancel_into is None:
            self._ask_to_stop(owner, ItemStatus.PENDING, Reason.SERIES_QUEUED, None)
        return None if owner.new.type in (exempt or ()) else owner.run.number

    def _busy(self, lane: str) -> bool:
        """Whether a lane with a gate is open, or has a run that is not exempt."""
        exempt = self.gates[lane]
        return exempt is None or any(
            i.lane == lane and i.run is not None and i.new.type not in exempt for i in self.items.values()
        )

    def _shut_owners(self, lane: str) -> list[Item]:
        return [i for i in self.items.values() if i.lane == lane and self.gated(i)]

    def _offer(self, shut: list[Item]) -> None:
        """The time to claim what a gate has kept shut begins when it opens."""
        for item in shut:
            if not self.gated(item):
                item.offered_us = self.now_us

    def remove_gate(self, lane: str) -> bool:
        lane = lane.lower() if lane.lower().startswith("issue:") else lane
        if lane not in self.gates:
            return False
        shut = self._shut_owners(lane)
        del self.gates[lane]
        self._offer(shut)
        self.note_setting(EventKind.GATE_REMOVED, "turn")
        return True

    def set_mode(self, scope: str, value: str, mode: Mode) -> None:
        self.modes[scope, value] = mode
        self.note_setting(EventKind.MODE_SET, mode)

    def note_setting(self, kind: EventKind, reason: str = "") -> None:
        self._note(kind, reason, None)

    # -- the record -------------------------------------------------------------------------------

    def _note(
        self,
        kind: EventKind,
        reason: str,
        item: Item | None,
        run: Run | None = None,
        promoted_from: int | None = None,
    ) -> None:
        line = Line(
            str(kind), str(reason), item.id if item else 0, run.number if run else 0, promoted_from or 0
        )
        self.history.append(line)

    def counts(self) -> dict[str, object]:
        """What `stats` counts, over all of the history."""
        kinds = Counter(line.kind for line in self.history)
        ready = [i for i in self.items.values() if i.status is ItemStatus.PENDING and i.wakes_us is None]
        return {
            "items": dict(Counter(str(i.status) for i in self.items.values())),
            "depth_by_priority": dict(Counter(i.new.priority for i in ready)),
            "current_locks": sum(i.run is not None for i in self.items.values()),
            "claims": kinds["run.started"],
            "completions": kinds["run.succeeded"],
            "failures": kinds["run.failed"] + kinds["run.lost"] + kinds["run.timed_out"],
            "lease_losses": kinds["run.lost"],
            "timeouts": kinds["run.timed_out"],
            "refused_writes": kinds["run.refused"],
            "promotions": kinds["lane.promoted"],
            "coalesced": kinds["item.coalesced"],
            "superseded": kinds["item.superseded"],
            "overtaken": kinds["lane.overtaken"],
            "duplicates": kinds["item.duplicate"],
            "rejected": kinds["item.rejected"],
            "would_have": dict(Counter(x.reason for x in self.history if x.kind == "item.observed")),
        }

    def complaints(self) -> set[str]:
        """What the doctor may find although every rule is kept: time that no sweep has acted on yet, and a
        limit that was lowered while runs went on."""
        found = set()
        for item in self.items.values():
            if item.moves_us is not None and item.moves_us < self.now_us - OVERDUE_S * SECOND:
                found.add("no_overdue_lease" if item.run else "nothing_overdue")
        if any(a.max is not None and self.running(k) > a.max for k, a in self.agents.items()):
            found.add("agents_within_limit")
        return found


def _same_name(item: Item, agent: str) -> bool:
    return item.agent == agent or (item.run is not None and item.run.agent == agent)


def _reads(item: Item) -> bool:
    """Whether anybody reads what is written to an item: not in a hold, an edit or an external run."""
    new = item.new
    hold = new.type == "hold" and "hold" in new.labels
    external = item.run is not None and item.run.lease_s is None
    return not (hold or external or new.type == "plan.edit")


def _line_order(item: Item) -> tuple[bool, float, int]:
    position = float("inf") if item.new.position is None else item.new.position
    return not item.first_in_line, position, item.ticket


def _lane_of(new: NewItem) -> str | None:
    """The lane asked for, or that of the issue the payload names. GitHub's names have no case."""
    lane = new.lane
    if lane is None and new.payload is not None and not new.no_lane:
        told = json.loads(new.payload)
        if "repository" in told and "number" in told:
            lane = f"issue:{told['repository']}#{told['number']}"
    if lane is not None and lane.lower().startswith("issue:"):
        lane = lane.lower()
    return lane
