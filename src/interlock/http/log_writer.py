"""Writes the log of a server from a thread, so that its reader cannot stop the server.

A pipe without a reader blocks only the thread. Lines are queued up to a limit; further ones are dropped and
counted. So are lines that cannot be written because the disk is full or the reader is gone.
"""

from __future__ import annotations

import os
import select
import threading
import time
from queue import SimpleQueue

#: The most queued lines.
LINES_MAX = 10_000
#: How long the shutdown waits for the last lines.
CLOSE_S = 1.0
_AT_ONCE = 1_000
#: How long a line waits for others. Waking the thread for each line would delay the one that answers
#: requests.
GATHER_S = 0.005


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
        """Queue a line."""
        if self._lines.qsize() >= LINES_MAX:
            self.dropped += 1
        else:
            self._lines.put(line)

    def flush(self) -> None:
        """Writing a line never waits."""

    def close(self) -> None:
        """Write the queued lines, within a short time limit."""
        self._lines.put(None)
        self._thread.join(CLOSE_S)

    def _loop(self) -> None:
        line: str | None = ""
        while line is not None:
            line = self._lines.get()
            time.sleep(GATHER_S)
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
            except BlockingIOError:  # another process that shares the descriptor has set it so
                select.select([], [self._fd], [])
