"""The start of claims' scans on PostgreSQL, remembered by a process after a slow claim.

Dead index entries stay until a vacuum removes them, which is impossible while a session holds an old
snapshot. So after a slow claim, the next ones of the same kind start at the first item that it started. Items
that become ready before that point are found by the next full scan. It runs when nothing else is found, at
the latest after a second or twenty times the time of a full scan.

A claim of one item that follows a successful one of its kind looks at the first item only. Where that one
does not fit, for instance because its project is paused, a full scan follows, and the next claims start with
a full scan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from interlock.core.claims import Claim
from interlock.core.model import US_PER_S, Item, ItemId
from interlock.core.row import NamedTuple

#: After a claim that takes longer on the server, the start of the scan is remembered.
SLOW_US = 10_000
#: The interval of full scans. They take at most one part in `FULL_SCAN_PART` of the time.
FULL_SCAN_S = 1.0
FULL_SCAN_PART = 20
#: The most kinds of claims that a process remembers. Claims of one agent are mostly of one kind.
_KINDS_MAX = 100
#: After a first item that did not fit, and a full scan that found another: how long claims use full scans.
MISS_S = 1.0
#: The parts that claims of the same items share.
_Kind = tuple[Any, ...]


class ScanStart(NamedTuple):
    """The start of the scan for claims of one kind, until the next full scan."""

    sort_key: int
    #: One item of each queue in which an item was found, whatever its state is now.
    items: tuple[ItemId, ...]
    #: The store's time at the last full scan, to find items that are due since then.
    since_us: int
    until_s: float


class ScanStarts:
    """The scan starts that one process remembers, by the kind of claim."""

    def __init__(self) -> None:
        self._by_kind: dict[_Kind, ScanStart] = {}
        self.slow_us = SLOW_US
        self.clock: Callable[[], float] = time.monotonic

    def of(self, claim: Claim) -> ScanStart | None:
        """The start of a claim's scan; None for a full scan."""
        scan_start = self._by_kind.get(_kind(claim)) if claim.item is None else None
        return scan_start if scan_start is not None and self.clock() < scan_start.until_s else None

    def remember(
        self, claim: Claim, scan_start: ScanStart | None, started: Sequence[Item], took_us: int
    ) -> None:
        """Set the start of the next claim of this kind, by the items that a claim from `scan_start` got."""
        if not started or (scan_start is None and took_us < self.slow_us):
            self._by_kind.pop(_kind(claim), None)
            return
        if scan_start is None:
            pause_s = max(FULL_SCAN_S, FULL_SCAN_PART * took_us / US_PER_S)
            scan_start = ScanStart(0, (), started[0].state.run_started_us or 0, self.clock() + pause_s)
        if len(self._by_kind) >= _KINDS_MAX:
            self._by_kind.clear()
        one_of_each_queue = {_queue(item): item.id for item in started}
        self._by_kind[_kind(claim)] = scan_start._replace(
            sort_key=min(item.spec.sort_key for item in started), items=tuple(one_of_each_queue.values())
        )

    def clear(self) -> None:
        self._by_kind.clear()


class FirstItems:
    """The kinds of claims for which one process looks at the first item only."""

    def __init__(self) -> None:
        #: From when on, by the kind of claim.
        self._from_s: dict[_Kind, float] = {}
        self.clock: Callable[[], float] = time.monotonic

    def are_worth_a_look(self, claim: Claim) -> bool:
        """Whether the first item will likely do for this claim."""
        if claim.limit != 1 or claim.item is not None:
            return False
        from_s = self._from_s.get(_kind(claim))
        return from_s is not None and self.clock() >= from_s

    def remember(self, claim: Claim, *, found: bool, missed: bool) -> None:
        """Record whether a full scan found something, and whether the first item had not fitted.

        After a scan that found nothing the next claim starts with a full scan, which says why.
        """
        kind = _kind(claim)
        if not found:
            self._from_s.pop(kind, None)
        elif missed or kind not in self._from_s:
            if len(self._from_s) >= _KINDS_MAX:
                self._from_s.clear()
            self._from_s[kind] = self.clock() + MISS_S if missed else 0.0


def _kind(claim: Claim) -> _Kind:
    return claim.agent, claim.types, claim.labels, claim.edits


def _queue(item: Item) -> tuple[Any, ...]:
    spec = item.spec
    return spec.agent_key, spec.project, spec.type, spec.labels, spec.plan
