"""HTTP/1.1 over a socket: only the parts that requests to a server need.

`http.client` imports the e-mail parser and TLS, which takes longer than the rest of a command.
"""

from __future__ import annotations

import socket
from typing import IO, Any

from interlock.core.errors import InvalidInput
from interlock.core.row import NamedTuple

LINE_MAX_BYTES, LINES_MAX = 64 << 10, 200
EVENT_MAX_BYTES = 64 << 20


class BrokenAnswer(Exception):
    """The data is not a complete HTTP answer."""


class ResponseHead(NamedTuple):
    """The status and headers of an answer. Header names are in lower case."""

    status: int
    headers: dict[str, str]

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


class HttpConnection:
    """One connection to a server, with one request at a time."""

    def __init__(self, host: str, port: int, timeout_s: float, context: Any) -> None:
        sock = socket.create_connection((host, port), timeout_s)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sock: socket.socket = context.wrap_socket(sock, server_hostname=host) if context else sock
        except BaseException:
            sock.close()
            raise
        self._file: IO[bytes] = self._sock.makefile("rb")

    def wait_up_to(self, timeout_s: float) -> None:
        self._sock.settimeout(timeout_s)

    def close(self) -> None:
        self._file.close()
        self._sock.close()

    def send(self, method: str, target: str, headers: dict[str, str], body: bytes | None) -> None:
        """Send a request. A server may answer and close the connection early; its answer can still be
        read."""
        if body is not None:
            headers = {**headers, "Content-Length": str(len(body))}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if any("\r" in line or "\n" in line or not line.isascii() for line in lines):
            raise InvalidInput("The token or the address is not plain text.", "Check INTERLOCK_TOKEN.")
        try:
            self._sock.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        except (BrokenPipeError, ConnectionResetError):
            if body is None:
                raise

    def head(self) -> ResponseHead:
        """Read the status and headers of the answer."""
        while True:
            words = self._line().split(" ", 2)
            if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
                raise BrokenAnswer("what answers there does not speak HTTP")
            headers: dict[str, str] = {}
            for _ in range(LINES_MAX):
                line = self._line()
                if not line:
                    break
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            else:
                raise BrokenAnswer("its answer has too many headers")
            if int(words[1]) >= 200:  # smaller ones are interim answers
                return ResponseHead(int(words[1]), headers)

    def body(self, head: ResponseHead, most: int) -> bytes:
        """Read the whole body."""
        if head.headers.get("transfer-encoding", "").lower() == "chunked":
            parts, size = [], 0
            while part := self._chunk():
                parts.append(part)
                size += len(part)
                _check_size(size, most)
            return b"".join(parts)
        length = head.headers.get("content-length")
        if length is None:
            return self._file.read(most)
        if not length.isdigit():
            raise BrokenAnswer("its answer has no length")
        _check_size(int(length), most)
        return self._read_exactly(int(length))

    def line_of(self, head: ResponseHead) -> bytes:
        """Read the next line of a streamed answer; empty at its end."""
        if head.headers.get("transfer-encoding", "").lower() != "chunked":
            return self._file.readline(EVENT_MAX_BYTES)
        while b"\n" not in self._rest:
            part = self._chunk()
            if not part:
                return b""
            self._rest += part
            _check_size(len(self._rest), EVENT_MAX_BYTES)
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"

    #: The received part of an incomplete line.
    _rest = b""

    def _chunk(self) -> bytes:
        """Read the next chunk of a chunked answer; empty at its end."""
        try:
            size = int(self._line().partition(";")[0], 16)
        except ValueError:
            raise BrokenAnswer("a part of its answer has no length") from None
        part = self._read_exactly(size)
        while self._line() and not size:  # trailers may follow the last chunk
            pass
        return part

    def _line(self) -> str:
        line = self._file.readline(LINE_MAX_BYTES)
        if not line.endswith(b"\n"):
            raise BrokenAnswer("it hung up")
        return line.decode("latin-1").rstrip("\r\n")

    def _read_exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) != size:
            raise BrokenAnswer("it hung up")
        return found


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise BrokenAnswer("its answer is too large")
