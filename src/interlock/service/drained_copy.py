"""Copying a store after a sweep: expired leases end first, and live runs may finish first."""

from __future__ import annotations

import time
from collections.abc import Callable

from interlock.service.sweeper import Swept, move_due, sweep
from interlock.store import store_copy
from interlock.store.migrate import require_current
from interlock.store.port import Store
from interlock.store.store_copy import Copied, CopyEnd, Tell, undo

__all__ = ["Copied", "copy", "undo"]

#: While the copy waits for runs, no other run starts. If the waiting process dies, starts resume after this.
CLOSED_FOR_S = 30
LOOK_EVERY_S = 0.5


def copy(
    store: Store, source: CopyEnd, target: CopyEnd, tell: Tell, *, waiting: Callable[[str], None] | None
) -> Copied:
    """Copy a store. `waiting` is called periodically with the runs waited for; without it the copy does not
    wait."""
    require_current(source.database.backend, source.database.applied())
    if source.kept_seal(store_copy.SEALED) is not None:
        return store_copy.copy(source, target, tell)
    store_copy.require_empty(target)
    sweep(store)  # also detects that the store itself is a copied file or was restored
    if waiting is None:
        return store_copy.copy(source, target, tell)
    source.database.exclusively(lambda: source.close_claims(target.place))
    try:
        _wait(store, source, target, waiting)
        return store_copy.copy(source, target, tell)
    finally:
        if source.kept_seal(store_copy.SEALED) is None:
            source.database.exclusively(source.open_claims)


def _wait(store: Store, source: CopyEnd, target: CopyEnd, waiting: Callable[[str], None]) -> None:
    while True:
        source.keep_closed(target.place, CLOSED_FOR_S)
        move_due(store, Swept())
        live = source.live_runs(store_copy.NAMED + 1)
        if not live:
            return
        waiting(store_copy.in_words(live))
        time.sleep(LOOK_EVERY_S)
