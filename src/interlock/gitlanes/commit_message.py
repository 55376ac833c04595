"""What a commit did to its lane, in words: the first line is its subject in `git log`."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core.model import Event, EventKind, Item, Reason
from interlock.service.itemview import moment

SUBJECT_MAX_CHARS = 120

_SAYS = {
    EventKind.ITEM_ADDED: "item {item} {verdict}",
    EventKind.ITEM_COALESCED: "item {item} became a message of item {into_item}",
    EventKind.ITEM_SUPERSEDED: "item {item} gave way to item {by_item}",
    EventKind.ITEM_PARKED: "item {item} waits out its back-off",
    EventKind.ITEM_REENTERED: "item {item} came back and is {status}",
    EventKind.ITEM_CANCELLED: "item {item} was cancelled",
    EventKind.CANCEL_REQUESTED: "run {run} is asked to stop",
    EventKind.MESSAGE_ADDED: "item {item} was told something",
    EventKind.LANE_PROMOTED: "item {item} is next",
}


def told(events: Sequence[Event]) -> tuple[str, ...]:
    """One line for each event of a decision."""
    return tuple(_line(event) for event in events)


def began(item: Item) -> str:
    """A run starts."""
    state = item.state
    where = f" on {state.run_worker}" if state.run_worker else ""
    return (
        f"run {state.run} of {state.run_agent}{where} holds the lane for item {item.id} ({item.spec.title})"
    )


def kept(item: Item) -> str:
    """A run renews its lease."""
    assert item.state.due_us is not None
    until = f"{moment(item.state.due_us):%Y-%m-%d %H:%M:%S} UTC"
    asked = ", asked to stop," if item.state.cancel_into is not None else ""
    return f"run {item.state.run} of {item.state.run_agent}{asked} keeps the lane until {until}"


def subject(lines: Sequence[str]) -> str:
    """The subject of a commit: what happened first, and how much more."""
    first = lines[0]
    if len(first) > SUBJECT_MAX_CHARS:
        first = f"{first[: SUBJECT_MAX_CHARS - 1]}…"
    return (
        first
        if len(lines) == 1
        else f"{first}; {lines[1] if len(lines) == 2 else f'and {len(lines) - 1} more'}"
    )


def _line(event: Event) -> str:
    reason = f" ({event.reason})" if event.reason and event.reason != Reason.REPORTED else ""
    form = _SAYS.get(event.kind)
    if form is not None:
        words = form.format(item=event.item, run=event.run, **{"verdict": "was added", **event.data})
    else:
        what = event.kind.value.partition(".")[2].replace("_", " ")
        words = f"run {event.run} of {event.agent} {'ended: ' if what not in _ENDS else ''}{what}"
    return f"{words}{reason}"


_ENDS = frozenset({"succeeded", "failed", "timed out"})
