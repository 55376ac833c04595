"""Single flight: a long read of the whole store runs once at a time, and concurrent requests share it.

It has its own thread, and a stop of the server does not wait for it. If a client hangs up, the read continues
for the others. So one thread reads for any number of requests.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from interlock.store.port import CallOutcome, outcome_of

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """A shared read for handlers of one event loop."""

    def __init__(self, read: Callable[[], T], name: str, *, kept_s: float = 0.0) -> None:
        """The result of a read is reused for another `kept_s`."""
        self._read, self._name, self._kept_s = read, name, kept_s
        self._answer: asyncio.Future[T] | None = None
        self._ended_s = 0.0

    async def result(self) -> T:
        """The result of the current read, or of a new one."""
        if self._answer is None or (self._answer.done() and time.monotonic() >= self._ended_s + self._kept_s):
            self._answer = self._start()
        return await asyncio.shield(self._answer)

    def _start(self) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        answer.add_done_callback(asyncio.Future.exception)  # all clients may have hung up

        def settle(found: CallOutcome) -> None:
            self._ended_s = time.monotonic()
            if found.error is None:
                answer.set_result(found.value)
            else:
                answer.set_exception(found.error)

        def work() -> None:
            found = outcome_of(self._read)
            with suppress(RuntimeError):  # the server has stopped meanwhile
                loop.call_soon_threadsafe(settle, found)

        threading.Thread(target=work, name=f"interlock-{self._name}", daemon=True).start()
        return answer
