"""A client for GitHub's REST API: it retries and waits within bounds, and never repeats an unsafe request.

gidgethub implements the protocol, httpx2 transports it. This module adds conditional reads, pages, renames,
limits of every kind with a reserve for people, and retries where they are harmless.

A call ends in one of these ways, within `patience_s` plus one time-out:
- an `GitHubAnswer`;
- `GitHubLimited`, `GitHubRefused` or `GitHubUnavailable`. The last one's `uncertain` means that a write may
  have been carried out: check before writing again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import httpx2
from gidgethub import HTTPException, sansio

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable, InvalidInput, NoGitHubToken
from interlock.core.record import Record, replace
from interlock.github.cache import Cache, CachedAnswer, MemoryCache
from interlock.github.limits import UNNAMED_WAIT_S, Limits, Wait
from interlock.github.tokens import GitHubToken
from interlock.github.tokens import from_environment as token_from_environment

API_URL = "https://api.github.com"
API_VERSION = "2026-03-10"
TIMEOUT_S = 20.0
PATIENCE_S = 30.0
ANSWER_BYTES_MAX = 32 * 1024 * 1024
#: How much of a file is read to get its end, if its length is unknown.
ELSEWHERE_BYTES_MAX = 4 * 1024 * 1024
PAGE_SIZE = 100
_TRIES = 4
_REDIRECTS = 3
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Idempotent methods.
_HARMLESS = ("GET", "PUT", "DELETE")


class GitHubAnswer(Record):
    """What GitHub answered."""

    status: int
    body: Any
    #: From the cache: GitHub answered 304.
    unchanged: bool = False
    #: The repository or issue was moved to another URL.
    moved: bool = False
    #: Where the content is, for logs and artifacts; the address expires soon.
    location: str | None = None
    next_url: str | None = None


class _Ask(Record):
    """One request before its first try."""

    method: str
    route: str
    url: str
    body: Any
    background: bool
    again: bool

    @property
    def resource(self) -> str:
        return "search" if self.route.startswith("/search/") else "core"


class _Reply(Record):
    """A raw answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    moved: bool
    #: The cached answer, if the request was conditional.
    kept: CachedAnswer | None


class GitHub:
    """A client for one account. Safe to use from several threads."""

    def __init__(
        self,
        token: GitHubToken,
        *,
        api_url: str = API_URL,
        cache: Cache | None = None,
        limits: Limits | None = None,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._token, self._api_url = token, checked_url(api_url)
        self._cache = cache if cache is not None else MemoryCache()
        self.limits = limits or Limits(clock=clock)
        self._timeout_s, self._patience_s, self._sleep = timeout_s, patience_s, sleep
        self._counting = threading.Lock()
        self._counted: Counter[tuple[str, str]] = Counter()
        self._http = httpx2.Client(timeout=httpx2.Timeout(timeout_s), follow_redirects=False)

    def __repr__(self) -> str:
        return f"GitHub({self._api_url!r}, {self._token!r})"

    def __enter__(self) -> GitHub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @property
    def token(self) -> GitHubToken:
        """The account of the requests."""
        return self._token

    @property
    def counted(self) -> dict[tuple[str, str], int]:
        """How many requests were sent, by method and route. Answers of 304 are among them."""
        with self._counting:
            return dict(self._counted)

    # Requests

    def get(self, route: str, *, query: Mapping[str, object] | None = None, **values: object) -> GitHubAnswer:
        """Read. `route` is a URI template: `/repos/{+repo}/issues/{number}`."""
        return self._answered(self._asked("GET", route, values, query=query))

    def pages(
        self,
        route: str,
        *,
        limit: int,
        within: str | None = None,
        background: bool = False,
        query: Mapping[str, object] | None = None,
        **values: object,
    ) -> Iterator[Any]:
        """The entries of a list, page by page, at most `limit`; `within` names the list in an object.

        In the background it raises `GitHubLimited` if only the reserve for people is left.
        """
        asked = {"per_page": min(PAGE_SIZE, limit), **(query or {})}
        ask = self._asked("GET", route, values, query=asked, background=background)
        left = limit
        while left > 0:
            answer = self._answered(ask)
            entries = answer.body[within] if within is not None else answer.body
            yield from entries[:left]
            left -= len(entries)
            if answer.next_url is None:
                return
            ask = replace(ask, url=self._same_place(answer.next_url))

    def send(
        self,
        method: str,
        route: str,
        body: Any = None,
        *,
        again: bool | None = None,
        **values: object,
    ) -> GitHubAnswer:
        """Write. `again`: a repetition is harmless. By default this holds for PUT and DELETE only."""
        return self._answered(self._asked(method, route, values, body=body, again=again))

    def end_of(self, url: str, size: int) -> bytes:
        """The last bytes of a file at a URL that GitHub gave. No token is sent there."""
        checked_url(url.partition("?")[0])
        headers = {"user-agent": "interlock", "accept-encoding": "identity"}
        try:
            with self._http.stream("GET", url, headers=headers) as answer:
                length = int(answer.headers.get("content-length") or 0)
                if answer.status_code != 200:
                    raise _download_refused(url, answer.status_code)
                if length <= ELSEWHERE_BYTES_MAX:
                    return self._last(answer.iter_bytes(), size)
            with self._http.stream("GET", url, headers=headers | {"range": f"bytes={length - size}-"}) as end:
                if end.status_code != 206:
                    raise _download_refused(url, end.status_code)
                return self._last(end.iter_bytes(), size)
        except (httpx2.HTTPError, ValueError) as error:
            raise _unreachable(urlsplit(url).hostname or "The host", error, uncertain=False) from error

    def _last(self, chunks: Iterator[bytes], size: int) -> bytes:
        deadline, read, last = time.monotonic() + 2 * self._timeout_s, 0, b""
        for chunk in chunks:
            last = (last + chunk)[-size:]
            read += len(chunk)
            if read > ELSEWHERE_BYTES_MAX or time.monotonic() > deadline:
                raise httpx2.ReadTimeout("the download was cut off")
        return last

    # One request and its retries

    def _asked(
        self,
        method: str,
        route: str,
        values: Mapping[str, object],
        *,
        query: Mapping[str, object] | None = None,
        body: Any = None,
        background: bool = False,
        again: bool | None = None,
    ) -> _Ask:
        texts = {name: str(value) for name, value in values.items()}
        url = sansio.format_url(route, texts, base_url=self._api_url)
        if query:
            url += "?" + urlencode({name: _query_text(value) for name, value in query.items()})
        harmless = method in _HARMLESS if again is None else again
        return _Ask(
            method=method,
            route=route.replace("{+", "{"),
            url=url,
            body=body,
            background=background,
            again=harmless,
        )

    def _answered(self, ask: _Ask) -> GitHubAnswer:
        patience = _Patience(self._patience_s, self._sleep)
        tries = 0
        refreshed = False
        while True:
            wait = self.limits.wait(ask.resource, background=ask.background)
            if wait is not None and not patience.waits(wait.seconds):
                raise _limited(wait)
            tries += 1
            try:
                reply = self._exchanged(ask)
            except GitHubUnavailable as error:
                harmless = ask.again or not error.uncertain
                if not harmless or tries >= _TRIES or not patience.backs_off(tries):
                    raise
                continue
            if self.limits.learn(reply.status, reply.headers, _message(reply)):
                if tries >= _TRIES:  # it repeatedly names no time, or a past one
                    raise _limited(Wait(seconds=UNNAMED_WAIT_S, why="secondary"))
                continue
            if reply.status == 401 and not refreshed and self._token.forget():
                refreshed = True
                continue
            if reply.status >= 500:
                if not ask.again or tries >= _TRIES or not patience.backs_off(tries):
                    raise _broken(self._host, reply.status, uncertain=ask.method != "GET")
                continue
            return self._read(ask, reply)

    def _exchanged(self, ask: _Ask) -> _Reply:
        """One request and its redirects: a renamed repository has another address on the same host."""
        url, kept = ask.url, self._cache.get(self._key(ask.url)) if ask.method == "GET" else None
        for redirects in range(_REDIRECTS + 1):
            status, headers, content = self._sent(ask, url, kept.etag if kept else None)
            if status not in (301, 307, 308):
                moved = redirects > 0
                return _Reply(status=status, headers=headers, content=content, moved=moved, kept=kept)
            url, kept = self._same_place(urljoin(url, headers.get("location", ""))), None
        raise GitHubRefused(f"{self._host} redirects in a loop.", "Is the API URL right?", status=status)

    def _sent(self, ask: _Ask, url: str, etag: str | None) -> tuple[int, Mapping[str, str], bytes]:
        headers = sansio.create_headers("interlock", oauth_token=self._token.text(self._ask_for_token))
        headers["x-github-api-version"] = API_VERSION
        if etag is not None:
            headers["if-none-match"] = etag
        with self._counting:
            self._counted[ask.method, ask.route] += 1
        deadline = time.monotonic() + 2 * self._timeout_s
        chunks, size = [], 0
        try:
            with self._http.stream(ask.method, url, headers=headers, json=ask.body) as answer:
                for chunk in answer.iter_bytes():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > ANSWER_BYTES_MAX:
                        raise GitHubRefused(
                            f"{self._host} sent more than {ANSWER_BYTES_MAX:,} bytes.",
                            "Request less at once.",
                            status=answer.status_code,
                        )
                    if time.monotonic() > deadline:
                        raise httpx2.ReadTimeout("the answer was cut off")
                return answer.status_code, answer.headers, b"".join(chunks)
        except httpx2.HTTPError as error:
            unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
            raise _unreachable(self._host, error, uncertain=not unsent and ask.method != "GET") from error

    def _read(self, ask: _Ask, reply: _Reply) -> GitHubAnswer:
        status, content, link = reply.status, reply.content, reply.headers.get("link")
        kind, unchanged = reply.headers.get("content-type", ""), status == 304
        if status == 302:
            return GitHubAnswer(
                status=status, body=None, location=reply.headers.get("location"), moved=reply.moved
            )
        if unchanged and reply.kept is not None:
            status, content, link, kind = 200, reply.kept.body, reply.kept.link, "application/json"
        # Without the headers of limits: we have read them, and gidgethub raises where one makes no sense.
        headers = {"content-type": kind, **({"link": link} if link else {})}
        try:
            body, _, next_url = sansio.decipher_response(status, headers, content)
        except HTTPException as refused:
            raise self._refused(ask, status, str(refused)) from None
        except ValueError:
            raise GitHubUnavailable(
                f"{self._host} sent an unreadable answer.",
                "Does a proxy answer for it?",
                uncertain=ask.method != "GET",
            ) from None
        etag = reply.headers.get("etag")
        if ask.method == "GET" and etag and not unchanged and not reply.moved:
            self._cache.put(self._key(ask.url), CachedAnswer(etag=etag, body=content, link=link))
        return GitHubAnswer(
            status=status, body=body, unchanged=unchanged, moved=reply.moved, next_url=next_url
        )

    def _ask_for_token(self, path: str, signature: str) -> Mapping[str, object]:
        """A token of the app's installation, for what the app signed."""
        headers = sansio.create_headers("interlock", jwt=signature)
        headers["x-github-api-version"] = API_VERSION
        route = "/app/installations/{installation_id}/access_tokens"
        with self._counting:
            self._counted["POST", route] += 1
        try:
            answer = self._http.post(self._api_url + path, headers=headers, json={})
        except httpx2.HTTPError as error:
            raise _unreachable(self._host, error, uncertain=False) from error
        self.limits.learn(answer.status_code, {"date": answer.headers.get("date", "")}, "")
        if answer.status_code >= 500:
            raise _broken(self._host, answer.status_code, uncertain=False)
        if answer.status_code != 201:
            skew_s = self.limits.skew_s or 0.0
            clock = f" The clock here is {abs(skew_s):,.0f} s off." if abs(skew_s) > 60 else ""
            raise GitHubRefused(
                f"{self._host} refused the app a token ({answer.status_code}).{clock}",
                "Compare the app's id, its installation and its private key with GitHub's settings.",
                status=answer.status_code,
            )
        told: Mapping[str, object] = answer.json()
        return told

    def _refused(self, ask: _Ask, status: int, message: str) -> GitHubRefused:
        sentence = (
            f"{self._host} refused {ask.method} {ask.route} ({status}): {self._without_token(message)}."
        )
        return GitHubRefused(sentence, _HINTS.get(status, ""), status=status)

    def _without_token(self, message: str) -> str:
        """GitHub's message on one line, with the secret removed."""
        return " ".join(self._token.concealed(message).split())[:300].rstrip(".")

    def _same_place(self, url: str) -> str:
        """The URL, if it is on the same host: a token is sent nowhere else."""
        here, there = urlsplit(self._api_url), urlsplit(url)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise GitHubRefused(
                f"{self._host} redirects to another host, {there.hostname}.",
                "The token is not sent there. Is the API URL right?",
                status=301,
            )
        return url

    @property
    def _host(self) -> str:
        return "GitHub" if self._api_url == API_URL else f"GitHub at {urlsplit(self._api_url).netloc}"

    def _key(self, url: str) -> str:
        return f"{self._token.identity} {url}"


def from_environment(
    environ: Mapping[str, str],
    *,
    timeout_s: float = TIMEOUT_S,
    patience_s: float = PATIENCE_S,
    cache: Cache | None = None,
    limits: Limits | None = None,
    clock: Callable[[], float] = time.time,
) -> GitHub:
    """A client for the account and the GitHub that the environment names."""
    token = token_from_environment(environ, clock=clock)
    if token is None:
        raise NoGitHubToken(
            "No GitHub token.",
            "Set INTERLOCK_GITHUB_TOKEN; in a workflow, give the step GITHUB_TOKEN: ${{ github.token }}.",
        )
    url = environ.get("GITHUB_API_URL") or API_URL
    return GitHub(
        token,
        api_url=url,
        cache=cache,
        limits=limits,
        timeout_s=timeout_s,
        patience_s=patience_s,
        clock=clock,
    )


class _Patience:
    """How long one call may wait in all."""

    def __init__(self, seconds: float, sleep: Callable[[float], None]) -> None:
        self._left_s, self._sleep = seconds, sleep

    def waits(self, seconds: float) -> bool:
        """Wait, unless it would take too long."""
        if seconds > self._left_s:
            return False
        self._left_s -= seconds
        self._sleep(seconds)
        return True

    def backs_off(self, tries: int) -> bool:
        """Wait 1, 2, 4 s, with a quarter of jitter, so that clients do not retry at once."""
        return self.waits(2 ** (tries - 1) * random.uniform(0.75, 1.25))  # noqa: S311  (no secret)


_HINTS = {
    401: "Is the token still valid? Make a new one and set it.",
    403: "Permission denied: compare the token's permissions with what the command needs.",
    404: "It does not exist, or the token cannot see it.",
    410: "It was deleted.",
}


def checked_url(url: str) -> str:
    """The URL of the REST API without a trailing slash. A token is never sent over plain HTTP."""
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not parts.hostname or parts.username or parts.query or not (parts.scheme == "https" or local):
        shown = parts.hostname or "the given text"
        raise InvalidInput(
            f"The GitHub API URL is not an https URL: {shown}.",
            "GITHUB_API_URL is https://HOST/api/v3 for GitHub Enterprise Server.",
        )
    return url.rstrip("/")


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _message(reply: _Reply) -> str:
    """The message of an answer, which tells limits apart."""
    is_json = "json" in reply.headers.get("content-type", "")
    return reply.content[:2000].decode("utf-8", "replace") if is_json else ""


def _limited(wait: Wait) -> GitHubLimited:
    sentence = {
        "allowance": "The hourly GitHub rate limit is used up.",
        "reserve": "The rest of the hourly GitHub rate limit is reserved for people.",
        "secondary": "GitHub asks for a pause between requests (secondary rate limit).",
    }[wait.why]
    minutes = max(1, round(wait.seconds / 60))
    hint = f"Try again in {minutes} min." if wait.seconds >= 60 else f"Try again in {wait.seconds:.0f} s."
    return GitHubLimited(sentence, hint, wait_s=wait.seconds, why=wait.why)


def _broken(host: str, status: int, *, uncertain: bool) -> GitHubUnavailable:
    return GitHubUnavailable(
        f"{host} answered with a server error ({status}).", "Try again later.", uncertain=uncertain
    )


def _download_refused(url: str, status: int) -> GitHubRefused:
    host = urlsplit(url).hostname
    return GitHubRefused(f"{host} did not serve the file ({status}).", "It may have expired.", status=status)


def _unreachable(host: str, error: Exception, *, uncertain: bool) -> GitHubUnavailable:
    if isinstance(error, httpx2.TimeoutException):
        reason = "did not answer in time"
    elif isinstance(error, httpx2.ConnectError):
        reason = "cannot be reached"
    else:
        reason = "closed the connection without an answer"
    return GitHubUnavailable(f"{host} {reason}.", "Is the network up?", uncertain=uncertain)
