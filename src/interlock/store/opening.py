"""Opens the database that the settings name. Only this module knows all databases.

Each is imported only when its scheme is used: the PostgreSQL driver takes 130 ms to import, which a command
on SQLite must not pay.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from interlock.core.errors import InvalidInput, StoreUnavailable
from interlock.settings import Settings, places, sqlite_path
from interlock.settings.store_url import DATABASES, scheme_of
from interlock.store.migrate import require_current

if TYPE_CHECKING:
    from interlock.store.postgres.store import PostgresStore
    from interlock.store.sqlite.store import SqliteStore
    from interlock.store.store_backup import BackupSource, BackupWriter, Manifest
    from interlock.store.store_copy import CopyEnd

    DatabaseStore = SqliteStore | PostgresStore

T = TypeVar("T")


def open_store(settings: Settings, *, migrate: bool) -> DatabaseStore:
    """Open the store that the settings name. With `migrate`, an empty database gets its schema."""
    settings.check_store()
    scheme = scheme_of(settings.url)
    if scheme == "git":
        raise InvalidInput(
            "The git store serves `hold`, `push` and `lanes`; this needs a database.", DATABASES
        )
    if scheme == "http":
        raise needs_database()
    if scheme == "postgresql":
        from interlock.store.postgres.database import Database  # noqa: PLC0415  (see above)
        from interlock.store.postgres.store import PostgresStore  # noqa: PLC0415

        return PostgresStore(
            Database(
                settings.url,
                timing=settings.timing,
                retry_s=settings.busy_timeout_s,
                migrate=migrate,
                outage=settings.outage,
            )
        )
    from interlock.store.sqlite.store import SqliteStore  # noqa: PLC0415

    path = _checked_path(settings)
    make_directory(path.parent, settings.home)
    if settings.former is not None:
        from interlock.store.sqlite import move  # noqa: PLC0415

        move.require_moved(settings.former, path)
    return SqliteStore(
        path,
        timing=settings.timing,
        busy_timeout_s=settings.busy_timeout_s,
        migrate=migrate,
        outage=settings.outage,
    )


def open_current(settings: Settings) -> DatabaseStore:
    """Open the store without any change to the database: it must already have this program's schema."""
    store = open_store(settings, migrate=False)
    try:
        require_current(store.database.backend, store.database.applied())
    except BaseException:
        store.close()
        raise
    return store


def open_existing(settings: Settings) -> DatabaseStore | None:
    """Open an existing store without changes; None if there is none. Reading never creates one."""
    if scheme_of(settings.url) == "sqlite":
        settings.check_store()
        path, former = sqlite_path(settings.url, settings.root), settings.former
        if not path.exists() and (former is None or not former.exists()):
            if not _is_ours(path.parent, settings.home):
                _check_directory(path.parent)
            return None
    store = open_store(settings, migrate=False)
    try:
        applied = store.database.applied()
        if applied:
            require_current(store.database.backend, applied)
            return store
    except BaseException:
        store.close()
        raise
    store.close()
    return None


def needs_database() -> InvalidInput:
    """The error for operations that need direct access to the database."""
    return InvalidInput(
        "This needs the database itself, and INTERLOCK_URL names a server.",
        "Run it where the server runs, with its store's URL.",
    )


def move_store(settings: Settings) -> bool:
    """Move the default store of an older version to its new place; returns whether there was one."""
    settings.check_store()
    if settings.former is None:
        return False
    from interlock.store.sqlite import move  # noqa: PLC0415

    path = _checked_path(settings)
    make_directory(path.parent, settings.home)
    return move.move(settings.former, path, busy_timeout_s=settings.busy_timeout_s)


def end_of(store: DatabaseStore, place: str) -> BackupSource:
    """A store as one end of a copy."""
    from interlock.store.sqlite.database import SqliteDatabase  # noqa: PLC0415

    if isinstance(store.database, SqliteDatabase):
        from interlock.store.sqlite.copy_end import SqliteEnd  # noqa: PLC0415

        return SqliteEnd(store.database, place)
    from interlock.store.postgres.copy_end import PostgresEnd  # noqa: PLC0415

    return PostgresEnd(store.database, place)


def write_backup(path: Path, fill: Callable[[BackupWriter], T], *, force: bool) -> T:
    """Let `fill` write a backup, then give it its name."""
    from interlock.store.sqlite import backup_file  # noqa: PLC0415

    return backup_file.write(path, fill, force=force)


def open_backup(path: Path) -> AbstractContextManager[tuple[CopyEnd, Manifest]]:
    """A backup, checked as a whole before anything is read from it."""
    from interlock.store.sqlite import backup_file  # noqa: PLC0415

    return backup_file.opened(path)


def make_directory(
    directory: Path, home: Path, hint: str = "Choose another place with INTERLOCK_URL."
) -> None:
    """Create our own directory, `home` or `.interlock`. Any other directory must exist."""
    try:
        if _is_ours(directory, home) and directory.parent.is_dir():
            places.make_home(directory)
    except OSError as error:
        raise StoreUnavailable(f"Cannot create {directory}: {error.strerror}.", hint) from None
    _check_directory(directory)


def _checked_path(settings: Settings) -> Path:
    """The file of a SQLite store. Raises if a stranger's link leads to it or to its companions."""
    path = sqlite_path(settings.url, settings.root)
    if path.is_dir():
        raise InvalidInput(
            f"{path} is a directory, not a SQLite file.",
            f"Name a file in it: sqlite:///{path}/{places.DATABASE_NAME}.",
        )
    for file in (path, settings.former):
        if file is not None and (file == path or os.path.lexists(file)):
            real = places.inside(settings.root, file).resolve()
            for more in places.BESIDE_DATABASE:
                places.inside(settings.root.resolve(), real.with_name(f"{real.name}{more}"))
    return path


def _is_ours(directory: Path, home: Path) -> bool:
    return directory == home or directory.name == places.DIRECTORY


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise InvalidInput(
            f"The directory {directory} does not exist.",
            "Create it first; an absolute path has four slashes: sqlite:////…",
        )
