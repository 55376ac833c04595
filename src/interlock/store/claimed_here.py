"""Items as this process claimed them, so that a finish need not read whole rows again.

Each is kept with the version of its row (PostgreSQL's `xmin`: the transaction that wrote it last). A finish
locks the rows and compares versions; what anybody has changed since is read anew. So this is never
believed, only used to save the reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from interlock.core.model import Item, ItemId

KEPT_AT_MOST = 10_000
_XMIN_MASK = 0xFFFFFFFF  # a row's version is the low half of its transaction's number


class ClaimedHere:
    """Bounded: an item that is finished elsewhere, or never, makes room for later ones."""

    def __init__(self) -> None:
        self._items: dict[ItemId, Item] = {}
        self._versions: dict[ItemId, int] = {}

    def keep(self, items: Iterable[Item], xid: int) -> None:
        """Remember items that the transaction `xid` has claimed."""
        version = xid & _XMIN_MASK
        for item in items:
            self._items[item.spec.id] = item
            self._versions[item.spec.id] = version
        while len(self._items) > KEPT_AT_MOST:
            self.take([next(iter(self._items))])

    def take(self, items: Sequence[ItemId]) -> tuple[list[Item], list[int]] | None:
        """Hand out these items and their versions, and forget them; nothing unless all are known."""
        found = [i for i in (self._items.pop(i, None) for i in items) if i is not None]
        versions = [v for v in (self._versions.pop(i, None) for i in items) if v is not None]
        return (found, versions) if len(found) == len(versions) == len(items) > 0 else None
