"""What came from GitHub, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli.page import Console, Text
from interlock.cli.views.words import harmless

if TYPE_CHECKING:
    from interlock.github.carrying import Done
    from interlock.github.intake import Ingested
    from interlock.github.standing import NumberView

_STATUS = {"decided": "Decided", "repeated": "Nothing to do", "put_off": "Kept for later"}


def ingested(console: Console, found: Ingested) -> None:
    """What became of a delivery, and each thing that was done."""
    console.print(Text(harmless(f"{_STATUS[found.status]}: {found.outcome}")))
    for done in found.done:
        console.print(Text(harmless(f"  {_done(done)}")))


def _done(done: Done) -> str:
    return f"{done.name}: {done.outcome}" + (" (not done)" if done.put_off else "")


def number(console: Console, found: NumberView) -> None:
    """A number: what it is, what is open, what is owed, what was done."""
    facts = found.facts
    state = f"{facts['state']}: {facts['title']}" if facts else "not looked at yet"
    lines = [f"{found.repository}#{found.number}  {state}", f"lane {found.lane}"]
    lines += [f"wants {each['type']}{_for(each['agent'])}" for each in found.wanted]
    lines += [f"item {item.id} {item.status} {item.type}{_for(item.agent)}" for item in found.items]
    for delivery in found.deliveries:
        when = (
            "waits for a person" if delivery.due_at is None else f"tried again at {delivery.due_at:%H:%M:%S}"
        )
        lines.append(f"delivery {delivery.delivery} ({delivery.event}) {when}: {delivery.why or 'new'}")
    for each in found.follows:
        lines.append(f"{each.name} {each.status}{': ' + each.outcome if each.outcome else ''}")
    for line in lines:
        console.print(Text(harmless(line)))


def _for(agent: str | None) -> str:
    return f" for {agent}" if agent else ""
