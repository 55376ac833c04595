"""The clock for leases, deadlines and pauses."""

from __future__ import annotations

import time

#: It runs while the machine sleeps, if the system has such a clock, because leases expire meanwhile.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_s() -> float:
    """Seconds on a monotonic clock that is the same for all processes of this machine."""
    return time.clock_gettime(CLOCK)
