"""The output of a command: a log of bounded size on disk, and the last bytes in memory.

The log keeps the beginning and the end of the output. Once it is full, the end is written in a circle and put
in order when the run has ended. Until then newer lines may come before older ones. If the log cannot be
written, the run continues without it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

#: The bytes kept of the beginning, and of the end.
HEAD_BYTES = TAIL_BYTES = 1 << 19
#: The most logs that are kept.
LOGS_MAX = 500
#: How often a reader polls for more.
FOLLOW_S = 0.2


class Tail:
    """The last bytes of a stream."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def take(self, data: bytes) -> None:
        self._pieces.append(data[-self._max_bytes :])
        self._size += len(self._pieces[-1])
        while self._size - len(self._pieces[0]) >= self._max_bytes:
            self._size -= len(self._pieces.popleft())

    def text(self) -> str:
        """The bytes as text that every store can keep."""
        data = b"".join(self._pieces)[-self._max_bytes :]
        return data.decode(errors="replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")

    def last_line(self) -> str:
        """The last line that is not blank, as a terminal shows it: a progress bar overwrites itself."""
        lines = re.split("[\r\n]", self.text()[-2_000:])
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class RunLog:
    """The log of one run, `logs/run-<n>.log`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._size = 0
        with contextlib.suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o600)

    @property
    def usable(self) -> bool:
        """False once the log could not be written. The run continues without it."""
        return self._file is not None

    def take(self, data: bytes) -> None:
        """Write output; never raises."""
        while data and self._file is not None:
            if self._size < HEAD_BYTES:
                place, room = self._size, HEAD_BYTES - self._size
            else:
                turn = (self._size - HEAD_BYTES) % TAIL_BYTES
                place, room = HEAD_BYTES + turn, TAIL_BYTES - turn
            try:
                written = os.pwrite(self._file, data[:room], place)
            except OSError:
                self._give_up()
                return
            self._size += written
            data = data[written:]

    def close(self) -> None:
        """Put the end in order, with a line that counts the bytes left out."""
        if self._file is None:
            return
        left_out = self._size - HEAD_BYTES - TAIL_BYTES
        if left_out > 0:
            with contextlib.suppress(OSError):
                turn = (self._size - HEAD_BYTES) % TAIL_BYTES
                circle = os.pread(self._file, TAIL_BYTES, HEAD_BYTES)
                note = f"\n[… {left_out:,} bytes left out …]\n".encode()
                os.pwrite(self._file, note + circle[turn:] + circle[:turn], HEAD_BYTES)
        self._give_up()

    def _give_up(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None


def written(path: Path, goes_on: Callable[[], bool]) -> Iterator[bytes]:
    """The content of a log, and further output until the run ends.

    A full log is written in a circle, so its end follows when the run has ended.
    """
    place = 0
    with path.open("rb") as file:
        while True:
            last = not goes_on()  # before the read, so that no output is missed
            if last and place == HEAD_BYTES + TAIL_BYTES:
                place = HEAD_BYTES  # the end, in order, with a count of omitted bytes
            file.seek(place)
            while data := file.read(HEAD_BYTES + TAIL_BYTES - place if not last else 1 << 16):
                place += len(data)
                yield data
            if last:
                return
            time.sleep(FOLLOW_S)


def prune(directory: Path) -> None:
    """Remove the oldest logs beyond the limit."""
    with contextlib.suppress(OSError):
        dated = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(directory))
        for _, path in dated[:-LOGS_MAX]:
            Path(path).unlink(missing_ok=True)
