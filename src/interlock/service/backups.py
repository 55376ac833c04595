"""Backups: one moment of a store in a file, and a store that is filled from it.

Both need the database itself: a server cannot do it for a client.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from interlock.core.errors import NotFound
from interlock.service import sweeper
from interlock.settings import Settings
from interlock.settings.store_url import scheme_of, store_location
from interlock.store import store_backup
from interlock.store.opening import (
    end_of,
    needs_database,
    open_backup,
    open_existing,
    open_store,
    write_backup,
)
from interlock.store.store_backup import BackedUp, BackupWriter, Restored

__all__ = ["BackedUp", "Restored", "back_up", "restore"]


def back_up(settings: Settings, file: Path, *, force: bool, tell: Callable[[str, int], None]) -> BackedUp:
    """Write one snapshot of the store to a file while others use it; `tell` reports the progress."""
    store = open_existing(settings)
    if store is None:
        raise NotFound(f"There is no store at {store_location(settings)}.", "Add an item first.")
    with closing(store):
        source = end_of(store, store_location(settings))

        def fill(writer: BackupWriter) -> BackedUp:
            manifest, live = store_backup.back_up(source, writer.end, tell)
            draft = writer.complete(manifest)
            return BackedUp(
                file=str(file),
                bytes=draft.bytes,
                sha256=draft.sha256,
                store=manifest.place,
                at_us=manifest.at_us,
                rows=manifest.rows,
                live_runs=live,
            )

        return write_backup(file, fill, force=force)


def restore(settings: Settings, file: Path, *, replace: bool, tell: Callable[[str, int], None]) -> Restored:
    """Fill an empty store from a backup; with `replace`, one that has rows, which are deleted.

    Runs that were live in the backup are lost, and run numbers continue above all before.
    """
    settings.check_store()
    if scheme_of(settings.url) == "http":
        raise needs_database()
    with (
        open_backup(file) as (backup, manifest),
        closing(open_store(settings, migrate=False)) as store,
    ):
        target = end_of(store, store_location(settings))
        restored = store_backup.restore(backup, manifest, target, tell, replace=replace)
        sweeper.move_due(store, sweeper.Swept())  # the rest of a large number is up to the sweeper
        return restored
