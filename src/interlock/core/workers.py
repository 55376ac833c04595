"""Workers: which ones there are, and which of them are alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.core.row import NamedTuple
from interlock.core.timing import to_us

if TYPE_CHECKING:
    from interlock.core.model import Item

#: The interval of a worker's heartbeats.
BEAT_S = 10.0
#: Without a heartbeat a worker counts as silent after the first span, and is forgotten after the second.
ALIVE_S, FORGOTTEN_S = 3 * BEAT_S, 3600.0
#: A lease is renewed every third of its span. A run has missed a renewal with less than this part left.
SILENT_PART = 1 / 3
#: How many silent workers one call forgets.
FORGET_AT_ONCE = 100


class WorkerRecord(NamedTuple):
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


def is_alive(worker: WorkerRecord, now_us: int) -> bool:
    """Whether the worker reached the store lately. It may have died since, or may be cut off from it."""
    return now_us - worker.seen_us <= to_us(ALIVE_S)


def is_silent(item: Item, now_us: int) -> bool:
    """Whether the current run of an item has missed a renewal of its lease."""
    state = item.state
    if state.lease_until_us is None or state.run_lease_s is None:
        return False
    return state.lease_until_us - now_us < to_us(state.run_lease_s * SILENT_PART)
