"""The spool: ends of runs on disk until the store has answered, so that a result survives network and worker.

An end is written here before it is reported and removed once it is answered. Each worker has a directory of
its own below `spool/`, beside the default store, locked while it lives. What a dead worker left is reported
by the next one that finds it, never by two at once. Reporting twice would do no harm: the store accepts a
run's end once.

Not promised: that a late end is accepted. After a lost lease the store refuses it, which is an answer too.
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

from interlock.core.commands import Outcome, Wall
from interlock.core.names import MESSAGE_MAX_BYTES
from interlock.process.smallfile import an_object, read_bytes, record
from interlock.service.contract import Report
from interlock.worker.rundirectory import locked

#: Result and error each within the store's limit, escaped as JSON.
ENTRY_MAX_BYTES = 16 * MESSAGE_MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of one run, as it is reported."""

    outcome: Outcome
    #: The handle, the right to report the end. Only the owner may read the file.
    run: str
    fence: int
    item: int
    store: str
    result: str | None = None
    error: str | None = None
    #: With a release: when the wall is over that it has met.
    until_us: int | None = None
    for_s: float | None = None
    #: With a release: a fault of the set-up met the run, and the item waits this long.
    fault_s: float | None = None

    @property
    def report(self) -> Report:
        walled = self.until_us is not None or self.for_s is not None
        wall = Wall(self.until_us, self.for_s) if walled else None
        return Report(run=self.run, result=self.result, error=self.error, wall=wall, fault_s=self.fault_s)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Parse a file; raises ValueError if it holds no end."""
        values = an_object(data)
        newer = {"until_us": None, "for_s": None, "fault_s": None}  # earlier versions wrote none
        return record(cls, {**newer, **values, "outcome": Outcome(str(values.get("outcome")))})


class Spool:
    """The ends that one worker has not reported yet."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def make(cls, directory: Path, worker: str) -> Self:
        """This worker's own spool. Nobody sees it before it is locked."""
        draft = directory / f".{worker}"
        draft.mkdir(mode=0o700)
        lock = os.open(draft / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return cls(draft.rename(directory / worker), lock)

    def keep(self, end: RunEnd) -> None:
        """Write an end to disk, durably; raises OSError if that fails."""
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
        """Remove an end that was answered."""
        with contextlib.suppress(OSError):  # the next worker reports it again, and drops it then
            self._entry(end).unlink()

    def ends(self) -> list[RunEnd]:
        """The ends not answered yet. A file that holds no end is renamed and not read again."""
        found = []
        for path in sorted(self.path.glob("run-*.json")):
            try:
                end = RunEnd.read(read_bytes(path, ENTRY_MAX_BYTES))
                if self._entry(end) != path:
                    raise ValueError("its name does not fit its contents")
                found.append(end)
            except OSError:
                continue  # it may be readable later, and hold somebody's result
            except Exception:  # one bad file must not stop the workers of this host
                with contextlib.suppress(OSError):
                    path.rename(path.with_suffix(".unreadable"))
        return found

    def close(self) -> None:
        """Unlock the spool; an empty one is removed."""
        if not any(self.path.glob("run-*")):
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def _entry(self, end: RunEnd) -> Path:
        return self.path / f"run-{end.fence}.json"


def orphans(directory: Path) -> Iterator[Spool]:
    """Spools of dead workers, each locked by us until it is closed."""
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
