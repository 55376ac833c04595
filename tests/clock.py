"""A store clock that moves only when a test moves it, so that no test waits for time to pass."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2027, 3, 1, 12, tzinfo=UTC)


class Clock:
    """Give it to a store as `now=`: `SqliteStore(path, now=Clock())`."""

    def __init__(self, start: datetime = START) -> None:
        self.now_us = (start - _EPOCH) // timedelta(microseconds=1)

    def __call__(self) -> int:
        return self.now_us

    @property
    def now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.now_us)

    def advance(self, seconds: float) -> None:
        """Let time pass; a negative span sets the clock back, as an operator or a bad time server might."""
        self.now_us += round(seconds * 1_000_000)

    def in_s(self, seconds: float) -> datetime:
        """The moment that many seconds from now."""
        return self.now + timedelta(seconds=seconds)
