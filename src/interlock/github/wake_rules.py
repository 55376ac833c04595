"""Decides which agents a remark on GitHub wakes, by its writer, its text, the number's facts and the rules.

==================================  ==============================================================
written by                          what it does
==================================  ==============================================================
a person with write access          wakes the number's agents and all that the remark names
another agent                       wakes all that the remark names, but never itself
anyone without write access         is passed on to agents with an open item, and starts no work
the account of our own token        the same: an agent may write with it
the account of a live run           the same, on the lane of that run
our own bot, without a mark         nothing
==================================  ==============================================================

If one person's remarks start work on a number several times in a row, further ones wake agents like another
system's, up to the limit of wake-ups in a row. Anyone may answer a question.

A number belongs to its assigned agents. A pull request without an assigned agent belongs to the agent that
opened it. A remark that wakes no agent is still passed on to agents with an open item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from interlock.core.model import AN_OUTSIDER, ANOTHER_SYSTEM, Sender, SenderKind
from interlock.core.names import agent_key
from interlock.core.record import Record
from interlock.github.desired_work import Condition, deciding_rule, priority_for
from interlock.github.facts import NumberFacts
from interlock.github.remark_text import own_words
from interlock.github.remarks import Command, Remark, commands, marks, mentioned, writer
from interlock.github.rules import Rule, RuleAction, Rules

#: The events of remarks, as rules name them.
_EVENTS = {
    "issue_comment": "issue_comment.created",
    "pull_request_review": "pull_request_review.submitted",
    "pull_request_review_comment": "pull_request_review_comment.created",
}
#: How many times in a row one person's remarks start work on a number as a person's.
LOGIN_WAKES_MAX = 5
#: Why an agent is woken: it is mentioned, the number belongs to it, or its pull request needs work.
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


class RemarkOutcome(Record):
    """The outcome of a remark."""

    sender: Sender
    #: The rule that decided, and why the ones before it did not.
    rule: Rule | None
    passed: tuple[tuple[Rule, str], ...]
    wakes: tuple[Wake, ...]
    priority: int
    #: Whether agents with an open item get the remark, if it wakes none.
    told: bool
    #: Why it wakes no agent; empty if it wakes one.
    why: str
    #: Its commands, if its author may give any.
    commands: tuple[Command, ...]


def remark_outcome(
    remark: Remark,
    facts: NumberFacts,
    rules: Rules,
    *,
    may_write: bool,
    known: Iterable[str] = (),
    own: frozenset[str] = frozenset(),
    paths: Iterable[str] = (),
    asking: Iterable[str] = (),
    in_a_row: int = 0,
) -> RemarkOutcome:
    """Decide on a new remark.

    `known` has further names of agents, beside those in the rules. `own` has our logins. `asking` has the
    agents with open questions about the number. `in_a_row` counts the author's last remarks in a row that
    started work on the number.
    """
    asking = tuple(asking)
    names = _agents_by_name(rules, known)
    sender = writer(remark, rules.agents, own)
    if sender.kind not in (SenderKind.AGENT, SenderKind.BOT) and not (may_write or rules.anyone_wakes):
        sender = AN_OUTSIDER
    event = Condition(_EVENTS[remark.kind], f"{remark.kind}:{remark.id}")
    rule, passed = deciding_rule(rules, facts, event, tuple(paths), author=remark.author)
    commanding = sender.kind is SenderKind.PERSON or _from_shared_account(remark, sender)
    ordered = commands(remark.text) if commanding and may_write else ()
    if sender.kind is SenderKind.PERSON and in_a_row >= LOGIN_WAKES_MAX and not asking:
        sender = ANOTHER_SYSTEM
    why = _why_none(remark, facts, sender, rule)
    wakes: tuple[Wake, ...] = ()
    if rule is not None and not why:
        wakes = tuple(_wakes(remark, facts, rules, rule, sender, names=names, asking=asking))
    return RemarkOutcome(
        sender=sender,
        rule=rule,
        passed=passed,
        wakes=wakes,
        priority=priority_for(facts, rules, rule),
        told=_is_passed_on(remark, facts, sender, rule),
        why=why or ("" if wakes else "It mentions no known agent."),
        commands=ordered if facts.open else (),
    )


def _agents_by_name(rules: Rules, known: Iterable[str]) -> Mapping[str, str]:
    """The names of agents in a text: their logins and names."""
    agents = {agent_key(each) for each in (*rules.agents.values(), *known)}
    return {**{each: each for each in agents}, **rules.agents}


def _why_none(remark: Remark, facts: NumberFacts, sender: Sender, rule: Rule | None) -> str:
    if not facts.open:
        return f"#{facts.number} is {facts.state}."
    if sender.kind is SenderKind.BOT:
        ours = f"Agents write as {remark.author}, so the remark counts as an agent's own."
        return ours if _from_shared_account(remark, sender) else "Interlock wrote it."
    if sender.kind is SenderKind.OUTSIDER:
        return f"{remark.author} has no write access to the repository."
    if rule is None:
        return "No rule matches."
    if rule.does is not RuleAction.CREATE:
        return "The rule wakes no agent." if rule.does is RuleAction.ANNOTATE else "The rule ignores it."
    if not _says_something(remark):
        return "It contains only commands." if commands(remark.text) else "It has no text."
    return ""


def _is_passed_on(remark: Remark, facts: NumberFacts, sender: Sender, rule: Rule | None) -> bool:
    ignored = rule is not None and rule.does is RuleAction.IGNORE
    told = sender.kind is not SenderKind.BOT or _from_shared_account(remark, sender)
    return facts.open and told and not ignored and _says_something(remark)


def _from_shared_account(remark: Remark, sender: Sender) -> bool:
    """Whether a remark was written with a user's account that agents also use, by an agent or by a person."""
    return sender.kind is SenderKind.BOT and not remark.bot and not marks(remark.text)


def _says_something(remark: Remark) -> bool:
    """Whether a remark has more than commands. A review may request changes without a text."""
    lines = (line for line in own_words(remark.text).splitlines() if not line.startswith("/interlock"))
    return any(line.strip() for line in lines) or remark.state == "changes_requested"


def _wakes(
    remark: Remark,
    facts: NumberFacts,
    rules: Rules,
    rule: Rule,
    sender: Sender,
    *,
    names: Mapping[str, str],
    asking: Iterable[str],
) -> Iterable[Wake]:
    found: dict[str, str] = {}
    changes = remark.state == "changes_requested"
    # An approval, or a review that only comments, is passed on. Mentioned agents are woken anyway.
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


def owners(facts: NumberFacts, rules: Rules) -> tuple[str, ...]:
    """The agents that a number belongs to."""
    assigned = [agent_key(rules.agents[login]) for login in facts.assignees if login in rules.agents]
    if not assigned and facts.pull and facts.author in rules.agents:
        assigned = [agent_key(rules.agents[facts.author])]
    return tuple(dict.fromkeys(assigned))
