"""The files behind a connection: still those that the path names?

`rm`, `git clean` or a restore may put other files in the place of an open database. SQLite goes on with the
ones that it has open, and whoever comes later opens the new ones: each side has locks of its own, and both
could give out the same lane. So each write first compares device and inode of what is open with what the path
names, and each reader does now and then.

There are three files: the database, its log (`-wal`), and `-shm`, which carries the locks. As long as a
connection of any process is open, SQLite itself replaces none of them.

A file with a second name (a hard link) is refused: SQLite keeps a log and locks beside each name, so the two
names would be two stores that write into one file.

Not seen: a file that is overwritten in place, and a log removed at the moment at which it is first opened.
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

#: The files that this process has open, by the identity of the database. A further connection gets the
#: `-shm` of the first one, whatever is at its path by now.
_OPEN: weakref.WeakValueDictionary[Identity, OpenFiles] = weakref.WeakValueDictionary()


def identity(path: str | Path) -> Identity:
    """Which file is at a path."""
    try:
        found = os.stat(path)  # noqa: PTH116  (three times for each transaction, and this is cheaper)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnavailable(
            f"The database {path} cannot be looked at: {error.strerror}.",
            "Look at the permissions of its directory and at the disk.",
        ) from None
    return found.st_dev, found.st_ino


class OpenFiles:
    """A database and its two companions, as they were when this process opened them."""

    def __init__(self, path: Path) -> None:
        """Look at the files of a database that SQLite has just opened and read."""
        self._path = path
        file = path.resolve()
        self._names = (str(path), f"{file}-wal", f"{file}-shm")
        self._seen = tuple(map(identity, self._names))

    def check(self) -> None:
        """Raise if one of the files is no longer the one that is open, or the database got a second name."""
        if tuple(map(identity, self._names)) != self._seen:
            raise replaced(self._path)
        require_one_name(self._path)


def require_one_name(path: Path) -> None:
    """Raise if the database is there under another name too."""
    with contextlib.suppress(OSError):
        if os.stat(path).st_nlink > 1:  # noqa: PTH116  (as above)
            raise StoreUnavailable(
                f"The store {path} has a second name, a hard link: each name would be a store of its own.",
                f"Find the other one with `find / -samefile {path}` and remove it; `cp` makes a real copy.",
            )


def connect(path: Path, known: Identity) -> apsw.Connection:
    """Open a database; `known` is the file that it must be, if it was open before."""
    require_one_name(path)
    if known is not None and identity(path) != known:
        raise replaced(path)
    # Without the flag that makes a new file: it would be another store under an open service.
    return forks.connect(path, make=known is None)


def opened(path: Path, db: apsw.Connection) -> tuple[Identity, OpenFiles]:
    """Which file a new connection has open, and its companions. To be kept as long as the connection."""
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
    """How a database knows its file, to notice that it is a copy or was restored.

    A file system may give the inode of a deleted file to the next one, so the file carries a mark that `cp`
    does not copy. Where it cannot, device and inode must do.
    """
    device, inode = file or (0, 0)
    found = _mark(path)
    return f"inode {inode}, mark {found}" if found else f"device {device}, inode {inode}"


def place(path: Path) -> str:
    """Where a database is: a path on a machine."""
    return f"{os.uname().nodename}:{path.resolve()}"


def mark(path: Path) -> None:
    """Give the file a mark of its own, if the file system keeps any."""
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
        "Start it again: it opens the store that is there now.",
    )
