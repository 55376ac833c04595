"""A timeline: runs as bars in rows, side by side where they overlap, with the waits before them.

Places in time are percentages, so the chart is as wide as its page, and its texts are not stretched. A bar is
a link; its details are a text in it, which the stylesheet shows above the rows while the bar is pointed at or
focused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from markupsafe import Markup, escape

from interlock.core.row import NamedTuple

#: The most bars beside each other in a row. What overlaps even more is drawn over the last of them.
TRACKS_MAX = 6
_TOP, _TRACK, _PADDING, _BAR = 64, 15, 9, 12
#: Distances of the lines of time.
_STEPS_S = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
_LINES_MAX = 7
#: How a run ended, or that it goes on, and how its bar is filled: a class, or a pattern of that class.
PATTERNS = {"lost": "run-stripes", "failed": "run-crosses", "timed_out": "run-pillars"}
OUTCOMES = ("running", "succeeded", "failed", "lost", "timed_out", "cancelled", "released")


class RunBar(NamedTuple):
    """One run: its time, how it ended, where it leads to, and two lines of details."""

    begin: datetime
    #: None: it goes on.
    end: datetime | None
    outcome: str
    href: str
    details: tuple[str, str]


class WaitSpan(NamedTuple):
    """A time in which an item of the row waited for its run."""

    begin: datetime
    end: datetime


class TimelineRow(NamedTuple):
    """The bars of a row side by side, one list for each track, and its merged waits."""

    tracks: list[list[RunBar]]
    waits: list[WaitSpan]

    @property
    def height(self) -> int:
        return len(self.tracks) * _TRACK + _PADDING


class TimeWindow(NamedTuple):
    """The time that a chart shows. `now` is later than its end if it shows the past alone."""

    begin: datetime
    end: datetime
    now: datetime

    def place(self, at: datetime) -> float:
        """Where a time is, in percent of the width."""
        part = (at - self.begin) / (self.end - self.begin)
        return round(100 * min(1.0, max(0.0, part)), 2)


def timeline_row(bars: Sequence[RunBar], waits: Sequence[WaitSpan], window: TimeWindow) -> TimelineRow:
    """A row: overlapping bars get tracks of their own, overlapping waits become one."""
    tracks: list[list[RunBar]] = [[]]
    for bar in sorted(bars, key=lambda each: each.begin):
        free = next((track for track in tracks if not track or _ends(track[-1], window) <= bar.begin), None)
        if free is None and len(tracks) < TRACKS_MAX:
            tracks.append(free := [])
        (tracks[-1] if free is None else free).append(bar)
    return TimelineRow(tracks, list(_merged(waits)))


def _ends(bar: RunBar, window: TimeWindow) -> datetime:
    return max(window.now, bar.begin) if bar.end is None else bar.end


def _merged(waits: Sequence[WaitSpan]) -> Iterator[WaitSpan]:
    last: WaitSpan | None = None
    for each in sorted(waits):
        if last is not None and each.begin <= last.end:
            last = WaitSpan(last.begin, max(last.end, each.end))
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


def timeline(lanes: Sequence[TimelineRow], window: TimeWindow, label: str) -> Markup:
    """The chart. Beside it stand the names of its rows, each as high as `height` says."""
    height = _TOP + sum(each.height for each in lanes) + 4
    parts = [
        f'<svg class="timeline" width="100%" height="{height}" role="group" aria-label="{escape(label)}">',
        _PATTERNS,
        *_lines_of_time(window, height),
    ]
    top = _TOP
    for n, each in enumerate(lanes):
        if n % 2:
            parts.append(f'<rect class="stripe" y="{top}" width="100%" height="{each.height}"/>')
        parts += _row(each, top, window)
        top += each.height
    if window.begin <= window.now <= window.end:
        x = window.place(window.now)
        parts.append(
            f'<line class="now" x1="{x}%" x2="{x}%" y1="{_TOP - 6}" y2="{height}" stroke="currentColor"/>'
        )
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704  (numbers, and escaped texts)


def _row(row: TimelineRow, top: int, window: TimeWindow) -> Iterator[str]:
    for wait in row.waits:
        x, width = _span(wait.begin, wait.end, window)
        if width > 0.2:
            y = top + row.height - 5
            yield f'<rect class="wait" x="{x}%" y="{y}" width="{width}%" height="3" fill="currentColor"/>'
    for n, track in enumerate(row.tracks):
        for bar in track:
            yield _bar(bar, top + 3 + n * _TRACK, window)
    for n, track in enumerate(row.tracks):  # above the bars, as the next run may begin where one crashed
        for bar in track:
            if bar.outcome == "lost":
                x, y = window.place(_ends(bar, window)), top + 3 + n * _TRACK + _BAR // 2
                yield f'<use href="#run-crash" class="crash" x="{x}%" y="{y}"/>'


def _bar(bar: RunBar, y: int, window: TimeWindow) -> str:
    x, width = _span(bar.begin, _ends(bar, window), window)
    pattern = PATTERNS.get(bar.outcome)
    fill = f' fill="url(#{pattern})"' if pattern else ""
    first, second = (escape(line) for line in bar.details)
    return (
        f'<a href="{escape(bar.href)}" class="{escape(bar.outcome)}">'
        f'<rect x="{x}%" y="{y}" width="{width}%" height="{_BAR}"{fill}/>'
        f'<text>{first}<tspan x="0" dy="16">{second}</tspan></text></a>'
    )


def _span(begin: datetime, end: datetime, window: TimeWindow) -> tuple[float, float]:
    x = window.place(begin)
    return x, round(window.place(end) - x, 2)


def _lines_of_time(window: TimeWindow, height: int) -> Iterator[str]:
    whole_s = (window.end - window.begin).total_seconds()
    step_s = next((step for step in _STEPS_S if whole_s / step <= _LINES_MAX), 86_400)
    if whole_s / step_s > _LINES_MAX:
        step_s *= int(whole_s / step_s / _LINES_MAX) + 1
    first = -(-window.begin.timestamp() // step_s) * step_s
    for n in range(_LINES_MAX + 1):
        at = datetime.fromtimestamp(first, UTC) + timedelta(seconds=n * step_s)
        if at > window.end:
            return
        x = window.place(at)
        form = "%H:%M" if whole_s <= 86_400 else "%d %b" if step_s >= 86_400 else "%d %b %H:%M"
        yield f'<line class="grid" x1="{x}%" x2="{x}%" y1="{_TOP - 6}" y2="{height}" stroke="currentColor"/>'
        if 3 <= x <= 96:
            yield f'<text class="tick" x="{x}%" y="{_TOP - 12}">{at:{form}}</text>'


def swatch(outcome: str) -> Markup:
    """A bar as a legend shows it."""
    pattern = PATTERNS.get(outcome)
    fill = f' fill="url(#{pattern})"' if pattern else ""
    inside = f'<rect x="1" y="2" width="22" height="10"{fill}/>'
    if outcome == "wait":
        inside = '<rect x="1" y="6" width="22" height="3" fill="currentColor"/>'
    return Markup(  # noqa: S704  (a constant and a known word)
        f'<svg class="swatch {escape(outcome)}" width="24" height="14" aria-hidden="true">{inside}</svg>'
    )


_PATTERNS = (
    "<defs>"
    '<pattern id="run-stripes" class="lost" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" class="ground"/>'
    '<rect width="2.5" height="6" class="ink"/></pattern>'
    '<pattern id="run-crosses" class="failed" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<rect width="5" height="5" class="ink"/><path d="M0 0L5 5M5 0L0 5" class="thread"/></pattern>'
    '<pattern id="run-pillars" class="timed_out" width="4" height="4" patternUnits="userSpaceOnUse">'
    '<rect width="4" height="4" class="ground"/><rect width="2" height="4" class="ink"/></pattern>'
    '<path id="run-crash" d="M-4-4L4 4M-4 4L4-4" fill="none" stroke="currentColor"/>'
    "</defs>"
)
