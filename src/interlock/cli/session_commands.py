"""`session`: locks for the sessions of issues and pull requests, between processes of one host."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.command import Command, group
from interlock.cli.session import Session, session_of
from interlock.core.errors import CommandUnusable, Exit, InvalidInput
from interlock.core.names import safe_name
from interlock.service.intake import whole

if TYPE_CHECKING:
    from interlock.session.lock import SessionLocks

session = group("Lock a session against other processes of this host, or list the locks.")

_Number = Annotated[str, typer.Argument(metavar="NUMBER", help="Of the issue or pull request.")]
_RunId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Whose lock it is; default: GITHUB_RUN_ID, else you at this terminal."),
]


@session.callback()
def list_locks(ctx: typer.Context) -> int:
    """List the locks and who holds them."""
    return Exit.OK if ctx.invoked_subcommand is not None else _print_status(session_of(ctx))


@session.command("lock", cls=Command)
def lock(
    ctx: typer.Context,
    number: _Number,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND…", help="What to run under the lock.")
    ] = None,
    *,
    run_id: _RunId = None,
    pid: Annotated[
        str | None,
        typer.Option(metavar="PID", help="Without a command: until this process ends; default: the caller."),
    ] = None,
) -> int:
    """Lock a session, for the length of a command or of the process that calls.

    Exits with 4 at once if it is locked, unless it is for the same run and until the same process ends. With
    a command the exit code is the command's.
    """
    from interlock.session import lock

    here = session_of(ctx)
    issue, owner = whole("number", number), _run_id(here, run_id)
    if command and pid is not None:
        raise InvalidInput("A command and a process are given at once.", "Use one or the other.")
    watched = os.getppid() if pid is None else whole("process", pid)
    if command:
        return _run_under(here, issue, owner, command)
    keeper = lock.lock_until(_locks(here), issue, owner, watched)
    if here.out.json:
        here.out.print_json({"number": issue, "run_id": owner, "pid": keeper, "until_pid": watched})
    else:
        typer.echo(f"Session {issue} is locked for run {owner} until process {watched} ends.")
    return Exit.OK


def _run_under(here: Session, issue: int, owner: str, command: list[str]) -> int:
    from interlock.cli.hold_command import cannot_run
    from interlock.process import signals
    from interlock.process.command import check_command
    from interlock.session import lock

    try:
        check_command(command, here=True)
        return lock.run_under(_locks(here).acquire(issue, owner), command)
    except CommandUnusable as error:
        return cannot_run(here, command[0], error)
    except signals.Signalled as signalled:
        return 128 + signalled.number


@session.command("unlock", cls=Command)
def unlock(ctx: typer.Context, number: _Number, run_id: _RunId = None) -> int:
    """Release a session's lock. That of another run is refused with exit code 4."""
    here = session_of(ctx)
    issue, owner = whole("number", number), _run_id(here, run_id)
    released = _locks(here).unlock(issue, owner)
    if here.out.json:
        here.out.print_json({"number": issue, "released": released})
    else:
        typer.echo(f"Session {issue} is free." if released else f"Session {issue} was not locked.")
    return Exit.OK


@session.command("clean", cls=Command)
def clean(ctx: typer.Context) -> int:
    """Remove lock files that nobody holds any more."""
    here = session_of(ctx)
    removed = _locks(here).clean()
    if here.out.json:
        here.out.print_json({"removed": removed})
    else:
        typer.echo(f"Removed: {', '.join(map(str, removed))}." if removed else "There is nothing to remove.")
    return Exit.OK


@session.command("status", cls=Command)
def status(
    ctx: typer.Context,
    number: Annotated[
        str | None, typer.Argument(metavar="NUMBER", help="Only that of this issue or pull request.")
    ] = None,
) -> int:
    """List the locks and who holds them."""
    return _print_status(session_of(ctx), None if number is None else whole("number", number))


def _print_status(here: Session, number: int | None = None) -> int:
    found = _locks(here).status(number)
    if here.out.json:
        here.out.print_json({"locks": found})
    elif not found:
        typer.echo("No session is locked." if number is None else f"Session {number} is not locked.")
    else:
        from interlock.cli.views import sessions

        sessions.locks(here.out.console, found)
    return Exit.OK


def _locks(here: Session) -> SessionLocks:
    from interlock.session.lock import SessionLocks

    return SessionLocks(here.settings.root)


def _run_id(here: Session, given: str | None) -> str:
    if given is not None:
        return given
    if os.environ.get("GITHUB_RUN_ID"):
        return os.environ["GITHUB_RUN_ID"]
    import socket

    return safe_name(f"{here.settings.actor}@{socket.gethostname()}.{os.getsid(0)}")
