"""`interlock demo`: Interlock at work."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.service.item_fields import span_s


def demo(
    ctx: typer.Context,
    seconds: Annotated[
        str | None, typer.Option(metavar="N", help="Approximate seconds; default: 30.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the store for inspection.")] = False,
) -> int:
    """Show Interlock at work on a temporary store."""
    from interlock import demo as stage

    call = invocation_of(ctx)
    return stage.show(
        seconds=30.0 if seconds is None else span_s("--seconds", seconds),
        url=call.url,
        keep=keep,
        as_json=call.out.json,
        color=call.out.color,
    )
