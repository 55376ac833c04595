"""Streams the live history to many readers, as server-sent events.

Streams at the same position share one poll of the store.
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
from interlock.http.problems import Problem
from interlock.http.store_signal import StoreSignal, wait_until
from interlock.service.contract import EventView, to_json

#: An event stream sends something at least this often, so that no proxy closes it.
KEEPALIVE_S = 15.0
#: How often a light stream may send at most and at least.
EVERY_MIN_MS, EVERY_MAX_MS = 100, 2_000
STREAMS_MAX, STREAMS_PER_TOKEN_MAX = 200, 100
_EVENTS_AT_ONCE = 500

Sent = list[tuple[int, bytes]]
#: The result of a poll, and the tokens that are valid after it.
Poll = tuple[Sent, Collection[str]]


class Streams:
    """The streams of one server."""

    def __init__(
        self,
        events: Callable[[int, int], list[EventView]],
        live: Callable[[Collection[str]], Collection[str]],
        signals: StoreSignal,
        run: Callable[[Callable[[], Poll]], Awaitable[Poll]],
    ) -> None:
        """`events` reads a number of events after one, `live` gives the valid ones of some tokens, and `run`
        runs a poll in a thread."""
        self._events, self._live, self._signals, self._run = events, live, signals, run
        #: The tokens of open streams.
        self.tokens: Counter[str] = Counter()
        self._ended: Collection[str] = ()
        #: The number of open streams.
        self.open = 0
        #: The number of the newest event, as the watch of the store has read it last; -1: not read yet.
        self.newest = -1
        #: Current polls, by their position and the next signal at their start.
        self._polls: dict[tuple[int, asyncio.Event], asyncio.Task[Poll]] = {}

    def end(self, tokens: Collection[str]) -> None:
        """End the streams of tokens that are no longer valid."""
        self._ended = tokens
        self._signals.signal()

    def begin(self, text: str | None, last: int, token: str) -> Response:
        """A stream of the events after this number, or after the last one."""
        after = last if text is None else number_of(text)
        if after > last:
            raise Problem(
                "unknown_event",
                f"The history has no event {after}, its newest is {last}: it was set back, or pruned.",
                "Read the state again, then reconnect without Last-Event-ID and `after`.",
            )
        self._check_room(token)
        return EventSourceResponse(
            self._stream(after, token), headers={"X-Accel-Buffering": "no"}
        )  # for nginx

    def _check_room(self, token: str) -> None:
        if self._is_full(token):
            raise Problem(
                "too_many_requests", "Too many streams are open.", "Close some, or ask again later."
            )

    def _is_full(self, token: str) -> bool:
        return self.open >= STREAMS_MAX or self.tokens[token] >= STREAMS_PER_TOKEN_MAX

    async def _stream(self, after: int, token: str) -> AsyncIterator[bytes]:
        if self._is_full(token):
            return  # others began since; the client reconnects
        self.open += 1
        self.tokens[token] += 1
        try:
            yield KEEPALIVE_COMMENT  # the headers go out at once
            said_s = time.monotonic()
            while not self._signals.stopping and token not in self._ended:
                changed = self._signals.next
                try:
                    found, live = await self._poll(after, changed)
                except InterlockError:
                    return  # the store is unreachable; the client reconnects with its position
                if found and token not in live:
                    return
                for seq, text in found:
                    after = seq
                    yield text
                if found:
                    said_s = time.monotonic()
                    continue
                await wait_until(changed, max(0.0, said_s + KEEPALIVE_S - time.monotonic()))
                if time.monotonic() >= said_s + KEEPALIVE_S:
                    yield KEEPALIVE_COMMENT
                    said_s = time.monotonic()
        finally:
            self.open -= 1
            self.tokens -= Counter([token])

    def begin_light(self, every_s: float, token: str) -> Response:
        """A stream of the number of the newest event alone, at most once in a time."""
        self._check_room(token)
        return EventSourceResponse(self._newest(every_s, token), headers={"X-Accel-Buffering": "no"})

    async def _newest(self, every_s: float, token: str) -> AsyncIterator[bytes]:
        """The store is not read, and no signal wakes it: so a dashboard costs the same whatever happens."""
        if self._is_full(token):
            return
        self.open += 1
        self.tokens[token] += 1
        try:
            said, said_s = -1, 0.0
            while not self._signals.stopping and token not in self._ended:
                newest, now_s = self.newest, time.monotonic()
                if newest != said and newest >= 0:
                    yield format_sse_event(data_str=str(newest), event="newest")
                    said, said_s = newest, now_s
                elif now_s >= said_s + KEEPALIVE_S:
                    yield KEEPALIVE_COMMENT
                    said_s = now_s
                await asyncio.sleep(every_s)
        finally:
            self.open -= 1
            self.tokens -= Counter([token])

    async def _poll(self, after: int, changed: asyncio.Event) -> Poll:
        """The events after a number. A poll that began before the last signal may have missed events."""
        key = after, changed
        poll = self._polls.get(key)
        if poll is None:
            poll = self._polls[key] = asyncio.ensure_future(
                self._run(partial(self._sent_after, after, list(self.tokens)))
            )
            poll.add_done_callback(lambda _: self._polls.pop(key, None))
        return await asyncio.shield(poll)

    def _sent_after(self, after: int, tokens: Collection[str]) -> Poll:
        found = [
            (e.seq, format_sse_event(data_str=json.dumps(to_json(e)), event=e.kind, id=str(e.seq)))
            for e in self._events(after, _EVENTS_AT_ONCE)
        ]
        return found, self._live(tokens) if found else ()


def interval_of(text: str) -> float:
    """The seconds between two numbers of a light stream."""
    if not (text.isascii() and text.isdigit() and EVERY_MIN_MS <= int(text[:9]) <= EVERY_MAX_MS):
        raise InvalidInput("every_ms is out of range.", f"Use {EVERY_MIN_MS} to {EVERY_MAX_MS}.")
    return int(text) / 1_000


def number_of(text: str) -> int:
    """The number of an event."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInput("The number of the last event is not a number.", "Use that of an event.")
    return int(text)
