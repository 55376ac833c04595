"""Protects SQLite files from forks: a forked child takes its own locks, or is refused.

A forked child inherits SQLite's records of its locks, but not the locks. If it uses a file that its parent
has open, it takes no lock, and its commits are lost when the parent closes the file. So the forking thread
closes its connections before the fork, and both sides open new ones when needed. The fork cannot close the
connections of other threads, so the child may not use their files.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Protocol

import apsw

from interlock.core.errors import StoreUnavailable


class Closable(Protocol):
    def close(self) -> None:
        """Close the connection of the calling thread, if it has one."""


_DATABASES: weakref.WeakSet[Closable] = weakref.WeakSet()
_OPEN: weakref.WeakKeyDictionary[apsw.Connection, str] = weakref.WeakKeyDictionary()
#: In a forked child: connections of the parent's other threads. They stay open here, since closing one would
#: roll back its thread's transaction.
_INHERITED: dict[apsw.Connection, str] = {}


def watch(database: Closable) -> None:
    """Make a database close its connection before its thread forks."""
    _DATABASES.add(database)


def connect(path: Path, *, make: bool = True) -> apsw.Connection:
    """Open a file. Refused in a child that was forked while another thread had it open.

    `make` is whether to create a missing file."""
    file = str(path.resolve())
    if file in _INHERITED.values():
        raise StoreUnavailable(
            f"This process was forked while another thread had {path} open, so it cannot lock it.",
            "Fork before threads use the store, or start the process afresh (spawn).",
        )
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if make else 0)
    connection = apsw.Connection(file, flags=flags)
    _OPEN[connection] = file
    return connection


def disconnect(connection: apsw.Connection) -> None:
    connection.close()
    _OPEN.pop(connection, None)


def _before_fork() -> None:
    for database in list(_DATABASES):
        database.close()
    _INHERITED.update(_OPEN)


def _after_fork_in_parent() -> None:
    for connection in list(_OPEN):
        _INHERITED.pop(connection, None)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent)
