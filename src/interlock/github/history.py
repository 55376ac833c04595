"""Follows the history from a mark: one process at a time, and what is behind the mark is done."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from interlock.store.port import EventQuery, Store, StoredEvent

#: How many events one look reads, how many looks one pass makes, and how long a look may take.
LOOK, LOOKS_MAX, LEASE_S = 500, 20, 60.0


def follow(store: Store, name: str, take: Callable[[list[StoredEvent]], int]) -> int:
    """Give `take` what happened since the last time; the sum of what it gives back. Bounded.

    Who dies in between leaves the mark where it was: `take` may see an event twice, and misses none.
    """
    done = 0
    for _ in range(LOOKS_MAX):
        taken = _look(store, name, take)
        if taken is None:
            break
        done += taken
    return done


def _look(store: Store, name: str, take: Callable[[list[StoredEvent]], int]) -> int | None:
    """One look; None if nothing is new, or somebody else looks."""
    mark = store.mark(name)
    if mark is None:
        store.begin_mark(name, 0)
        mark = store.mark(name)
    if mark is None or mark.until_us > store.now_us():
        return None
    found = store.events(EventQuery(after=mark.seq, limit=LOOK))
    token = secrets.randbits(63)
    if not found or not store.lease_mark(mark, token, LEASE_S):
        return None
    taken = take(found)
    store.move_mark(name, token, seq=found[-1].seq)
    return taken
