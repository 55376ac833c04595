"""Retention: old ended items and plans are deleted, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.port import Store
from interlock.store.retention import Pruned

__all__ = ["Pruned", "Retention", "prune"]

#: How many items, and how many plans with their tasks, one transaction examines.
ITEMS, PLANS = 200, 10
#: How many deliveries, and how many of their effects and orders, it deletes.
DELIVERIES = 500
#: A sweep makes at most this many passes.
BATCHES = 5


def prune(store: Store, older_than_s: float, *, really: bool) -> Iterator[Pruned]:
    """Delete old ended plans and items, then old deliveries of GitHub.

    Each step is a transaction.
    """
    before_us = store.now_us() - to_us(older_than_s)
    for look, limit in ((store.prune_plans, PLANS), (store.prune_items, ITEMS)):
        after = 0
        while True:
            found = look(before_us, after, limit, really=False)
            if really and found:
                found = look(before_us, after, limit, really=True)
            yield found
            after = found.onward
            if not after:
                break
    yield from _prune_deliveries(store, older_than_s, really=really)


def _prune_deliveries(store: Store, older_than_s: float, *, really: bool) -> Iterator[Pruned]:
    """GitHub redelivers on request: a delivery's id is kept as long as a dedupe key."""
    before_us = store.now_us() - to_us(max(older_than_s, DEDUPE_KEPT_S))
    if not really:
        yield Pruned(deliveries=store.github.old_deliveries(before_us))
        return
    all_gone = False
    while not all_gone:
        gone, all_gone = store.github.prune(before_us, DELIVERIES)
        yield Pruned(deliveries=gone)


class Retention:
    """Keeps ended items and plans for a span. Each sweep examines a few batches, and in turn everything."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._steps: Iterator[Pruned] | None = None

    def step(self, store: Store) -> Pruned:
        """Continue until something was deleted, all were examined, or the step is long enough."""
        if self._steps is None:
            self._steps = prune(store, self._span_s, really=True)
        for _ in range(BATCHES):
            found = next(self._steps, None)
            if found is None:
                self._steps = None
                break
            if found:
                return found
        return Pruned()
