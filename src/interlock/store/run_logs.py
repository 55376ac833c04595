"""The end of the output of runs, as their workers send it. It is in tables of its own, away from hot rows."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core.handles import Handle
from interlock.core.output_text import last_line
from interlock.core.row import NamedTuple
from interlock.store.tables import Ask, Tables

#: The most characters of a piece, and those kept of a run; and the runs whose output is kept.
PIECE_MAX_CHARS, KEPT_CHARS, KEPT_RUNS = 1 << 14, 1 << 16, 1_000
LINE_MAX_CHARS = 200


class RunLogRow(NamedTuple):
    run: int
    item: int
    #: Where the next output begins: the characters written, and those left out.
    size: int
    last_line: str
    at_us: int


class RunLogPiece(NamedTuple):
    start: int
    text: str


class RunLogStore:
    """The output of runs. Each write is one transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def append(self, handle: Handle, start: int, text: str) -> bool:
        """Write a piece that begins at `start`. False, and nothing is written, if the run is not its item's
        current one, or the piece is known."""
        size = start + len(text)
        of = {"run": handle.run, "item": handle.item, "bits": handle.bits}

        def work(ask: Ask) -> bool:
            line = last_line(text, LINE_MAX_CHARS)
            written = ask("run_logs/advance", **of, start=start, size=size, last_line=line)
            if not written:
                return False
            ask("run_logs/keep_piece", run=handle.run, start=start, text=text)
            ask("run_logs/drop_pieces", run=handle.run, before=size - KEPT_CHARS)
            if written[0][0] == 1:
                ask("run_logs/drop_oldest", kept=KEPT_RUNS)
            return True

        return self._tables.writing(work)

    def log(self, run: int) -> RunLogRow | None:
        rows = self._tables.read("run_logs/log", run=run)
        return RunLogRow(*rows[0]) if rows else None

    def pieces(self, run: int) -> list[RunLogPiece]:
        """The kept output of a run, in order."""
        return [RunLogPiece(*row) for row in self._tables.read("run_logs/pieces", run=run)]

    def last_lines(self, runs: Sequence[int]) -> dict[int, str]:
        """The last line of each of these runs. Runs without output are left out."""
        return dict(self._tables.read("run_logs/last_lines", runs=list(runs))) if runs else {}
