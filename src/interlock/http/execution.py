"""Carries out operations: in threads with limits, in groups, and once for each `Idempotency-Key`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
from starlette.requests import ClientDisconnect

from interlock.core.errors import Repeated
from interlock.core.row import NamedTuple
from interlock.http import tags
from interlock.http.bearers import Bearer, Bearers
from interlock.http.request_groups import RequestGroups
from interlock.http.single_flight import SingleFlight
from interlock.service.contract import EventView, MetricView, to_json
from interlock.service.gathering import Steps
from interlock.service.local import LocalService
from interlock.service.operations import OPERATIONS, Operation
from interlock.store.access import RepeatableRequest
from interlock.store.port import CallOutcome

T = TypeVar("T")

#: A longer list is made and written by these threads. They are few, as Python computes in one at a time.
LONG_ROWS, LONG_THREADS = 500, 2
#: The most requests that are carried out at once. Waits for work or events need no thread. A SQLite file
#: takes one writer at a time, so more threads would only wait for each other.
THREADS, SQLITE_THREADS, GITHUB_THREADS = 16, 4, 4
#: The threads of groups of requests, each of which carries out one group.
GROUP_THREADS = 12


def _stays() -> bool:
    return False


class OperationCall(NamedTuple):
    """An operation that a bearer requests."""

    operation: Operation
    bearer: Bearer
    given: dict[str, Any]
    #: The request as it may be repeated, if it has a key.
    kept: RepeatableRequest | None = None
    #: Whether its client has hung up. A pending call is then not started.
    left: Callable[[], bool] = _stays


class OperationRunner:
    """Carries out the operations of requests on one service."""

    def __init__(self, service: LocalService, threads: int) -> None:
        self.serve(service)
        self.limiter = anyio.CapacityLimiter(threads)
        # Calls that wait for GitHub or make a long list have their own threads, so that they delay no others.
        self._github_limiter = anyio.CapacityLimiter(GITHUB_THREADS)
        self._long_limiter = anyio.CapacityLimiter(LONG_THREADS)
        self._group_limiter = anyio.CapacityLimiter(1 if service.groups_max == 1 else GROUP_THREADS)
        self._groups: dict[str, RequestGroups[OperationCall]] = {}
        #: Requests with a key under way, by the key; set when they end.
        self._keys: dict[str, asyncio.Event] = {}
        self._shared = {
            each.name: SingleFlight(partial(self._read, each.name), each.name)
            for each in OPERATIONS
            if each.single_flight
        }

    def serve(self, service: LocalService) -> None:
        """Serve another service from now on."""
        self.service, self.bearers = service, Bearers(service)
        #: The name of the store. It stays the same.
        self.store_name = service.lineage().store

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work in a thread, as soon as one is free."""
        return await anyio.to_thread.run_sync(work, limiter=self.limiter)

    async def written(self, call: OperationCall, write: Callable[[], T]) -> T:
        """Write an answer; a long one in a thread."""
        if is_long(call):
            return await anyio.to_thread.run_sync(write, limiter=self._long_limiter)
        return write()

    async def run(self, call: OperationCall) -> tuple[Any, bool]:
        """The answer as JSON values, and whether an earlier request with the same key gave it."""
        operation, work = call.operation, partial(self._carry_out, call)
        if operation.asks_github:
            return await anyio.to_thread.run_sync(work, limiter=self._github_limiter)
        if is_long(call):
            return await anyio.to_thread.run_sync(work, limiter=self._long_limiter)
        if operation.single_flight:
            return to_json(await self._shared[operation.name].result()), False
        if operation.gathers:
            return await (self._grouped(call) if call.kept is None else self._keyed(call, call.kept.key))
        return await anyio.to_thread.run_sync(work, limiter=self.limiter)

    async def _keyed(self, call: OperationCall, key: str) -> tuple[Any, bool]:
        """Carry out a call after those under the same key, so that it finds their kept answer. A claim that
        finds nothing keeps no answer, so the store would not make it wait for them."""
        while (earlier := self._keys.get(key)) is not None:
            await earlier.wait()
        ended = self._keys[key] = asyncio.Event()
        try:
            return await self._grouped(call)
        finally:
            del self._keys[key]
            ended.set()

    async def _grouped(self, call: OperationCall) -> tuple[Any, bool]:
        """Carry out a call together with those that came at the same time."""
        service, given = self.service, call.given
        if service.groups_max > 1 and (given.get("next") is not None or given.get("item") is not None):
            # A transaction of its own would delay the others of its group.
            (outcome,) = await anyio.to_thread.run_sync(partial(self._all, [call]), limiter=self.limiter)
            if outcome.error is not None:
                raise outcome.error
            alone: tuple[Any, bool] = outcome.value
            return alone
        line = service.line_of(call.operation.name)
        groups = self._groups.get(line)
        if groups is None:
            groups = RequestGroups(self._all, self._group_limiter, service.groups_max)
            self._groups[line] = groups
        found: tuple[Any, bool] = await groups.run(call)
        return found

    def _all(self, calls: Sequence[OperationCall]) -> list[CallOutcome]:
        """Carry out calls of a group, in a thread."""
        return self.service.carry_out_all(list(map(self._steps, calls)))

    def _steps(self, call: OperationCall) -> Steps[tuple[Any, bool]]:
        if call.left():
            raise ClientDisconnect
        operation = call.operation
        given = self.bearers.confined(operation, call.given, call.bearer.scope)
        try:
            answer = yield from self.service.steps(operation.name, call.kept)(**given)
        except Repeated:
            if call.kept is None:
                raise
            return self.repeated(call.kept), True
        return tags.tagged(operation, answer), False

    def _carry_out(self, call: OperationCall) -> tuple[Any, bool]:
        """The work of `run`, in a thread."""
        if call.left():
            raise ClientDisconnect
        operation = call.operation
        given = self.bearers.confined(operation, call.given, call.bearer.scope)
        if call.kept is None:
            return tags.tagged(operation, getattr(self.service, operation.name)(**given)), False
        if (earlier := self.repeated(call.kept)) is not None:
            return earlier, True
        try:
            answering = self.service.answering(call.kept)
            return tags.tagged(operation, getattr(answering, operation.name)(**given)), False
        except Repeated:
            return self.repeated(call.kept), True

    def repeated(self, request: RepeatableRequest) -> Any:
        """The stored answer to an already carried out request; else None."""
        match self.service.answered(request):
            case {"claimed": runs, **rest} if not rest:
                return to_json(self.service.claimed(runs))
            case {"runs": runs, "claimed": claimed, **rest} if not rest:
                return {"runs": runs, "leases": to_json(self.service.claimed(claimed))}
            case {"plan": plan, **rest} if not rest:
                return to_json(self.service.plan(plan))
            case found:
                return found

    # These read the current service.

    def _read(self, name: str) -> Any:
        return getattr(self.service, name)()

    def metrics(self) -> list[MetricView]:
        """The metrics of the store."""
        return self.service.metrics()

    def events_after(self, after: int, limit: int) -> list[EventView]:
        """Up to `limit` events after one."""
        return self.service.events(after=after, limit=limit)

    def last_event(self) -> int:
        """The number of the newest event; 0 if there is none."""
        last = self.service.events(limit=1, newest=True)
        return last[0].seq if last else 0

    def live_tokens(self, tokens: Collection[str]) -> set[str]:
        """The currently valid ones of these tokens."""
        return self.bearers.live(tokens)


def is_long(call: OperationCall) -> bool:
    """Whether the answer may be a long list."""
    return not call.operation.writes and max(map(_rows, call.given.items()), default=0) > LONG_ROWS


def _rows(argument: tuple[str, Any]) -> int:
    name, value = argument
    rows: int = value if name == "limit" else getattr(value, "limit", 0)
    return rows
