"""Calling Python functions, plain or `async`, from threads.

A plain function runs in the calling thread. The awaitable of an `async` one is awaited on an event loop: the
program's, if it has one, else our own in a thread.

If a task raises `KeyboardInterrupt` or `SystemExit`, its event loop stops and everything that awaits on it
hangs. So these exceptions pass the loop as values. If one escapes, our own loop keeps running.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from interlock.core.errors import InvalidInput

_T = TypeVar("_T")
#: The exceptions that stop an event loop.
_STOPS = (KeyboardInterrupt, SystemExit)


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


class Call:
    """One call, which can be cancelled."""

    def __init__(self) -> None:
        self.cancelled = False
        self._awaiting: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """Cancel the awaitable, now or later. A plain function cannot be stopped.

        The call lasts until the awaitable has cleaned up. Cancelling the future that its thread waits for
        would end the call too early.
        """
        with self._lock:
            self.cancelled = True
            if self._awaiting is not None:
                loop, task = self._awaiting
                with suppress(RuntimeError):  # the loop has ended, and the task with it
                    loop.call_soon_threadsafe(task.cancel)

    async def awaited(self, awaitable: Awaitable[_T]) -> _T | _Raised:
        """Await it in the current task."""
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            self._awaiting = (task.get_loop(), task)
            if self.cancelled:
                task.cancel()
        try:
            return await awaitable
        except _STOPS as error:
            return _Raised(error)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether the function, or the `__call__` of the object, is declared with `async def`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )


async def in_thread(function: Callable[..., _T], *args: object, **kwargs: object) -> _T:
    """Call a function that may block, in its own daemon thread.

    `asyncio.to_thread` has few threads: calls that wait for an edit would leave none for its editor.
    """
    answer: Future[_T] = Future()

    def work() -> None:
        try:
            answer.set_result(function(*args, **kwargs))
        except BaseException as error:
            answer.set_exception(error)

    answer.set_running_or_notify_cancel()  # cancelling the waiter does not stop the call
    threading.Thread(target=work, name="interlock-blocking", daemon=True).start()
    return await asyncio.wrap_future(answer)


class FunctionCaller:
    """Calls functions, and awaits the awaitables that they return on one event loop."""

    def __init__(self) -> None:
        self._given: asyncio.AbstractEventLoop | None = None
        self._own: _OwnLoop | None = None
        self._lock = threading.Lock()

    def use(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Await on this loop from now on. It runs in another thread; None means our own loop."""
        self._given = loop

    def refuse_on_loop(self, what: str, instead: str) -> None:
        """Raise if this thread runs the loop: waiting here would block everything that is awaited on it."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        own = self._own
        if running is self._given or (own is not None and running is own.loop):
            raise InvalidInput(f"`{what}` blocks the event loop that runs the plan's callables.", instead)

    def call(self, call: Call, function: Callable[..., Any], argument: object) -> Any:
        """Call the function and await its answer if it is awaitable. Exceptions of both are raised."""
        answer = function(argument)
        if not inspect.isawaitable(answer):
            return answer
        value = self._begun(call.awaited(answer)).result()
        if isinstance(value, _Raised):
            raise value.error
        return value

    def close(self) -> None:
        """End our own loop, and cancel everything that is awaited on it."""
        with self._lock:
            own, self._own = self._own, None
            if own is not None:
                own.end()

    def _begun(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        if (given := self._given) is not None:
            return asyncio.run_coroutine_threadsafe(coroutine, given)
        with self._lock:  # else a call may begin on a loop that has just ended, and wait forever
            if self._own is None:
                self._own = _OwnLoop()
            return asyncio.run_coroutine_threadsafe(coroutine, self._own.loop)


class _OwnLoop:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._ending = False
        threading.Thread(target=self._run, name="interlock-awaiting", daemon=True).start()

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._ending = True
        self.loop.stop()

    def _run(self) -> None:
        loop = self.loop
        asyncio.set_event_loop(loop)
        try:
            while not self._ending:
                with suppress(*_STOPS):
                    loop.run_forever()
            while left := asyncio.all_tasks(loop):
                for task in left:
                    task.cancel()
                with suppress(*_STOPS):
                    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            loop.close()
