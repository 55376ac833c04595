"""Why an item is where it is, and what will move it: a prediction in words.

Nothing is decided here: what a sentence says about the future is in the prediction, and holds if nothing else
happens before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from interlock.core.model import AHEAD_MAX, NO_AGENT, US_PER_S, Item, PlanId, Reason, RetryLane, SenderKind
from interlock.core.overtaking import last_sign_us
from interlock.core.plans.model import EDIT_TYPE, Edge, EdgeState, Need, Plan, PlanStatus, plan_of_lane
from interlock.core.prediction import (
    LACKS_LABEL,
    NEXT_LOOK,
    End,
    Fate,
    Hindrance,
    Prediction,
    Takers,
    named,
    no_label,
)
from interlock.core.record import Record
from interlock.core.states import ItemStatus
from interlock.core.timing import RELEASES_BEFORE_BACK_OFF, ago, span, until


class Explanation(Record):
    """A prediction in clauses, without full stops."""

    item: Item
    #: What it waits for.
    state: str
    #: What moves it next.
    next: str
    #: Why nobody can start it although it is ready; null if somebody can, and for other items.
    hindered: str | None = None
    #: What becomes of its lane; null unless it holds one.
    lane: str | None = None

    @property
    def sentence(self) -> str:
        return f"Item {self.item.id} {self.state}; {self.next}."


def explain(prediction: Prediction, *, said: str | None = None) -> Explanation:
    """What an item waits for, and what will move it. `said` is what its last run left: its question to a
    person, or the reason of its wall."""
    item = prediction.item
    state, onward = _asking(prediction, said) if item.asking else _clauses(prediction)
    if item.walled and said:
        state += f" ({said})"
    hindrances = _hindrances(prediction)
    holds = item.active and item.spec.lane is not None
    return Explanation(
        item=item,
        state=state,
        next=onward,
        hindered=f"{_what(hindrances)}; {_cures(hindrances)}" if hindrances else None,
        lane=_lane_of_owner(prediction, _falls_to(prediction)) if holds else None,
    )


def _clauses(prediction: Prediction) -> tuple[str, str]:
    item, now_us = prediction.item, prediction.facts.now_us
    state = item.state
    match item.status:
        case ItemStatus.PENDING:
            return _pending(prediction)
        case ItemStatus.IN_PROGRESS:
            asked = f", was asked to stop ({state.cancel_why})" if state.cancel_into else ""
            lasted = span(round(max(0, now_us - (state.run_started_us or now_us)) / US_PER_S))
            run = f"{'external ' if item.external else ''}run {state.run}"
            at_work = f"has been worked on by {state.run_agent} ({run}) for {lasted}{asked}"
            if prediction.at_us is None:
                onward = f"it ends when its end is reported or seen, or by `interlock cancel {item.id}`"
                return at_work, f"no deadline ends it: {onward}{_at_bound(prediction)}"
            then = _becomes(item, prediction.fates[End.TIME])
            before = ", unless renewed before," if _last(prediction)[1] else ""
            when = f"{NEXT_LOOK}{before}" if prediction.overdue else "then"
            return at_work, f"its {_end_of_run(prediction)}, and {when} {then}{_at_bound(prediction)}"
        case ItemStatus.DEFERRED:
            return _deferred(prediction)
        case ItemStatus.WAITING:
            return _waiting(prediction)
        case ItemStatus.COMPLETED:
            return f"was completed {ago(state.ended_us, now_us)}", "that is final"
        case ItemStatus.FAILED:
            tried = f"after {_attempts(item)} ({state.reason})"
            return f"failed for good {ago(state.ended_us, now_us)} {tried}", _back(prediction)
        case ItemStatus.CANCELLED:
            cause = state.cancel_why or state.reason
            return f"was cancelled {ago(state.ended_us, now_us)} ({cause})", _back(prediction)
        case ItemStatus.SUPERSEDED:
            return f"was replaced by the newer item {state.absorbed_by}", "that one got its messages"
        case ItemStatus.COALESCED:
            into = f"item {state.absorbed_by}{' of the same agent' if item.spec.agent_key else ''}"
            told = f"`interlock show {state.absorbed_by}` tells what became of that"
            return f"became a message of {into}", told
        case other:
            assert_never(other)


def _when(prediction: Prediction) -> str:
    """When time alone moves an item."""
    return NEXT_LOOK if prediction.overdue else until(prediction.at_us, prediction.facts.now_us)


# -- asking ---------------------------------------------------------------------------------------


def _asking(prediction: Prediction, question: str | None) -> tuple[str, str]:
    item = prediction.item
    said = f": {question}" if question else ""
    onward = f"a person's `interlock msg {item.id} ANSWER` brings it back"
    if item.active:
        onward += f"; if nobody answers, it gives up its lane {_when(prediction)} and goes on asking"
    return f"waits for the answer of a person{said}", onward


# -- pending --------------------------------------------------------------------------------------


def _pending(prediction: Prediction) -> tuple[str, str]:
    item, facts = prediction.item, prediction.facts
    if item.state.due_us is not None:
        return f"keeps its lane and is {_why_later(item)}", _comes_back(prediction)
    if prediction.overdue and prediction.fates[End.TIME].item.terminal:
        then = _becomes(item, prediction.fates[End.TIME])
        return "was not claimed in time", f"{NEXT_LOOK} {then}"
    ends = ""
    if End.TIME in prediction.fates and prediction.fates[End.TIME].item.terminal:
        ends = f"; it ends {until(prediction.at_us, facts.now_us)} unless claimed"
    if hindrances := _hindrances(prediction):
        shut = item.state.gated and not any(block.holds(item) for block in facts.blocks)
        waits = "waits:" if shut else "is ready, but"
        return f"{waits} {_what(hindrances)}", _cures(hindrances) + ends
    takers = prediction.takers
    assert takers is not None
    name = takers.agent
    if item.held and name:
        if item.follow_up:
            return (
                "has messages that a hold did not read",
                f"the next `interlock hold` on its lane takes it{ends}",
            )
        return f"is the turn of an `interlock hold` of {name}", f"that hold takes it{ends}"
    # An agent's own items are in its queue too, but only those of the agent that an item names are counted.
    among = " for anyone" if name == NO_AGENT else ""
    ahead = f", with up to {_counted(facts.ahead)}{among} ahead of it"
    queue = ahead if facts.ahead else f" and first in the queue{among}"
    if name == NO_AGENT:
        return f"is ready{queue}", f"{_claimers(item, takers)} may claim it{ends}"
    known = facts.agents is None or name in facts.agents
    state = f"is ready for {name}" + (queue if known else ", which has never asked for work")
    absent = _absent(prediction, name)
    ends = absent + ends + _passed(prediction, told=bool(absent))
    if facts.ahead:
        return state, f"a claim of {name} takes it in its turn{ends}"
    return state, f"{name}'s {'next claim' if known else 'first `interlock next`'} takes it{ends}"


def _absent(prediction: Prediction, name: str) -> str:
    """That nobody is there to claim for an agent, and since when."""
    item, facts = prediction.item, prediction.facts
    agent = facts.presence.get(name)
    since_us = None if agent is None else last_sign_us(item, agent, facts.now_us)
    if since_us is None:
        return ""
    if since_us == 0:
        return f", but {name} has never asked for work and no worker of it is alive"
    return f", but no worker of {name} is alive: its last sign of life was {ago(since_us, facts.now_us)}"


def _passed(owner: Prediction, *, told: bool) -> str:
    """When those behind an owner may overtake it, if there are any and its agent does not come."""
    lane = owner.item.spec.lane
    if lane is None or not owner.overtaken_us or not _line_behind(owner):
        return ""
    if told and owner.can_be_overtaken:
        return f"; another agent's claim may overtake it on {lane}"
    return f"; {_gone(owner)} another agent's claim may overtake it on {lane}"


def _claimers(item: Item, takers: Takers) -> str:
    """Who may claim an item for anyone."""
    if not takers.anyone:
        return f"only an agent with label {named(item.spec.labels)} ({named(takers.able)})"
    if not takers.barred:
        return "any agent"
    but = tuple(f"{key} ({' and '.join(h.short for h in why)})" for key, why in takers.barred.items())
    return f"any agent but {named(but)}"


def _hindrances(prediction: Prediction) -> Sequence[Hindrance]:
    """Why nobody can start a ready item."""
    item, takers = prediction.item, prediction.takers
    if not item.state.ready or takers is None:
        return ()
    if not takers.nobody:
        return prediction.closed
    if takers.agent:
        return (*prediction.closed, *takers.barred.get(takers.agent, (no_label(item),)))
    having = [why for why in takers.barred.values() if not any(h.short == LACKS_LABEL for h in why)]
    return (*prediction.closed, *([h for why in having for h in why] or [no_label(item)]))


def _what(hindrances: Sequence[Hindrance]) -> str:
    return " and ".join(dict.fromkeys(h.what for h in hindrances))


def _cures(hindrances: Sequence[Hindrance]) -> str:
    return "; ".join(dict.fromkeys(h.cure for h in hindrances))


# -- in progress ----------------------------------------------------------------------------------


def _end_of_run(prediction: Prediction) -> str:
    """What ends the item's run, and when: only a lease can be renewed."""
    now_us = prediction.facts.now_us
    what, renewable = _last(prediction)
    if prediction.overdue:
        return f"{what} is over"
    ends = "is up" if what == "time" else "ends"
    return f"{what} {ends} {until(prediction.at_us, now_us)}{' unless renewed' if renewable else ''}"


def _last(prediction: Prediction) -> tuple[str, bool]:
    """Which deadline of a run comes first, and whether a renewal moves it."""
    state, at_us = prediction.item.state, prediction.at_us
    if at_us != state.due_us:
        return "edit cycle", False
    if state.revoke_us is not None and state.revoke_us == at_us:
        return "grace", False
    return ("lease", True) if at_us == state.lease_until_us else ("time", False)


def _becomes(item: Item, fate: Fate) -> str:
    """What the end of a run's time makes of its item and its lane."""
    after = fate.item
    lane = item.spec.lane
    if after.status is ItemStatus.PENDING:
        kept = " and keeps its lane" if lane is not None else ""
        return f"it is offered again{kept}, for attempt {after.state.attempt + 1} of {item.spec.max_attempts}"
    if after.status is ItemStatus.FAILED:
        then = f"it has failed for good, as attempt {after.state.attempt} is its last"
    else:
        then = f"it is ended as {after.status}"
    if lane is None or item.spec.type == EDIT_TYPE:
        return then
    return f"{then}, and {_heir(fate)}"


def _heir(fate: Fate) -> str:
    if fate.holder is None:
        return "its lane is free"
    return "its unread messages get the lane" if fate.by_follow_up else f"item {fate.holder.id} gets its lane"


# -- deferred -------------------------------------------------------------------------------------


def _deferred(prediction: Prediction) -> tuple[str, str]:
    item, ahead, owner = prediction.item, prediction.facts.ahead, prediction.owner
    lane = f"lane {item.spec.lane}"
    if owner is None:
        return f"waits on {lane}, which has lost its owner", "the next sweep promotes the first in line"
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
    """What waits behind an owner that nobody claimed in time: the next look ends that one."""
    item, owner = prediction.item, prediction.owner
    fate = owner.fates.get(End.TIME) if owner is not None and owner.overdue else None
    if owner is None or fate is None or owner.item.state.run is not None or not fate.item.terminal:
        return None
    waits = f"is in line on lane {item.spec.lane} behind item {owner.item.id}, which was not claimed in time"
    heir = fate.holder
    gets = "it gets the lane" if heir is not None and heir.id == item.id else "the line moves up"
    return waits, f"{NEXT_LOOK} item {owner.item.id} is ended and {gets}"


def _unstarted(owner: Prediction) -> str:
    if owner.item.state.due_us is not None:
        return f"is {_why_later(owner.item)}"
    hindrances = _hindrances(owner)
    if hindrances:
        return f"cannot start, as {_what(hindrances)}"
    return f"waits for {owner.item.spec.agent_key or 'any agent'} to start it"


def _overtaking(prediction: Prediction) -> str:
    owner, takers = prediction.owner, prediction.takers
    if owner is None or takers is None or takers.nobody or prediction.closed:
        return ""
    if takers.agent and not owner.gives_way_to(takers.agent):
        return ""  # whoever could overtake it starts the owner instead
    who = takers.agent or "another agent"
    first = " that can start none before it" if prediction.facts.ahead else ""
    if owner.overtaken_us == 0:
        return f"; while item {owner.item.id} cannot start, a claim of {who}{first} may overtake it"
    return f"; {_gone(owner)} a claim of {who}{first} may overtake it"


def _gone(owner: Prediction) -> str:
    """Since or from when the agent of an owner counts as gone."""
    agent, now_us = owner.item.spec.agent_key, owner.facts.now_us
    if owner.can_be_overtaken:
        return f"as {agent} has made no claim lately and no worker of it is alive,"
    return f"unless {agent} makes a claim before, {until(owner.overtaken_us, now_us)}"


def _lane_of_owner(owner: Prediction, moves: str) -> str:
    """What makes the line behind an owner move, and what leaves the owner where it is."""
    item, fates = owner.item, owner.fates
    beside = _beside(owner)
    if item.state.run is None:
        aside = "" if item.spec.retry_lane is RetryLane.KEEP else " or steps aside for a back-off"
        if item.asking:
            aside = f" or its question times out{',' if owner.overdue else ''} {_when(owner)}"
        return f"{moves} when item {item.id} has ended{aside}{beside}"
    run = f"run {item.state.run}"
    keeps = [end for end in fates if _keeps(item, fates[end])]
    follows = [end for end in fates if fates[end].by_follow_up]
    frees = [end for end in fates if end not in (*keeps, *follows)]
    lost = {"lease": "loses its lease", "time": "runs out of time"}.get(_last(owner)[0], "runs out of grace")
    ways = {End.DONE: "is done", End.FAIL: "fails", End.RELEASE: "is released", End.TIME: lost}
    unread = f"the messages that item {item.id} has not read"
    first, again = f"{unread} go first", ""
    if item.held and follows and End.DONE in frees:
        first, again = "those not read by then go first", f", which first runs its command again for {unread}"
    goes = [(frees, moves, again + beside), (follows, f"{first}, as an item of their own,", beside)]
    clauses = []
    for ends, then, more in sorted(goes, key=lambda clause: End.DONE not in clause[0]):
        if ends:
            when = "ends" if len(ends) == len(fates) else _listed([ways[end] for end in ends])
            clauses.append(f"{then} when {run} {when}{more}")
    if keeps:
        ways |= {End.FAIL: "fails and is to be tried again", End.RELEASE: "is released without a wall"}
        still = _listed([ways[end] for end in keeps])
        clauses.append(f"if it {still}, item {item.id} keeps the lane for another attempt")
    return "; ".join(clauses)


def _beside(owner: Prediction) -> str:
    """Items that were let through while the lane was only observed keep it shut too."""
    lane, others = owner.item.spec.lock_lane, owner.facts.snapshot.items.values()
    ids = tuple(
        str(i.id) for i in others if i.active and i.spec.observed_lane == lane and i.id != owner.item.id
    )
    if not ids:
        return ""
    some = f"item {ids[0]}" if len(ids) == 1 else f"items {named(ids)}"
    return f", and {some}, let through while the lane was only observed, too"


def _listed(ways: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(ways[:-1]), ways[-1])))


def _falls_to(owner: Prediction) -> str:
    return "the lane goes to the next in line" if _line_behind(owner) else "the lane is free"


def _line_behind(owner: Prediction) -> bool:
    lane = owner.item.spec.lane
    return any(
        i.spec.lane == lane and i.status is ItemStatus.DEFERRED for i in owner.facts.snapshot.items.values()
    )


def _keeps(item: Item, fate: Fate) -> bool:
    return fate.holder is not None and fate.holder.id == item.id


# -- waiting --------------------------------------------------------------------------------------


def _waiting(prediction: Prediction) -> tuple[str, str]:
    item, facts = prediction.item, prediction.facts
    plan = facts.plans.get(item.spec.plan) if item.spec.plan is not None else None
    if item.stopped:
        many = "too many wake-ups in a row came from nobody else (loop)"
        return f"waits for a person: {many}", f"`interlock msg {item.id} TEXT` of a person starts it"
    if plan is None or item.parked:
        return f"is {_why_later(item)}", _comes_back(prediction)
    if plan.status is not PlanStatus.RUNNING:
        return f"waits in plan {plan.id}, which is {plan.status}", "the next sweep cancels it"
    if any(need.broken for need in facts.needs):
        return _lost_task(plan, facts.needs)
    if facts.needs:
        return _waiting_task(item, plan, facts.needs)
    behind = _lane_then(prediction.fates[End.TIME])
    return f"has all that it needs in plan {plan.id}", f"it goes on with the next sweep or claim{behind}"


def _waiting_task(item: Item, plan: Plan, needs: Sequence[Need]) -> tuple[str, str]:
    """A task that may still start: when that is, and what rules it out."""
    by_ends: dict[tuple[ItemStatus, ...], list[str]] = {}
    for need in needs:
        by_ends.setdefault(_meets(need.edge), []).append(need.key)
    whens = [f"{named(tuple(keys))} {_verbs(ends, len(keys))}" for ends, keys in by_ends.items()]
    onward = "it is ready" if item.spec.lane is None else f"it goes to lane {item.spec.lane}"
    onward += f" when {' and '.join(whens)}"
    if any(len(ends) < len(_ENDS) for ends in by_ends):
        other = needs[0].key if len(needs) == 1 else "one of them"
        saved = f", unless an edit of {plan.editor} saves it" if plan.editor is not None else ""
        onward += f"; if {other} ends otherwise, it can never start and is cancelled{saved}"
    return f"waits in plan {plan.id} for {named(tuple(need.key for need in needs))}", onward


#: How a task can end, for one and for many.
_ENDS = {
    ItemStatus.COMPLETED: ("succeeds", "succeed"),
    ItemStatus.FAILED: ("fails", "fail"),
    ItemStatus.CANCELLED: ("is cancelled", "are cancelled"),
}


def _meets(edge: Edge) -> tuple[ItemStatus, ...]:
    """The ends of its source that satisfy an edge."""
    from interlock.core.plans.dependents import edge_state  # noqa: PLC0415  (most items are of no plan)

    return tuple(end for end in _ENDS if edge_state(edge, end) is EdgeState.SATISFIED)


def _verbs(ends: tuple[ItemStatus, ...], many: int) -> str:
    if len(ends) == len(_ENDS):
        return "ends" if many == 1 else "end"
    return " or ".join(_ENDS[end][many > 1] for end in ends)


def _lost_task(plan: Plan, needs: Sequence[Need]) -> tuple[str, str]:
    """A task that can never start, unless its plan is changed."""
    state = f"cannot start as plan {plan.id} is now, because {_ended(needs)}"
    if plan.cycle_us is None:
        return state, "the next sweep cancels it"
    saved = f"unless an edit of {plan.editor} (item {plan.edit_item}) saves it"
    return state, f"it is cancelled when the edit cycle closes, {saved}"


def _ended(needs: Sequence[Need]) -> str:
    """How those ended that broke their edges."""
    by_status: dict[ItemStatus, list[str]] = {}
    for need in needs:
        if need.broken:
            by_status.setdefault(need.status, []).append(need.key)
    ended = {ItemStatus.COMPLETED: "succeeded", ItemStatus.FAILED: "failed"}
    return " and ".join(
        f"{named(tuple(keys))} {ended.get(status, 'was cancelled' if len(keys) == 1 else 'were cancelled')}"
        for status, keys in by_status.items()
    )


def _why_later(item: Item) -> str:
    """Why its time has not come."""
    if not item.parked:
        return "scheduled"
    if item.asking:
        return "waiting for the answer of a person"
    if item.walled:
        return "behind a wall that its last run has met"
    if item.state.reason == Reason.SETUP_FAULT:
        return "waiting because a fault of the set-up, which `show` names, met its last run"
    if item.state.releases >= RELEASES_BEFORE_BACK_OFF:
        return f"in back-off after {item.state.releases} releases in a row"
    return "in back-off after a failed attempt"


def _comes_back(prediction: Prediction) -> str:
    when = _when(prediction) + ("" if prediction.overdue else ", with the next sweep or claim after that")
    then = _lane_then(prediction.fates[End.TIME])
    sooner = _at_bound(prediction)
    if prediction.again is not None and prediction.again.item.status is not ItemStatus.SUPERSEDED:
        sooner += f"; `interlock retry {prediction.item.id}` brings it back now"
    return f"it comes back {when}{then}{sooner}"


def _at_bound(prediction: Prediction) -> str:
    """What another wake-up in a row without a person would do, if it is one too many."""
    item, told = prediction.item, prediction.told
    by_others, by_person = told.get(SenderKind.SYSTEM), told.get(SenderKind.PERSON)
    if by_others is None or by_person is None:
        return ""
    if item.state.run is not None:
        stopped = by_others.follow_up is not None and by_others.follow_up.stopped
        said = "messages that it leaves unread wait for a person, unless a person wrote them"
        return f"; {said} (loop)" if stopped else ""
    only_person = by_others.item.parked and not by_person.item.parked
    return "; before that no message but a person's starts it (loop)" if only_person else ""


def _lane_then(fate: Fate) -> str:
    """What the lane makes of an item that comes back."""
    if fate.item.status is ItemStatus.DEFERRED:
        held = f", held by item {fate.holder.id}" if fate.holder is not None else ""
        return f", and then waits for its lane{held}"
    if fate.item.status is ItemStatus.SUPERSEDED:
        return f", and is then replaced by the newer item {fate.item.state.absorbed_by}"
    return ""


# -- ended ----------------------------------------------------------------------------------------


def _back(prediction: Prediction) -> str:
    """What brings an ended item back. A retry cannot: an edit, a removed task, a task with broken edges."""
    item, facts, again = prediction.item, prediction.facts, prediction.again
    if item.spec.type == EDIT_TYPE:
        plan = facts.plans.get(plan_of_lane(item.spec.lane or "") or PlanId(0))
        ended = plan is None or plan.status is not PlanStatus.RUNNING
        return "its plan has ended" if ended else "the next task that ends asks for an edit again"
    if item.state.reason == Reason.REMOVED_BY_EDIT:
        return "an edit may add it to its plan again, as another item"
    if any(need.broken for need in facts.needs):
        return _back_with(item, [need for need in facts.needs if need.broken])
    if again is None:
        return "that is final while its plan is being cancelled"
    if again.item.status is ItemStatus.SUPERSEDED:
        newer = again.item.state.absorbed_by
        return f"`interlock retry {item.id}` only gives its messages to the newer item {newer}"
    what = "gives it another" if item.status is ItemStatus.FAILED else "brings it back"
    return f"`interlock retry {item.id}` {what}"


def _back_with(item: Item, broken: Sequence[Need]) -> str:
    """How to retry a task that other tasks ruled out: retry those first."""
    done = tuple(need.key for need in broken if need.status is ItemStatus.COMPLETED)
    if done:
        return f"{named(done)} succeeded, which rules it out; that is final"
    retried = [f"`interlock retry {need.edge.source}`" for need in broken if not need.lost]
    others = tuple(need.key for need in broken if need.lost)
    ways = retried[:_RETRIES_NAMED]
    if len(retried) > len(ways):
        ways.append(f"{len(retried) - len(ways)} more retries")
    alone = item.state.reason == Reason.UNREACHABLE
    waited = f"it waited for {named(tuple(need.key for need in broken))}"
    if others:
        onward = f"it comes back when {named(others)} {'does' if len(others) == 1 else 'do'}"
        onward += f", after {' and '.join(ways)}" if ways else ""
    elif alone:
        onward = " and ".join(ways) + (" brings it back" if len(ways) == 1 else " together bring it back")
    else:
        onward = " and ".join(ways) + (" comes first" if len(ways) == 1 else " come first")
    if alone:
        return f"{waited}: {onward}"
    return f"{waited}: {onward}, then `interlock retry {item.id}`"


#: How many retries a sentence spells out.
_RETRIES_NAMED = 3


def _attempts(item: Item) -> str:
    return f"{item.state.attempt} attempt{'' if item.state.attempt == 1 else 's'}"


def _counted(ahead: int) -> str:
    return f"{ahead}" if ahead < AHEAD_MAX else f"{AHEAD_MAX} or more"
