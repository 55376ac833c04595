"""The tools at `/mcp` of a server: streamable HTTP without sessions, for bearers of tokens.

Every request stands for itself, so that any server of a store may answer it. Clients of older revisions may
shake hands: they get no session, and need none. The server around it decides who asks and what that one may
do, as it does for the API.
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
from interlock.mcp.protocol import Defect, hear_of_defects, server
from interlock.mcp.tools import Caller, Defaults, Tools

PATH = "/mcp"
#: As of the API.
BODY_MAX_BYTES = 16 << 20
#: What a token must be for. A token is a row of a store, so all servers of that store are one resource, by
#: whatever address they are reached.
RESOURCE = f"http://interlock.invalid{PATH}"
_CLAIM = "bearer"


class Bearer(Protocol):
    """Somebody with a token."""

    @property
    def token(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def scope(self) -> What: ...


B = TypeVar("B", bound=Bearer)


class House(Protocol[B]):
    """The server around it."""

    async def identify(self, request: Request, authorization: str | None) -> B:
        """Who asks; `NoToken` if nobody may."""

    async def body(self, request: Request) -> bytes:
        """What a request has sent, within the limits of the API."""

    async def parsed(self, body: bytes, use: Callable[[Any], Any]) -> Any:
        """What is made of the JSON of a body; `InvalidInput` if it is not valid."""

    async def call(self, bearer: B, name: str, given: dict[str, Any]) -> Any:
        """Carry out a use case, as far as its scope allows it."""


class Door(Generic[B]):
    """The application at `/mcp`."""

    def __init__(self, house: House[B], defaults: Defaults, defect: Defect) -> None:
        hear_of_defects(defect)
        self._house, self._defaults = house, defaults
        self._manager = StreamableHTTPSessionManager(
            app=server(self._tools, defect), stateless=True, max_request_body_size=BODY_MAX_BYTES
        )
        self._inner = StreamableHTTPASGIApp(self._manager)
        #: The request in hand, for the verifier.
        self._request: ContextVar[Request] = ContextVar("request")
        self._required = RequireAuthMiddleware(self._with_body, required_scopes=[])
        self._app: ASGIApp = AuthenticationMiddleware(
            AuthContextMiddleware(self._known),
            backend=BearerAuthBackend(self, resource_server_url=AnyHttpUrl(RESOURCE)),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if (answer := _turned_away(request)) is not None:
            await answer(scope, receive, send)
            return
        self._request.set(request)
        await self._app(scope, receive, send)

    async def _known(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whoever comes without a token hears it in the words of the API."""
        if not isinstance(scope.get("user"), AuthenticatedUser):
            request = self._request.get()
            await self._house.identify(request, request.headers.get("authorization"))
        await self._required(scope, receive, send)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whoever has a token may send a body; it is taken in before the protocol looks at it."""
        body: bytes | None = await self._house.body(Request(scope, receive))
        try:
            await self._house.parsed(body or b"", lambda _: None)
        except InvalidInput as error:  # the protocol itself takes the last of two values with one key
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
        """It serves while this is open."""
        async with self._manager.run():
            yield

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who has this token; `NoToken` if it is not one of the server's store."""
        bearer = await self._house.identify(self._request.get(), f"Bearer {token}")
        return AccessToken(
            token=token,
            client_id=bearer.token,
            scopes=[str(bearer.scope)],
            resource=RESOURCE,
            claims={_CLAIM: bearer},
        )

    def _tools(self) -> Tools:
        """The tools for whoever asks now."""
        access = get_access_token()
        assert access is not None and access.claims is not None, "nobody comes in without a token"
        bearer: B = access.claims[_CLAIM]
        agent = bearer.scope.agent
        caller = Caller(
            agent=agent,
            by=agent or bearer.name,
            traceparent=self._request.get().headers.get("traceparent"),
        )
        return Tools(partial(self._house.call, bearer), caller, self._defaults)


def _no_json(said: str) -> Response:
    """The protocol's answer to a body that is not valid JSON."""
    error = {"code": PARSE_ERROR, "message": said}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)


def _turned_away(request: Request) -> Response | None:
    """Whom it lets in under no circumstances. The server around it has looked at the host."""
    if request.method != "POST":  # there are no sessions to listen to or to end
        return PlainTextResponse("Send POST: there are no sessions here.\n", 405, {"Allow": "POST"})
    origin = request.headers.get("origin")
    if origin is not None and _host(origin) != _host(f"//{request.headers.get('host', '')}"):
        return PlainTextResponse("Pages of other hosts may not ask here.\n", 403)
    return None


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
