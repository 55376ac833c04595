"""The file of a session lock: opens, locks and reads it.

The file may be damaged, or something other than a file may be in its place: a view says so in one sentence.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interlock.core.errors import InterlockError
from interlock.process.smallfile import an_object, check_plain

CONTENT_MAX_BYTES = 4096
PID_MAX = 2**31
#: The errors of file systems that refuse hard links.
_NO_HARD_LINKS = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
#: The years of valid locks. The first and last years of the calendar do not exist in every time zone.
_YEARS = range(1970, 9999)
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """One lock file, and whether it is locked."""

    number: int
    held: bool
    #: From the file; null if it is unreadable.
    run_id: str | None
    acquired_at: datetime | None
    pid: int | None
    #: The process that the lock is kept for. The lock is free when that process ends.
    until_pid: int | None
    #: The problem with the file: something else is in its place, or it was moved while held; else null.
    problem: str | None = None


def open_lock(path: Path, flags: int = 0) -> int:
    """Open a lock file, but nothing else in its place: it follows no link and waits for no writer."""
    try:
        with contextlib.suppress(FileNotFoundError):
            check_plain(path.lstat())
        lock = os.open(path, _FLAGS | flags, 0o644)
        try:
            check_plain(os.fstat(lock))
        except ValueError:
            os.close(lock)
            raise
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InterlockError(
            f"{path} cannot be opened: {why}.", "Fix or remove what is in its place."
        ) from error
    return lock


def unlink(path: Path) -> None:
    """Remove a lock file, which may already be gone."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InterlockError(
            f"{path} cannot be removed: {error.strerror}.", "Fix the permissions of the directory."
        ) from None


def free(lock: int) -> None:
    """Release an OS lock for all processes that inherited it, also for daemons left by a command."""
    with contextlib.suppress(OSError):  # the file system does not support locks
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def take(lock: int) -> bool:
    """Take the OS lock; false if another process holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise InterlockError(
            f"The file system of the session locks refuses to lock a file: {error.strerror}.",
            "Nothing is locked. Use a file system that has locks (flock), or a lane: interlock hold.",
        ) from None
    return True


def is_name_of(path: Path, lock: int) -> bool:
    """Whether a path leads to an open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(lock))
    except (FileNotFoundError, NotADirectoryError):
        return False


def publish(held: Path, path: Path, lock: int) -> bool:
    """Give a locked file its public name too, or only that name on a file system without hard links.

    False if no name leads to the file any more. A file without a name excludes no process: the next one
    creates a new file.
    """
    try:
        unlink(path)
        os.link(held, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise InterlockError(
                f"{path} cannot be created: {error.strerror}.", "Nothing was locked; try again."
            ) from None
        with contextlib.suppress(FileNotFoundError):
            held.replace(path)
    return is_name_of(held, lock) or is_name_of(path, lock)


def check_only_name(path: Path, lock: int) -> None:
    """Refuse a file that has another name: it may be the lock of another session."""
    if os.fstat(lock).st_nlink > 1:
        raise InterlockError(
            f"{path} is not used as a lock: the same file has another name (a hard link).",
            "Remove the file or the other name; nothing was changed.",
        )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int | None]:
    """A lock file, or None if it is missing; raises if something else is in its place."""
    try:
        lock = open_lock(path)
    except InterlockError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        yield None
        return
    try:
        yield lock
    finally:
        free(lock)


def status_of(number: int, lock: int, *, held: bool) -> LockView:
    """The holder that a lock file names."""
    try:
        content = an_object(os.pread(lock, CONTENT_MAX_BYTES, 0))
        run_id, pid, until_pid = content.get("runId"), content.get("pid"), content.get("untilPid")
        acquired_at = datetime.fromisoformat(str(content.get("acquiredAt")))
        if acquired_at.tzinfo is None or acquired_at.astimezone(UTC).year not in _YEARS:
            return unread(number, held=held)
    except (OSError, ValueError, OverflowError):
        return unread(number, held=held)
    if not isinstance(run_id, str) or not run_id.isprintable() or not _is_pid(pid):
        return unread(number, held=held)
    return LockView(
        number=number,
        held=held,
        run_id=run_id,
        acquired_at=acquired_at,
        pid=pid,
        until_pid=until_pid if _is_pid(until_pid) else None,
    )


def _is_pid(value: Any) -> bool:
    return type(value) is int and 0 < value < PID_MAX


def unread(number: int, *, held: bool = False, problem: str | None = None) -> LockView:
    """A lock whose file does not name its holder."""
    return LockView(
        number=number, held=held, run_id=None, acquired_at=None, pid=None, until_pid=None, problem=problem
    )
