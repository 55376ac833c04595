"""The messages of lane commits: they say what changed. The first line is the subject in `git log`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.core.model import Event, EventKind, Item, Reason
from interlock.service.item_view import moment

SUBJECT_MAX_CHARS = 120

_WORDS: Mapping[str, str] = {
    EventKind.ITEM_ADDED: "item {item} {verdict}",
    EventKind.ITEM_COALESCED: "item {item} became a message of item {into_item}",
    EventKind.ITEM_SUPERSEDED: "item {item} was superseded by item {by_item}",
    EventKind.ITEM_PARKED: "item {item} waits out its back-off",
    EventKind.ITEM_REENTERED: "item {item} came back and is {status}",
    EventKind.ITEM_CANCELLED: "item {item} was cancelled",
    EventKind.CANCEL_REQUESTED: "run {run} is asked to stop",
    EventKind.MESSAGE_ADDED: "item {item} got a message",
    EventKind.LANE_PROMOTED: "item {item} is next",
    EventKind.LANE_OVERTAKEN: "item {item} was overtaken by item {by_item}",
    EventKind.ITEM_OBSERVED: "item {item} is only observed",
    EventKind.GATE_OPENED: "the gate of {series} is open",
    EventKind.GATE_CLOSED: "the gate of {series} is shut",
    EventKind.GATE_REMOVED: "the gate of {series} is gone",
    EventKind.SERIES_YIELDED: "item {item} gives its place in the series back",
}
_ENDS = frozenset({"succeeded", "failed", "timed out"})


def event_lines(events: Sequence[Event]) -> tuple[str, ...]:
    """One line for each event of a decision."""
    return tuple(_line(event) for event in events)


def _line(event: Event) -> str:
    reason = f" ({event.reason})" if event.reason and event.reason != Reason.REPORTED else ""
    form = _WORDS.get(event.kind)
    if form is not None:
        words = form.format(item=event.item, run=event.run, **{"verdict": "was added", **event.data})
    else:
        what = event.kind.partition(".")[2].replace("_", " ")
        words = f"run {event.run} of {event.agent} {'' if what in _ENDS else 'ended: '}{what}"
    return f"{words}{reason}"


def started_line(item: Item) -> str:
    """A run starts."""
    state = item.state
    where = f" on {state.run_worker}" if state.run_worker else ""
    run = f"{'external ' if item.external else ''}run {state.run}"
    return f"{run} of {state.run_agent}{where} holds the lane for item {item.id} ({item.spec.title})"


def renewed_line(item: Item) -> str:
    """A run renews its lease."""
    due_us = item.state.due_us
    until = "its end is seen" if due_us is None else f"{moment(due_us):%Y-%m-%d %H:%M:%S} UTC"
    asked = ", asked to stop," if item.state.cancel_into is not None else ""
    return f"run {item.state.run} of {item.state.run_agent}{asked} keeps the lane until {until}"


def subject(lines: Sequence[str]) -> str:
    """The subject of a commit: the first line, then the second line or the number of further lines."""
    first, *others = lines
    if len(first) > SUBJECT_MAX_CHARS:
        first = f"{first[: SUBJECT_MAX_CHARS - 1]}…"
    if not others:
        return first
    return f"{first}; {others[0] if len(others) == 1 else f'and {len(others)} more'}"
