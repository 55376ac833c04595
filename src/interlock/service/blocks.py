"""Blocks: an item, or everything on a lane, waits for something outside, without a deadline."""

from __future__ import annotations

from interlock.core import names
from interlock.core.blocks import NO_ITEM, NO_LANE, Block
from interlock.core.errors import InvalidInput, ItemEnded
from interlock.core.model import Event, EventKind, Item, ItemId
from interlock.core.plans.model import PLAN_LANES
from interlock.core.validation import checked_reason, given_reason, signed
from interlock.service.contract import BlockView
from interlock.service.reads import require_item
from interlock.service.view_builders import block_view
from interlock.store.port import Store


class Blocks:
    """The operations on blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store

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
        """Block an item or everything on a lane until `unblock`. A current run continues.

        A repeated call changes nothing; another `blocker` adds a second block.
        """
        names.check_cause("", url)
        at, found = self._target(lane, item)
        if found is not None and found.terminal:
            raise ItemEnded(
                f"Item {found.id} has already ended as {found.status}.", reason=found.state.reason
            )
        block = at._replace(blocker=_blocker(blocker), why=given_reason(why), url=url)
        event = self._block_event(EventKind.BLOCK_SET, at, found, block.why, by, url=url or None)
        return block_view(self._store.block(block, event))

    def unblock(
        self,
        *,
        lane: str | None = None,
        item: int | None = None,
        blocker: str | None = None,
        why: str = "",
        by: str = "",
    ) -> list[str]:
        """Remove the blocks of a lane or an item, or only the one by `blocker`. Gives the removed
        blockers."""
        at, found = self._target(lane, item)
        named = None if blocker is None else _blocker(blocker)
        event = self._block_event(EventKind.BLOCK_REMOVED, at, found, checked_reason(why), by)
        return self._store.unblock(at.lane, at.item, named, event)

    def blocks(self, *, lane: str | None = None, limit: int = 100) -> list[BlockView]:
        """Every block, the oldest first; with `lane`, the blocks of that lane, not those of its items."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        if lane is not None and lane != "":
            found = self._store.blocks_of(names.lane_key(lane), [])[:limit]
        else:
            found = self._store.blocks(limit)
        return [block_view(block) for block in found]

    def _target(self, lane: str | None, item: int | None) -> tuple[Block, Item | None]:
        """A block without a blocker, and its item."""
        if (lane is None) == (item is None):
            raise InvalidInput(
                "A block is on either a lane or an item.", "Pass `lane` or `item`.", fields=("lane", "item")
            )
        if item is not None:
            found = require_item(self._store, ItemId(item))
            return Block(lane=NO_LANE, item=found.id, blocker="", why=""), found
        assert lane is not None
        key = names.lane_key(lane)
        if key.startswith(PLAN_LANES):
            raise InvalidInput(
                f"Lanes that begin with {PLAN_LANES} are reserved for plans.", "Pause the plan."
            )
        return Block(lane=key, item=NO_ITEM, blocker="", why=""), None

    def _block_event(
        self, kind: EventKind, at: Block, item: Item | None, why: str, by: str, **data: str | None
    ) -> Event:
        about = {"lane": at.lane} if item is None else {"lane": item.spec.lock_lane}
        return Event(
            self._store.now_us(),
            kind,
            why,
            project=None if item is None else item.spec.project,
            item=None if item is None else item.id,
            data={"by": signed(by), **data},
            **about,
        )


def _blocker(name: str) -> str:
    if not names.check_text("blocker", name, names.NAME_MAX_CHARS).strip():
        raise InvalidInput(
            "`blocker` is empty.", "Name what must come first, such as acme/app#3.", fields=("blocker",)
        )
    return name.strip()
