"""Logs requests: each has an id and one line. Errors, also defects, become problems."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.core.errors import InterlockError
from interlock.http.http_request import HttpRequest
from interlock.http.instruments import OTHER, Instruments
from interlock.http.problems import problem, problem_of

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)

log = structlog.get_logger("interlock.http")
Handler = Callable[[Request], Awaitable[Response]]


class RequestLog:
    """Logs and counts the requests of one server."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._log = log.bind()  # otherwise each line would configure a logger of its own

    async def answer(self, request: Request, handle: Handler) -> Response:
        """Answer a request, and log it with an id in one line, without token, body and query."""
        given = request.headers.get("x-request-id", "")
        request.state.id = given if _ID.fullmatch(given) else secrets.token_hex(8)
        begun_s = time.monotonic()
        response = await handle(request)
        took_s = time.monotonic() - begun_s
        self._instruments.observe(request.scope.get("route", OTHER), response.status_code, took_s)
        response.headers["X-Request-Id"] = request.state.id
        response.headers.setdefault("Cache-Control", "no-store")
        self._log.info(
            "request",
            request=request.state.id,
            method=request.method[:20],
            path=request.scope["path"][:200],
            status=response.status_code,
            token=getattr(request.state, "token", None),
            took_ms=round(1000 * took_s, 1),
        )
        return response

    def app(self, handle: Handler) -> ASGIApp:
        """An application for a handler. It logs its requests and turns errors into problems."""

        async def guarded(request: Request) -> Response:
            return await _guarded(request, handle)

        async def answered(scope: Scope, receive: Receive, send: Send) -> None:
            response = await self.answer(HttpRequest(scope, receive), guarded)
            await response(scope, receive, send)

        return answered

    def around(self, app: ASGIApp) -> ASGIApp:
        """The same for an application that sends its own answers."""

        async def passed_on(scope: Scope, receive: Receive, send: Send) -> None:
            async def pass_on(request: Request) -> Response:
                status = 0

                async def heard(message: Message) -> None:
                    nonlocal status
                    if message["type"] == "http.response.start":
                        status = message["status"]
                        headers = MutableHeaders(raw=message.setdefault("headers", []))
                        headers["X-Request-Id"] = request.state.id
                        headers.setdefault("Cache-Control", "no-store")
                    await send(message)

                async def handle(_: Request) -> Response:
                    await app(scope, receive, heard)
                    return Response(status_code=status)

                answer = await _guarded(request, handle)
                if not status:
                    await answer(scope, receive, heard)
                return answer

            await self.answer(HttpRequest(scope, receive), pass_on)

        return passed_on


async def _guarded(request: Request, handle: Handler) -> Response:
    try:
        return await handle(request)
    except InterlockError as error:
        return problem_of(error)
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception as error:
        log.exception("defect", request=request.state.id, error=type(error).__name__)
        return problem(
            "internal",
            "Internal server error.",
            f"Please report it; its log has the request {request.state.id}.",
        )
    finally:
        if (body := getattr(request.state, "body", None)) is not None:
            body.release()
