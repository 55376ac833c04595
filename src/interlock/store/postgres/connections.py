"""The connections of one process to PostgreSQL: opened by the thread that needs one, and kept for the next.

Whoever cannot connect learns it at once and in the server's own words; no thread tries again behind its back.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psycopg.pq import TransactionStatus

from interlock.core.errors import StoreBusy
from interlock.store.postgres.statement import Connection

#: How long a connection that nobody needs is kept. It is closed when another one is given back after that.
IDLE_S = 60.0


class Connections:
    """At most `most` at once. The one used last is used next, so that surplus connections grow old."""

    def __init__(self, connect: Callable[[], Connection], most: int, patience_s: float) -> None:
        """`patience_s` is how long to wait while all are in use."""
        self._connect = connect
        self._most = most
        self._patience_s = patience_s
        self._free = threading.BoundedSemaphore(most)
        self._idle: deque[tuple[float, Connection]] = deque()
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """One that nobody else uses meanwhile."""
        if not self._free.acquire(timeout=self._patience_s):
            raise StoreBusy(f"All {self._most} connections of this process are in use.", "Try again.")
        try:
            conn = self._take() or self._connect()
            try:
                yield conn
            finally:
                self._give_back(conn)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close idle connections now, and busy ones when they are given back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while conn := self._take():
            conn.close()

    def _take(self) -> Connection | None:
        try:
            return self._idle.pop()[1]
        except IndexError:
            return None

    def _give_back(self, conn: Connection) -> None:
        if conn.broken:
            self._close_idle()  # what broke one has most often broken all: a restart
        if self._closed or conn.closed or conn.info.transaction_status is not TransactionStatus.IDLE:
            conn.close()
            return
        now_s = time.monotonic()
        self._idle.append((now_s, conn))
        while self._idle and self._idle[0][0] < now_s - IDLE_S:
            self._idle.popleft()[1].close()
