"""Short words for times, spans, states and holders, and the shape all tables share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from interlock.cli import cures, page
from interlock.cli.page import Table, Text, cell_len, chopped
from interlock.core.cures import Cure
from interlock.core.model import Reason
from interlock.core.timing import span
from interlock.service.contract import HolderView
from interlock.service.item_view import ItemView

QUIET = page.QUIET
STATUS_STYLES = {
    "waiting": "blue",
    "deferred": "yellow",
    "pending": "cyan",
    "asking": "yellow",
    "in_progress": "bold green",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "magenta",
    "superseded": "bright_black",
    "coalesced": "bright_black",
    "running": "bold green",
    "succeeded": "green",
    "timed_out": "red",
    "lost": "red",
    "released": "yellow",
    "refused": "bold red",
    "partially_failed": "red",
}
#: A longer word is cut in the middle where a line ends.
_WORD_MAX = 20
#: Ends of runs shown as failures in every view.
FAILURES = frozenset({"failed", "timed_out", "lost", "refused"})
#: Messages and errors come from anywhere and must not move the reader's cursor or change colours.
_CONTROLS = {n: f"\\x{n:02x}" for n in (*range(9), *range(11, 32), *range(127, 160))}
#: Nor change the direction of text.
_CONTROLS |= {n: f"\\u{n:04x}" for n in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
#: Escape sequences that move a terminal's cursor, set its colours or name its window.
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
#: A semicolon that is not in parentheses.
_CLAUSE_END = re.compile(r"; (?![^()]*\))")
_COUNT_ORDER = ("in_progress", "asking", "pending", "deferred", "waiting", "failed", "completed")


def now() -> datetime:
    return datetime.now(UTC)


def harmless(text: str) -> str:
    """The text with its control characters spelled out."""
    return text.translate(_CONTROLS)


def uncoloured(text: str) -> str:
    """A program's output without colours and cursor moves; other control characters are spelled out."""
    return harmless(_SEQUENCES.sub("", text))


def exactly(seconds: float) -> str:
    """A configured span, in the largest unit that gives a whole number."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:g} s"


def rates(*per_s: float) -> list[str]:
    """Rates, all in the first unit in which none rounds to zero."""
    least = min((each for each in per_s if each), default=1.0)
    unit, size = ("s", 1) if least >= 0.1 else ("min", 60) if least * 60 >= 0.1 else ("h", 3_600)
    return [f"{each * size:.1f}/{unit}" for each in per_s]


def relative(moment: datetime, today: datetime | None = None) -> str:
    """`12 s ago` or `in 48 s`."""
    seconds = (moment - (today or now())).total_seconds()
    words = span(round(abs(seconds)))
    if words == "0 s":
        return "now" if seconds > 0 else "just now"
    return f"in {words}" if seconds > 0 else f"{words} ago"


def clock(moment: datetime) -> str:
    """Local time, with the date where it is not today's."""
    local = moment.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now().astimezone().date() else f"{local:%Y-%m-%d %H:%M}"


def status(word: str) -> Text:
    return Text(word, style=STATUS_STYLES.get(word, ""))


def status_of(item: ItemView) -> str:
    """An item's status for people: an item that waits for a person is not shown as ready."""
    return "asking" if item.asking else item.status


def at(moment: datetime) -> str:
    """Clock time and distance: `14:02:11 (12 s ago)`."""
    return f"{clock(moment)} ({relative(moment)})"


def holder(held: HolderView) -> str:
    """The holder of a lane, since when and until when."""
    since = at(held.since)
    if held.run is None:
        state = "asking a person" if held.asking else "not started yet"
        return f"item {held.item} for {held.agent or 'any agent'}, {state}, since {since}"
    right = "asked to stop, has" if held.cancel_requested else "lease"
    until = f", {right} until {at(held.expires_at)}" if held.expires_at else ""
    if held.external and not held.cancel_requested:
        until = f", until {at(held.expires_at)} at most" if held.expires_at else ", until its end is reported"
    run = f"{'external ' if held.external else ''}run"
    asks = ", asking a person" if held.asking else ""
    return f"{held.agent or 'someone'}, {run} {held.run} of item {held.item}{asks}, since {since}{until}"


def counts(items: Mapping[str, int]) -> list[Text]:
    """The number of items in each status, active ones first."""
    order = [*_COUNT_ORDER, *(name for name in items if name not in _COUNT_ORDER)]
    return [Text.assemble(f"{items[name]} ", status(name)) for name in order if items.get(name)]


def who(item: ItemView) -> Text:
    """The agent that runs an item, or the one it is for."""
    if item.run is not None:
        return Text(item.run_agent or "?", style="bold")
    return Text(item.agent) if item.agent else Text("anyone", style=QUIET)


def when(item: ItemView, today: datetime | None = None) -> Text:
    """The time that matters for an item in its state."""
    if item.ended_at is not None:
        return Text(relative(item.ended_at, today), style=QUIET)
    if item.run is not None and item.cancel_requested:
        return Text("asked to stop", style="red")
    if item.external:
        return Text("external")
    if item.expires_at is not None:
        seconds = (item.expires_at - (today or now())).total_seconds()
        return Text(f"lease {span(seconds)}") if seconds > 0 else Text("lease expired", style="red")
    if item.reason == Reason.ASKED:
        return Text("asks", style="yellow")
    if item.blocked_by:
        return Text("blocked", style="yellow")
    if item.gated_by is not None:
        return Text("gated", style="yellow")
    if item.run_at is not None:
        return Text(f"due {relative(item.run_at, today)}", style="blue")
    return Text(relative(item.created_at, today))


def shorten(text: str, width: int) -> str:
    """Cut at the end."""
    return text if cell_len(text) <= width else _cut(text, width - 1).rstrip() + "…"


def _cut(text: str, width: int) -> str:
    return chopped(text, width)[0] if width > 0 else ""


def shorten_at_word(text: Text, width: int) -> Text:
    """Cut at the end of a word, unless the word is a long one."""
    if text.cell_len <= width:
        return text
    kept = len(_cut(text.plain, width - 1).rstrip())
    at_word = len(text.plain[: kept + 1].rpartition(" ")[0].rstrip(" ·"))
    cut = text[: at_word if at_word and kept - at_word <= _WORD_MAX else kept]
    return cut.append("…", style=QUIET)


def shorten_lane(lane: str, width: int) -> str:
    """Cut at the front: lanes differ in the number at their end."""
    return lane if len(lane) <= width else "…" + lane[len(lane) - width + 1 :] if width > 1 else "…"[:width]


def table(*columns: str, right: Sequence[str] = (), wrapped: Sequence[str] = ()) -> Table:
    """A table without lines: a header and columns.

    `right` names the columns of numbers, `wrapped` the ones that take several lines where the terminal is too
    narrow. Without one of those the caller sees to it that the rows fit: a table that does not fit loses
    whole columns.
    """
    return Table(*columns, right=right, wrapped=wrapped)


def split_clauses(text: str) -> list[str]:
    """The parts of a sentence between semicolons; those in parentheses are quotations."""
    return _CLAUSE_END.split(text)


def clauses(label: str, text: str) -> list[tuple[str, str]]:
    """Facts: a sentence, one clause a line. The first has a label."""
    return [(label if n == 0 else "", clause) for n, clause in enumerate(split_clauses(text))]


def cure_lines(found: Sequence[Cure], label: str = "") -> list[tuple[str, Text]]:
    """Facts: the commands that perform cures, and their effects. The first has a label."""
    lines: list[tuple[str, Text]] = []
    for line, effect in cures.rows(found):
        lines.append((label if not lines else "", Text.assemble((line, "cyan"), (f"  {effect}", QUIET))))
    return lines


def facts(*rows: tuple[str, Text | str | None]) -> Table:
    """Names and values, one a line; rows without a value are left out."""
    made = Table()
    for name, value in rows:
        if value is not None and value != "":
            made.add_row(f"  {name}", harmless(value) if isinstance(value, str) else value)
    return made
