"""HTTP/1.1 over a socket: as much of it as requests to a server need.

`http.client` imports the reader of e-mail and TLS, which takes longer than all the rest of a command.
"""

from __future__ import annotations

import socket
from typing import IO, Any

from interlock.core.errors import InvalidInput
from interlock.core.row import NamedTuple

LINE_MAX_BYTES, LINES_MAX = 64 << 10, 200
EVENT_MAX_BYTES = 64 << 20


class Broken(Exception):
    """What came is no whole answer of a server."""


class Head(NamedTuple):
    """The beginning of an answer; names of headers are in small letters."""

    status: int
    headers: dict[str, str]

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


class Talk:
    """One connection to a server. Requests follow each other."""

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
        """Send a request. A server that has heard enough may hang up before the end; its answer is there."""
        if body is not None:
            headers = {**headers, "Content-Length": str(len(body))}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if any("\r" in line or "\n" in line or not line.isascii() for line in lines):
            raise InvalidInput("The token or the address is not plain text.", "Look at INTERLOCK_TOKEN.")
        try:
            self._sock.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        except (BrokenPipeError, ConnectionResetError):
            if body is None:
                raise

    def head(self) -> Head:
        """The beginning of the answer."""
        while True:
            words = self._line().split(" ", 2)
            if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
                raise Broken("what answers there does not speak HTTP")
            headers: dict[str, str] = {}
            for _ in range(LINES_MAX):
                line = self._line()
                if not line:
                    break
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            else:
                raise Broken("its answer has too many headers")
            if int(words[1]) >= 200:  # else it only says that it goes on
                return Head(int(words[1]), headers)

    def body(self, head: Head, most: int) -> bytes:
        """All of the answer."""
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
            raise Broken("its answer has no length")
        _check_size(int(length), most)
        return self._exactly(int(length))

    def line_of(self, head: Head) -> bytes:
        """The next line of an answer without end; empty where it ends."""
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

    #: What has come of a line that is not whole yet.
    _rest = b""

    def _chunk(self) -> bytes:
        """The next part of an answer in parts; empty at its end."""
        try:
            size = int(self._line().partition(";")[0], 16)
        except ValueError:
            raise Broken("a part of its answer has no length") from None
        part = self._exactly(size)
        while self._line() and not size:  # headers may follow the last part
            pass
        return part

    def _line(self) -> str:
        line = self._file.readline(LINE_MAX_BYTES)
        if not line.endswith(b"\n"):
            raise Broken("it hung up")
        return line.decode("latin-1").rstrip("\r\n")

    def _exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) != size:
            raise Broken("it hung up")
        return found


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise Broken("its answer is too large")
