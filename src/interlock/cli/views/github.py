"""What came from GitHub, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.page import Console, Text
from interlock.cli.views import items
from interlock.cli.views.words import harmless
from interlock.core.timing import span

if TYPE_CHECKING:
    from interlock.github.carrying import Done
    from interlock.github.hosted import Reconciled
    from interlock.github.intake import Ingested
    from interlock.github.outbox import Passed
    from interlock.github.reconcile import Missed
    from interlock.github.standing import NumberView
    from interlock.service.contract import OwedView

_STATUS = {"decided": "Decided", "repeated": "Nothing to do", "put_off": "Kept for later"}

#: What followed, in words.
_DONE = {
    "add": "work",
    "tell": "message",
    "withdraw": "no longer wanted",
    "adjust": "priority",
    "command": "command",
    "show": "pull request",
    "block": "blocked",
    "unblock": "no longer blocked",
}


def ingested(console: Console, found: Ingested) -> None:
    """What became of a delivery, and each thing that was done."""
    console.print(Text(harmless(f"{_STATUS[found.status]}: {found.outcome}")))
    for done in found.done:
        console.print(Text(harmless(f"  {_done(done)}")))


def _done(done: Done) -> str:
    return f"{_DONE.get(done.do, done.do)}: {done.outcome}" + (" (not done)" if done.put_off else "")


def hosted(console: Console, ended: Sequence[Reconciled]) -> None:
    """The runs of hosted agents whose ends were seen."""
    for each in ended:
        console.print(Text(harmless(f"Item {each.item}, run {each.run}: {each.outcome} ({each.why})")))
    if not ended:
        console.print(Text("No run has ended since the last look."))


def number(console: Console, found: NumberView) -> None:
    """A number: what it is, what is open, what is owed, what was done."""
    facts = found.facts
    state = f"{facts['state']}: {facts['title']}" if facts else "not looked at yet"
    lines = [f"{found.repository}#{found.number}  {state}", f"lane {found.lane}"]
    lines += [f"wants {each['type']}{_for(each['agent'])}" for each in found.wanted]
    lines += [f"#{each['pull']} would close #{each['issue']} too" for each in found.rivals]
    lines += [f"item {item.id} {item.status} {item.type}{_for(item.agent)}" for item in found.items]
    for delivery in found.deliveries:
        when = (
            "waits for a person" if delivery.due_at is None else f"tried again at {delivery.due_at:%H:%M:%S}"
        )
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


def owed(found: OwedView) -> Text | None:
    """A line on what is owed to GitHub, for pages that show other things; None if that is nothing."""
    if found.dead:
        more = f", {_up_to(found.dead)} of which a person must look at: interlock doctor"
        return Text(f"Owed to GitHub: {_up_to(found.owed + found.dead)}{more}", style="yellow", no_wrap=True)
    if found.owed:
        return Text(f"Owed to GitHub: {_up_to(found.owed)}: interlock github send", no_wrap=True)
    return None


def _up_to(n: int) -> str:
    return f"{n}+" if n >= 1_000 else str(n)


def passed(console: Console, found: Passed) -> None:
    """What one pass of a sender did."""
    told = [f"{found.sent} sent"]
    told += [f"{n} {what}" for n, what in ((found.dropped, "dropped"), (found.put_off, "put off")) if n]
    told += [f"{found.dead} for a person: interlock doctor names the reasons"] if found.dead else []
    console.print(f"{', '.join(told)}.")
    if found.stopped:
        console.print(Text(harmless(found.stopped)))
    if found.next_s is not None:
        console.print(f"More is owed: the next in {span(max(1.0, found.next_s))}.")


def _for(agent: str | None) -> str:
    return f" for {agent}" if agent else ""


def reconciled(console: Console, found: Sequence[Missed], ended: Sequence[Reconciled]) -> None:
    """What a look at each repository found that was not known, and the runs of hosted agents that ended."""
    for each in found:
        more = "; there is more, look again" if each.more else ""
        console.print(
            Text(
                harmless(
                    f"{each.repository}: {each.numbers} changed, {each.remarks} remarks,"
                    f" {each.deliveries} failed deliveries fetched{more}."
                )
            )
        )
    if not found:
        console.print(Text("No repository is followed yet; name one with --repo OWNER/NAME."))
    if ended:
        hosted(console, ended)
