"""Session locks as a table."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.cli.page import Console, Text
from interlock.cli.views import words
from interlock.session.lockfile import LockView


def locks(console: Console, found: Sequence[LockView]) -> None:
    """One line for each lock file."""
    table = words.table("SESSION", "STATE", "RUN", "PROCESS", "SINCE", wrapped=("RUN",))
    for lock in found:
        table.add_row(
            str(lock.number),
            _state(lock),
            lock.run_id or lock.problem or "unreadable",
            _process(lock),
            words.relative(lock.acquired_at) if lock.acquired_at is not None else "",
        )
    console.print(table)


def _state(lock: LockView) -> Text:
    if lock.problem is not None:
        return Text("locked, file gone" if lock.held else "unusable", style="bold red")
    return Text("locked", style="bold green") if lock.held else Text("free", style=words.QUIET)


def _process(lock: LockView) -> str:
    """The process whose end frees the lock."""
    process = lock.pid if lock.until_pid is None else lock.until_pid
    return "" if process is None else str(process)
