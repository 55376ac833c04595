"""`interlock copy`: the store moves to another database."""

from __future__ import annotations

import sys
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.cli.output import tell
from interlock.core.errors import InvalidInput
from interlock.service.copying import Copied


def copy(
    ctx: typer.Context,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="URL", help="Where to: an empty database, or a file that is not there yet."
        ),
    ],
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until the live runs have ended; no other one starts meanwhile."),
    ] = False,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Let this store take writes again, if its copy did not come to its end."),
    ] = False,
) -> int:
    """Copy the whole store to another database, and seal this one.

    The new store goes on where this one stopped. Run it again if it was interrupted.
    """
    from interlock import app

    call = invocation_of(ctx)
    if wait and undo:
        raise InvalidInput("--wait and --undo exclude each other.", "Use one of them at a time.")
    if undo:
        place = app.undo_copy(to, settings=call.settings)
        return call.out.answer({"store": place}, f"The store is {place}, as before the copy.")
    progress = _Progress()
    copied = app.copy(
        to, settings=call.settings, tell=progress.rows, waiting=progress.waiting if wait else None
    )
    progress.end()
    return call.out.answer(copied, _summary(copied))


def _summary(copied: Copied) -> str:
    told = "The copy was complete already"
    if copied.rows:
        told = "Copied everything: " + ", ".join(
            f"{table} {copied.rows[table]:,}" for table in ("items", "runs", "events")
        )
    return (
        f"{told}.\nThe store is {copied.target} now; run numbers go on after {copied.last_run}.\n"
        f"{copied.source} is sealed: it can be read, and refuses every write.\n"
        "Let INTERLOCK_URL name the new place, wherever the old one was named."
    )


class _Progress:
    """What a copy does, on standard error: in one line that changes, or in a line for each table."""

    def __init__(self) -> None:
        self._in_place = sys.stderr.isatty()
        self._table, self._said = "", ""

    def rows(self, table: str, count: int) -> None:
        if not self._in_place and table != self._table:
            self.end()
        self._table = table
        self._say(f"{table.replace('_', ' ')}: {count:,}")

    def waiting(self, live: str) -> None:
        said = f"Waiting for {live}."
        if said != self._said:
            self._say(said)
            if not self._in_place:
                tell(said)

    def _say(self, said: str) -> None:
        if self._in_place:
            sys.stderr.write(f"\r{said:<{len(self._said)}}")
            sys.stderr.flush()
        self._said = said

    def end(self) -> None:
        """The last word on a table, or an empty line."""
        if self._in_place:
            sys.stderr.write(f"\r{'':<{len(self._said)}}\r")
            sys.stderr.flush()
        elif self._table:
            tell(self._said)
