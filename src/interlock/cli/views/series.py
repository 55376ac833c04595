"""Series of issues, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.cli.page import Console, Text
from interlock.cli.views.words import harmless

if TYPE_CHECKING:
    from interlock.service.series import Acquired, Cycle, SeriesView

_STATES = {
    "free": "nobody is active",
    "promoted": "promoted, not assigned yet",
    "assigning": "assigning",
    "assigned": "assigned",
    "unassigned": "its assignment is gone",
    "unreadable": "counts as held",
}


def standing(console: Console, found: Sequence[SeriesView], wanted: str | None = None) -> None:
    """Each series: its active issue, the line, what waits."""
    for view in found:
        active = f"#{view.active_issue} " if view.active_issue is not None else ""
        to = f" to {view.assignee}" if view.assignee and view.state in ("assigning", "assigned") else ""
        _line(
            console,
            f"{view.series}  {active}{_STATES[view.state]}{to}  ({view.mode}, prefixes {view.prefixes})",
        )
        if view.queue:
            _line(console, f"  in line: {_numbers(view.queue)}")
        for each in view.waiting:
            _line(console, f"  #{each.number} {each.why}")
        for each in view.ignored:
            _line(console, f"  #{each.number} ignored: {each.why}")
        for problem in view.problems:
            _line(console, f"  ! {problem}")
    if not found:
        what = "No series is known yet." if wanted is None else f"{wanted} is not known here."
        _line(console, f"{what} `interlock series reconcile` looks for series.")


def acquired(found: Acquired) -> str:
    """What came of the wish for an issue, as a sentence."""
    other = f"#{found.active_issue} has {found.series}" if found.active_issue is not None else ""
    match found.status:
        case "no-series":
            return f"#{found.issue} is in no series: nothing holds it back."
        case "acquired":
            return f"#{found.issue} has {found.series} now."
        case "already-active":
            return f"#{found.issue} has {found.series} already."
        case "ignored":
            return f"#{found.issue} is ignored: {found.why}."
        case "queued":
            return f"#{found.issue} is number {found.position} in line{': ' + other if other else ''}."
        case _:
            needs = ", ".join(found.needs) or "something else"
            return f"#{found.issue} waits for {needs}."


def cycles(console: Console, found: Sequence[Cycle]) -> None:
    """What was done to each series."""
    for cycle in found:
        active = f"#{cycle.active_issue} is active" if cycle.active_issue is not None else "nobody is active"
        line = f", in line: {_numbers(cycle.queue)}" if cycle.queue else ""
        _line(console, f"{cycle.series}  {active}{line}")
        for each in cycle.done:
            _line(console, f"  {each}")
        for problem in cycle.problems:
            _line(console, f"  ! {problem}")
    if not found:
        _line(console, "There is no issue of a series.")


def metrics(console: Console, found: Mapping[str, Any]) -> None:
    """The counts of all series, then of each."""
    for name, counts in (("all series", found), *found["series"].items()):
        last = counts["last_cycle"]
        shown = ", ".join(f"{each.replace('_', ' ')} {counts[each]} ({last[each]})" for each in last)
        _line(console, f"{name}: {shown}")
    _line(console, "In parentheses: of the last reconcile.")


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)


def _line(console: Console, text: str) -> None:
    console.print(Text(harmless(text)))
