"""The administration of a store: schema, restore, copy and pruning.

Each needs the database itself: a server cannot do it for a client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import InvalidInput
from interlock.core.record import Record, replace
from interlock.settings import Settings, sqlite_path
from interlock.settings.store_url import store_location
from interlock.store import migrate as schema
from interlock.store.opening import (
    end_of,
    move_store,
    open_current,
    open_store,
)

if TYPE_CHECKING:
    from interlock.service.retention import Pruned
    from interlock.store.port import Store
    from interlock.store.store_copy import Copied, CopyEnd


class Schema(Record):
    """The schema of a database."""

    backend: str
    #: Its current version.
    version: int
    #: How many migrations ran just now, and how many are still missing.
    applied: int
    missing: int
    #: The SQL of the missing ones.
    sql: str
    #: The store's new place, if it was just moved.
    moved_to: str | None = None


def migrate(settings: Settings, *, check: bool = False) -> Schema:
    """Upgrade the database to this program's schema; with `check`, only report missing migrations."""
    moved = not check and move_store(settings)
    with closing(open_store(settings, migrate=False).database) as database:
        ran = 0 if check else schema.migrate(database)
        applied = database.applied()
        return Schema(
            backend=database.backend,
            version=len(applied),
            applied=ran,
            missing=len(schema.pending(database.backend, applied)),
            sql=schema.script(database.backend, applied),
            moved_to=str(sqlite_path(settings.url, settings.root)) if moved else None,
        )


def after_restore(settings: Settings) -> int:
    """Skip run numbers that may have been used since the restored backup; gives the last one skipped.

    Run this before agents use the restored database: otherwise an old run and a new one could share a fence.
    """
    with closing(open_current(settings)) as store:
        return store.database.after_restore()


def take_over(settings: Settings, lost: str) -> Lineage:
    """Record that a store is lost and this one takes its place; gives the lineage after that."""
    if not re.fullmatch("[0-9a-f]{12}", lost):
        raise InvalidInput(
            f"{lost[:40]!r} is not the name of a store.",
            "A name is 12 hexadecimal digits; the doctor shows it.",
        )
    with closing(open_current(settings)) as store:
        if store.lineage().store == lost:
            raise InvalidInput(f"{lost} is this store.", "Pass the name of the lost store.")
        store.database.add_ancestors({lost: Ancestor.GONE})
        return store.lineage()


def copy(
    settings: Settings,
    to: str,
    *,
    tell: Callable[[str, int], None],
    waiting: Callable[[str], None] | None,
) -> Copied:
    """Copy the store to an empty database, and seal it; `tell` and `waiting` report its progress."""
    from interlock.service import drained_copy  # noqa: PLC0415  (for this alone)

    with _both_ends(settings, to) as (store, source, target):
        return drained_copy.copy(store, source, target, tell, waiting=waiting)


def undo_copy(settings: Settings, to: str) -> str:
    """Unseal the store of an interrupted copy. Gives the store's place."""
    from interlock.service import drained_copy  # noqa: PLC0415

    with _both_ends(settings, to) as (_, source, target):
        drained_copy.undo(source, target)
        return source.place


@contextmanager
def _both_ends(settings: Settings, to: str) -> Iterator[tuple[Store, CopyEnd, CopyEnd]]:
    target = replace(settings, url=to, former=None)
    if store_location(target) == store_location(settings):
        raise InvalidInput("The store cannot be copied onto itself.", "Pass another URL.")
    with ExitStack() as opened:
        ends = []
        for chosen in (settings, target):
            store = open_store(chosen, migrate=False)
            opened.callback(store.close)
            ends.append((store, end_of(store, store_location(chosen))))
        yield ends[0][0], ends[0][1], ends[1][1]


def prune(settings: Settings, *, older_than_s: float, really: bool, vacuum: bool) -> Iterator[Pruned]:
    """Delete old ended items and plans step by step, or only count them; then vacuum, if wanted."""
    from interlock.service import retention  # noqa: PLC0415  (for this alone)

    with closing(open_store(settings, migrate=True)) as store:
        yield from retention.prune(store, older_than_s, really=really)
        if vacuum and really:
            store.vacuum()
