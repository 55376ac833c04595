"""A wire between PostgreSQL clients and their server that counts what the server answers.

Every client works through it, whatever its driver: a round trip is one `ReadyForQuery`, a statement one
`CommandComplete`, a commit the end of a transaction that was not rolled back, of one that only read too.
"""

from __future__ import annotations

import contextlib
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
        self.commits = 0
        self._sockets: list[socket.socket] = [self._listener]

    def __enter__(self) -> Self:
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closed under a thread that waits in it, the number of a socket may go to another one: the thread
        # then reads from that.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @contextmanager
    def counted(self) -> Iterator[Counted]:
        """What passes while the block runs."""
        with self._lock:
            trips, statements, commits = self.round_trips, self.statements, self.commits
        counted = Counted()
        yield counted
        with self._lock:
            counted.round_trips = self.round_trips - trips
            counted.statements = self.statements - statements
            counted.commits = self.commits - commits

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
        answers = _Answers()
        try:
            while data := server.recv(_READ_BYTES):
                self._count(answers.kinds(data))
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _count(self, kinds: str) -> None:
        with self._lock:
            self.round_trips += kinds.count("Z") + kinds.count("z")
            self.statements += kinds.count("c")
            self.commits += kinds.count("z")


class _Answers:
    """What a server sends on one connection, taken apart."""

    def __init__(self) -> None:
        self._rest = b""
        self._undone = True

    def kinds(self, data: bytes) -> str:
        """A letter for each whole message: `c` for a `CommandComplete`, `z` for a `ReadyForQuery` that ends a
        transaction with a commit, `Z` for any other."""
        data, at, found = self._rest + data, 0, []
        while len(data) - at >= _HEADER_BYTES:
            length = 1 + int.from_bytes(data[at + 1 : at + _HEADER_BYTES], "big")
            if len(data) - at < length:
                break
            body = data[at + _HEADER_BYTES : at + length]
            kind = data[at : at + 1]
            if kind == b"C":
                self._undone = body.startswith(b"ROLLBACK")
                found.append("c")
            elif kind == b"E":
                self._undone = True
            elif kind == b"Z":
                found.append("z" if body == b"I" and not self._undone else "Z")
                self._undone = self._undone or body == b"I"
            at += length
        self._rest = data[at:]
        return "".join(found)


class Counted:
    """Numbers of a while."""

    round_trips = 0
    statements = 0
    commits = 0
