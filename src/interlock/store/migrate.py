"""Numbered migrations with checksums. The schema is the sum of its migrations, and a test holds it so.

Each migration runs in one transaction together with its record, under a lock that makes concurrent
runs wait for each other. A database that is newer than this program, or whose record does not match
the files, is refused and left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from interlock.core.errors import SchemaMismatch

_ROOT = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    version: int
    name: str
    text: str

    #: What is run after it, in the same transaction.
    record: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def script(self) -> str:
        """The migration and its record."""
        return self.text + self.record.format(version=self.version, name=self.name, checksum=self.checksum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    version: int
    name: str
    checksum: str


class Migrator(Protocol):
    """What a database must do to be migrated. `exclusively` runs its argument in one transaction that
    no other migration shares."""

    backend: str

    def applied(self) -> list[Applied]: ...
    def exclusively(self, work: Callable[[], int]) -> int: ...
    def run(self, script: str) -> None: ...


def migrations(backend: str) -> list[Migration]:
    """The migrations of a backend, in order and without gaps."""
    folder = _ROOT / backend / "sql" / "migrations"
    record = (folder / "recorded.sql").read_text("utf-8")
    found = [
        Migration(version=int(f.stem[:4]), name=f.stem[5:], text=f.read_text("utf-8"), record=record)
        for f in sorted(folder.glob("[0-9]*.sql"))
    ]
    assert [m.version for m in found] == list(range(1, len(found) + 1)), "migrations are numbered 1, 2, 3 …"
    return found


def pending(backend: str, applied: Sequence[Applied]) -> list[Migration]:
    """What still has to run; raises if the database is not an ancestor of this program's schema."""
    known = migrations(backend)
    if len(applied) > len(known):
        raise SchemaMismatch(
            f"The database has schema version {len(applied)}, this Interlock knows {len(known)}.",
            "Install a newer Interlock; nothing was changed.",
        )
    for have, want in zip(applied, known, strict=False):
        if (have.version, have.checksum) != (want.version, want.checksum):
            raise SchemaMismatch(
                f"Migration {have.version} of the database is not the one this Interlock has.",
                "It was made by another build; restore a backup or use that build. Nothing was changed.",
            )
    return known[len(applied) :]


def require_current(backend: str, applied: Sequence[Applied]) -> None:
    """Raise unless the database has exactly this program's schema."""
    missing = pending(backend, applied)
    if missing:
        have = f"has schema version {len(applied)}" if applied else "has no Interlock schema"
        raise SchemaMismatch(
            f"The database {have}, this Interlock needs {missing[-1].version}.", "Run `interlock migrate`."
        )


def prepare(database: Migrator) -> None:
    """Make the schema in an empty database; anything else must already have exactly this schema."""
    applied = database.applied()
    if applied:
        require_current(database.backend, applied)
    else:
        migrate(database)


def migrate(database: Migrator) -> int:
    """Bring a database to the newest schema; returns how many migrations ran."""
    if not pending(database.backend, database.applied()):
        return 0

    def work() -> int:
        missing = pending(database.backend, database.applied())
        for migration in missing:
            database.run(migration.script)
        return len(missing)

    return database.exclusively(work)


def script(backend: str, applied: Sequence[Applied]) -> str:
    """The SQL that `migrate` would run, for people who apply it themselves."""
    missing = pending(backend, applied)
    return "\n".join(["BEGIN;", *(m.script for m in missing), "COMMIT;"]) if missing else ""


def rows_to_applied(rows: Sequence[Sequence[Any]]) -> list[Applied]:
    """Records from rows of version, name, checksum."""
    return [Applied(version=r[0], name=r[1], checksum=r[2]) for r in rows]
