"""The history as it happens, for many readers: server-sent events.

Streams that are equally far share one look at the store.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import partial

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.responses import Response

from interlock.core.errors import InterlockError, InvalidInput
from interlock.http.desk import Pulse, wait_until
from interlock.http.problems import Problem
from interlock.service.contract import EventView, to_json

#: An event stream says something at least this often, so that nobody in between closes it.
KEEPALIVE_S = 15.0
STREAMS_MAX, STREAMS_PER_TOKEN_MAX = 200, 100
_EVENTS_AT_ONCE = 500

Sent = list[tuple[int, bytes]]
#: What a look finds, and the tokens that still let somebody in after it.
Look = tuple[Sent, Collection[str]]


class Streams:
    """The streams of one server."""

    def __init__(
        self,
        events: Callable[[int, int], list[EventView]],
        live: Callable[[Collection[str]], Collection[str]],
        pulse: Pulse,
        run: Callable[[Callable[[], Look]], Awaitable[Look]],
    ) -> None:
        """`events` reads so many lines of history after one, `live` tells which tokens still let somebody in,
        and `run` carries a look out in a thread."""
        self._events, self._live, self._pulse, self._run = events, live, pulse, run
        #: The tokens of open streams.
        self.tokens: Counter[str] = Counter()
        self._ended: Collection[str] = ()
        #: How many are open.
        self.open = 0
        #: Looks that are under way, by where they begin and the beat that they came before.
        self._looks: dict[tuple[int, asyncio.Event], asyncio.Task[Look]] = {}

    def end(self, tokens: Collection[str]) -> None:
        """End the streams of tokens that let nobody in any more."""
        self._ended = tokens
        self._pulse.beat()

    def begin(self, text: str | None, last: int, token: str) -> Response:
        """A stream of what comes after the event of this number, or after the last one."""
        after = last if text is None else number_of(text)
        if after > last:
            raise Problem(
                "unknown_event",
                f"The history has no event {after}, its newest is {last}: it was set back, or pruned.",
                "Read anew what you follow, then ask without Last-Event-ID and after.",
            )
        if self._is_full(token):
            raise Problem(
                "too_many_requests", "Too many streams are open.", "Close some, or ask again later."
            )
        return EventSourceResponse(
            self._stream(after, token), headers={"X-Accel-Buffering": "no"}
        )  # for nginx

    def _is_full(self, token: str) -> bool:
        return self.open >= STREAMS_MAX or self.tokens[token] >= STREAMS_PER_TOKEN_MAX

    async def _stream(self, after: int, token: str) -> AsyncIterator[bytes]:
        if self._is_full(token):
            return  # others began since; the client comes again
        self.open += 1
        self.tokens[token] += 1
        try:
            yield KEEPALIVE_COMMENT  # the headers go out at once
            said_s = time.monotonic()
            while not self._pulse.stopping and token not in self._ended:
                beat = self._pulse.next
                try:
                    found, live = await self._look(after, beat)
                except InterlockError:
                    return  # the store is away; the client comes again and says how far it is
                if found and token not in live:
                    return
                for seq, text in found:
                    after = seq
                    yield text
                if found:
                    said_s = time.monotonic()
                    continue
                await wait_until(beat, max(0.0, said_s + KEEPALIVE_S - time.monotonic()))
                if time.monotonic() >= said_s + KEEPALIVE_S:
                    yield KEEPALIVE_COMMENT
                    said_s = time.monotonic()
        finally:
            self.open -= 1
            self.tokens -= Counter([token])

    async def _look(self, after: int, beat: asyncio.Event) -> Look:
        """What came after an event. A look that began before the last beat may have missed what that told."""
        key = after, beat
        look = self._looks.get(key)
        if look is None:
            look = self._looks[key] = asyncio.ensure_future(
                self._run(partial(self._sent_after, after, list(self.tokens)))
            )
            look.add_done_callback(lambda _: self._looks.pop(key, None))
        return await asyncio.shield(look)

    def _sent_after(self, after: int, tokens: Collection[str]) -> Look:
        found = [
            (e.seq, format_sse_event(data_str=json.dumps(to_json(e)), event=e.kind, id=str(e.seq)))
            for e in self._events(after, _EVENTS_AT_ONCE)
        ]
        return found, self._live(tokens) if found else ()


def number_of(text: str) -> int:
    """The number of an event."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInput("The number of the last event is not a number.", "Use that of an event.")
    return int(text)
