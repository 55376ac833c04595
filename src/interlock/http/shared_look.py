"""A long look at the whole store: one at a time, shared by all who ask for it meanwhile.

It has a thread of its own, which a stop of the server does not wait for. Whoever asks and goes away leaves it
running for the others, so however often it is asked for, one thread looks.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from interlock.store.port import Outcome, outcome_of

T = TypeVar("T")


class SharedLook(Generic[T]):
    """The look, for handlers of one event loop."""

    def __init__(self, look: Callable[[], T], name: str, *, kept_s: float = 0.0) -> None:
        """What a look found is the answer for `kept_s` more."""
        self._look, self._name, self._kept_s = look, name, kept_s
        self._answer: asyncio.Future[T] | None = None
        self._ended_s = 0.0

    async def result(self) -> T:
        """What the look that is under way finds; a new one, if none is."""
        if self._answer is None or (self._answer.done() and time.monotonic() >= self._ended_s + self._kept_s):
            self._answer = self._start()
        return await asyncio.shield(self._answer)

    def _start(self) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        answer.add_done_callback(asyncio.Future.exception)  # all who asked may have gone

        def settle(found: Outcome) -> None:
            self._ended_s = time.monotonic()
            if found.error is None:
                answer.set_result(found.value)
            else:
                answer.set_exception(found.error)

        def work() -> None:
            found = outcome_of(self._look)
            with suppress(RuntimeError):  # the server has stopped meanwhile
                loop.call_soon_threadsafe(settle, found)

        threading.Thread(target=work, name=f"interlock-{self._name}", daemon=True).start()
        return answer
