"""Whether the clock of a database server was set: its readings against this machine's time since boot.

    step = server time passed - own time passed,   taken for a step if it is certain and over 30 s,
                                                   and if the offset is that of the last reading

Only differences count, so a machine whose own date is wrong judges as well as any other. Own time passes
while a process is stopped and while a machine sleeps, and a reading is bounded by the moments before it was
sent and after it was answered: so a slow answer, or a process that was stopped in the middle of one, is no
step. Clocks drift; for each second that has passed a thousandth is allowed besides.

Of two readings with different offsets nothing is concluded: another process has taken a step into the
offset between them. A process that read the clock for the first time after a step and before its correction
would otherwise take the correction for a step, and undo it.

Not seen from here: that this machine itself was frozen with its clock, as a virtual machine may be. Then the
server seems to have gone forward. If anything was written to the store at a time in between, its clock has
passed that time, and was not set.
"""

from __future__ import annotations

from interlock.core.model import US_PER_S
from interlock.core.row import NamedTuple

STEP_MIN_US = 30 * US_PER_S
DRIFT_SHARE = 1 / 1000
#: A reading that took longer is not kept for comparison.
READING_MAX_US = 5 * US_PER_S
#: What may be written shortly before and after a step.
MARGIN_US = US_PER_S


class ClockReading(NamedTuple):
    """The store's time, the offset in it, and this machine's time before it was asked and after."""

    clock_us: int
    offset_us: int
    sent_us: int
    answered_us: int

    @property
    def good(self) -> bool:
        return self.answered_us - self.sent_us <= READING_MAX_US


def step_between(first: ClockReading, second: ClockReading) -> int:
    """How far the server's clock was set between two readings, in microseconds; 0 if that is not certain."""
    if first.offset_us != second.offset_us:
        return 0
    passed = second.clock_us - first.clock_us
    least = second.sent_us - first.answered_us
    most = second.answered_us - first.sent_us
    beyond = passed - most if passed > most else min(0, passed - least)
    if abs(beyond) <= STEP_MIN_US + most * DRIFT_SHARE:
        return 0
    return passed - (least + most) // 2


def never_was(first: ClockReading, second: ClockReading) -> tuple[int, int]:
    """The times, from and to, that a clock which was set forward between two readings has left out."""
    most = second.answered_us - first.sent_us + MARGIN_US
    return first.clock_us + most, second.clock_us - most
