"""Turns SQLite's errors into one sentence with a hint: its own messages rarely name a fix."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw

from interlock.core.errors import InterlockError, StoreBusy, StoreUnavailable

_READING = frozenset(
    {
        apsw.SQLITE_IOERR_READ,
        apsw.SQLITE_IOERR_SHORT_READ,
        apsw.SQLITE_IOERR_FSTAT,
        apsw.SQLITE_IOERR_IN_PAGE,
        apsw.SQLITE_IOERR_CORRUPTFS,
        apsw.SQLITE_IOERR_DATA,
    }
)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})


def in_words(
    error: apsw.Error, path: Path, *, busy_timeout_s: float, system_errno: int
) -> InterlockError | None:
    """The error to report instead; None for a defect of the program, which is not a state of the file.

    `system_errno` is the last error number of the operating system on the connection, 0 if unknown.
    """
    match error:
        case apsw.BusyError():
            return StoreBusy(
                f"Another process kept {path.name} locked for more than {busy_timeout_s:g} s.",
                "Find a stopped process that uses it (`fuser`), or try again.",
            )
        case apsw.ReadOnlyError():
            return _read_only(path)
        case apsw.FullError():
            return no_room(path, "the disk is full, or a limit on its size is reached")
        case apsw.NotADBError() | apsw.CorruptError():
            return StoreUnavailable(
                f"{path} is not a SQLite database, or it is corrupt ({error}).",
                "Name another file, or restore a backup.",
            )
        case apsw.CantOpenError():
            return StoreUnavailable(
                f"Cannot open the database {path} ({error}).",
                "Check that the directory exists and that you may write to it.",
            )
        case apsw.IOError():
            return _io(error, path, system_errno)
        case apsw.ConstraintError() if str(error).startswith("The store is being copied"):
            return StoreBusy(str(error), "Wait until the copy is complete, then use the new store.")
        case _:
            return None


def _read_only(path: Path) -> StoreUnavailable:
    """The error that names the file at fault: a companion may be left from another user or from a restore."""
    for name in (f"{path}-shm", f"{path}-wal"):
        if os.access(path, os.W_OK) and Path(name).exists() and not os.access(name, os.W_OK):
            return StoreUnavailable(
                f"Cannot write the database {path}: its companion {name} is read-only.",
                "Make it writable (chmod, chown). Do not delete it while the store is in use.",
            )
    return StoreUnavailable(f"The database {path} is read-only.", "Make the file and its directory writable.")


def _io(error: apsw.Error, path: Path, system_errno: int) -> StoreUnavailable:
    why = os.strerror(system_errno) if system_errno else str(error)
    if getattr(error, "extendedresult", 0) in _READING:
        return StoreUnavailable(
            f"Cannot read the database {path}: {why}.", "Check the disk and the system log."
        )
    if system_errno in _NO_ROOM:
        return no_room(path, why)
    # A commit whose last sync failed is rolled back here, but a crash right afterwards may restore it.
    return StoreUnavailable(
        f"Cannot write the database {path}: {why}.",
        "Check the disk and the system log. Before you retry, check whether the change was made.",
    )


def no_room(path: Path, why: str) -> StoreUnavailable:
    """The error for a write without space on the disk."""
    return StoreUnavailable(
        f"The database {path} cannot grow: {why}.",
        "Free some space or raise the limit. Nothing was changed.",
    )
