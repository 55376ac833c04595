"""Backs up a store while it is used, and restores it into an empty store or in place of another.

A backup has the rows of one snapshot of the store, in a file that `store.sqlite.backup_file` writes and
reads. Restoring is one transaction of the target, so a crash leaves the target as it was.

After it:
    run numbers   above all that the backup, the target, or the store since the backup gave out
    live runs     revoked: their handles are void at once, and their leases are over
    event numbers above all that a reader of the old store may have seen
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from interlock.core.continuity import EVENTS_SKIPPED, Ancestor, Lineage
from interlock.core.errors import Held, SchemaMismatch
from interlock.core.record import Record
from interlock.store.migrate import NEWER, apply_missing, known_version
from interlock.store.store_copy import (
    SEALED,
    CopyEnd,
    CopySeal,
    Numbers,
    Tell,
    require_empty,
    transfer,
)

T = TypeVar("T")

#: The name of the manifest in `meta` of a backup.
MANIFEST = "backup"
#: A number of PostgreSQL's history has this many bits for the place in a transaction.
PLACE_BITS = 16


class Manifest(Record):
    """What a backup says about itself."""

    #: 64 random bits as hexadecimal digits.
    id: str
    #: The store in words, its kind, and its time when the snapshot was taken.
    place: str
    backend: str
    at_us: int
    #: The rows, by table.
    rows: dict[str, int]
    #: The last numbers given out: items, runs, tickets, events.
    numbers: list[int]
    #: The name of the store, and the states of its ancestors.
    store: str
    ancestors: dict[str, str]

    def text(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.PARTS})


class BackedUp(Record):
    """A backup that was written."""

    file: str
    bytes: int
    sha256: str
    #: The store in words, and its time when the snapshot was taken.
    store: str
    at_us: int
    rows: dict[str, int]
    #: The number of live runs. `rows` has the ended ones.
    live_runs: int


class Restored(Record):
    """A store that was filled from a backup."""

    store: str
    #: The store that the backup was made of, and its time then.
    made_of: str
    at_us: int
    rows: dict[str, int]
    #: The number of runs that were live in the backup, external ones included. `rows` has the ended ones.
    live_runs: int
    #: The run number after which the store goes on.
    last_run: int
    #: The number of these that are lost. External runs go on.
    lost_runs: int
    #: Whether the store that the backup was made of may still be in use.
    in_use: bool


class BackupSource(CopyEnd, Protocol):
    """A store that can be read while it is used, and filled in the place of what it has."""

    def snapshot(self, work: Callable[[], T]) -> T:
        """Run `work` on one snapshot. It may be repeated."""

    def now_us(self) -> int: ...

    #: Delete every row, derived data included. The store keeps its name, its clock and its numbers.
    def clear(self) -> None: ...

    #: The number of live runs.
    def count_live(self) -> int: ...

    #: End the leases of live runs, and let nobody have their handles. Gives how many there were.
    def revoke_runs(self, bits: int) -> int: ...


class WrittenFile(Record):
    """A complete file that has not its name yet."""

    bytes: int
    sha256: str


class BackupWriter(Protocol):
    """Writes one backup."""

    def end(self) -> CopyEnd:
        """An empty file to be filled, once for each try."""

    def complete(self, manifest: Manifest) -> WrittenFile:
        """Add the manifest and the checksum, and bring the file to disk."""


def back_up(source: BackupSource, into: Callable[[], CopyEnd], tell: Tell) -> tuple[Manifest, int]:
    """Copy the rows of one snapshot, and count its live runs.

    `into` makes an empty file, once for each try.
    """
    applied, known = source.database.applied(), known_version(source.database.backend)
    if len(applied) > known:
        raise SchemaMismatch(
            f"The database has schema version {len(applied)}, this Interlock knows {known}.",
            "Let the newer Interlock make the backup.",
        )

    def work() -> tuple[Manifest, int]:
        target = into()
        return target.database.exclusively(lambda: _kept(source, target, tell))

    return source.snapshot(work)


def _kept(source: BackupSource, target: CopyEnd, tell: Tell) -> tuple[Manifest, int]:
    apply_missing(target.database)
    lineage, at_us = source.lineage(), source.now_us()
    rows = transfer(source, target, tell)
    manifest = Manifest(
        id=os.urandom(8).hex(),
        place=source.place,
        backend=source.database.backend,
        at_us=at_us,
        rows=rows,
        numbers=list(source.numbers()),  # last: sequences are not part of a snapshot
        store=lineage.store,
        ancestors={name: str(state) for name, state in lineage.ancestors.items()},
    )
    return manifest, source.count_live()


def restore(
    backup: CopyEnd, manifest: Manifest, target: BackupSource, tell: Tell, *, replace: bool
) -> Restored:
    """Fill a store from a backup. Unless `replace`, it must be empty."""

    def work() -> Restored:
        database = target.database
        known, applied = known_version(database.backend), len(database.applied())
        if applied > known:
            raise SchemaMismatch(
                f"The database has schema version {applied}, this Interlock knows {known}.", NEWER
            )
        apply_missing(database)
        if (seal := target.kept_seal(SEALED)) is not None:
            raise Held(
                f"{target.place} is sealed for its copy to {seal.place}.",
                "Name another store. Nothing was changed.",
            )
        numbers = Numbers(*manifest.numbers)
        if replace:
            numbers = Numbers(*map(max, numbers, target.numbers()))
            target.clear()
        else:
            require_empty(target, "Name an empty store with --url, or replace this one with --replace.")
        rows = transfer(backup, target, tell)
        live = target.count_live()
        own = target.lineage()
        ancestors = _ancestors(manifest, own, same_place=manifest.place == target.place)
        origin = CopySeal(manifest.id, f"a backup of {manifest.place}", manifest.at_us)
        last_run = target.settle(_above(numbers, manifest, database.backend), ancestors, origin)
        # After the clock is set: on another machine a clock may give live runs another lease.
        lost = target.revoke_runs(int.from_bytes(os.urandom(8), signed=True))
        return Restored(
            store=target.place,
            made_of=manifest.place,
            at_us=manifest.at_us,
            rows=rows,
            live_runs=live,
            last_run=last_run,
            lost_runs=lost,
            in_use=ancestors.get(manifest.store) is Ancestor.COPIED,
        )

    return target.database.exclusively(work)


def _above(numbers: Numbers, manifest: Manifest, backend: str) -> Numbers:
    """The numbers with a margin for events that the store wrote after the backup."""
    places = PLACE_BITS if "postgres" in (manifest.backend, backend) else 0
    return numbers._replace(event=numbers.event + (EVENTS_SKIPPED << places))


def _ancestors(manifest: Manifest, own: Lineage, *, same_place: bool) -> Mapping[str, Ancestor]:
    """The stores that the restored one continues. The one of the backup is gone if it was at this place."""
    known = {name: Ancestor(state) for name, state in manifest.ancestors.items()}
    known[manifest.store] = Ancestor.GONE if same_place else Ancestor.COPIED
    return {name: state for name, state in known.items() if name != own.store}
