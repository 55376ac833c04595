"""Finds mistakes in readable rules: rules that mean something else than they seem to."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from interlock.core.errors import InvalidInput
from interlock.core.names import agent_key
from interlock.core.record import Record
from interlock.github.rules import PASSING, RuleAction, Rules, unreachable


class RuleFinding(Record):
    """One mistake, or likely mistake."""

    rule: str
    code: str
    message: str
    mend: str


def unreadable(source: str, error: InvalidInput) -> RuleFinding:
    """The finding for unreadable rules. Deliveries wait until they are fixed."""
    return RuleFinding(rule=source, code="unreadable", message=error.sentence, mend=error.hint)


def check(rules: Rules, agents: frozenset[str] | None) -> tuple[RuleFinding, ...]:
    """Check rules. `agents` are those that the store knows; None without a store."""
    return (*_unreachable(rules), *_useless(rules), *_unknown(rules, agents or frozenset()))


def _unreachable(rules: Rules) -> Iterator[RuleFinding]:
    own = {late.name: (late, first) for late, first in reversed(unreachable(rules))}
    for late, first in reversed(own.values()):
        # A repository's own rules are meant to replace the defaults.
        if not late.name.startswith("default:"):
            yield RuleFinding(
                rule=late.name,
                code="unreachable",
                message=f"This rule never matches: {first.name} always matches before it.",
                mend="Move it before that one, or remove it.",
            )


def _useless(rules: Rules) -> Iterator[RuleFinding]:
    for rule in rules.rules:
        passing = [event for event in rule.events if event in PASSING]
        if rule.does is RuleAction.ANNOTATE and not passing:
            yield RuleFinding(
                rule=rule.name,
                code="tells_nothing",
                message="This rule annotates, but none of its events has a text.",
                mend='Use do = "ignore", or an event of a comment or a review.',
            )
        if rule.draft is not None and all(event.startswith("issues.") for event in rule.events):
            yield RuleFinding(
                rule=rule.name,
                code="no_drafts",
                message="This rule has `draft`, but an issue is never a draft.",
                mend="Use an event of a pull request, or remove `draft`.",
            )
        if rule.paths and all(event.startswith("issues.") for event in rule.events):
            yield RuleFinding(
                rule=rule.name,
                code="no_paths",
                message="This rule has `path`, but an issue has no changed files.",
                mend="Use an event of a pull request, or remove `path`.",
            )


def _unknown(rules: Rules, agents: frozenset[str]) -> Iterator[RuleFinding]:
    if not agents:
        return
    named = [(rule.name, rule.agent) for rule in rules.rules if rule.agent]
    named += [(f"[agents] {login}", agent_key(agent)) for login, agent in rules.agents.items()]
    for where, agent in named:
        if agent not in agents:
            near = get_close_matches(agent, sorted(agents), 1)
            yield RuleFinding(
                rule=where,
                code="unknown_agent",
                message=f"No agent is called '{agent}' in this store.",
                mend=f"Did you mean '{near[0]}'?"
                if near
                else f"`interlock agents set {agent}` makes it known.",
            )
