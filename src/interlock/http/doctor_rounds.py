"""Runs the doctor now and then, for the dashboard: a check reads the whole store, so it is done rarely."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from interlock.core.row import NamedTuple
from interlock.service.contract import CheckView

#: How long after a start, and how often from then on. What was found is looked at again sooner: an invariant
#: may be broken for a moment, between two sweeps.
FIRST_S, EVERY_S, AGAIN_S = 20.0, 900.0, 30.0
#: The doctor rests for so many times as long as its last check took.
REST = 50.0


class DoctorReport(NamedTuple):
    """What the doctor found in two checks in a row, and when the last one was."""

    findings: Sequence[CheckView] = ()
    checked_at: datetime | None = None


class DoctorRounds:
    """The doctor's rounds on one store. A job calls `look` every few seconds."""

    def __init__(
        self,
        check: Callable[[], Sequence[CheckView]],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._check, self._now, self._clock = check, now, clock
        self._due_s = clock() + FIRST_S
        self._found: frozenset[str] = frozenset()
        self.report = DoctorReport()

    def look(self) -> None:
        """Check the store, if it is time."""
        begun_s = self._clock()
        if begun_s < self._due_s:
            return
        broken = [each for each in self._check() if not each.ok]
        ended_s = self._clock()
        found = frozenset(each.name for each in broken)
        self.report = DoctorReport([each for each in broken if each.name in self._found], self._now())
        wait_s = AGAIN_S if found - self._found else EVERY_S
        self._found = found
        self._due_s = ended_s + max(wait_s, REST * (ended_s - begun_s))
