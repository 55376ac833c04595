"""`top`: a live frame of the store, redrawn until q or Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from math import inf
from typing import TYPE_CHECKING

from interlock.core.record import Record
from interlock.core.store_outage import StoreOutage, waiting
from interlock.service.contract import (
    EventView,
    ItemFilter,
    LaneView,
    OwedView,
    PoolView,
    Service,
    StatsView,
)
from interlock.service.item_view import ItemView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from interlock.cli.page import Text

_WINDOW_S = 300.0
_ROWS_MAX = 50
#: A terminal with fewer lines gets no blank ones, and not every question.
_ROOMY = 30
_ASKING_IF_SMALL = 2
#: Items that have not started; claimable ones first.
_WAITING = ("pending", "deferred", "waiting")
_ENDING_KEYS = ("q", "Q", "\x03", "\x04")
#: How long to look for a key after each attempt to reach an unreachable store.
_LOOK_S = 0.1


class Frame(Record):
    """The store's state for one frame."""

    stats: StatsView
    pools: list[PoolView]
    lanes: list[LaneView]
    asking: list[ItemView]
    running: list[ItemView]
    pending: list[ItemView]
    #: Behind the owner of their lane.
    deferred: list[ItemView]
    #: Due later, or tasks whose predecessors have not ended.
    waiting: list[ItemView]
    #: Items that wait for a person.
    stopped: list[ItemView]
    github: OwedView
    events: list[EventView]


def look(service: Service) -> Frame:
    """Read everything that a frame shows."""
    return Frame(
        stats=service.stats(window_s=_WINDOW_S),
        pools=service.pools(),
        lanes=service.lanes(limit=_ROWS_MAX),
        asking=service.items(ItemFilter(asking=True, limit=_ROWS_MAX)),
        running=service.items(ItemFilter(statuses=("in_progress",), limit=_ROWS_MAX)),
        pending=service.items(ItemFilter(statuses=("pending",), limit=_ROWS_MAX)),
        deferred=service.items(ItemFilter(statuses=("deferred",), limit=_ROWS_MAX)),
        waiting=service.items(ItemFilter(statuses=("waiting",), limit=_ROWS_MAX)),
        stopped=service.stopped(limit=_ROWS_MAX),
        github=service.owed_to_github(),
        events=service.events(limit=20, newest=True),
    )


def watch(
    console: Console, service: Service, every_s: float, outage: StoreOutage, *, warning: str | None = None
) -> None:
    """Draw until q or Ctrl-C; only one frame if the output is not a terminal."""
    if not console.is_terminal:
        console.print(draw(look(service), console.width, None))
        return
    redraw(
        console,
        lambda: draw(look(service), console.width, console.height),
        every_s,
        outage,
        warning=warning,
    )


def redraw(
    console: Console,
    frame: Callable[[], RenderableType | None],
    every_s: float,
    outage: StoreOutage,
    *,
    warning: str | None = None,
) -> None:
    """Draw frame after frame on the whole terminal until q or Ctrl-C, or until `frame` answers None.

    A warning is above each frame.

    While the store is unreachable, a line above the last frame says so. A terminal that cannot be redrawn
    gets frames one below the other.
    """
    from rich.console import Group
    from rich.live import Live

    from interlock.cli.page import Text

    drawn: RenderableType | None = None
    tell = outage.on_change
    plain = console.is_dumb_terminal
    screen = nullcontext() if plain else Live(console=console, screen=True, auto_refresh=False)

    def show_outage(what: str | None) -> None:
        if live is None:
            tell(what)
        elif what is not None:  # else the next frame shows it
            notice = Text(waiting(what), style="bold red")
            live.update(Group(notice, drawn or ""), refresh=True)
            if pressed(_LOOK_S) in _ENDING_KEYS:
                raise _Ended

    with suppress(_Ended), _keys() as pressed, screen as live:
        outage.on_change = show_outage
        while (drawn := frame()) is not None:
            if live is None:
                console.print(drawn)
            else:
                above = Text(warning, style="bold red") if warning else None
                live.update(Group(above, drawn) if above else drawn, refresh=True)
            if pressed(every_s) in _ENDING_KEYS:
                break
    outage.on_change = tell


class _Ended(Exception):
    """A key ended the wait for an unreachable store."""


def draw(frame: Frame, width: int, height: int | None) -> RenderableType:
    """A frame that fits the terminal: what runs, what waits and behind which lanes, and the newest events."""
    from rich.console import Group

    from interlock.cli.page import Text
    from interlock.cli.views import agents, github, history, items, words

    counts = fitting(words.counts(frame.stats.items), width) if frame.stats.items else Text("no items")
    # Always per minute: one event in the whole window is 0.2.
    claimed, done = (f"{n * 60:.1f}/min" for n in (frame.stats.claims_per_s, frame.stats.completions_per_s))
    lost, refused = frame.stats.lease_losses, frame.stats.refused_writes
    figures = Text(f"{claimed} claimed  {done} done  ", style=words.QUIET, no_wrap=True, overflow="ellipsis")
    for n, what in ((lost, "lease{s} lost"), (refused, "write{s} refused")):
        figures.append(f"{n} {what.format(s='' if n == 1 else 's')}  ", style="red" if n else "")
    figures.append(f"(last {words.exactly(_WINDOW_S)})")
    parts: list[RenderableType] = [
        Text.assemble(
            ("interlock  ", "bold"), words.clock(words.now()), ("   q ends" if height else "", words.QUIET)
        ),
        counts,
        figures,
    ]
    if frame.pools:
        used = (f"{pool.name} {pool.running} of {pool.max}" for pool in frame.pools)
        shown = f"pools: {', '.join(used)}"
        parts.append(Text(words.harmless(shown), style=words.QUIET, no_wrap=True, overflow="ellipsis"))
    small = height is not None and height < _ROOMY
    for item in frame.asking[: _ASKING_IF_SMALL if small else None]:
        asks = words.harmless(f"item {item.id} asks: {' '.join((item.question or '').split())}")
        parts.append(Text(asks, style="yellow", no_wrap=True, overflow="ellipsis"))
    if small and len(frame.asking) > _ASKING_IF_SMALL:
        more = f"{len(frame.asking) - _ASKING_IF_SMALL} more ask: interlock ls --asking"
        parts.append(Text(more, style="yellow", no_wrap=True, overflow="ellipsis"))
    if frame.stopped:
        first = frame.stopped[0].id
        cure = f"item {first} (loop); interlock msg {first} TEXT starts it"
        parts.append(
            Text(f"Waiting for a person: {len(frame.stopped)}  {cure}", style="yellow", no_wrap=True)
        )
    if (unsent := github.unsent(frame.github)) is not None:
        parts.append(unsent)
    lanes = sorted(frame.lanes, key=lambda lane: -lane.waiting)  # those with a line behind them first
    n_lines = sum(1 for lane in lanes if lane.waiting)
    waiting = sorted([*frame.pending, *frame.deferred, *frame.waiting], key=_goes_next)
    n_waiting = {s: frame.stats.items.get(s, 0) for s in (*_WAITING, "asking")}
    n_running = frame.stats.items.get("in_progress", 0)
    needs = [len(frame.running), len(waiting), len(lanes), len(frame.events)]
    rows = needs if height is None else shares(needs, height - len(parts) - 1, spaced=not small)
    several = Text("   ").join(words.counts(n_waiting)) if waiting else Text("0")
    held = f"{len(lanes)}{'+' if len(lanes) == _ROWS_MAX else ''}, {n_lines} with a line"
    for title, there, all_in, made in (
        (Text(f"Running: {n_running}"), n_running, "ls", items.item_table(frame.running[: rows[0]], width)),
        (
            Text("Waiting: ") + several,
            sum(n_waiting.values()),
            "ls",
            items.item_table(waiting[: rows[1]], width),
        ),
        (Text(f"Lanes held: {held}"), len(lanes), "lanes", agents.lane_table(lanes[: rows[2]], width)),
    ):
        title.stylize("bold")
        if made.row_count < there:
            title.append(f"   {made.row_count} shown, all: interlock {all_in}", style=words.QUIET)
        parts += [*([] if small else [Text("")]), title, *([made] if made.row_count else [])]
    parts += [
        *([] if small else [Text("")]),
        Text("Newest events", style="bold"),
        *(history.text(event, width=width) for event in frame.events[len(frame.events) - rows[3] :]),
    ]
    return Group(*parts)


def fitting(counted: list[Text], width: int) -> Text:
    """Counts on one line, and at its end how many did not fit."""
    from interlock.cli.page import Text
    from interlock.cli.views import words

    for kept in range(len(counted), -1, -1):
        left_out = len(counted) - kept
        more = [Text(f"{left_out} more: interlock stats", style=words.QUIET)] if left_out else []
        line = Text("   ").join([*counted[:kept], *more])
        if line.cell_len <= width:
            break
    return line


def _goes_next(item: ItemView) -> tuple[object, ...]:
    """The approximate order of items: by priority; items due later, by their time."""
    untold = inf if item.status == "waiting" else 0.0
    due = untold if item.run_at is None else item.run_at.timestamp()
    return _WAITING.index(item.status), due, -item.priority, item.id


def shares(needs: list[int], room: int, *, spaced: bool) -> list[int]:
    """How many rows each part of a frame gets, the last of which are the events.

    Each part has a title, and a blank line before it if the parts are `spaced`; a table has a header too, if
    it has rows at all. Every part gets a row before one gets more, then the events come first, then what
    runs, what waits, and lanes; what one part leaves, the next one gets.
    """
    left = room - (2 if spaced else 1) * len(needs)
    given = [0] * len(needs)
    order = [len(needs) - 1, *range(len(needs) - 1)]
    for most in (1, 3, 5, max(room, 1)):
        for part in order:
            header = 0 if part == len(needs) - 1 or given[part] else 1
            more = min(min(needs[part], most) - given[part], left - header)
            if more > 0:
                given[part] += more
                left -= more + header
    return given


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Read single keys without waiting for Enter, where there is a terminal to read from."""
    if not sys.stdin.isatty():
        yield _rest
        return
    import select
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)

    def pressed(wait_s: float) -> str:
        ready, _, _ = select.select([sys.stdin], [], [], wait_s)
        return sys.stdin.read(1) if ready else ""

    try:
        tty.setcbreak(sys.stdin)
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _rest(wait_s: float) -> str:
    time.sleep(wait_s)
    return ""
