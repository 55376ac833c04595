"""A store that may have gone back in time: a copied file, a restored backup, a standby that took over.

    last run number = max(counter + 1,000,000, clock in µs) + 1

Whatever numbers it gave out and does not know of any more were smaller: a store gives out less than one in a
microsecond, and where the clock is behind, it lost less than a million. So no fence comes twice, and no
operator has to know how many runs there were. A clock that is wrong by centuries does not count: numbers stay
exact in JSON, which has 53 bits.

From then on it is another store, with another name, and the one that it was is its ancestor.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from interlock.core.model import Event, EventKind
from interlock.core.record import Record

SKIPPED = 1_000_000
CLOCK_MAX_US = 2**52


class Ancestor(StrEnum):
    """What is known about a store that another one comes from."""

    #: It may still be in use beside this one.
    COPIED = "copied"
    #: It is not there any more: restored over, failed over, or an operator says so.
    GONE = "gone"
    #: It says itself that it was moved, and takes no writes.
    SEALED = "sealed"


class Lineage(Record):
    """The name of a store, 48 random bits, and the stores that it comes from."""

    store: str
    ancestors: Mapping[str, Ancestor]

    def goes_on_from(self, store: str) -> bool:
        """Whether what that store gave out is this one's to go on from: nobody else uses it."""
        return store == self.store or self.ancestors.get(store) in (Ancestor.GONE, Ancestor.SEALED)


def lineage(rows: Mapping[str, str]) -> Lineage:
    """The lineage from stored names and states, of which one is `this`."""
    (store,) = (name for name, state in rows.items() if state == "this")
    return Lineage(
        store=store,
        ancestors={name: Ancestor(state) for name, state in rows.items() if name != store},
    )


def last_run_after_change(counter: int, now_us: int) -> int:
    """The run number after which a store goes on that is not the one it was."""
    return max(counter + SKIPPED, now_us if now_us < CLOCK_MAX_US else 0) + 1


def changed(was: str, now: str, last_run: int, now_us: int) -> Event:
    """What the history says about it; `was` and `now` are how the store knows itself."""
    return Event(
        kind=EventKind.STORE_CHANGED, at_us=now_us, data={"was": was, "now": now, "last_run": last_run}
    )
