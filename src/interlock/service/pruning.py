"""What has ended is kept for a while, and then goes: a bounded number of items and plans at a time."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.port import Store
from interlock.store.pruning import Pruned

__all__ = ["Pruned", "Retention", "prune"]

#: How many items, and how many plans with their tasks, one transaction looks at.
ITEMS, PLANS = 200, 10
#: How many deliveries, and how much of what followed from them.
DELIVERIES = 500
#: How many such looks a sweep takes at most.
BATCHES = 5


def prune(store: Store, older_than_s: float, *, really: bool) -> Iterator[Pruned]:
    """Look at all plans and items, and let those go that ended so long ago; then at what GitHub sent.

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
    """GitHub sends a delivery again if somebody asks for it: its id is kept as long as a dedupe key."""
    before_us = store.now_us() - to_us(max(older_than_s, DEDUPE_KEPT_S))
    if not really:
        yield Pruned(deliveries=store.github.old_deliveries(before_us))
        return
    all_gone = False
    while not all_gone:
        gone, all_gone = store.github.prune(before_us, DELIVERIES)
        yield Pruned(deliveries=gone)


class Retention:
    """Keeps what has ended for a span: each sweep looks at a few batches, and so in turn at all there is."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._steps: Iterator[Pruned] | None = None

    def step(self, store: Store) -> Pruned:
        """Go on until something went, all were looked at, or enough for now."""
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
