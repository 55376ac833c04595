"""Items as this process claimed them, so that a finish need not read whole rows again.

Each is kept with the version of its row (PostgreSQL's `xmin`: the transaction that wrote it last). A finish
writes only if every row still has its version; if anybody has changed one since, all are read. So this is
never believed, only used to save the reading.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from interlock.core.model import Item, ItemId

KEPT_AT_MOST = 10_000
_XMIN_MASK = 0xFFFFFFFF  # a row's version is the low half of its transaction's number


class ClaimedHere:
    """Bounded: an item that is finished elsewhere, or never, makes room for later ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[ItemId, tuple[Item, int]] = OrderedDict()

    def keep(self, items: Iterable[Item], xid: int) -> None:
        """Remember items that the transaction `xid` has claimed."""
        version = xid & _XMIN_MASK
        for item in items:
            self._kept[item.spec.id] = item, version
        while len(self._kept) > KEPT_AT_MOST:
            self._kept.popitem(last=False)

    def take(self, items: Sequence[ItemId]) -> list[tuple[Item, int]] | None:
        """Hand out these items, each with its version, and forget them; nothing unless all are known."""
        found = [kept for kept in (self._kept.pop(i, None) for i in items) if kept is not None]
        return found if len(found) == len(items) > 0 else None
