"""Whom a remark on GitHub wakes: decided from its writer, its text, the number's facts and the rules alone.

==================================  ==============================================================
written by                          what it does
==================================  ==============================================================
a person with write access          wakes the agents that the number belongs to and all that it names
another agent                       wakes all that it names, but never itself
anybody without write access        reaches whoever runs, and starts nothing
the account of our own token        the same: an agent may write with it
the account of a live run           the same, on the lane of that run
our own bot, without a mark         nothing
==================================  ==============================================================

A person whose remarks have started work on a number several times, with no other person's in between, wakes
like another system from then on, up to the bound of wake-ups in a row; but anybody answers a question.

A number belongs to the agents that it is assigned to; a pull request that no agent is assigned to, to the
agent that opened it. A remark that wakes nobody still reaches whoever runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from interlock.core.model import AN_OUTSIDER, ANOTHER_SYSTEM, Sender, SenderKind
from interlock.core.names import agent_key
from interlock.core.record import Record
from interlock.github.facts import Facts
from interlock.github.remarks import Command, Remark, commands, marks, mentioned, writer
from interlock.github.rules import Does, Rule, Rules
from interlock.github.speech import spoken
from interlock.github.wanted import Condition, deciding, urgency

#: What makes a remark an event that rules know.
_EVENTS = {
    "issue_comment": "issue_comment.created",
    "pull_request_review": "pull_request_review.submitted",
    "pull_request_review_comment": "pull_request_review_comment.created",
}
#: So often in a row the remarks of one person start work on a number as a person's.
LOGIN_WAKES_MAX = 5
#: Why an agent is woken: it is named, the number belongs to it, or its pull request needs work.
MENTIONED, COMMENTED, CHANGES_REQUESTED = (
    "issue_comment_mentioned",
    "issue_commented",
    "pull_request_changes_requested",
)


class Wake(Record):
    """An agent that is woken, and why."""

    #: The key of an agent; empty for anyone.
    agent: str
    reason: str


class Heard(Record):
    """What a remark leads to."""

    sender: Sender
    #: The rule that decided, and why the ones before it did not.
    rule: Rule | None
    passed: tuple[tuple[Rule, str], ...]
    wakes: tuple[Wake, ...]
    priority: int
    #: Whether whoever runs gets it, where it wakes nobody.
    told: bool
    #: Why it wakes nobody; empty if it wakes somebody.
    why: str
    #: What it commands, from somebody who may.
    commands: tuple[Command, ...]


def heard(
    remark: Remark,
    facts: Facts,
    rules: Rules,
    *,
    may_write: bool,
    known: Iterable[str] = (),
    own: frozenset[str] = frozenset(),
    paths: Iterable[str] = (),
    asking: Iterable[str] = (),
    in_a_row: int = 0,
) -> Heard:
    """Decide on a new remark.

    `known` has names of agents beside those in the rules, `own` our logins, `asking` the agents that ask
    people something about the number, `in_a_row` how often its author started work on the number last.
    """
    asking = tuple(asking)
    names = _callable(rules, known)
    sender = writer(remark, rules.agents, own)
    if sender.kind not in (SenderKind.AGENT, SenderKind.BOT) and not (may_write or rules.anyone_wakes):
        sender = AN_OUTSIDER
    event = Condition(_EVENTS[remark.kind], f"{remark.kind}:{remark.id}")
    rule, passed = deciding(rules, facts, event, tuple(paths), author=remark.author)
    commanding = sender.kind is SenderKind.PERSON or _shared(remark, sender)
    ordered = commands(remark.text) if commanding and may_write else ()
    if sender.kind is SenderKind.PERSON and in_a_row >= LOGIN_WAKES_MAX and not asking:
        sender = ANOTHER_SYSTEM
    why = _why_nobody(remark, facts, sender, rule)
    wakes: tuple[Wake, ...] = ()
    if rule is not None and not why:
        wakes = tuple(_wakes(remark, facts, rules, rule, sender, names=names, asking=asking))
    return Heard(
        sender=sender,
        rule=rule,
        passed=passed,
        wakes=wakes,
        priority=urgency(facts, rules, rule),
        told=_is_told(remark, facts, sender, rule),
        why=why or ("" if wakes else "It names no agent that could be woken."),
        commands=ordered if facts.open else (),
    )


def _callable(rules: Rules, known: Iterable[str]) -> Mapping[str, str]:
    """What an agent can be called in a text: its login, or its name."""
    agents = {agent_key(each) for each in (*rules.agents.values(), *known)}
    return {**{each: each for each in agents}, **rules.agents}


def _why_nobody(remark: Remark, facts: Facts, sender: Sender, rule: Rule | None) -> str:
    if not facts.open:
        return f"#{facts.number} is {facts.state}."
    if sender.kind is SenderKind.BOT:
        ours = f"{remark.author} is an account that agents write with, so it counts as their own."
        return ours if _shared(remark, sender) else "Our own bot wrote it."
    if sender.kind is SenderKind.OUTSIDER:
        return f"{remark.author} may not write to the repository."
    if rule is None:
        return "No rule is for it."
    if rule.does is not Does.CREATE:
        return "The rule only tells whoever runs." if rule.does is Does.ANNOTATE else "The rule ignores it."
    if not _says_something(remark):
        return "It says nothing beside its commands." if commands(remark.text) else "It says nothing."
    return ""


def _is_told(remark: Remark, facts: Facts, sender: Sender, rule: Rule | None) -> bool:
    ignored = rule is not None and rule.does is Does.IGNORE
    told = sender.kind is not SenderKind.BOT or _shared(remark, sender)
    return facts.open and told and not ignored and _says_something(remark)


def _shared(remark: Remark, sender: Sender) -> bool:
    """Whether it was written, by an agent or by a person, with a user's account that agents write with."""
    return sender.kind is SenderKind.BOT and not remark.bot and not marks(remark.text)


def _says_something(remark: Remark) -> bool:
    """Whether there is more than commands in it. A review may ask for changes without a word."""
    lines = (line for line in spoken(remark.text).splitlines() if not line.startswith("/interlock"))
    return any(line.strip() for line in lines) or remark.state == "changes_requested"


def _wakes(
    remark: Remark,
    facts: Facts,
    rules: Rules,
    rule: Rule,
    sender: Sender,
    *,
    names: Mapping[str, str],
    asking: Iterable[str],
) -> Iterable[Wake]:
    found: dict[str, str] = {}
    changes = remark.state == "changes_requested"
    # An approval, or a review that only comments, tells; whom it names is woken all the same.
    belongs = remark.kind != "pull_request_review" or changes
    if rule.agent:
        found[rule.agent] = CHANGES_REQUESTED if changes else COMMENTED
    else:
        found.update(dict.fromkeys(mentioned(remark.text, names), MENTIONED))
        if belongs and (changes or sender.kind is not SenderKind.AGENT):
            reason = CHANGES_REQUESTED if changes else COMMENTED
            for agent in owners(facts, rules):
                found.setdefault(agent, reason)
            if not found and not changes:
                found.update(dict.fromkeys(asking, reason) or {"": reason})
    writing = sender.agent if sender.kind is SenderKind.AGENT else None
    return (Wake(agent=agent, reason=reason) for agent, reason in found.items() if agent != writing)


def owners(facts: Facts, rules: Rules) -> tuple[str, ...]:
    """The agents that a number belongs to."""
    assigned = [agent_key(rules.agents[login]) for login in facts.assignees if login in rules.agents]
    if not assigned and facts.pull and facts.author in rules.agents:
        assigned = [agent_key(rules.agents[facts.author])]
    return tuple(dict.fromkeys(assigned))
