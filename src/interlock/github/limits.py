"""GitHub's remaining rate limits, learned from the headers of its answers.

There are two kinds of limit. The hourly allowance of requests keeps a reserve for people. After a secondary
limit, every request waits. Waits are measured by GitHub's own clock (its `date` header), so a wrong local
clock does no harm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

from interlock.core.record import MutableRecord, Record

#: The share of the hourly allowance that is reserved for people. Background reads stop there.
RESERVE = 0.10
#: The wait that GitHub asks for after a secondary limit without a time. It doubles each time in a row.
UNNAMED_WAIT_S = 60.0
LONGEST_WAIT_S = 3600.0


class Wait(Record):
    """A wait before the next request."""

    seconds: float
    #: `reserve`, `allowance` or `secondary`.
    why: str


class _Allowance(MutableRecord):
    limit: int
    remaining: int
    #: By our clock.
    resets_at: float


class Limits:
    """What GitHub allows one token. Safe to use from several threads."""

    def __init__(self, *, clock: Callable[[], float], reserve: float = RESERVE) -> None:
        self._clock, self._reserve = clock, reserve
        self._lock = threading.Lock()
        self._allowances: dict[str, _Allowance] = {}
        self._silent_until = 0.0
        self._in_a_row = 0
        #: GitHub's clock minus ours, by its last answer.
        self.skew_s: float | None = None

    def wait(self, resource: str, *, background: bool) -> Wait | None:
        """The wait before a request; None if it may be sent now."""
        now = self._clock()
        with self._lock:
            if self._silent_until > now:
                return Wait(seconds=self._silent_until - now, why="secondary")
            known = self._allowances.get(resource)
            if known is None or known.resets_at <= now:
                return None
            if known.remaining <= 0:
                return Wait(seconds=known.resets_at - now, why="allowance")
            if background and known.remaining <= self._reserve * known.limit:
                return Wait(seconds=known.resets_at - now, why="reserve")
        return None

    def remaining(self, resource: str = "core") -> tuple[int, int] | None:
        """(requests left, requests an hour); None until an answer has reported them."""
        with self._lock:
            known = self._allowances.get(resource)
            return None if known is None else (known.remaining, known.limit)

    def allowances(self) -> dict[str, tuple[int, int]]:
        """The current requests left and requests an hour, by resource."""
        now = self._clock()
        with self._lock:
            return {
                name: (known.remaining if known.resets_at > now else known.limit, known.limit)
                for name, known in self._allowances.items()
            }

    def learn(self, status: int, headers: Mapping[str, str], message: str) -> bool:
        """Learn from an answer; gives whether it reports an exceeded limit."""
        with self._lock:
            now = self._clock()
            theirs = _seconds_of(headers.get("date"))
            if theirs is not None:
                self.skew_s = theirs - now
            self._learn_allowance(headers, now, now if theirs is None else theirs)
            limited = _is_limit(status, headers, message)
            if not limited:
                self._in_a_row = 0
                return False
            named = _number(headers.get("retry-after"))
            if named is not None:
                self._be_silent(now, named)
            elif headers.get("x-ratelimit-remaining") != "0":
                self._be_silent(now, UNNAMED_WAIT_S * 2**self._in_a_row)
            self._in_a_row += 1
            return True

    def _be_silent(self, now: float, seconds: float) -> None:
        self._silent_until = max(self._silent_until, now + min(seconds, LONGEST_WAIT_S))

    def _learn_allowance(self, headers: Mapping[str, str], now: float, theirs: float) -> None:
        limit, remaining = (_number(headers.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining"))
        reset = _number(headers.get("x-ratelimit-reset"))
        if limit is None or remaining is None or reset is None:
            return
        resets_at = now + min(max(0.0, reset - theirs), LONGEST_WAIT_S)
        resource = headers.get("x-ratelimit-resource", "core")
        known = self._allowances.get(resource)
        # Answers may arrive out of order: within one hour the smaller number is newer.
        if known is not None and abs(known.resets_at - resets_at) < 60 and known.limit == limit:
            remaining = min(known.remaining, remaining)
        self._allowances[resource] = _Allowance(
            limit=int(limit), remaining=int(remaining), resets_at=resets_at
        )


def _is_limit(status: int, headers: Mapping[str, str], message: str) -> bool:
    if status == 429:
        return True
    if status != 403:
        return False
    exhausted = headers.get("x-ratelimit-remaining") == "0"
    return exhausted or "retry-after" in headers or "secondary rate limit" in message.lower()


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() and len(text) < 16 else None


def _seconds_of(date: str | None) -> float | None:
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
