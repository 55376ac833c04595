"""Tries a set of rules on a delivery, and explains the result rule by rule. Nothing is stored or requested.

The facts come from the payload, and nothing was known before. So all desired work shows, also that of an
earlier delivery.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.record import Record
from interlock.github import facts as reading
from interlock.github import remarks
from interlock.github.delivery import Delivery
from interlock.github.desired_work import ENDS, decisions
from interlock.github.facts import NumberFacts
from interlock.github.rules import Rule, RuleAction, Rules, lane_of
from interlock.github.wake_rules import RemarkOutcome, remark_outcome

#: The fields that identify the event of a payload without its header. The first match counts.
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


class TrialItem(Record):
    """An item that would be created, or a message to the open item of its type and agent."""

    type: str
    #: The agent; empty for any agent.
    agent: str
    priority: int
    #: The lane; None for no lane.
    lane: str | None
    policy: str
    #: Why a remark wakes the agent.
    reason: str = ""


class PassedRule(Record):
    """A rule that did not decide."""

    rule: str
    why: str


class TrialStep(Record):
    """One event that holds, and the rule that decided on it."""

    event: str
    #: The label or the agent of the event.
    about: str
    rule: str | None
    does: str
    makes: tuple[TrialItem, ...]
    #: Why no item is created.
    why: str
    passed: tuple[PassedRule, ...]


class Trial(Record):
    """The result of trying rules on a delivery."""

    event: str
    #: As `acme/app#42`; empty if the payload contains no issue or pull request.
    number: str
    title: str
    #: Why all items of the number would end, and whether a running run would be asked to stop.
    ends: str
    stops: bool
    steps: tuple[TrialStep, ...]
    #: The parts that cannot be tried with the payload alone.
    untried: str


def event_of(body: bytes) -> str:
    """The event of a payload, by its content."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("The payload is not valid JSON.", "Pass the body as GitHub sent it.") from None
    if isinstance(payload, dict):
        for event, parts in _BY_PARTS:
            if all(part in payload for part in parts):
                return event
    raise InvalidInput("The payload does not show its event.", "Name the event.")


def trial(delivery: Delivery, rules: Rules, *, may_write: bool) -> Trial:
    """Try the rules on a delivery. `may_write`: its sender may write to the repository."""
    number = _part(delivery.payload, "pull_request") or _part(delivery.payload, "issue")
    if not number or delivery.repository is None:
        return _untried(delivery, "The payload contains no issue or pull request.")
    try:
        facts = reading.from_answer(delivery.payload["repository"], number)
        steps = tuple(_steps(delivery, facts, rules, may_write=may_write))
    except (KeyError, TypeError, AttributeError):
        return _untried(delivery, "The payload is incomplete.")
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


def _steps(delivery: Delivery, facts: NumberFacts, rules: Rules, *, may_write: bool) -> Iterator[TrialStep]:
    part = _REMARKS.get(delivery.event)
    if part is not None:
        said = remarks.from_answer(delivery.event, facts.number, delivery.payload[part])
        yield _of_remark(delivery, facts, remark_outcome(said, facts, rules, may_write=may_write))
        return
    for condition, rule, passed, agent, priority in decisions(facts, rules):
        made: tuple[TrialItem, ...] = ()
        if rule is not None and rule.does is RuleAction.CREATE:
            made = (_trial_item(rule, facts, agent, priority),)
        yield TrialStep(
            event=condition.event,
            about=condition.label or condition.agent,
            rule=rule.name if rule else None,
            does=rule.does if rule else "",
            makes=made,
            why="" if rule else "No rule matches.",
            passed=_passed(passed, condition.event),
        )


def _of_remark(delivery: Delivery, facts: NumberFacts, found: RemarkOutcome) -> TrialStep:
    new = delivery.action in _NEW
    rule, event = found.rule, f"{delivery.event}.{_NEW[delivery.event == 'pull_request_review']}"
    why = found.why if new else f"A remark that was {delivery.action} wakes no agent."
    return TrialStep(
        event=event if new else delivery.kind,
        about="",
        rule=rule.name if rule else None,
        does=rule.does if rule else "",
        makes=tuple(
            _trial_item(rule, facts, wake.agent, found.priority, wake.reason)
            for wake in found.wakes
            if rule and new
        ),
        why=why,
        passed=_passed(found.passed, event),
    )


def _trial_item(rule: Rule, facts: NumberFacts, agent: str, priority: int, reason: str = "") -> TrialItem:
    name = facts.name.lower()
    lane = lane_of(rule, name, facts.number, own=f"issue:{name}#{facts.number}")
    return TrialItem(
        type=rule.type, agent=agent, priority=priority, lane=lane, policy=rule.policy, reason=reason
    )


def _passed(passed: tuple[tuple[Rule, str], ...], event: str) -> tuple[PassedRule, ...]:
    """The rules for this event that did not match. Rules for other events are omitted."""
    return tuple(PassedRule(rule=rule.name, why=why) for rule, why in passed if event in rule.events)


def _part(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = payload.get(name)
    return found if isinstance(found, dict) else {}
