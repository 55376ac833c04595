"""Status lines as they come: above a live picture on a terminal, lines in a log, or a JSON object a line.

A queue and a separate thread decouple the caller from the terminal: a slow or paused terminal must not delay
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live

from interlock.cli.page import Text
from interlock.cli.views import words
from interlock.worker.status_lines import StatusLine

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from interlock.cli.output import Output

_LINES_MAX = 5_000
_LINE_MAX_BYTES = 4_096
_FRAME_S = 0.25
#: How many of the last lines are printed again after the terminal has changed its size.
_RECENT_MAX = 200
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
    "crashed",
    "killed",
    "error",
}
#: After these a run prints nothing more.
_LAST_WORDS = ("ended", "refused", "lost")


class StatusScreen:
    """Shows status lines without ever waiting for the reader."""

    def __init__(self, out: Output, *, echo: bool = False) -> None:
        """`echo`: in JSON, the output of commands is an event of its own."""
        self._out = out
        self._echo = echo
        self._live = not out.json and _in_foreground()
        self._queue: queue.SimpleQueue[StatusLine | str | None] = queue.SimpleQueue()
        self._rests: dict[int, bytes] = {}
        self._left_out = 0
        self._frame_s = _FRAME_S

    def tell(self, status: StatusLine) -> None:
        """Something happened."""
        if (
            status.kind in _LAST_WORDS
            and status.run is not None
            and (rest := self._rests.pop(status.run, b""))
        ):
            self._queue.put(self._line(status.run, rest))
        self._queue.put(status)

    def echo(self, run: int, data: bytes) -> None:
        """An agent has printed something: shown line by line where there is a log rather than a table."""
        if self._live or (self._out.json and not self._echo):
            return
        *lines, rest = (self._rests.get(run, b"") + data).split(b"\n")
        self._rests[run] = rest[-_LINE_MAX_BYTES:]
        for line in lines:
            if self._queue.qsize() > _LINES_MAX:
                self._left_out += 1
            else:
                self._queue.put(self._line(run, line))

    def _line(self, run: int, line: bytes) -> StatusLine | str:
        """A line as a terminal shows it: the last state of a progress bar."""
        shown = line.rstrip(b"\r").rpartition(b"\r")[2][:_LINE_MAX_BYTES].decode(errors="replace")
        text = words.uncoloured(shown)
        return StatusLine(kind="output", text=text, run=run) if self._out.json else f"{run} | {text}"

    @contextmanager
    def showing(
        self, picture: Callable[[int], RenderableType], rows: int, *, frame_s: float = _FRAME_S
    ) -> Iterator[None]:
        """Show status lines until the end, then the rest of them.

        On a terminal, `picture` is drawn below them for the width of the terminal, at least every `frame_s`.
        It has about `rows` rows.
        """
        self._frame_s = frame_s
        thread = threading.Thread(
            target=self._show, args=(picture, rows), name="interlock-screen", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._queue.put(None)
            thread.join(timeout=2.0)  # a reader that does not read must not delay the worker

    def _show(self, picture: Callable[[int], RenderableType], rows: int) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # the reader is gone; the work continues
            if self._live:
                self._show_picture(picture, rows)
            else:
                while (said := self._queue.get()) is not None:
                    self._print(said)

    def _print(self, said: StatusLine | str) -> None:
        left_out = ""
        if self._left_out and self._queue.empty():
            left_out, self._left_out = f"{self._left_out:,} lines of output left out here; see the logs", 0
        if self._out.json:
            assert isinstance(said, StatusLine)
            self._out.print_json(as_json(said))
            if left_out:
                self._out.print_json(as_json(StatusLine(kind="left_out", text=left_out)))
            return
        text = said if isinstance(said, str) else words.harmless(said.text)
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        if left_out:
            sys.stdout.write(f"{left_out}\n")
        sys.stdout.flush()

    def _show_picture(self, picture: Callable[[int], RenderableType], rows: int) -> None:
        console = self._out.console
        recent: deque[Text] = deque(maxlen=_RECENT_MAX)
        while True:
            size = console.size
            with Live(console=console, auto_refresh=False, transient=True) as live:
                while console.size == size:
                    if not self._take(console, recent):
                        return
                    live.update(picture(size.width), refresh=True)
            # The terminal has moved the old lines to unknown places: print them again.
            console.clear()
            for line in list(recent)[-max(1, console.size.height - rows - 2) :]:
                console.print(line)

    def _take(self, console: Console, recent: deque[Text]) -> bool:
        """Print the status lines that have come, after at most one frame; false after the last one."""
        with contextlib.suppress(queue.Empty):
            wait_s = self._frame_s
            while (said := self._queue.get(timeout=wait_s)) is not None:
                wait_s = 0.0
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
