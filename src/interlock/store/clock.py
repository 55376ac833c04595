"""The clock of an embedded store: this host's time since boot, anchored once to the wall clock.

SQLite has no server whose clock could rule, and a wall clock may be set back under a running lease.
Every process of a host sees the same time since boot, so the first process after a boot writes down
what to add to it. From then on the store's time only moves forward, and evenly.

It does not promise to agree with a wall clock that is corrected later; `interlock doctor` tells when
the two have drifted apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DRIFT_WARN_US = 60 * 1_000_000


def wall_us() -> int:
    """Microseconds since 1970 on the wall clock."""
    return time.time_ns() // 1_000


def since_boot_us() -> int:
    """Microseconds since boot, sleep included where the system tells."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000


def boot_id() -> str:
    """A name for this boot; without one, the boot's own wall time to ten seconds."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return f"at-{(wall_us() - since_boot_us()) // 10_000_000}"


def anchor(stored: str | None, last_us: int) -> str:
    """The anchor to use: the stored one of this boot, else a new one that is not before `last_us`."""
    this_boot = boot_id()
    if stored is not None and stored.partition(" ")[0] == this_boot:
        return stored
    offset = max(wall_us(), last_us) - since_boot_us()
    return f"{this_boot} {offset}"


def anchored(anchor_text: str) -> Callable[[], int]:
    """The clock that an anchor makes."""
    offset = int(anchor_text.partition(" ")[2])
    return lambda: since_boot_us() + offset
