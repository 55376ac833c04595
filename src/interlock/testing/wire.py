"""A wire between PostgreSQL clients and their server that counts what the server answers.

Every client works through it, whatever its driver: a round trip is one `ReadyForQuery`, a commit one `COMMIT`
that the server completed, or a statement that it committed by itself.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, urlsplit

_HEADER_BYTES = 5
_READ_BYTES = 1 << 16


class CountingWire:
    """A listener on this host that passes everything on to one server."""

    def __init__(self, url: str) -> None:
        """`url` names a server by its socket directory, as those of `testing.postgres` do."""
        parts = urlsplit(url)
        directory = parse_qs(parts.query)["host"][0]
        port = parse_qs(parts.query).get("port", ["5432"])[0]
        self._server = f"{directory}/.s.PGSQL.{port}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        user = quote(parts.username or "postgres")
        self.url = (
            f"postgresql://{user}@127.0.0.1:{self._listener.getsockname()[1]}{parts.path}"
            "?sslmode=disable&gssencmode=disable"
        )
        self._lock = threading.Lock()
        self.round_trips = 0
        self.statements = 0
        self._sockets: list[socket.socket] = [self._listener]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._sockets:
            each.close()

    @contextmanager
    def counted(self) -> Iterator[Counted]:
        """What passes while the block runs."""
        with self._lock:
            trips, statements = self.round_trips, self.statements
        counted = Counted()
        yield counted
        with self._lock:
            counted.round_trips = self.round_trips - trips
            counted.statements = self.statements - statements

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._sockets += [client, server]
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=self._listen, args=(server, client), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(_READ_BYTES):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _listen(self, server: socket.socket, client: socket.socket) -> None:
        rest = b""
        try:
            while data := server.recv(_READ_BYTES):
                rest = self._count(rest + data)
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _count(self, data: bytes) -> bytes:
        """Count the whole messages; gives what is left of the last one."""
        at = 0
        while len(data) - at >= _HEADER_BYTES:
            length = 1 + int.from_bytes(data[at + 1 : at + _HEADER_BYTES], "big")
            if len(data) - at < length:
                break
            kind = data[at : at + 1]
            with self._lock:
                self.round_trips += kind == b"Z"
                self.statements += kind == b"C"
            at += length
        return data[at:]


class Counted:
    """Numbers of a while."""

    round_trips = 0
    statements = 0
