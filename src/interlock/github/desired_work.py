"""Which work an issue or pull request should have, by its facts and the rules, and the orders of a change.

An item is identified by its type and agent, and has *occasions*: the number is open, has this label, is
assigned to this agent, has this newest commit. A new occasion creates an item or sends the open one a
message. When the last occasion is gone, the item is withdrawn. So any order of deliveries gives the same open
items.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from interlock.core.model import ANOTHER_SYSTEM, Sender
from interlock.core.names import agent_key
from interlock.core.record import Record, replace
from interlock.core.row import NamedTuple
from interlock.github.facts import NumberFacts, NumberState
from interlock.github.orders import (
    AddItems,
    AdjustPriority,
    ItemLocation,
    NotifyAgents,
    Order,
    OrderMessage,
    ShowLanes,
    UpdateBlocks,
    WithdrawWork,
    WorkItem,
    WorkKey,
    work_item,
)
from interlock.github.rules import Rule, RuleAction, Rules, fits

#: The events of occasions, in the order of reporting.
_ACTIONS = {
    "opened": "opened",
    "reopened": "reopened",
    "ready": "ready_for_review",
    "assigned": "assigned",
    "review": "review_requested",
    "head": "synchronize",
    "label": "labeled",
    "closed": "closed",
    "merged": "merged",
}
_WORDS = {
    "opened": "Opened by {author}.",
    "reopened": "Reopened.",
    "ready": "Ready for review.",
    "assigned": "Assigned to {value}.",
    "review": "Review requested from {value}.",
    "head": "The newest commit is {value}.",
    "label": "Labelled {value}.",
    "closed": "Closed.",
    "merged": "Merged.",
}


class Condition(NamedTuple):
    """An event that currently holds for a number."""

    event: str
    occasion: str
    label: str = ""
    agent: str = ""
    #: Of a check.
    branch: str = ""
    check: str = ""
    conclusion: str = ""


class Wanted(Record):
    """An item that a number should have."""

    occasions: frozenset[str]
    priority: int


class RuleDecision(NamedTuple):
    """What the rules decide on an event, why earlier rules do not, and for whom and how urgent an item is."""

    condition: Condition
    rule: Rule | None
    passed: tuple[tuple[Rule, str], ...]
    #: The key of an agent; empty for anyone.
    agent: str
    priority: int


class EventDetail(NamedTuple):
    """The action of a delivery and its label, if any."""

    action: str = ""
    label: str = ""


NO_DELIVERY = EventDetail()

#: How a number ends: the reason, and whether its runs should stop.
ENDS: Mapping[NumberState, tuple[str, bool]] = {
    NumberState.COMPLETED: ("closed", False),
    NumberState.MERGED: ("merged", False),
    NumberState.DROPPED: ("closed_undone", True),
    NumberState.TRANSFERRED: ("transferred", True),
    NumberState.DELETED: ("deleted", True),
}


#: The event of a number's end, for a pull request or an issue.
END_EVENTS: Mapping[tuple[bool, NumberState], str] = {
    (False, NumberState.COMPLETED): "issues.closed",
    (False, NumberState.DROPPED): "issues.closed",
    (True, NumberState.MERGED): "pull_request.merged",
    (True, NumberState.DROPPED): "pull_request.closed",
}


def conditions(facts: NumberFacts, agents: Mapping[str, str]) -> Iterator[Condition]:
    """The events that currently hold for a number."""
    if not facts.open:
        ending = END_EVENTS.get((facts.pull, facts.state))
        if ending is not None:
            yield Condition(ending, ending.partition(".")[2])
        return
    kind = "pull_request" if facts.pull else "issues"
    yield Condition(f"{kind}.opened", "opened")
    if facts.reopened:
        yield Condition(f"{kind}.reopened", "reopened")
    for label in facts.labels:
        yield Condition(f"{kind}.labeled", f"label:{label}", label=label)
    for login in facts.assignees:
        if login in agents:
            yield Condition(f"{kind}.assigned", f"assigned:{login}", agent=agents[login])
    if not facts.pull:
        return
    if not facts.draft:
        yield Condition("pull_request.ready_for_review", "ready")
    yield Condition("pull_request.synchronize", f"head:{facts.head}")
    for login in facts.reviewers:
        if login in agents:
            yield Condition("pull_request.review_requested", f"review:{login}", agent=agents[login])


def deciding_rule(
    rules: Rules, facts: NumberFacts, condition: Condition, paths: Sequence[str] = (), *, author: str = ""
) -> tuple[Rule | None, tuple[tuple[Rule, str], ...]]:
    """The rule that decides on an event, and why the ones before it did not.

    `author` wrote the remark that the event is about; otherwise the number's author counts.
    """
    given = {
        "author": (author or facts.author,),
        "title": (facts.title,),
        "labels": facts.labels,
        "path": paths,
        "branch": tuple(filter(None, (condition.branch or facts.base,))),
        "check": (condition.check,),
        "conclusion": (condition.conclusion,),
    }
    passed: list[tuple[Rule, str]] = []
    for rule in rules.rules:
        why_not = fits(rule, condition.event, label=condition.label, draft=facts.draft, given=given)
        if not why_not:
            return rule, tuple(passed)
        passed.append((rule, why_not))
    return None, tuple(passed)


def decisions(facts: NumberFacts, rules: Rules, paths: Sequence[str] = ()) -> Iterator[RuleDecision]:
    """The rules' decision on each event that currently holds for a number."""
    for condition in conditions(facts, rules.agents):
        rule, passed = deciding_rule(rules, facts, condition, paths)
        agent = agent_key(rule.agent or condition.agent) if rule is not None else ""
        yield RuleDecision(condition, rule, passed, agent, priority_for(facts, rules, rule))


def wanted(facts: NumberFacts, rules: Rules, paths: Sequence[str] = ()) -> dict[WorkKey, tuple[Wanted, Rule]]:
    """All items that a number should have now, each with its first matching rule."""
    found: dict[WorkKey, tuple[Wanted, Rule]] = {}
    for condition, rule, _, agent, priority in decisions(facts, rules, paths):
        if rule is None or rule.does is not RuleAction.CREATE:
            continue
        key, new = WorkKey(rule.type, agent), frozenset({condition.occasion})
        known, first = found.get(key, (Wanted(occasions=new, priority=priority), rule))
        highest = max(known.priority, priority)
        found[key] = Wanted(occasions=known.occasions | new, priority=highest), first
    return found


def priority_for(facts: NumberFacts, rules: Rules, rule: Rule | None) -> int:
    """The priority of what a rule makes: the rule's own, that of the number's labels, that of its type."""
    if rule is not None and rule.priority is not None:
        return rule.priority
    labelled = [rules.priorities[label] for label in facts.labels if label in rules.priorities]
    return max(labelled, default=rules.priorities.get(rule.type, 0) if rule is not None else 0)


def orders_for(
    before: NumberFacts | None,
    was: Mapping[WorkKey, Wanted],
    after: NumberFacts,
    now: Mapping[WorkKey, tuple[Wanted, Rule]],
    place: ItemLocation,
    *,
    told: EventDetail = NO_DELIVERY,
    ending: bool = False,
) -> list[Order]:
    """The orders that a change of a number makes.

    `was` is what it wanted before, by the rules of that time; `now` what it wants. `ending`: a delivery tells
    that it was closed. Without that, a number that is closed at first sight leads to nothing. New items count
    as another system's: who sent the delivery is for the caller to say (`sent_by`).
    """

    def created(key: WorkKey, each: Wanted, rule: Rule) -> AddItems:
        return AddItems(place=place, key=key, items=(_item(key, each, rule, after, place, told),))

    waited = set(before.waits_for) if before is not None else set()
    if not after.open:
        if not (ending if before is None else before.open):
            return []
        ends: list[Order] = [end_of_number(after, place)]
        if waited:
            ends.append(UpdateBlocks(place=place, blockers=tuple(sorted(waited)), url=after.url))
        return [*ends, *(created(key, each, rule) for key, (each, rule) in now.items())]
    if before is not None and before.open and _reopened_since(before, after):
        was = {}  # it was closed in between, but that delivery was lost
    found: list[Order] = [
        WithdrawWork(place=place, key=key, reason="not_wanted", stop=_should_stop(gone), url=after.url)
        for key, gone in was.items()
        if key not in now
    ]
    changed = waited.symmetric_difference(after.waits_for)
    if after.waits_for and set(now) - set(was):
        changed.update(after.waits_for)  # an older version may have left none
    if changed:
        found.append(UpdateBlocks(place=place, blockers=tuple(sorted(changed)), url=after.url))
    for key, (each, rule) in now.items():
        known = was.get(key)
        new = each.occasions - known.occasions if known else each.occasions
        if new:
            found.append(created(key, replace(each, occasions=new), rule))
        elif known and each.priority != known.priority:
            found.append(AdjustPriority(place=place, key=key, priority=each.priority))
    if before is not None and before.open and (text := _edited(before, after)):
        reason = f"{_kind(after)}_edited"
        message = OrderMessage(text=text, reason=reason, url=after.url)
        found.append(NotifyAgents(place=place, message=message))
    return found


def end_of_number(facts: NumberFacts, place: ItemLocation) -> WithdrawWork:
    """End all items of a closed number."""
    reason, stop = ENDS[facts.state]
    return WithdrawWork(place=place, key=None, reason=reason, stop=stop, url=facts.url)


def sent_by(order: Order, sender: Sender) -> Order:
    """An order whose new items came from a sender."""
    if not isinstance(order, AddItems):
        return order
    items = [replace(item, message=replace(item.message, sender=sender)) for item in order.items]
    return replace(order, items=items)


def lanes_shown(before: NumberFacts | None, after: NumberFacts, place: ItemLocation) -> ShowLanes | None:
    """Refresh the lane status of a changed pull request and of its old and new rivals."""
    if not after.pull or (before is not None and _lane_parts(before) == _lane_parts(after)):
        return None
    issues = sorted({*after.closes, *(before.closes if before is not None else ())})
    return ShowLanes(place=place, issues=issues) if after.open or issues else None


def _lane_parts(facts: NumberFacts) -> tuple[object, ...]:
    return facts.open, facts.head, facts.closes


def _item(
    key: WorkKey, new: Wanted, rule: Rule, facts: NumberFacts, place: ItemLocation, told: EventDetail
) -> WorkItem:
    """The item for new occasions. The delivery's own occasion names its event, else the first one."""
    said = [occasion.partition(":")[::2] for occasion in sorted(new.occasions)]
    said.sort(key=lambda pair: list(_ACTIONS).index(pair[0]))
    actions = [_ACTIONS[word] for word, _ in said]
    action = told.action if told.action in actions else actions[0]
    labels = [value for word, value in said if word == "label"]
    label = told.label if told.label in labels else next(iter(labels), None)
    words = (_WORDS[word].format(value=value, author=facts.author) for word, value in said)
    reason = f"{_kind(facts)}_{actions[0]}"  # the same in whatever order deliveries come
    return work_item(
        facts,
        place,
        rule=rule,
        agent=key.agent,
        priority=new.priority,
        event=f"{'pull_request' if facts.pull else 'issues'}.{action}",
        message=OrderMessage(text=" ".join(words), reason=reason, url=facts.url, sender=ANOTHER_SYSTEM),
        payload={} if label is None else {"label": label},
    )


def _kind(facts: NumberFacts) -> str:
    return "pull_request" if facts.pull else "issue"


def _reopened_since(before: NumberFacts, after: NumberFacts) -> bool:
    """Whether an open number was closed and reopened between two reads, as far as they show."""
    if not (before.reopened and after.reopened):
        return after.reopened
    return 0 not in (before.reopening, after.reopening) and before.reopening != after.reopening


def _should_stop(gone: Wanted) -> bool:
    """An agent without its assignment or review request should stop; a removed label stops none."""
    return any(not occasion.startswith("label:") for occasion in gone.occasions)


def _edited(before: NumberFacts, after: NumberFacts) -> str:
    parts = []
    if before.title != after.title:
        parts.append(f"The title is now: {after.title}")
    if before.body != after.body:
        parts.append("The description was edited. Read it again.")
    return "\n".join(parts)


# The stored form of desired work


def wanted_to_json(wanted: Mapping[WorkKey, Wanted]) -> str:
    rows = [
        {"type": key.type, "agent": key.agent, "occasions": sorted(each.occasions), "priority": each.priority}
        for key, each in sorted(wanted.items())
    ]
    return json.dumps(rows)


def wanted_from_json(text: str) -> dict[WorkKey, Wanted]:
    return {
        WorkKey(row["type"], row["agent"]): Wanted(
            occasions=frozenset(row["occasions"]), priority=row["priority"]
        )
        for row in json.loads(text)
    }
