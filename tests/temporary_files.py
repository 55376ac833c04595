"""Where the files of a test run lie: in memory, where there is plenty of it.

A good part of the time of tests that commit, run git and start servers goes into waiting for a disk, and no
test here pulls the plug. Those that look at what is written to a disk look at the calls. `TMPDIR` in the
environment wins: `TMPDIR=/tmp make test` has everything on disk.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
#: What a run needs is well below this: the servers of both versions, and what failed tests leave.
NEEDED_BYTES = 3 << 30
AVAILABLE_BYTES = 6 << 30


def choose() -> None:
    """From here on, and for every process that is started, files that pass lie in memory if they can."""
    if "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # somebody may have asked already, and the answer was kept


def _has_room(place: Path) -> bool:
    """Whether everybody may write there and run what was written, and enough memory is left for others."""
    try:
        about, mode = os.statvfs(place), place.stat().st_mode
        memory = Path("/proc/meminfo").read_text()
    except OSError:
        return False
    available_kb = next((int(line.split()[1]) for line in memory.splitlines() if "MemAvailable" in line), 0)
    return (
        mode & 0o1777 == 0o1777
        and not about.f_flag & os.ST_NOEXEC
        and about.f_bavail * about.f_frsize >= NEEDED_BYTES
        and available_kb << 10 >= AVAILABLE_BYTES
    )
