"""What can happen to an item next: who may start it, and what becomes of it and of its lane.

A prediction is made by the rules themselves, so it is as true as they are. Who may start the item is asked of
`claiming`. What an end makes of it is decided by `decide`, on rows that were read without a lock, and not
written. A rule that changes how runs end or how items come back is thus followed without a change here.

A new reason not to start an item is one `if` in `_closed` (nobody may) or in `_barred` (this agent may not).
The claims of the databases must have it too: `tests/model/test_predictions.py` compares them on random
stores, and does to every item what was predicted for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType

from interlock.core.blocks import Block
from interlock.core.claiming import Agent, Claim, has_room, narrowed, wanted, with_room
from interlock.core.commands import Command, Expire, Finish, Outcome, Retry, Tell
from interlock.core.decide import decide
from interlock.core.ledger import Decision, Ledger, Snapshot
from interlock.core.model import (
    HOLD,
    NO_AGENT,
    UNPOSITIONED,
    Gate,
    Item,
    ItemId,
    PlanId,
    RetryLane,
    Sender,
    SenderKind,
)
from interlock.core.names import issue_number
from interlock.core.overtaking import Presence, gone_us, may_overtake
from interlock.core.plans.book import PlanPart
from interlock.core.plans.model import EDIT_TYPE, Need, Plan, PlanStatus, Task, plan_of_lane
from interlock.core.record import Record, replace
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus
from interlock.core.timing import Timing, until

LACKS_LABEL = "lacks a label"
#: When what is overdue moves.
NEXT_LOOK = "with the next claim or sweep"
#: Numbers of items and tickets that do not exist yet are above all that do.
NEWEST = 2**62


class End(StrEnum):
    """How a run can end."""

    DONE = "done"
    FAIL = "fail"
    RELEASE = "release"
    #: Its lease, its time or its grace is over.
    TIME = "time"


class Member(NamedTuple):
    """An issue of a series, by the item of its assignment on the lane of the series."""

    item: ItemId
    #: The issue's number; null if the assignment names none.
    number: int | None = None

    @property
    def name(self) -> str:
        return f"item {self.item}" if self.number is None else f"#{self.number}"


class Series(Record):
    """Who has the turn in a series, and who comes next."""

    active: Member | None = None
    #: The line behind it, the first of it in order.
    line: tuple[Member, ...] = ()
    #: Why nobody knows: what became of its lane, as in "cannot be read". Only git loses lanes.
    lost: str = ""


class Facts(Record):
    """What was read about an item and its surroundings, all of one moment."""

    now_us: int
    #: What the rules read when the item, or the owner of its lane, ends.
    snapshot: Snapshot
    timing: Timing = Timing()
    #: How many go before it, up to `AHEAD_MAX`.
    ahead: int = 0
    #: The agents that are named or limited in any way, with their runs; null where a store keeps none.
    agents: Mapping[str, Agent] | None = MappingProxyType({})
    #: The signs of life of the agents that the item and the owner of its lane are for.
    presence: Mapping[str, Presence] = MappingProxyType({})
    paused_projects: Mapping[str, str] = MappingProxyType({})
    #: Those of the items here and of their lane.
    blocks: tuple[Block, ...] = ()
    #: The series of its lane's gate, if that is shut. The gate itself is in the snapshot.
    series: Series = Series()
    plans: Mapping[PlanId, Plan] = MappingProxyType({})
    #: The edges to it that are not satisfied, broken ones first.
    needs: tuple[Need, ...] = ()
    #: Of a plan whose edit it is or waits for: number and time of the last end that no edit has answered.
    last_ends: Mapping[PlanId, tuple[tuple[int, int], ...]] = MappingProxyType({})


class Hindrance(Record):
    """Why an item is not started now."""

    #: A clause: "project acme is paused (release day)".
    what: str
    #: What ends it, a clause too: "`interlock resume project acme` resumes it".
    cure: str
    #: In a list of agents: "paused".
    short: str = ""


class Takers(Record):
    """Who may start an item: a plain claim of which agents takes it, were it the first in the queue."""

    #: The only agent, if the item names one.
    agent: str
    #: Whether agents without limits may, known or not.
    anyone: bool
    #: Agents with limits: who may, and who may not and why.
    able: tuple[str, ...] = ()
    barred: Mapping[str, tuple[Hindrance, ...]] = MappingProxyType({})

    def takes(self, agent: str) -> bool:
        """Whether this agent may start it."""
        if self.agent not in (NO_AGENT, agent) or agent in self.barred:
            return False
        return self.anyone or agent in self.able

    @property
    def nobody(self) -> bool:
        """No agent that is known may."""
        return not (self.anyone or self.able)


class Fate(Record):
    """What an end makes of an item and of its lane."""

    #: As it is afterwards.
    item: Item
    #: Who holds its lane then; null if nobody does, or it has none.
    holder: Item | None = None
    #: The item that is made of the messages that it has not read.
    follow_up: Item | None = None

    @property
    def by_follow_up(self) -> bool:
        """Whether messages that were not read hold the lane then, as an item that does not exist yet."""
        return self.follow_up is not None and self.follow_up == self.holder


class Prediction(Record):
    """What can happen to an item next, if nothing else happens before."""

    item: Item
    facts: Facts
    #: Why nobody may start it, whoever asks.
    closed: tuple[Hindrance, ...] = ()
    #: Who may start it unless it is closed, if it is ready or may overtake the owner of its lane.
    takers: Takers | None = None
    #: Of an owner that has not started: from when it can be overtaken, unless its agent shows a sign of life
    #: before; 0 while it cannot start; null if it never can be.
    overtaken_us: int | None = None
    #: When time alone moves it, and where to; a sweep, a claim or an arrival on its lane does it then.
    at_us: int | None = None
    #: What each end of its run makes of it; `TIME` also of an item without a run.
    fates: Mapping[End, Fate] = MappingProxyType({})
    #: What a retry makes of an item that failed, was cancelled or waits after a run; null if it is refused.
    again: Fate | None = None
    #: What a message makes of an item that waits for a time or a person, by who writes it; of a running one,
    #: what it and the end of its run make of it if it is not read.
    told: Mapping[SenderKind, Fate] = MappingProxyType({})
    #: Of a deferred item: the owner of its lane. With `takers`, a claim may take the lane from it once it can
    #: be overtaken, if it finds none in the line that it may start before this one.
    owner: Prediction | None = None

    @property
    def overdue(self) -> bool:
        """Its time is over: the next sweep or claim moves it, before anything is started."""
        return self.at_us is not None and self.at_us <= self.facts.now_us

    @property
    def can_be_overtaken(self) -> bool:
        """Whether a claim may take the lane from this owner now."""
        return self.overtaken_us is not None and self.overtaken_us <= self.facts.now_us

    def gives_way_to(self, agent: str) -> bool:
        """Whether this owner, if it can be overtaken, makes room for a claim of an agent.

        Who asks is known and there by then: an owner for that agent makes room only if it cannot start."""
        if self.closed or self.item.spec.agent_key != agent:
            return True
        asking = (self.facts.agents or {}).get(agent) or Agent(key=agent, name=agent)
        return not can_do(asking, self.item)

    def takes(self, agent: str) -> bool:
        """Whether a claim of this agent may start it now."""
        owner = self.owner
        if self.overdue or (owner is not None and not owner.can_be_overtaken):
            return False
        if owner is not None and not owner.gives_way_to(agent):
            return False
        return not self.closed and self.takers is not None and self.takers.takes(agent)


def predict(item: Item, facts: Facts) -> Prediction:
    """Everything that can be said about an item's next step."""
    at_us = _time_of(item, facts)
    made = Prediction(
        item=item,
        facts=facts,
        closed=tuple(_closed(item, facts)),
        at_us=at_us,
        fates=_fates(item, at_us, facts),
        again=_again(item, facts),
        told=_told(item, facts),
    )
    if item.state.ready:
        overtaken_us = _overtaken_us(item, facts, made.closed) if item.spec.lane is not None else None
        return replace(made, takers=_takers(item, facts, with_room_left), overtaken_us=overtaken_us)
    lane = item.spec.lane
    found = _owner(lane, facts) if item.status is ItemStatus.DEFERRED and lane is not None else None
    if found is None:
        return made
    owner = predict(found, facts)
    overtakes = owner.overtaken_us is not None and may_overtake(item, found)
    return replace(made, owner=owner, takers=_takers(item, facts, with_any_room) if overtakes else None)


# -- why it may not be started: a new reason is one `if` here -------------------------------------


def _closed(item: Item, facts: Facts) -> Iterator[Hindrance]:
    """What keeps everybody from starting an item."""
    project = item.spec.project
    if (why := facts.paused_projects.get(project)) is not None:
        undo = f"`interlock resume project {project}` resumes it"
        yield Hindrance(what=f"project {project} is paused ({why})", cure=undo)
    for block in facts.blocks:
        if block.holds(item):
            from shlex import quote  # noqa: PLC0415  (hardly anything is blocked)

            what = f"lane {block.lane}" if block.lane else f"item {item.id}"
            seen = f", see {block.url}" if block.url else ""
            undo = f"`interlock unblock {block.target} --by {quote(block.blocker)}` lets it start"
            yield Hindrance(what=f"{what} is blocked by {block.blocker} ({block.why}{seen})", cure=undo)
    gate = facts.snapshot.gates.get(item.spec.lane) if item.spec.lane is not None else None
    if gate is not None and gate.shuts(item.spec.type):
        yield _not_active(item, gate, facts.series)
    plan = facts.plans.get(item.spec.plan) if item.spec.plan is not None else None
    if plan is None:
        return
    if plan.status is not PlanStatus.RUNNING:
        yield Hindrance(what=f"plan {plan.id} is {plan.status}", cure="the next sweep cancels its tasks")
    if plan.paused_why is not None:
        undo = f"`interlock plan resume {plan.id}` resumes it"
        yield Hindrance(what=f"plan {plan.id} is paused ({plan.paused_why})", cure=undo)
    if plan.cycle_us is not None:
        asked = f"plan {plan.id} waits for an edit of {plan.editor} (item {plan.edit_item})"
        deadline = f"at the deadline, {until(plan.deadline_us, facts.now_us)}"
        if plan.deadline_us is not None and plan.deadline_us <= facts.now_us:
            deadline = f"{NEXT_LOOK}, as the deadline is over"
        goes_on = f"it goes on when every end is answered, or {deadline}"
        yield Hindrance(what=asked, cure=goes_on)


def _not_active(item: Item, gate: Gate, series: Series) -> Hindrance:
    """Another issue of the series has its turn."""
    lane, name = item.spec.lane or "", f"series {gate.series.rpartition('/')[2]}"
    number = issue_number(lane)
    mine, issue = (f"lane {lane}", f"lane {lane}") if number is None else (f"#{number}", f"issue #{number}")
    if series.lost:
        return Hindrance(
            what=f"the lane of {name} {series.lost}, so nobody knows which issue is the active one",
            cure="the next look at the series builds it anew from the open issues",
        )
    active = series.active
    if active is not None and active.number is not None and active.number == number:
        what = f"{name} has come to {issue}, but has not opened its lane yet"
        return Hindrance(what=what, cure="the next look at the series opens it")
    places = [m.number for m in series.line]
    place = places.index(number) + 1 if number is not None and number in places else None
    where = f"{mine} is not in its line" if place is None else f"{mine} has place {place} in its line"
    first = "none" if active is None else active.name
    if active is None:
        cure = "the next look at the series chooses one"
    elif place is None:
        cure = f"it may start when {mine} has joined the line and its turn has come"
    else:
        others = "one" if place == 2 else f"{place - 1}"
        more = f" and the {others} between them have" if place > 1 else " has"
        cure = f"it may start when {first}{more} left the series"
    return Hindrance(what=f"{issue} is not the active one of {name} ({first} is; {where})", cure=cure)


def _barred(item: Item, agent: Agent, now_us: int) -> Iterator[Hindrance]:
    """What keeps one agent from starting an item that others may start."""
    name, running, most = agent.key, agent.running, agent.max_concurrency
    when_one_ends = f"{name} may claim it when one ends"
    if agent.paused_why is not None:
        undo = f"`interlock resume agent {name}` resumes it"
        yield Hindrance(what=f"{name} is paused ({agent.paused_why})", cure=undo, short="paused")
    if agent.wall_us is not None:
        over = f"which is over {until(agent.wall_us, now_us)}"
        what = f"{name} is behind a wall{f' ({agent.wall_why})' if agent.wall_why else ''}, {over}"
        undo = f"`interlock resume agent {name}` ends that early"
        yield Hindrance(what=what, cure=undo, short="behind a wall")
    if agent.types and item.spec.type not in agent.types:
        only = f"takes only {named(agent.types)}"
        undo = f"`interlock agents set {name} --type …` changes that"
        yield Hindrance(what=f"{name} {only} and no {item.spec.type}", cure=undo, short=only)
    missing = tuple(label for label in item.spec.labels if label not in agent.labels)
    if missing and not item.held:
        undo = f"`interlock agents set {name} {_label_options(item, agent.labels)}` changes that"
        yield Hindrance(what=f"{name} has no label {named(missing)}", cure=undo, short=LACKS_LABEL)
    full = f"{running} of {most} runs"
    if not has_room(agent, running - agent.editing, agent.editing):
        yield Hindrance(what=f"{name} has {full}", cure=when_one_ends, short=full)
    elif item.spec.type == EDIT_TYPE and agent.editing:
        full = f"{running} runs, one of them an edit"
        yield Hindrance(what=f"{name} has {full}", cure=when_one_ends, short=full)
    pool_room = _pool_room(agent)
    if pool_room is not None and pool_room <= 0:
        full = f"{agent.pool_running} of {agent.pool_max} runs"
        cure = f"{name} may claim it when one of them ends"
        yield Hindrance(
            what=f"the agents of {name}'s pool {agent.pool} have {full}", cure=cure, short="full pool"
        )


#: A rule without words of its own still holds.
_OTHERWISE = Hindrance(what="its agent may not start it now", cure="a later claim may", short="not now")


# -- who may start it -----------------------------------------------------------------------------

Allowed = Callable[[Claim, Agent], Claim | None]


def with_room_left(wish: Claim, agent: Agent) -> Claim | None:
    """What a claim of this agent may start of what is ready."""
    allowed = narrowed(wish, agent)
    if allowed is None:
        return None
    return with_room(allowed, agent, agent.running - agent.editing, agent.editing, _pool_room(agent))


def with_any_room(wish: Claim, agent: Agent) -> Claim | None:
    """What a claim of this agent may start in place of an owner that cannot."""
    return narrowed(wish, agent) if _has_room(agent) else None


def _has_room(agent: Agent) -> bool:
    return has_room(agent, agent.running - agent.editing, agent.editing, _pool_room(agent))


def _pool_room(agent: Agent) -> int | None:
    return None if agent.pool_max is None else agent.pool_max - agent.pool_running


def _wish(item: Item, agent: str) -> Claim:
    """The claim that this item waits for: a plain one, or that of a hold."""
    return Claim(agent=agent, types=(HOLD,), labels=(HOLD,)) if item.held else Claim(agent=agent)


def _takers(item: Item, facts: Facts, allowed: Allowed) -> Takers:
    spec, ready = item.spec, as_ready(item)
    known = facts.agents or {}
    if spec.agent_key:
        known = {spec.agent_key: known[spec.agent_key]} if spec.agent_key in known else {}
    able, barred = [], {}
    for key, agent in known.items():
        claim = allowed(_wish(item, key), agent)
        if claim is not None and wanted(claim, ready):
            able.append(key)
        else:
            barred[key] = tuple(_barred(item, agent, facts.now_us)) or (_OTHERWISE,)
    plain = _wish(item, spec.agent_key)
    limited = spec.agent_key in known
    return Takers(
        agent=spec.agent_key,
        anyone=not limited and wanted(plain, ready),
        able=tuple(able),
        barred=barred,
    )


def no_label(item: Item) -> Hindrance:
    """No agent that may start it has the labels that an item needs."""
    who = item.spec.agent_key or "NAME"
    what = f"{item.spec.agent_key or 'no agent'} has {'no' if item.spec.agent_key else 'the'} label "
    cure = f"`interlock agents set {who} {_label_options(item)}` changes that"
    return Hindrance(what=what + named(item.spec.labels), cure=cure, short=LACKS_LABEL)


def _label_options(item: Item, held: tuple[str, ...] = ()) -> str:
    """The options that give an agent the labels it has and those it lacks: they are set as a whole."""
    return " ".join(f"--label {label}" for label in dict.fromkeys((*held, *item.spec.labels)))


def can_do(agent: Agent, item: Item) -> bool:
    """Whether an agent does the type of an item and has its labels."""
    typed = not agent.types or item.spec.type in agent.types
    return typed and (item.held or set(item.spec.labels) <= set(agent.labels))


# -- what a claim sweeps before it looks ----------------------------------------------------------


def without_late_runs(agents: Mapping[str, Agent], late: Iterable[Item]) -> dict[str, Agent]:
    """The agents without the runs whose time is over: a claim ends those before it counts."""
    found = dict(agents)
    for item in late:
        agent = found.get(item.state.run_agent or "")
        if agent is None or item.state.run is None:
            continue
        edits = item.spec.type == EDIT_TYPE
        found[agent.key] = replace(
            agent, running=agent.running - 1, editing=agent.editing - (1 if edits else 0)
        )
        for each in list(found.values()):
            if agent.pool is not None and each.pool == agent.pool and not edits:
                found[each.key] = replace(each, pool_running=each.pool_running - 1)
    return found


def swept(late: Item, snapshot: Snapshot, now_us: int, timing: Timing) -> Mapping[ItemId, Item]:
    """What the time of an item that is over makes of it and of its lane."""
    spare = tuple(ItemId(NEWEST + n) for n in range(snapshot.spare_ids({late.id}, now_us)))
    after = decide(snapshot, [Expire(item=late.id)], now_us, timing, spare).after
    return {**snapshot.items, **after}


def made_ready(snapshot: Snapshot, after: Mapping[ItemId, Item]) -> list[Item]:
    """What can be claimed after a sweep, and could not be before."""
    before = snapshot.items
    return [
        item
        for item in after.values()
        if item.state.ready
        and not item.state.gated
        and not (item.id in before and before[item.id].state.ready)
    ]


def goes_before(other: Item, item: Item) -> bool:
    """Whether another item that can be claimed is before this one in its queue."""
    keys = (NO_AGENT, item.spec.agent_key) if item.spec.agent_key else (NO_AGENT,)
    first = (other.spec.sort_key, other.id) < (item.spec.sort_key, item.id)
    return first and other.id != item.id and other.spec.agent_key in keys


# -- owners ---------------------------------------------------------------------------------------


def _owner(lane: str, facts: Facts) -> Item | None:
    return Ledger(facts.snapshot, facts.now_us, facts.timing).owner(lane)


def _overtaken_us(owner: Item, facts: Facts, closed: tuple[Hindrance, ...]) -> int | None:
    """From when another agent's claim may take the lane from an owner that has not started: 0 while it cannot
    start, else when its agent is gone."""
    key = owner.spec.agent_key
    if facts.agents is None or owner.spec.position != UNPOSITIONED or owner.spec.retry_lane is RetryLane.KEEP:
        return None
    if closed:
        return 0
    if not key:
        return None
    agent = facts.agents.get(key)
    if agent is None or any(_barred(owner, agent, facts.now_us)):
        return 0
    return gone_us(owner, facts.presence.get(key, Presence()))


# -- what becomes of it ---------------------------------------------------------------------------


def _time_of(item: Item, facts: Facts) -> int | None:
    """When time alone moves an item. An edit is also over with its plan's deadline."""
    times = [item.state.due_us, item.state.claim_by_us]
    plan = _edited_plan(item, facts)
    if plan is not None and not item.terminal:
        times.append(plan.deadline_us)
    return min((t for t in times if t is not None), default=None)


def _edited_plan(item: Item, facts: Facts) -> Plan | None:
    plan_id = plan_of_lane(item.spec.lane or "") if item.spec.type == EDIT_TYPE else None
    plan = facts.plans.get(plan_id) if plan_id is not None else None
    return plan if plan is not None and plan.edit_item == item.id else None


def _fates(item: Item, at_us: int | None, facts: Facts) -> dict[End, Fate]:
    fates = {}
    if item.state.run is not None:
        for end, outcome in _OUTCOMES.items():
            seen = item.state.message_count if end is End.DONE and _reads_first(item, facts) else 0
            report = _report(item, outcome, seen)
            fates[end] = _fate(item, _decided(item, [report], facts.now_us, facts), facts)
    if at_us is not None:
        then_us = max(at_us, facts.now_us)
        if _nobody_may(item, facts):
            facts = replace(facts, snapshot=replace(facts.snapshot, held_back=frozenset({item.id})))
        fates[End.TIME] = _fate(item, _decided(item, [Expire(item=item.id)], then_us, facts), facts)
    return fates


def _nobody_may(item: Item, facts: Facts) -> bool:
    """Whether a pause, a block or its plan keeps everybody from claiming an item: its time begins anew."""
    agent = (facts.agents or {}).get(item.spec.agent_key)
    return any(_closed(item, facts)) or (agent is not None and agent.paused_why is not None)


def _reads_first(item: Item, facts: Facts) -> bool:
    """Whether a hold runs its command again for its messages before it is done: if a person wrote any, and
    nobody has asked it to stop."""
    state = item.state
    if not item.held or state.cancel_into is not None:
        return False
    mark = max(state.seen, state.delivered)
    unread = facts.snapshot.unread.get(item.id, ())
    return any(m.n > mark and m.sender == SenderKind.PERSON for m in unread)


def _report(item: Item, outcome: Outcome, seen: int = 0) -> Finish:
    assert item.state.run is not None
    return Finish(item.state.run, item.id, outcome, seen=seen, bits=item.state.run_bits)


_OUTCOMES = {End.DONE: Outcome.DONE, End.FAIL: Outcome.FAIL, End.RELEASE: Outcome.RELEASE}


def _again(item: Item, facts: Facts) -> Fate | None:
    if not (item.parked or item.status in (ItemStatus.FAILED, ItemStatus.CANCELLED)):
        return None
    made = _decided(item, [Retry(item=item.id)], facts.now_us, facts)
    return _fate(item, made, facts) if made.answers[0].changed else None


def _told(item: Item, facts: Facts) -> dict[SenderKind, Fate]:
    if not (item.parked or item.stopped or item.state.run is not None):
        return {}
    end = [] if item.state.run is None else [_report(item, Outcome.DONE)]
    tells = {kind: Tell(item=item.id, ticket=NEWEST, text="", sender=who) for kind, who in _SENDERS}
    return {
        kind: _fate(item, _decided(item, [tell, *end], facts.now_us, facts), facts)
        for kind, tell in tells.items()
    }


#: No agent has this name, so it is never the item's own one.
_ANOTHER_AGENT = "another agent"
_SENDERS = tuple(
    (kind, Sender(kind, _ANOTHER_AGENT if kind is SenderKind.AGENT else NO_AGENT)) for kind in SenderKind
)


def _fate(item: Item, made: Decision, facts: Facts) -> Fate:
    """What a decision makes of the item."""
    lane = item.spec.lock_lane
    after = Ledger(Snapshot(items=made.after), facts.now_us, facts.timing)
    holder = after.owner(lane) if lane is not None else None
    follow_up = next((i for i in made.born if i.follow_up), None)
    return Fate(item=after.items[item.id], holder=holder, follow_up=follow_up)


def _decided(item: Item, commands: list[Command], now_us: int, facts: Facts) -> Decision:
    """What the rules decide about commands, written by nobody."""
    part, snapshot = _part(item, facts), facts.snapshot
    if part is not None:
        snapshot = replace(snapshot, plans={part.plan.id: part})
    ends = sum(i.state.run is not None for i in snapshot.items.values())
    spare = tuple(ItemId(NEWEST + n) for n in range(ends + len(snapshot.plans)))
    return decide(snapshot, commands, now_us, facts.timing, spare)


def _part(item: Item, facts: Facts) -> PlanPart | None:
    """What the rules see of the item's plan: that its editor is asked, and what the item itself needs.

    What follows for other tasks happens on other lanes.
    """
    plan = _edited_plan(item, facts)
    if plan is not None:
        return PlanPart(plan=plan, unanswered=facts.last_ends.get(plan.id, ()))
    plan = facts.plans.get(item.spec.plan) if item.spec.plan is not None else None
    if plan is None or not (item.scheduled or item.terminal):
        return None
    broken = sum(need.broken for need in facts.needs)
    unmet = len(facts.needs) - broken
    return PlanPart(plan=plan, tasks=(Task(item.id, plan.id, "", 0, unmet=unmet, broken=broken),))


def as_ready(item: Item) -> Item:
    """The item as if it might be claimed."""
    return item._replace(state=item.state._replace(status=ItemStatus.PENDING, due_us=None))


_NAMED_AT_MOST = 5


def named(names: tuple[str, ...]) -> str:
    """A few names, and how many more there are."""
    more = f" and {len(names) - _NAMED_AT_MOST} more" if len(names) > _NAMED_AT_MOST else ""
    return ", ".join(names[:_NAMED_AT_MOST]) + more
