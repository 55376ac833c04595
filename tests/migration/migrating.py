"""What processes do that migrate at the same moment. Without pytest: every process imports it."""

from __future__ import annotations

from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from interlock.core.model import NewItem
from interlock.core.timing import Timing
from interlock.store import migrate
from tests.faults.stores import open_service, open_store


def migrate_once(talk: Connection, barrier: Barrier, url: str, folder: Path | None) -> tuple[int, int]:
    """Migrate at the same moment as others; how many migrations ran here, and the version after."""
    if folder is not None:
        migrate._ROOT = folder
    store = open_store(url, migrate=False)
    barrier.wait()
    ran = migrate.migrate(store.database)
    version = len(store.database.applied())
    store.close()
    return ran, version


def start_and_add(talk: Connection, barrier: Barrier, url: str) -> tuple[str, int | None]:
    """Open a store as any command does, on a database that may not be there yet, and use it."""
    barrier.wait()
    service = open_service(url, timing=Timing())  # the first handle is used after the last process has come
    arrival = service.add([NewItem(title="first thing")])[0].arrival
    handle = service.next("coder")[0].run
    service.close()
    return handle, arrival
