"""Refuses requests that a proxy could parse differently, and requests for other hosts.

Ambiguous requests are refused: two lengths, a repeated header, an address with escapes. So are requests for a
host name that is not the server's.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.http.problems import Problem, problem_of
from interlock.http.request_log import RequestLog

#: Headers that must not repeat.
ONCE = (
    *(b"host", b"authorization", b"content-type", b"content-length", b"content-encoding"),
    *(b"transfer-encoding", b"idempotency-key", b"if-match", b"last-event-id", b"origin"),
    *(b"x-hub-signature-256", b"x-github-delivery", b"x-github-event"),
)
#: A health check often knows only the server's address.
OF_ANY_HOST = ("/healthz", "/readyz")


class RequestGuard:
    """Passes requests to an application. `hosts` are the accepted host names; None accepts any.

    A refused request has an id and a line in the log, like all others.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str] | None, log: RequestLog) -> None:
        self._app, self._hosts, self._log = app, hosts, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = refused(scope, self._hosts)
        if refusal is not None:

            async def refuse(_: Request) -> Response:
                response = problem_of(refusal)
                response.headers["Connection"] = "close"  # the following bytes may be misread
                return response

            response = await self._log.answer(Request(scope), refuse)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def refused(scope: Scope, hosts: Collection[str] | None) -> Problem | None:
    """Why a request is refused."""
    headers = dict(scope["headers"])
    if len(headers) < len(scope["headers"]):
        names = [name for name, _ in scope["headers"]]
        if (twice := next((name for name in ONCE if names.count(name) > 1), None)) is not None:
            return Problem("bad_request", f"The header {twice.decode()} is there twice.", "Send it once.")
    if b"transfer-encoding" in headers and b"content-length" in headers:
        return Problem(
            "bad_request",
            "The request has Content-Length and Transfer-Encoding.",
            "Send Content-Length alone.",
        )
    path = scope["path"]
    if not path.isascii() or scope.get("raw_path", path.encode()) != path.encode() or "//" in path:
        return Problem("not_found", "No such endpoint.", "See /docs.")
    if hosts is None or path in OF_ANY_HOST:
        return None
    given = headers.get(b"host", b"").decode("latin-1")
    if host_name(given) in hosts:
        return None
    return Problem(
        "wrong_host",
        f"This server does not answer for the host {given[:100]!r}.",
        "Name it in the setting allowed_hosts.",
    )


def host_name(host: str) -> str:
    """A host without its port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0].removesuffix(".")
