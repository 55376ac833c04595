"""The clock that trust, deadlines and pauses are measured on."""

from __future__ import annotations

import time

#: It goes on while the machine sleeps, where the system has such a clock: leases run out meanwhile.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_s() -> float:
    """Seconds on a clock that never goes back and is the same for all processes of this machine."""
    return time.clock_gettime(CLOCK)
