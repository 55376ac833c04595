"""The history: one event per line, or a few lines on a narrow terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from interlock.cli.page import Console, Text
from interlock.cli.views import words
from interlock.core.model import EventKind
from interlock.service.contract import EventView

_STYLES = {"item": "cyan", "run": "green", "lane": "yellow", "cancel": "red", "message": "blue"}
#: Failures; an unanswered question is none.
_FAILURES = frozenset(
    {
        *(kind for kind in EventKind if kind.startswith("run.") and kind[4:] in words.FAILURES),
        *(EventKind.ITEM_REJECTED, EventKind.PLAN_EDIT_REFUSED, EventKind.NOTICE_FAILED),
    }
)
_KIND_WIDTH, _SEQ_WIDTH = max(map(len, EventKind)), 5
#: Facts with another word for people.
_LABELS = {"verdict": "decision"}
#: An error may be a page long: an event takes at most this many lines.
_LINES_MAX = 4


def listing(console: Console, events: Sequence[EventView], *, filtered: bool) -> None:
    """Events, oldest first."""
    if not events:
        console.print("No event matches." if filtered else "Nothing has happened yet.")
    lines(console, events)


def lines(console: Console, events: Sequence[EventView], *, of_item: int | None = None) -> None:
    """Events whose columns are no wider than they must be; those of one item do without its number."""
    kind_width = max((len(event.kind) for event in events), default=0)
    seq_width = max((len(str(event.seq)) for event in events), default=0)
    for event in events:
        line(console, event, of_item=of_item, kind_width=kind_width, seq_width=seq_width)


def line(
    console: Console,
    event: EventView,
    *,
    of_item: int | None = None,
    kind_width: int = _KIND_WIDTH,
    seq_width: int = _SEQ_WIDTH,
) -> None:
    """Print one event, wrapped at words below its own beginning."""
    head, told = _head(event, kind_width, seq_width), _told(event, of_item=of_item)
    room = max(console.width - len(head), 20)
    parts = told.wrap(room)
    if len(parts) > _LINES_MAX:
        last = parts[_LINES_MAX - 1]
        last.rstrip()
        parts[_LINES_MAX - 1 :] = [words.shorten_at_word(last.append(" …"), room)]
    for n, part in enumerate(parts):
        part.rstrip()
        console.print((Text(" " * len(head)) if n else head) + part, no_wrap=True)


def text(event: EventView, *, width: int) -> Text:
    """One event on one line, cut at a word."""
    shown = _head(event).append_text(_told(event, lane_width=max(width // 4, 16)))
    shown.no_wrap = True
    return words.shorten_at_word(shown, width)


def _head(event: EventView, kind_width: int = _KIND_WIDTH, seq_width: int = _SEQ_WIDTH) -> Text:
    style = "bold red" if event.kind in _FAILURES else _STYLES.get(event.kind.partition(".")[0], "")
    return Text.assemble(
        (f"{event.seq:>{seq_width}}  {words.clock(event.at)}  ", words.QUIET),
        (f"{event.kind:<{kind_width}}  ", style),
    )


def _told(event: EventView, *, of_item: int | None = None, lane_width: int | None = None) -> Text:
    """What matters first; in the history of one item without its number and lane."""
    lane = event.lane if of_item is None else None
    parts = [
        f"item {event.item}" if event.item is not None and event.item != of_item else "",
        f"run {event.run}" if event.run is not None else "",
        event.agent or "",
        event.reason,
        lane and (lane if lane_width is None else words.shorten_lane(lane, lane_width)),
    ]
    shown = Text(words.harmless(" · ".join(part for part in parts if part)))
    data = "  ".join(_fact(key, value) for key, value in event.data.items() if value not in (None, "", []))
    if data:
        shown.append(("  " if any(parts) else "") + words.harmless(data), style=words.QUIET)
    return shown


def _fact(key: str, value: object) -> str:
    if key.endswith("_us") and isinstance(value, int):
        return f"{key.removesuffix('_us')}={words.clock(datetime.fromtimestamp(value / 1e6, UTC))}"
    key = _LABELS.get(key, key)
    told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{key}={' '.join(told.split())}"
