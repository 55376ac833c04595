"""The journals: what each process tried, and what it was answered, outside the store.

A line is one `write` of one JSON object. The line of an attempt is written before the request is sent, the
line of its answer after it. So a journal never claims more than its process was told, however it dies.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

SUFFIX = ".jsonl"

Line = dict[str, Any]


class ProcessJournal:
    """The journal of one process."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        self._file = os.open(directory / f"{name}{SUFFIX}", flags, 0o600)
        self._last = 0

    def note(self, state: str, op: str, **facts: Any) -> None:
        """Write one line. Times are of the host's monotonic clock, which all processes share."""
        line = {"t": round(time.monotonic(), 6), "who": self.name, "state": state, "op": op, **facts}
        os.write(self._file, json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def attempt(self, op: str, **facts: Any) -> int:
        """Note that a request is sent; its answer gets the same number."""
        self._last += 1
        self.note("attempt", op, n=self._last, **facts)
        return self._last


class JournalTail:
    """Reads what the processes add to their journals."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, int] = {}
        self.lines: list[Line] = []
        #: The last line of each process.
        self.last: dict[str, Line] = {}
        #: When each process was last answered.
        self.answered_s: dict[str, float] = {}

    def look(self) -> list[Line]:
        """The new lines, in the order of their times."""
        new: list[Line] = []
        with os.scandir(self._directory) as entries:
            files = [(e.name, e.stat().st_size) for e in entries if e.name.endswith(SUFFIX)]
        for name, size in files:
            at = self._read.get(name, 0)
            if size > at:
                with (self._directory / name).open("rb") as file:
                    file.seek(at)
                    data = file.read(size - at)
                whole = data[: data.rfind(b"\n") + 1]  # a kill may truncate the last line
                self._read[name] = at + len(whole)
                new += [json.loads(line) for line in whole.splitlines()]
        new.sort(key=lambda line: line["t"])
        for line in new:
            self.last[line["who"]] = line
            if line["state"] == "ack":
                self.answered_s[line["who"]] = line["t"]
        self.lines += new
        return new
