"""Numbered migrations with checksums. The schema is the sum of its migrations, which a test checks.

Each migration runs in one transaction together with its record, under a lock that serialises concurrent runs.
It states the oldest schema version whose programs may continue to use the database. A database that no longer
serves this program, or whose record does not match the files, is refused and left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from interlock.core.errors import SchemaMismatch
from interlock.core.record import Record

T = TypeVar("T")

_ROOT = Path(__file__).parent
#: The first schema version whose programs check which versions a newer schema serves.
SIDE_BY_SIDE_FROM = 8
_SERVES = re.compile(r"^-- Serves: ([0-9]+)$", re.MULTILINE)
NEWER = "Install a newer Interlock. Nothing was changed."


class Migration(Record):
    version: int
    name: str
    text: str

    #: The statement that records the migration in the same transaction.
    record: str

    @cached_property
    def checksum(self) -> str:
        from hashlib import sha256

        return sha256(self.text.encode()).hexdigest()

    @property
    def serves(self) -> int:
        """The oldest schema version whose programs may use the database after it."""
        said = [int(n) for n in _SERVES.findall(self.text)]
        if self.version < SIDE_BY_SIDE_FROM:
            return self.version
        assert len(said) == 1, f"migration {self.version} says once which version it serves: -- Serves: N"
        assert SIDE_BY_SIDE_FROM <= said[0] <= self.version, f"migration {self.version} serves {said[0]}"
        return said[0]

    @property
    def script(self) -> str:
        """The migration and its record."""
        return self.text + self.record.format(
            version=self.version, name=self.name, checksum=self.checksum, serves=self.serves
        )


class Applied(Record):
    version: int
    name: str
    checksum: str
    #: None if it was applied before programs checked it.
    serves: int | None


class Migrator(Protocol):
    """The operations that a migration needs from a database. `exclusively` runs its argument in one
    transaction that no other migration shares."""

    backend: str

    def applied(self) -> list[Applied]: ...
    def exclusively(self, work: Callable[[], T]) -> T: ...
    def run(self, script: str) -> None: ...


def migrations(backend: str) -> list[Migration]:
    """The migrations of a backend, in order and without gaps."""
    return _read(_ROOT / backend / "sql" / "migrations")


@cache
def _known(root: Path, backend: str) -> tuple[Migration, ...]:
    """The migrations, read once in a process, as each opening of a database needs them."""
    return tuple(_read(root / backend / "sql" / "migrations"))


def _read(folder: Path) -> list[Migration]:
    recorded, served = ((folder / f"{name}.sql").read_text("utf-8") for name in ("recorded", "served"))
    found = [
        Migration(
            version=(version := int(f.stem[:4])),
            name=f.stem[5:],
            text=f.read_text("utf-8"),
            record=recorded + served if version >= SIDE_BY_SIDE_FROM else recorded,
        )
        for f in sorted(folder.glob("[0-9]*.sql"))
    ]
    assert [m.version for m in found] == list(range(1, len(found) + 1)), "migrations are numbered 1, 2, 3 …"
    served_from = [m.serves for m in found]
    assert served_from == sorted(served_from), "what a migration no longer serves, no later one serves"
    return found


def known_version(backend: str) -> int:
    """The schema version that this program knows."""
    return len(_known(_ROOT, backend))


def too_old(version: int, known: int) -> SchemaMismatch:
    """The error for a database that no longer serves programs of this version."""
    return SchemaMismatch(f"The database has schema version {version}, this Interlock knows {known}.", NEWER)


def pending(backend: str, applied: Sequence[Applied]) -> Sequence[Migration]:
    """The pending migrations. Raises if the database is not an ancestor of this program's schema."""
    known = _known(_ROOT, backend)
    if len(applied) > len(known) and (applied[-1].serves or len(applied)) > len(known):
        raise too_old(len(applied), len(known))
    for have, want in zip(applied, known, strict=False):
        if (have.version, have.checksum) != (want.version, want.checksum):
            raise SchemaMismatch(
                f"Migration {have.version} of the database differs from this Interlock's.",
                "Another build made it: use that build, or restore a backup. Nothing was changed.",
            )
    return known[len(applied) :]


def require_current(backend: str, applied: Sequence[Applied]) -> None:
    """Raise unless the database has this program's schema, or a newer one that still serves it."""
    missing = pending(backend, applied)
    if missing:
        have = f"has schema version {len(applied)}" if applied else "has no Interlock schema"
        raise SchemaMismatch(
            f"The database {have}, this Interlock needs {missing[-1].version}.", "Run `interlock migrate`."
        )


def prepare(database: Migrator) -> None:
    """Create the schema in an empty database. Any other database must already serve this program."""
    applied = database.applied()
    if applied:
        require_current(database.backend, applied)
    else:
        migrate(database)


def migrate(database: Migrator) -> int:
    """Bring a database to the newest schema; returns how many migrations ran."""
    if not pending(database.backend, database.applied()):
        return 0
    return database.exclusively(lambda: apply_missing(database))


def apply_missing(database: Migrator) -> int:
    """Run the pending migrations in a transaction that no other migration shares; returns their number."""
    missing = pending(database.backend, database.applied())
    for migration in missing:
        database.run(migration.script)
    return len(missing)


def script(backend: str, applied: Sequence[Applied]) -> str:
    """The SQL that `migrate` would run, for people who apply it themselves."""
    missing = pending(backend, applied)
    return "\n".join(["BEGIN;", *(m.script for m in missing), "COMMIT;"]) if missing else ""


def rows_to_applied(rows: Sequence[Sequence[Any]]) -> list[Applied]:
    """Records from whole rows of the table. Its first versions had no `serves`."""
    return [
        Applied(version=r[0], name=r[1], checksum=r[2], serves=r[4] if len(r) > 4 else None) for r in rows
    ]
