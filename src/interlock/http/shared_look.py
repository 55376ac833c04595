"""A long look at the whole store: one at a time, shared by all who ask for it meanwhile.

It has a thread of its own, which a stop of the server does not wait for. Whoever asks and goes away leaves it
running for the others, so however often it is asked for, one thread looks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from interlock.store.port import Outcome, outcome_of

T = TypeVar("T")


class SharedLook(Generic[T]):
    """The look, for handlers of one event loop."""

    def __init__(self, look: Callable[[], T], name: str) -> None:
        self._look, self._name = look, name
        self._answer: asyncio.Future[T] | None = None

    async def result(self) -> T:
        """What the look that is under way finds; a new one, if none is."""
        if self._answer is None or self._answer.done():
            self._answer = self._start()
        return await asyncio.shield(self._answer)

    def _start(self) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        answer.add_done_callback(asyncio.Future.exception)  # all who asked may have gone

        def settle(found: Outcome) -> None:
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
