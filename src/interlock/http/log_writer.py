"""Writes the log of a server from a thread, so that whoever reads it cannot stop the server.

A pipe that nobody reads holds up the thread alone. Lines wait for it up to a limit; further ones are dropped
and counted. So are lines that cannot be written: the disk is full, or the reader has gone.
"""

from __future__ import annotations

import os
import select
import threading
from queue import SimpleQueue

#: How many lines wait to be written.
LINES_MAX = 10_000
#: How long the end of a server waits for the last of them.
CLOSE_S = 1.0
_AT_ONCE = 1_000


class LogWriter:
    """Writes lines to a file descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        #: How many lines were dropped.
        self.dropped = 0
        self._thread = threading.Thread(target=self._loop, name="interlock-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Have a line written."""
        if self._lines.qsize() >= LINES_MAX:
            self.dropped += 1
        else:
            self._lines.put(line)

    def flush(self) -> None:
        """Nobody waits for a log."""

    def close(self) -> None:
        """Write what waits, as far as that does not take long."""
        self._lines.put(None)
        self._thread.join(CLOSE_S)

    def _loop(self) -> None:
        line: str | None = ""
        while line is not None:
            line = self._lines.get()
            lines = []
            while line is not None:
                lines.append(line)
                if len(lines) >= _AT_ONCE or self._lines.empty():
                    break
                line = self._lines.get()
            try:
                self._send("".join(lines).encode(errors="backslashreplace"))
            except OSError:
                self.dropped += len(lines)

    def _send(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:  # whoever shares the descriptor wants it so
                select.select([], [self._fd], [])
