"""A visitor of the dashboard: requests with a session, as a browser without scripts sends them."""

from __future__ import annotations

import gzip
import html
import http.client
import re
from contextlib import nullcontext
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from interlock.dashboard.endpoint import Dashboard
from interlock.http.application import MountedApp
from interlock.http.handlers import Server
from interlock.http.server import HERE
from interlock.service.local import LocalService
from tests.http.serving import Serving

_HIDDEN = re.compile(r'<input type="hidden" name="([\w.]+)" value="([^"]*)">')
_FORM = re.compile(r'<form [^>]*action="/do".*?</form>', re.DOTALL)


class Site(Serving):
    """A server with the dashboard, in this process."""

    def __init__(self, service: LocalService, **more: Any) -> None:
        super().__init__(service, mounted=mounted, hosts=HERE, **more)

    def visitor(self, scope: str = "admin") -> Visitor:
        """A visitor who has signed in with a token of this scope."""
        visitor = Visitor(self.url)
        visitor.sign_in(self.token(scope))
        return visitor


def mounted(server: Server) -> list[MountedApp]:
    dashboard = Dashboard(server)
    return [MountedApp(path, dashboard, nullcontext) for path in dashboard.paths]


class Seen(NamedTuple):
    """An answer to a visitor."""

    status: int
    headers: dict[str, str]
    text: str
    #: The cookies that it sets, with their attributes.
    cookies: list[str]
    #: Its length as it was sent.
    sent_bytes: int = 0

    @property
    def words(self) -> str:
        """The visible text, roughly."""
        return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.text)).strip())

    def forms(self) -> list[dict[str, str]]:
        """The hidden fields of each form for an action."""
        return [
            {name: html.unescape(value) for name, value in _HIDDEN.findall(form)}
            for form in _FORM.findall(self.text)
        ]

    def form(self, operation: str) -> dict[str, str]:
        """The hidden fields of the first form of an operation."""
        found = [form for form in self.forms() if form.get("operation") == operation]
        assert found, f"no form for {operation}: {[form.get('operation') for form in self.forms()]}"
        return found[0]


class Visitor:
    """Keeps cookies, sends `Origin` with forms, and follows no redirect by itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cookies: dict[str, str] = {}

    def get(self, path: str, headers: dict[str, str] | None = None) -> Seen:
        return self._ask("GET", path, None, dict(headers or {}))

    def post(
        self, path: str, fields: Any = (), *, origin: str | None = "", headers: dict[str, str] | None = None
    ) -> Seen:
        """Send a form. `origin` is this server's own by default; None leaves it out."""
        sent = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        if origin is not None:
            sent["Origin"] = origin or self.url
        return self._ask("POST", path, urlencode(fields, doseq=True), sent)

    def do(self, form: dict[str, str], **typed: str) -> Seen:
        """Press a button: send its form with what was typed."""
        return self.post("/do", {**form, **{f"a.{name}": text for name, text in typed.items()}})

    def sign_in(self, token: str) -> Seen:
        seen = self.post("/sign-in", {"token": token, "next": "/"})
        assert seen.status == 303, seen.words
        return seen

    def _ask(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Seen:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            connection.request(method, path, body, {"Accept-Encoding": "gzip", **headers})
            answer = connection.getresponse()
            sent = answer.read()
            set_cookies = answer.headers.get_all("Set-Cookie") or []
            for cookie in set_cookies:
                name, _, value = cookie.partition(";")[0].partition("=")
                if "max-age=0" in cookie.lower():
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = value
            found = {name.lower(): value for name, value in answer.headers.items()}
            text = gzip.decompress(sent) if found.get("content-encoding") == "gzip" else sent
            return Seen(answer.status, found, text.decode(), set_cookies, len(sent))
        finally:
            connection.close()
