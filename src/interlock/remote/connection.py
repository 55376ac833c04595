"""Requests to a server: retried with the same idempotency key until an answer comes or a timeout expires.

If its answer was lost, a request may have been carried out. A server carries out a request only once for each
key, so a retry is safe. Requests are also retried while the server is unreachable, as with a database.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from interlock.core.cures import Cure
from interlock.core.errors import (
    EditRefused,
    InterlockError,
    InvalidInput,
    InvalidPlan,
    ItemEnded,
    StoreRefused,
    StoreUnavailable,
    TooManyRequests,
)
from interlock.core.row import NamedTuple
from interlock.core.store_outage import UNREACHABLE, StoreOutage
from interlock.remote.http_connection import BrokenAnswer, HttpConnection, ResponseHead
from interlock.remote.requests import ServerRequest

#: How long an answer may take beyond the request's own wait. The server may wait for its own database.
ANSWER_S, CONNECT_S = 120.0, 10.0
#: How long to wait for a server that closed the connection to show that it speaks TLS.
PROBE_S = 1.0
#: An event stream sends something more often than this.
SILENCE_S = 40.0
PAUSE_FIRST_S, PAUSE_MAX_S = 0.05, 1.0
ANSWER_MAX_BYTES = 256 << 20
#: The statuses of a server, or a proxy before it, that is temporarily unavailable.
_AGAIN = (502, 503, 504)
#: The errors of an unavailable server that a retry cannot fix.
_FINAL = ("store_refused", "store_replaced", "store_sealed", "schema_mismatch")


class ServerAnswer(NamedTuple):
    """The answer of a server."""

    status: int
    value: Any
    retry_after_s: float


class ServerConnection:
    """The connection to one server. Threads share it; each has its own socket."""

    def __init__(self, url: str, token: str | None, *, patience_s: float, outage: StoreOutage | None) -> None:
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
        if parts.path.rstrip("/").endswith("/v1"):
            raise InvalidInput("The server's URL ends with /v1.", "Omit `/v1`.")
        if token is not None and token.lower().startswith("bearer "):
            raise InvalidInput("The token begins with the word Bearer.", "Omit that word.")
        self._tls, self._host = parts.scheme.lower() == "https", parts.hostname
        self._port = port or (443 if self._tls else 80)
        self._prefix = parts.path.rstrip("/")
        self.place = f"{parts.scheme.lower()}://{parts.netloc}{self._prefix}"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._headers = {
            "Host": host if port is None else f"{host}:{port}",
            "User-Agent": "interlock",
            "Accept": "application/json",
        }
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._patience_s = patience_s
        self._outage = outage or StoreOutage()
        self._local = threading.local()
        #: The connections of all threads, to be closed at the end.
        self._open: set[HttpConnection] = set()
        self._context: Any = None
        #: Whether the server has answered in the protocol of the address, or was already probed for another
        #: one.
        self._understood = False

    # -- requests -------------------------------------------------------------------------------------

    def ask(self, request: ServerRequest, *, wait_s: float = 0.0) -> ServerAnswer:
        """The answer to a request, which is carried out once even if it is sent several times."""
        key = os.urandom(16).hex() if request.body is not None else None
        deadline_s = time.monotonic() + self._patience_s + wait_s
        pause_s = PAUSE_FIRST_S
        while True:
            error: InterlockError
            try:
                answer = self._send(request, key, ANSWER_S + wait_s)
            except (OSError, BrokenAnswer) as lost:
                self._disconnect()
                self._check_protocol(lost)
                error = self._unreachable(_why(lost))
            else:
                if answer.status == 429:
                    error = error_of(answer) if _is_problem(answer) else TooManyRequests("Asked too often.")
                    pause_s = max(pause_s, answer.retry_after_s)
                elif answer.status in _AGAIN and not _is_final(answer):
                    error = (
                        error_of(answer)
                        if _is_problem(answer)
                        else self._unreachable(f"status {answer.status}")
                    )
                else:
                    self._outage.answered()
                    return self._for_commands(answer)
            self._outage.attempt_failed(UNREACHABLE, time.monotonic())
            if time.monotonic() + pause_s > deadline_s and not self._outage.forever:
                raise error
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _send(self, request: ServerRequest, key: str | None, timeout_s: float) -> ServerAnswer:
        http = self._connected(timeout_s)
        headers = dict(self._headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        http.send(request.method, self._prefix + request.target, headers, request.body)
        head = http.head()
        self._understood = True
        value = _json(http.body(head, ANSWER_MAX_BYTES))
        if head.closes:
            self._disconnect()
        if value is None and head.status < 400:
            raise BrokenAnswer("what answers there is not an Interlock server")
        after = head.headers.get("retry-after", "0")
        return ServerAnswer(head.status, value, float(after) if after.isdigit() else 0.0)

    def _connected(self, timeout_s: float) -> HttpConnection:
        """The connection of this thread; a forked child opens its own."""
        local = self._local
        if getattr(local, "pid", None) != os.getpid() or local.connection is None:
            local.connection, local.pid = None, os.getpid()
            local.connection = self._new(CONNECT_S)
            self._open.add(local.connection)
        found: HttpConnection = local.connection
        found.wait_up_to(timeout_s)
        return found

    def _new(self, timeout_s: float) -> HttpConnection:
        if self._tls and self._context is None:
            import ssl  # noqa: PLC0415  (it takes long to import)

            self._context = ssl.create_default_context()
        return HttpConnection(self._host, self._port, timeout_s, self._context)

    def _for_commands(self, answer: ServerAnswer) -> ServerAnswer:
        """A server's answer for HTTP programs, reworded for users of commands."""
        if answer.status != 401 or not _is_problem(answer) or "Authorization" in self._headers:
            return answer
        said = {
            "detail": f"There is no token for the server {self.place}.",
            "advice": "Set INTERLOCK_TOKEN (`interlock token create` makes one, where the server runs), or"
            " keep a token for exactly this address in ~/.config/interlock/tokens.json.",
        }
        return answer._replace(value={**answer.value, **said})

    def _check_protocol(self, lost: Exception) -> None:
        """Raise `StoreRefused` if a server is there and no retry can make us understand each other."""
        why = getattr(lost, "verify_message", None)
        if why is not None:
            named = getattr(lost, "verify_code", 0) in (62, 64)  # issued for another name or IP address
            raise StoreRefused(
                f"The certificate of the server {self.place} is not trusted here: {str(why).rstrip('.')}.",
                "Use a name that the certificate has." if named else _certificate_hint(),
            ) from None
        if getattr(lost, "reason", None) in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            raise StoreRefused(
                f"The server {self.place} speaks http, not https.", "Check INTERLOCK_URL."
            ) from None
        if self._tls or self._understood or not isinstance(lost, BrokenAnswer | ConnectionResetError):
            return
        if self._speaks_tls():
            raise StoreRefused(
                f"The server {self.place} speaks https, not http.", "Check INTERLOCK_URL."
            ) from None
        self._understood = True  # probe only once

    def _speaks_tls(self) -> bool:
        import ssl  # noqa: PLC0415

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # no data is sent
        try:
            HttpConnection(self._host, self._port, PROBE_S, context).close()
        except OSError:
            return False
        return True

    def _unreachable(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"The server {self.place} cannot be reached ({why}).", "Is it running? Check INTERLOCK_URL."
        )

    # -- streams --------------------------------------------------------------------------------------

    def stream(self, target: str, after: int | None) -> Iterator[tuple[int, Any]]:
        """Events with their numbers, endlessly. After a reconnect it resumes after the last event."""
        deadline_s: float | None = None
        while True:
            try:
                for after, event in self._stream(target, after):  # noqa: B020, PLR1704  (goes on from there)
                    deadline_s = None
                    self._outage.answered()
                    yield after, event
                raise BrokenAnswer("the stream ended")
            except (OSError, BrokenAnswer) as lost:
                self._check_protocol(lost)
                now_s = time.monotonic()
                deadline_s = deadline_s or now_s + self._patience_s
                self._outage.attempt_failed(UNREACHABLE, now_s)
                if now_s > deadline_s and not self._outage.forever:
                    raise self._unreachable(_why(lost)) from None
                time.sleep(PAUSE_FIRST_S * 4)

    def _stream(self, target: str, after: int | None) -> Iterator[tuple[int, Any]]:
        http = self._new(CONNECT_S)
        http.wait_up_to(SILENCE_S)
        headers = {**self._headers, "Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        try:
            http.send("GET", self._prefix + target, headers, None)
            head = http.head()
            self._understood = True
            if head.status != 200:
                problem = self._for_commands(ServerAnswer(head.status, _json(http.body(head, 1 << 20)), 0.0))
                if head.status in (*_AGAIN, 429) and not _is_final(problem):
                    raise BrokenAnswer(f"status {head.status}")
                raise error_of(problem)
            yield from _events(http, head)
        finally:
            http.close()

    def _disconnect(self) -> None:
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


def _events(http: HttpConnection, head: ResponseHead) -> Iterator[tuple[int, Any]]:
    number, data = 0, ""
    while line := http.line_of(head):
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            data = value
        elif not name and data:
            yield number, json.loads(data)
            data = ""


def _certificate_hint() -> str:
    """The hint for a certificate from an unknown authority."""
    file = os.environ.get("SSL_CERT_FILE", "")
    if file and not os.access(file, os.R_OK):
        return f"SSL_CERT_FILE names {file}, which is not there or cannot be read."
    return "SSL_CERT_FILE names a file of certificates to trust."


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _why(lost: Exception) -> str:
    return str(getattr(lost, "strerror", None) or str(lost) or type(lost).__name__)


def _is_problem(answer: ServerAnswer) -> bool:
    return isinstance(answer.value, dict) and isinstance(answer.value.get("code"), str)


def _is_final(answer: ServerAnswer) -> bool:
    return _is_problem(answer) and answer.value["code"] in _FINAL


def error_of(answer: ServerAnswer) -> InterlockError:
    """The error for a problem document, as the service would have raised it."""
    if not _is_problem(answer):
        return InvalidInput(f"The server answered with status {answer.status}.", "Is it an Interlock server?")
    from interlock.service import wire  # noqa: PLC0415  (where an error is read)

    problem = answer.value
    kind = _kinds(InterlockError).get(problem["code"], InterlockError)
    error = kind.__new__(kind)
    sentence, hint = str(problem.get("detail", "")), str(problem.get("hint", ""))
    Exception.__init__(error, sentence)
    error.sentence, error.hint = sentence, str(problem.get("advice", hint))
    error.cures = wire.read(tuple[Cure, ...], problem.get("cures", []), what="cures")
    error.fields = tuple(problem.get("fields", ()))
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
