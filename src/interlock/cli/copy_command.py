"""`interlock copy`: the store moves to another database."""

from __future__ import annotations

import sys
from typing import Annotated

from interlock.cli import typer
from interlock.cli.invocation import invocation_of
from interlock.cli.output import tell
from interlock.core.errors import InvalidInput
from interlock.service.drained_copy import Copied


def copy(
    ctx: typer.Context,
    to: Annotated[
        str,
        typer.Option("--to", metavar="URL", help="The target: an empty database or a new file."),
    ],
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for live runs to end; no other run starts meanwhile."),
    ] = False,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Unseal this store if its copy was interrupted."),
    ] = False,
) -> int:
    """Copy the whole store to another database, and seal this one.

    The new store continues where this one stopped. Run the command again if it was interrupted.
    """
    from interlock.service import administration

    call = invocation_of(ctx)
    if wait and undo:
        raise InvalidInput("--wait and --undo exclude each other.", "Use one of them at a time.")
    if undo:
        place = administration.undo_copy(call.settings, to)
        return call.out.answer({"store": place}, f"The store is {place}, as before the copy.")
    progress = CopyProgress()
    copied = administration.copy(
        call.settings, to, tell=progress.rows, waiting=progress.waiting if wait else None
    )
    progress.end()
    return call.out.answer(copied, _summary(copied))


def _summary(copied: Copied) -> str:
    told = "The copy was already complete"
    if copied.rows:
        told = "Copied everything: " + ", ".join(
            f"{table} {copied.rows[table]:,}" for table in ("items", "runs", "events")
        )
    return (
        f"{told}.\nThe store is {copied.target} now; run numbers continue after {copied.last_run}.\n"
        f"{copied.source} is sealed: read-only.\n"
        "Set INTERLOCK_URL to the new store wherever the old one was configured."
    )


class CopyProgress:
    """The progress of a copy on standard error: one changing line, or a line for each table if it is
    `lasting`."""

    def __init__(self, *, lasting: bool = True) -> None:
        self._lasting = lasting
        self._in_place = sys.stderr.isatty()
        self._table, self._said = "", ""

    def rows(self, table: str, count: int) -> None:
        if not (self._in_place or self._lasting):
            return
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
