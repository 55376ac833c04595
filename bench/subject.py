"""What the harness asks of everything it measures.

A subject is a small object without connections of its own, so that it can be sent to a worker process.
Each method opens what it needs and closes it again.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

Store = Literal["postgres", "sqlite"]


class NotAvailable(Exception):
    """A subject cannot be measured here, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one worker process is to do: drain the store at `url`, `batch` items at a time."""

    url: str
    worker: int
    batch: int
    #: How many items all workers together have to finish.
    total: int
    #: How many different lanes the items were spread over, or none.
    lanes: int | None
    #: A worker stops here even if items are left; the rate then counts what was finished.
    limit_s: float


@dataclass(slots=True, kw_only=True)
class Tally:
    """What one worker process did. Times are of the monotonic clock, which all processes share."""

    started_s: float = 0.0
    ended_s: float = 0.0
    #: Processor time of this process from start to end.
    cpu_s: float = 0.0
    #: The number of each item whose finish the store has acknowledged, in order.
    finished: list[int] = field(default_factory=list)

    _cpu_before_s: float = 0.0

    def start(self) -> None:
        self.started_s = self.ended_s = time.monotonic()
        self._cpu_before_s = time.process_time()

    def acknowledge(self, numbers: list[int]) -> None:
        if numbers:
            self.finished += numbers
            self.ended_s = time.monotonic()
            self.cpu_s = time.process_time() - self._cpu_before_s


@dataclass(slots=True, kw_only=True)
class Shift:
    """A worker's link to the harness: when to begin, what it did, when to stop."""

    order: Order
    tally: Tally
    #: Waits until every worker is connected and ready; the clock starts after it.
    begin: Callable[[], None]
    #: Adds to the number of items finished by all workers and answers the new sum.
    count: Callable[[int], int]

    def start(self) -> None:
        # What was imported is no garbage; whoever imports more would pay for it with every collection.
        gc.collect()
        gc.freeze()
        self.begin()
        self.tally.start()

    def acknowledge(self, numbers: list[int]) -> None:
        self.tally.acknowledge(numbers)
        self.count(len(numbers))

    def relay(self, *, finished: list[int], ended_s: float, cpu_s: float) -> None:
        """Acknowledge what another process did and timed, on the same clock."""
        if finished:
            self.tally.finished += finished
            self.tally.ended_s, self.tally.cpu_s = ended_s, cpu_s
            self.count(len(finished))

    @property
    def over(self) -> bool:
        """Whether all items are finished, by whichever worker, or the time is up."""
        late = time.monotonic() > self.tally.started_s + self.order.limit_s
        return late or self.count(0) >= self.order.total


class Subject(Protocol):
    """One queue, driven the way its own documentation says."""

    name: str
    store: Store

    def setup(self, url: str) -> None:
        """Leave an empty queue at `url`."""

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        """Add items numbered 0 to n - 1; with `lanes`, item i belongs to lane i modulo `lanes`."""

    def drain(self, shift: Shift) -> None:
        """Claim and finish items until the shift is over. Runs in a process of its own."""

    def left(self, url: str) -> int:
        """How many items are not finished, by the store's own account."""
