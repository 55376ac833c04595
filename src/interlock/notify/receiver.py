"""A receiver of notices: its address, the signature of a request, and one request to it.

Requests follow Standard Webhooks: the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, an
HMAC-SHA256 over all three parts. No redirect is followed: a notice goes to no other address than the one that
the user has set. The address may be a secret, as Slack's are, so sentences name its host only.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import quote, urlsplit

from interlock.core.errors import InvalidInput
from interlock.core.names import URL_MAX_CHARS
from interlock.core.row import NamedTuple
from interlock.service.relay import EffectFailed, EffectLimited, EffectUnavailable
from interlock.settings import Settings, listed

#: How long a connection, and all of a request without the look-up of the host's name, may take.
CONNECT_S, REQUEST_S = 5.0, 20.0
#: How much of an answer is read, to tell a person why a notice was refused.
ANSWER_BYTES = 300
RECEIVERS_MAX = 10
#: The longest wait that a receiver may ask for.
WAIT_MAX_S, UNNAMED_WAIT_S = 3600.0, 60.0
SECRET_VARIABLE = "INTERLOCK_NOTIFY_SECRET"  # noqa: S105  (its name)
#: The fewest bytes of a secret, as the standard has it.
SECRET_MIN_BYTES = 24
_PREFIX = "whsec_"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_HINT = "Write it as https://HOST/PATH."


class Receiver(NamedTuple):
    """Where notices are sent."""

    tls: bool
    #: The name of the host, and its port.
    hostname: str
    port: int | None
    #: The path and the query of a request.
    target: str
    #: A number made from the address, which tells receivers apart in a store without telling the address.
    number: int

    @property
    def repository(self) -> int:
        """Its id among the repositories of the outbox."""
        return -self.number

    @property
    def host(self) -> str:
        """The host, as people see it and as the header `Host` has it."""
        name = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return name if self.port is None else f"{name}:{self.port}"


class ReceiverAnswer(NamedTuple):
    """An accepted notice."""

    status: int
    seconds: float


def receiver_at(address: str, http_hosts: Sequence[str] = ()) -> Receiver:
    """The receiver at an address, if notices may be sent there."""
    if len(address) > URL_MAX_CHARS:
        raise InvalidInput(f"An address in notify_urls has over {URL_MAX_CHARS:,} characters.", _HINT)
    try:
        parts = urlsplit(address)
        port, name = parts.port, parts.hostname
    except ValueError:
        raise InvalidInput("An address in notify_urls names no host and port.", _HINT) from None
    if (
        parts.scheme not in ("http", "https")
        or not name
        or not name.isascii()
        or re.search(r"[\s\x00-\x20\x7f]", address)
    ):
        raise InvalidInput("An address in notify_urls is not an https URL.", _HINT)
    if parts.username is not None or parts.fragment:
        raise InvalidInput(f"The address of {name} in notify_urls has a user or a fragment.", _HINT)
    if parts.scheme == "http" and name not in _LOOPBACK and name not in http_hosts:
        raise InvalidInput(
            f"Notices to {name} would be sent without encryption.",
            "Use https, or name the host in notify_http_hosts.",
        )
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    # 56 bits: an id in the store has at most 18 digits.
    number = 1 + int.from_bytes(hashlib.sha256(address.encode()).digest()[:7])
    return Receiver(parts.scheme == "https", name, port, target, number)


def receivers_of(settings: Settings) -> tuple[Receiver, ...]:
    """The receivers of the settings, each once."""
    addresses = tuple(dict.fromkeys(settings.notify_urls or ()))
    if len(addresses) > RECEIVERS_MAX:
        raise InvalidInput(
            f"notify_urls has {len(addresses)} addresses: at most {RECEIVERS_MAX}.", "Name fewer."
        )
    hosts = listed(settings.notify_http_hosts)
    return tuple(receiver_at(address, hosts) for address in addresses)


def keys_of(environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """The keys that sign: of one secret, or of a new and an old one while receivers change over."""
    return tuple(_key(secret) for secret in environ.get(SECRET_VARIABLE, "").split())


def _key(secret: str) -> bytes:
    key = secret.encode()
    if secret.startswith(_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput(
                f"{SECRET_VARIABLE} has no valid base64 after {_PREFIX}.",
                "Make a secret: echo whsec_$(openssl rand -base64 32)",
            ) from None
    if len(key) < SECRET_MIN_BYTES:
        raise InvalidInput(
            f"{SECRET_VARIABLE} has {len(key)} bytes, too few for a key.",
            "Make a secret: echo whsec_$(openssl rand -base64 32)",
        )
    return key


def signature(keys: Sequence[bytes], delivery: str, at_s: int, body: bytes) -> str:
    """The header `webhook-signature`: a signature by each key."""
    signed = f"{delivery}.{at_s}.".encode() + body
    made = (base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
    return " ".join(f"v1,{each}" for each in made)


def post(
    receiver: Receiver,
    delivery: str,
    body: bytes,
    keys: Sequence[bytes],
    *,
    request_s: float = REQUEST_S,
) -> ReceiverAnswer:
    """Send one notice. Any answer but a success raises an error of the relay."""
    at_s, begun = int(time.time()), time.monotonic()
    headers = {
        "Host": receiver.host,
        "Content-Type": "application/json",
        "User-Agent": "interlock",
        "Connection": "close",
        "webhook-id": delivery,
        "webhook-timestamp": str(at_s),
    }
    if keys:
        headers["webhook-signature"] = signature(keys, delivery, at_s, body)
    connection = http.client.HTTPConnection(receiver.hostname, receiver.port)
    cut = _CutOff(request_s)
    try:
        connection.sock = cut.connected(receiver)
        connection.request("POST", receiver.target, body, headers)
        answer = connection.getresponse()
        said = b"" if 200 <= answer.status < 300 else answer.read(ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise EffectUnavailable(f"{receiver.host} {_why(error, late=cut.late)}.") from error
    finally:
        cut.stop()
        connection.close()
    _check(receiver, answer, said)
    return ReceiverAnswer(answer.status, time.monotonic() - begun)


class _CutOff:
    """Ends a connection after a time. A time-out of the socket bounds one read only: a receiver that sends a
    byte now and then would hold us."""

    def __init__(self, after_s: float) -> None:
        self.late = False
        self._after_s = after_s
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(after_s, self._cut)
        self._timer.daemon = True

    def connected(self, receiver: Receiver) -> socket.socket:
        """A connection to the receiver, encrypted if its address says so."""
        port = receiver.port or (443 if receiver.tls else 80)
        made = socket.create_connection((receiver.hostname, port), min(CONNECT_S, self._after_s))
        made.settimeout(self._after_s)
        self._socket = made
        self._timer.start()
        if receiver.tls:
            context = ssl.create_default_context()
            made = context.wrap_socket(made, server_hostname=receiver.hostname, do_handshake_on_connect=False)
            self._socket = made
            made.do_handshake()
        return made

    def stop(self) -> None:
        self._timer.cancel()
        if self._socket is not None:
            self._socket.close()

    def _cut(self) -> None:
        self.late = True
        if self._socket is not None:
            with suppress(OSError):
                # Not the method of an encrypted socket: it would take the encryption from the reader's hands.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _check(receiver: Receiver, answer: http.client.HTTPResponse, said: bytes) -> None:
    """Raise unless the notice was accepted."""
    status = answer.status
    if 200 <= status < 300:
        return
    told = f"{receiver.host} answered with {status}{_words(said)}"
    if 300 <= status < 400:
        where = urlsplit(answer.headers.get("location", "")).hostname or "another address"
        raise EffectFailed(f"{receiver.host} redirects to {where}. Redirects are not followed.")
    if status == 429 or (status == 503 and "retry-after" in answer.headers):
        raise EffectLimited(f"{told}.", _wait_s(answer.headers.get("retry-after", "")))
    if status >= 500 or status == 408:
        raise EffectUnavailable(f"{told}.")
    raise EffectFailed(f"{told}.")


def _words(said: bytes) -> str:
    """The first words of an answer, on one line."""
    text = "".join(c if c.isprintable() else " " for c in said.decode("utf-8", "replace"))
    words = " ".join(text.split())[:200].rstrip(".")
    return f": {words}" if words else ""


def _wait_s(text: str) -> float:
    return min(max(1.0, float(text)), WAIT_MAX_S) if re.fullmatch(r"[0-9]{1,9}", text) else UNNAMED_WAIT_S


def _why(error: Exception, *, late: bool) -> str:
    if late or isinstance(error, TimeoutError):
        return "did not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"has no valid certificate: {error.verify_message}"
    if isinstance(error, socket.gaierror):
        return "is an unknown host"
    if isinstance(error, ConnectionRefusedError):
        return "refused the connection"
    if isinstance(error, ssl.SSLError):
        return "does not speak TLS as expected"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError):
        return "closed the connection without an answer"
    if isinstance(error, http.client.HTTPException):
        return "sent an unreadable answer"
    return "cannot be reached"
