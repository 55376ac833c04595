"""Calling Python functions, plain or `async`, from threads.

A plain function runs in the thread that calls it. What an `async` one gives is awaited on an event loop: the
caller's, if there is one, else one of our own in a thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class Call:
    """One call, which may be asked to stop."""

    def __init__(self) -> None:
        self._future: Future[Any] | None = None
        #: Somebody asked it to stop.
        self.cancelled = False
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """Cancel what is awaited, now or later. A plain function goes on; nothing can stop it."""
        with self._lock:
            self.cancelled = True
            if self._future is not None:
                self._future.cancel()

    def waits_for(self, future: Future[_T]) -> _T:
        with self._lock:
            self._future = future
            if self.cancelled:
                future.cancel()
        return future.result()


class Callables:
    """Where awaitables run."""

    def __init__(self) -> None:
        self._given: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def use(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """From now on, await on this loop, which runs in another thread; without one, on our own."""
        self._given = loop

    def call(self, call: Call, function: Callable[[_T], Any], argument: _T) -> Any:
        """What the function returns, or what its awaitable gives. Raises what either raises."""
        answer = function(argument)
        if not inspect.isawaitable(answer):
            return answer
        return call.waits_for(asyncio.run_coroutine_threadsafe(_awaited(answer), self._loop()))

    def close(self) -> None:
        """End the own loop. What still awaits on it is cancelled."""
        with self._lock:
            loop, self._own = self._own, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._given is not None:
            return self._given
        with self._lock:
            if self._own is None:
                self._own = asyncio.new_event_loop()
                threading.Thread(
                    target=_run, args=(self._own,), name="interlock-awaiting", daemon=True
                ).start()
            return self._own


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()


async def _awaited(awaitable: Awaitable[_T]) -> _T:
    return await awaitable
