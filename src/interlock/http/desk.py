"""Claims that wait, without a thread for each.

Whoever waits for the same kind of work stands in one line. Only the first of a line looks at the store, when
something has happened that may be for its agent. When it gets work, the next looks, then two, then three: a
burst is given out soon. Once somebody has looked in vain, a line knows how much has come since: an item that
comes alone costs one look, however many wait.

What other processes did is noticed too, and a hint may say too little. So every line looks now and then;
such looks are spread over time, and work that is known to be there comes first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from contextlib import suppress
from typing import Any

#: How many look at once, in all and of one line.
LOOKS_MAX, OF_LINE_MAX = 8, 4
#: The pause after a look that nothing in particular asks for, and while others look for what is known to be
#: there.
LATER_S, LATER_WHILE_BUSY_S = 0.003, 0.02

Attempt = Callable[[], Awaitable[list[Any]]]


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


class _Waiter:
    """One claim. It is over when its time is, or when whoever made it has gone."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.over = False


class _Line:
    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.waiters: deque[_Waiter] = deque()
        #: How many of it look now, and how many may.
        self.looking, self.width = 0, 1
        #: How many items may be there for it; None if nobody knows. And how many have come, and how often
        #: something came of which nobody knows how much.
        self.left: int | None = None
        self.come, self.unknown = 0, 0

    def more(self, count: int | None) -> None:
        """So many more may be there."""
        if count is None:
            self.unknown += 1
            self.left = None
        else:
            self.come += count
            self.left = None if self.left is None else self.left + count


class Desk:
    """Where claims wait."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}
        #: Lines that have to look: at once, and when there is time.
        self._soon: dict[_Line, None] = {}
        self._later: dict[_Line, None] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._stopping = False
        #: How many claims wait now.
        self.waiting = 0
        #: How often the store was looked at.
        self.looked = 0

    async def wait(
        self, kind: Hashable, agent: str, attempt: Attempt, wait_s: float, gone: asyncio.Event
    ) -> list[Any]:
        """What an attempt finds within the time; an attempt is never given up half-way. `gone` ends it."""
        if wait_s <= 0 or self._stopping:
            return await attempt()
        waiter = _Waiter(attempt)
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = _Line(agent)
            self._soon[line] = None  # others of the line have looked already
        line.waiters.append(waiter)
        self.waiting += 1
        try:
            self._look()
            return await self._answered(line, waiter, wait_s, gone)
        finally:
            self.waiting -= 1
            self._tidy(kind, line)

    async def _answered(self, line: _Line, waiter: _Waiter, wait_s: float, gone: asyncio.Event) -> list[Any]:
        left = asyncio.ensure_future(gone.wait())
        either: set[asyncio.Future[Any]] = {waiter.answer, left}
        try:
            await asyncio.wait(either, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            waiter.over = True
            if waiter in line.waiters:  # else it looks just now, or has looked
                line.waiters.remove(waiter)
                waiter.answer.cancel()
        return [] if waiter.answer.cancelled() else await waiter.answer

    def _tidy(self, kind: Hashable, line: _Line) -> None:
        if not line.waiters and not line.looking and self._lines.get(kind) is line:
            del self._lines[kind]
            self._soon.pop(line, None)
            self._later.pop(line, None)

    def has_line(self, kind: Hashable) -> bool:
        """Whether others wait for this kind of work already."""
        return kind in self._lines

    # -- looking ----------------------------------------------------------------------------------

    def stir(
        self, agents: Collection[str] | None = None, *, count: int | None = None, soon: bool = True
    ) -> None:
        """Something may be ready for these agents, or for any: so many items, if that is known."""
        queue = self._soon if soon else self._later
        for line in self._lines.values():
            if agents is None or line.agent in agents:
                queue[line] = None
                line.more(count)
        self._look()

    def stop(self) -> None:
        """Nobody waits any longer."""
        self._stopping = True
        for line in self._lines.values():
            while line.waiters:
                _answer(line.waiters.popleft(), [])

    def _look(self) -> None:
        """Let lines look that have to, as many as may at once."""
        while len(self._looks) < LOOKS_MAX and (line := self._next_line()) is not None:
            waiter = line.waiters.popleft()
            line.looking += 1
            task = asyncio.create_task(self._attempt(line, waiter))
            self._looks.add(task)
            task.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._looks.discard(task)
        self._look()

    def _next_line(self) -> _Line | None:
        """A line that has to look and may; the queue keeps it if more of it may look."""
        for queue in (self._soon, self._later):
            if queue is self._later and self._pause is not None:
                continue
            for line in list(queue):
                if not line.waiters:
                    if not line.looking:  # else whoever looks now has to look once more
                        del queue[line]
                elif line.looking < line.width:
                    if line.looking + 1 >= line.width:
                        del queue[line]
                    if queue is self._later:
                        pause_s = LATER_WHILE_BUSY_S if self._looks else LATER_S
                        self._pause = asyncio.get_running_loop().call_later(pause_s, self._go_on)
                    return line
        return None

    def _go_on(self) -> None:
        self._pause = None
        self._look()

    async def _attempt(self, line: _Line, waiter: _Waiter) -> None:
        self.looked += 1
        come, unknown = line.come, line.unknown
        try:
            found = await waiter.attempt()
        except BaseException as error:
            self._soon[line] = None  # the others of the line have to hear of it too
            if not waiter.answer.done():
                waiter.answer.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            if found:
                line.left = None if line.left is None else max(0, line.left - len(found))
                line.width = 1 if line.left == 0 else min(line.width + 1, OF_LINE_MAX)
                if line.left != 0:  # where one was, more may be
                    self._soon[line] = None
                _answer(waiter, found)
            else:
                line.width = 1
                line.left = line.come - come if line.unknown == unknown else None
                if waiter.over or self._stopping:
                    _answer(waiter, [])
                else:
                    line.waiters.appendleft(waiter)
        finally:
            line.looking -= 1


def _answer(waiter: _Waiter, found: list[Any]) -> None:
    if not waiter.answer.done():
        waiter.answer.set_result(found)
