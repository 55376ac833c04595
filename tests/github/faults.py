"""What can go wrong at GitHub, switched on by a test.

Each switch says how often it acts (`times`) and on which requests (`on`, part of "METHOD /path"). All are off
at first, except the limits, which are GitHub's own; `limits` changes them.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.github.fake import FakeGitHub
    from tests.github.hooks import Delivery

FOREVER = 1_000_000_000


@dataclass
class Limits:
    """Requests and creations that GitHub allows; a test may make them smaller."""

    hourly: dict[str, int] = field(
        default_factory=lambda: {"user": 5000, "installation": 5000, "app": 5000, "actions": 1000, "none": 60}
    )
    searches_per_minute: int = 30
    creations_per_minute: int = 80
    creations_per_hour: int = 500


@dataclass
class _Fault:
    kind: str
    times: int
    on: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    message: str = ""
    act: Callable[[], object] = lambda: None


class Faults:
    """The switches of one fake."""

    def __init__(self, github: FakeGitHub) -> None:
        self._github = github
        self._waiting: list[_Fault] = []
        self._lock = threading.Lock()
        self._lost_deliveries = 0
        self.limits = Limits()
        #: While set, every request is answered 503.
        self.outage = False
        #: Issues that no list shows yet.
        self.unlisted: set[int] = set()
        #: Reads are answered from this state.
        self.stale: FakeGitHub | None = None

    def lose_answers(self, times: int = 1, *, on: str = "") -> None:
        """The request is carried out, and the connection is cut instead of an answer."""
        self._add(_Fault("lose", times, on))

    def drop(self, times: int = 1, *, on: str = "") -> None:
        """The connection is cut before anything happens."""
        self._add(_Fault("drop", times, on))

    def fail(self, status: int = 502, times: int = 1, *, on: str = "") -> None:
        """Nothing happens, and the answer is an error of the server, as a page and not as JSON."""
        self._add(_Fault("fail", times, on, status))

    def throttle(
        self,
        times: int = 1,
        *,
        status: int = 403,
        retry_after_s: int | None = 1,
        on: str = "",
    ) -> None:
        """A secondary limit: 403 or 429, with `retry-after` or, with None, without."""
        headers = {} if retry_after_s is None else {"retry-after": str(retry_after_s)}
        message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        self._add(_Fault("refuse", times, on, status, headers, message))

    def refuse(
        self,
        status: int,
        message: str,
        times: int = 1,
        *,
        on: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """An answer of GitHub's with a message."""
        self._add(_Fault("refuse", times, on, status, headers or {}, message))

    def hold(self, times: int = 1, *, on: str = "", until: threading.Event) -> threading.Event:
        """The answer comes only when the event is set. The event returned is set when a request waits."""
        held = threading.Event()

        def wait() -> None:
            held.set()
            until.wait(60)

        self._add(_Fault("hold", times, on, act=wait))
        return held

    def before(self, act: Callable[[], object], times: int = 1, *, on: str = "") -> None:
        """Something happens right before the request is looked at: another's write, say."""
        self._add(_Fault("before", times, on, act=act))

    @contextmanager
    def stale_reads(self) -> Iterator[None]:
        """Reads see the state as it is now, whatever is written meanwhile."""
        with self._github.lock:
            self.stale = copy.deepcopy(self._github)
        try:
            yield
        finally:
            self.stale = None

    @contextmanager
    def outages(self) -> Iterator[None]:
        self.outage = True
        try:
            yield
        finally:
            self.outage = False

    def lose_deliveries(self, times: int = FOREVER) -> None:
        """Webhooks that do not arrive; GitHub's list of deliveries shows them as failed."""
        self._lost_deliveries = times

    def hide_issue(self, number: int) -> None:
        """Lists of issues lack one that exists, or will: they lag behind."""
        self.unlisted.add(number)

    def over(self) -> None:
        """Nothing that was switched on happens any more."""
        with self._lock:
            self._waiting.clear()
            self.unlisted.clear()

    # Asked by the server

    def due(self, line: str) -> _Fault | None:
        """The fault that meets a request, given as "METHOD /path", if one does."""
        with self._lock:
            for fault in self._waiting:
                if fault.on in line:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._waiting.remove(fault)
                    return fault
        return None

    def loses_delivery(self, delivery: Delivery) -> bool:
        if self._lost_deliveries > 0 and not delivery.redelivery:
            self._lost_deliveries -= 1
            return True
        return False

    def _add(self, fault: _Fault) -> None:
        with self._lock:
            self._waiting.append(fault)
