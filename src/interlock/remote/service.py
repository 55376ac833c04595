"""A server as a service: each function of the contract is a request from the table of use cases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from interlock.core.absence import Absence
from interlock.core.names import WAIT_MAX_S
from interlock.remote.connection import Answer, Connection, error_of
from interlock.remote.writing import arguments, request
from interlock.service import wire
from interlock.service.contract import EventView, Service
from interlock.service.usecases import ROOT, USE_CASES, UseCase

#: A claim that comes back without work so much before its time has not waited for it.
EARLY_S = 1.0


def connect(url: str, token: str | None, *, patience_s: float, absence: Absence | None = None) -> Service:
    """The service of the server at a URL. Nothing is sent before the first call."""
    return cast("Service", RemoteService(Connection(url, token, patience_s=patience_s, absence=absence)))


class RemoteService:
    """Interlock on a server. Its functions are those of `Service`; see below."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def follow(self, *, after: int | None = None) -> Iterator[EventView]:
        """History as it happens, for ever; it goes on where it was when the server comes back."""
        for _, event in self._connection.stream(f"{ROOT}/events/stream", after):
            yield wire.read(EventView, event)

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()


def _use(case: UseCase) -> Callable[..., Any]:
    def use(service: RemoteService, *given: Any, **named: Any) -> Any:
        bound = arguments(case, given, named)
        wait_s = bound.get("wait_s", 0.0)
        left_s = float(wait_s) if isinstance(wait_s, int | float) and 0 <= wait_s <= WAIT_MAX_S else 0.0
        until_s = time.monotonic() + left_s
        while True:
            answer = _value(case, service._connection.ask(request(case, bound), wait_s=left_s))
            left_s = until_s - time.monotonic()
            if case.name != "next" or answer or left_s < EARLY_S:
                return answer
            bound["wait_s"] = left_s  # a server that stops lets its claims go: its successor has them wait on

    use.__name__ = case.name
    return use


def _value(case: UseCase, answer: Answer) -> Any:
    """What the service answers; refusals of runs are values also where all were refused."""
    body = answer.value
    if answer.status < 400:
        return wire.read(case.answer, body[case.field] if case.field else body, what=case.name)
    if isinstance(body, dict) and case.field in ("runs", "items") and case.field in body:
        return wire.read(case.answer, body[case.field], what=case.name)
    if case.name == "ask" and isinstance(body, dict) and "run" in body:
        return wire.read(case.answer, body["run"], what=case.name)
    raise error_of(answer)


for _case in USE_CASES:
    setattr(RemoteService, _case.name, _use(_case))
