"""`hook`: answer the hook events of an agent's program, and install it there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer
from interlock.cli.command import Group
from interlock.cli.invocation import Invocation, invocation_of
from interlock.core.errors import Exit, InterlockError, InvalidInput

if TYPE_CHECKING:
    from interlock.hook.agent_settings import SettingsChange
    from interlock.process.provider_limits import LimitRules
    from interlock.service.contract import LaneService
    from interlock.settings import Settings

hook = Group("Answer the hook events of an agent's program, or install the hook.")

#: An agent waits for its hook, so the hook waits less for another writer than commands do.
_BUSY_MAX_S = 5.0

_Settings = Annotated[
    str | None, typer.Option(metavar="PATH", help="Default: .claude/settings.json of the repository.")
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the difference and write nothing.")]


@hook.callback()
def answer(ctx: typer.Context) -> int:
    """Answer the hook event on standard input, for the run in INTERLOCK_RUN.

    It renews the lease, passes new messages to the agent, asks a person what a prompt asks, denies a push
    once the lease is lost, and asks the agent to end its run before it stops. Without INTERLOCK_RUN it does
    nothing.
    """
    run = os.environ.get("INTERLOCK_RUN", "").strip()
    if ctx.invoked_subcommand is None and run:
        try:
            _answer(invocation_of(ctx), run)
        except InvalidInput as error:
            # Exit code 2, that of usage errors, would block every action of the agent.
            raise InterlockError(error.sentence, error.hint, error.cures, fields=error.fields) from None
    return Exit.OK


def _answer(call: Invocation, run: str) -> None:
    from interlock.cli.values import text_of
    from interlock.core.handles import read_handle
    from interlock.core.record import replace
    from interlock.hook.hook import EVENT_MAX_BYTES, Hook, read_event
    from interlock.settings.places import DIRECTORY, inside

    read_handle(run)  # refuse a malformed handle before a store is opened
    event = read_event(text_of("hook event", "-", EVENT_MAX_BYTES))
    chosen = replace(call.settings, busy_timeout_s=min(call.settings.busy_timeout_s, _BUSY_MAX_S))
    home = inside(chosen.root, chosen.root / DIRECTORY / "hooks").parent
    asked = Hook(
        run,
        lanes=lambda: _lanes(chosen),
        home=home,
        environ=os.environ,
        limits=lambda: _limits(chosen),
        prices=chosen.prices or (),
        question_s=chosen.question_lease_s,
    )
    if reply := asked.answer(event):
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
    asked.written()


def _lanes(chosen: Settings) -> LaneService:
    from interlock import app  # imported late: most calls follow another so soon that no store is opened

    return app.open_lanes(chosen)


def _limits(chosen: Settings) -> LimitRules:
    from interlock.process.provider_limits import LimitRules

    return LimitRules.of(chosen)


@hook.command("install")
def install(ctx: typer.Context, settings: _Settings = None, dry_run: _DryRun = False) -> int:
    """Add the hook to Claude Code's settings of this repository; its other settings stay."""
    from interlock.hook.agent_settings import installed

    call = invocation_of(ctx)
    code = _change(call, installed(_path(settings)), dry_run=dry_run, done="Added the hook to")
    if not _on_path() and not call.out.json:
        # Not an absolute path instead: the settings are shared through the repository.
        call.out.print_problem(
            "The hook starts `interlock` by name, which is not on the PATH here.",
            "Add the command's directory to the PATH of agents.",
        )
    return code


@hook.command("uninstall")
def uninstall(ctx: typer.Context, settings: _Settings = None, dry_run: _DryRun = False) -> int:
    """Remove the hook from Claude Code's settings."""
    from interlock.hook.agent_settings import uninstalled

    return _change(
        invocation_of(ctx), uninstalled(_path(settings)), dry_run=dry_run, done="Removed the hook from"
    )


def _path(given: str | None) -> Path:
    from interlock.hook.agent_settings import PLACE
    from interlock.settings.places import here, inside, worktree_root

    root = worktree_root(here())
    path = root / PLACE if given is None else Path(given)
    inside(root, here() / path)
    return path


def _on_path() -> bool:
    from shutil import which

    return which("interlock") is not None


def _change(call: Invocation, change: SettingsChange, *, dry_run: bool, done: str) -> int:
    changed = change.before != change.after
    if not dry_run:
        change.write()
    if call.out.json:
        told = {"path": str(change.path), "changed": changed, "written": changed and not dry_run}
        call.out.print_json({**told, "diff": change.diff, "on_path": _on_path()})
    elif not changed:
        sys.stdout.write(f"{change.path} is up to date.\n")
    else:
        sys.stdout.write(change.diff if dry_run else f"{done} {change.path}.\n")
    return Exit.OK
