"""The answer to `add`: what became of an arrival, who is in its way, and what to type."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from interlock.cli.views import words
from interlock.core.model import Verdict
from interlock.core.why import AHEAD_MAX
from interlock.service.contract import AddView
from interlock.service.itemview import ItemView

_STYLES = {
    Verdict.ADMITTED: "bold green",
    Verdict.QUEUED: "bold yellow",
    Verdict.COALESCED: "bold cyan",
    Verdict.SUPERSEDING: "bold yellow",
    Verdict.REJECTED: "bold red",
    Verdict.DUPLICATE: "bold cyan",
    Verdict.OBSERVED: "bold blue",
}


def answer(console: Console, answer: AddView, *, detailed: bool) -> None:
    """One sentence; with `detailed` also the holder, what happens next and what to type."""
    verdict = Verdict(answer.decision)
    console.print(Text.assemble((f"{verdict.value}  ", _STYLES[verdict]), _sentence(verdict, answer)))
    if not detailed:
        return
    held = words.holder(answer.holder) if answer.holder is not None else None
    console.print(
        words.facts(("held by", held), ("next", _next(verdict, answer)), ("type", _to_type(answer)))
    )


def _sentence(verdict: Verdict, answer: AddView) -> str:
    item = answer.item
    if item is None:
        return "The lane is taken; nothing was added."
    lane = item.lane or item.observed_lane
    if item.status == "waiting" and item.run_at is not None:
        return f"Item {item.id} waits until {words.at(item.run_at)}."
    match verdict:
        case Verdict.ADMITTED:
            on_lane = f" on {lane}" if lane else ""
            return f"Item {item.id}{on_lane} may be claimed by {item.agent or 'any agent'}."
        case Verdict.QUEUED:
            return f"Item {item.id} waits for {lane}{_place(answer)}."
        case Verdict.COALESCED:
            return f"Item {item.id} takes it in: the input is its message {item.messages}."
        case Verdict.SUPERSEDING:
            if item.status == "pending":
                return f"Item {item.id} takes {lane} over from one that had not started."
            held = answer.holder
            if held is not None and held.cancel_requested and held.expires_at is not None:
                return (
                    f"Item {item.id} waits for {lane}{_place(answer)}; {held.agent} (run {held.run}) was"
                    f" asked to stop and has until {words.at(held.expires_at)}."
                )
            return f"Item {item.id} waits for {lane}{_place(answer)}, instead of the earlier one."
        case Verdict.DUPLICATE:
            return f"This key was seen before: it is item {item.id}, now {item.status}."
        case Verdict.OBSERVED:
            return f"Item {item.id} may be claimed; {lane} is only observed ({answer.reason})."
        case Verdict.REJECTED:
            return "The lane is taken; nothing was added."


def _place(answer: AddView) -> str:
    if answer.position is None:
        return ""
    return f", place {answer.position}{' or later' if answer.position == AHEAD_MAX else ''} in the line"


def _next(verdict: Verdict, answer: AddView) -> str | None:
    held, item = answer.holder, answer.item
    match verdict:
        case Verdict.REJECTED:
            return "try again when the lane is free, or add it with --policy queue"
        case Verdict.QUEUED | Verdict.SUPERSEDING if (
            held is not None and item is not None and item.status != "pending"
        ):
            which = "it moves up" if answer.position == 1 else "the line moves up"
            if held.run is None:
                return f"{which} when item {held.item} has run"
            last = "grace" if held.cancel_requested else "lease"
            return f"{which} when run {held.run} ends, or when its {last} is over"
        case Verdict.COALESCED:
            return _reader(item)
        case _:
            return None


def _reader(item: ItemView | None) -> str | None:
    if item is None:
        return None
    return f"run {item.run} of {item.run_agent} reads it" if item.run is not None else "its next run reads it"


def _to_type(answer: AddView) -> str | None:
    if answer.item is None:
        return f"interlock show {answer.holder.item}" if answer.holder is not None else None
    if answer.item.status == "pending":
        name = answer.item.agent or "NAME"
        return f"interlock next --agent {name}"
    return f"interlock why {answer.item.id}"
