"""Requests that share a commit, where a store is written by one at a time.

While one group is carried out, the next one gathers: a lone request waits for nobody, and under load a
commit, which waits for the disk, is paid once for many.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import anyio

from interlock.store.port import Outcome

#: How many requests share a commit at most.
SHARE_MAX = 32

Work = Callable[[], Any]


class CommitGroups:
    """Carries out work in groups, one after the other, in the order in which it came."""

    def __init__(self, carry_out: Callable[[Sequence[Work]], Sequence[Outcome]]) -> None:
        self._carry_out = carry_out
        self._waiting: deque[tuple[Work, asyncio.Future[Any]]] = deque()
        self._limiter = anyio.CapacityLimiter(1)
        self._task: asyncio.Task[None] | None = None

    async def run(self, work: Work) -> Any:
        """What a piece of work gives, once that is committed."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._go())
        return await answer

    async def _go(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), SHARE_MAX))]
            works = [work for work, _ in group]
            try:
                outcomes: Sequence[Outcome] = await anyio.to_thread.run_sync(
                    partial(self._carry_out, works), limiter=self._limiter
                )
            except BaseException as lost:
                outcomes = [Outcome(None, lost)] * len(group)
            for (_, answer), outcome in zip(group, outcomes, strict=True):
                _settle(answer, outcome)


def _settle(answer: asyncio.Future[Any], outcome: Outcome) -> None:
    if answer.done():  # whoever asked has gone
        return
    if outcome.error is None:
        answer.set_result(outcome.value)
    elif isinstance(outcome.error, StopIteration):  # a future refuses it, and the others would hear nothing
        answer.set_exception(RuntimeError(repr(outcome.error)))
    else:
        answer.set_exception(outcome.error)
