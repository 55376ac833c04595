"""Records when this machine first saw each state of a lane: git has no clock of its own.

A claimer treats a lease as expired once it has seen the same owner commit for the lease and a margin. No wall
clock of any machine is used: spans are measured by the time since boot. The records are on disk, so that
short-lived processes share them. After a reboot, or if a record cannot be trusted, the span starts over:
waiting longer is always safe.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from interlock.process.smallfile import read_json
from interlock.store.clock import scale, since_boot_us

#: Far more than a lane and its line need. A larger record is dropped at each look, so no lease would expire.
_MAX_BYTES = 16 << 20


def this_clock() -> str:
    """A name for the clock that measures spans: this boot, and this container's time namespace."""
    return str(scale())


class FirstSeen:
    """Times of first sight, in one small file for each lane."""

    def __init__(
        self, directory: Path, *, now: Callable[[], int] = since_boot_us, boot: Callable[[], str] = this_clock
    ) -> None:
        self._directory = directory
        self._now = now
        self._boot = boot

    def ages_us(self, ref_id: str, keys: Iterable[str]) -> dict[str, int]:
        """How long ago each key was first seen; 0 for a new one. Omitted keys are forgotten.

        Call it after reading the state, so that no recorded time is before the first sight.
        """
        now_us, boot = self._now(), self._boot()
        before = self._read(ref_id, boot)
        # A first sight in the future comes from a clock that was set back: the span starts now.
        first = {key: min(before.get(key, now_us), now_us) for key in keys}
        if first != before:
            self._write(ref_id, boot, first)
        return {key: now_us - at_us for key, at_us in first.items()}

    def _path(self, ref_id: str) -> Path:
        return self._directory / f"{ref_id}.json"

    def _read(self, ref_id: str, boot: str) -> dict[str, int]:
        try:
            record = read_json(self._path(ref_id), _MAX_BYTES)
        except (OSError, ValueError):
            return {}
        first = record.get("first_us")
        if record.get("boot") != boot or not isinstance(first, dict):
            return {}
        # Time since boot is never negative. A negative one would make a fresh lease look expired.
        return {key: at_us for key, at_us in first.items() if type(at_us) is int and at_us >= 0}

    def _write(self, ref_id: str, boot: str, first: Mapping[str, int]) -> None:
        # Two processes may write at once. Keys are never reused, so at worst one write drops the keys of the
        # other, and a waiter only waits longer. A full disk has the same effect.
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._directory, prefix=".first-seen-")
            try:
                with os.fdopen(handle, "w") as file:
                    json.dump({"boot": boot, "first_us": first}, file)
                Path(name).replace(self._path(ref_id))
            except OSError:
                Path(name).unlink()
