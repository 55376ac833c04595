"""SQLite files and forks: a child takes locks of its own, or is refused.

SQLite's locks do not follow a fork, but its belief in them does: a child that uses a file which its parent
has open takes no lock on it, and loses its commits when the parent closes the file. So the forking thread
closes its connections before the fork, and either side opens new ones when it needs them. Connections of
other threads cannot be closed from there; the child may not use their files.
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
#: In a forked child: connections of threads that did not come along. Kept, since closing one here would
#: undo what its thread is writing.
_INHERITED: dict[apsw.Connection, str] = {}


def watch(database: Closable) -> None:
    """Have a database close its connection before its thread forks."""
    _DATABASES.add(database)


def connect(path: Path) -> apsw.Connection:
    """Open a file, unless this process was forked from one in which another thread had it open."""
    file = str(path.resolve())
    if file in _INHERITED.values():
        raise StoreUnavailable(
            f"This process was forked while another thread had {path} open, so it cannot lock it.",
            "Fork before threads use the store, or start the process afresh (spawn).",
        )
    connection = apsw.Connection(file)
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
