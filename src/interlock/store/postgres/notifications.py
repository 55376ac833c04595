"""Notifies waiters of work: from its own thread, and at most every 10 ms.

The commit of a notification takes a lock of the whole database, and a finished run should not wait for that.
Not promised: that it arrives. Waiting claims also poll.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

NOTIFY_EVERY_S = 0.01


class Notifications:
    """All requests within 10 ms become one notification. The thread starts with the first request."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._wanted = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def want(self) -> None:
        """Request a notification, which is sent soon."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="interlock-notifications", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Send a pending notification, and stop."""
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
