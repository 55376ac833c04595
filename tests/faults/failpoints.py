"""Failpoints: places where a test makes the world fail at an exact moment.

`Proxy` stands between Interlock and PostgreSQL and loses a message of its choice; signals and crashes are
made by `processes` and by the server's own `stop("immediate")`.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import psycopg

from tests.faults.processes import wait_until

READY = b"Z\x00\x00\x00\x05"  # the server is done with what it was asked
#: What psycopg sends to commit. The zero keeps `READ COMMITTED` apart.
COMMIT = b"COMMIT\x00"

_CREDENTIALS = struct.Struct("3i")  # process, user, group

Moment = Literal["never forwarded", "answer lost"]
MOMENTS: list[Moment] = ["never forwarded", "answer lost"]


class Proxy:
    """A unix socket that passes everything on to a PostgreSQL server, until its trap springs."""

    def __init__(self, url: str, directory: Path) -> None:
        parts = urlsplit(url)
        options = parse_qs(parts.query)
        self._server = str(Path(options["host"][0], f".s.PGSQL.{options['port'][0]}"))
        self.url = urlunsplit(parts._replace(query=f"host={quote(str(directory), safe='')}&port=5432"))
        self.sprung = threading.Event()
        self._trap: tuple[Callable[[bytes], bool], Moment, Callable[[], None]] | None = None
        #: Whoever came, by process.
        self.callers: set[int] = set()
        self._muted = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def lose(self, message: bytes, moment: Moment, then: Callable[[], None] = lambda: None) -> None:
        """Break the connection at the next message that contains these bytes. `then` runs before the client
        can notice."""
        self._trap = (lambda data: message in data, moment, then)

    def lose_nth(self, n: int, moment: Moment) -> None:
        """Break the connection at the nth message from now, whatever it is."""
        self.sprung.clear()
        numbers = itertools.count(1)
        self._trap = (lambda _: next(numbers) == n, moment, lambda: None)

    def mute(self) -> None:
        """From now on it accepts connections and messages, and answers nothing."""
        self._muted = True

    def unmute(self) -> None:
        """Go on; what was said meanwhile is lost, and the connections with it."""
        self._muted = False
        self._hang_up()

    def close(self) -> None:
        # Closed under a thread that waits in it, the number of this socket may go to another one: the thread
        # then takes the connections of that, and whoever serves it waits for ever.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        self._hang_up()

    def _hang_up(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._sockets.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
                self.callers.add(_CREDENTIALS.unpack(credentials)[0])
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        self._sockets += [client, server]
        with client, server, contextlib.suppress(OSError, ValueError):  # ValueError: closed meanwhile
            server.connect(self._server)
            while True:
                for sock in select.select([client, server], [], [])[0]:
                    data = sock.recv(1 << 20)
                    if not data:
                        return
                    if self._muted:
                        continue
                    if sock is client and self._springs(data, client, server):
                        return
                    (server if sock is client else client).sendall(data)

    def _springs(self, data: bytes, client: socket.socket, server: socket.socket) -> bool:
        trap = self._trap
        if trap is None or not trap[0](data):
            return False
        self._trap = None
        if trap[1] == "answer lost":
            server.sendall(data)
            answer = b""
            while READY not in answer:  # what else belongs to the same round trip goes on to the server
                for sock in select.select([client, server], [], [])[0]:
                    if sock is server:
                        heard = server.recv(1 << 20)
                        answer += heard or READY
                    else:
                        server.sendall(client.recv(1 << 20))
        trap[2]()
        self.sprung.set()
        return True


def wait_for_lock_waiters(url: str, count: int = 1) -> None:
    """Return when so many sessions of the database wait for a lock."""
    with psycopg.connect(url, autocommit=True) as conn:
        wait_until(
            lambda: (
                conn.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND wait_event_type = 'Lock'"
                ).fetchone()
                == (count,)
            ),
            f"{count} sessions wait for a lock",
        )
