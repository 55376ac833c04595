"""Connections of a server: how many one address may have, and how long the head of a request may take.

uvicorn limits how many there are, and how long one may rest between requests. It waits for ever for a head
that never ends, and for the rest of a body that nobody reads any more.
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

#: How long a head may take to come, from its first byte or the beginning of the connection on.
HEAD_S = 10.0
#: How many connections one address may have; proxies that are trusted have no limit of their own.
PER_ADDRESS_MAX = 1_000
#: How many headers a request may have, and how many chunks a body without a length.
HEADERS_MAX, CHUNKS_MAX = 100, 1_024
#: How often the log says that connections cannot be accepted.
REFUSALS_S = 60.0

#: What is in the scope of a request whose client has hung up.
_GONE = "interlock.gone"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Crowd:
    """How many connections each address has; addresses of `trusted` networks have no limit but `most`."""

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


class Refusals:
    """Says now and then that connections cannot be accepted: asyncio would say it thousands of times."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._next_s = tell, 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "_start_serving" in context["message"] and isinstance(context.get("exception"), ValueError):
            return  # asyncio tries to accept again, and the server has closed its socket meanwhile
        if "socket.accept()" not in context["message"]:
            loop.default_exception_handler(context)
        elif loop.time() >= self._next_s:
            self._next_s = loop.time() + REFUSALS_S
            self._tell(str(context.get("exception")))


class _Lines(ReceiveBuffer):
    """What was received. A head has few lines and one length, of which h11 makes one if two are equal; and a
    body has few chunks: h11 takes longer for an empty header or a chunk of one byte than somebody to send it.
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


def protocol(crowd: Crowd) -> type[asyncio.Protocol]:
    """What uvicorn talks to each connection with."""

    class Connection(H11Protocol):
        """A connection that is closed if a request takes too long to begin."""

        _timer: asyncio.TimerHandle | None = None
        _entered = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
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
            else:  # the answer is under way, or was sent
                self.transport.abort()

        @property
        def _address(self) -> str:
            return self.client[0] if self.client else ""

        def _watch(self) -> None:
            """Wait for a head, unless a request is under way."""
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
