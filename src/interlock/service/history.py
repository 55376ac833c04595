"""Follows the history from a mark: one process at a time, and what is behind the mark is done."""

from __future__ import annotations

import os
from collections.abc import Callable

from interlock.store.port import EventQuery, Store, StoredEvent

#: How many events one look reads, how many looks one pass makes, how long a look may take, and how long the
#: history waits after one that did not succeed.
LOOK, LOOKS_MAX, LEASE_S, WAIT_S = 500, 20, 60.0, 15.0
#: Takes what happened, at its first try or a later one, and gives how much it did. None: not now.
Take = Callable[[list[StoredEvent], int], int | None]


def follow(store: Store, name: str, take: Take, *, whole: bool = False) -> int:
    """Give `take` what happened since the last time; the sum of what it gives back. Bounded.

    The first call for a name begins there, or `whole` with the first event. Who dies in between leaves the
    mark where it was: `take` may see an event twice, and misses none.
    """
    done = 0
    for _ in range(LOOKS_MAX):
        taken = _look(store, name, take, whole=whole)
        if taken is None:
            break
        done += taken
    return done


def _look(store: Store, name: str, take: Take, *, whole: bool) -> int | None:
    """One look; None if nothing is new, somebody else looks, or what is new was not taken."""
    mark = store.mark(name)
    if mark is None:
        newest = [] if whole else store.events(EventQuery(limit=1, newest=True))
        store.begin_mark(name, newest[-1].seq if newest else 0)
        mark = store.mark(name)
    if mark is None or mark.until_us > store.now_us():
        return None
    found = store.events(EventQuery(after=mark.seq, limit=LOOK))
    token = int.from_bytes(os.urandom(8)) >> 1
    if not found or not store.lease_mark(mark, token, LEASE_S):
        return None
    tries = mark.tries + 1
    taken = take(found, tries)
    if taken is None:
        store.move_mark(name, token, seq=mark.seq, tries=tries, wait_s=WAIT_S)
    else:
        store.move_mark(name, token, seq=found[-1].seq)
    return taken
