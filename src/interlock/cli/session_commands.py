"""`session`: locks for the sessions of issues and pull requests, between processes of one host."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer, views
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation, invocation_of
from interlock.core.errors import CommandUnusable, Exit, InvalidInput
from interlock.core.names import safe_name
from interlock.service.item_fields import whole

if TYPE_CHECKING:
    from interlock.session.lock import SessionLocks

session = Group("Lock a session against other processes of this host, or list the locks.")

_Number = Annotated[str, typer.Argument(metavar="NUMBER", help="The number of the issue or pull request.")]
_RunId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="The holder; default: GITHUB_RUN_ID, else you at this terminal."),
]


@session.callback(lists=True)
def list_locks(ctx: typer.Context) -> int:
    """List the locks and who holds them."""
    return Exit.OK if ctx.invoked_subcommand is not None else _print_status(invocation_of(ctx))


@session.command("lock")
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
    """Lock a session while a command runs, or until the calling process ends.

    Exits with 4 if it is locked already, unless for the same run and until the same process ends. With a
    command the exit code is the command's.
    """
    from interlock.session import lock

    call = invocation_of(ctx)
    issue, owner = whole("session", number), _run_id(call, run_id)
    if command and pid is not None:
        raise InvalidInput("A command and --pid exclude each other.", "Use one or the other.")
    watched = os.getppid() if pid is None else whole("--pid", pid)
    if command:
        return _run_under(call, issue, owner, command)
    holder = lock.lock_until(_locks(call), issue, owner, watched)
    return call.out.answer(
        {"number": issue, "run_id": owner, "pid": holder, "until_pid": watched},
        f"Session {issue} is locked for run {owner} until process {watched} ends.",
    )


def _run_under(call: Invocation, issue: int, owner: str, command: list[str]) -> int:
    from interlock.cli.hold_command import cannot_run
    from interlock.process import signals
    from interlock.process.command import check_command
    from interlock.session import lock

    try:
        check_command(command, here=True)
        return lock.run_under(_locks(call).acquire(issue, owner), command)
    except CommandUnusable as error:
        return cannot_run(call, command[0], error)
    except signals.Signalled as signalled:
        return 128 + signalled.number


@session.command("unlock")
def unlock(ctx: typer.Context, number: _Number, run_id: _RunId = None) -> int:
    """Release a session's lock; exit 4 if another run holds it."""
    call = invocation_of(ctx)
    issue, owner = whole("session", number), _run_id(call, run_id)
    released = _locks(call).unlock(issue, owner)
    state = "is free" if released else "was not locked"
    return call.out.answer({"number": issue, "released": released}, f"Session {issue} {state}.")


@session.command("clean")
def clean(ctx: typer.Context) -> int:
    """Remove stale lock files."""
    call = invocation_of(ctx)
    removed = _locks(call).clean()
    text = f"Removed: {', '.join(map(str, removed))}." if removed else "No stale lock files."
    return call.out.answer({"removed": removed}, text)


@session.command("status")
def status(
    ctx: typer.Context,
    number: Annotated[
        str | None, typer.Argument(metavar="NUMBER", help="Only the lock of this issue or pull request.")
    ] = None,
) -> int:
    """List the locks and who holds them."""
    return _print_status(invocation_of(ctx), None if number is None else whole("session", number))


def _print_status(call: Invocation, number: int | None = None) -> int:
    found = _locks(call).status(number)
    if found:
        return call.out.answer({"locks": found}, lambda out: views.sessions.locks(out, found))
    text = "No session is locked." if number is None else f"Session {number} is not locked."
    return call.out.answer({"locks": found}, text)


def _locks(call: Invocation) -> SessionLocks:
    from interlock.session.lock import SessionLocks

    return SessionLocks(call.settings.root, call.settings.locks)


def _run_id(call: Invocation, given: str | None) -> str:
    if given is not None:
        return given
    if os.environ.get("GITHUB_RUN_ID"):
        return os.environ["GITHUB_RUN_ID"]
    import socket

    return safe_name(f"{call.settings.actor}@{socket.gethostname()}.{os.getsid(0)}")
