"""Sign-in: one-time links, tokens, the session's cookie, and the check that a form is this server's own."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Generic
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from interlock.core.errors import InterlockError, NotAllowed, NoToken
from interlock.core.jsontext import parse
from interlock.dashboard.host import B, DashboardHost
from interlock.dashboard.rendering import rendered_plainly
from interlock.dashboard.visit import Notice

#: As long as a session lasts.
COOKIE_S = 7 * 24 * 3600
NOTICE_COOKIE = "interlock-notice"
_NOTICE_S, _NOTICE_MAX = 60, 1_000


class SignIn(Generic[B]):
    """Begins and ends sessions."""

    def __init__(self, host: DashboardHost[B]) -> None:
        self._host = host

    async def bearer(self, request: Request) -> B:
        """The visitor; raises `NoToken` without a session."""
        session = request.cookies.get(self._host.session_cookie)
        if not session:
            raise NoToken("You are not signed in.", "Sign in.")
        return await self._host.session_bearer(request, session)

    def session(self, request: Request) -> str:
        """The secret of the visitor's session; empty without one."""
        return request.cookies.get(self._host.session_cookie, "")

    def without_session(self, request: Request, error: NoToken) -> Response:
        """The answer to a visitor without a session."""
        if "x-fragments" in request.headers:
            return Response(error.sentence, 401)
        if request.url.path == "/":
            return _page(next="/")
        back = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        if request.method == "POST":
            back = "/"
        return RedirectResponse(f"/sign-in?{urlencode({'next': back})}", 303)

    async def answer(self, request: Request) -> Response:
        """The page of a link or for a token; and a session, once its form is sent."""
        if request.method != "POST":
            query = request.query_params
            return _page(link=query.get("link", "")[:200], next=local_path(query.get("next")))
        form = await self._host.form(request)
        link, token, onward = ((form.get(name) or [""])[0].strip() for name in ("link", "token", "next"))
        onward = local_path(onward)
        try:
            if link:
                session = await self._host.use_link(request, link)
            else:
                session = await self._host.begin_session(
                    await self._host.identify(request, f"Bearer {token}")
                )
        except InterlockError as error:
            status = 429 if error.code == "too_many_requests" else 401 if isinstance(error, NoToken) else 503
            return _page(status, next=onward, refusal=f"{error.sentence} {error.hint}")
        answer = RedirectResponse(onward, 303)
        self._set(request, answer, self._host.session_cookie, session, COOKIE_S)
        return answer

    async def end(self, request: Request) -> Response:
        """End the visitor's session."""
        name = self._host.session_cookie
        if session := request.cookies.get(name):
            await self._host.end_session(session)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(name, path="/")
        return answer

    def _set(self, request: Request, answer: Response, name: str, value: str, age_s: int) -> None:
        answer.set_cookie(
            name,
            value,
            max_age=age_s,
            path="/",
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )

    # -- notices --------------------------------------------------------------------------------------

    def set_notice(self, request: Request, answer: Response, notice: Notice) -> None:
        """Show a notice on the next page."""
        text = json.dumps([notice.text[:_NOTICE_MAX], notice.kind])
        self._set(
            request, answer, NOTICE_COOKIE, urlsafe_b64encode(text.encode()).decode().rstrip("="), _NOTICE_S
        )

    def notice(self, request: Request) -> Notice | None:
        """The notice of the last action, if it was not shown yet."""
        text = request.cookies.get(NOTICE_COOKIE)
        if not text or len(text) > 4 * _NOTICE_MAX * 2:
            return None
        try:
            said, kind = parse(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            f"{said}{kind}".encode()  # half a character cannot be sent
        except (ValueError, TypeError):
            return None
        return Notice(str(said)[:_NOTICE_MAX], str(kind))

    def clear_notice(self, answer: Response) -> None:
        """The notice was shown."""
        answer.delete_cookie(NOTICE_COOKIE, path="/")


def _page(status: int = 200, *, link: str = "", next: str = "/", refusal: str = "") -> Response:  # noqa: A002
    values: Mapping[str, Any] = {"title": "Sign in", "link": link, "next": next, "refusal": refusal}
    return HTMLResponse(rendered_plainly("sign_in.html", values), status)


def local_path(given: str | None) -> str:
    """A path of this server to go on to; `/` if the given one leads elsewhere."""
    if not given or not given.startswith("/") or given.startswith("//") or "\\" in given:
        return "/"
    if any(ord(char) < 32 for char in given) or len(given) > 2_000:
        return "/"
    return given


def check_origin(request: Request) -> None:
    """Raise unless a form was sent by a page of this server."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if origin is None:
        if request.headers.get("sec-fetch-site") == "same-origin":
            return
    elif host and origin.partition("://")[2].lower() == host.lower():
        return
    raise NotAllowed("This form was sent by a page of another host.", "Open the dashboard itself.")
