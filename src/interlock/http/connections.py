"""Limits of connections: their number for each address, and the time for the head of a request.

uvicorn limits their number and their idle time between requests. It waits without limit for an unfinished
head, and for the rest of an abandoned body.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

#: The time limit for a head, from its first byte or the start of the connection.
HEAD_S = 10.0
#: The most connections from one address. Trusted proxies have no limit of their own.
PER_ADDRESS_MAX = 1_000
#: The most headers of a request, and the most chunks of a body without a length.
HEADERS_MAX, CHUNKS_MAX = 100, 1_024
#: How often the log reports that connections cannot be accepted.
REFUSALS_S = 60.0

#: The key in the scope of a request whose client has hung up.
_GONE = "interlock.gone"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ConnectionCounts:
    """Counts the connections of each address. Addresses of `trusted` networks have no limit but `most`."""

    def __init__(self, trusted: Sequence[Network], most: int) -> None:
        self._trusted, self._most = trusted, most
        self._count = 0
        self._counts: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a connection; false if there are too many, or too many from its address."""
        self._count += 1
        self._counts[address] += 1
        if self._count > self._most:
            return False
        return self._counts[address] <= PER_ADDRESS_MAX or self._is_trusted(address)

    def _is_trusted(self, address: str) -> bool:
        return any(ipaddress.ip_address(address) in network for network in self._trusted)

    def leave(self, address: str) -> None:
        self._count -= 1
        self._counts[address] -= 1
        if self._counts[address] <= 0:
            del self._counts[address]


def has_hung_up(scope: Mapping[str, Any]) -> bool:
    """Whether the client of a request is gone. Threads may ask."""
    return _GONE in scope


class RefusalLog:
    """Logs periodically that connections cannot be accepted: asyncio would log it thousands of times."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._next_s = tell, 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "_start_serving" in context["message"] and isinstance(context.get("exception"), ValueError):
            return  # asyncio retried to accept after the server had closed its socket
        if "socket.accept()" not in context["message"]:
            loop.default_exception_handler(context)
        elif loop.time() >= self._next_s:
            self._next_s = loop.time() + REFUSALS_S
            self._tell(str(context.get("exception")))


class _Lines(ReceiveBuffer):
    """A receive buffer with limits that h11 lacks.

    h11 takes longer for an empty header or a one-byte chunk than a client takes to send it, so both are
    limited. It merges equal lengths, so a second `Content-Length` is refused.
    """

    _chunks = 0

    def maybe_extract_next_line(self) -> bytearray | None:
        line = super().maybe_extract_next_line()
        self._chunks += line is not None
        if self._chunks > CHUNKS_MAX:
            raise h11.RemoteProtocolError("too many chunks", 400)
        return line

    def maybe_extract_lines(self) -> list[bytearray] | None:
        lines: list[bytearray] | None = super().maybe_extract_lines()
        if lines is not None:
            self._chunks = 0
            if len(lines) > HEADERS_MAX + 1:
                raise h11.RemoteProtocolError("too many headers", 431)
            lengths = [line for line in lines if line[:15].lower() == b"content-length:"]
            if len(lengths) > 1 or (lengths and b"," in lengths[0]):
                raise h11.RemoteProtocolError("more than one Content-Length", 400)
        return lines


class _Together:
    """A transport that sends all writes of one turn of the event loop together.

    uvicorn writes the head and the body of an answer separately, which would be two packets.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._written: list[bytes] = []

    def write(self, data: bytes) -> None:
        if data:
            if not self._written:
                self._loop.call_soon(self._send)
            self._written.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        written, self._written = self._written, []
        if written and not self._transport.is_closing():
            self._transport.write(b"".join(written))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def protocol(crowd: ConnectionCounts) -> type[asyncio.Protocol]:
    """The protocol class that uvicorn uses for each connection."""

    class Connection(H11Protocol):
        """A connection that is closed if the head of a request takes too long."""

        _timer: asyncio.TimerHandle | None = None
        _entered = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.transport = cast("asyncio.Transport", _Together(transport, self.loop))
            self.conn._receive_buffer = _Lines()
            self._entered = True
            if crowd.enter(self._address):
                self._watch()
            else:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._entered:
                self._entered = False
                crowd.leave(self._address)
            self._rest()
            if self.cycle is not None:
                cast("dict[str, Any]", self.cycle.scope)[_GONE] = True
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def send_400_response(self, msg: str) -> None:
            if self.conn.our_state is h11.SEND_RESPONSE or self.conn.our_state is h11.IDLE:
                super().send_400_response(msg)
            else:  # the answer is in progress, or was sent
                self.transport.abort()

        @property
        def _address(self) -> str:
            return self.client[0] if self.client else ""

        def _watch(self) -> None:
            """Wait for a head, unless a request is in progress."""
            cycle: Any = self.cycle
            if cycle is not None and not cycle.response_complete:
                self._rest()
            elif self._timer is None and not self.transport.is_closing():
                self._timer = self.loop.call_later(HEAD_S, self.transport.abort)

        def _rest(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Connection
