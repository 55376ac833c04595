"""Workers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.page import Text
from interlock.cli.views import words
from interlock.service.contract import WorkerView

if TYPE_CHECKING:
    from interlock.cli.page import Console


def workers(console: Console, found: Sequence[WorkerView]) -> None:
    """One line for each worker, most recently seen first."""
    if not found:
        console.print("No workers. Start one: interlock work --agent NAME -- COMMAND")
        return
    made = words.table(
        *("AGENT", "STATE", "RUNS", "HOST", "PID", "SINCE", "SEEN", "FOLDER"),
        right=("RUNS", "PID"),
        wrapped=("AGENT", "HOST", "FOLDER"),
    )
    for worker in found:
        made.add_row(
            words.harmless(worker.agent),
            Text("alive", style="green") if worker.alive else Text("silent", style="red"),
            f"{worker.runs} of {worker.slots}",
            words.harmless(worker.host),
            str(worker.pid),
            words.relative(worker.since),
            words.relative(worker.last_seen_at),
            words.harmless(worker.folder),
        )
    console.print(made)
