"""`interlock backup` and `interlock restore`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.errors import InvalidInput

if TYPE_CHECKING:
    from interlock.service.backups import BackedUp, Restored


def backup(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> int:
    """Write the whole store to one file while agents work.

    The file has one consistent moment of the store, and a checksum. Only its owner may read it: it has
    everything that is in the store.
    """
    from interlock.cli.copy_command import CopyProgress
    from interlock.service import backups

    call = invocation_of(ctx)
    progress = CopyProgress(lasting=False)
    done = backups.back_up(call.settings, Path(file), force=force, tell=progress.rows)
    progress.end()
    answer = {
        "file": done.file,
        "bytes": done.bytes,
        "sha256": done.sha256,
        "store": done.store,
        "made_at": _at(done.at_us),
        "rows": done.rows,
        "live_runs": done.live_runs,
    }
    return call.out.answer(answer, f"Backed up {_counted(done)}, as of {_at(done.at_us)}.")


def restore(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that `interlock backup` has written.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete everything that the store has, in the same step.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before --replace.")] = False,
) -> int:
    """Fill an empty store from a backup, of either kind of database.

    Runs that were live in the backup are lost: their items are offered again. Run numbers continue above
    all that were given out before and after the backup.
    """
    from interlock.cli.copy_command import CopyProgress
    from interlock.service import backups
    from interlock.settings.store_url import store_location

    call = invocation_of(ctx)
    if replace and not yes:
        _confirm(store_location(call.settings))
    progress = CopyProgress(lasting=False)
    done = backups.restore(call.settings, Path(file), replace=replace, tell=progress.rows)
    progress.end()
    answer = {
        "store": done.store,
        "backup_of": done.made_of,
        "made_at": _at(done.at_us),
        "rows": done.rows,
        "live_runs": done.live_runs,
        "last_run": done.last_run,
        "lost_runs": done.lost_runs,
    }
    return call.out.answer(answer, _summary(done))


def _summary(done: Restored) -> str:
    lines = [
        f"Restored {_counted(done)} to {done.store}, as of {_at(done.at_us)}.",
        f"Run numbers continue after {done.last_run}: no fence is given out twice.",
    ]
    if done.lost_runs:
        lines.append(
            f"Runs that were live in the backup are lost: {done.lost_runs:,}. Their items are retried."
        )
    if done.in_use:
        lines.append(
            f"If {done.made_of} is not in use any more,"
            " `interlock migrate --after-restore` lets runs pass its fences."
        )
    return "\n".join(lines)


def _counted(done: BackedUp | Restored) -> str:
    """What was copied. Live runs are counted too, though the table of runs has only ended ones."""
    rows, live = done.rows, done.live_runs
    runs = f"{rows['runs'] + live:,}" + (f" ({live:,} live)" if live else "")
    return f"items {rows['items']:,}, runs {runs}, events {rows['events']:,}"


def _at(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).isoformat().replace("+00:00", "Z")


def _confirm(place: str) -> None:
    """Ask the person at the terminal before everything is deleted."""
    if not sys.stdin.isatty():
        raise InvalidInput("--replace deletes everything that the store has.", "Pass --yes to confirm it.")
    from typer import Abort, confirm

    try:
        agreed = confirm(f"Delete everything in {place}, and restore the backup?", default=False, err=True)
    except Abort:  # Ctrl-C or Ctrl-D
        sys.stderr.write("\n")
        raise KeyboardInterrupt from None
    if not agreed:
        raise InvalidInput("Nothing was changed.", "Restore into an empty store with --url URL.")
