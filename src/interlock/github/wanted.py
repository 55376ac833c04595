"""Which work an issue or pull request wants, from its facts and the rules alone; and what a change leads to.

An item is wanted by its type and agent, on *occasions*: the number is open, has this label, is assigned to
this agent, has this newest commit. A new occasion makes an item, or lets the open one know. When the last
occasion is gone, the item is withdrawn. So any order of deliveries ends in the same open items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from interlock.core.names import agent_key
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.github.facts import Facts, State
from interlock.github.rules import Does, Rule, Rules, fits


class Key(NamedTuple):
    """What tells the items of one number apart."""

    type: str
    #: The key of an agent; empty for anyone.
    agent: str


class Condition(NamedTuple):
    """One event that is true of a number now."""

    event: str
    occasion: str
    label: str = ""
    agent: str = ""
    #: Of a check.
    branch: str = ""
    check: str = ""
    conclusion: str = ""


class Wanted(Record):
    """An item that a number wants."""

    occasions: frozenset[str]
    priority: int


class Create(Record):
    """Make an item for new occasions. If one of its key is open, the policy of the rule says what happens."""

    key: Key
    #: The new ones, in order.
    occasions: tuple[str, ...]
    priority: int
    rule: Rule


class Adjust(Record):
    """Give the open item of a key another priority."""

    key: Key
    priority: int


class Withdraw(Record):
    """End the open items of a key, or all items of the number: what has not started is cancelled."""

    #: None means all.
    key: Key | None
    reason: str
    #: Whether a run in flight is asked to stop. Otherwise it goes on and nothing follows it.
    stop: bool


class Annotate(Record):
    """Tell whoever runs, and start nothing."""

    text: str


class Block(Record):
    """Let work wait for these issues, or no longer, as the number says when it is carried out."""

    blockers: tuple[str, ...]


Consequence = Create | Adjust | Withdraw | Annotate | Block

#: How a number ends: the reason, and whether whoever works on it should stop.
ENDS: Mapping[State, tuple[str, bool]] = {
    State.COMPLETED: ("closed", False),
    State.MERGED: ("merged", False),
    State.DROPPED: ("closed_undone", True),
    State.TRANSFERRED: ("transferred", True),
    State.DELETED: ("deleted", True),
}


#: The event that a number's end is, of a pull request or an issue.
END_EVENTS: Mapping[tuple[bool, State], str] = {
    (False, State.COMPLETED): "issues.closed",
    (False, State.DROPPED): "issues.closed",
    (True, State.MERGED): "pull_request.merged",
    (True, State.DROPPED): "pull_request.closed",
}


def conditions(facts: Facts, agents: Mapping[str, str]) -> Iterator[Condition]:
    """The events that are true of a number now."""
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


def deciding(
    rules: Rules, facts: Facts, condition: Condition, paths: Sequence[str] = (), *, author: str = ""
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


def wanted(facts: Facts, rules: Rules, paths: Sequence[str] = ()) -> dict[Key, tuple[Wanted, Rule]]:
    """All items that a number wants now, each with the first rule that says so."""
    found: dict[Key, tuple[Wanted, Rule]] = {}
    for condition in conditions(facts, rules.agents):
        rule, _ = deciding(rules, facts, condition, paths)
        if rule is None or rule.does is not Does.CREATE:
            continue
        key = Key(rule.type, agent_key(rule.agent or condition.agent))
        priority = urgency(facts, rules, rule)
        new = Wanted(occasions=frozenset({condition.occasion}), priority=priority)
        if key in found:
            known, rule = found[key]
            new = Wanted(
                occasions=known.occasions | new.occasions, priority=max(known.priority, new.priority)
            )
        found[key] = new, rule
    return found


def urgency(facts: Facts, rules: Rules, rule: Rule | None) -> int:
    """The priority of what a rule makes: the rule's own, that of the number's labels, that of its type."""
    if rule is not None and rule.priority is not None:
        return rule.priority
    labelled = [rules.priorities[label] for label in facts.labels if label in rules.priorities]
    return max(labelled, default=rules.priorities.get(rule.type, 0) if rule is not None else 0)


def consequences(
    before: Facts | None,
    was: Mapping[Key, Wanted],
    after: Facts,
    now: Mapping[Key, tuple[Wanted, Rule]],
    *,
    ending: bool = False,
) -> tuple[Consequence, ...]:
    """What follows when a number has become what it is.

    `was` is what it wanted before, by the rules of that time; `now` what it wants. `ending`: a delivery tells
    that it was closed. Without that, nothing follows of one that is closed at first sight.
    """
    waited = set(before.waits_for) if before is not None else set()
    if not after.open:
        if not (ending if before is None else before.open):
            return ()
        ends: list[Consequence] = [leaving(after)]
        if waited:
            ends.append(Block(blockers=tuple(sorted(waited))))
        return (*ends, *(_created(key, each, each.occasions, rule) for key, (each, rule) in now.items()))
    if before is not None and before.open and _reopened_since(before, after):
        was = {}  # it was closed in between, and nobody saw it
    found: list[Consequence] = [
        Withdraw(key=key, reason="not_wanted", stop=_should_stop(gone))
        for key, gone in was.items()
        if key not in now
    ]
    changed = waited.symmetric_difference(after.waits_for)
    if after.waits_for and set(now) - set(was):
        changed.update(after.waits_for)  # an older version may have left none
    if changed:
        found.append(Block(blockers=tuple(sorted(changed))))
    for key, (each, rule) in now.items():
        known = was.get(key)
        new = each.occasions - known.occasions if known else each.occasions
        if new:
            found.append(_created(key, each, new, rule))
        elif known and each.priority != known.priority:
            found.append(Adjust(key=key, priority=each.priority))
    if before is not None and before.open and (told := _edited(before, after)):
        found.append(Annotate(text=told))
    return tuple(found)


def _created(key: Key, wanted: Wanted, new: frozenset[str], rule: Rule) -> Create:
    return Create(key=key, occasions=tuple(sorted(new)), priority=wanted.priority, rule=rule)


def leaving(facts: Facts) -> Withdraw:
    """Everything of a number that is closed ends."""
    reason, stop = ENDS[facts.state]
    return Withdraw(key=None, reason=reason, stop=stop)


def _reopened_since(before: Facts, after: Facts) -> bool:
    """Whether an open number was closed and opened again since, as far as both looks could tell."""
    if not (before.reopened and after.reopened):
        return after.reopened
    return 0 not in (before.reopening, after.reopening) and before.reopening != after.reopening


def _should_stop(gone: Wanted) -> bool:
    """Who was unassigned, or whose review is no longer asked for, should stop; a label less stops nobody."""
    return any(not occasion.startswith("label:") for occasion in gone.occasions)


def _edited(before: Facts, after: Facts) -> str:
    parts = []
    if before.title != after.title:
        parts.append(f"The title is now: {after.title}")
    if before.body != after.body:
        parts.append("The description was edited; read it again.")
    return "\n".join(parts)
