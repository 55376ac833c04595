"""A worker at work: a live table of its slots on a terminal, lines in a log, or a JSON object a line.

Whatever is shown goes through a queue to a thread of its own: a terminal that is slow or paused must not hold
up a heartbeat. Output of agents that comes faster than it can be shown is left out here; the log has it.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock.agent import now_s
from interlock.cli.views import words
from interlock.job import Notice

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from interlock.cli.output import Output
    from interlock.worker import Worker

_LINES_MAX = 5_000
_LINE_MAX_BYTES = 4_096
_FRAME_S = 0.25
_LOUD = {"refused", "lost", "trouble", "not_started", "timed_out", "stays", "log_lost", "spooled", "unfenced"}
#: After these a run prints nothing more.
_LAST_WORDS = ("ended", "refused", "lost")


class Screen:
    """Shows what a worker says. Nothing here waits for who reads it."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._live = not out.json and sys.stdout.isatty()
        self._queue: queue.SimpleQueue[Notice | str | None] = queue.SimpleQueue()
        self._rests: dict[int, bytes] = {}
        self._left_out = 0

    def tell(self, notice: Notice) -> None:
        """Something happened."""
        if (
            notice.kind in _LAST_WORDS
            and notice.run is not None
            and (rest := self._rests.pop(notice.run, b""))
        ):
            self._queue.put(_line(notice.run, rest))
        self._queue.put(notice)

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
        """Show until the block ends, then what is left."""
        thread = threading.Thread(target=self._show, args=(worker,), name="interlock-screen", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._queue.put(None)
            thread.join(timeout=2.0)  # a reader that does not read must not keep the worker

    def _show(self, worker: Worker) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # the reader has gone; the work goes on
            if self._live:
                self._show_table(worker)
            else:
                while (said := self._queue.get()) is not None:
                    self._print(said)

    def _print(self, said: Notice | str) -> None:
        if self._out.json:
            if isinstance(said, Notice):
                self._out.print_json(as_json(said))
            return
        text = said if isinstance(said, str) else words.harmless(said.text)
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        if self._left_out and self._queue.empty():
            self._left_out, n = 0, self._left_out
            sys.stdout.write(f"{n:,} lines of output left out here; see the logs\n")
        sys.stdout.flush()

    def _show_table(self, worker: Worker) -> None:
        from rich.live import Live
        from rich.text import Text

        console = self._out.console
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while True:
                with contextlib.suppress(queue.Empty):
                    while (said := self._queue.get(timeout=_FRAME_S)) is not None:
                        assert isinstance(said, Notice)
                        style = "red" if said.kind in _LOUD else words.QUIET if said.kind == "started" else ""
                        console.print(
                            Text(f"{words.clock(said.at)}  {words.harmless(said.text)}", style=style)
                        )
                    return
                self._draw(live, worker)

    def _draw(self, live: Live, worker: Worker) -> None:
        live.update(slots(worker, live.console.width), refresh=True)


def _line(run: int, line: bytes) -> str:
    return f"{run} | {words.harmless(line[:_LINE_MAX_BYTES].decode(errors='replace'))}"


def slots(worker: Worker, width: int) -> Table:
    """One row for each slot."""
    table = words.table("SLOT", "RUN", "ITEM", "TITLE", "LANE", "SINCE", "STATE", "LAST OUTPUT")
    attempts = {attempt.slot: attempt for attempt in worker.attempts()}
    part = max(12, (width - 48) // 3)
    for n in range(1, worker.wish.slots + 1):
        attempt = attempts.get(n)
        if attempt is None:
            table.add_row(str(n), "", "", "", "", "", "draining" if worker.draining else "idle", "")
            continue
        table.add_row(
            str(n),
            str(attempt.fence),
            str(attempt.item.id),
            words.shorten(words.harmless(attempt.item.title), part),
            words.shorten_lane(attempt.item.lane or "", part),
            words.span(now_s() - attempt.begun_s),
            attempt.state,
            words.shorten(words.harmless(attempt.last_line), part),
        )
    return table


def as_json(notice: Notice) -> dict[str, object]:
    """What `--json` prints for each thing that happens."""
    return {
        "event": notice.kind,
        "at": notice.at,
        "run": notice.run,
        "item": notice.item,
        "lane": notice.lane,
        "text": notice.text,
        **notice.data,
    }
