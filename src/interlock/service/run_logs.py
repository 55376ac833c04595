"""Logs of runs: a worker sends the end of the output, and everybody who may read the store reads it."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence

from interlock.core import names
from interlock.core.cures import cure
from interlock.core.endings import explain_loss
from interlock.core.errors import InvalidInput, NotFound
from interlock.core.handles import read_handle
from interlock.core.model import ItemId
from interlock.core.output_text import plain
from interlock.service.contract import RunLogView
from interlock.service.item_view import moment
from interlock.service.reads import ended_run, item_of_run
from interlock.store.port import Store
from interlock.store.run_logs import PIECE_MAX_CHARS

#: Numbers of places in a log stay below this.
PLACE_MAX = 2**53
#: What stands in the place of the handle's secret part: readers of a log must not write as its run.
REDACTED = "[redacted]"
#: The most runs whose last lines are asked for at once.
LINES_MAX = 100


class RunLogs:
    """The operations on logs of runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append_log(self, run: str, *, start: int, text: str) -> int:
        """Add a piece to the log of a current run; gives where the next one begins. A repeated piece changes
        nothing. Escape sequences and control characters are left out. Of a run the last 65,536 characters
        are kept, and of the store the logs of the last 1,000 runs."""
        handle = read_handle(run)
        names.check_whole("start", start, 0, PLACE_MAX)
        names.check_text("text", text, 4 * PIECE_MAX_CHARS)
        if len(text) > PIECE_MAX_CHARS:
            raise InvalidInput(f"The text has {len(text)} characters.", f"Send at most {PIECE_MAX_CHARS}.")
        text = plain(text).replace(run.strip().rpartition(".")[2], REDACTED)
        if not self._store.run_logs.append(handle, start, text):
            item = item_of_run(self._store, handle)
            if not item.is_run_of(handle.run, handle.bits):
                raise explain_loss(handle.run, ended_run(self._store, handle), item).error()
        return start + len(text)

    def run_log(self, run: int, *, offset: int = 0) -> RunLogView:
        """The kept end of a run's output, from a place on. Ask again from `end` for what comes after it."""
        names.check_whole("run", run, 1, PLACE_MAX)
        names.check_whole("offset", offset, 0, PLACE_MAX)
        log = self._store.run_logs.log(run)
        if log is None:
            told = cure("items", "lists all items", wanted={"all": True})
            raise NotFound(f"The store has no log of run {run}.", cures=(told,))
        item = self._store.item(ItemId(log.item))
        pieces = self._store.run_logs.pieces(run) if offset < log.size else []
        start, text = _joined([(piece.start, piece.text) for piece in pieces], offset)
        return RunLogView(
            run=run,
            item=log.item,
            start=start if text else min(offset, log.size),
            end=max(log.size, start + len(text)),
            text=text,
            running=item is not None and item.state.run == run,
            written_at=moment(log.at_us),
        )

    def last_lines(self, *, runs: Sequence[int] = ()) -> dict[str, str]:
        """The last line of the output of runs, by their numbers. Runs without a log are left out."""
        if not isinstance(runs, list | tuple):
            raise InvalidInput(f"The runs {reprlib.repr(runs)} are not a list.", "Use [1, 2].")
        names.check_whole("number of runs", len(runs), 0, LINES_MAX)
        for run in runs:
            names.check_whole("run", run, 1, PLACE_MAX)
        return {str(run): line for run, line in self._store.run_logs.last_lines(list(runs)).items()}


def _joined(pieces: Sequence[tuple[int, str]], offset: int) -> tuple[int, str]:
    """The output from a place on, with a line where output was left out."""
    found: list[str] = []
    first = end = offset
    for start, text in pieces:
        if start + len(text) <= offset:
            end = max(end, start + len(text))
            continue
        cut = text[max(0, offset - start) :]
        begins = max(start, offset)
        if not found:
            first = begins
        elif begins > end:
            found.append(f"\n[… {begins - end:,} characters left out …]\n")
        found.append(cut)
        end = begins + len(cut)
    return first, "".join(found)
