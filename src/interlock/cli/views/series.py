"""Series of issues, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.cli.page import Console, Text
from interlock.cli.views.words import harmless

if TYPE_CHECKING:
    from interlock.service.series import Acquired, Cycle, SeriesView

_STATES = {
    "free": "no active issue",
    "promoted": "promoted, not yet assigned",
    "assigning": "assigning",
    "assigned": "assigned",
    "unassigned": "no longer assigned",
    "unreadable": "unreadable, counts as held",
}


def status(console: Console, found: Sequence[SeriesView], wanted: str | None = None) -> None:
    """Each series: its active issue, its queue, blocked and ignored issues, problems."""
    for view in found:
        active = f"#{view.active_issue} " if view.active_issue is not None else ""
        to = f" to {view.assignee}" if view.assignee and view.state in ("assigning", "assigned") else ""
        _line(
            console,
            f"{view.series}  {active}{_STATES[view.state]}{to}  ({view.mode}, prefixes {view.prefixes})",
        )
        if view.queue:
            _line(console, f"  queue: {_numbers(view.queue)}")
        for each in view.waiting:
            _line(console, f"  #{each.number} {each.why}")
        for each in view.ignored:
            _line(console, f"  #{each.number} ignored: {each.why}")
        for problem in view.problems:
            _line(console, f"  ! {problem}")
    if not found:
        what = "No series yet." if wanted is None else f"There is no series {wanted}."
        _line(console, f"{what} `interlock series reconcile` finds the series of a repository.")


def acquired(found: Acquired) -> str:
    """The outcome of `acquire`, as a sentence."""
    other = "" if found.active_issue is None else f": #{found.active_issue} is active"
    match found.status:
        case "no-series":
            return f"#{found.issue} is not in a series."
        case "acquired":
            return f"#{found.issue} is now the active issue of {found.series}."
        case "already-active":
            return f"#{found.issue} is already the active issue of {found.series}."
        case "ignored":
            return f"#{found.issue} is ignored: {found.why}."
        case "queued":
            return f"#{found.issue} is number {found.position} in the queue of {found.series}{other}."
        case _:
            needs = ", ".join(found.needs)
            return f"#{found.issue} is blocked by {needs}." if needs else f"#{found.issue} is blocked."


def cycles(console: Console, found: Sequence[Cycle]) -> None:
    """The result of a cycle for each series."""
    for cycle in found:
        active = f"#{cycle.active_issue} is active" if cycle.active_issue is not None else "no active issue"
        line = f", queue: {_numbers(cycle.queue)}" if cycle.queue else ""
        _line(console, f"{cycle.series}  {active}{line}")
        for each in cycle.done:
            _line(console, f"  {each}")
        for problem in cycle.problems:
            _line(console, f"  ! {problem}")
    if not found:
        _line(console, "The repository has no open issue of a series.")


def metrics(console: Console, found: Mapping[str, Any]) -> None:
    """The counts of all series, then of each."""
    for name, counts in (("all series", found), *found["series"].items()):
        last = counts["last_cycle"]
        shown = ", ".join(f"{each.replace('_', ' ')} {counts[each]} ({last[each]})" for each in last)
        _line(console, f"{name}: {shown}")
    _line(console, "In parentheses: counts of the last reconcile.")


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)


def _line(console: Console, text: str) -> None:
    console.print(Text(harmless(text)))
