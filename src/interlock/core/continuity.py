"""A store that may have gone back in time: a copied file, a restored backup, a standby that took over.

    last run number = max(counter + 1,000,000, clock in µs) + 1

Every number that it gave out and forgot was smaller: a store gives out less than one per microsecond, and if
its clock is behind, it lost less than a million. So no fence is given out twice, and the operator need not
know how many runs were lost. A clock that is wrong by centuries is ignored: numbers stay exact in JSON, which
has 53 bits.

From then on it is another store with a new name. The former store is its ancestor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from interlock.core.model import US_PER_S, Event, EventKind, RunId
from interlock.core.record import Record

SKIPPED = 1_000_000
#: The event numbers that a restored store skips: for each run more than it and its item use.
EVENTS_SKIPPED = 16 * SKIPPED
CLOCK_MAX_US = 2**52
#: Run numbers stay below this.
RUN_MAX = 2**62
#: A store that skipped numbers and meets a newer fence of its own name skips again only after this time.
SKIP_AGAIN_US = 3_600 * US_PER_S


class Ancestor(StrEnum):
    """What is known about the ancestor of a store."""

    #: It may still be in use.
    COPIED = "copied"
    #: It is gone: overwritten by a restore, failed over, or so an operator says.
    GONE = "gone"
    #: It is sealed: it was moved and takes no writes.
    SEALED = "sealed"


class Lineage(Record):
    """The name of a store, 48 random bits, and the stores that it comes from."""

    store: str
    ancestors: Mapping[str, Ancestor]
    #: The run number that this store gave out last.
    last_run: int = 0

    def goes_on_from(self, store: str) -> bool:
        """Whether this store may continue after the numbers of that one, which no other store uses."""
        return store == self.store or self.ancestors.get(store) in (Ancestor.GONE, Ancestor.SEALED)


def lineage(rows: Sequence[Sequence[Any]]) -> Lineage:
    """The lineage from stored names, states and last run numbers. One of the names is `this`."""
    ((store, last_run),) = ((name, last_run) for name, state, last_run in rows if state == "this")
    ancestors = {name: Ancestor(state) for name, state, _ in rows if name != store}
    return Lineage(store=store, ancestors=ancestors, last_run=last_run)


def last_run_after_change(counter: int, now_us: int) -> int:
    """The run number after which a copied, restored or failed-over store continues."""
    return max(counter + SKIPPED, now_us if now_us < CLOCK_MAX_US else 0) + 1


def last_run_after_lag(
    counter: int, past: int, now_us: int, *, armed_us: int, skipped_us: int | None
) -> int | None:
    """The run number after which a store continues whose counter is behind a fence of its own lineage.

    Such a store was restored without noticing. None if the fence was armed after the store skipped numbers
    recently: then another process gives out numbers in its name, and the two would skip past each other
    forever.
    """
    if counter >= past:
        return counter
    if skipped_us is not None and armed_us > skipped_us > now_us - SKIP_AGAIN_US:
        return None
    return max(past, last_run_after_change(counter, now_us))


def numbers_skipped(past: int, last_run: int, run: int, lane: str | None, now_us: int) -> Event:
    """The event of a store that skipped numbers to get past a fence."""
    data = {"past": past, "last_run": last_run}
    return Event(kind=EventKind.STORE_LEAPT, at_us=now_us, run=RunId(run), lane=lane, data=data)


def changed(was: str, now: str, last_run: int, now_us: int) -> Event:
    """What the history says about it; `was` and `now` are how the store knows itself."""
    return Event(
        kind=EventKind.STORE_CHANGED, at_us=now_us, data={"was": was, "now": now, "last_run": last_run}
    )
