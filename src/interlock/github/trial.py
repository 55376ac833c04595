"""What a delivery would lead to by a set of rules, and why, rule by rule. Nothing is stored, nobody is asked.

The facts are those in the payload, and nothing was known before: so everything that is wanted shows, also
what an earlier delivery had made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.names import agent_key
from interlock.core.record import Record
from interlock.github import facts as reading
from interlock.github import remarks
from interlock.github.delivery import Delivery
from interlock.github.facts import Facts
from interlock.github.heard import Heard, heard
from interlock.github.rules import Does, Rule, Rules, lane_of
from interlock.github.wanted import ENDS, conditions, deciding, urgency

#: What tells events apart in a payload without its header. The first that fits.
_BY_PARTS = (
    ("issue_comment", ("comment", "issue")),
    ("pull_request_review", ("review", "pull_request")),
    ("pull_request_review_comment", ("comment", "pull_request")),
    ("workflow_run", ("workflow_run",)),
    ("check_run", ("check_run",)),
    ("check_suite", ("check_suite",)),
    ("status", ("state", "sha", "context")),
    ("issues", ("issue",)),
    ("pull_request", ("pull_request",)),
)
_REMARKS = {
    "issue_comment": "comment",
    "pull_request_review": "review",
    "pull_request_review_comment": "comment",
}
_NEW = ("created", "submitted")


class Made(Record):
    """An item that would be made, or that the open one of its type and agent would hear of."""

    type: str
    #: Empty for any agent.
    agent: str
    priority: int
    #: None for no lane.
    lane: str | None
    policy: str
    #: Why an agent is woken by a remark.
    reason: str = ""


class Passed(Record):
    """A rule that did not decide."""

    rule: str
    why: str


class Step(Record):
    """One event that is true, and the rule that decided on it."""

    event: str
    #: The label or the agent that it is about.
    about: str
    rule: str | None
    does: str
    makes: tuple[Made, ...]
    #: Why nothing is made.
    why: str
    passed: tuple[Passed, ...]


class Trial(Record):
    """What a delivery would lead to."""

    event: str
    #: As `acme/app#42`; empty if the payload is about no issue and no pull request.
    number: str
    title: str
    #: Why all items of the number would end, and whether a run in flight would be asked to stop.
    ends: str
    stops: bool
    steps: tuple[Step, ...]
    #: What cannot be tried with the payload alone.
    untried: str


def event_of(body: bytes) -> str:
    """The event that a payload belongs to, by what is in it."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("The payload is not valid JSON.", "Pass the body as GitHub sent it.") from None
    if isinstance(payload, dict):
        for event, parts in _BY_PARTS:
            if all(part in payload for part in parts):
                return event
    raise InvalidInput("The payload does not show which event it is of.", "Name the event with --event.")


def trial(delivery: Delivery, rules: Rules, *, may_write: bool) -> Trial:
    """Try the rules on a delivery. `may_write`: its sender may write to the repository."""
    number = _part(delivery.payload, "pull_request") or _part(delivery.payload, "issue")
    if not number or delivery.repository is None:
        return _untried(delivery, "It is about no issue and no pull request whose facts are in it.")
    try:
        facts = reading.from_answer(delivery.payload["repository"], number)
        steps = tuple(_steps(delivery, facts, rules, may_write=may_write))
    except (KeyError, TypeError, AttributeError):
        return _untried(delivery, "Parts are missing that GitHub sends.")
    reason, stops = ("", False) if facts.open else ENDS[facts.state]
    return Trial(
        event=delivery.kind,
        number=f"{facts.name}#{facts.number}",
        title=facts.title,
        ends=reason,
        stops=stops,
        steps=steps,
        untried="",
    )


def _untried(delivery: Delivery, why: str) -> Trial:
    return Trial(event=delivery.kind, number="", title="", ends="", stops=False, steps=(), untried=why)


def _steps(delivery: Delivery, facts: Facts, rules: Rules, *, may_write: bool) -> Iterator[Step]:
    part = _REMARKS.get(delivery.event)
    if part is not None:
        said = remarks.from_answer(delivery.event, facts.number, delivery.payload[part])
        yield _of_remark(delivery, facts, heard(said, facts, rules, may_write=may_write))
        return
    for condition in conditions(facts, rules.agents):
        rule, passed = deciding(rules, facts, condition)
        made: tuple[Made, ...] = ()
        if rule is not None and rule.does is Does.CREATE:
            agent = agent_key(rule.agent or condition.agent)
            made = (_made(rule, facts, agent, urgency(facts, rules, rule)),)
        yield Step(
            event=condition.event,
            about=condition.label or condition.agent,
            rule=rule.name if rule else None,
            does=rule.does if rule else "",
            makes=made,
            why="" if rule else "No rule is for it.",
            passed=_passed(passed, condition.event),
        )


def _of_remark(delivery: Delivery, facts: Facts, found: Heard) -> Step:
    new = delivery.action in _NEW
    rule, event = found.rule, f"{delivery.event}.{_NEW[delivery.event == 'pull_request_review']}"
    why = found.why if new else f"What was {delivery.action} is only told to whoever runs."
    return Step(
        event=event if new else delivery.kind,
        about="",
        rule=rule.name if rule else None,
        does=rule.does if rule else "",
        makes=tuple(
            _made(rule, facts, wake.agent, found.priority, wake.reason)
            for wake in found.wakes
            if rule and new
        ),
        why=why,
        passed=_passed(found.passed, event),
    )


def _made(rule: Rule, facts: Facts, agent: str, priority: int, reason: str = "") -> Made:
    name = facts.name.lower()
    lane = lane_of(rule, name, facts.number, own=f"issue:{name}#{facts.number}")
    return Made(type=rule.type, agent=agent, priority=priority, lane=lane, policy=rule.policy, reason=reason)


def _passed(passed: tuple[tuple[Rule, str], ...], event: str) -> tuple[Passed, ...]:
    """The rules for this event that did not decide: that others are for other events says nothing."""
    return tuple(Passed(rule=rule.name, why=why) for rule, why in passed if event in rule.events)


def _part(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = payload.get(name)
    return found if isinstance(found, dict) else {}
