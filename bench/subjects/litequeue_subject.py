"""litequeue: one message a transaction. It ships with synchronous=NORMAL, so both settings are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.databases import clear
from bench.subject import NotAvailable, Shift, Store

if TYPE_CHECKING:
    import litequeue  # type: ignore[import-untyped]

BUSY_TIMEOUT_S = 60


class LiteQueue:
    store: Store = "sqlite"

    def __init__(self, *, full_sync: bool) -> None:
        self.name = f"litequeue ({'FULL' if full_sync else 'NORMAL, as shipped'})"
        self._full_sync = full_sync

    def setup(self, url: str) -> None:
        clear(self.store, url)
        self._open(url).conn.close()

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        if lanes is not None:
            raise NotImplementedError("litequeue has no lanes")
        queue = self._open(url)
        with queue.transaction():
            for number in range(n):
                queue.put(str(number))
        queue.conn.close()

    def drain(self, shift: Shift) -> None:
        queue = self._open(shift.order.url)
        shift.start()
        while not shift.over:
            message = queue.pop()
            if message is None:
                break
            queue.done(message.message_id)
            shift.acknowledge([int(message.data)])
        queue.conn.close()

    def left(self, url: str) -> int:
        queue = self._open(url)
        left = int(queue.qsize())
        queue.conn.close()
        return left

    def _open(self, url: str) -> litequeue.LiteQueue:
        try:
            from litequeue import LiteQueue as Queue
        except ImportError as missing:
            raise NotAvailable(str(missing)) from missing
        queue = Queue(url, timeout=BUSY_TIMEOUT_S)
        if self._full_sync:
            queue.conn.execute("PRAGMA synchronous = FULL")
        return queue
