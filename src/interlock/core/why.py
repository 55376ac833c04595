"""Why an item is in its state: one sentence, always with what will move it next."""

from __future__ import annotations

from typing import assert_never

from interlock.core.claiming import Agent
from interlock.core.model import US_PER_S, Item, Reason
from interlock.core.plans.model import EDIT_TYPE, Plan, PlanStatus
from interlock.core.record import Record
from interlock.core.states import ItemStatus

_NAMED_AT_MOST = 5
#: Type and label of what `interlock hold` adds, and only it claims.
_HOLD = "hold"
#: Items ahead of another are counted no further: the answer must not cost more the longer the queue is.
AHEAD_MAX = 1_000


class Facts(Record):
    """What was read about an item and its surroundings."""

    now_us: int
    owner: Item | None = None
    #: How many go before it, up to `AHEAD_MAX`.
    ahead: int = 0
    agent: Agent | None = None
    project_paused_why: str | None = None
    #: The plan that it is a task of, and the keys of the tasks that it waits for.
    plan: Plan | None = None
    unmet: tuple[str, ...] = ()


def why(item: Item, facts: Facts) -> str:
    """One sentence: what it waits for, and what will move it."""
    state, now_us = item.state, facts.now_us
    match item.status:
        case ItemStatus.PENDING:
            return f"Item {item.id} {_pending(item, facts)}"
        case ItemStatus.IN_PROGRESS:
            asked = f", was asked to stop ({state.cancel_why})" if state.cancel_into else ""
            lasted = span(max(0, now_us - (state.run_started_us or now_us)) / US_PER_S)
            return (
                f"Item {item.id} has been worked on by {state.run_agent} (run {state.run}) for {lasted}"
                f"{asked}; its {_end_of_run(item, now_us)}, and then it is "
                f"{'ended as ' + state.cancel_into if state.cancel_into else 'offered again'}."
            )
        case ItemStatus.DEFERRED:
            return f"Item {item.id} {_deferred(item, facts)}"
        case ItemStatus.WAITING if state.due_us is None:
            return f"Item {item.id} {_planned(facts)}"
        case ItemStatus.WAITING:
            cause = _back_off(item) if item.parked else "scheduled"
            back = _in(state.due_us, now_us)
            return (
                f"Item {item.id} is {cause} and comes back {back}, with the next sweep or claim after that."
            )
        case ItemStatus.COMPLETED:
            return f"Item {item.id} was completed {_ago(state.ended_us, now_us)}; that is final."
        case ItemStatus.FAILED:
            return (
                f"Item {item.id} failed for good {_ago(state.ended_us, now_us)} after {_attempts(item)} "
                f"({state.reason}); {_back(item, facts)}"
            )
        case ItemStatus.CANCELLED:
            cause = state.cancel_why or state.reason
            return (
                f"Item {item.id} was cancelled {_ago(state.ended_us, now_us)} ({cause}); {_back(item, facts)}"
            )
        case ItemStatus.SUPERSEDED:
            return (
                f"Item {item.id} was replaced by the newer item {state.absorbed_by}, which has its messages."
            )
        case ItemStatus.COALESCED:
            return f"Item {item.id} became a message of item {state.absorbed_by} of the same agent."
        case other:
            assert_never(other)


def _pending(item: Item, facts: Facts) -> str:
    if item.parked:
        when = _in(item.state.due_us, facts.now_us)
        return f"keeps its lane and waits out its back-off; it can be claimed {when}."
    if hindrance := hindered(item, facts):
        return f"is ready, but {hindrance}"
    queue = f"{_counted(facts.ahead)} ahead of it" if facts.ahead else "first in the queue"
    if item.state.claim_by_us is not None:
        queue += f" (it ends {_in(item.state.claim_by_us, facts.now_us)} unless claimed)"
    if not item.spec.agent_key:
        return f"is ready and {queue}; any agent's next claim takes it."
    agent, name = facts.agent, item.spec.agent_key
    if item.spec.type == _HOLD and _HOLD in item.spec.labels:
        ends = f"it ends {_in(item.state.claim_by_us, facts.now_us)} unless claimed"
        if not item.follow_up:
            return f"is the turn of an `interlock hold` of {name}, which takes it; {ends}."
        left = "has messages that a hold did not read"
        return f"{left}; the next `interlock hold` on its lane takes it; {ends}."
    if agent is None:
        return (
            f"is ready for {name}, which has never asked for work; {name}'s first `interlock next` takes it."
        )
    return f"is ready for {name} and {queue}; {name}'s next claim takes it."


def hindered(item: Item, facts: Facts) -> str | None:
    """Why no claim may take a pending item now, and what ends that; null if a claim may take it."""
    if item.status is not ItemStatus.PENDING or item.parked:
        return None
    project, agent, name = item.spec.project, facts.agent, item.spec.agent_key
    if facts.project_paused_why is not None:
        undo = f"`interlock resume project {project}`"
        return f"project {project} is paused ({facts.project_paused_why}); {undo} lets it go."
    if facts.plan is not None and (gate := _gate(facts.plan, facts.now_us)):
        return gate
    if agent is None:
        return None
    if agent.paused_why is not None:
        return f"{name} is paused ({agent.paused_why}); `interlock resume agent {name}` lets it go."
    if agent.wall_us is not None:
        cause = f" ({agent.wall_why})" if agent.wall_why else ""
        undo = f"`interlock resume agent {name}` ends that early"
        return f"{name} is behind a wall{cause}, which is over {_in(agent.wall_us, facts.now_us)}; {undo}."
    if agent.types and item.spec.type not in (*agent.types, EDIT_TYPE):
        only, undo = _named(agent.types), f"`interlock agents set {name} --type …`"
        return f"{name} takes only {only} and no {item.spec.type}; {undo} changes that."
    if agent.max_concurrency is not None and agent.running >= agent.max_concurrency:
        return f"{name} has {agent.running} of {agent.max_concurrency} runs; it starts when one ends."
    if agent.pool_max is not None and agent.pool_running >= agent.pool_max:
        full = f"{agent.pool_running} of {agent.pool_max} runs"
        return f"the agents of {name}'s pool {agent.pool} have {full}; it starts when one of them ends."
    return None


def _back(item: Item, facts: Facts) -> str:
    """What brings an ended item back. A retry cannot: an edit, a removed task, a task with broken edges."""
    if item.spec.type == EDIT_TYPE:
        return "the next task that ends asks for an edit again."
    if item.state.reason == Reason.REMOVED_BY_EDIT:
        return "an edit may add it to its plan again, as another item."
    if item.state.reason == Reason.UNREACHABLE and facts.unmet:
        return f"it waited for {_named(facts.unmet)}, whose retry brings it back."
    what = "gives it another" if item.status is ItemStatus.FAILED else "brings it back"
    return f"`interlock retry {item.id}` {what}."


def _planned(facts: Facts) -> str:
    plan = facts.plan.id if facts.plan else ""
    if not facts.unmet:
        return f"waits in plan {plan} for the editor's answer."
    end = "that task ends" if len(facts.unmet) == 1 else "those tasks end"
    return f"waits in plan {plan} for {_named(facts.unmet)}; it is ready when {end} as required."


def _named(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - _NAMED_AT_MOST} more" if len(keys) > _NAMED_AT_MOST else ""
    return ", ".join(keys[:_NAMED_AT_MOST]) + more


def _gate(plan: Plan, now_us: int) -> str:
    """Why a plan gives out no task now, and what ends that; empty if it gives out tasks."""
    if plan.status is not PlanStatus.RUNNING:
        return f"plan {plan.id} is {plan.status} and gives out no more tasks."
    if plan.paused_why is not None:
        return f"plan {plan.id} is paused ({plan.paused_why}); `interlock plan resume {plan.id}` lets it go."
    if plan.cycle_us is not None:
        return (
            f"plan {plan.id} waits for an edit of {plan.editor} (item {plan.edit_item}), "
            f"at the latest until its deadline {_in(plan.deadline_us, now_us)}."
        )
    return ""


def _deferred(item: Item, facts: Facts) -> str:
    owner = facts.owner
    place = "next in line" if facts.ahead == 0 else f"behind {_counted(facts.ahead)} more in line"
    if owner is None:
        return f"waits on lane {item.spec.lane}, which has lost its owner; the next sweep promotes it."
    if owner.state.run is not None:
        stop = ", which was asked to stop" if owner.state.cancel_into else ""
        return (
            f"is {place} on lane {item.spec.lane}, held by run {owner.state.run} of {owner.state.run_agent}"
            f" (item {owner.id}){stop}, whose {_end_of_run(owner, facts.now_us)};"
            f" it is promoted when that run ends."
        )
    who = owner.spec.agent_key or "any agent"
    stuck = ""
    if item.state.reason == Reason.OVERTAKEN:
        stuck = " (its agent cannot start; another agent's claim may overtake it)"
    return (
        f"is {place} on lane {item.spec.lane} behind item {owner.id}, which waits for {who} to start{stuck}; "
        f"it is promoted when that one ends."
    )


def _back_off(item: Item) -> str:
    """Why it is in back-off: after a failed attempt, at a wall, or after several releases."""
    if item.walled:
        return "behind a wall that its last run has met"
    if item.state.releases:
        return f"in back-off after {item.state.releases} releases in a row"
    return "in back-off after a failed attempt"


def _end_of_run(item: Item, now_us: int) -> str:
    """What ends the item's run, and when: only a lease can be renewed."""
    state, when = item.state, _in(item.expires_us, now_us)
    if state.revoke_us is not None and state.revoke_us == state.due_us:
        return f"grace ends {when}"
    if state.due_us != state.lease_until_us:
        return f"time is up {when}"
    return f"lease ends {when} unless renewed"


def _attempts(item: Item) -> str:
    return f"{item.state.attempt} attempt{'' if item.state.attempt == 1 else 's'}"


def _in(at_us: int | None, now_us: int) -> str:
    if at_us is None or at_us <= now_us:
        return "now"
    return f"in {span((at_us - now_us) / US_PER_S)}"


def _ago(at_us: int | None, now_us: int) -> str:
    if at_us is None:
        return "some time ago"
    return f"{span(max(0, now_us - at_us) / US_PER_S)} ago"


def span(seconds: float) -> str:
    """A span for people: 8 s, 3 min, 2 h, 5 d."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _counted(ahead: int) -> str:
    return f"{ahead}" if ahead < AHEAD_MAX else f"{AHEAD_MAX} or more"
