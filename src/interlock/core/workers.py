"""Workers: who is at work where, and what it means that one is alive."""

from __future__ import annotations

from interlock.core.row import NamedTuple
from interlock.core.timing import to_us

#: How often a worker says that it is there.
BEAT_S = 10.0
#: Without a word for so long, a worker counts as silent, and is forgotten after the second span.
ALIVE_S, FORGOTTEN_S = 3 * BEAT_S, 3600.0
#: How many silent ones are forgotten at once.
FORGET_AT_ONCE = 100


class Worker(NamedTuple):
    """A worker as it describes itself, with the store's times."""

    name: str
    host: str
    pid: int
    folder: str
    agent: str
    slots: int
    runs: int
    started_us: int = 0
    seen_us: int = 0


def is_alive(worker: Worker, now_us: int) -> bool:
    """Whether the worker reached the store lately. It may have died since, or may be cut off from it."""
    return now_us - worker.seen_us <= to_us(ALIVE_S)
