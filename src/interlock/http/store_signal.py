"""The signal for changes in the store, and for the server's stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class StoreSignal:
    """Wakes event streams, and the loop that watches the store."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self.stopping = False

    def signal(self) -> None:
        """Signal a change in the store."""
        now, self._next = self._next, asyncio.Event()
        now.set()

    def stop(self) -> None:
        """End all waits, as the server stops."""
        self.stopping = True
        self.signal()

    @property
    def next(self) -> asyncio.Event:
        """An event that the next signal sets. Take it before you read the store, so that no change is
        missed."""
        return self._next


async def wait_until(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event; gives whether it was set in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, timeout_s)):
            await event.wait()
            return True
    return False
