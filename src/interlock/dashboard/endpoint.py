"""The application of the dashboard: its addresses, its pages, static files and security headers."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from functools import cache
from importlib import resources
from typing import Generic

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from interlock.core.errors import InterlockError, NotFound, NoToken, StoreUnavailable
from interlock.core.row import NamedTuple
from interlock.dashboard.actions import Actions
from interlock.dashboard.host import B, DashboardHost
from interlock.dashboard.pages import FORM_ROUTES, ROUTES, SECTIONS
from interlock.dashboard.problems import problem_page
from interlock.dashboard.rendering import Rendered, rendered, rendered_plainly
from interlock.dashboard.shared import SharedPages
from interlock.dashboard.sign_in import SignIn, check_origin, local_path
from interlock.dashboard.visit import PageFunction, Visit

#: The headers of every answer.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types interlock"
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: Shorter answers are sent as they are; at this level a page takes less than a millisecond.
COMPRESSED_MIN_BYTES, COMPRESS_LEVEL = 1_024, 4
#: A page is answered within this time, also if the store is unreachable.
ANSWER_S = 10.0
_KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
#: Entries of the navigation that have a page.
_SECTIONS = tuple(each for each in SECTIONS if each[1] in ROUTES)


class Dashboard(Generic[B]):
    """The dashboard of one server."""

    def __init__(self, host: DashboardHost[B]) -> None:
        self._host = host
        self._sign_in = SignIn(host)
        self._pages = SharedPages()
        self._actions = Actions(host, self._sign_in)
        # Sizes disclose nothing: no page that is fetched shows a secret.
        self._compressed = GZipMiddleware(self._respond, COMPRESSED_MIN_BYTES, COMPRESS_LEVEL)

    @property
    def paths(self) -> tuple[str, ...]:
        """Its addresses."""
        return (*dict.fromkeys((*ROUTES, *FORM_ROUTES)), "/do", "/sign-in", "/sign-out", "/assets/{file}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._compressed(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await self._answer(request)
        except TimeoutError:
            answer = self._problem(StoreUnavailable("The store does not answer.", "Try again later."))
        except InterlockError as error:
            answer = self._problem(error)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        route, method = request.scope["route"], request.method
        takes = _METHODS.get(route, ("GET", "HEAD"))
        if method not in takes:
            return Response("", 405, {"Allow": ", ".join(takes)})
        if route == "/assets/{file}":
            return _asset(request)
        if method == "POST":
            check_origin(request)
        match route:
            case "/sign-in":
                return await self._sign_in.answer(request)
            case "/sign-out":
                return await self._sign_in.end(request)
            case "/do":
                return await self._do(request)
            case _ if method == "POST":
                return await self._answered_form(request, FORM_ROUTES[route])
            case _:
                return await self._page(request, ROUTES[route])

    def _problem(self, error: InterlockError) -> Response:
        """An error for which there is no visitor."""
        values = {"title": "Not available", "error": error}
        return HTMLResponse(rendered_plainly("unavailable.html", values), self._host.status_of(error))

    # -- pages ----------------------------------------------------------------------------------------

    async def _page(self, request: Request, draw: PageFunction) -> Response:
        try:
            bearer = await self._sign_in.bearer(request)
        except NoToken as error:
            return self._sign_in.without_session(request, error)
        address = _address(request)
        key = (self._host.session_cookie, str(bearer.scope), address)
        shared = await self._pages.get(
            key,
            _number(request.headers.get("x-newest", "")),
            lambda: self._drawn(request, bearer, draw, address),
        )
        return self._shown(request, shared, bearer)

    async def _drawn(self, request: Request, bearer: B, draw: PageFunction, address: str) -> Rendered:
        visit = await self._visit(request, bearer, address)
        try:
            page = await draw(visit)
        except InterlockError as error:
            back = local_path(request.query_params.get("back"))
            page = problem_page(error, self._host.status_of(error), back=back)
        return rendered(page, visit, _SECTIONS)

    async def _answered_form(self, request: Request, draw: PageFunction) -> Response:
        """A page that answers a form itself, as its answer is shown once or not stored."""
        try:
            bearer = await self._sign_in.bearer(request)
        except NoToken as error:
            return self._sign_in.without_session(request, error)
        form = await self._host.form(request)
        address = local_path((form.get("back") or [""])[0])
        visit = await self._visit(request, bearer, address, form)
        try:
            page = await draw(visit)
        except InterlockError as error:
            page = problem_page(error, self._host.status_of(error), back=address)
        self._pages.clear()
        return self._shown(request, rendered(page, visit, _SECTIONS), bearer)

    async def _visit(
        self, request: Request, bearer: B, address: str, form: dict[str, list[str]] | None = None
    ) -> Visit:
        async def call(name: str, given: dict[str, object]) -> object:
            return await self._host.call(bearer, name, given)

        query: dict[str, list[str]] = {}
        for name, value in request.query_params.multi_items():
            query.setdefault(name, []).append(value)
        now = await self._host.now()
        return Visit(
            call,
            bearer.scope,
            now,
            self._host.health,
            demo=await self._host.demo(),
            path=request.path_params,
            query=query,
            address=address,
            form=form,
            server_url=f"{request.url.scheme}://{request.headers.get('host', '')}",
        )

    def _shown(self, request: Request, page: Rendered, bearer: B) -> Response:
        headers = {"ETag": page.tag, "Cache-Control": "no-store", "Vary": "Cookie"}
        live = "x-fragments" in request.headers
        notice = None if live else self._sign_in.notice(request)
        if live and page.status == 200 and request.headers.get("if-none-match") == page.tag:
            return Response(status_code=304, headers=headers)
        text = page.text(secrets.token_urlsafe(16), notice, bearer.name)
        answer = HTMLResponse(text, page.status, headers)
        if notice is not None:
            self._sign_in.clear_notice(answer)
        return answer

    # -- actions --------------------------------------------------------------------------------------

    async def _do(self, request: Request) -> Response:
        try:
            bearer = await self._sign_in.bearer(request)
        except NoToken as error:
            return self._sign_in.without_session(request, error)
        form = await self._host.form(request)
        back = local_path((form.get("back") or [""])[0])
        try:
            notice = await self._actions.carry_out(request, bearer, form)
        except InterlockError as error:
            self._pages.clear()
            visit = await self._visit(request, bearer, back)
            page = rendered(problem_page(error, self._host.status_of(error), back=back), visit, _SECTIONS)
            return self._shown(request, page, bearer)
        self._pages.clear()
        answer = RedirectResponse(back, 303)
        self._sign_in.set_notice(request, answer, notice)
        return answer


_METHODS = {
    "/do": ("POST",),
    "/sign-in": ("GET", "HEAD", "POST"),
    "/sign-out": ("POST",),
    **{path: ("GET", "HEAD", "POST") if path in ROUTES else ("POST",) for path in FORM_ROUTES},
}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _address(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


class _Asset(NamedTuple):
    content: bytes
    tag: str


@cache
def _assets() -> dict[str, _Asset]:
    folder = resources.files("interlock.dashboard") / "static"
    found = {each.name: each.read_bytes() for each in folder.iterdir()}
    return {
        name: _Asset(text, f'W/"{hashlib.sha256(text).hexdigest()[:32]}"') for name, text in found.items()
    }


def _asset(request: Request) -> Response:
    name = request.path_params["file"]
    asset, kind = _assets().get(name), _KINDS.get(name.rpartition(".")[2])
    if asset is None or kind is None:
        raise NotFound("There is nothing at this address.")
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache", "Content-Type": kind}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, headers=headers)
