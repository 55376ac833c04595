"""`mcp`: the tools for a model, on standard input and output."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.errors import Exit
from interlock.core.names import needed_agent

_UNFILLED = re.compile(r"\$(?:INTERLOCK_\w+|\{(?:env:)?INTERLOCK_\w+\})", re.ASCII)


def mcp(
    ctx: typer.Context,
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model's agent name; default: INTERLOCK_AGENT."),
    ] = None,
) -> int:
    """Serve Interlock's tools to the model of a coding agent, over standard input and output.

    The agent's program starts it. Inside of a run the tools know the run. A server has them at /mcp.
    """
    from interlock.settings import own_run

    _drop_unfilled(os.environ)
    call = invocation_of(ctx)
    named = os.environ.get("INTERLOCK_AGENT", "") if agent is None else needed_agent(agent)
    with call.connection() as service:
        from interlock.mcp.stdio import serve
        from interlock.mcp.tools import Defaults, ToolCaller

        caller = ToolCaller(
            run=own_run(os.environ),
            agent=named,
            by=call.settings.actor,
            traceparent=os.environ.get("TRACEPARENT"),
        )
        serve(service, caller, Defaults(call.settings.types, call.settings.lanes))
    return Exit.OK


def _drop_unfilled(environ: MutableMapping[str, str]) -> None:
    """Many clients pass `${NAME}` unexpanded if NAME is not set. It then counts as unset."""
    for name in [name for name, value in environ.items() if _UNFILLED.fullmatch(value)]:
        del environ[name]
