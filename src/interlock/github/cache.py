"""Answers of GitHub that were kept with their ETags: an unchanged one costs no request of the allowance."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from interlock.core.record import Record


class Kept(Record):
    """An answer as it came."""

    etag: str
    body: bytes
    #: The header with the next page.
    link: str | None = None


class Cache(Protocol):
    """Where answers are kept. A key names the account and the address."""

    def get(self, key: str) -> Kept | None: ...

    def put(self, key: str, kept: Kept) -> None: ...


class MemoryCache:
    """Keeps answers for as long as the process lives, the least recently used ones leave first."""

    def __init__(self, *, entries_max: int = 1000, bytes_max: int = 64 * 1024 * 1024) -> None:
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._bytes = 0

    def get(self, key: str) -> Kept | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, kept: Kept) -> None:
        with self._lock:
            old = self._kept.pop(key, None)
            self._bytes += len(kept.body) - (len(old.body) if old else 0)
            self._kept[key] = kept
            while len(self._kept) > self._entries_max or self._bytes > self._bytes_max:
                _, left = self._kept.popitem(last=False)
                self._bytes -= len(left.body)
