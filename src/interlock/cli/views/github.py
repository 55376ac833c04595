"""Views of GitHub deliveries and effects, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.page import Console, Text
from interlock.cli.views import items
from interlock.cli.views.words import harmless
from interlock.core.timing import span

if TYPE_CHECKING:
    from interlock.github.hosted_agents import Reconciled
    from interlock.github.intake import Ingested
    from interlock.github.number_views import NumberView
    from interlock.github.order_executor import OrderOutcome
    from interlock.github.reconciler import MissedEvents
    from interlock.service.contract import OwedView
    from interlock.service.relay import SendPass

_STATUS = {"decided": "Decided", "repeated": "Skipped", "put_off": "Will be retried"}

#: Kinds of orders, in words.
_DONE = {
    "add": "work",
    "tell": "message",
    "withdraw": "withdrawn",
    "recover": "recovered",
    "adjust": "priority",
    "command": "command",
    "show": "pull request",
    "block": "blockers",
}


def ingested(console: Console, found: Ingested) -> None:
    """The outcome of a delivery and of each executed order."""
    console.print(Text(harmless(f"{_STATUS[found.status]}: {found.outcome}")))
    for done in found.done:
        console.print(Text(harmless(f"  {_done(done)}")))


def _done(done: OrderOutcome) -> str:
    return f"{_DONE.get(done.do, done.do)}: {done.outcome}" + (" (not done)" if done.put_off else "")


def hosted(console: Console, ended: Sequence[Reconciled]) -> None:
    """Ended runs of hosted agents."""
    for each in ended:
        console.print(Text(harmless(f"Item {each.item}, run {each.run}: {each.outcome} ({each.why})")))
    if not ended:
        console.print(Text("No run has ended since the last reconcile."))


def number(console: Console, found: NumberView) -> None:
    """A number: its state, its open items, its deliveries, orders and effects."""
    facts = found.facts
    state = f"{facts['state']}: {facts['title']}" if facts else "not read yet"
    lines = [f"{found.repository}#{found.number}  {state}", f"lane {found.lane}"]
    lines += [f"wants {each['type']}{_for(each['agent'])}" for each in found.wanted]
    lines += [f"#{each['pull']} would also close #{each['issue']}" for each in found.rivals]
    lines += [f"item {item.id} {item.status} {item.type}{_for(item.agent)}" for item in found.items]
    for delivery in found.deliveries:
        when = "waits for a person" if delivery.due_at is None else f"retried at {delivery.due_at:%H:%M:%S}"
        lines.append(f"delivery {delivery.delivery} ({delivery.event}) {when}: {delivery.why or 'new'}")
    for each in found.follows:
        said = ": " + each.outcome if each.outcome else ""
        lines.append(f"{_DONE.get(each.do, each.do)} ({each.name}) {each.status}{said}")
    for effect in found.effects:
        lines.append(
            f"{effect.kind} {effect.name} {effect.status}{': ' + effect.outcome if effect.outcome else ''}"
        )
    for line in lines:
        console.print(Text(harmless(line)))
    items.links(console, found.links)


def unsent(found: OwedView) -> Text | None:
    """A line on the effects queued for GitHub, for other pages; None if there are none."""
    if found.dead:
        more = f", {_up_to(found.dead)} of them failed: interlock doctor"
        return Text(
            f"Queued for GitHub: {_up_to(found.owed + found.dead)}{more}", style="yellow", no_wrap=True
        )
    if found.owed:
        return Text(f"Queued for GitHub: {_up_to(found.owed)}: interlock github send", no_wrap=True)
    return None


def _up_to(n: int) -> str:
    return f"{n}+" if n >= 1_000 else str(n)


def passed(console: Console, found: SendPass) -> None:
    """The result of one pass of the outbox."""
    told = [f"{found.sent} sent"]
    told += [f"{n} {what}" for n, what in ((found.dropped, "dropped"), (found.put_off, "postponed")) if n]
    told += [f"{found.dead} failed: interlock doctor shows the reasons"] if found.dead else []
    console.print(f"{', '.join(told)}.")
    if found.stopped:
        console.print(Text(harmless(found.stopped)))
    if found.next_s is not None:
        console.print(f"More is queued: next in {span(max(1.0, found.next_s))}.")


def _for(agent: str | None) -> str:
    return f" for {agent}" if agent else ""


def reconciled(console: Console, found: Sequence[MissedEvents], ended: Sequence[Reconciled]) -> None:
    """What reconcile found in each repository, and the ended runs of hosted agents."""
    for each in found:
        more = "; more to read: reconcile again" if each.more else ""
        console.print(
            Text(
                harmless(
                    f"{each.repository}: {each.numbers} changed, {each.remarks} remarks,"
                    f" {each.deliveries} failed deliveries fetched{more}."
                )
            )
        )
    if not found:
        console.print(Text("No repositories yet. Name one with --repo OWNER/NAME."))
    if ended:
        hosted(console, ended)
