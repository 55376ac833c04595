"""Requests to a server: sent again, under the same key, until an answer comes or patience ends.

A request whose answer was lost may have been carried out. A server carries a request out once for each key,
so that it may be sent again. While the server is away it is waited for, as for a database.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from interlock.core.absence import Absence
from interlock.core.errors import (
    EditRefused,
    InterlockError,
    InvalidInput,
    InvalidPlan,
    ItemEnded,
    StoreUnavailable,
    TooManyRequests,
)
from interlock.core.row import NamedTuple
from interlock.remote.writing import Request

#: How long an answer may take beyond what the request waits for. The server may wait for its own database.
ANSWER_S, CONNECT_S = 120.0, 10.0
#: An event stream says something more often than this.
SILENCE_S = 40.0
PAUSE_FIRST_S, PAUSE_MAX_S = 0.05, 1.0
ANSWER_MAX_BYTES = 256 << 20
#: What a server, or a proxy before it, says while it cannot serve.
_AGAIN = (502, 503, 504)
#: Of a server that cannot serve: waiting does not mend these.
_FINAL = ("store_refused", "store_replaced", "store_sealed", "schema_mismatch")


class Answer(NamedTuple):
    """What a server said."""

    status: int
    value: Any
    retry_after_s: float


class Connection:
    """The way to one server. Threads share it; each has a socket of its own."""

    def __init__(self, url: str, token: str | None, *, patience_s: float, absence: Absence | None) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidInput("The server's URL names no host and port.", "Use https://host:port.") from None
        if (
            parts.scheme.lower() not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
        ):
            raise InvalidInput("The server's URL is not complete.", "Use https://host:port.")
        if parts.username is not None or parts.password is not None:
            raise InvalidInput(
                "The server's URL has a user or a password, which would be shown.", "Use INTERLOCK_TOKEN."
            )
        self._tls, self._host, self._port = parts.scheme.lower() == "https", parts.hostname, port
        self._prefix = parts.path.rstrip("/")
        self.place = f"{parts.scheme.lower()}://{parts.netloc}{self._prefix}"
        self._headers = {"User-Agent": "interlock", "Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._patience_s = patience_s
        self._absence = absence or Absence()
        self._local = threading.local()
        #: Those of all threads, to be closed at the end.
        self._open: set[http.client.HTTPConnection] = set()
        self._context: Any = None

    # -- requests -------------------------------------------------------------------------------------

    def ask(self, request: Request, *, wait_s: float = 0.0) -> Answer:
        """The answer to a request, which is carried out once however often it is sent."""
        key = os.urandom(16).hex() if request.body is not None else None
        deadline_s = time.monotonic() + self._patience_s + wait_s
        pause_s = PAUSE_FIRST_S
        while True:
            error: InterlockError
            try:
                answer = self._send(request, key, ANSWER_S + wait_s)
            except (OSError, http.client.HTTPException) as lost:
                self._hang_up()
                error = self._away(_why(lost))
            else:
                if answer.status == 429:
                    error = error_of(answer) if _is_problem(answer) else TooManyRequests("Asked too often.")
                    pause_s = max(pause_s, answer.retry_after_s)
                elif answer.status in _AGAIN and not _is_final(answer):
                    error = error_of(answer) if _is_problem(answer) else self._away(f"status {answer.status}")
                else:
                    self._absence.answered()
                    return answer
            self._absence.missed("The server is away", time.monotonic())
            if time.monotonic() + pause_s > deadline_s and not self._absence.forever:
                raise error
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _send(self, request: Request, key: str | None, timeout_s: float) -> Answer:
        connection = self._connected(timeout_s)
        headers = dict(self._headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        connection.request(request.method, self._prefix + request.target, request.body, headers)
        answer = connection.getresponse()
        text = answer.read(ANSWER_MAX_BYTES)
        if answer.will_close:
            self._hang_up()
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if value is None and answer.status < 400:
            raise http.client.HTTPException("what answers there is not an Interlock server")
        after = answer.headers.get("Retry-After", "0")
        return Answer(answer.status, value, float(after) if after.isdigit() else 0.0)

    def _connected(self, timeout_s: float) -> http.client.HTTPConnection:
        """This thread's connection; a forked child opens its own."""
        local = self._local
        if getattr(local, "pid", None) != os.getpid() or local.connection is None:
            local.connection, local.pid = self._new(CONNECT_S), os.getpid()
            local.connection.connect()
            self._open.add(local.connection)
            local.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found: http.client.HTTPConnection = local.connection
        if found.sock is not None:
            found.sock.settimeout(timeout_s)
        return found

    def _new(self, timeout_s: float) -> http.client.HTTPConnection:
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        if self._context is None:
            import ssl  # noqa: PLC0415  (it takes long to import)

            self._context = ssl.create_default_context()
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)

    def _away(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"The server {self.place} cannot be reached ({why}).", "Is it running? Look at INTERLOCK_URL."
        )

    # -- streams --------------------------------------------------------------------------------------

    def stream(self, target: str, after: int | None) -> Iterator[tuple[int, Any]]:
        """Events by their numbers, without end; it goes on behind the last one when the server comes back."""
        deadline_s: float | None = None
        while True:
            try:
                for after, event in self._stream(target, after):  # noqa: B020, PLR1704  (goes on from there)
                    deadline_s = None
                    self._absence.answered()
                    yield after, event
                raise http.client.HTTPException("the stream ended")
            except (OSError, http.client.HTTPException) as lost:
                now_s = time.monotonic()
                deadline_s = deadline_s or now_s + self._patience_s
                self._absence.missed("The server is away", now_s)
                if now_s > deadline_s and not self._absence.forever:
                    raise self._away(_why(lost)) from None
                time.sleep(PAUSE_FIRST_S * 4)

    def _stream(self, target: str, after: int | None) -> Iterator[tuple[int, Any]]:
        connection = self._new(SILENCE_S)
        headers = {**self._headers, "Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        try:
            connection.request("GET", self._prefix + target, headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                problem = Answer(answer.status, _json(answer.read(1 << 20)), 0.0)
                if answer.status in (*_AGAIN, 429) and not _is_final(problem):
                    raise http.client.HTTPException(f"status {answer.status}")
                raise error_of(problem)
            yield from _events(answer)
        finally:
            connection.close()

    def _hang_up(self) -> None:
        """Close this thread's connection; the next request opens another."""
        if getattr(self._local, "pid", None) == os.getpid() and self._local.connection is not None:
            self._open.discard(self._local.connection)
            with suppress(OSError):
                self._local.connection.close()
            self._local.connection = None

    def close(self) -> None:
        """Close the connections of all threads."""
        while self._open:
            with suppress(OSError):
                self._open.pop().close()
        self._local = threading.local()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[int, Any]]:
    number, data = 0, ""
    while line := answer.readline():
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            data = value
        elif not name and data:
            yield number, json.loads(data)
            data = ""


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _why(lost: Exception) -> str:
    return str(getattr(lost, "strerror", None) or str(lost) or type(lost).__name__)


def _is_problem(answer: Answer) -> bool:
    return isinstance(answer.value, dict) and isinstance(answer.value.get("code"), str)


def _is_final(answer: Answer) -> bool:
    return _is_problem(answer) and answer.value["code"] in _FINAL


def error_of(answer: Answer) -> InterlockError:
    """The error that a problem stands for, as the service would have raised it."""
    if not _is_problem(answer):
        return InvalidInput(f"The server answered with status {answer.status}.", "Is it an Interlock server?")
    problem = answer.value
    kind = _kinds(InterlockError).get(problem["code"], InterlockError)
    error = kind.__new__(kind)
    sentence, hint = str(problem.get("detail", "")), str(problem.get("hint", ""))
    Exception.__init__(error, sentence)
    error.sentence, error.hint = sentence, hint
    if isinstance(error, EditRefused | InvalidPlan):
        error.reasons = tuple(problem.get("reasons") or (sentence,))
    if isinstance(error, ItemEnded):
        error.reason = str(problem.get("reason", ""))
    if kind is InterlockError:
        vars(error)["code"] = problem["code"]
    return error


def _kinds(kind: type[InterlockError]) -> dict[str, type[InterlockError]]:
    """Every kind of error by its code."""
    found = {kind.code: kind}
    for each in kind.__subclasses__():
        found |= {code: more for code, more in _kinds(each).items() if code not in found}
    return found
