"""GitHub's REST interface: one request at a time, patient within bounds, never twice what must happen once.

gidgethub reads and writes the protocol, httpx2 carries it. What neither does is here: conditional reads,
pages, renames, limits of every kind with a reserve for people, and retries only where those are harmless.

A call ends in one of these ways, within `patience_s` plus one time-out:
- an `Answer`;
- for `background_get`, a `Postponed`: GitHub, or the reserve for people, says not now;
- `GitHubLimited`, `GitHubRefused` or `GitHubUnavailable`. Of the last, `uncertain` says that a write may have
  been carried out: look before writing again.
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
from interlock.github.cache import Cache, Kept, MemoryCache
from interlock.github.limits import UNNAMED_WAIT_S, Limits, Wait
from interlock.github.tokens import Token
from interlock.github.tokens import from_environment as token_from_environment

API_URL = "https://api.github.com"
API_VERSION = "2026-03-10"
TIMEOUT_S = 20.0
PATIENCE_S = 30.0
ANSWER_BYTES_MAX = 32 * 1024 * 1024
#: How much of a file elsewhere is read to get at its end, if it does not say how long it is.
ELSEWHERE_BYTES_MAX = 4 * 1024 * 1024
PAGE_SIZE = 100
_TRIES = 4
_REDIRECTS = 3
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Repeating one of these changes nothing more.
_HARMLESS = ("GET", "PUT", "DELETE")


class Answer(Record):
    """What GitHub answered."""

    status: int
    body: Any
    #: Not read again: GitHub said that nothing changed.
    unchanged: bool = False
    #: The repository or issue has another address now.
    moved: bool = False
    #: Where the content is, for logs and artifacts; the address expires soon.
    location: str | None = None
    next_url: str | None = None


class Postponed(Record):
    """A read in the background that has to wait."""

    seconds: float
    #: `reserve`, `allowance` or `secondary`.
    why: str


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
    """What came back, before anything is made of it."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    moved: bool
    #: What we had, if we asked whether it is still true.
    kept: Kept | None


class GitHub:
    """A client for one account. Safe to use from several threads."""

    def __init__(
        self,
        token: Token,
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
    def token(self) -> Token:
        """Whom requests speak for."""
        return self._token

    @property
    def counted(self) -> dict[tuple[str, str], int]:
        """How many requests were sent, by method and route. Answers of 304 are among them."""
        with self._counting:
            return dict(self._counted)

    # What callers ask

    def get(self, route: str, *, query: Mapping[str, object] | None = None, **values: object) -> Answer:
        """Read. `route` is a URI template: `/repos/{+repo}/issues/{number}`."""
        return self._answered(self._asked("GET", route, values, query=query))

    def background_get(
        self, route: str, *, query: Mapping[str, object] | None = None, **values: object
    ) -> Answer | Postponed:
        """Read for nobody in particular: where GitHub or the reserve for people says not now, a value."""
        ask = self._asked("GET", route, values, query=query, background=True)
        wait = self.limits.wait(ask.resource, background=True)
        if wait is not None:
            return Postponed(seconds=wait.seconds, why=wait.why)
        try:
            return self._answered(ask)
        except GitHubLimited as limited:
            return Postponed(seconds=limited.wait_s, why=limited.why)

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

        In the background it raises `GitHubLimited` where only the reserve for people is left.
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
    ) -> Answer:
        """Write. `again` says that a repetition is harmless: if not said, PUT and DELETE are, others not."""
        return self._answered(self._asked(method, route, values, body=body, again=again))

    def end_of(self, url: str, size: int) -> bytes:
        """The last bytes of a file elsewhere, of which GitHub gave the address. No token is sent there."""
        checked_url(url.partition("?")[0])
        headers = {"user-agent": "interlock", "accept-encoding": "identity"}
        try:
            with self._http.stream("GET", url, headers=headers) as answer:
                length = int(answer.headers.get("content-length") or 0)
                if answer.status_code != 200:
                    raise _elsewhere_refused(url, answer.status_code)
                if length <= ELSEWHERE_BYTES_MAX:
                    return self._last(answer.iter_bytes(), size)
            with self._http.stream("GET", url, headers=headers | {"range": f"bytes={length - size}-"}) as end:
                if end.status_code != 206:
                    raise _elsewhere_refused(url, end.status_code)
                return self._last(end.iter_bytes(), size)
        except (httpx2.HTTPError, ValueError) as error:
            raise _unreachable(urlsplit(url).hostname or "The host", error, uncertain=False) from error

    def _last(self, chunks: Iterator[bytes], size: int) -> bytes:
        deadline, read, last = time.monotonic() + 2 * self._timeout_s, 0, b""
        for chunk in chunks:
            last = (last + chunk)[-size:]
            read += len(chunk)
            if read > ELSEWHERE_BYTES_MAX or time.monotonic() > deadline:
                raise httpx2.ReadTimeout("the file did not end")
        return last

    # One request and its repetitions

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

    def _answered(self, ask: _Ask) -> Answer:
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
                if tries >= _TRIES:  # it names no time, or one that has passed, again and again
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
        raise GitHubRefused(
            f"{self._host} redirects without end.", "Is the address of its interface right?", status=status
        )

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
                            "Ask for less at once.",
                            status=answer.status_code,
                        )
                    if time.monotonic() > deadline:
                        raise httpx2.ReadTimeout("the answer did not end")
                return answer.status_code, answer.headers, b"".join(chunks)
        except httpx2.HTTPError as error:
            unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
            raise _unreachable(self._host, error, uncertain=not unsent and ask.method != "GET") from error

    def _read(self, ask: _Ask, reply: _Reply) -> Answer:
        status, content, link = reply.status, reply.content, reply.headers.get("link")
        kind, unchanged = reply.headers.get("content-type", ""), status == 304
        if status == 302:
            return Answer(status=status, body=None, location=reply.headers.get("location"), moved=reply.moved)
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
                f"{self._host} sent an answer that cannot be read.",
                "Is there a proxy in between that answers for it?",
                uncertain=ask.method != "GET",
            ) from None
        etag = reply.headers.get("etag")
        if ask.method == "GET" and etag and not unchanged and not reply.moved:
            self._cache.put(self._key(ask.url), Kept(etag=etag, body=content, link=link))
        return Answer(status=status, body=body, unchanged=unchanged, moved=reply.moved, next_url=next_url)

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
                f"{self._host} gives the app no token ({answer.status_code}).{clock}",
                "Compare the app's number, its installation and its private key with GitHub's settings.",
                status=answer.status_code,
            )
        told: Mapping[str, object] = answer.json()
        return told

    def _refused(self, ask: _Ask, status: int, message: str) -> GitHubRefused:
        sentence = f"{self._host} refused {ask.method} {ask.route} ({status}): {self._told(message)}."
        return GitHubRefused(sentence, _HINTS.get(status, ""), status=status)

    def _told(self, message: str) -> str:
        """GitHub's words on one line, without the secret if they repeat it."""
        return " ".join(self._token.concealed(message).split())[:300].rstrip(".")

    def _same_place(self, url: str) -> str:
        """The address, if it is on the same host: a token goes nowhere else."""
        here, there = urlsplit(self._api_url), urlsplit(url)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise GitHubRefused(
                f"{self._host} sends us to another host, {there.hostname}.",
                "The token is not sent there. Is the address of its interface right?",
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
            "There is no token for GitHub.",
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
        """Wait, if it is not too long."""
        if seconds > self._left_s:
            return False
        self._left_s -= seconds
        self._sleep(seconds)
        return True

    def backs_off(self, tries: int) -> bool:
        """Wait 1, 2, 4 s, a quarter more or less, so that many do not come back at once."""
        return self.waits(2 ** (tries - 1) * random.uniform(0.75, 1.25))  # noqa: S311  (no secret)


_HINTS = {
    401: "Is the token still valid? Make a new one and set it.",
    403: "The token may not do this: compare its permissions with what the command needs.",
    404: "It is not there, or the token may not see it.",
    410: "It was deleted.",
}


def checked_url(url: str) -> str:
    """The address of a REST interface, without a slash at its end. A token never travels in clear text."""
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not parts.hostname or parts.username or parts.query or not (parts.scheme == "https" or local):
        shown = parts.hostname or "the given text"
        raise InvalidInput(
            f"The address of GitHub's interface is not an https address: {shown}.",
            "GITHUB_API_URL is https://HOST/api/v3 for GitHub Enterprise Server.",
        )
    return url.rstrip("/")


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _message(reply: _Reply) -> str:
    """What the answer says, for telling limits apart."""
    is_json = "json" in reply.headers.get("content-type", "")
    return reply.content[:2000].decode("utf-8", "replace") if is_json else ""


def _limited(wait: Wait) -> GitHubLimited:
    sentence = {
        "allowance": "The hourly allowance of requests to GitHub is used up.",
        "reserve": "What is left of the hourly allowance of requests to GitHub is kept for people.",
        "secondary": "GitHub asks for a pause between requests.",
    }[wait.why]
    minutes = max(1, round(wait.seconds / 60))
    hint = f"Try again in {minutes} min." if wait.seconds >= 60 else f"Try again in {wait.seconds:.0f} s."
    return GitHubLimited(sentence, hint, wait_s=wait.seconds, why=wait.why)


def _broken(host: str, status: int, *, uncertain: bool) -> GitHubUnavailable:
    return GitHubUnavailable(
        f"{host} has a fault of its own ({status}).", "Try again later.", uncertain=uncertain
    )


def _elsewhere_refused(url: str, status: int) -> GitHubRefused:
    host = urlsplit(url).hostname
    return GitHubRefused(f"{host} does not give out the file ({status}).", "It may be gone.", status=status)


def _unreachable(host: str, error: Exception, *, uncertain: bool) -> GitHubUnavailable:
    if isinstance(error, httpx2.TimeoutException):
        reason = "did not answer in time"
    elif isinstance(error, httpx2.ConnectError):
        reason = "cannot be reached"
    else:
        reason = "closed the connection without an answer"
    return GitHubUnavailable(f"{host} {reason}.", "Is the network up?", uncertain=uncertain)
