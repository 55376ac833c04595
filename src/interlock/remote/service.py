"""A server as a service: each function of the contract is a request from the table of operations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from interlock.core.names import WAIT_MAX_S
from interlock.core.store_outage import StoreOutage
from interlock.remote.connection import ServerAnswer, ServerConnection, error_of
from interlock.remote.requests import arguments, request
from interlock.service import wire
from interlock.service.contract import EventView
from interlock.service.operations import OPERATIONS, ROOT, Operation

if TYPE_CHECKING:
    from interlock.service.opening import OpenedService

#: A claim that returns without work more than this before its time has not waited to the end.
EARLY_S = 1.0


def connect(
    url: str, token: str | None, *, patience_s: float, outage: StoreOutage | None = None
) -> OpenedService:
    """The service of the server at a URL. No request is sent before the first call."""
    connection = ServerConnection(url, token, patience_s=patience_s, outage=outage)
    return cast("OpenedService", RemoteService(connection))


class RemoteService:
    """Interlock on a server. Its functions are those of `Service`; see below."""

    #: Only the server can access its store.
    store = series_notes = None

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def follow(self, *, after: int | None = None) -> Iterator[EventView]:
        """Live history, endlessly. After a reconnect it resumes where it was."""
        for _, event in self._connection.stream(f"{ROOT}/events/stream", after):
            yield wire.read(EventView, event)

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()


def _use(operation: Operation) -> Callable[..., Any]:
    def use(service: RemoteService, *given: Any, **named: Any) -> Any:
        bound = arguments(operation, given, named)
        wait_s = bound.get("wait_s", 0.0)
        left_s = float(wait_s) if isinstance(wait_s, int | float) and 0 <= wait_s <= WAIT_MAX_S else 0.0
        until_s = time.monotonic() + left_s
        while True:
            answer = _value(operation, service._connection.ask(request(operation, bound), wait_s=left_s))
            left_s = until_s - time.monotonic()
            if not operation.waits or answer or left_s < EARLY_S:
                return answer
            bound["wait_s"] = left_s  # a stopping server ends its claims: the next one continues the wait

    use.__name__ = operation.name
    return use


def _value(operation: Operation, answer: ServerAnswer) -> Any:
    """The service's answer. Refusals of runs are values, even if all runs were refused."""
    body = answer.value
    if answer.status < 400:
        value = body[operation.field] if operation.field else body
    elif isinstance(body, dict) and operation.refused_field in body:
        value = body[operation.refused_field]
    else:
        raise error_of(answer)
    if operation.more is not None and wire.parts_of(operation.more).keys() <= body.keys():
        return wire.read(operation.more, body, what=operation.name)
    return wire.read(operation.answer, value, what=operation.name)


for _operation in OPERATIONS:
    setattr(RemoteService, _operation.name, _use(_operation))
