"""Ends of runs that the store has not acknowledged yet, on disk: a result outlives network and worker.

Every end is written here before it is reported and removed when it was answered. A worker has a directory of
its own below `.interlock/spool/`, locked while it lives; what a dead worker left is delivered by the next one
that finds it, and by no two at once. Delivering twice would do no harm: the store takes a run's end once.

Not promised: that a late end is accepted. Once the lease was lost it is refused, which is an answer too.
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

from interlock.core.commands import Outcome
from interlock.core.names import MESSAGE_MAX_BYTES
from interlock.process.smallfile import an_object, read_bytes, record
from interlock.service.contract import Report

#: Result and error each within the store's limit, escaped as JSON.
ENTRY_MAX_BYTES = 16 * MESSAGE_MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What is to be reported of one run."""

    outcome: Outcome
    #: The handle: the right to report it. The file is readable by its owner alone.
    run: str
    fence: int
    item: int
    store: str
    result: str | None = None
    error: str | None = None

    @property
    def report(self) -> Report:
        return Report(run=self.run, result=self.result, error=self.error)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """From a file; raises ValueError where it is none."""
        values = an_object(data)
        return record(cls, {**values, "outcome": Outcome(str(values.get("outcome")))})


class Spool:
    """The ends that one worker owes."""

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

    def keep(self, end: End) -> None:
        """Have it on disk when this returns; raises OSError where the disk does not take it."""
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

    def drop(self, end: End) -> None:
        """It was answered."""
        with contextlib.suppress(OSError):  # it is answered again: refused, and dropped then
            self._entry(end).unlink()

    def ends(self) -> list[End]:
        """What is still owed. A file that holds no end is set aside, never tried again."""
        found = []
        for path in sorted(self.path.glob("run-*.json")):
            try:
                end = End.read(read_bytes(path, ENTRY_MAX_BYTES))
                if self._entry(end) != path:
                    raise ValueError("it would not be found again when it is answered")
                found.append(end)
            except OSError:
                continue  # perhaps it can be read another time: it may be somebody's result
            except Exception:  # whatever is wrong with one file must not stop the workers of this host
                with contextlib.suppress(OSError):
                    path.rename(path.with_suffix(".unreadable"))
        return found

    def close(self) -> None:
        """Leave; an empty spool is removed with its directory."""
        if not any(self.path.glob("run-*")):
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def _entry(self, end: End) -> Path:
        return self.path / f"run-{end.fence}.json"


def orphans(directory: Path) -> Iterator[Spool]:
    """Spools of workers that are gone, each held by us alone until it is closed."""
    for path in sorted(directory.glob("[!.]*")):
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        if path.exists():
            yield Spool(path, lock)
        else:  # whoever had it has just emptied it
            os.close(lock)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
