"""The answer to `add`: the decision on an arrival, the lane's holder, and next commands."""

from __future__ import annotations

from interlock.cli.page import Console, Text
from interlock.cli.views import words
from interlock.core.model import AHEAD_MAX, ArrivalDecision, Reason
from interlock.service.contract import AddView, WhyView
from interlock.service.item_view import ItemView

_STYLES = {
    ArrivalDecision.ADMITTED: "bold green",
    ArrivalDecision.QUEUED: "bold yellow",
    ArrivalDecision.COALESCED: "bold cyan",
    ArrivalDecision.SUPERSEDING: "bold yellow",
    ArrivalDecision.REJECTED: "bold red",
    ArrivalDecision.DUPLICATE: "bold cyan",
    ArrivalDecision.OBSERVED: "bold blue",
}

_STARTS_NOTHING: dict[str, str] = {
    Reason.OWN_MESSAGE: "starts nothing: our bot, its agent or the lane's last agent wrote it.",
    Reason.OUTSIDER: "starts nothing: an outsider wrote it, and no run can read it.",
    Reason.LOOP: "waits for a person: its lane has reached the wake-up limit.",
}


def answer(console: Console, answer: AddView, why: WhyView | None = None) -> None:
    """One sentence; with `why` also the holder, what happens next and what to type.

    `why` is about the item that carries the input or, if nothing was added, about the lane's holder.
    """
    verdict = ArrivalDecision(answer.decision)
    console.print(Text.assemble((f"{verdict.value}  ", _STYLES[verdict]), _sentence(verdict, answer, why)))
    if why is None:
        return
    held = words.holder(answer.holder) if answer.holder is not None else None
    console.print(
        words.facts(
            ("held by", held),
            ("policy", answer.policy_why),
            ("next", _next(verdict, answer, why)),
            *_to_type(answer, why),
        )
    )


def _sentence(verdict: ArrivalDecision, answer: AddView, why: WhyView | None) -> str:
    item = answer.item
    if item is None:
        return "The lane is taken; nothing was added."
    lane = item.lane or item.observed_lane
    if answer.reason in _STARTS_NOTHING:
        return f"Item {item.id} {_STARTS_NOTHING[answer.reason]}"
    if item.status == "waiting" and item.run_at is not None:
        return f"Item {item.id} waits until {words.at(item.run_at)}."
    state = why.state if why is not None else f"is ready for {item.agent or 'any agent'}"
    match verdict:
        case ArrivalDecision.ADMITTED:
            on_lane = f" on {lane}" if lane else ""
            return f"Item {item.id}{on_lane} {state}."
        case ArrivalDecision.QUEUED:
            shut = why.state if why is not None else f"waits: {lane} is shut"
            waits = f"waits for {lane}{_place(answer)}"
            return f"Item {item.id} {shut if answer.reason == Reason.SERIES_QUEUED else waits}."
        case ArrivalDecision.COALESCED:
            return f"Item {item.id} takes it in: the input is its message {item.messages}."
        case ArrivalDecision.SUPERSEDING:
            if item.status == "pending":
                return f"Item {item.id} takes {lane} over from one that had not started."
            held = answer.holder
            if held is not None and held.cancel_requested and held.expires_at is not None:
                return (
                    f"Item {item.id} waits for {lane}{_place(answer)}; {held.agent} (run {held.run}) was"
                    f" asked to stop and has until {words.at(held.expires_at)}."
                )
            return f"Item {item.id} waits for {lane}{_place(answer)}, instead of the earlier one."
        case ArrivalDecision.DUPLICATE:
            return f"This key was seen before: it is item {item.id}, now {item.status}."
        case ArrivalDecision.OBSERVED:
            return f"Item {item.id} {state}; {lane} is only observed ({answer.reason})."
        case ArrivalDecision.REJECTED:
            return "The lane is taken; nothing was added."


def _place(answer: AddView) -> str:
    if answer.position is None:
        return ""
    return f", place {answer.position}{' or later' if answer.position == AHEAD_MAX else ''} in the line"


def _next(verdict: ArrivalDecision, answer: AddView, why: WhyView) -> str | None:
    match verdict:
        case ArrivalDecision.REJECTED:
            return why.lane
        case ArrivalDecision.COALESCED:
            return _reader(answer.item)
        case _:
            return why.next


def _reader(item: ItemView | None) -> str | None:
    if item is None:
        return None
    if item.run is None:
        return "the run that claims it gets the message"
    return f"run {item.run} of {item.run_agent} gets it when it asks for its messages"


def _to_type(answer: AddView, why: WhyView) -> list[tuple[str, Text | str]]:
    if answer.item is None:
        return [("hint", "the same with --policy queue, to wait in the line")]
    return [*words.cure_lines(why.cures, "hint")] or [("hint", f"interlock why {answer.item.id}")]
