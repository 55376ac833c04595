"""`log`: the output of a run's command, kept by its worker on this host."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.core.errors import Exit, InvalidInput, NotFound
from interlock.service.item_fields import whole


def log(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN|HANDLE", help="A run's number; default: the run of INTERLOCK_RUN."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the run ends.")] = False,
) -> int:
    """Print the output of a run's command.

    Workers keep the logs of their last 500 runs, on the host where they run. A log has the first and the last
    half mebibyte.
    """
    from interlock.cli.reader import while_read
    from interlock.settings import own_run
    from interlock.settings.places import run_log
    from interlock.worker.log import written

    call = invocation_of(ctx)
    text = run or own_run(os.environ)
    if not text:
        raise InvalidInput("RUN is missing.", "Give its number, as `interlock show` lists it.")
    number = whole("run", text.partition(".")[0])
    home = call.settings.home
    path, files = run_log(home, number), home / "runs" / f"run-{number}"
    if not path.is_file():
        raise NotFound(
            f"There is no log of run {number} on this host.",
            f"Workers keep the logs of their last 500 runs in {path.parent}, where they run.",
        )
    if call.out.json:
        if follow:
            raise InvalidInput("--follow prints text.", "Omit --json, or read the file that it names.")
        kept = path.read_bytes().decode(errors="replace")
        call.out.print_json({"run": number, "path": str(path), "running": files.exists(), "text": kept})
        return Exit.OK
    sys.stdout.flush()
    with while_read():
        for data in written(path, files.exists if follow else lambda: False):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    return Exit.OK
