"""The tools at `/mcp` of a server: streamable HTTP without sessions, for bearers of tokens.

Requests are independent, so that any server of a store may answer them. Clients of older revisions may send
a handshake; they get no session and need none. The surrounding server authenticates tokens and decides the
permissions of each, as it does for the API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import (
    AuthenticatedUser,
    BearerAuthBackend,
    RequireAuthMiddleware,
)
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import PARSE_ERROR
from pydantic import AnyHttpUrl
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.core.errors import InvalidInput
from interlock.core.scopes import Scope as What
from interlock.mcp.protocol import Defect, report_defects, server
from interlock.mcp.tools import Defaults, ToolCaller, Tools

PATH = "/mcp"
#: The same limit as for the API.
BODY_MAX_BYTES = 16 << 20
#: The resource of a token. A token is a row of a store, so all servers of that store are one resource, at
#: any address.
RESOURCE = f"http://interlock.invalid{PATH}"
_CLAIM = "bearer"


class TokenBearer(Protocol):
    """The owner of a token."""

    @property
    def token(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def scope(self) -> What: ...


B = TypeVar("B", bound=TokenBearer)


class McpHost(Protocol[B]):
    """The surrounding server."""

    async def identify(self, request: Request, authorization: str | None) -> B:
        """The token's bearer; raises `NoToken` if the token is missing or invalid."""

    async def body(self, request: Request) -> bytes:
        """The body of a request, within the limits of the API."""

    async def parsed(self, body: bytes, use: Callable[[Any], Any]) -> Any:
        """The value that `use` makes of the JSON of a body; raises `InvalidInput` if it is invalid."""

    async def call(self, bearer: B, name: str, given: dict[str, Any]) -> Any:
        """Run an operation, if the bearer's scope allows it."""


class McpEndpoint(Generic[B]):
    """The application at `/mcp`."""

    def __init__(self, host: McpHost[B], defaults: Defaults, defect: Defect) -> None:
        report_defects(defect)
        self._host, self._defaults = host, defaults
        self._manager = StreamableHTTPSessionManager(
            app=server(self._tools, defect), stateless=True, max_request_body_size=BODY_MAX_BYTES
        )
        self._inner = StreamableHTTPASGIApp(self._manager)
        #: The current request, for the verifier.
        self._request: ContextVar[Request] = ContextVar("request")
        self._required = RequireAuthMiddleware(self._with_body, required_scopes=[])
        self._app: ASGIApp = AuthenticationMiddleware(
            AuthContextMiddleware(self._known),
            backend=BearerAuthBackend(self, resource_server_url=AnyHttpUrl(RESOURCE)),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if (answer := _refused(request)) is not None:
            await answer(scope, receive, send)
            return
        self._request.set(request)
        await self._app(scope, receive, send)

    async def _known(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request without a token, with the same problem as the API."""
        if not isinstance(scope.get("user"), AuthenticatedUser):
            request = self._request.get()
            await self._host.identify(request, request.headers.get("authorization"))
        await self._required(scope, receive, send)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read and check the body before the protocol parses it. The request has a valid token."""
        body: bytes | None = await self._host.body(Request(scope, receive))
        try:
            await self._host.parsed(body or b"", lambda _: None)
        except InvalidInput as error:  # the protocol itself would accept duplicate keys and use the last
            await _no_json(str(error))(scope, receive, send)
            return

        async def received() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            whole, body = body, None
            return {"type": "http.request", "body": whole, "more_body": False}

        await self._inner(scope, received, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while this context is open."""
        async with self._manager.run():
            yield

    async def verify_token(self, token: str) -> AccessToken | None:
        """The owner of this token; raises `NoToken` if it is not in the server's store."""
        bearer = await self._host.identify(self._request.get(), f"Bearer {token}")
        return AccessToken(
            token=token,
            client_id=bearer.token,
            scopes=[str(bearer.scope)],
            resource=RESOURCE,
            claims={_CLAIM: bearer},
        )

    def _tools(self) -> Tools:
        """The tools for the current request's caller."""
        access = get_access_token()
        assert access is not None and access.claims is not None, (
            "a request without a token was refused before"
        )
        bearer: B = access.claims[_CLAIM]
        agent = bearer.scope.agent
        caller = ToolCaller(
            agent=agent,
            by=agent or bearer.name,
            traceparent=self._request.get().headers.get("traceparent"),
        )
        return Tools(partial(self._host.call, bearer), caller, self._defaults)


def _no_json(said: str) -> Response:
    """The protocol's answer to a body that is not valid JSON."""
    error = {"code": PARSE_ERROR, "message": said}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)


def _refused(request: Request) -> Response | None:
    """Refuse other methods, and pages of other origins. The server has already checked `Host`."""
    if request.method != "POST":  # without sessions, there is no stream to open and nothing to delete
        return PlainTextResponse("Send POST: there are no sessions here.\n", 405, {"Allow": "POST"})
    origin = request.headers.get("origin")
    if origin is not None and _host(origin) != _host(f"//{request.headers.get('host', '')}"):
        return PlainTextResponse("Pages of other hosts may not send requests here.\n", 403)
    return None


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
