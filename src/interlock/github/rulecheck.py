"""Mistakes in rules that can be read and mean something else than they seem to."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from interlock.core.errors import InvalidInput
from interlock.core.names import agent_key
from interlock.core.record import Record
from interlock.github.rules import PASSING, Does, Rules, unreachable


class RuleFinding(Record):
    """One mistake, or what looks like one."""

    rule: str
    code: str
    message: str
    mend: str


def unreadable(source: str, error: InvalidInput) -> RuleFinding:
    """Rules that cannot be read: meanwhile deliveries wait."""
    return RuleFinding(rule=source, code="unreadable", message=error.sentence, mend=error.hint)


def check(rules: Rules, agents: frozenset[str] | None) -> tuple[RuleFinding, ...]:
    """Look at rules. `agents` are the ones that the store knows; None if there is no store to ask."""
    return (*_unreachable(rules), *_useless(rules), *_unknown(rules, agents or frozenset()))


def _unreachable(rules: Rules) -> Iterator[RuleFinding]:
    own = {late.name: (late, first) for late, first in reversed(unreachable(rules))}
    for late, first in reversed(own.values()):
        # That a repository's own rules replace the defaults is what they are for.
        if not late.name.startswith("default:"):
            yield RuleFinding(
                rule=late.name,
                code="unreachable",
                message=f"It never decides: {first.name} fits before it whenever it would.",
                mend="Put it before that one, or remove it.",
            )


def _useless(rules: Rules) -> Iterator[RuleFinding]:
    for rule in rules.rules:
        passing = [event for event in rule.events if event in PASSING]
        if rule.does is Does.ANNOTATE and not passing:
            yield RuleFinding(
                rule=rule.name,
                code="tells_nothing",
                message="It annotates, and none of its events has a text to tell.",
                mend='Use do = "ignore", or an event of a comment or a review.',
            )
        if rule.draft is not None and all(event.startswith("issues.") for event in rule.events):
            yield RuleFinding(
                rule=rule.name,
                code="no_drafts",
                message="It asks whether a draft is meant, and an issue is none.",
                mend="Use an event of a pull request, or leave `draft` out.",
            )
        if rule.paths and all(event.startswith("issues.") for event in rule.events):
            yield RuleFinding(
                rule=rule.name,
                code="no_paths",
                message="It wants changed files, and an issue has none.",
                mend="Use an event of a pull request, or leave `path` out.",
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
