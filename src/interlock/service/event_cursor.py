"""A cursor into the history: one process at a time follows it. Events before its mark are done."""

from __future__ import annotations

import os
from collections.abc import Callable

from interlock.store.port import EventQuery, Store, StoredEvent

#: Events per poll, polls per pass, the longest time of a poll, and the wait after a failed poll.
POLL_EVENTS, POLLS_MAX, LEASE_S, WAIT_S = 500, 20, 60.0, 15.0
#: Handles events, at the first or a later attempt, and returns how much it did. None: not now.
Take = Callable[[list[StoredEvent], int], int | None]


def follow(
    store: Store,
    name: str,
    take: Take,
    *,
    whole: bool = False,
    needed: Callable[[], bool] | None = None,
) -> int:
    """Pass new events to `take`, and return the sum of its results. Bounded.

    The first call for a name begins at the present, or `whole` with the first event. If a process dies, the
    mark stays: `take` may see an event twice, and misses none. While `needed` says no, events are not read,
    and `take` may never see them.
    """
    if needed is not None:
        newest = _newest(store)  # before the question: what happens after it is taken
        if not needed():
            _pass_over(store, name, newest)
            return 0
    done = 0
    for _ in range(POLLS_MAX):
        taken = _poll(store, name, take, whole=whole)
        if taken is None:
            break
        done += taken
    return done


def _poll(store: Store, name: str, take: Take, *, whole: bool) -> int | None:
    """One poll; None if nothing is new, another process polls, or `take` refused."""
    mark = store.mark(name)
    if mark is None:
        store.begin_mark(name, 0 if whole else _newest(store))
        mark = store.mark(name)
    if mark is None or mark.until_us > store.now_us():
        return None
    found = store.events(EventQuery(after=mark.seq, limit=POLL_EVENTS))
    token = _token()
    if not found or not store.lease_mark(mark, token, LEASE_S):
        return None
    tries = mark.tries + 1
    taken = take(found, tries)
    if taken is None:
        store.move_mark(name, token, seq=mark.seq, tries=tries, wait_s=WAIT_S)
    else:
        store.move_mark(name, token, seq=found[-1].seq)
    return taken


def _pass_over(store: Store, name: str, newest: int) -> None:
    """Move the mark, so that nothing is to be caught up with once it is needed."""
    mark = store.mark(name)
    if mark is None:
        store.begin_mark(name, newest)
    elif mark.seq < newest and mark.until_us <= store.now_us():
        token = _token()
        if store.lease_mark(mark, token, LEASE_S):
            store.move_mark(name, token, seq=newest)


def _newest(store: Store) -> int:
    newest = store.events(EventQuery(limit=1, newest=True))
    return newest[-1].seq if newest else 0


def _token() -> int:
    return int.from_bytes(os.urandom(8)) >> 1
