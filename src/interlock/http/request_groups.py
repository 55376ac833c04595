"""Requests that one thread carries out together.

While one group is carried out, the next one gathers. So a lone request does not wait, and under load many
requests share a thread, a transaction and its wait for the disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import anyio

from interlock.service.gathering import GROUP_MAX, SLOW_S
from interlock.store.port import CallOutcome

R = TypeVar("R")


class RequestGroups(Generic[R]):
    """Carries out requests in groups, in the order of arrival: one group after the other. Beside a slow group
    the next one begins, up to `most` at once."""

    def __init__(
        self,
        carry_out: Callable[[Sequence[R]], Sequence[CallOutcome]],
        limiter: anyio.CapacityLimiter,
        most: int = 1,
    ) -> None:
        self._carry_out, self._limiter, self._most = carry_out, limiter, most
        self._waiting: deque[tuple[R, asyncio.Future[Any]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._slow: asyncio.TimerHandle | None = None

    async def run(self, request: R) -> Any:
        """The answer to a request, once it is committed."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((request, answer))
        if not self._under_way:
            self._begin()
        elif self._slow is None and self._under_way < self._most:
            self._slow = loop.call_later(SLOW_S, self._go_on)
        return await answer

    def _begin(self) -> None:
        self._under_way += 1
        task = asyncio.create_task(self._go())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _go_on(self) -> None:
        self._slow = None
        if self._waiting and self._under_way < self._most:
            self._begin()

    async def _go(self) -> None:
        try:
            while self._waiting:
                await self._next()
        finally:
            self._under_way -= 1

    async def _next(self) -> None:
        """Carry out the next group."""
        if self._slow is not None:  # those that wait have not waited for long
            self._slow.cancel()
            self._slow = None
        group = [self._waiting.popleft() for _ in range(min(len(self._waiting), GROUP_MAX))]
        requests = [request for request, _ in group]
        try:
            outcomes: Sequence[CallOutcome] = await anyio.to_thread.run_sync(
                partial(self._carry_out, requests), limiter=self._limiter
            )
        except BaseException as lost:
            outcomes = [CallOutcome(None, lost)] * len(group)
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            _settle(answer, outcome)


def _settle(answer: asyncio.Future[Any], outcome: CallOutcome) -> None:
    if answer.done():  # the caller is gone
        return
    if outcome.error is None:
        answer.set_result(outcome.value)
    elif isinstance(outcome.error, StopIteration):  # a future refuses it, and the others would get no answer
        answer.set_exception(RuntimeError(repr(outcome.error)))
    else:
        answer.set_exception(outcome.error)
