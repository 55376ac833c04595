"""Bodies of requests: how many bytes are held at once and for whom, and how fast a body must arrive.

Each kind of request has a budget of its own, so senders without a token cannot use up what agents need. A
request holds its bytes until it is answered. The first bytes of every body are free: what most requests send
is accepted however much others send.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.requests import Request

from interlock.core.errors import TooLarge
from interlock.http.problems import Problem

BODY_MAX_BYTES = 16 << 20
#: A body is cut off when it takes longer, as a whole and for each further step.
BODY_S, STEP_S, STEP_BYTES = 30.0, 5.0, 64 << 10
#: GitHub gives up on a delivery after this long.
DELIVERY_S = 10.0
#: How much of each body counts against no budget. The number of connections bounds it.
FREE_BYTES = 64 << 10
#: How many bytes are held at once, in all and for one caller: a token, or the address of a delivery's sender.
HELD_MAX_BYTES, HELD_EACH_MAX_BYTES = 64 << 20, 32 << 20


class Budget:
    """Bytes that may be held at once for requests of one kind."""

    def __init__(self) -> None:
        self.held = 0
        self._by_caller: Counter[str] = Counter()

    def take(self, caller: str, count: int) -> bool:
        """Hold more bytes for a caller; false if that is too much."""
        if self.held + count > HELD_MAX_BYTES or self._by_caller[caller] + count > HELD_EACH_MAX_BYTES:
            return False
        self.held += count
        self._by_caller[caller] += count
        return True

    def give_back(self, caller: str, count: int) -> None:
        self.held -= count
        self._by_caller[caller] -= count
        if not self._by_caller[caller]:
            del self._by_caller[caller]


class Body:
    """The body of one request while it is held."""

    def __init__(self, budget: Budget, caller: str) -> None:
        self._budget, self._caller = budget, caller
        self._size = self._counted = 0

    async def read(self, request: Request, most: int, within_s: float) -> bytes:
        """All of it, within its limits."""
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        parts: list[bytes] = []
        step = STEP_BYTES
        try:
            async with asyncio.timeout(min(STEP_S, within_s)) as limit:
                end_s = (limit.when() or 0.0) - min(STEP_S, within_s) + within_s
                async for part in request.stream():
                    self._hold(len(part), most)
                    parts.append(part)
                    if self._size >= step:
                        step = self._size + STEP_BYTES
                        limit.reschedule(min(end_s, asyncio.get_running_loop().time() + STEP_S))
        except TimeoutError:
            raise Problem("too_slow", "The body arrived too slowly.", "Send it again, faster.") from None
        return b"".join(parts)

    def _hold(self, count: int, most: int) -> None:
        self._size += count
        if self._size > most:
            raise _too_large(most)
        more = max(0, self._size - FREE_BYTES) - self._counted
        if more and not self._budget.take(self._caller, more):
            raise Problem("too_busy", "Too many bytes are being sent at once.", "Retry in a moment.")
        self._counted += more

    def release(self) -> None:
        """The request is answered."""
        if self._counted:
            self._budget.give_back(self._caller, self._counted)
            self._counted = 0


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"The body has more than {most:,} bytes.", "Send less at once.")
