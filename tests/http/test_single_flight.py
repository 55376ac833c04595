"""Looks at the store that many share: the whole store for its numbers and checks, the history for streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.sse import KEEPALIVE_COMMENT

from interlock.core.errors import StoreUnavailable
from interlock.http import streams as stream_limits
from interlock.http.single_flight import SingleFlight
from interlock.http.store_signal import StoreSignal
from interlock.http.streams import Poll, Streams
from interlock.service.contract import CheckView, EventView
from tests.http.serving import Serving
from tests.patience import PATIENCE_S


def test_one_doctor_runs_at_a_time_and_everybody_gets_an_answer(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the shared look; four run at once, and each takes memory that grows with the store."""
    service = serving.server.service
    real, lock, running, most = service.doctor, threading.Lock(), 0, 0

    def counted() -> list[CheckView]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        try:
            return real()
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(service, "doctor", counted)
    clients = [serving.client("read") for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda client: client.doctor(), clients))
    assert most == 1
    assert all(check.ok for checks in answers for check in checks)


def test_however_many_give_up_on_a_slow_look_one_thread_looks() -> None:
    """Taken out: the look under way; a store that hangs gets one more thread with every scrape."""

    async def story() -> None:
        go, looks = threading.Event(), []

        def look() -> int:
            looks.append(1)
            assert go.wait(PATIENCE_S)
            return len(looks)

        shared = SingleFlight(look, "test")
        for _ in range(10):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await shared.result()
        go.set()
        assert await shared.result() == 1
        assert await shared.result() == 2, "the next one looks anew"

    asyncio.run(story())


def test_a_look_that_fails_fails_for_all_who_wait_and_not_for_the_next() -> None:
    async def story() -> None:
        answers: list[Any] = [StoreUnavailable("away"), "well"]

        def look() -> str:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return str(answer)

        shared = SingleFlight(look, "test")
        found = await asyncio.gather(shared.result(), shared.result(), return_exceptions=True)
        assert [type(each) for each in found] == [StoreUnavailable] * 2
        assert await shared.result() == "well"

    asyncio.run(story())


# -- streams --------------------------------------------------------------------------------------------


class History:
    """Streams of a history that a test writes, and looks at it that it may hold up."""

    def __init__(self) -> None:
        self.signals = StoreSignal()
        self.lines: list[EventView] = []
        self.held: list[asyncio.Event] = []
        #: Where looks began.
        self.looks: list[int] = []
        self.streams = Streams(self._after, set, self.signals, self._run)

    def _after(self, after: int, limit: int) -> list[EventView]:
        self.looks.append(after)
        return [line for line in self.lines if line.seq > after][:limit]

    async def _run(self, look: Callable[[], Poll]) -> Poll:
        found = look()
        if self.held:
            await self.held.pop(0).wait()
        return found

    def write(self, view: EventView) -> None:
        self.lines.append(view)
        self.signals.signal()

    async def first(self) -> bytes:
        """The first event that a new stream sends."""
        async for text in self.streams._stream(0, "token"):
            if b"data: " in text:
                return text
        raise AssertionError("the stream ended")


@pytest.fixture
def line(serving: Serving) -> EventView:
    service = serving.server.service
    service.set_mode(scope="lane", value="x", mode="enforce")
    return service.events(limit=1)[0]


def test_streams_that_are_equally_far_share_one_look(line: EventView) -> None:
    """Taken out: `_looks`, and each stream looks by itself; or its end, and later ones get what was found
    then; or the shield, and whoever leaves takes the others along."""

    async def story() -> None:
        history, late = History(), asyncio.Event()
        history.lines, history.held = [line], [late]
        look, beat = history.streams._poll, history.signals.next
        streams = [asyncio.create_task(look(0, beat)) for _ in range(20)]
        further = asyncio.create_task(look(line.seq, beat))
        await asyncio.sleep(0)
        streams.pop().cancel()
        await asyncio.sleep(0)
        late.set()
        assert (await further)[0] == []
        found = await asyncio.gather(*streams, return_exceptions=True)
        assert not [each for each in found if isinstance(each, BaseException)], "one leaves, not all"
        assert found == [streams[0].result()] * 19
        assert history.looks == [0, line.seq]
        await look(0, beat)
        assert history.looks == [0, line.seq, 0]

    asyncio.run(story())


def test_what_happens_while_a_stream_looks_is_sent_without_another_event(
    line: EventView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the order of `beat` and the look in `_stream`; the event waits for the next one."""
    monkeypatch.setattr(stream_limits, "KEEPALIVE_S", 10 * PATIENCE_S)

    async def story() -> None:
        history, late = History(), asyncio.Event()
        history.held.append(late)
        first = asyncio.create_task(history.first())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert history.looks == [0]
        history.write(line)
        late.set()
        assert b"mode.set" in await asyncio.wait_for(first, PATIENCE_S)

    asyncio.run(story())


def test_a_stream_does_not_join_a_look_that_began_before_the_last_event(line: EventView) -> None:
    """Taken out: the beat in the key of a look; the second stream hears of the event at the next one."""

    async def story() -> None:
        history = History()
        late = asyncio.Event()
        history.held.append(late)
        slow = asyncio.create_task(history.first())
        await asyncio.sleep(0)
        history.write(line)
        assert b"mode.set" in await asyncio.wait_for(history.first(), PATIENCE_S)
        late.set()
        assert b"mode.set" in await slow

    asyncio.run(story())


def test_no_more_streams_are_open_than_may_be_however_they_come(
    monkeypatch: pytest.MonkeyPatch, line: EventView
) -> None:
    monkeypatch.setattr(stream_limits, "STREAMS_MAX", 3)

    async def story() -> None:
        history = History()
        begun = [history.streams._stream(0, "token") for _ in range(10)]
        first = await asyncio.gather(*(anext(each, None) for each in begun))
        assert sum(text is not None for text in first) == history.streams.open == 3
        for each in begun:
            await each.aclose()  # type: ignore[attr-defined]
        assert history.streams.open == 0

    asyncio.run(story())


def test_a_stream_whose_store_is_away_ends_and_its_reader_comes_again() -> None:
    async def story() -> None:
        history = History()

        def away(after: int, limit: int) -> list[EventView]:
            raise StoreUnavailable(f"away {after} {limit}")

        history.streams = Streams(away, set, history.signals, history._run)
        assert [text async for text in history.streams._stream(0, "token")] == [KEEPALIVE_COMMENT]
        assert history.streams.open == 0

    asyncio.run(story())
