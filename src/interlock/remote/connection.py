"""Requests to a server: sent again, under the same key, until an answer comes or patience ends.

A request whose answer was lost may have been carried out. A server carries a request out once for each key,
so that it may be sent again. While the server is away it is waited for, as for a database.
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

from interlock.core.absence import UNREACHABLE, Absence
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
from interlock.remote.talk import Broken, Head, Talk
from interlock.remote.writing import Request

#: How long an answer may take beyond what the request waits for. The server may wait for its own database.
ANSWER_S, CONNECT_S = 120.0, 10.0
#: How long a server that hung up may take to show that it speaks TLS.
PROBE_S = 1.0
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
        if parts.path.rstrip("/").endswith("/v1"):
            raise InvalidInput("The server's URL ends with /v1.", "Leave /v1 away.")
        if token is not None and token.lower().startswith("bearer "):
            raise InvalidInput("The token begins with the word Bearer.", "Leave that word out.")
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
        self._absence = absence or Absence()
        self._local = threading.local()
        #: Those of all threads, to be closed at the end.
        self._open: set[Talk] = set()
        self._context: Any = None
        #: Whether the server has answered in the protocol of the address, or was asked if it has another.
        self._understood = False

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
            except (OSError, Broken) as lost:
                self._hang_up()
                self._check_protocol(lost)
                error = self._away(_why(lost))
            else:
                if answer.status == 429:
                    error = error_of(answer) if _is_problem(answer) else TooManyRequests("Asked too often.")
                    pause_s = max(pause_s, answer.retry_after_s)
                elif answer.status in _AGAIN and not _is_final(answer):
                    error = error_of(answer) if _is_problem(answer) else self._away(f"status {answer.status}")
                else:
                    self._absence.answered()
                    return self._for_commands(answer)
            self._absence.missed(UNREACHABLE, time.monotonic())
            if time.monotonic() + pause_s > deadline_s and not self._absence.forever:
                raise error
            time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _send(self, request: Request, key: str | None, timeout_s: float) -> Answer:
        talk = self._connected(timeout_s)
        headers = dict(self._headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        talk.send(request.method, self._prefix + request.target, headers, request.body)
        head = talk.head()
        self._understood = True
        value = _json(talk.body(head, ANSWER_MAX_BYTES))
        if head.closes:
            self._hang_up()
        if value is None and head.status < 400:
            raise Broken("what answers there is not an Interlock server")
        after = head.headers.get("retry-after", "0")
        return Answer(head.status, value, float(after) if after.isdigit() else 0.0)

    def _connected(self, timeout_s: float) -> Talk:
        """This thread's connection; a forked child opens its own."""
        local = self._local
        if getattr(local, "pid", None) != os.getpid() or local.connection is None:
            local.connection, local.pid = None, os.getpid()
            local.connection = self._new(CONNECT_S)
            self._open.add(local.connection)
        found: Talk = local.connection
        found.wait_up_to(timeout_s)
        return found

    def _new(self, timeout_s: float) -> Talk:
        if self._tls and self._context is None:
            import ssl  # noqa: PLC0415  (it takes long to import)

            self._context = ssl.create_default_context()
        return Talk(self._host, self._port, timeout_s, self._context)

    def _for_commands(self, answer: Answer) -> Answer:
        """What a server says to programs that speak HTTP, in words for the users of a command."""
        if answer.status != 401 or not _is_problem(answer) or "Authorization" in self._headers:
            return answer
        said = {
            "detail": f"There is no token for the server {self.place}.",
            "hint": "Set INTERLOCK_TOKEN (`interlock token create` makes one, where the server runs), or keep"
            " a token for exactly this address in ~/.config/interlock/tokens.json.",
        }
        return answer._replace(value={**answer.value, **said})

    def _check_protocol(self, lost: Exception) -> None:
        """`StoreRefused` if a server is there, and waiting will not let us speak with it."""
        why = getattr(lost, "verify_message", None)
        if why is not None:
            named = getattr(lost, "verify_code", 0) in (62, 64)  # for another name, or another IP address
            raise StoreRefused(
                f"The certificate of the server {self.place} is not trusted here: {str(why).rstrip('.')}.",
                "Use a name that the certificate has." if named else _trusted_words(),
            ) from None
        if getattr(lost, "reason", None) in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            raise StoreRefused(
                f"The server {self.place} speaks http, not https.", "Look at INTERLOCK_URL."
            ) from None
        if self._tls or self._understood or not isinstance(lost, Broken | ConnectionResetError):
            return
        if self._speaks_tls():
            raise StoreRefused(
                f"The server {self.place} speaks https, not http.", "Look at INTERLOCK_URL."
            ) from None
        self._understood = True  # asked once

    def _speaks_tls(self) -> bool:
        import ssl  # noqa: PLC0415

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
        try:
            Talk(self._host, self._port, PROBE_S, context).close()
        except OSError:
            return False
        return True

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
                raise Broken("the stream ended")
            except (OSError, Broken) as lost:
                self._check_protocol(lost)
                now_s = time.monotonic()
                deadline_s = deadline_s or now_s + self._patience_s
                self._absence.missed(UNREACHABLE, now_s)
                if now_s > deadline_s and not self._absence.forever:
                    raise self._away(_why(lost)) from None
                time.sleep(PAUSE_FIRST_S * 4)

    def _stream(self, target: str, after: int | None) -> Iterator[tuple[int, Any]]:
        talk = self._new(CONNECT_S)
        talk.wait_up_to(SILENCE_S)
        headers = {**self._headers, "Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        try:
            talk.send("GET", self._prefix + target, headers, None)
            head = talk.head()
            self._understood = True
            if head.status != 200:
                problem = self._for_commands(Answer(head.status, _json(talk.body(head, 1 << 20)), 0.0))
                if head.status in (*_AGAIN, 429) and not _is_final(problem):
                    raise Broken(f"status {head.status}")
                raise error_of(problem)
            yield from _events(talk, head)
        finally:
            talk.close()

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


def _events(talk: Talk, head: Head) -> Iterator[tuple[int, Any]]:
    number, data = 0, ""
    while line := talk.line_of(head):
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            data = value
        elif not name and data:
            yield number, json.loads(data)
            data = ""


def _trusted_words() -> str:
    """What to do about a certificate that nobody here vouches for."""
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
