"""A store that may have gone back in time: a copied file, a restored backup, a standby that took over.

    last run number = max(counter + 1,000,000, clock in µs) + 1

Whatever numbers it gave out and does not know of any more were smaller: a store gives out less than one in a
microsecond, and where the clock is behind, it lost less than a million. So no fence comes twice, and no
operator has to know how many runs there were. A clock that is wrong by centuries does not count: numbers stay
exact in JSON, which has 53 bits.

From then on it is another store, with another name, and the one that it was is its ancestor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from interlock.core.model import US_PER_S, Event, EventKind, RunId
from interlock.core.record import Record

SKIPPED = 1_000_000
CLOCK_MAX_US = 2**52
#: No store gives out such a run number, and none goes on after it.
RUN_MAX = 2**62
#: A store that meets a fence of its own name which was armed since its last leap leaps again only after this.
LEAP_AGAIN_US = 3_600 * US_PER_S


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
    #: The run number that this store gave out last.
    last_run: int = 0

    def goes_on_from(self, store: str) -> bool:
        """Whether what that store gave out is this one's to go on from: nobody else uses it."""
        return store == self.store or self.ancestors.get(store) in (Ancestor.GONE, Ancestor.SEALED)


def lineage(rows: Sequence[Sequence[Any]]) -> Lineage:
    """The lineage from stored names and states, of which one is `this`, each with the last run number."""
    ((store, last_run),) = ((name, last_run) for name, state, last_run in rows if state == "this")
    ancestors = {name: Ancestor(state) for name, state, _ in rows if name != store}
    return Lineage(store=store, ancestors=ancestors, last_run=last_run)


def last_run_after_change(counter: int, now_us: int) -> int:
    """The run number after which a store goes on that is not the one it was."""
    return max(counter + SKIPPED, now_us if now_us < CLOCK_MAX_US else 0) + 1


def last_run_after_lag(
    counter: int, past: int, now_us: int, *, armed_us: int, leapt_us: int | None
) -> int | None:
    """The run number after which a store goes on that met a fence of its own lineage ahead of its counter.

    Such a store was set back without noticing. None if the fence was armed after its last leap, not long ago:
    then somebody else gives out numbers in its name, and both would leap past each other for ever.
    """
    if counter >= past:
        return counter
    if leapt_us is not None and armed_us > leapt_us > now_us - LEAP_AGAIN_US:
        return None
    return max(past, last_run_after_change(counter, now_us))


def leapt(past: int, last_run: int, run: int, lane: str | None, now_us: int) -> Event:
    """What the history says about a store that leapt past a fence."""
    data = {"past": past, "last_run": last_run}
    return Event(kind=EventKind.STORE_LEAPT, at_us=now_us, run=RunId(run), lane=lane, data=data)


def changed(was: str, now: str, last_run: int, now_us: int) -> Event:
    """What the history says about it; `was` and `now` are how the store knows itself."""
    return Event(
        kind=EventKind.STORE_CHANGED, at_us=now_us, data={"was": was, "now": now, "last_run": last_run}
    )
