"""What a worker of a fleet has said, read from its log: its runs, its state, and its lines for people."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: Far longer than a line of a worker: what has no end by then is no line.
LINE_MAX_BYTES = 1 << 16
#: With these a run no longer has its slot.
_RUN_ENDS = frozenset({"ended", "refused", "lost", "timed_out", "not_started"})
#: With these a worker's own state changes.
_STATES = {"ready": "ready", "draining": "draining", "stopping": "stopping"}
#: What the command of a run prints.
OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One line of a worker's log."""

    kind: str
    text: str
    at: datetime | None = None
    run: int | None = None
    item: int | None = None
    title: str = ""
    #: How the run has ended.
    status: str = ""

    @property
    def shown(self) -> str:
        """The line for people."""
        return f"{self.run} | {self.text}" if self.kind == OUTPUT else self.text


def read_line(line: bytes) -> Said:
    """One line: a status line in JSON, an error in JSON, or what else a process prints."""
    text = line.decode(errors="replace").rstrip("\r\n")
    try:
        value = json.loads(text)
    except ValueError:
        return Said(kind="printed", text=text)
    if not isinstance(value, dict):
        return Said(kind="printed", text=text)
    if isinstance(value.get("error"), dict):
        error = value["error"]
        return Said(
            kind="error", text=" ".join(filter(None, (_text(error, "message"), _text(error, "hint"))))
        )
    return Said(
        kind=_text(value, "event"),
        text=_text(value, "text"),
        at=_moment(value.get("at")),
        run=_number(value, "run"),
        item=_number(value, "item"),
        title=_text(value, "title"),
        status=_text(value, "status"),
    )


class Journal:
    """Reads a worker's log as it grows, and keeps what its lines add up to."""

    def __init__(self, log: Path, former: Path) -> None:
        self._log, self._former = log, former
        self._place = 0
        self._rest = b""
        #: `starting` until the worker is ready; then `ready`, `draining` or `stopping`.
        self.state = "starting"
        #: When it said so.
        self._state_at: datetime | None = None
        #: The runs at work, with their items and titles.
        self.runs: dict[int, tuple[int, str]] = {}
        #: What the process printed beside its status lines, as an error before its end.
        self.problem = ""
        #: The last line that is not blank.
        self.last: Said | None = None

    def replay(self) -> list[Said]:
        """Read all that is kept, the former log first."""
        lines = []
        with contextlib.suppress(OSError):
            lines = [self._take(line) for line in self._former.read_bytes().splitlines()]
        return [*lines, *self.read()]

    def read(self) -> list[Said]:
        """The lines that were added since the last time."""
        said = []
        try:
            with self._log.open("rb") as file:
                if file.seek(0, 2) < self._place:  # moved away meanwhile
                    self._place, self._rest = 0, b""
                file.seek(self._place)
                while data := file.read(1 << 16):
                    self._place += len(data)
                    *lines, self._rest = (self._rest + data).split(b"\n")
                    said += [self._take(line) for line in lines]
                    if len(self._rest) > LINE_MAX_BYTES:
                        self._rest = b""
        except OSError:
            pass
        return said

    def has_grown(self) -> bool:
        """Whether there is something to read: cheaper than to read it."""
        try:
            return self._log.stat().st_size != self._place
        except OSError:
            return False

    def begin(self) -> None:
        """The worker is started anew: forget what the former one said of itself."""
        self.state, self.runs, self.problem = "starting", {}, ""
        self._state_at = None

    def is_older_than(self, began_s: float) -> bool:
        """Whether its state is what a former process said of itself: the present one began at `began_s`."""
        return self._state_at is not None and self._state_at.timestamp() < began_s

    def moved(self) -> None:
        """The log was moved away, after all of it was read."""
        self._place = 0

    def _take(self, line: bytes) -> Said:
        said = read_line(line)
        if said.kind == "ready":
            self.runs = {}
        if said.kind in _STATES:
            self.state, self._state_at = _STATES[said.kind], said.at
        if said.kind == "started" and said.run is not None and said.item is not None:
            self.runs[said.run] = (said.item, said.title)
        elif said.kind in _RUN_ENDS and said.run is not None:
            self.runs.pop(said.run, None)
        if said.text.strip():
            self.last = said
            if said.kind in ("error", "printed"):
                self.problem = said.text.strip()
        return said


def merged(journals: dict[str, list[Said]]) -> Iterator[tuple[str, Said]]:
    """The lines of several workers by their times; lines without one stay behind the line before them."""
    dated: list[tuple[datetime, int, str, Said]] = []
    for name, lines in journals.items():
        at = datetime.min.replace(tzinfo=UTC)
        for said in lines:
            at = said.at or at
            dated.append((at, len(dated), name, said))
    for _, _, name, said in sorted(dated, key=lambda each: each[:2]):
        yield name, said


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _number(value: dict[str, Any], key: str) -> int | None:
    found = value.get(key)
    return found if type(found) is int else None


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else None
