"""Cached answers of GitHub with their ETags: an unchanged one does not count against the rate limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from interlock.core.record import Record


class CachedAnswer(Record):
    """A raw answer."""

    etag: str
    body: bytes
    #: The header with the next page.
    link: str | None = None


class Cache(Protocol):
    """A cache of answers. A key names the account and the address."""

    def get(self, key: str) -> CachedAnswer | None: ...

    def put(self, key: str, kept: CachedAnswer) -> None: ...


class MemoryCache:
    """Keeps answers while the process lives. The least recently used are evicted first."""

    def __init__(self, *, entries_max: int = 1000, bytes_max: int = 64 * 1024 * 1024) -> None:
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, CachedAnswer] = OrderedDict()
        self._bytes = 0

    def get(self, key: str) -> CachedAnswer | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, kept: CachedAnswer) -> None:
        with self._lock:
            old = self._kept.pop(key, None)
            self._bytes += len(kept.body) - (len(old.body) if old else 0)
            self._kept[key] = kept
            while len(self._kept) > self._entries_max or self._bytes > self._bytes_max:
                _, left = self._kept.popitem(last=False)
                self._bytes -= len(left.body)
