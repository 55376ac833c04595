"""Why an item is where it is, and what will move it: a prediction in words.

Nothing is decided here: every statement about the future comes from the prediction, and holds if nothing else
happens before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from interlock.core.cures import FROM_PERSON, Cure, cure
from interlock.core.model import AHEAD_MAX, NO_AGENT, US_PER_S, Item, PlanId, Reason, RetryLane, SenderKind
from interlock.core.overtaking import gone_us, last_sign_us, may_overtake
from interlock.core.plans.model import EDIT_TYPE, Edge, EdgeState, Need, Plan, PlanStatus, plan_of_lane
from interlock.core.prediction import (
    LACKS_LABEL,
    NEXT_LOOK,
    EligibleAgents,
    EndKind,
    Hindrance,
    PredictedState,
    Prediction,
    joined,
    no_label,
)
from interlock.core.record import Record, replace
from interlock.core.states import ItemStatus
from interlock.core.timing import RELEASES_BEFORE_BACK_OFF, ago, span, until


class Explanation(Record):
    """A prediction in clauses, without full stops, and what to do about it."""

    item: Item
    #: What it waits for.
    state: str
    #: What moves it next.
    next: str
    #: Why no agent can start it although it is ready; null if one can, and for other items.
    hindered: str | None = None
    #: What becomes of its lane; null unless it holds one.
    lane: str | None = None
    #: The most helpful one first.
    cures: tuple[Cure, ...] = ()

    @property
    def sentence(self) -> str:
        if self.state.endswith("?"):  # a question ends its own sentence
            return f"Item {self.item.id} {self.state} {self.next[:1].upper()}{self.next[1:]}."
        join = " and" if self.next.startswith(_STAYS) else ";"
        return f"Item {self.item.id} {self.state}{join} {self.next}."


#: Begins the clause about what happens next to an ended item.
_STAYS = "stays "


def explain(prediction: Prediction, *, said: str | None = None) -> Explanation:
    """What an item waits for, and what will move it. `said` is the question of its last run, or the quota
    limit that the run hit."""
    item = prediction.item
    state, onward = _asking(prediction, said) if item.asking else _clauses(prediction, said)
    hindered = bool(_hindrances(prediction))
    holds = item.active and item.spec.lane is not None
    return Explanation(
        item=item,
        state=state,
        next=onward,
        hindered=f"{_hindrances_in_words(prediction)}; {_start_condition(prediction)}" if hindered else None,
        lane=_lane_of_owner(prediction, _lane_afterwards(prediction)) if holds else None,
        cures=tuple(dict.fromkeys(_cures(prediction))),
    )


def _clauses(prediction: Prediction, said: str | None) -> tuple[str, str]:
    item, now_us = prediction.item, prediction.facts.now_us
    state = item.state
    match item.status:
        case ItemStatus.PENDING:
            return _pending(prediction, said)
        case ItemStatus.IN_PROGRESS:
            asked = f" and was asked to stop ({state.cancel_why})" if state.cancel_into else ""
            lasted = span(round(max(0, now_us - (state.run_started_us or now_us)) / US_PER_S))
            run = f"{'external ' if item.external else ''}run {state.run} of {state.run_agent}"
            at_work = f"has been running for {lasted} ({run}){asked}"
            if prediction.at_us is None:
                limit = _at_wake_limit(prediction)
                return at_work, f"it ends when its end is reported, without a deadline{limit}"
            then = _after_run(item, prediction.after_end[EndKind.TIME])
            before = ", unless renewed before," if _first_deadline(prediction)[1] else ""
            when = f"{NEXT_LOOK}{before}" if prediction.overdue else "then"
            then += _overtaken_after_run(prediction, prediction.after_end[EndKind.TIME])
            return at_work, f"its {_end_of_run(prediction)}, and {when} {then}{_at_wake_limit(prediction)}"
        case ItemStatus.DEFERRED:
            return _deferred(prediction)
        case ItemStatus.WAITING:
            return _waiting(prediction, said)
        case ItemStatus.COMPLETED:
            return f"was completed {ago(state.ended_us, now_us)}", "that is final"
        case ItemStatus.FAILED:
            tried = f"after {_attempts(item)} ({state.reason})"
            return f"failed {ago(state.ended_us, now_us)} {tried}", _way_back(prediction)
        case ItemStatus.CANCELLED:
            cause = state.cancel_why or state.reason
            return f"was cancelled {ago(state.ended_us, now_us)} ({cause})", _way_back(prediction)
        case ItemStatus.SUPERSEDED:
            newer = state.absorbed_by
            return f"was superseded by the newer item {newer}", f"item {newer} got its messages"
        case ItemStatus.COALESCED:
            into = f"item {state.absorbed_by}{' of the same agent' if item.spec.agent_key else ''}"
            return f"was coalesced into {into}", f"item {state.absorbed_by} got its message"
        case other:
            assert_never(other)


def _when(prediction: Prediction) -> str:
    """When time alone moves an item."""
    return NEXT_LOOK if prediction.overdue else until(prediction.at_us, prediction.facts.now_us)


# -- asking ---------------------------------------------------------------------------------------


def _asking(prediction: Prediction, question: str | None) -> tuple[str, str]:
    item = prediction.item
    said = f": {question}" if question else ""
    if item.asking_live:
        who = f"run {item.state.run} of {item.state.run_agent}"
        return f"waits for a person's answer ({who}){said}", _live_question(prediction)
    onward = "it is retried when a person answers"
    if item.active:
        onward += f"; without an answer it gives up its lane {_when(prediction)} and keeps asking"
    return f"waits for a person's answer{said}", onward


def _live_question(prediction: Prediction) -> str:
    """What becomes of a live run that asks: when it is answered, and when nobody answers."""
    item, onward = prediction.item, "the run goes on when a person answers"
    if prediction.at_us is None:
        return onward
    after = prediction.after_end[EndKind.TIME]
    then = _after_run(item, after)
    if after.item.asking:
        return f"{onward}; without an answer {then} {_when(prediction)}"
    return (
        f"{onward}; its {_end_of_run(prediction)}, and {NEXT_LOOK if prediction.overdue else 'then'} {then}"
    )


# -- pending --------------------------------------------------------------------------------------


def _pending(prediction: Prediction, said: str | None) -> tuple[str, str]:
    item, facts = prediction.item, prediction.facts
    if item.state.due_us is not None:
        return f"{_why_later(item, said)} and keeps its lane", _comes_back(prediction)
    if prediction.overdue and prediction.after_end[EndKind.TIME].item.terminal:
        then = _after_run(item, prediction.after_end[EndKind.TIME])
        return "was not claimed in time", f"{NEXT_LOOK} {then}"
    ends = ""
    if EndKind.TIME in prediction.after_end and prediction.after_end[EndKind.TIME].item.terminal:
        ends = f"; it ends {until(prediction.at_us, facts.now_us)} unless claimed"
    if _hindrances(prediction):
        shut = item.state.gated and not any(block.holds(item) for block in facts.blocks)
        waits = "waits:" if shut else "is ready, but"
        return f"{waits} {_hindrances_in_words(prediction)}", _start_condition(prediction) + ends
    eligible = prediction.eligible
    assert eligible is not None
    name = eligible.agent
    if item.is_hold and name:
        if item.follow_up:
            return "has messages that a hold did not read", f"the next hold on its lane takes it{ends}"
        return f"is the turn of a hold of {name}", f"that hold takes it{ends}"
    # An agent's own items are in its queue too, but only those of the agent that an item names are counted.
    among = " for anyone" if name == NO_AGENT else ""
    ahead = f", with up to {_counted(facts.ahead)}{among} ahead of it"
    queue = ahead if facts.ahead else f" and first in the queue{among}"
    if name == NO_AGENT:
        return f"is ready{queue}", f"{_claimers(item, eligible)} may claim it{ends}"
    known = facts.agents is None or name in facts.agents
    state = f"is ready for {name}" + (queue if known else ", which has never asked for work")
    absent = _absent(prediction, name)
    ends = absent + ends + _overtaken_when(prediction, told=bool(absent))
    if facts.ahead:
        return state, f"a claim of {name} takes it in its turn{ends}"
    return state, f"{name}'s {'next' if known else 'first'} claim takes it{ends}"


def _absent(prediction: Prediction, name: str) -> str:
    """That an agent has no live worker and makes no claims, and since when."""
    item, facts = prediction.item, prediction.facts
    agent = facts.presence.get(name)
    since_us = None if agent is None else last_sign_us(item, agent, facts.now_us)
    if since_us is None:
        return ""
    if since_us == 0:
        return f", but {name} has never asked for work and no worker of it is alive"
    return f", but no worker of {name} is alive: its last sign of life was {ago(since_us, facts.now_us)}"


def _overtaken_when(owner: Prediction, *, told: bool) -> str:
    """When items behind an owner may overtake it, if its agent does not claim it."""
    lane = owner.item.spec.lane
    if lane is None or not owner.overtaken_us or not _has_line(owner):
        return ""
    if told and owner.can_be_overtaken:
        return f"; another agent's claim may overtake it on {lane}"
    return f"; {_absence(owner)} another agent's claim may overtake it on {lane}"


def _claimers(item: Item, eligible: EligibleAgents) -> str:
    """Who may claim an item for anyone."""
    if not eligible.anyone:
        return f"only an agent with label {joined(item.spec.labels)} ({joined(eligible.able)})"
    if not eligible.barred:
        return "any agent"
    but = tuple(f"{key} ({' and '.join(h.short for h in why)})" for key, why in eligible.barred.items())
    return f"any agent but {joined(but)}"


def _hindrances(prediction: Prediction) -> Sequence[Hindrance]:
    """Why no agent can start a ready item."""
    if not prediction.item.state.ready or prediction.eligible is None:
        return ()
    return (*prediction.closed, *(h for agent in _barred(prediction) for h in agent))


def _barred(prediction: Prediction) -> Sequence[Sequence[Hindrance]]:
    """What keeps each agent that might start an item from it; nothing if one may."""
    item, eligible = prediction.item, prediction.eligible
    if eligible is None or not eligible.none:
        return ()
    if eligible.agent:
        return (eligible.barred.get(eligible.agent, (no_label(item),)),)
    having = [why for why in eligible.barred.values() if not any(h.short == LACKS_LABEL for h in why)]
    return having or [(no_label(item),)]


def _hindrances_in_words(prediction: Prediction) -> str:
    return " and ".join(dict.fromkeys(h.what for h in _hindrances(prediction)))


def _start_condition(prediction: Prediction) -> str:
    """When a hindered item can start: once nothing holds it back and one of the agents may claim it."""
    agents = [" and ".join(h.until for h in agent if h.until) for agent in _barred(prediction)]
    untils = [h.until for h in prediction.closed if h.until]
    if any(agents):
        untils.append(" or ".join(dict.fromkeys(filter(None, agents))))
    starts = [f"it can start when {' and '.join(untils)}"] if untils else []
    return "; ".join(dict.fromkeys((*starts, *(h.then for h in _hindrances(prediction) if h.then))))


# -- in progress ----------------------------------------------------------------------------------


def _end_of_run(prediction: Prediction) -> str:
    """What ends the item's run, and when: only a lease can be renewed."""
    now_us = prediction.facts.now_us
    what, renewable = _first_deadline(prediction)
    if prediction.overdue:
        return f"{what} has expired"
    ends = "is up" if what == "time" else "ends"
    return f"{what} {ends} {until(prediction.at_us, now_us)}{' unless renewed' if renewable else ''}"


def _first_deadline(prediction: Prediction) -> tuple[str, bool]:
    """Which deadline of a run comes first, and whether a renewal moves it."""
    state, at_us = prediction.item.state, prediction.at_us
    if at_us != state.due_us:
        return "edit cycle", False
    if state.revoke_us is not None and state.revoke_us == at_us:
        return "grace", False
    return ("lease", True) if at_us == state.lease_until_us else ("time", False)


def _after_run(item: Item, fate: PredictedState) -> str:
    """What happens to the item and its lane when the run's time expires."""
    after = fate.item
    lane = item.spec.lane
    if after.asking:
        return (
            f"the run ends{'' if lane is None else ', its item keeps its lane'} and the question stays open"
        )
    if after.status is ItemStatus.PENDING:
        kept = " and keeps its lane" if lane is not None else ""
        return f"it is retried (attempt {after.state.attempt + 1} of {item.spec.max_attempts}){kept}"
    if after.status is ItemStatus.FAILED:
        then = f"it fails, as attempt {after.state.attempt} is its last"
    else:
        then = f"it is ended as {after.status}"
    if lane is None or item.spec.type == EDIT_TYPE:
        return then
    return f"{then}, and {_next_holder(fate)}"


def _overtaken_after_run(prediction: Prediction, fate: PredictedState) -> str:
    """When items behind a run that is lost may overtake its item, if its agent does not claim again."""
    after, facts = fate.item, prediction.facts
    key, lane = after.spec.agent_key, after.spec.lane
    agent = facts.presence.get(key)
    behind = any(may_overtake(other, after) for other in facts.snapshot.items.values())
    if agent is None or not behind:
        return ""
    gone = gone_us(after, replace(agent, running=False))
    if gone is None:
        return ""
    later = "" if gone <= (prediction.at_us or 0) else f" {until(gone, facts.now_us)}"
    return f"; unless {key} makes a claim before, another agent's claim may overtake it on {lane}{later}"


def _next_holder(fate: PredictedState) -> str:
    if fate.holder is None:
        return "its lane is free"
    return "its unread messages get the lane" if fate.by_follow_up else f"item {fate.holder.id} gets its lane"


# -- deferred -------------------------------------------------------------------------------------


def _deferred(prediction: Prediction) -> tuple[str, str]:
    item, ahead, owner = prediction.item, prediction.facts.ahead, prediction.owner
    lane = f"lane {item.spec.lane}"
    if owner is None:
        return f"waits on {lane}, which has no owner", "the next sweep promotes the first in line"
    if (late := _unclaimed(prediction)) is not None:
        return late
    place = "next in line" if ahead == 0 else f"behind {_counted(ahead)} more in line"
    moves = "it moves up" if ahead == 0 else "the line moves up"
    onward = _lane_of_owner(owner, moves)
    held = owner.item
    if held.state.run is not None:
        stop = ", which was asked to stop" if held.state.cancel_into else ""
        run = f"{'external ' if held.external else ''}run {held.state.run}"
        who = f"held by {run} of {held.state.run_agent} (item {held.id}){stop}"
        ends = f"whose {_end_of_run(owner)}" if owner.at_us is not None else "which no deadline ends"
        return f"is {place} on {lane}, {who}, {ends}", onward
    waits = f"is {place} on {lane} behind item {held.id}, which {_unstarted(owner)}"
    return waits, onward + _overtaking(prediction)


def _unclaimed(prediction: Prediction) -> tuple[str, str] | None:
    """An item behind an owner that no agent claimed in time. The next sweep or claim ends that owner."""
    item, owner = prediction.item, prediction.owner
    fate = owner.after_end.get(EndKind.TIME) if owner is not None and owner.overdue else None
    if owner is None or fate is None or owner.item.state.run is not None or not fate.item.terminal:
        return None
    waits = f"is in line on lane {item.spec.lane} behind item {owner.item.id}, which was not claimed in time"
    heir = fate.holder
    gets = "it gets the lane" if heir is not None and heir.id == item.id else "the line moves up"
    return waits, f"{NEXT_LOOK} item {owner.item.id} is ended and {gets}"


def _unstarted(owner: Prediction) -> str:
    if owner.item.state.due_us is not None:
        return _why_later(owner.item)
    if _hindrances(owner):
        return f"cannot start, as {_hindrances_in_words(owner)}"
    return f"waits for {owner.item.spec.agent_key or 'any agent'} to start it"


def _overtaking(prediction: Prediction) -> str:
    owner, eligible = prediction.owner, prediction.eligible
    if owner is None or eligible is None or eligible.none or prediction.closed:
        return ""
    if eligible.agent and not owner.gives_way_to(eligible.agent):
        return ""  # an agent that could overtake it starts the owner instead
    who = eligible.agent or "another agent"
    first = " that can start none before it" if prediction.facts.ahead else ""
    if owner.overtaken_us == 0:
        return f"; while item {owner.item.id} cannot start, a claim of {who}{first} may overtake it"
    return f"; {_absence(owner)} a claim of {who}{first} may overtake it"


def _absence(owner: Prediction) -> str:
    """Since when the agent of an owner counts as gone, or from when it will."""
    agent, now_us = owner.item.spec.agent_key, owner.facts.now_us
    if owner.can_be_overtaken:
        return f"as {agent} has made no claim lately and no worker of it is alive,"
    return f"unless {agent} makes a claim before, {until(owner.overtaken_us, now_us)}"


def _lane_of_owner(owner: Prediction, moves: str) -> str:
    """When the line behind an owner moves, and when the owner stays."""
    item, after_end = owner.item, owner.after_end
    beside = _other_holders(owner)
    if item.state.run is None:
        aside = "" if item.spec.retry_lane is RetryLane.KEEP else " or backs off"
        if item.asking:
            aside = f" or its question times out{',' if owner.overdue else ''} {_when(owner)}"
        return f"{moves} when item {item.id} has ended{aside}{beside}"
    run = f"run {item.state.run}"
    keeps = [end for end in after_end if _keeps_lane(item, after_end[end])]
    follows = [end for end in after_end if after_end[end].by_follow_up]
    frees = [end for end in after_end if end not in (*keeps, *follows)]
    lost = {"lease": "loses its lease", "time": "runs out of time"}.get(
        _first_deadline(owner)[0], "runs out of grace"
    )
    ways = {
        EndKind.DONE: "is done",
        EndKind.FAIL: "fails",
        EndKind.RELEASE: "is released",
        EndKind.TIME: lost,
    }
    unread = f"the messages that item {item.id} has not read"
    first, again = f"{unread} go first", ""
    if item.is_hold and follows and EndKind.DONE in frees:
        first, again = "those not read by then go first", f", which first runs its command again for {unread}"
    goes = [(frees, moves, again + beside), (follows, f"{first}, as an item of their own,", beside)]
    clauses = []
    for ends, then, more in sorted(goes, key=lambda clause: EndKind.DONE not in clause[0]):
        if ends:
            when = "ends" if len(ends) == len(after_end) else _listed([ways[end] for end in ends])
            clauses.append(f"{then} when {run} {when}{more}")
    if keeps:
        ways |= {EndKind.FAIL: "fails with attempts left"}
        still = _listed([ways[end] for end in keeps])
        clauses.append(f"if {run} {still}, item {item.id} is retried first")
    return "; ".join(clauses)


def _other_holders(owner: Prediction) -> str:
    """Items admitted while the lane was in observe mode keep the lane taken too."""
    lane, others = owner.item.spec.lock_lane, owner.facts.snapshot.items.values()
    ids = tuple(
        str(i.id) for i in others if i.active and i.spec.observed_lane == lane and i.id != owner.item.id
    )
    if not ids:
        return ""
    some = f"item {ids[0]}" if len(ids) == 1 else f"items {joined(ids)}"
    return f", and {some} too, admitted while the lane was in observe mode"


def _listed(ways: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(ways[:-1]), ways[-1])))


def _lane_afterwards(owner: Prediction) -> str:
    return "the lane goes to the next in line" if _has_line(owner) else "the lane is free"


def _has_line(owner: Prediction) -> bool:
    lane = owner.item.spec.lane
    return any(
        i.spec.lane == lane and i.status is ItemStatus.DEFERRED for i in owner.facts.snapshot.items.values()
    )


def _keeps_lane(item: Item, fate: PredictedState) -> bool:
    return fate.holder is not None and fate.holder.id == item.id


# -- waiting --------------------------------------------------------------------------------------


def _waiting(prediction: Prediction, said: str | None) -> tuple[str, str]:
    item, facts = prediction.item, prediction.facts
    plan = facts.plans.get(item.spec.plan) if item.spec.plan is not None else None
    if item.over_wake_limit:
        many = "it was woken too often in a row without one (loop)"
        return f"waits for a person: {many}", "a person's message starts it"
    if plan is None or item.parked:
        return _why_later(item, said), _comes_back(prediction)
    if plan.status is not PlanStatus.RUNNING:
        return f"waits in plan {plan.id}, which is {plan.status}", "the next sweep cancels it"
    if any(need.broken for need in facts.needs):
        return _lost_task(plan, facts.needs)
    if facts.needs:
        return _waiting_task(item, plan, facts.needs)
    behind = _lane_on_return(prediction.after_end[EndKind.TIME])
    return f"is ready in plan {plan.id}", f"the next sweep or claim queues it{behind}"


def _waiting_task(item: Item, plan: Plan, needs: Sequence[Need]) -> tuple[str, str]:
    """A task that may still start: when it can, and what would prevent it."""
    by_ends: dict[tuple[ItemStatus, ...], list[str]] = {}
    for need in needs:
        by_ends.setdefault(_satisfying_ends(need.edge), []).append(need.key)
    whens = [f"{joined(tuple(keys))} {_end_verbs(ends, len(keys))}" for ends, keys in by_ends.items()]
    onward = "it is ready" if item.spec.lane is None else f"it goes to lane {item.spec.lane}"
    onward += f" when {' and '.join(whens)}"
    if any(len(ends) < len(_ENDS) for ends in by_ends):
        other = needs[0].key if len(needs) == 1 else "one of them"
        saved = f", unless an edit of {plan.editor} saves it" if plan.editor is not None else ""
        onward += f"; if {other} ends otherwise, it can never start and is cancelled{saved}"
    return f"waits in plan {plan.id} for {joined(tuple(need.key for need in needs))}", onward


#: How a task can end, for one and for many.
_ENDS = {
    ItemStatus.COMPLETED: ("succeeds", "succeed"),
    ItemStatus.FAILED: ("fails", "fail"),
    ItemStatus.CANCELLED: ("is cancelled", "are cancelled"),
}


def _satisfying_ends(edge: Edge) -> tuple[ItemStatus, ...]:
    """The ends of its source that satisfy an edge."""
    from interlock.core.plans.dependents import edge_state  # noqa: PLC0415  (most items are of no plan)

    return tuple(end for end in _ENDS if edge_state(edge, end) is EdgeState.SATISFIED)


def _end_verbs(ends: tuple[ItemStatus, ...], many: int) -> str:
    if len(ends) == len(_ENDS):
        return "ends" if many == 1 else "end"
    return " or ".join(_ENDS[end][many > 1] for end in ends)


def _lost_task(plan: Plan, needs: Sequence[Need]) -> tuple[str, str]:
    """A task that can never start unless its plan is changed."""
    state = f"cannot start as plan {plan.id} is now, because {_ended(needs)}"
    if plan.cycle_us is None:
        return state, "the next sweep cancels it"
    saved = f"unless an edit of {plan.editor} (item {plan.edit_item}) saves it"
    return state, f"it is cancelled when the edit cycle closes, {saved}"


def _ended(needs: Sequence[Need]) -> str:
    """How the tasks ended whose edges are broken."""
    by_status: dict[ItemStatus, list[str]] = {}
    for need in needs:
        if need.broken:
            by_status.setdefault(need.status, []).append(need.key)
    ended = {ItemStatus.COMPLETED: "succeeded", ItemStatus.FAILED: "failed"}
    return " and ".join(
        f"{joined(tuple(keys))} {ended.get(status, 'was cancelled' if len(keys) == 1 else 'were cancelled')}"
        for status, keys in by_status.items()
    )


def _why_later(item: Item, limit: str | None = None) -> str:
    """Why the item is not due yet. `limit` is the quota limit that it hit."""
    if not item.parked:
        return "is scheduled"
    if item.asking:
        return "waits for a person's answer"
    if item.at_quota_limit:
        return f"hit a quota limit{f' ({limit})' if limit else ''}"
    if item.state.reason == Reason.SETUP_FAULT:
        return "waits after a set-up fault in its last run"
    if item.state.releases >= RELEASES_BEFORE_BACK_OFF:
        return f"is in back-off after {item.state.releases} releases in a row"
    return "is in back-off after a failed attempt"


def _comes_back(prediction: Prediction) -> str:
    then = _lane_on_return(prediction.after_end[EndKind.TIME])
    moves = "is retried" if prediction.item.parked else "is due"
    return f"it {moves} {_when(prediction)}{then}{_at_wake_limit(prediction)}"


def _at_wake_limit(prediction: Prediction) -> str:
    """What happens at one more wake-up without a person, if that exceeds the wake-up limit."""
    item, told = prediction.item, prediction.after_message
    by_others, by_person = told.get(SenderKind.SYSTEM), told.get(SenderKind.PERSON)
    if by_others is None or by_person is None:
        return ""
    if item.state.run is not None:
        over_limit = by_others.follow_up is not None and by_others.follow_up.over_wake_limit
        said = "messages that it does not read wait for a person, unless a person wrote them"
        return f"; {said} (loop)" if over_limit else ""
    only_person = by_others.item.parked and not by_person.item.parked
    return "; before that only a person's message starts it (loop)" if only_person else ""


def _lane_on_return(fate: PredictedState) -> str:
    """What happens on its lane to an item that comes back."""
    if fate.item.status is ItemStatus.DEFERRED:
        held = f", held by item {fate.holder.id}" if fate.holder is not None else ""
        return f", and then waits for its lane{held}"
    if fate.item.status is ItemStatus.SUPERSEDED:
        return f", and is then superseded by the newer item {fate.item.state.absorbed_by}"
    return ""


# -- ended ----------------------------------------------------------------------------------------


def _way_back(prediction: Prediction) -> str:
    """Whether an ended item can come back. A retry does not help an edit, a removed task or broken edges."""
    item, facts, again = prediction.item, prediction.facts, prediction.again
    if item.spec.type == EDIT_TYPE:
        plan = facts.plans.get(plan_of_lane(item.spec.lane or "") or PlanId(0))
        ended = plan is None or plan.status is not PlanStatus.RUNNING
        return "its plan has ended" if ended else "the next task that ends requests an edit again"
    if item.state.reason == Reason.REMOVED_BY_EDIT:
        return "an edit can add it to its plan again, as another item"
    if broken := [need for need in facts.needs if need.broken]:
        return _way_back_of_task(item, broken)
    if again is None and item.spec.plan is not None:
        return "that is final while its plan is being cancelled"
    if again is not None and again.item.status is ItemStatus.SUPERSEDED:
        return f"item {again.item.state.absorbed_by} is newer and supersedes it"
    return f"{_STAYS}{item.status}"


def _way_back_of_task(item: Item, broken: Sequence[Need]) -> str:
    """What brings back a task whose dependencies broke."""
    done = tuple(need.key for need in broken if need.status is ItemStatus.COMPLETED)
    if done:
        return f"{joined(done)} succeeded, which rules it out; that is final"
    retried = tuple(need.key for need in broken if not need.lost)
    others = tuple(need.key for need in broken if need.lost)
    whens = [f"{joined(retried)} {'is' if len(retried) == 1 else 'are'} retried"] if retried else []
    if others:
        whens.append(f"{joined(others)} {'comes' if len(others) == 1 else 'come'} back")
    comes = "it comes back" if item.state.reason == Reason.UNREACHABLE else "it can be retried"
    return f"{comes} when {' and '.join(whens)}"


def _attempts(item: Item) -> str:
    return f"{item.state.attempt} attempt{'' if item.state.attempt == 1 else 's'}"


def _counted(ahead: int) -> str:
    return f"{ahead}" if ahead < AHEAD_MAX else f"{AHEAD_MAX} or more"


# -- cures ----------------------------------------------------------------------------------------

#: At most this many retries of other tasks are named.
_RETRIES_NAMED = 3


def _cures(prediction: Prediction) -> Iterator[Cure]:
    """Cures for an item, the most helpful one first."""
    item, again = prediction.item, prediction.again
    if item.asking:
        yield cure("msg", "answers it", item=item.id, text=None, sender=FROM_PERSON)
    elif item.over_wake_limit:
        yield cure("msg", "starts it", item=item.id, text=None, sender=FROM_PERSON)
    elif item.status in (ItemStatus.SUPERSEDED, ItemStatus.COALESCED):
        yield cure("show", f"shows item {item.state.absorbed_by}", item=item.state.absorbed_by)
    elif item.external and prediction.at_us is None:
        yield cure("cancel", "asks it to stop", item=item.id, why=None)
    elif item.terminal:
        yield from _retry_cures(prediction)
    elif item.parked and again is not None and again.item.status is not ItemStatus.SUPERSEDED:
        yield cure("retry", "retries it now", item=item.id)
        if item.state.reason == Reason.SETUP_FAULT:
            yield cure("show", "shows the fault", item=item.id)
    elif item.state.ready and not item.is_hold and not _hindrances(prediction) and not prediction.overdue:
        yield _claim_cure(prediction)
    yield from _start_cures(prediction)
    if prediction.owner is not None:
        yield from _start_cures(prediction.owner)


def _claim_cure(prediction: Prediction) -> Cure:
    """The claim that takes a ready item: any claim of the first in the queue, else one that names it."""
    item, eligible = prediction.item, prediction.eligible
    first = not prediction.facts.ahead and eligible is not None and bool(eligible.agent or eligible.anyone)
    agent = item.spec.agent_key or None
    return cure("next", "claims it", agent=agent, **({} if first else {"item": item.id}))


def _start_cures(prediction: Prediction) -> Iterator[Cure]:
    """What lets an agent start a hindered item."""
    for hindrance in _hindrances(prediction):
        yield from hindrance.cures


def _retry_cures(prediction: Prediction) -> Iterator[Cure]:
    """What brings an ended item back: its own retry, or first the retries of the tasks it depends on."""
    item, again = prediction.item, prediction.again
    broken = [need for need in prediction.facts.needs if need.broken]
    if any(need.status is ItemStatus.COMPLETED for need in broken):
        return
    retried = [need for need in broken if not need.lost]
    for need in retried[:_RETRIES_NAMED]:
        effect = "brings it back" if len(broken) == 1 else f"brings {need.key} back, which it waits for"
        if item.state.reason != Reason.UNREACHABLE:
            effect = f"brings {need.key} back, which comes first"
        yield cure("retry", effect, item=need.edge.source)
    if broken or again is None:
        return
    effect = "gives it another attempt" if item.status is ItemStatus.FAILED else "brings it back"
    if again.item.status is ItemStatus.SUPERSEDED:
        effect = f"gives its messages to item {again.item.state.absorbed_by}"
    yield cure("retry", effect, item=item.id)
