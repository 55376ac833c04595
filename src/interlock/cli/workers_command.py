"""`workers`: who is at work, where, and with what."""

from __future__ import annotations

from interlock.cli import typer, views
from interlock.cli.invocation import invocation_of
from interlock.cli.options import Limit, limit_of
from interlock.core.errors import Exit


def workers(ctx: typer.Context, limit: Limit = "100") -> int:
    """List the processes of `interlock work`: which are alive, where they are, and what they do.

    Alive means that a worker reached the store within the last 30 s. A silent one was killed, is stopped or
    is cut off from the store; it is forgotten after an hour.
    """
    call = invocation_of(ctx)
    count = limit_of(limit)
    with call.reading() as service:
        found = service.workers(limit=count)
    call.out.answer({"workers": found}, lambda out: views.presence.workers(out, found))
    call.name_store(found)
    return Exit.OK
