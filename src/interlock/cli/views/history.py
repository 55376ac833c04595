"""The history: one line an event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from interlock.cli.views import words
from interlock.service.contract import EventView

_STYLES = {"item": "cyan", "run": "green", "lane": "yellow", "cancel": "red", "message": "blue"}


def listing(console: Console, events: Sequence[EventView], *, of_item: int | None = None) -> None:
    """Events, oldest first."""
    if not events:
        console.print("Nothing has happened yet.")
    for event in events:
        line(console, event, of_item=of_item)


def line(console: Console, event: EventView, *, of_item: int | None = None) -> None:
    """Print one event."""
    console.print(text(event, of_item=of_item, width=console.width), no_wrap=True)


def text(event: EventView, *, width: int, of_item: int | None = None) -> Text:
    """One event on one line; in the history of one item without its number and lane."""
    lane_width = max(width // 4, 16)
    about, _, what = event.kind.partition(".")
    shown = Text(no_wrap=True).append_text(
        Text.assemble(
            (f"{event.seq:>6}  {words.clock(event.at)}  ", words.QUIET),
            (f"{event.kind:<16} ", "bold red" if what in words.FAILURES else _STYLES.get(about, "")),
        )
    )
    parts = [
        f"item {event.item}" if event.item is not None and event.item != of_item else "",
        f"run {event.run}" if event.run is not None else "",
        event.agent or "",
        words.shorten_lane(event.lane, lane_width) if event.lane and of_item is None else "",
        event.reason,
    ]
    shown.append(words.harmless(" · ".join(part for part in parts if part)))
    data = "  ".join(_fact(key, value) for key, value in event.data.items() if value not in (None, "", []))
    if data:
        shown.append(("  " if any(parts) else "") + words.harmless(data), style=words.QUIET)
    return words.shorten_at_word(shown, width)


def _fact(key: str, value: object) -> str:
    if key.endswith("_us") and isinstance(value, int):
        return f"{key.removesuffix('_us')}={words.clock(datetime.fromtimestamp(value / 1e6, UTC))}"
    return f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
