"""The clocks of this host, from which an embedded store derives its own: see `core.bootclock`."""

from __future__ import annotations

import json
import os
import time
from functools import lru_cache
from pathlib import Path

from interlock.core.bootclock import Moment, Offsets, Scale

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = "/proc/self/ns/time"


def wall_us() -> int:
    """Microseconds since 1970 on the wall clock."""
    return time.time_ns() // 1_000


def since_boot_us() -> int:
    """Microseconds since boot, including sleep where the system reports it."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000


def moment() -> Moment:
    """The current readings of the clocks."""
    return Moment(since_boot_us(), wall_us())


def scale() -> Scale:
    """The boot and the time namespace of this process, if the system names them."""
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
    except OSError:
        boot = ""
    try:
        namespace = os.readlink(_NAMESPACE)  # noqa: PTH115  (a name, not a path)
    except OSError:
        namespace = ""
    return Scale(boot, namespace)


@lru_cache(maxsize=8)
def offsets_from(text: str | None) -> Offsets:
    """The offsets of a store, from their stored text."""
    found: dict[str, int] = json.loads(text) if text else {}
    return found


def offsets_text(offsets: Offsets) -> str:
    return json.dumps(dict(offsets))
