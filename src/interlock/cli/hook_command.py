"""`hook`: answers an agent's program, and is put into its settings."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.command import Command, group
from interlock.cli.session import Session, session_of
from interlock.core.errors import Exit, InterlockError, InvalidInput

if TYPE_CHECKING:
    from interlock.hook.agent_settings import SettingsChange
    from interlock.service.contract import LaneService
    from interlock.settings import Settings

hook = group("Answer an agent's program about its run, or put that into its settings.")

#: A hook must not keep an agent waiting for as long as a command may wait for another writer.
_BUSY_MAX_S = 5.0

_Settings = Annotated[
    str | None, typer.Option(metavar="PATH", help="Default: .claude/settings.json of the repository.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the difference and write nothing.")]


@hook.callback()
def answer(ctx: typer.Context) -> int:
    """Answer the hook event on standard input, for the run in INTERLOCK_RUN.

    It renews the lease, tells the agent what came, denies a push once the lease is lost, and asks for an
    ending at a stop. Without INTERLOCK_RUN it does nothing.
    """
    run = os.environ.get("INTERLOCK_RUN", "").strip()
    if ctx.invoked_subcommand is None and run:
        try:
            _answer(session_of(ctx), run)
        except InvalidInput as error:
            # By the exit code of a usage error a hook would block whatever the agent does.
            raise InterlockError(error.sentence, error.hint) from None
    return Exit.OK


def _answer(session: Session, run: str) -> None:
    from dataclasses import replace

    from interlock import settings
    from interlock.cli.values import text_of
    from interlock.core.handles import handle_numbers
    from interlock.hook.hook import EVENT_MAX_BYTES, Hook, read_event

    handle_numbers(run)  # a handle that is none is no matter of the store
    event = read_event(text_of("hook event", "-", EVENT_MAX_BYTES))
    chosen = replace(session.settings, busy_timeout_s=min(session.settings.busy_timeout_s, _BUSY_MAX_S))
    home = chosen.root / settings.DIRECTORY
    found = Hook(run, lanes=lambda: _lanes(chosen), home=home, environ=os.environ).answer(event)
    if found:
        sys.stdout.write(json.dumps(found) + "\n")


def _lanes(chosen: Settings) -> LaneService:
    from interlock import app  # most calls come too soon after another to ask the store

    return app.open_lanes(chosen)


@hook.command("install", cls=Command)
def install(ctx: typer.Context, settings: _Settings = None, dry_run: _DryRun = False) -> int:
    """Put the hook into Claude Code's settings of this repository; what else they say stays."""
    from interlock.hook.agent_settings import installed

    session = session_of(ctx)
    code = _change(session, installed(_path(settings)), dry_run=dry_run, done="Put the hook into")
    if not _on_path() and not session.out.json:
        # Not an absolute path instead: the settings are shared through the repository.
        session.out.refuse(
            "There is no interlock on the PATH here, and the hook starts it by that name.",
            "Put the directory of the command on the PATH that agents get.",
        )
    return code


@hook.command("uninstall", cls=Command)
def uninstall(ctx: typer.Context, settings: _Settings = None, dry_run: _DryRun = False) -> int:
    """Take the hook out of Claude Code's settings again."""
    from interlock.hook.agent_settings import uninstalled

    return _change(
        session_of(ctx), uninstalled(_path(settings)), dry_run=dry_run, done="Removed the hook from"
    )


def _path(given: str | None) -> Path:
    from interlock.hook.agent_settings import PLACE
    from interlock.settings import here, worktree_root

    return Path(given) if given is not None else worktree_root(here()) / PLACE


def _on_path() -> bool:
    from shutil import which

    return which("interlock") is not None


def _change(session: Session, change: SettingsChange, *, dry_run: bool, done: str) -> int:
    changed = change.before != change.after
    if not dry_run:
        change.write()
    if session.out.json:
        told = {"path": str(change.path), "changed": changed, "written": changed and not dry_run}
        session.out.print_json({**told, "diff": change.diff, "on_path": _on_path()})
    elif not changed:
        sys.stdout.write(f"{change.path} is as it should be.\n")
    else:
        sys.stdout.write(change.diff if dry_run else f"{done} {change.path}.\n")
    return Exit.OK
