"""The fake on real HTTP: `with serve(github) as url:`.

Who asks, what is allowed, limits, ETags, paging, redirects and faults are here, the same for every operation;
`routes.py` has the operations. Paths that end in `.git/…` are git's, over the same bare repositories.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
import traceback
import urllib.parse
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import jwt

from tests.git_fixtures import GitOverHttp, LostAnswers, Server
from tests.github import openapi
from tests.github.fake import FakeGitHub, Refused, Repository, Token, not_found
from tests.github.openapi import OLD_VERSION, VERSIONS
from tests.github.routes import ROUTES, Answer, Call, Route

HOUR_S, MINUTE_S = 3600, 60
CONDITIONS = ("if-match", "if-unmodified-since", "if-none-match", "if-modified-since")
_RANGE = re.compile(r"bytes=(\d+)-")
_GIT = re.compile(r"^/([^/]+/[^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)$")
OPERATIONS = frozenset((route.method, route.template) for route in ROUTES)


@dataclass
class Window:
    """What one token has used of one limit."""

    began: float
    used: int = 0


@dataclass
class Meter:
    """Counts requests and creations as GitHub's limits do."""

    github: FakeGitHub
    windows: dict[tuple[str, str], Window] = field(default_factory=dict)
    creations: dict[str, deque[float]] = field(default_factory=dict)

    def limit_of(self, kind: str, resource: str) -> int:
        limits = self.github.faults.limits
        return limits.searches_per_minute if resource == "search" else limits.hourly[kind]

    def window(self, who: str, resource: str) -> Window:
        now, length_s = self.github.clock(), MINUTE_S if resource == "search" else HOUR_S
        window = self.windows.get((who, resource))
        if window is None or now >= window.began + length_s:
            window = self.windows[who, resource] = Window(now)
        return window

    def headers(self, who: str, kind: str, resource: str) -> dict[str, str]:
        window, limit = self.window(who, resource), self.limit_of(kind, resource)
        length_s = MINUTE_S if resource == "search" else HOUR_S
        return {
            "x-ratelimit-limit": str(limit),
            "x-ratelimit-remaining": str(max(0, limit - window.used)),
            "x-ratelimit-used": str(window.used),
            "x-ratelimit-reset": str(int(window.began + length_s)),
            "x-ratelimit-resource": resource,
        }

    def check(self, who: str, kind: str, resource: str) -> None:
        if self.window(who, resource).used >= self.limit_of(kind, resource):
            raise Refused(403, f"API rate limit exceeded for {who}.")

    def count_creation(self, who: str) -> None:
        """The secondary limit on content, per minute and hour."""
        now, limits = self.github.clock(), self.github.faults.limits
        times = self.creations.setdefault(who, deque())
        while times and times[0] <= now - HOUR_S:
            times.popleft()
        last_minute = [at for at in times if at > now - MINUTE_S]
        for count, limit, oldest, length_s in (
            (len(last_minute), limits.creations_per_minute, last_minute[:1], MINUTE_S),
            (len(times), limits.creations_per_hour, list(times)[:1], HOUR_S),
        ):
            if count >= limit:
                wait_s = max(1, int(oldest[0] + length_s - now) + 1)
                message = "You have exceeded a secondary rate limit. Content creation is blocked for a while."
                raise Refused(403, message, headers={"retry-after": str(wait_s)})
        times.append(now)


class Handler(GitOverHttp):
    """One request."""

    github: FakeGitHub
    meter: Meter
    _pushed: tuple[Repository, dict[str, str], str] | None = None

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(self.github.clock() if timestamp is None else timestamp, usegmt=True)

    def do_PATCH(self) -> None:  # noqa: N802
        self._serve()

    do_PUT = do_DELETE = do_HEAD = do_PATCH  # noqa: N815

    def _serve(self) -> None:
        address = urllib.parse.urlsplit(self.path)  # an absolute address if we are somebody's proxy
        path = address.path.removeprefix("/api/v3") or "/"
        if git := _GIT.match(path):
            self._serve_git(git[1], git[2], address.query)
        elif path.startswith("/_files/"):
            self._serve_file(path)
        else:
            self._serve_api(path, address.query)

    # Git

    def _serve_git(self, full_name: str, what: str, query: str) -> None:
        with self.github.lock:
            repo = self.github.find(full_name)
            moved = self.github.old_names.get(full_name.lower())
        if self.github.faults.outage:
            self._send(503, {}, b"")
        elif repo is None and moved is not None:
            there = f"{self.github.repos[moved].clone_url}/{what}"
            self._send(301, {"location": f"{there}?{query}" if query else there}, b"")
        elif repo is None:
            self._send(404, {}, b"")
        elif (writes := "git-receive-pack" in (what, query.removeprefix("service="))) or repo.private:
            token = self._git_token()
            if token is None:
                self._send(401, {"www-authenticate": 'Basic realm="GitHub"'}, b"")
            elif not _may(token, repo, ("contents",), "write" if writes else "read", writes=writes):
                self._send(403, {}, b"")
            else:
                self._run_git(repo, what, query, token.login)
        else:
            self._run_git(repo, what, query, "")

    def _run_git(self, repo: Repository, what: str, query: str, by: str) -> None:
        self.root = repo.bare.parent
        self.path = f"/{repo.bare.name}/{what}" + (f"?{query}" if query else "")
        self._pushed = (repo, repo.refs(), by) if what == "git-receive-pack" else None
        super()._serve()

    def git_ended(self) -> None:
        if self._pushed is not None:
            repo, before, by = self._pushed
            with self.github.lock:
                after = repo.refs()
                for ref in sorted(before.keys() | after.keys()):
                    if before.get(ref) != after.get(ref):
                        repo.moved(ref, before.get(ref), after.get(ref), by=by)

    def _git_token(self) -> Token | None:
        scheme, _, text = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        password = base64.b64decode(text).decode().partition(":")[2]
        return self.github.tokens.get(password)

    def _serve_file(self, path: str) -> None:
        """Logs and artifacts, behind a redirect as at GitHub. The address is the right to read: a storage
        service refuses a token beside it."""
        content, wanted = self.github.files.get(path), _RANGE.fullmatch(self.headers.get("range") or "")
        if self.headers.get("authorization"):
            self._send(400, {}, b"")
        elif content is None:
            self._send(404, {}, b"")
        elif wanted is not None:
            self._send(206, {"content-type": "text/plain"}, content[int(wanted[1]) :])
        else:
            self._send(200, {"content-type": "text/plain"}, content)

    # REST

    def _serve_api(self, path: str, query_text: str) -> None:
        raw = self._body()
        fault = self.github.faults.due(f"{self.command} {path}")
        if fault is not None and fault.kind == "drop":
            return self._cut()
        if fault is not None and fault.kind == "hold":
            fault.act()
        if self.github.faults.outage or (fault is not None and fault.kind == "fail"):
            status = fault.status if fault is not None and fault.kind == "fail" else 503
            return self._send(status, {"content-type": "text/html"}, b"<html>Unicorn!</html>")
        with self.github.lock:
            if fault is not None and fault.kind == "before":
                fault.act()
            refused = None
            if fault is not None and fault.kind == "refuse":
                refused = Refused(fault.status, fault.message, headers=fault.headers)
            line = (self.command, path, query_text)
            exchange = Exchange(self.github, self.meter, line, self.headers, raw, refused)
            status, headers, content = exchange.made()
        if fault is not None and fault.kind == "lose":
            return self._cut()
        return self._send(status, headers, content)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(content)


class Exchange:
    """One request to an operation and the answer to it."""

    def __init__(
        self,
        github: FakeGitHub,
        meter: Meter,
        line: tuple[str, str, str],
        headers: Any,
        raw: bytes,
        refused: Refused | None = None,
    ) -> None:
        self.github, self.meter = github, meter
        self.method, self.path, query_text = line
        self.query = dict(urllib.parse.parse_qsl(query_text, keep_blank_values=True))
        self.headers, self.raw, self.refused = {k.lower(): v for k, v in headers.items()}, raw, refused
        self.version = self.headers.get("x-github-api-version", OLD_VERSION)
        self.route: Route | None = None
        self.who, self.kind, self.resource = "anonymous", "none", "core"
        self.counted = False

    def made(self) -> tuple[int, dict[str, str], bytes]:
        try:
            answer = self._answered()
        except Refused as refused:
            body: Any = {
                "message": refused.message,
                "documentation_url": "https://docs.github.com/rest",
                "status": str(refused.status),
            }
            if refused.errors is not None:
                body["errors"] = refused.errors
            if refused.status in (301, 307):
                body = {
                    "message": refused.message,
                    "url": refused.headers["location"],
                    "documentation_url": "",
                }
            answer = Answer(refused.status, body, refused.headers)
        except Exception as error:  # a defect of the fake, which its test shall report
            self.github.wrong_answers.append(f"{self.method} {self.path}: {traceback.format_exc()}")
            answer = Answer(500, {"message": f"{error!r}"})
        return self._sent(answer)

    def _sent(self, answer: Answer) -> tuple[int, dict[str, str], bytes]:
        content = b"" if answer.body is None else json.dumps(answer.body).encode()
        headers = {
            "content-type": "application/json; charset=utf-8",
            "x-github-media-type": "github.v3; format=json",
            "x-github-api-version-selected": self.version,
            "x-github-request-id": f"{self.github.next_id():X}",
            **answer.headers,
        }
        status = answer.status
        if self.method in ("GET", "HEAD") and status == 200:
            headers["etag"] = f'W/"{hashlib.sha256(content).hexdigest()}"'
            if self.headers.get("if-none-match") == headers["etag"]:
                status, content = 304, b""
        if self.route is not None:
            self._check_answer(answer)
            if status != 304 and self.path != "/rate_limit" and self.counted:
                self.meter.window(self.who, self.resource).used += 1
            headers |= self.meter.headers(self.who, self.kind, self.resource)
            self.github.requests.append((self.method, self.route.template, status))
        return status, headers, content

    def _check_answer(self, answer: Answer) -> None:
        assert self.route is not None
        version = self.version if self.version in VERSIONS else OLD_VERSION
        operation = (self.route.method, self.route.template)
        checker = openapi.rest(OPERATIONS, version)
        body = None if answer.status in (204, 302) else answer.body
        self.github.wrong_answers += checker.answer_problems(operation, answer.status, body)

    def _answered(self) -> Answer:
        if not self.headers.get("user-agent"):
            raise Refused(
                403,
                "Please make sure your request has a User-Agent header",
            )
        if self.version not in VERSIONS:
            raise Refused(400, f"{self.version} is not a supported version.")
        token = self._token()
        found = self._routed(self.path)
        if found is None:
            raise not_found()
        self.route, values = found
        if token is not None:
            self.who, self.kind = _spender(token), token.kind
        self.resource = self.route.resource
        if self.path != "/rate_limit":
            self.meter.check(self.who, self.kind, self.resource)
            self.counted = True
        if self.refused is not None:
            raise self.refused
        if self.method not in ("GET", "HEAD") and any(name in self.headers for name in CONDITIONS):
            raise Refused(
                400,
                "Conditional request headers are not allowed in unsafe requests "
                "unless supported by the endpoint",
            )
        github = (
            self.github.faults.stale if self.method == "GET" and self.github.faults.stale else self.github
        )
        repo = self._repository(github, values, token)
        self._allowed(repo, token)
        body = self._checked_body()
        if self.route.creates:
            self.meter.count_creation(self.who)
        call = Call(github, repo, token, values, self.query, body, self.version, self.path, self.meter)
        return self.route.handler(call)

    def _token(self) -> Token | None:
        scheme, _, text = self.headers.get("authorization", "").partition(" ")
        if not scheme:
            return None
        token = self.github.tokens.get(text)
        if token is None and text.count(".") == 2:
            token = self._app_token(text)
        if token is None or (token.expires_at is not None and token.expires_at <= self.github.clock()):
            raise Refused(401, "Bad credentials")
        return token

    def _app_token(self, text: str) -> Token:
        """An app that signed with its key; GitHub allows ten minutes, and no time from the future."""
        try:
            issuer = str(jwt.decode(text, options={"verify_signature": False}).get("iss"))
            [app] = [app for app in self.github.apps.values() if str(app.id) == issuer]
            assert app.public_key is not None
            claims = jwt.decode(
                text, app.public_key, algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False}
            )
        except (ValueError, AssertionError, jwt.PyJWTError) as error:
            raise Refused(401, "A JSON web token could not be decoded") from error
        now = self.github.clock()
        if claims["exp"] <= now:
            raise Refused(
                401,
                "'Expiration time' claim ('exp') must be in the future",
            )
        if claims["iat"] > now:
            raise Refused(
                401,
                "'Issued at' claim ('iat') must be in the past",
            )
        if claims["exp"] - now > 600:
            raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")
        return Token(text, "app", f"{app.slug}[bot]", app=app.slug)

    def _routed(self, path: str) -> tuple[Route, dict[str, str]] | None:
        if by_id := re.match(r"^/repositories/(\d+)(/.*)?$", path):
            repo = self.github.repos.get(int(by_id[1]))
            if repo is None:
                return None
            path = f"/repos/{repo.full_name}{by_id[2] or ''}"
        method = "GET" if self.method == "HEAD" else self.method
        for route in ROUTES:
            values = route.match(method, path)
            if values is not None:
                return route, values
        return None

    def _repository(
        self, github: FakeGitHub, values: dict[str, str], token: Token | None
    ) -> Repository | None:
        if "repo" not in values:
            return None
        full_name = f"{values['owner']}/{values['repo']}"
        repo = github.find(full_name)
        moved = github.old_names.get(full_name.lower())
        if repo is None and moved is not None:
            rest = self.path.split("/", 4)[4:]
            there = "/".join([f"{github.api_url}/repositories/{moved}", *rest])
            asked = urllib.parse.urlencode(self.query)
            status = 301 if self.method in ("GET", "HEAD") else 307
            words = "Moved Permanently" if status == 301 else "Temporary Redirect"
            raise Refused(status, words, headers={"location": f"{there}?{asked}" if asked else there})
        if repo is None or (not repo.may(token.login if token else None, "read") and not _is_app(token)):
            raise not_found()
        return repo

    def _allowed(self, repo: Repository | None, token: Token | None) -> None:
        route = self.route
        assert route is not None
        if token is None and (route.method != "GET" or route.login):
            raise Refused(401, "Requires authentication")
        if token is not None and (token.kind == "app") != route.app_only:
            if route.app_only:
                raise Refused(401, "A JSON web token could not be decoded")
            raise Refused(403, "Resource not accessible by integration")
        if repo is None or token is None:
            return
        if not _may(token, repo, self._scopes(repo), route.needs, writes=route.method != "GET"):
            if _is_app(token):
                raise Refused(403, "Resource not accessible by integration")
            if route.needs == "admin" and route.method == "GET":
                raise not_found()
            raise Refused(403, "Must have admin rights to Repository.")

    def _scopes(self, repo: Repository) -> tuple[str, ...]:
        """The permissions of which an app's token needs one. Pull requests are issues too."""
        assert self.route is not None
        number = re.search(r"/issues/(\d+)", self.path)
        issue = repo.numbers.get(int(number[1])) if number else None
        is_pull = self.route.scope == "issues" and issue is not None and issue.pull is not None
        return ("issues", "pull_requests") if is_pull else (self.route.scope,)

    def _checked_body(self) -> Any:
        """The JSON of the request, if GitHub's description allows it."""
        assert self.route is not None
        try:
            body = json.loads(self.raw) if self.raw else None
        except ValueError as error:
            raise Refused(400, "Problems parsing JSON") from error
        checker = openapi.rest(OPERATIONS, self.version)
        operation = (self.route.method, self.route.template)
        problems = checker.request_problems(operation, self.query, body)
        self.github.wrong_requests += problems
        if any(" body: " in problem or "missing" in problem for problem in problems):
            raise Refused(422, "Invalid request.\n\n" + problems[0])
        return body


def _spender(token: Token) -> str:
    """Whose limit a request counts against: a user's, an installation's or, in Actions, a repository's."""
    return f"repository {token.repo_id}" if token.kind == "actions" else token.login


def _is_app(token: Token | None) -> bool:
    return token is not None and token.kind in ("actions", "installation", "app")


def _may(token: Token, repo: Repository, scopes: tuple[str, ...], needs: str, *, writes: bool) -> bool:
    """A user's token may do what its user's role allows; an app's, what its permissions say, whatever the
    operation asks of people: to read needs `read`, everything else `write`."""
    if not _is_app(token):
        return repo.may(token.login, needs)
    if token.repo_id is not None and token.repo_id != repo.id:
        return not writes and not repo.private
    if token.permissions is None or "metadata" in scopes:
        return True
    enough = ("write",) if writes else ("read", "write")
    return any(token.permissions.get(scope, "none") in enough for scope in scopes)


@contextmanager
def serve(github: FakeGitHub) -> Iterator[str]:
    """The address of the REST interface; git and everything else is below it too."""
    attributes = {"github": github, "meter": Meter(github), "lost": LostAnswers()}
    server = Server(type("FakeHandler", (Handler,), attributes))
    github.host = f"127.0.0.1:{server.server_address[1]}"
    github.api_url = github.html_url = f"http://{github.host}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield github.api_url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        github.sender.close()
