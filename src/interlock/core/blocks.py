"""Blocks: an item, or everything on a lane, waits for something outside, such as another issue.

A block keeps items from being started and does nothing else: a run goes on, a lane keeps its owner, and an
owner that cannot start may be overtaken, as always. It has no time: it is over when somebody removes it.
"""

from __future__ import annotations

from interlock.core.model import Event, Item, ItemId
from interlock.core.row import NamedTuple

#: What a block of a lane has in place of an item, and a block of an item in place of a lane.
NO_ITEM, NO_LANE = ItemId(0), ""


class Block(NamedTuple):
    """What waits, for what, and why. Several may be on one item or lane, each with another blocker."""

    #: The lane on which everything waits, or the one item that waits.
    lane: str
    item: ItemId
    #: What it waits for, in a form that its caller knows: `acme/app#3`.
    blocker: str
    why: str
    #: Where to look at the blocker.
    url: str = ""
    at_us: int = 0

    def holds(self, item: Item) -> bool:
        """Whether it keeps this item from being started."""
        return self.item == item.id or (self.lane != NO_LANE and self.lane == item.spec.lane)

    @property
    def target(self) -> str:
        """The lane or the item's number, as the commands take it."""
        return self.lane or str(self.item)


def of_blocker(event: Event, blocker: str) -> Event:
    """The line of history of a block that was set or removed."""
    return event._replace(data={**event.data, "blocker": blocker})
