"""Telling waiters that there is work: from a thread of its own, and at most every 10 ms.

A notice takes a lock of the whole database when it is committed, and nobody who has just finished something
should wait for that. What is not promised: that a notice arrives. Whoever waits polls as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

NOTIFY_EVERY_S = 0.01


class Notices:
    """Any number of wishes within 10 ms become one notice. The thread starts with the first wish."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._wanted = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def want(self) -> None:
        """A notice goes out soon."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="interlock-notices", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Send what is wanted, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._closing)
                if not self._wanted:
                    return
                self._wanted = False
            self._send()
            with self._changed:
                self._changed.wait_for(lambda: self._closing, NOTIFY_EVERY_S)
