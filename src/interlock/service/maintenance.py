"""Periodic work on a store: sweeps, pruning, counters of the history, and a doctor."""

from __future__ import annotations

from interlock.service import sweeper
from interlock.service.contract import CheckView, SweepView
from interlock.service.retention import Retention
from interlock.store.port import Store


class Maintenance:
    """The periodic work on a store, and its checks."""

    def __init__(self, store: Store, retention_s: float | None) -> None:
        self._store = store
        self._retention = Retention(retention_s) if retention_s is not None else None
        #: The last lane of the previous sweep.
        self._swept_to = ""
        #: The last minute whose numbers were kept.
        self._sampled = 0

    def sweep(self) -> SweepView:
        """Move everything that is due. Checks due items and 200 lanes."""
        swept = sweeper.sweep(self._store, self._swept_to)
        self._swept_to = swept.onward
        return SweepView(
            expired=swept.expired,
            reentered=swept.reentered,
            promoted=swept.promoted,
            forgotten_keys=swept.forgotten_keys,
            pruned=self._retention.step(self._store).items if self._retention is not None else 0,
        )

    def count_history(self) -> bool:
        """Update the counters of `metrics` from the history, step by step, and keep each minute's numbers for
        `trend`. Returns whether more is to be counted."""
        from interlock.service import metrics  # noqa: PLC0415  (for servers)

        more = metrics.fold(self._store)
        minute = self._store.now_us() // metrics.MINUTE_US
        if minute != self._sampled:
            metrics.sample(self._store)
            self._sampled = minute
        return more

    def doctor(self) -> list[CheckView]:
        """Check every invariant against the database. Reads the whole store, so call it rarely."""
        from interlock.service.doctor import check_store  # noqa: PLC0415  (for one command)

        return check_store(self._store)

    def close(self) -> None:
        """Close the database connections."""
        self._store.close()
