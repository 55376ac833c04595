"""Refuses requests that a proxy could read in another way, and those for foreign hosts.

What can be read in two ways is refused: two lengths, a header twice that means one thing, an address with
escapes. A request for a name that is not one of the server's own is refused too, whoever pointed it here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from interlock.http.problems import Problem, problem_of

#: Headers of which a second one would say something else.
ONCE = (
    *(b"host", b"authorization", b"content-type", b"content-length", b"content-encoding"),
    *(b"transfer-encoding", b"idempotency-key", b"if-match", b"last-event-id"),
    *(b"x-hub-signature-256", b"x-github-delivery", b"x-github-event"),
)
#: Who looks whether a server is well often knows its address alone.
OF_ANY_HOST = ("/healthz", "/readyz")

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
Handler = Callable[[Request], Awaitable[Response]]


class Gate:
    """Lets requests through to an application; `hosts` are the names that they may be for, None is any.

    `logged` answers what is refused here as all else is answered: with an id, and a line in the log.
    """

    def __init__(
        self,
        app: App,
        *,
        hosts: Collection[str] | None,
        logged: Callable[[Request, Handler], Awaitable[Response]],
    ) -> None:
        self._app, self._hosts, self._logged = app, hosts, logged

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        refusal = refused(scope, self._hosts) if scope["type"] == "http" else None
        if refusal is not None:

            async def refuse(_: Request) -> Response:
                response = problem_of(refusal)
                response.headers["Connection"] = "close"  # what follows may be meant as something else
                return response

            response = await self._logged(Request(scope), refuse)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def refused(scope: Scope, hosts: Collection[str] | None) -> Problem | None:
    """Why a request is not let through."""
    names = [name for name, _ in scope["headers"]]
    if len(set(names)) < len(names) and (twice := next((n for n in ONCE if names.count(n) > 1), None)):
        return Problem("bad_request", f"The header {twice.decode()} is there twice.", "Send it once.")
    if b"transfer-encoding" in names and b"content-length" in names:
        return Problem("bad_request", "The body has two lengths.", "Send Content-Length alone.")
    path = scope["path"]
    if not path.isascii() or scope.get("raw_path", path.encode()) != path.encode() or "//" in path:
        return Problem("not_found", "There is nothing at this address.", "See /docs.")
    if hosts is None or path in OF_ANY_HOST:
        return None
    given = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
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
