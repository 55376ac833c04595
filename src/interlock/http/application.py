"""The application of a server: one address for each operation of the table, and a few others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.core.row import NamedTuple
from interlock.http import page
from interlock.http.addresses import ANY, Addresses
from interlock.http.connections import RefusalLog
from interlock.http.handlers import Server
from interlock.http.problems import problem
from interlock.http.request_guard import RequestGuard
from interlock.http.request_log import Handler, RequestLog, log
from interlock.service.operations import OPERATIONS, ROOT


class MountedApp(NamedTuple):
    """Another shell at its own address. It authenticates its own requests."""

    path: str
    app: ASGIApp
    #: The application runs while this is open.
    running: Callable[[], AbstractAsyncContextManager[None]]


class Application:
    """All addresses of a server. It has no layers but those named here, as each layer costs every request."""

    def __init__(
        self,
        server: Server,
        *,
        started: Callable[[], None],
        stopped: Callable[[], None],
        mounted: Sequence[MountedApp] = (),
        hosts: Collection[str] | None = None,
    ) -> None:
        """`started` and `stopped` are called when it has started and when it ends.

        `hosts` are the accepted host names; None accepts any.
        """

        @asynccontextmanager
        async def life(_: object) -> AsyncIterator[None]:
            asyncio.get_running_loop().set_exception_handler(
                RefusalLog(lambda why: log.warning("not_accepted", error=why))
            )
            started()
            watch = asyncio.create_task(server.watch.run())
            async with AsyncExitStack() as running:
                for each in mounted:
                    await running.enter_async_context(each.running())
                yield
                server.stop()
            await watch
            await anyio.to_thread.run_sync(stopped)

        self._life = Router(lifespan=life)
        requests = RequestLog(server.instruments)
        self.addresses = Addresses(requests.app(_unknown))
        add = self.addresses.add
        for operation in OPERATIONS:
            handle = requests.app(partial(server.operate, operation))
            add(ROOT + operation.path, handle, [operation.method])
        add(f"{ROOT}/events/stream", requests.app(server.events), ["GET"])
        add("/webhooks/github", requests.app(server.webhook), ["POST"])
        add("/metrics", requests.app(server.metrics), ["GET"])
        add("/healthz", requests.app(_healthy), ["GET"])
        add("/readyz", requests.app(lambda _: server.readyz()), ["GET"])
        add("/openapi.json", requests.app(_plainly(server.openapi)), ["GET"])
        docs = _plainly(lambda: HTMLResponse(page.api(), headers=page.HEADERS))
        add("/docs", requests.app(docs), ["GET"])
        for each in mounted:
            add(each.path, requests.around(each.app), [ANY])
        self._guard = RequestGuard(self.addresses, hosts=hosts, log=requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._life.lifespan(scope, receive, send)
        else:
            await self._guard(scope, receive, send)


def _plainly(work: Callable[[], Response]) -> Handler:
    async def handle(_: Request) -> Response:
        return work()

    return handle


async def _healthy(_: Request) -> Response:
    return JSONResponse({"ok": True})


async def _unknown(request: Request) -> Response:
    if (methods := request.scope.get("methods")) is None:
        return problem("not_found", "No such endpoint.", "See /docs.")
    answer = problem("wrong_method", "This endpoint does not accept that method.", "See /docs.")
    answer.headers["Allow"] = ", ".join(sorted(methods))
    return answer
