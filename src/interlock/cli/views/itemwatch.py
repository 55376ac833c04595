"""`ls --watch`: the list of items as it changes; without a terminal, each new state."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from interlock.cli.views import items, live, words
from interlock.service.contract import ItemFilter, Service, to_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from interlock.cli.invocation import Invocation
    from interlock.cli.output import Output


def watch(
    call: Invocation, service: Service, wanted: ItemFilter, every_s: float, *, unfinished: bool
) -> None:
    """Show items until the reader quits."""
    out = call.out
    if not out.json and out.console.is_terminal:
        frame = partial(_frame, out, service, wanted)
        live.redraw(out.console, frame, every_s, call.outage, warning=call.warning)
        return
    before: object = None
    while True:
        found = service.items(wanted)
        if (now := to_json(found)) != before:
            before = now
            out.answer(
                {"items": found},
                lambda console: items.listing(console, found, limit=wanted.limit, unfinished=unfinished),  # noqa: B023
            )
        time.sleep(every_s)


def _frame(out: Output, service: Service, wanted: ItemFilter) -> RenderableType:
    from rich.console import Group

    from interlock.cli.page import Text

    found = service.items(wanted)
    room = max(out.console.height - 3, 1)
    count = f"{len(found)} item{'' if len(found) == 1 else 's'}"
    left_out = f", the newest {room} shown" if len(found) > room else ""
    head = Text.assemble(
        ("interlock  ", "bold"), words.clock(words.now()), (f"   {count}{left_out}   q ends", words.QUIET)
    )
    return Group(head, items.item_table(found[-room:], out.console.width) if found else Text(""))
