"""The file of a backup: a SQLite database, and behind it one line with its size and checksum.

It is written under another name, brought to disk, and then named. So a file of the final name is complete,
whatever happens. SQLite ignores what follows the pages of a database, so any SQLite reads it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from interlock.core.errors import Held, InvalidInput, NotFound, SchemaMismatch, StoreUnavailable
from interlock.store.migrate import NEWER, Applied, apply_missing, known_version, pending
from interlock.store.sqlite.copy_end import SqliteEnd
from interlock.store.sqlite.database import SqliteDatabase
from interlock.store.sqlite.move import BACKUP_ID
from interlock.store.store_backup import MANIFEST, BackupWriter, Manifest, WrittenFile
from interlock.store.store_copy import CopyEnd

T = TypeVar("T")

_LINE = "interlock-backup 1 sha256={sha256} bytes={size:020}\n"
_FORM = re.compile(rb"interlock-backup 1 sha256=([0-9a-f]{64}) bytes=([0-9]{20})\n")
_LINE_BYTES = len(_LINE.format(sha256="0" * 64, size=0))
_SQLITE_BEGINS = b"SQLite format 3\x00"
_PIECE_BYTES = 1 << 20
_ANOTHER = "Use another backup. Nothing was changed."


class _BackupDatabase(SqliteDatabase):
    """A SQLite file that one process reads or writes once, without a log and without a clock of its own."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        super().__init__(path, migrate=False)
        self._connection = connection
        self._local.beginning = False

    @property
    def db(self) -> apsw.Connection:
        return self._connection

    def applied(self) -> list[Applied]:
        empty = self.db.execute("SELECT count(*) FROM sqlite_schema").get == 0
        return [] if empty else self._applied(self.db)

    def close(self) -> None:
        self._connection.close()


class FileWriter:
    """Writes a backup beside its final name. Each try begins an empty file."""

    def __init__(self, draft: Path) -> None:
        self._path = draft
        self._database: _BackupDatabase | None = None

    def end(self) -> SqliteEnd:
        """An empty file to be filled."""
        self.close()
        with self._path.open("r+b") as file:
            file.truncate(0)
        connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)
        # A crash leaves no file of the final name, so none of these is needed before the last step.
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")
        connection.pragma("temp_store", "memory")
        self._database = _BackupDatabase(self._path, connection)
        return SqliteEnd(self._database)

    def complete(self, manifest: Manifest) -> WrittenFile:
        """Add the manifest and the checksum, and bring the file to disk."""
        assert self._database is not None
        self._database.rows("set_meta", name=MANIFEST, value=manifest.text())
        self._database.db.pragma("application_id", BACKUP_ID)
        self.close()
        size, sha256 = self._path.stat().st_size, _checksum(self._path, None)
        with self._path.open("ab") as file:
            file.write(_LINE.format(sha256=sha256, size=size).encode())
            file.flush()
            os.fsync(file.fileno())
            return WrittenFile(bytes=file.tell(), sha256=sha256)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def write(path: Path, fill: Callable[[BackupWriter], T], *, force: bool) -> T:
    """Let `fill` write a backup, then give it its name. An existing file is replaced only with `force`."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a directory.", "Name a file in it.")
    if not path.parent.is_dir():
        raise InvalidInput(f"The directory {path.parent} does not exist.", "Create it first.")
    if not force and os.path.lexists(path):
        raise _exists(path)
    try:
        with _draft(path) as draft:
            writer = FileWriter(draft)
            try:
                done = fill(writer)
            finally:
                writer.close()
            _name(draft, path, force=force)
            return done
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be written: {error.strerror}.", "Name another place, or free some space."
        ) from None


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """An empty file beside the path, for us alone. Those of dead processes are removed."""
    begins, ends = f".{path.name}.", ".partial"
    for left in path.parent.glob(f"{begins}*{ends}"):
        _remove_unlocked(left)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=begins, suffix=ends)  # readable by us alone
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
        os.close(number)


def _remove_unlocked(left: Path) -> None:
    with contextlib.suppress(OSError), left.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # otherwise its process lives
        left.unlink()


def _name(draft: Path, path: Path, *, force: bool) -> None:
    """Give a complete file its name, in one step."""
    if force:
        draft.replace(path)
    else:
        try:
            os.link(draft, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            raise _exists(path) from None
        except OSError:  # a file system without links
            if path.exists():
                raise _exists(path) from None
            draft.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _exists(path: Path) -> Held:
    return Held(f"{path} exists.", "Name a file that does not exist yet, or replace this one with --force.")


@contextmanager
def opened(path: Path) -> Iterator[tuple[CopyEnd, Manifest]]:
    """A backup, checked as a whole before anything is read from it.

    One of an older version gets the present schema in a temporary copy.
    """
    try:
        size = _checked(path)
        with contextlib.ExitStack() as ends:
            database = ends.enter_context(contextlib.closing(_BackupDatabase(path, _read_only(path))))
            manifest, applied = _manifest(path, database), database.applied()
            if len(applied) > known_version("sqlite"):
                raise SchemaMismatch(
                    f"The backup {path} has schema version {len(applied)},"
                    f" this Interlock knows {known_version('sqlite')}.",
                    NEWER,
                )
            if pending("sqlite", applied):
                copied = _BackupDatabase(path, _writable_copy(path, size, ends))
                database = ends.enter_context(contextlib.closing(copied))
                copied.exclusively(lambda: apply_missing(copied))
            yield SqliteEnd(database, str(path)), manifest
    except FileNotFoundError:
        raise NotFound(
            f"There is no file {path}.", "Name a file that `interlock backup` has written."
        ) from None
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}.", _ANOTHER) from None


def _read_only(path: Path) -> apsw.Connection:
    """Read without locks and files beside: nobody changes a backup."""
    address = path.resolve().as_uri() + "?immutable=1"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _writable_copy(path: Path, size: int, ends: contextlib.ExitStack) -> apsw.Connection:
    """A temporary copy of a backup."""
    folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="interlock-restore-")))
    copied = folder / "backup.db"
    shutil.copyfile(path, copied)
    os.truncate(copied, size)
    return apsw.Connection(str(copied), flags=apsw.SQLITE_OPEN_READWRITE)


def _checked(path: Path) -> int:
    """The size of a backup's database. Raises unless the file is as it was written."""
    with path.open("rb") as file:
        begins = file.read(len(_SQLITE_BEGINS))
        whole = file.seek(0, os.SEEK_END)
        file.seek(max(0, whole - _LINE_BYTES))
        line = _FORM.fullmatch(file.read())
    if line is None:
        if begins != _SQLITE_BEGINS:
            raise InvalidInput(f"{path} is not a backup of Interlock.", _ANOTHER)
        raise InvalidInput(f"{path} is truncated, or was not written by `interlock backup`.", _ANOTHER)
    size = int(line[2])
    if size != whole - _LINE_BYTES or _checksum(path, size) != line[1].decode():
        raise InvalidInput(f"The backup {path} is damaged: its checksum is wrong.", _ANOTHER)
    return size


def _checksum(path: Path, size: int | None) -> str:
    """SHA-256 of the first bytes of a file, or of all."""
    found, left = hashlib.sha256(), size
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES if left is None else min(left, _PIECE_BYTES)):
            found.update(piece)
            if left is not None:
                left -= len(piece)
    return found.hexdigest()


def _manifest(path: Path, database: _BackupDatabase) -> Manifest:
    try:
        if database.db.pragma("application_id") != BACKUP_ID:
            raise ValueError
        said: dict[str, Any] = json.loads(database.value("meta", name=MANIFEST))
        return Manifest(**said)
    except (ValueError, TypeError, apsw.Error):
        raise InvalidInput(f"{path} is not a backup of Interlock.", _ANOTHER) from None
