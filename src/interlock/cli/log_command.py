"""`log`: the output of a run, whole on its worker's machine, and its end from the store elsewhere."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

from interlock.cli import typer
from interlock.cli.invocation import Invocation, invocation_of
from interlock.core.errors import Exit, InvalidInput, NotFound
from interlock.service.item_fields import whole

if TYPE_CHECKING:
    from interlock.service.contract import RunLogView, Service

#: How often `--follow` asks the store for more.
FOLLOW_STORE_S = 1.0


def log(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN|HANDLE", help="A run's number; default: the run of INTERLOCK_RUN."),
    ] = None,
    item: Annotated[
        str | None, typer.Option("--item", metavar="ITEM", help="The newest run of an item.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the run ends.")] = False,
) -> int:
    """Print the output of a run's command.

    Workers keep the logs of their last 500 runs, on the host where they run. Such a log has the first and the
    last half mebibyte. Elsewhere, and through a server, the store has the last 65,536 characters as
    plain text, of the last 1,000 runs that took a few seconds.
    """
    from interlock.settings import own_run
    from interlock.settings.places import run_log

    call = invocation_of(ctx)
    if run and item:
        raise InvalidInput("RUN and --item exclude each other.", "Give one of them.")
    text = run or (own_run(os.environ) if item is None else None)
    if not text and item is None:
        raise InvalidInput("RUN is missing.", "Give its number, as `interlock show` lists it.")
    number = whole("run", text.partition(".")[0]) if text else _newest_run(call, whole("item", item))
    path = run_log(call.settings.home, number)
    if path.is_file():
        return _print_file(call, number, follow=follow)
    return _print_stored(call, number, follow=follow)


def _newest_run(call: Invocation, item: int) -> int:
    with call.service() as service:
        runs = service.show(item).runs
    if not runs:
        raise NotFound(f"Item {item} has no run.", "Wait until an agent claims it.")
    return max(run.run for run in runs)


def _print_file(call: Invocation, number: int, *, follow: bool) -> int:
    """The log that a worker of this host keeps."""
    from interlock.cli.reader import while_read
    from interlock.settings.places import run_log
    from interlock.worker.log import written

    home = call.settings.home
    path, files = run_log(home, number), home / "runs" / f"run-{number}"
    if call.out.json:
        _refuse_follow(follow=follow)
        kept = path.read_bytes().decode(errors="replace")
        call.out.print_json({"run": number, "path": str(path), "running": files.exists(), "text": kept})
        return Exit.OK
    sys.stdout.flush()
    with while_read():
        for data in written(path, files.exists if follow else lambda: False):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    return Exit.OK


def _print_stored(call: Invocation, number: int, *, follow: bool) -> int:
    """The end of the output that the run's worker has sent to the store."""
    from interlock.cli.reader import while_read

    with call.service() as service:
        view = _stored(service, number, 0)
        if call.out.json:
            _refuse_follow(follow=follow)
            call.out.print_json({"run": number, "path": None, "running": view.running, "text": view.text})
            return Exit.OK
        with while_read():
            if view.start > 0:
                sys.stdout.write(f"[… {view.start:,} characters left out …]\n")
            while True:
                sys.stdout.write(view.text)
                sys.stdout.flush()
                if not (follow and view.running):
                    break
                time.sleep(FOLLOW_STORE_S)
                view = _stored(service, number, view.end)
    return Exit.OK


def _stored(service: Service, number: int, offset: int) -> RunLogView:
    try:
        return service.run_log(number, offset=offset)
    except NotFound:
        raise NotFound(
            f"There is no log of run {number} on this host, and none in the store.",
            "Workers keep the logs of their last 500 runs where they run. They send output to the store"
            " every few seconds, unless log_share_s is 0.",
        ) from None


def _refuse_follow(*, follow: bool) -> None:
    if follow:
        raise InvalidInput("--follow prints text.", "Omit --json, or read the file that it names.")
