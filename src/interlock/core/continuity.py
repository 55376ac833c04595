"""A store that may have gone back in time: a copied file, a restored backup, a standby that took over.

    last run number = max(counter + 1,000,000, clock in µs) + 1

Whatever numbers it gave out and does not know of any more were smaller: a store gives out less than one in a
microsecond, and where the clock is behind, it lost less than a million. So no fence comes twice, and no
operator has to know how many runs there were. A clock that is wrong by centuries does not count: numbers stay
exact in JSON, which has 53 bits.
"""

from __future__ import annotations

from interlock.core.model import Event, EventKind

SKIPPED = 1_000_000
CLOCK_MAX_US = 2**52


def last_run_after_change(counter: int, now_us: int) -> int:
    """The run number after which a store goes on that is not the one it was."""
    return max(counter + SKIPPED, now_us if now_us < CLOCK_MAX_US else 0) + 1


def changed(was: str, now: str, last_run: int, now_us: int) -> Event:
    """What the history says about it; `was` and `now` are how the store knows itself."""
    return Event(
        kind=EventKind.STORE_CHANGED, at_us=now_us, data={"was": was, "now": now, "last_run": last_run}
    )
