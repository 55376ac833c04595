"""Blocks: an item, or everything on a lane, waits for something outside, such as another issue.

A block keeps items from being started and does nothing else: a current run continues, a lane keeps its owner,
and an owner that cannot start may be overtaken, as always. It has no deadline: it lasts until it is removed.
"""

from __future__ import annotations

from interlock.core.model import Event, Item, ItemId
from interlock.core.row import NamedTuple

#: The item of a block on a lane, and the lane of a block on an item.
NO_ITEM, NO_LANE = ItemId(0), ""


class Block(NamedTuple):
    """What waits, for what, and why. An item or lane may have several blocks, each with its own blocker."""

    #: The lane on which everything waits, or the one item that waits.
    lane: str
    item: ItemId
    #: What it waits for, in the caller's notation: `acme/app#3`.
    blocker: str
    why: str
    #: Where to look at the blocker.
    url: str = ""
    at_us: int = 0

    def holds(self, item: Item) -> bool:
        """Whether it keeps this item from starting."""
        return self.item == item.id or (self.lane != NO_LANE and self.lane == item.spec.lane)

    @property
    def target(self) -> str:
        """The lane or the item's number, as the commands take it."""
        return self.lane or str(self.item)


def of_blocker(event: Event, blocker: str) -> Event:
    """The line of history of a block that was set or removed."""
    return event._replace(data={**event.data, "blocker": blocker})
