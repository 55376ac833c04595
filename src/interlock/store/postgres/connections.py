"""The connections of one process to PostgreSQL. A thread opens one if needed, and it is kept for the next.

A thread that cannot connect gets the server's own error at once, without retries in the background.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from psycopg.pq import TransactionStatus

from interlock.core.errors import StoreBusy
from interlock.store.postgres.statement import StatementConnection

#: How long an idle connection is kept. After that it is closed when another one is returned.
IDLE_S = 60.0


class _Use:
    """The use of one connection by one thread."""

    __slots__ = ("_conn", "_pool")
    _conn: StatementConnection

    def __init__(self, pool: Connections) -> None:
        self._pool = pool

    def __enter__(self) -> StatementConnection:
        self._conn = self._pool.take()
        return self._conn

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if error is not None and not isinstance(error, Exception):
            # A signal may have come between a statement and its answer: the next user would get that answer.
            self._conn.close()
        self._pool.give_back(self._conn)


class Connections:
    """At most `most` connections. The last used one is used next, so that surplus connections become idle."""

    def __init__(self, connect: Callable[[], StatementConnection], most: int, patience_s: float) -> None:
        """`patience_s` is the longest wait while all are in use."""
        self._connect = connect
        self._most = most
        self._patience_s = patience_s
        #: One entry for each connection that may be taken.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(most):
            self._free.put(None)
        self._idle: deque[tuple[float, StatementConnection]] = deque()
        self._closed = False

    def connection(self) -> _Use:
        """A connection that no other thread uses meanwhile."""
        return _Use(self)

    def take(self) -> StatementConnection:
        """A connection that no other thread uses until `give_back`."""
        try:
            self._free.get(timeout=self._patience_s)
        except Empty:
            raise StoreBusy(
                f"All {self._most} connections of this process are in use.", "Try again."
            ) from None
        try:
            return self._take() or self._connect()
        except BaseException:
            self._free.put(None)
            raise

    def give_back(self, conn: StatementConnection) -> None:
        try:
            self._give_back(conn)
        finally:
            self._free.put(None)

    def close(self) -> None:
        """Close idle connections now, and busy ones when they are returned."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while conn := self._take():
            conn.close()

    def _take(self) -> StatementConnection | None:
        try:
            return self._idle.pop()[1]
        except IndexError:
            return None

    def _give_back(self, conn: StatementConnection) -> None:
        if conn.broken:
            self._close_idle()  # most often a restart has broken all of them
        if self._closed or conn.closed or conn.info.transaction_status is not TransactionStatus.IDLE:
            conn.close()
            return
        now_s = time.monotonic()
        self._idle.append((now_s, conn))
        while self._idle and self._idle[0][0] < now_s - IDLE_S:
            self._idle.popleft()[1].close()
