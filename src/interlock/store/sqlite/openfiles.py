"""Checks that the files behind a connection are still those at the path.

`rm`, `git clean` or a restore may replace the files of an open database. SQLite continues with its open
files, and later processes open the new ones. Each side has its own locks, and both could give out the same
lane. So each write first compares device and inode of the open files with those at the path. Readers do so
periodically.

There are three files: the database, its log (`-wal`), and `-shm`, which carries the locks. While any process
has a connection open, SQLite itself replaces none of them.

A file with a second name (a hard link) is refused: SQLite keeps a separate log and locks for each name, so
the two names would be two stores that write into one file.

Not detected: a file that is overwritten in place, and a log that is removed while it is first opened.
"""

from __future__ import annotations

import array
import contextlib
import os
import weakref
from pathlib import Path

import apsw

from interlock.core.errors import StoreReplaced, StoreUnavailable
from interlock.store.sqlite import forks

#: Device and inode of a file; None if there is no file.
Identity = tuple[int, int] | None

_MARK = "user.interlock.store"

#: The open files of this process, by the identity of the database. A further connection gets the `-shm` of
#: the first one, whatever is now at its path.
_OPEN: weakref.WeakValueDictionary[Identity, OpenFiles] = weakref.WeakValueDictionary()


def identity(path: str | Path) -> Identity:
    """The identity of the file at a path."""
    try:
        found = os.stat(path)  # noqa: PTH116  (cheaper, and called three times in each transaction)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnavailable(
            f"Cannot access the database {path}: {error.strerror}.",
            "Check the permissions of its directory, and the disk.",
        ) from None
    return found.st_dev, found.st_ino


class OpenFiles:
    """The identities of a database and its two companions when this process opened them."""

    def __init__(self, path: Path) -> None:
        """Record the files of a database that SQLite has just opened and read."""
        self._path = path
        file = path.resolve()
        self._names = (str(path), f"{file}-wal", f"{file}-shm")
        self._seen = tuple(map(identity, self._names))

    def check(self) -> None:
        """Raise if a file at the path is no longer the open one, or the database has a second name."""
        if tuple(map(identity, self._names)) != self._seen:
            raise replaced(self._path)
        require_one_name(self._path)


def require_one_name(path: Path) -> None:
    """Raise if the database also has another name."""
    with contextlib.suppress(OSError):
        if os.stat(path).st_nlink > 1:  # noqa: PTH116  (as above)
            raise StoreUnavailable(
                f"The store {path} has a second hard link: each name would act as a separate store.",
                f"Find it with `find / -samefile {path}` and remove it. `cp` makes a real copy.",
            )


def connect(path: Path, known: Identity) -> apsw.Connection:
    """Open a database. `known` is the required file, if it was open before."""
    require_one_name(path)
    if known is not None and identity(path) != known:
        raise replaced(path)
    # Without the flag that creates a new file, which would be another store under an open service.
    return forks.connect(path, make=known is None)


def opened(path: Path, db: apsw.Connection) -> tuple[Identity, OpenFiles]:
    """The file of a new connection, and its companions. Keep them as long as the connection."""
    db.pragma("schema_version")  # only a read opens the companions
    found = identity(path)
    moved = array.array("i", [0])
    db.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, moved.buffer_info()[0])
    if found is None or moved[0]:
        raise replaced(path)
    files = _OPEN.get(found)
    if files is None:
        files = _OPEN.setdefault(found, OpenFiles(path))
    return found, files


def known_as(path: Path, file: Identity) -> str:
    """The id by which a database knows its file, to detect that it is a copy or was restored.

    A file system may reuse the inode of a deleted file, so the file carries a mark that `cp` does not copy.
    If it cannot, device and inode must suffice.
    """
    device, inode = file or (0, 0)
    found = _mark(path)
    return f"inode {inode}, mark {found}" if found else f"device {device}, inode {inode}"


def place(path: Path) -> str:
    """The place of a database: a path on a machine."""
    return f"{os.uname().nodename}:{path.resolve()}"


def mark(path: Path) -> None:
    """Give the file its own mark, if the file system supports that."""
    if hasattr(os, "setxattr"):
        with contextlib.suppress(OSError):
            os.setxattr(path, _MARK, os.urandom(8).hex().encode())


def _mark(path: Path) -> str:
    try:
        return os.getxattr(path, _MARK).decode("ascii") if hasattr(os, "getxattr") else ""
    except (OSError, ValueError):
        return ""


def replaced(path: Path) -> StoreReplaced:
    return StoreReplaced(
        f"The store {path} was removed or replaced while this process used it; what it held there is lost.",
        "Restart the process: it opens the store that is there now.",
    )
