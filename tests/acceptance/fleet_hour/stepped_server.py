"""`interlock` as a process whose clocks stand still but for what a file says: for the server of a store.

Both clocks of the host are replaced where the store reads them (`store.clock.moment`), so that all rules on
time are the real ones. Whoever asks the server has no clock that matters: its workers wait in real time, and
the store decides.
"""

from __future__ import annotations

import os
from pathlib import Path

from interlock.cli.main import main
from interlock.core.bootclock import Moment
from interlock.store import clock

#: Names the file, with the time in microseconds since 1970.
VARIABLE = "STEPPED_CLOCK"
#: The time since boot begins long before.
_BOOTED_US = 1_000_000_000_000_000


def _moment() -> Moment:
    now_us = int(Path(os.environ[VARIABLE]).read_text())
    return Moment(now_us - _BOOTED_US, now_us)


if __name__ == "__main__":
    clock.moment = _moment
    raise SystemExit(main())
