"""A store is copied: leases that are over end first, and live runs are waited for if that is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable

from interlock.service.sweeper import Swept, move_due, sweep
from interlock.store import copying
from interlock.store.copying import Copied, End, Tell, undo
from interlock.store.migrate import require_current
from interlock.store.port import Store

__all__ = ["Copied", "copy", "undo"]

#: While runs are waited for no other one starts. If the waiting process dies, they start again after this.
CLOSED_FOR_S = 30
LOOK_EVERY_S = 0.5


def copy(
    store: Store, source: End, target: End, tell: Tell, *, waiting: Callable[[str], None] | None
) -> Copied:
    """Copy a store. `waiting` hears now and then of the runs that are waited for; without it none is."""
    require_current(source.database.backend, source.database.applied())
    if source.mark(copying.SEALED) is not None:
        return copying.copy(source, target, tell)
    copying.require_empty(target)
    sweep(store)  # also notices that the store itself is the copy of a file, or was restored
    if waiting is None:
        return copying.copy(source, target, tell)
    source.database.exclusively(lambda: source.close_claims(target.place))
    try:
        _wait(store, source, target, waiting)
        return copying.copy(source, target, tell)
    finally:
        if source.mark(copying.SEALED) is None:
            source.database.exclusively(source.open_claims)


def _wait(store: Store, source: End, target: End, waiting: Callable[[str], None]) -> None:
    while True:
        source.keep_closed(target.place, CLOSED_FOR_S)
        move_due(store, Swept())
        live = source.live_runs(copying.NAMED + 1)
        if not live:
            return
        waiting(copying.in_words(live))
        time.sleep(LOOK_EVERY_S)
