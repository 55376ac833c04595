"""The reader of standard output: an endless command ends when its reader is gone.

The next write notices a closed pipe. On a quiet store there may be none, so a thread waits for the reader to
close the pipe.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_AGAIN_S = 0.1


@contextmanager
def while_read() -> Iterator[None]:
    """Raise `BrokenPipeError` in the block once the reader of standard output has closed it.

    Only in the main thread, and where standard output is a pipe or a socket.
    """
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file
        output = -1
    main = threading.main_thread()
    if output < 0 or os.isatty(output) or threading.current_thread() is not main:
        yield
        return
    closed, over = threading.Event(), threading.Event()

    def interrupt(*_: object) -> None:
        # Not closed: the write to a connection of ours has failed, and says so itself.
        if closed.is_set() and not over.is_set():
            raise KeyboardInterrupt

    def wait() -> None:
        poll = select.poll()
        poll.register(output, 0)  # errors and hang-ups are always reported
        poll.register(ended, select.POLLIN)
        if any(number == output for number, _ in poll.poll()):
            closed.set()
            # Repeatedly: Python may miss a signal just before a blocking call.
            while not over.is_set():
                signal.pthread_kill(main.ident or 0, signal.SIGPIPE)
                over.wait(_AGAIN_S)

    ended, end = os.pipe()
    watcher = threading.Thread(target=wait, name="interlock-reader", daemon=True)
    before = signal.signal(signal.SIGPIPE, interrupt)
    try:
        watcher.start()
        yield
    except KeyboardInterrupt:
        over.set()
        if closed.is_set():
            raise BrokenPipeError from None
        raise
    finally:
        over.set()
        os.close(end)
        if watcher.is_alive():
            watcher.join()
        signal.signal(signal.SIGPIPE, before)
        os.close(ended)
