"""The clock of a store without a server: the time since boot plus an offset, kept near the wall clock.

    clock = time since boot + offset,   |clock - wall clock| <= 30 s

The time since boot cannot be set, so within one boot it is known exactly how much time has passed. Only the
wall clock knows the date; it may be wrong, and may be corrected. When the two are further apart,
the clock steps to the wall clock, and every deadline steps with it: no lease gets shorter or longer.

A *scale* is one way to count the time since boot: of one boot, in one time namespace. The store has an
offset for each scale that it has met in this boot.

==========================================  ========================  =====================================
what a process finds                        the clock                 deadlines
==========================================  ========================  =====================================
its scale, within 30 s of the wall clock    continues                 stay
its scale, further off                      steps to the wall clock   step with it
another scale, perhaps of the same boot     gets one more offset      leases get one more span, this once
another boot                                begins at the wall clock  stay, the holders are dead
the same, and the wall clock is before the  begins at the wall clock  step back from the last event, so that
last event                                                            what was left of them is left
==========================================  ========================  =====================================

A boot without a name (no `/proc`, other systems than Linux) is another one if the time since boot went back.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.core.model import US_PER_S, Event, EventKind
from interlock.core.record import Record
from interlock.core.row import NamedTuple

TOLERANCE_US = 30 * US_PER_S


class Scale(NamedTuple):
    """A way to count the time since boot. `boot` is empty if the boot has no name."""

    boot: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.boot} {self.namespace}"

    def may_share_boot(self, other: str) -> bool:
        """Whether the other scale may be of the same boot."""
        boot = other.partition(" ")[0]
        return not boot or not self.boot or boot == self.boot


class Moment(NamedTuple):
    """A reading of this host's clocks."""

    since_boot_us: int
    wall_us: int


Offsets = Mapping[str, int]


class ClockAdjustment(Record):
    """A store's clock from now on."""

    offsets: Offsets
    now_us: int
    #: The step of every deadline, in microseconds.
    step_us: int = 0
    #: Whether the elapsed time is unknown, so that leases get one more span.
    mercy: bool = False

    @property
    def event(self) -> Event | None:
        """The event for the history; None if neither the deadlines nor the leases changed."""
        if not self.step_us and not self.mercy:
            return None
        data = {"step_s": round(self.step_us / US_PER_S, 3), "mercy": self.mercy}
        return Event(kind=EventKind.CLOCK_STEPPED, at_us=self.now_us, data=data)


def reading(offsets: Offsets, scale: Scale, moment: Moment) -> int | None:
    """The store's time; None if its clock must be settled first."""
    offset_us = offsets.get(str(scale))
    if offset_us is None:
        return None
    now_us = moment.since_boot_us + offset_us
    return now_us if abs(moment.wall_us - now_us) <= TOLERANCE_US else None


def adjustment(offsets: Offsets, scale: Scale, moment: Moment, last_us: int) -> ClockAdjustment:
    """The clock of a store whose last event was at `last_us`, when `reading` knows none."""
    own, wall_us = str(scale), moment.wall_us
    fresh = {own: wall_us - moment.since_boot_us}
    if own in offsets:
        now_us = moment.since_boot_us + offsets[own]
        if scale.boot or now_us >= last_us - TOLERANCE_US:
            step_us = wall_us - now_us
            moved = {other: offset_us + step_us for other, offset_us in offsets.items()}
            return ClockAdjustment(offsets=moved, now_us=wall_us, step_us=step_us)
    elif kept := {other: us for other, us in offsets.items() if scale.may_share_boot(other)}:
        return ClockAdjustment(offsets={**kept, **fresh}, now_us=wall_us, mercy=True)
    step_us = wall_us - last_us if last_us - TOLERANCE_US > wall_us else 0
    return ClockAdjustment(offsets=fresh, now_us=wall_us, step_us=step_us)
