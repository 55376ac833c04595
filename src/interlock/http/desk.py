"""Claims that wait, without a thread for each.

Whoever waits for the same kind of work stands in one line. Only the first of a line looks at the store: at
once, whenever something has happened there, and every so often. When it gets work, the next one looks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Pulse:
    """Tells whoever waits that something has happened in the store, or that the server stops."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self.stopping = False

    def beat(self) -> None:
        """Something has happened."""
        now, self._next = self._next, asyncio.Event()
        now.set()

    def stop(self) -> None:
        """Nobody waits any longer."""
        self.stopping = True
        self.beat()

    @property
    def next(self) -> asyncio.Event:
        """Set at the next beat. Take it before you look, and nothing is missed."""
        return self._next


async def wait_until(event: asyncio.Event, timeout_s: float) -> bool:
    """Whether it was set in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, timeout_s)):
            await event.wait()
            return True
    return False


class _Line:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


class Desk:
    """Where claims wait."""

    def __init__(self, pulse: Pulse, poll_s: float) -> None:
        self._pulse, self._poll_s = pulse, poll_s
        self._lines: dict[Hashable, _Line] = {}
        #: How many claims wait now.
        self.waiting = 0

    async def wait(
        self,
        kind: Hashable,
        attempt: Callable[[], Awaitable[list[T]]],
        wait_s: float,
        gone: asyncio.Event,
    ) -> list[T]:
        """What an attempt finds within the time; an attempt is never given up half-way. `gone` ends it."""
        found = await attempt()
        if found or wait_s <= 0:
            return found
        deadline_s = time.monotonic() + wait_s
        line = self._lines.setdefault(kind, _Line())
        line.waiting += 1
        self.waiting += 1
        try:
            return await self._in_line(line, attempt, deadline_s, gone)
        finally:
            self.waiting -= 1
            line.waiting -= 1
            if not line.waiting:
                self._lines.pop(kind, None)

    async def _in_line(
        self, line: _Line, attempt: Callable[[], Awaitable[list[T]]], deadline_s: float, gone: asyncio.Event
    ) -> list[T]:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
                await line.lock.acquire()
            try:
                while not gone.is_set() and not self._pulse.stopping:
                    beat = self._pulse.next
                    found = await attempt()
                    left_s = deadline_s - time.monotonic()
                    if found or left_s <= 0:
                        return found
                    await wait_until(beat, min(left_s, self._poll_s))
            finally:
                line.lock.release()
        return []
