"""The small process that keeps a session lock for a shell which cannot hold one itself.

It has inherited the locked file, and ends, which frees the lock, when the process it watches has ended, when
the file has lost its name (`session unlock`), or when it is told to. Run as a program; only the standard
library, and little of it: it may be there for hours.

The watched process is known by a pidfd, which is never another's. Where the system has none, its number is
asked for twice a second: one that is used again in between would be mistaken.
"""

from __future__ import annotations

import os
import select
import sys

LOOK_S = 0.5


def keep(lock: int, pidfd: int | None, pid: int) -> None:
    """Return when there is no reason to keep the lock any more."""
    poll = select.poll()
    if pidfd is not None:
        poll.register(pidfd, select.POLLIN)
    while os.fstat(lock).st_nlink:
        if poll.poll(LOOK_S * 1_000):
            return
        if pidfd is None:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            except PermissionError:
                continue


if __name__ == "__main__":
    watched_fd = int(sys.argv[2])
    keep(int(sys.argv[1]), watched_fd if watched_fd >= 0 else None, int(sys.argv[3]))
