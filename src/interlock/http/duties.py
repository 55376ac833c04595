"""What a store needs somebody for, done in the background of a server: each duty is a thread.

Every duty may be done by any number of servers at once: what it does is leased or decided in the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from interlock.core.errors import InterlockError

#: How long a stop waits for duties that are in the middle of something.
STOP_S = 10.0


class Duty:
    """Something that is done again and again: every so often, and when somebody asks for it."""

    def __init__(
        self,
        name: str,
        every_s: float,
        work: Callable[[], Any],
        *,
        failed: Callable[[str, Exception], None],
        done: Callable[[str, Any], None] = lambda _, __: None,
    ) -> None:
        self.name, self.every_s = name, every_s
        self._work, self._tell_failed, self._tell_done = work, failed, done
        self._wanted, self._stopped = threading.Event(), False
        self._thread = threading.Thread(target=self._loop, name=f"interlock-{name}", daemon=True)
        #: When it came through last, by the monotonic clock; None before the first time.
        self.done_s: float | None = None
        #: Why it did not come through the last time.
        self.error: str | None = None

    def start(self) -> None:
        self._thread.start()

    def want(self) -> None:
        """Do it now, not only when its time comes."""
        self._wanted.set()

    def stop(self) -> None:
        """End after what is being done, and do not wait for long."""
        self._stopped = True
        self._wanted.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def age_s(self) -> float | None:
        """How long ago it came through."""
        return None if self.done_s is None else time.monotonic() - self.done_s

    def _loop(self) -> None:
        while not self._stopped:
            self._wanted.clear()
            try:
                result = self._work()
                self.done_s, self.error = time.monotonic(), None
                self._tell_done(self.name, result)
            except Exception as error:  # a duty that ended would leave locks behind
                self.error = error.sentence if isinstance(error, InterlockError) else type(error).__name__
                self._tell_failed(self.name, error)
            if not self._stopped:
                self._wanted.wait(self.every_s)
