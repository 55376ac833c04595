"""`hold`: run a command while it holds a lane."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import Invocation, caller_of, invocation_of
from interlock.cli.options import LeaseLength, RunsAccount
from interlock.cli.output import tell
from interlock.cli.values import name_or_none, span_or_none, text_of
from interlock.core.errors import CommandUnusable
from interlock.core.names import MESSAGE_MAX_BYTES, lane_key, safe_name
from interlock.service.item_fields import choice, signature

#: The exit codes of env(1) and the shells.
_CANNOT_RUN, _NOT_FOUND = 126, 127


def hold(
    ctx: typer.Context,
    lane: Annotated[str, typer.Argument(metavar="LANE", help="The lane, as in deploy:production.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND…", help="The command to run while it holds the lane."),
    ] = None,
    *,
    if_held: Annotated[
        str,
        typer.Option(
            metavar="wait|skip|fail",
            autocompletion=lambda: ["wait", "skip", "fail"],
            help="If the lane is taken: wait; leave the message with its holder and exit 0; or exit 4.",
        ),
    ] = "wait",
    wait: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Maximum wait, then exit 4; default: no limit.")
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Input for the command, or for the holder with --if-held skip."),
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Who holds it; default: you.")] = None,
    lease: LeaseLength = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="SPAN", help="End the command after this time and exit 124.")
    ] = None,
    account: RunsAccount = None,
) -> int:
    """Run a command while it holds a lane.

    The exit code is the command's; 128 and more: the signal that ended it. 5: the lease was lost.
    """
    from interlock import app
    from interlock.github.run_feedback import account_reporter, reaction_of_job
    from interlock.hold import hold
    from interlock.hold.turn import Hold, IfHeld
    from interlock.process import signals
    from interlock.settings.store_url import absolute_url

    call = invocation_of(ctx)
    settings, login = call.settings, name_or_none("--account", account)
    options = Hold(
        lane=lane_key(lane),
        command=command or (),
        agent=name_or_none("--agent", agent) or safe_name(settings.actor).lower(),
        url=absolute_url(settings),
        if_held=IfHeld(choice("--if-held", if_held, tuple(IfHeld))),
        wait_s=span_or_none("--wait", wait),
        lease_s=span_or_none("--lease", lease),
        default_lease_s=settings.lease_s,
        timeout_s=span_or_none("--timeout", timeout),
        message=None if message is None else text_of("message", message, MESSAGE_MAX_BYTES),
        author=settings.actor,
        beat_s=app.beat_s(settings),
    )
    try:
        hold.check(options, os.environ)
        reaction = reaction_of_job(os.environ, tell)
        with call.lanes(reaction=reaction) as lanes:
            sender, author = signature(None, None, caller=options.author, sender=caller_of(lanes))
            report_account = account_reporter(lanes, os.environ, login, tell)
            options = replace(options, author=author, sender=sender, report_account=report_account)
            ended = hold.hold(lanes, options, tell=tell, shown=reaction)
    except CommandUnusable as error:
        return cannot_run(call, options.command[0], error)
    except signals.Signalled as signalled:
        return 128 + signalled.number
    if call.out.json:
        call.out.print_json(ended)
    return ended.exit_code


def cannot_run(call: Invocation, program: str, error: CommandUnusable) -> int:
    """Print why a command cannot run, and answer the exit code for it."""
    call.out.error(error)
    return _CANNOT_RUN if os.path.lexists(program) else _NOT_FOUND
