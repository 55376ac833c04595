"""Moves the default store from `.interlock/` into the directory of git, where `git clean` does not delete it.

1. Take the exclusive lock of the old file to the end, so that no other process has it open. No run in it is
live.
2. Write a complete copy beside the new place, and sync it to the disk.
3. Seal the old file in one transaction: it is empty, and older versions refuse it with a message.
4. Rename the copy to the name of the store.

A crash may come between any two steps. Before 3 the old file is the store, and the next try makes another
copy. After 3 the copy is the store, and the next process to open it does 4. No process opens the new place
before the old file is sealed, so there is never more than one store in use.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

import apsw

from interlock.core.errors import Held, SchemaMismatch
from interlock.store import clock
from interlock.store.sqlite import forks
from interlock.store.sqlite.error_messages import in_words
from interlock.store.statements import Statements

APPLICATION_ID = 0x494C4F43  # "ILOC", so that a foreign database is not mistaken for ours
BACKUP_ID = 0x494C424B  # "ILBK": a backup is never opened as a store
SEAL = 0x4D4F5645  # "MOVE"
#: How many live runs a refusal names.
_NAMED = 5
_AGAIN_S = 0.05
_SQL = Statements("sqlite")


class _OldFiles(Enum):
    """The state of the old place."""

    NO_STORE = "nothing that was ever a store"
    STORE = "a store that was not moved"
    SEAL = "the seal of a store that was"


def require_moved(old: Path, new: Path) -> None:
    """Raise unless the store may be opened at its new place."""
    if old.exists():
        with _in_words(old), _opened(old) as db:
            found = _look(db)
        if found is _OldFiles.STORE:
            _require_one(old, new)
            raise SchemaMismatch(
                f"The store is still in its old place, {old}.",
                f"Stop the workers, then run `interlock migrate`: it moves the store to {new.parent}.",
            )
    _take_name(new)


def move(old: Path, new: Path, *, busy_timeout_s: float) -> bool:
    """Move the store to its new place; returns whether there was anything to move."""
    if not old.exists():
        _take_name(new)
        return False
    with _in_words(old, busy_timeout_s), _alone(old, busy_timeout_s) as db:
        found = _look(db)
        if found is _OldFiles.STORE:
            _require_one(old, new)
            _require_idle(db, old)
            _copy(db, new)
            _seal(db, new)
            _forget_file(new)
        _take_name(new)
    return found is _OldFiles.STORE


def moved_to(db: apsw.Connection) -> str | None:
    """The new place in a seal; None if the file is not a seal."""
    if db.pragma("user_version") != SEAL:
        return None
    return str(db.execute("SELECT name FROM migrations ORDER BY version DESC LIMIT 1").get)


def _look(db: apsw.Connection) -> _OldFiles:
    if db.pragma("user_version") == SEAL:
        return _OldFiles.SEAL
    ours = db.pragma("application_id") == APPLICATION_ID
    return (
        _OldFiles.STORE
        if ours and db.execute("SELECT count(*) FROM sqlite_schema").get
        else _OldFiles.NO_STORE
    )


def _require_one(old: Path, new: Path) -> None:
    if new.exists():
        raise SchemaMismatch(
            f"There are two stores: {new}, and {old} in the old place.",
            "Keep the right one and rename the other. INTERLOCK_URL=sqlite:////… opens either.",
        )


def _require_idle(db: apsw.Connection, old: Path) -> None:
    live = [*db.execute(_SQL["live_runs"], {"now_us": clock.wall_us(), "limit": _NAMED + 1})]
    if live:
        named = ", ".join(f"run {run} of {agent} on item {item}" for run, item, agent in live[:_NAMED])
        more = " and others" if len(live) > _NAMED else ""
        raise Held(
            f"The store in {old} cannot be moved while runs are live: {named}{more}.",
            "Let them end, or stop their workers and wait until their leases expire; then try again.",
        )


# -- the steps ----------------------------------------------------------------------------------------


@contextmanager
def _alone(old: Path, busy_timeout_s: float) -> Iterator[apsw.Connection]:
    """Open the old file exclusively: no other process can open it meanwhile."""
    deadline_s = time.monotonic() + busy_timeout_s
    from random import uniform  # noqa: PLC0415  (for this alone)

    while True:
        with _opened(old) as db:
            try:
                db.pragma("locking_mode", "exclusive")  # keeps every lock that it gets
                db.pragma("journal_mode", "delete")  # leaving WAL needs exclusive access
                db.execute("BEGIN EXCLUSIVE; COMMIT")
            except apsw.BusyError:
                if time.monotonic() >= deadline_s:
                    raise
            else:
                db.pragma("synchronous", "extra")
                yield db
                return
        # Closed meanwhile: two processes that each hold a part of the lock would wait for each other.
        time.sleep(uniform(0, _AGAIN_S))  # noqa: S311  (nothing secret)


def _draft(new: Path) -> Path:
    return new.with_name(f"{new.name}.moved")


def _copy(db: apsw.Connection, new: Path) -> None:
    unfinished = new.with_name(f"{new.name}.copy")
    unfinished.unlink(missing_ok=True)
    db.execute("VACUUM INTO ?", (str(unfinished),))
    unfinished.chmod(stat.S_IMODE(Path(db.filename).stat().st_mode))
    _sync(unfinished)
    unfinished.replace(_draft(new))
    _sync(new.parent)


def _seal(db: apsw.Connection, new: Path) -> None:
    with db:
        for kind, name in [
            *db.execute("SELECT type, name FROM sqlite_schema WHERE type IN ('view', 'table')")
        ]:
            if name != "migrations" and not name.startswith("sqlite_"):
                db.execute(f'DROP {kind} "{name}"')
        db.execute(_SQL["seal"], {"path": str(new)})
        db.pragma("user_version", SEAL)
    with contextlib.suppress(apsw.Error):
        db.execute("VACUUM")  # the seal is valid without it


def _forget_file(new: Path) -> None:
    """Delete the copy's record of its file: it is a moved store, not a second copy."""
    with _opened(_draft(new)) as db:
        db.execute("DELETE FROM meta WHERE name = 'file'")


def _take_name(new: Path) -> None:
    """Rename the copy, if a move stopped before that."""
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        if _draft(new).exists() and not new.exists():
            _draft(new).rename(new)
            _sync(new.parent)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _opened(old: Path) -> Iterator[apsw.Connection]:
    db = forks.connect(old, make=False)
    try:
        yield db
    finally:
        forks.disconnect(db)


@contextmanager
def _in_words(old: Path, busy_timeout_s: float = 0.0) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise in_words(error, old, busy_timeout_s=busy_timeout_s, system_errno=0) or error from None
