"""What can happen to an item next: who may start it, and what happens to its lane.

The rules themselves make the prediction. `claims` says who may start the item. `decide` says what an end
makes of it, on rows that are read without a lock and never written. So a changed rule about how runs end or
items come back needs no change here.

A new reason not to start an item is one `if` in `_closed` (for all agents) or in `_barred` (for this one).
The claims of the databases must have it too: `tests/model/test_predictions.py` compares them on random
stores, and carry out every prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, tzinfo
from enum import StrEnum
from types import MappingProxyType

from interlock.core.blocks import Block
from interlock.core.budgets import BudgetState, allowance_of, ends_us, told
from interlock.core.claims import Agent, Claim, has_room, narrowed, wanted, with_room
from interlock.core.commands import Command, Expire, Finish, Outcome, Retry, SendMessage
from interlock.core.costs import Spender
from interlock.core.cures import Cure, cure
from interlock.core.decide import decide
from interlock.core.ledger import Ledger, LedgerChanges, Snapshot
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
from interlock.core.overtaking import AgentPresence, gone_us, may_overtake
from interlock.core.plans.model import EDIT_TYPE, Need, Plan, PlanStatus, Task, plan_of_lane
from interlock.core.plans.plan_ledger import PlanPart
from interlock.core.record import Record, replace
from interlock.core.row import NamedTuple
from interlock.core.states import ItemStatus
from interlock.core.timing import Timing, until

LACKS_LABEL = "lacks a label"
#: When overdue items move.
NEXT_LOOK = "with the next claim or sweep"
#: Placeholder numbers for future items and tickets; above all existing ones.
NEWEST = 2**62


class EndKind(StrEnum):
    """How a run can end."""

    DONE = "done"
    FAIL = "fail"
    RELEASE = "release"
    #: Its lease, its time or its grace has expired.
    TIME = "time"


class SeriesIssue(NamedTuple):
    """An issue of a series, by the item of its assignment on the lane of the series."""

    item: ItemId
    #: The issue's number; null if the assignment names none.
    number: int | None = None

    @property
    def name(self) -> str:
        return f"item {self.item}" if self.number is None else f"#{self.number}"


class Series(Record):
    """The active issue of a series, and the line behind it."""

    active: SeriesIssue | None = None
    #: The line behind it, the first of it in order.
    line: tuple[SeriesIssue, ...] = ()
    #: Why the active issue is unknown, such as "cannot be read". Only git can lose lanes.
    lost: str = ""


class Facts(Record):
    """A snapshot of an item and its surroundings."""

    now_us: int
    #: What the rules read when the item, or the owner of its lane, ends.
    snapshot: Snapshot
    timing: Timing = Timing()
    #: How many items are ahead of it, up to `AHEAD_MAX`.
    ahead: int = 0
    #: Agents that are named or limited in any way, with their runs; null if the store keeps none.
    agents: Mapping[str, Agent] | None = MappingProxyType({})
    #: The signs of life of the item's agent and of the agent of its lane's owner.
    presence: Mapping[str, AgentPresence] = MappingProxyType({})
    paused_projects: Mapping[str, str] = MappingProxyType({})
    #: All budgets, the reserves of types, and the time zone of days.
    budgets: tuple[BudgetState, ...] = ()
    reserves: Mapping[str, int] = MappingProxyType({})
    time_zone: tzinfo = UTC
    #: The blocks of the items here and of their lane.
    blocks: tuple[Block, ...] = ()
    #: The series of its lane's gate, if that is shut. The gate itself is in the snapshot.
    series: Series = Series()
    plans: Mapping[PlanId, Plan] = MappingProxyType({})
    #: The edges to it that are not satisfied, broken ones first.
    needs: tuple[Need, ...] = ()
    #: For an edit, or an item that waits for one: number and time of the plan's last unanswered end.
    last_ends: Mapping[PlanId, tuple[tuple[int, int], ...]] = MappingProxyType({})


class Hindrance(Record):
    """Why an item is not started now."""

    #: A clause: "project acme is paused (release day)".
    what: str
    #: When it ends: "project acme is resumed". Empty if `then` says it.
    until: str = ""
    #: What happens next, also a clause: "the next sweep cancels its tasks".
    then: str = ""
    cures: tuple[Cure, ...] = ()
    #: Its short form in a list of agents: "paused".
    short: str = ""


class EligibleAgents(Record):
    """Which agents' plain claims would take an item if it were first in the queue."""

    #: The only agent, if the item names one.
    agent: str
    #: Whether agents without limits may start it, known or not.
    anyone: bool
    #: Agents with limits: which may start it, and which may not and why.
    able: tuple[str, ...] = ()
    barred: Mapping[str, tuple[Hindrance, ...]] = MappingProxyType({})

    def takes(self, agent: str) -> bool:
        """Whether this agent may start it."""
        if self.agent not in (NO_AGENT, agent) or agent in self.barred:
            return False
        return self.anyone or agent in self.able

    @property
    def none(self) -> bool:
        """No known agent may start it."""
        return not (self.anyone or self.able)


class PredictedState(Record):
    """The state of an item and its lane after an end."""

    #: The item afterwards.
    item: Item
    #: The next owner of its lane; null if there is none.
    holder: Item | None = None
    #: The follow-up made of its unread messages.
    follow_up: Item | None = None

    @property
    def by_follow_up(self) -> bool:
        """Whether the follow-up of its unread messages holds the lane afterwards."""
        return self.follow_up is not None and self.follow_up == self.holder


class Prediction(Record):
    """What can happen to an item next, if nothing else happens before."""

    item: Item
    facts: Facts
    #: Why no agent may start it.
    closed: tuple[Hindrance, ...] = ()
    #: Who may start it, if it is ready or may overtake the owner of its lane.
    eligible: EligibleAgents | None = None
    #: For an unstarted owner: from when it can be overtaken, unless its agent shows a sign of life before. 0
    #: while the owner cannot start; null if it can never be overtaken.
    overtaken_us: int | None = None
    #: When time alone moves it. A sweep, a claim or an arrival on its lane does so then.
    at_us: int | None = None
    #: Its state after each way its run can end. `TIME` also applies to an item without a run.
    after_end: Mapping[EndKind, PredictedState] = MappingProxyType({})
    #: Its state after a retry, if it failed, was cancelled or waits after a run; null if the retry is
    #: refused.
    again: PredictedState | None = None
    #: Its state after a message, by sender, if it waits for a time or a person. For a running item: its state
    #: after an unread message and the end of the run.
    after_message: Mapping[SenderKind, PredictedState] = MappingProxyType({})
    #: For a deferred item: the owner of its lane. With `eligible`, a claim may take the lane once the owner
    #: can be overtaken, if it may start no item further ahead in the line.
    owner: Prediction | None = None

    @property
    def overdue(self) -> bool:
        """Its time has expired: the next sweep or claim moves it before it starts anything."""
        return self.at_us is not None and self.at_us <= self.facts.now_us

    @property
    def can_be_overtaken(self) -> bool:
        """Whether a claim may take the lane from this owner now."""
        return self.overtaken_us is not None and self.overtaken_us <= self.facts.now_us

    def gives_way_to(self, agent: str) -> bool:
        """Whether this owner, if it can be overtaken, gives way to a claim of an agent.

        The claiming agent is alive by then, so an owner for that agent gives way only if it cannot start."""
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
        return not self.closed and self.eligible is not None and self.eligible.takes(agent)


def predict(item: Item, facts: Facts) -> Prediction:
    """Everything that can be said about an item's next step."""
    at_us = _time_of(item, facts)
    made = Prediction(
        item=item,
        facts=facts,
        closed=tuple(_closed(item, facts)),
        at_us=at_us,
        after_end=_predicted_states(item, at_us, facts),
        again=_again(item, facts),
        after_message=_after_message(item, facts),
    )
    if item.state.ready:
        overtaken_us = _overtaken_us(item, facts, made.closed) if item.spec.lane is not None else None
        return replace(
            made, eligible=_eligible_agents(item, facts, with_room_left), overtaken_us=overtaken_us
        )
    lane = item.spec.lane
    found = _owner(lane, facts) if item.status is ItemStatus.DEFERRED and lane is not None else None
    if found is None:
        return made
    owner = predict(found, facts)
    overtakes = owner.overtaken_us is not None and may_overtake(item, found)
    return replace(
        made, owner=owner, eligible=_eligible_agents(item, facts, with_any_room) if overtakes else None
    )


# -- why it may not be started: a new reason is one `if` here -------------------------------------


def _closed(item: Item, facts: Facts) -> Iterator[Hindrance]:
    """What keeps every agent from starting an item."""
    project = item.spec.project
    if (why := facts.paused_projects.get(project)) is not None:
        resume = cure("pause_project", "resumes the project", project=project, paused=False, why="")
        yield Hindrance(
            what=f"project {project} is paused ({why})",
            until=f"project {project} is resumed",
            cures=(resume,),
        )
    yield from _unaffordable(item, facts, Spender.PROJECT, project)
    for block in facts.blocks:
        if block.holds(item):
            what = f"lane {block.lane}" if block.lane else f"item {item.id}"
            seen = f", see {block.url}" if block.url else ""
            target = {"lane": block.lane} if block.lane else {"item": item.id}
            unblock = cure("unblock", "removes the block", blocker=block.blocker, **target)
            yield Hindrance(
                what=f"{what} is blocked by {block.blocker} ({block.why}{seen})",
                until=f"{what} is unblocked",
                cures=(unblock,),
            )
    gate = facts.snapshot.gates.get(item.spec.lane) if item.spec.lane is not None else None
    if gate is not None and gate.shuts(item.spec.type):
        yield _not_active(item, gate, facts.series)
    plan = facts.plans.get(item.spec.plan) if item.spec.plan is not None else None
    if plan is None:
        return
    if plan.status is not PlanStatus.RUNNING:
        yield Hindrance(what=f"plan {plan.id} is {plan.status}", then="the next sweep cancels its tasks")
    if plan.paused_why is not None:
        yield Hindrance(
            what=f"plan {plan.id} is paused ({plan.paused_why})",
            until=f"plan {plan.id} is resumed",
            cures=(cure("resume_plan", "resumes the plan", plan=plan.id),),
        )
    if plan.cycle_us is not None:
        asked = f"plan {plan.id} waits for an edit of {plan.editor} (item {plan.edit_item})"
        deadline = f"at the deadline, {until(plan.deadline_us, facts.now_us)}"
        if plan.deadline_us is not None and plan.deadline_us <= facts.now_us:
            deadline = f"{NEXT_LOOK}, as the deadline has passed"
        close = cure(
            "cancel", "cancels the edit, so that the cycle closes without one", item=plan.edit_item, why=None
        )
        yield Hindrance(
            what=asked, then=f"the plan continues when every end is answered, or {deadline}", cures=(close,)
        )


def _not_active(item: Item, gate: Gate, series: Series) -> Hindrance:
    """Another issue of the series is active."""
    lane, name = item.spec.lane or "", f"series {gate.series.rpartition('/')[2]}"
    number = issue_number(lane)
    mine, issue = (f"lane {lane}", f"lane {lane}") if number is None else (f"#{number}", f"issue #{number}")
    if series.lost:
        return Hindrance(
            what=f"the lane of {name} {series.lost}, so the active issue is unknown",
            then="the next reconcile rebuilds it from the open issues",
        )
    active = series.active
    if active is not None and active.number is not None and active.number == number:
        what = f"{issue} is the active issue of {name}, but its lane is not open yet"
        return Hindrance(what=what, then="the next reconcile opens it")
    places = [m.number for m in series.line]
    place = places.index(number) + 1 if number is not None and number in places else None
    where = f"{mine} is not in its line" if place is None else f"{mine} has place {place} in its line"
    first = "none" if active is None else active.name
    what = f"{issue} is not the active one of {name} ({first} is; {where})"
    if active is None:
        return Hindrance(what=what, then="the next reconcile chooses one")
    if place is None:
        return Hindrance(what=what, until=f"{mine} has joined the line and is next")
    others = "one" if place == 2 else f"{place - 1}"
    more = f" and the {others} between them have" if place > 1 else " has"
    return Hindrance(what=what, until=f"{first}{more} left the series")


def _barred(item: Item, agent: Agent, now_us: int) -> Iterator[Hindrance]:
    """What keeps one agent from starting an item that others may start."""
    name, running, most = agent.key, agent.running, agent.max_concurrency
    one_ends = f"one of {name}'s runs ends"
    if agent.paused_why is not None:
        resume = cure("pause_agent", f"resumes {name}", name=name, paused=False, why="")
        yield Hindrance(
            what=f"{name} is paused ({agent.paused_why})",
            until=f"{name} is resumed",
            cures=(resume,),
            short="paused",
        )
    if agent.wall_us is not None:
        resume = cure("pause_agent", f"lets {name} start again now", name=name, paused=False, why="")
        yield Hindrance(
            what=f"{name} has hit a quota limit{f' ({agent.wall_why})' if agent.wall_why else ''}",
            until=f"{name}'s quota limit ends {until(agent.wall_us, now_us)}",
            cures=(resume,),
            short="quota limit",
        )
    if agent.types and item.spec.type not in agent.types:
        only = f"takes only {joined(agent.types)}"
        types = [*agent.types, item.spec.type]
        yield Hindrance(
            what=f"{name} {only} and no {item.spec.type}",
            until=f"{name} takes {item.spec.type}",
            cures=(cure("set_agent", f"lets {name} take {item.spec.type} as well", name=name, types=types),),
            short=only,
        )
    missing = tuple(label for label in item.spec.labels if label not in agent.labels)
    if missing and not item.is_hold:
        yield Hindrance(
            what=f"{name} has no label {joined(missing)}",
            until=f"{name} has the label {joined(missing)}",
            cures=(_labels(name, (*agent.labels, *missing), missing),),
            short=LACKS_LABEL,
        )
    full = f"{running} of {most} runs"
    if not has_room(agent, running - agent.editing, agent.editing):
        yield Hindrance(what=f"{name} has {full}", until=one_ends, short=full)
    elif item.spec.type == EDIT_TYPE and agent.editing:
        full = f"{running} runs, one of them an edit"
        yield Hindrance(what=f"{name} has {full}", until=one_ends, short=full)
    pool_room = _pool_room(agent)
    if pool_room is not None and pool_room <= 0:
        yield Hindrance(
            what=f"pool {agent.pool} of {name} has {agent.pool_running} of {agent.pool_max} runs",
            until=f"a run of pool {agent.pool} ends",
            short="full pool",
        )


def _unaffordable(item: Item, facts: Facts, scope: str, name: str) -> Iterator[Hindrance]:
    """The budgets of one that leave no room for an item."""
    for state in facts.budgets:
        budget = state.budget
        if (budget.scope, budget.name) != (scope, name):
            continue
        if allowance_of((state,), facts.reserves).affords(item.spec.project, item.spec.type):
            continue
        at_us = ends_us(budget.per, facts.now_us, facts.time_zone)
        raised = cure(
            "set_budget",
            "raises the budget",
            scope=budget.scope,
            name=budget.name,
            per=budget.per,
            usd=None,
            when_spent=budget.when_spent,
        )
        yield Hindrance(
            what=told(state, facts.reserves.get(item.spec.type, 0)),
            until=f"the next {budget.per} begins {until(at_us, facts.now_us)} or the budget is raised",
            cures=(raised,),
            short="no budget",
        )


#: For a rule without a sentence of its own.
_OTHERWISE = Hindrance(
    what="its agent may not start it now", then="a later claim may start it", short="not now"
)


# -- who may start it -----------------------------------------------------------------------------

Allowed = Callable[[Claim, Agent], Claim | None]


def with_room_left(claim: Claim, agent: Agent) -> Claim | None:
    """What a claim of this agent may start of what is ready."""
    allowed = narrowed(claim, agent)
    if allowed is None:
        return None
    return with_room(allowed, agent, agent.running - agent.editing, agent.editing, _pool_room(agent))


def with_any_room(claim: Claim, agent: Agent) -> Claim | None:
    """What a claim of this agent may start in place of an owner that cannot."""
    return narrowed(claim, agent) if _has_room(agent) else None


def _has_room(agent: Agent) -> bool:
    return has_room(agent, agent.running - agent.editing, agent.editing, _pool_room(agent))


def _pool_room(agent: Agent) -> int | None:
    return None if agent.pool_max is None else agent.pool_max - agent.pool_running


def _claim(item: Item, agent: str) -> Claim:
    """The claim that this item waits for: a plain one, or that of a hold."""
    return Claim(agent=agent, types=(HOLD,), labels=(HOLD,)) if item.is_hold else Claim(agent=agent)


def _eligible_agents(item: Item, facts: Facts, allowed: Allowed) -> EligibleAgents:
    spec, ready = item.spec, as_ready(item)
    known = facts.agents or {}
    if spec.agent_key:
        known = {spec.agent_key: known[spec.agent_key]} if spec.agent_key in known else {}
    able, barred = [], {}
    for key, agent in known.items():
        claim = allowed(_claim(item, key), agent)
        unpaid = [*_unaffordable(item, facts, Spender.AGENT, key)]
        unpaid += _unaffordable(item, facts, Spender.POOL, agent.pool) if agent.pool else ()
        if unpaid:
            barred[key] = (*_barred(item, agent, facts.now_us), *unpaid)
        elif claim is not None and wanted(claim, ready):
            able.append(key)
        else:
            barred[key] = tuple(_barred(item, agent, facts.now_us)) or (_OTHERWISE,)
    plain = _claim(item, spec.agent_key)
    if spec.agent_key and spec.agent_key not in known:  # an agent without a row may have a budget
        unpaid = [*_unaffordable(item, facts, Spender.AGENT, spec.agent_key)]
        barred |= {spec.agent_key: tuple(unpaid)} if unpaid else {}
    limited = spec.agent_key in known or spec.agent_key in barred
    return EligibleAgents(
        agent=spec.agent_key,
        anyone=not limited and wanted(plain, ready),
        able=tuple(able),
        barred=barred,
    )


def no_label(item: Item) -> Hindrance:
    """No agent that may start it has the labels that an item needs."""
    name, labels = item.spec.agent_key, item.spec.labels
    return Hindrance(
        what=f"{name or 'no agent'} has {'no' if name else 'the'} label {joined(labels)}",
        until=f"{name or 'an agent'} has the label {joined(labels)}",
        cures=(_labels(name or None, labels, labels),),
        short=LACKS_LABEL,
    )


def _labels(agent: str | None, labels: tuple[str, ...], missing: tuple[str, ...]) -> Cure:
    """Gives an agent the labels that it lacks and keeps the others: labels are set as a whole."""
    effect = f"gives {agent or 'an agent'} the label {joined(missing)}"
    return cure("set_agent", effect, name=agent, labels=list(labels))


def can_do(agent: Agent, item: Item) -> bool:
    """Whether an agent does the type of an item and has its labels."""
    typed = not agent.types or item.spec.type in agent.types
    return typed and (item.is_hold or set(item.spec.labels) <= set(agent.labels))


# -- what a claim sweeps before it looks ----------------------------------------------------------


def without_late_runs(agents: Mapping[str, Agent], late: Iterable[Item]) -> dict[str, Agent]:
    """The agents without their expired runs: a claim ends those before it counts."""
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


def after_expiry(late: Item, snapshot: Snapshot, now_us: int, timing: Timing) -> Mapping[ItemId, Item]:
    """What happens to an item and its lane when its time has expired."""
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
    """From when another agent's claim may take the lane from an unstarted owner: 0 while the owner cannot
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
    return gone_us(owner, facts.presence.get(key, AgentPresence()))


# -- what becomes of it ---------------------------------------------------------------------------


def _time_of(item: Item, facts: Facts) -> int | None:
    """When time alone moves an item. An edit also ends at its plan's deadline."""
    times = [item.state.due_us, item.state.claim_by_us]
    plan = _edited_plan(item, facts)
    if plan is not None and not item.terminal:
        times.append(plan.deadline_us)
    return min((t for t in times if t is not None), default=None)


def _edited_plan(item: Item, facts: Facts) -> Plan | None:
    plan_id = plan_of_lane(item.spec.lane or "") if item.spec.type == EDIT_TYPE else None
    plan = facts.plans.get(plan_id) if plan_id is not None else None
    return plan if plan is not None and plan.edit_item == item.id else None


def _predicted_states(item: Item, at_us: int | None, facts: Facts) -> dict[EndKind, PredictedState]:
    after_end = {}
    if item.state.run is not None:
        for end, outcome in _OUTCOMES.items():
            seen = item.state.message_count if end is EndKind.DONE and _reads_first(item, facts) else 0
            report = _report(item, outcome, seen)
            after_end[end] = _predicted_state(item, _decided(item, [report], facts.now_us, facts), facts)
    if at_us is not None:
        then_us = max(at_us, facts.now_us)
        if _no_agent_may(item, facts):
            facts = replace(facts, snapshot=replace(facts.snapshot, held_back=frozenset({item.id})))
        after_end[EndKind.TIME] = _predicted_state(
            item, _decided(item, [Expire(item=item.id)], then_us, facts), facts
        )
    return after_end


def _no_agent_may(item: Item, facts: Facts) -> bool:
    """Whether a pause, a block or its plan keeps every agent from claiming an item: its time starts again."""
    agent = (facts.agents or {}).get(item.spec.agent_key)
    return any(_closed(item, facts)) or (agent is not None and agent.paused_why is not None)


def _reads_first(item: Item, facts: Facts) -> bool:
    """Whether a hold runs its command again for its messages before it ends: if a person wrote any, and it
    has no cancel request."""
    state = item.state
    if not item.is_hold or state.cancel_into is not None:
        return False
    mark = max(state.seen, state.delivered)
    unread = facts.snapshot.unread.get(item.id, ())
    return any(m.n > mark and m.sender == SenderKind.PERSON for m in unread)


def _report(item: Item, outcome: Outcome, seen: int = 0) -> Finish:
    assert item.state.run is not None
    return Finish(item.state.run, item.id, outcome, seen=seen, bits=item.state.run_bits)


_OUTCOMES = {EndKind.DONE: Outcome.DONE, EndKind.FAIL: Outcome.FAIL, EndKind.RELEASE: Outcome.RELEASE}


def _again(item: Item, facts: Facts) -> PredictedState | None:
    if not (item.parked or item.status in (ItemStatus.FAILED, ItemStatus.CANCELLED)):
        return None
    made = _decided(item, [Retry(item=item.id)], facts.now_us, facts)
    return _predicted_state(item, made, facts) if made.answers[0].changed else None


def _after_message(item: Item, facts: Facts) -> dict[SenderKind, PredictedState]:
    if not (item.parked or item.over_wake_limit or item.state.run is not None):
        return {}
    end = [] if item.state.run is None else [_report(item, Outcome.DONE)]
    tells = {kind: SendMessage(item=item.id, ticket=NEWEST, text="", sender=who) for kind, who in _SENDERS}
    return {
        kind: _predicted_state(item, _decided(item, [tell, *end], facts.now_us, facts), facts)
        for kind, tell in tells.items()
    }


#: No agent has this name, so it is never the item's own one.
_ANOTHER_AGENT = "another agent"
_SENDERS = tuple(
    (kind, Sender(kind, _ANOTHER_AGENT if kind is SenderKind.AGENT else NO_AGENT)) for kind in SenderKind
)


def _predicted_state(item: Item, made: LedgerChanges, facts: Facts) -> PredictedState:
    """The state of the item after a decision."""
    lane = item.spec.lock_lane
    after = Ledger(Snapshot(items=made.after), facts.now_us, facts.timing)
    holder = after.owner(lane) if lane is not None else None
    follow_up = next((i for i in made.born if i.follow_up), None)
    return PredictedState(item=after.items[item.id], holder=holder, follow_up=follow_up)


def _decided(item: Item, commands: list[Command], now_us: int, facts: Facts) -> LedgerChanges:
    """What the rules decide about commands, without storing it."""
    part, snapshot = _part(item, facts), facts.snapshot
    if part is not None:
        snapshot = replace(snapshot, plans={part.plan.id: part})
    ends = sum(i.state.run is not None for i in snapshot.items.values())
    spare = tuple(ItemId(NEWEST + n) for n in range(ends + len(snapshot.plans)))
    return decide(snapshot, commands, now_us, facts.timing, spare)


def _part(item: Item, facts: Facts) -> PlanPart | None:
    """What the rules see of the item's plan: that its editor is asked, and the item's own edges.

    Consequences for other tasks happen on other lanes.
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


def joined(names: tuple[str, ...]) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - _NAMED_AT_MOST} more" if len(names) > _NAMED_AT_MOST else ""
    return ", ".join(names[:_NAMED_AT_MOST]) + more
