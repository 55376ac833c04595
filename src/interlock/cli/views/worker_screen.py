"""A worker at work: a live table of its slots on a terminal, lines in a log, or a JSON object a line.

A queue and a separate thread decouple the worker from the terminal: a slow or paused terminal must not delay
a heartbeat. Output of agents that is too fast to show is left out; the log has it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live

from interlock.cli.page import Table, Text, cell_len
from interlock.cli.views import words
from interlock.core.timing import span
from interlock.process.clock import now_s
from interlock.worker.status_lines import StatusLine

if TYPE_CHECKING:
    from rich.console import Console

    from interlock.cli.output import Output
    from interlock.worker.worker import Worker

_LINES_MAX = 5_000
_LINE_MAX_BYTES = 4_096
_FRAME_S = 0.25
#: How many of the last lines are printed again after the terminal has changed its size.
_RECENT_MAX = 200
_COLUMNS = ("SLOT", "RUN", "ITEM", "TITLE", "LANE", "SINCE", "STATE", "LAST OUTPUT")
_GAP, _TEXT_MIN = 2, 9
#: Columns that may be cut, with the least width left for all of them at which each is shown.
_ELASTIC = {"TITLE": 20, "LANE": 48, "LAST OUTPUT": 0}
_LOUD = {
    "refused",
    "lost",
    "trouble",
    "not_started",
    "timed_out",
    "hindered",
    "stays",
    "log_lost",
    "unkept",
    "spooled",
    "unfenced",
}
#: After these a run prints nothing more.
_LAST_WORDS = ("ended", "refused", "lost")


class WorkerScreen:
    """Shows a worker's status lines without ever waiting for the reader."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._live = not out.json and _in_foreground()
        self._queue: queue.SimpleQueue[StatusLine | str | None] = queue.SimpleQueue()
        self._rests: dict[int, bytes] = {}
        self._left_out = 0

    def tell(self, status: StatusLine) -> None:
        """Something happened."""
        if (
            status.kind in _LAST_WORDS
            and status.run is not None
            and (rest := self._rests.pop(status.run, b""))
        ):
            self._queue.put(_line(status.run, rest))
        self._queue.put(status)

    def echo(self, run: int, data: bytes) -> None:
        """An agent has printed something: shown line by line where there is a log rather than a table."""
        if self._live or self._out.json:
            return
        *lines, rest = (self._rests.get(run, b"") + data).split(b"\n")
        self._rests[run] = rest[-_LINE_MAX_BYTES:]
        for line in lines:
            if self._queue.qsize() > _LINES_MAX:
                self._left_out += 1
            else:
                self._queue.put(_line(run, line))

    @contextmanager
    def showing(self, worker: Worker) -> Iterator[None]:
        """Show status lines until the end, then the rest of them."""
        thread = threading.Thread(target=self._show, args=(worker,), name="interlock-screen", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._queue.put(None)
            thread.join(timeout=2.0)  # a reader that does not read must not delay the worker

    def _show(self, worker: Worker) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # the reader is gone; the work continues
            if self._live:
                self._show_table(worker)
            else:
                while (said := self._queue.get()) is not None:
                    self._print(said)

    def _print(self, said: StatusLine | str) -> None:
        if self._out.json:
            if isinstance(said, StatusLine):
                self._out.print_json(as_json(said))
            return
        text = said if isinstance(said, str) else words.harmless(said.text)
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        if self._left_out and self._queue.empty():
            self._left_out, n = 0, self._left_out
            sys.stdout.write(f"{n:,} lines of output left out here; see the logs\n")
        sys.stdout.flush()

    def _show_table(self, worker: Worker) -> None:
        console = self._out.console
        recent: deque[Text] = deque(maxlen=_RECENT_MAX)
        while True:
            size = console.size
            with Live(console=console, auto_refresh=False, transient=True) as live:
                while console.size == size:
                    if not self._take(console, recent):
                        return
                    live.update(slots(worker, size.width), refresh=True)
            # The terminal has moved the old lines to unknown places: print them again.
            console.clear()
            for line in list(recent)[-max(1, console.size.height - worker.options.slots - 2) :]:
                console.print(line)

    def _take(self, console: Console, recent: deque[Text]) -> bool:
        """Print status lines until a frame is due; false after the last one."""
        with contextlib.suppress(queue.Empty):
            while (said := self._queue.get(timeout=_FRAME_S)) is not None:
                assert isinstance(said, StatusLine)
                style = "red" if _is_loud(said) else words.QUIET if said.kind == "started" else ""
                recent.append(Text(f"{words.clock(said.at)}  {words.harmless(said.text)}", style=style))
                console.print(recent[-1])
            return False
        return True


def _is_loud(said: StatusLine) -> bool:
    return said.kind in _LOUD or said.data.get("status") in words.FAILURES


def _in_foreground() -> bool:
    """Whether we may redraw the terminal: a worker that a shell started with & shares it with others."""
    if not sys.stdout.isatty():
        return False
    with contextlib.suppress(OSError):  # a terminal that does not control us has no other process
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    return True


def _line(run: int, line: bytes) -> str:
    """A line as a terminal shows it: the last state of a progress bar."""
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    return f"{run} | {words.uncoloured(shown[:_LINE_MAX_BYTES].decode(errors='replace'))}"


def slots(worker: Worker, width: int) -> Table:
    """One row for each slot. Numbers and states are never cut; a narrow terminal loses the lane first."""
    runs = {run.slot: run for run in worker.runs()}
    rows: list[dict[str, str]] = []
    for n in range(1, worker.options.slots + 1):
        row = dict.fromkeys(_COLUMNS, "") | {
            "SLOT": str(n),
            "STATE": "draining" if worker.draining else "idle",
        }
        if (run := runs.get(n)) is not None:
            row |= {
                "RUN": str(run.fence),
                "ITEM": str(run.item.id),
                "TITLE": words.harmless(run.item.title),
                "LANE": run.item.lane or "",
                "SINCE": span(now_s() - run.begun_s),
                "LAST OUTPUT": words.uncoloured(run.last_line),
            }
            if run.state != "running" or not worker.draining:
                row["STATE"] = run.state
        rows.append(row)
    widths = column_widths(rows, width)
    table = words.table(*widths)
    for row in rows:
        row["LANE"] = words.shorten_lane(row["LANE"], widths.get("LANE", 0))
        table.add_row(*(words.shorten(row[name], room) for name, room in widths.items()))
    return table


def column_widths(rows: list[dict[str, str]], width: int) -> dict[str, int]:
    """The columns that fit, with their widths; the last output gets the rest."""
    full = {name: max(len(name), *(cell_len(row[name]) for row in rows)) for name in _COLUMNS}
    # Spans and states come and go; columns that move all the time are hard to read.
    full["SINCE"], full["STATE"] = max(full["SINCE"], 6), max(full["STATE"], 9)
    left = width - sum(full[name] + _GAP for name in _COLUMNS if name not in _ELASTIC)
    shown = [name for name, least in _ELASTIC.items() if left >= least]
    room: dict[str, int] = {}
    for name in shown:
        room[name] = left if name == shown[-1] else min(full[name], max(left // 3, _TEXT_MIN))
        left -= room[name] + _GAP
    return {name: room.get(name, full[name]) for name in _COLUMNS if name not in _ELASTIC or name in room}


def as_json(status: StatusLine) -> dict[str, object]:
    """The `--json` form of each status line."""
    return {
        "event": status.kind,
        "at": status.at,
        "run": status.run,
        "item": status.item,
        "lane": status.lane,
        "text": status.text,
        **status.data,
    }
