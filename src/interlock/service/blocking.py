"""Blocks: an item, or everything on a lane, waits for something outside, without a time."""

from __future__ import annotations

from interlock.core import names
from interlock.core.blocks import NO_ITEM, NO_LANE, Block
from interlock.core.checking import checked_reason, given_reason, signed
from interlock.core.errors import InvalidInput, ItemEnded
from interlock.core.model import Event, EventKind, Item, ItemId
from interlock.core.plans.model import PLAN_LANES
from interlock.service.contract import BlockView
from interlock.service.itemview import moment
from interlock.service.reading import Looking


class Blocking(Looking):
    """The use cases of whoever knows what work outside must come first."""

    def block(
        self,
        *,
        lane: str | None = None,
        item: int | None = None,
        blocker: str,
        why: str,
        url: str = "",
        by: str = "",
    ) -> BlockView:
        """Nothing on this lane, or not this item, is started until `unblock`. A run goes on.

        The same again changes nothing; another `blocker` is a second block.
        """
        names.check_cause("", url)
        at, found = self._target(lane, item)
        if found is not None and found.terminal:
            raise ItemEnded(
                f"Item {found.id} has already ended as {found.status}.", reason=found.state.reason
            )
        block = at._replace(blocker=_blocker(blocker), why=given_reason(why), url=url)
        event = self._block_event(EventKind.BLOCK_SET, at, found, block.why, by, url=url or None)
        return _view(self.store.block(block, event))

    def unblock(
        self,
        *,
        lane: str | None = None,
        item: int | None = None,
        blocker: str | None = None,
        why: str = "",
        by: str = "",
    ) -> list[str]:
        """Remove the blocks of a lane or an item, or only the one by `blocker`. Gives who blocked."""
        at, found = self._target(lane, item)
        named = None if blocker is None else _blocker(blocker)
        event = self._block_event(EventKind.BLOCK_REMOVED, at, found, checked_reason(why), by)
        return self.store.unblock(at.lane, at.item, named, event)

    def blocks(self, *, limit: int = 100) -> list[BlockView]:
        """Every block, the oldest first."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        return [_view(block) for block in self.store.blocks(limit)]

    def _target(self, lane: str | None, item: int | None) -> tuple[Block, Item | None]:
        """A block without a blocker, and the item that it is of."""
        if (lane is None) == (item is None):
            raise InvalidInput("A block is of a lane or of an item.", "Give one of them.")
        if item is not None:
            found = self._require(ItemId(item))
            return Block(lane=NO_LANE, item=found.id, blocker="", why=""), found
        assert lane is not None
        key = names.lane_key(lane)
        if key.startswith(PLAN_LANES):
            raise InvalidInput(f"The lanes {PLAN_LANES}… are reserved for plans alone.", "Pause the plan.")
        return Block(lane=key, item=NO_ITEM, blocker="", why=""), None

    def _block_event(
        self, kind: EventKind, at: Block, item: Item | None, why: str, by: str, **data: str | None
    ) -> Event:
        about = {"lane": at.lane} if item is None else {"lane": item.spec.lock_lane}
        return Event(
            self.store.now_us(),
            kind,
            why,
            project=None if item is None else item.spec.project,
            item=None if item is None else item.id,
            data={"by": signed(by), **data},
            **about,
        )


def _blocker(name: str) -> str:
    if not names.check_text("blocker", name, names.NAME_MAX_CHARS).strip():
        raise InvalidInput("There is no blocker.", "Name what must come first, as in acme/app#3.")
    return name.strip()


def _view(block: Block) -> BlockView:
    return BlockView(
        lane=block.lane or None,
        item=block.item or None,
        blocker=block.blocker,
        reason=block.why,
        url=block.url or None,
        since=moment(block.at_us),
    )
