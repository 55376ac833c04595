"""Claimed runs, the answers to reports, and the inbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from interlock.cli.page import Console, Text
from interlock.cli.views import agents, items, words
from interlock.core.costs import dollars
from interlock.core.errors import InterlockError
from interlock.core.model import Reason
from interlock.core.names import agent_key
from interlock.core.plans.model import EDIT_TYPE
from interlock.core.timing import span
from interlock.service.contract import (
    AgentView,
    BudgetView,
    DoneView,
    LeaseView,
    MessageView,
    PoolView,
    RunView,
    WhyView,
)


def leases(
    console: Console,
    name: str,
    claimed: Sequence[LeaseView],
    *,
    agent: AgentView | None = None,
    pool: PoolView | None = None,
    budgets: Sequence[BudgetView] = (),
    why: WhyView | None = None,
) -> None:
    """The claimed items, each handle on its own line; or why the agent or the wanted item starts nothing."""
    if not claimed:
        console.print(Text(words.harmless(_idle(name, agent, pool, budgets))))
        if why is not None:
            items.explained(console, why)
        return
    _leases(console, claimed)


def ends_and_leases(console: Console, found: DoneView, refuse: Callable[[InterlockError], None]) -> None:
    """One line for each run that ended, then the items that were claimed with that."""
    reports(console, found.runs, refuse)
    if found.leases:
        console.print()
        _leases(console, found.leases)
    elif any(run.refusal is None for run in found.runs):
        console.print(Text("Nothing was claimed with it. interlock next looks further."))


def _leases(console: Console, claimed: Sequence[LeaseView]) -> None:
    for n, lease in enumerate(claimed):
        if n:
            console.print()
        _lease(console, lease)


def _idle(
    name: str, agent: AgentView | None, pool: PoolView | None, budgets: Sequence[BudgetView] = ()
) -> str:
    """Why a claim got nothing."""
    if agent is not None and (held := agents.starts_nothing(agent)):
        return f"{agent.name} {held.rstrip('.')}. `interlock resume agent {agent.name}` lets it start again."
    if agent is not None and agent.max is not None and agent.running >= agent.max:
        return f"{agent.name} is full: it has {agent.running} of {agent.max} runs."
    if pool is not None and pool.running >= pool.max:
        return f"{name} shares the pool {pool.name}, which is full: {pool.running} of {pool.max} runs."
    if budgets:
        whose = {("agent", agent_key(name)): "its budget"}
        if pool is not None:
            whose["pool", pool.name] = f"the budget of its pool {pool.name}"
        for each in budgets:
            if (subject := whose.get((each.scope, each.name))) is not None:
                return f"No work for {name}: {subject} {_used_up(each)}."
        if of := [each for each in budgets if each.scope == "project"]:
            return f"No work for {name} right now. The budget of project {of[0].name} {_used_up(of[0])}."
    return f"No work for {name} right now."


def _used_up(spent: BudgetView) -> str:
    """That claims have used up a budget: a predicate, and the command that raises it."""
    amount, until = f"of {dollars(spent.usd)} per {spent.per}", words.clock(spent.until)
    held = f" ({dollars(spent.reserved_usd)} is reserved for running work)" if spent.reserved_usd else ""
    more = f"interlock budget set {spent.scope}:{spent.name} --per {spent.per} --usd N"
    return f"{amount} is used up until {until}{held}. `{more}` raises it"


def _lease(console: Console, lease: LeaseView) -> None:
    item = lease.item
    console.print(Text.assemble((f"Item {item.id}  ", "bold"), (item.title, "bold")))
    payload = json.dumps(item.payload, ensure_ascii=False) if item.payload else None
    console.print(
        words.facts(
            ("handle", Text(lease.run, style="bold cyan")),
            ("fence", str(lease.fence)),
            ("lane", item.lane or item.observed_lane),
            ("lease", _right(lease)),
            ("attempt", f"{item.attempt} of {item.max_attempts}"),
            ("payload", payload),
            ("hint", f"interlock {'plan batch' if item.type == EDIT_TYPE else 'done'} {lease.run}"),
        )
    )
    if lease.messages:
        items.messages(console, lease.messages)


def _right(lease: LeaseView) -> str:
    """The deadline of a run."""
    until = f"until {words.at(lease.expires_at)}" if lease.expires_at is not None else "no deadline"
    if lease.renew_within_s is None:
        return f"none, the run is external: {until}"
    return f"{until}; renew within {span(lease.renew_within_s)}"


def reports(console: Console, answers: Sequence[RunView], refuse: Callable[[InterlockError], None]) -> None:
    """One line for each run; a refusal goes to standard error, with what to do."""
    for answer in answers:
        if answer.refusal is not None:
            refuse(answer.refusal.error())
            continue
        console.print(_report(answer))
        if answer.cancel_requested and answer.status == "running":
            why = answer.item.cancel_reason if answer.item else None
            asked = words.harmless(f"  You are asked to stop{f': {why}' if why else ''}.")
            console.print(Text(f"{asked} End it with done, fail or release.", style="bold red"))
        if answer.unread:
            read = f"{answer.unread_messages}: interlock inbox {answer.run}"
            what = f"{answer.followed_up}." if answer.followed_up else read
            console.print(Text(f"  {what}", style="yellow"))


def _report(answer: RunView) -> Text:
    number = answer.run.partition(".")[0]
    if answer.status == "running":
        until = f", lease until {words.at(answer.expires_at)}" if answer.expires_at else ""
        if answer.item is not None and answer.item.external:
            until = ", external: there is no lease to renew"
        return Text.assemble(f"Run {number} is ", words.status(answer.status), f"{until}.")
    became = ""
    if answer.item is not None:
        became = f"; item {answer.item.id} is {answer.item.status}"
        if answer.item.run_at is not None and answer.item.status in ("waiting", "pending"):
            became += f", due {words.relative(answer.item.run_at)}"
    return Text.assemble(
        f"Run {number} ", words.status(answer.status), f"{became}.{items.promoted(answer.promoted)}"
    )


def asked(console: Console, question: str, answer: RunView, refuse: Callable[[InterlockError], None]) -> None:
    """A run's question, until when it keeps its lane, and how to answer."""
    item = answer.item
    if item is None or item.reason != Reason.ASKED or answer.refusal is not None:
        reports(console, [answer], refuse)
        return
    console.print(Text(words.harmless(f"Item {item.id} asks: {question}"), style="yellow"))
    if answer.status == "running":
        until = f"until {words.at(answer.expires_at)}" if answer.expires_at and not item.worker else None
        console.print(
            words.facts(
                ("keeps lease", until),
                ("next", "the run goes on when a person answers"),
                ("hint", f"interlock msg {item.id} TEXT"),
            )
        )
        return
    kept = f"until {words.at(item.run_at)}" if item.status == "pending" and item.run_at else None
    moved = items.promoted(answer.promoted).strip()
    console.print(
        words.facts(
            ("keeps lane", kept),
            ("next", f"a person's message brings it back. {moved}".strip()),
            ("hint", f"interlock msg {item.id} TEXT"),
        )
    )


def inbox(console: Console, messages: Sequence[MessageView]) -> None:
    """Unread messages."""
    if messages:
        items.messages(console, messages)
    else:
        console.print("No unread message.")
