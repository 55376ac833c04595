"""What is to be done for a number, as it is kept until it is carried out: plain JSON with all that it needs.

An order is one of these, by its `do`:
- `add`: arrivals, in one transaction; `items` has their fields, as `interlock add` reads them from a line;
- `tell`: a message to whoever is on the lane, which starts nothing;
- `withdraw`: end what a `key` wanted, or all that the number wanted;
- `recover`: end work for failed checks: `check` has passed, or the pull request has the new `head`;
- `adjust`: another priority for what a `key` wanted;
- `command`: what a person commands with `/interlock …`;
- `block`: work waits for `blockers`, or no longer, as the number says by then;
- `show`: the pull request, and others for the same `issues`, show who holds their lanes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.model import OUR_BOT, Sender, SenderKind
from interlock.core.names import check_name, safe_name
from interlock.core.row import NamedTuple
from interlock.core.tracing import with_parent
from interlock.github.facts import Facts
from interlock.github.rules import Rule, lane_of
from interlock.github.wanted import Adjust, Annotate, Block, Consequence, Create, Key, Wanted, Withdraw
from interlock.store.github_port import Follows, Repository

Order = dict[str, Any]

#: The events that occasions stand for. The delivery's own names the event of an item, else the first.
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
    "review": "{value} is asked for a review.",
    "head": "The newest commit is {value}.",
    "label": "Labelled {value}.",
    "closed": "Closed.",
    "merged": "Merged.",
}
_FROM = {
    SenderKind.PERSON: "from_person",
    SenderKind.BOT: "from_bot",
    SenderKind.SYSTEM: "from_system",
    SenderKind.OUTSIDER: "from_outsider",
}


class Told(NamedTuple):
    """What a delivery itself tells of: its action, and the label that it is about."""

    action: str = ""
    label: str = ""


NO_DELIVERY = Told()


class Place(NamedTuple):
    """Where the items of a number are: their project, and their lane if no rule says another."""

    project: str
    lane: str


def place_of(repository: Repository, number: int) -> Place:
    """Named by the first name that the repository was seen with: a rename opens no second lane."""
    project = named(repository)
    return Place(project, f"issue:{project}#{number}")


def named(repository: Repository) -> str:
    """The name of a repository's lanes, or a likeness where it could not be the name of a lane."""
    try:
        return check_name("project", repository.lane_name)
    except InvalidInput:
        owner, _, name = repository.lane_name.partition("/")
        return f"{safe_name(owner)}/{safe_name(name)}.{repository.id}"


def following(
    revision: int,
    found: Sequence[Consequence],
    facts: Facts,
    place: Place,
    sender: Sender,
    told: Told = NO_DELIVERY,
) -> list[Follows]:
    """What follows from a change to a revision, each with a name that this revision has once."""
    orders = [_order(each, facts, place, sender, told) for each in found]
    return [kept(f"{revision}.{n}:{order['do']}", order) for n, order in enumerate(orders, 1)]


#: The `traceparent` of the decision that is being made; empty if nobody traces it.
PARENT: ContextVar[str] = ContextVar("parent", default="")


def kept(name: str, order: Order) -> Follows:
    if (parent := PARENT.get()) and order["do"] == "add":
        items = [{**item, "payload": with_parent(item.get("payload"), parent)} for item in order["items"]]
        order = {**order, "items": items}
    return Follows(name, json.dumps(order))


def _order(each: Consequence, facts: Facts, place: Place, sender: Sender, told: Told) -> Order:
    match each:
        case Create():
            return {
                "do": "add",
                **place._asdict(),
                "key": each.key,
                "items": [_made(each, facts, place, sender, told)],
            }
        case Adjust():
            return {"do": "adjust", **place._asdict(), "key": each.key, "priority": each.priority}
        case Withdraw():
            return {
                "do": "withdraw",
                **place._asdict(),
                "key": each.key,
                "reason": each.reason,
                "stop": each.stop,
                "url": facts.url,
            }
        case Block():
            return {"do": "block", **place._asdict(), "blockers": each.blockers, "url": facts.url}
        case Annotate():
            return telling(place, each.text, reason=f"{_kind(facts)}_edited", url=facts.url)


def _made(each: Create, facts: Facts, place: Place, sender: Sender, told: Told) -> Order:
    said = [occasion.partition(":")[::2] for occasion in each.occasions]
    said.sort(key=lambda pair: list(_ACTIONS).index(pair[0]))
    actions = [_ACTIONS[word] for word, _ in said]
    action = told.action if told.action in actions else actions[0]
    labels = [value for word, value in said if word == "label"]
    label = told.label if told.label in labels else next(iter(labels), None)
    words = (_WORDS[word].format(value=value, author=facts.author) for word, value in said)
    return arrival(
        facts,
        place,
        rule=each.rule,
        agent=each.key.agent,
        priority=each.priority,
        event=f"{'pull_request' if facts.pull else 'issues'}.{action}",
        sender=sender,
        message=" ".join(words),
        reason=f"{_kind(facts)}_{actions[0]}",  # the same in whatever order deliveries come
        payload={} if label is None else {"label": label},
    )


def arrival(
    facts: Facts,
    place: Place,
    *,
    rule: Rule,
    agent: str,
    priority: int,
    event: str,
    sender: Sender,
    message: str,
    reason: str,
    author: str = "",
    url: str = "",
    said: str = "",
    title: str = "",
    payload: Mapping[str, Any] | None = None,
) -> Order:
    """The fields of an item that a number wants, with a message that says why."""
    described = {
        "event_type": event,
        "repository": facts.name,
        "pr_number" if facts.pull else "issue_number": facts.number,
        "title": facts.title,
        "author": facts.author,
        "url": facts.url,
        "labels": facts.labels,
        **(payload or {}),
    }
    lane = lane_of(rule, place.project, facts.number, own=place.lane)
    return {
        "title": (title or f"#{facts.number} {facts.title}".strip())[:500],
        "project": place.project,
        "type": rule.type,
        "agent": agent,
        **({"no_lane": True} if lane is None else {"lane": lane}),
        "policy": rule.policy,
        **({} if rule.policy_named else {"policy_open": True}),
        "priority": priority,
        **({} if rule.timeout_s is None else {"timeout_s": rule.timeout_s}),
        "payload": described,
        "message": message,
        "reason": reason,
        "url": url or facts.url,
        "author": author,
        "said": said,
        **spoken_by(sender),
    }


def telling(
    place: Place,
    text: str,
    *,
    reason: str,
    url: str,
    author: str = "",
    said: str = "",
    sender: Sender = OUR_BOT,
) -> Order:
    """A message that starts nothing."""
    told = {"message": text, "reason": reason, "url": url, "author": author, "said": said}
    return {"do": "tell", **place._asdict(), **told, **spoken_by(sender)}


def showing(revision: int, before: Facts | None, after: Facts, place: Place) -> list[Follows]:
    """A pull request that has changed shows who holds its lane, and so do its old and new rivals."""
    if not after.pull or (before is not None and _lane_parts(before) == _lane_parts(after)):
        return []
    issues = sorted({*after.closes, *(before.closes if before is not None else ())})
    if not after.open and not issues:
        return []
    return [kept(f"{revision}.show", {"do": "show", **place._asdict(), "issues": issues})]


def _lane_parts(facts: Facts) -> tuple[object, ...]:
    return facts.open, facts.head, facts.closes


def spoken_by(sender: Sender) -> Order:
    """A sender as a field of an item."""
    return {"from_agent": sender.agent} if sender.kind is SenderKind.AGENT else {_FROM[sender.kind]: True}


def _kind(facts: Facts) -> str:
    return "pull_request" if facts.pull else "issue"


# What a number wants, as it is kept


def wanted_to_json(wanted: Mapping[Key, Wanted]) -> str:
    rows = [
        {"type": key.type, "agent": key.agent, "occasions": sorted(each.occasions), "priority": each.priority}
        for key, each in sorted(wanted.items())
    ]
    return json.dumps(rows)


def wanted_from_json(text: str) -> dict[Key, Wanted]:
    return {
        Key(row["type"], row["agent"]): Wanted(
            occasions=frozenset(row["occasions"]), priority=row["priority"]
        )
        for row in json.loads(text)
    }
