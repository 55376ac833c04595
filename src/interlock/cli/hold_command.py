"""`hold`: a command runs while it holds a lane."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from interlock.cli.session import Session, session_of
from interlock.cli.values import name_or_none, span_or_none, text_of
from interlock.core.errors import CommandUnusable
from interlock.core.names import MESSAGE_MAX_BYTES, lane_key, safe_name
from interlock.service.intake import choice

#: As env(1) and the shells have it.
_CANNOT_RUN, _NOT_FOUND = 126, 127


def _choices() -> list[str]:
    return ["wait", "skip", "fail"]


def hold(
    ctx: typer.Context,
    lane: Annotated[str, typer.Argument(metavar="LANE", help="The lane, as in deploy:production.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND…", help="What to run while the lane is ours.")
    ] = None,
    *,
    if_held: Annotated[
        str,
        typer.Option(
            metavar="wait|skip|fail",
            autocompletion=_choices,
            help="If the lane is taken: wait for it; leave the message with its holder, exit 0; or exit 4.",
        ),
    ] = "wait",
    wait: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Wait at most so long, then exit 4; default: for ever.")
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Input for the command, or for the holder with --if-held skip."),
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Who holds it; default: you.")] = None,
    lease: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Length of the lease, as in 90s or 5m.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="SPAN", help="End the command after so long and exit 124.")
    ] = None,
) -> int:
    """Run a command while it holds a lane.

    The exit code is the command's; 128 and more: the signal that ended it. 5: the lease was lost.
    """
    from interlock import app
    from interlock.hold import hold
    from interlock.hold.turn import Hold, IfHeld
    from interlock.process import signals

    session = session_of(ctx)
    settings = session.settings
    wish = Hold(
        lane=lane_key(lane),
        command=command or (),
        agent=name_or_none("agent", agent) or safe_name(settings.actor).lower(),
        url=app.absolute_url(settings),
        if_held=IfHeld(choice("way to meet a holder", if_held, tuple(IfHeld))),
        wait_s=span_or_none("wait", wait),
        lease_s=span_or_none("lease", lease),
        default_lease_s=settings.lease_s,
        timeout_s=span_or_none("timeout", timeout),
        message=None if message is None else text_of("message", message, MESSAGE_MAX_BYTES),
        author=settings.actor,
        beat_s=app.beat_s(settings),
    )
    try:
        hold.check(wish, os.environ)
        with session.lanes() as lanes:
            ended = hold.hold(lanes, wish, tell=_tell)
    except CommandUnusable as error:
        return cannot_run(session, wish.command[0], error)
    except signals.Signalled as signalled:
        return 128 + signalled.number
    if session.out.json:
        session.out.print_json(ended)
    return ended.exit_code


def cannot_run(session: Session, program: str, error: CommandUnusable) -> int:
    """Say why a command cannot run; the exit code for it."""
    session.out.error(error.code, error.sentence, error.hint)
    return _CANNOT_RUN if os.path.lexists(program) else _NOT_FOUND


def _tell(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()
