"""The holder: a small process that keeps a session lock for a shell, which cannot hold one itself.

It inherits the locked file. It ends, and so frees the lock, when the watched process has ended, when the file
was unlinked (`session unlock`), or when it gets a signal. It runs as a program, and uses little of the
standard library because it may live for hours.

It watches the process through a pidfd, which never refers to another process. Without pidfd support, it
checks the process number twice a second, and mistakes a new process with the same number for the old one.
"""

from __future__ import annotations

import os
import select
import sys

LOOK_S = 0.5


def keep(lock: int, pidfd: int | None, pid: int) -> None:
    """Return when the lock is no longer needed."""
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
