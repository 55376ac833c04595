"""The spool: ends of runs on disk until the store has answered, so that results survive outages and crashes.

An end is written here before it is reported, and removed once it is answered. Each worker has its own
directory below `spool/`, beside the default store, locked while it lives. Ends of a dead worker are reported
by the next one that finds them, never by two at once. Reporting twice would do no harm: the store accepts a
run's end once.

Not promised: that a late end is accepted. After a lost lease the store refuses it, which is also an answer.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from interlock.core.commands import Outcome, QuotaLimit
from interlock.core.names import MESSAGE_MAX_BYTES
from interlock.process.smallfile import an_object, read_bytes, record
from interlock.service.contract import Report
from interlock.worker.rundirectory import locked

#: Result and error each within the store's limit, escaped as JSON.
ENTRY_MAX_BYTES = 16 * MESSAGE_MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The reported end of one run."""

    outcome: Outcome
    #: The handle, the right to report the end. Only the owner may read the file.
    run: str
    fence: int
    item: int
    store: str
    result: str | None = None
    error: str | None = None
    #: With a release: the end of the quota limit that it hit.
    until_us: int | None = None
    for_s: float | None = None
    #: Which limit, and who waits beside the item: `agent` or `pool`.
    why: str | None = None
    whole: str | None = None
    #: With a release after a fault of the set-up: how long the item waits.
    fault_s: float | None = None

    @property
    def report(self) -> Report:
        limited = self.until_us is not None or self.for_s is not None
        whole = (self.whole == "agent", self.whole == "pool")
        limit = QuotaLimit(self.until_us, self.for_s, self.why or "", *whole) if limited else None
        return Report(run=self.run, result=self.result, error=self.error, wall=limit, fault_s=self.fault_s)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Parse a file. Raises `ValueError` if it contains no end."""
        values = an_object(data)
        missing = ("until_us", "for_s", "why", "whole", "fault_s")  # in files of earlier versions
        newer = dict.fromkeys(missing)
        return record(cls, {**newer, **values, "outcome": Outcome(str(values.get("outcome")))})


class Spool:
    """The unreported ends of one worker."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def make(cls, directory: Path, worker: str) -> Self:
        """Create this worker's own spool. No other worker sees it before it is locked."""
        draft = directory / f".{worker}"
        draft.mkdir(mode=0o700)
        lock = os.open(draft / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return cls(draft.rename(directory / worker), lock)

    def keep(self, end: RunEnd) -> None:
        """Write an end to disk, durably. Raises `OSError` if that fails."""
        draft = self.path / f".run-{end.fence}"
        with contextlib.ExitStack() as undo:
            undo.callback(draft.unlink, missing_ok=True)
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(json.dumps(asdict(end)).encode())
                stream.flush()
                os.fsync(stream.fileno())
            draft.rename(self._entry(end))
            undo.pop_all()
        _sync_directory(self.path)

    def drop(self, end: RunEnd) -> None:
        """Remove an answered end."""
        with contextlib.suppress(OSError):  # the next worker reports it again, then drops it
            self._entry(end).unlink()

    def ends(self) -> list[RunEnd]:
        """The unanswered ends. A file without an end is renamed and not read again."""
        found = []
        for path in sorted(self.path.glob("run-*.json")):
            try:
                end = RunEnd.read(read_bytes(path, ENTRY_MAX_BYTES))
                if self._entry(end) != path:
                    raise ValueError("its name does not fit its contents")
                found.append(end)
            except OSError:
                continue  # it may be readable later, and contain a run's result
            except Exception:  # one bad file must not stop the workers of this host
                with contextlib.suppress(OSError):
                    path.rename(path.with_suffix(".unreadable"))
        return found

    def close(self) -> None:
        """Unlock the spool, and remove it if it is empty."""
        if not any(self.path.glob("run-*")):
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def _entry(self, end: RunEnd) -> Path:
        return self.path / f"run-{end.fence}.json"


def orphans(directory: Path) -> Iterator[Spool]:
    """The spools of dead workers, each locked by us until it is closed."""
    for path in sorted(directory.glob("[!.]*")):
        lock = locked(path / "lock")
        if lock is not None:
            yield Spool(path, lock)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
