"""Bodies of requests: budgets of held bytes, and time limits for their arrival.

Each kind of request has its own budget, so clients without a token cannot use up what agents need. A request
holds its bytes until it is answered. The first bytes of every body are free, so most requests are accepted
whatever others send.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request

from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.jsontext import parse
from interlock.http.problems import Problem

BODY_MAX_BYTES = 16 << 20
#: The most values in the JSON of a body.
VALUES_MAX = 500_000
#: The same of a form of the dashboard, and its most fields.
FORM_MAX_BYTES, FIELDS_MAX = 1 << 20, 2_000
#: The time limits of a body, in total and for each further step.
BODY_S, STEP_S, STEP_BYTES = 30.0, 5.0, 64 << 10
#: GitHub gives up on a delivery after this long.
DELIVERY_S = 10.0
#: The bytes of each body that count against no budget. The number of connections bounds them.
FREE_BYTES = 64 << 10
#: The most held bytes at once, in total and for one caller: a token, or the address of a delivery.
HELD_MAX_BYTES, HELD_EACH_MAX_BYTES = 64 << 20, 32 << 20


class Budget:
    """Bytes that may be held at once for requests of one kind."""

    def __init__(self) -> None:
        self.held = 0
        self._by_caller: Counter[str] = Counter()

    def take(self, caller: str, count: int) -> bool:
        """Hold more bytes for a caller; false if that exceeds the budget."""
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
    """The held body of one request."""

    def __init__(self, budget: Budget, caller: str) -> None:
        self._budget, self._caller = budget, caller
        self._size = self._counted = 0

    async def read(self, request: Request, most: int, within_s: float) -> bytes:
        """Read the whole body, within its limits."""
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
            raise Problem("too_busy", "Too many bytes are in flight.", "Retry in a moment.")
        self._counted += more

    def release(self) -> None:
        """Release the bytes: the request is answered."""
        if self._counted:
            self._budget.give_back(self._caller, self._counted)
            self._counted = 0


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"The body has more than {most:,} bytes.", "Send less at once.")


async def read_json(request: Request, budget: Budget, caller: str, most: int, within_s: float) -> bytes:
    """Read the JSON body of a request. It is held until the request is answered."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem("wrong_media_type", "The body is not JSON.", "Send Content-Type: application/json.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem("wrong_media_type", "The body is compressed.", "Send it uncompressed.")
    request.state.body = body = Body(budget, caller)
    return await body.read(request, most, within_s)


async def read_form(request: Request, budget: Budget, caller: str) -> dict[str, list[str]]:
    """Read the fields of a form. Its bytes are held until the request is answered."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem("wrong_media_type", "The body is not a form.", "Send the form of the page.")
    request.state.body = body = Body(budget, caller)
    text = await body.read(request, FORM_MAX_BYTES, BODY_S)
    try:
        return parse_qs(text.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError:
        raise InvalidInput("The form is not valid.", "Reload the page, then send it again.") from None


def parsed(body: bytes) -> Any:
    """The JSON of a body."""
    try:
        return parse(body or b"{}", values_max=VALUES_MAX)
    except ValueError as error:
        raise InvalidInput(f"The body is not valid JSON: {error}.", "Send one JSON object.") from None
