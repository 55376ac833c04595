"""Blocks: an item, or everything on a lane, waits for something outside, without a time."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.cures import cure
from interlock.core.errors import InvalidInput, ItemEnded
from interlock.service.contract import ItemFilter
from tests.conformance.conftest import OpenService
from tests.conformance.scene import LANE, Scene

BLOCKER = "acme/app#3"
URL = "https://github.com/acme/app/issues/3"
YEAR_S = 365 * 24 * 3600.0


def block(scene: Scene, **target: Any) -> None:
    scene.service.block(**{"blocker": BLOCKER, "why": "blocked by", "url": URL, **target})


def test_a_blocked_item_is_not_started_until_the_block_is_removed(scene: Scene) -> None:
    """Taken out: each of the two conditions in the views `offered` and `ungated`."""
    item, other = scene.put(), scene.put(agent="other")
    block(scene, item=item)
    assert scene.idle()
    assert scene.idle(item=item)
    scene.pass_s(YEAR_S)
    assert scene.idle()
    assert scene.claim("other").item.id == other
    assert scene.service.unblock(item=item, blocker=BLOCKER, why="closed", by="ann") == [BLOCKER]
    assert scene.claim().item.id == item
    made, gone = scene.last("block.set"), scene.last("block.removed")
    assert (made.item, made.reason, made.data["blocker"], made.data["url"]) == (
        item,
        "blocked by",
        BLOCKER,
        URL,
    )
    assert (gone.item, gone.reason, gone.data["blocker"], gone.data["by"]) == (item, "closed", BLOCKER, "ann")


def test_the_block_of_an_item_goes_with_it(scene: Scene) -> None:
    item = scene.put()
    scene.service.block(item=item, blocker="acme/app#3", why="first that")
    scene.service.block(lane="a", blocker="acme/app#3", why="first that")
    scene.service.cancel(item, why="no longer")
    assert [block.lane for block in scene.service.blocks()] == ["a"]
    scene.service.sweep()
    scene.service.retry(item)
    assert [block.lane for block in scene.service.blocks()] == ["a"]


def test_nothing_on_a_blocked_lane_is_started_also_what_comes_later(scene: Scene) -> None:
    first = scene.put(lane=LANE)
    block(scene, lane=LANE)
    second = scene.put(lane=LANE, agent="coder", priority=9)
    elsewhere = scene.put(lane="issue:acme/app#99")
    assert scene.claim().item.id == elsewhere
    assert scene.idle()
    assert scene.idle("other")
    assert scene.service.unblock(lane=LANE) == [BLOCKER]
    assert scene.claim("other").item.id == first
    assert scene.item(second).status == "deferred"


def test_a_lane_may_be_blocked_before_anything_is_on_it(scene: Scene) -> None:
    block(scene, lane=LANE)
    scene.put(lane=LANE)
    assert scene.idle()
    scene.service.unblock(lane=LANE, blocker=BLOCKER)
    scene.claim()


def test_a_run_goes_on_and_its_item_waits_afterwards(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    block(scene, item=lease.item.id)
    block(scene, lane=LANE)
    assert not scene.renew(lease).cancel_requested
    scene.release(lease)
    assert scene.idle()
    scene.service.unblock(item=lease.item.id)
    assert scene.idle(), "its lane is blocked, too"
    scene.service.unblock(lane=LANE)
    scene.claim()


def test_an_item_waits_for_each_of_its_blockers(scene: Scene) -> None:
    item = scene.put()
    block(scene, item=item)
    block(scene, item=item, blocker="acme/app#4")
    assert [b.blocker for b in scene.service.blocks()] == [BLOCKER, "acme/app#4"]
    assert scene.service.unblock(item=item, blocker=BLOCKER) == [BLOCKER]
    assert scene.idle()
    assert scene.service.unblock(item=item) == ["acme/app#4"]
    scene.claim()


def test_the_same_block_again_changes_nothing_and_another_reason_is_kept(scene: Scene) -> None:
    item = scene.put()
    block(scene, item=item)
    first = scene.service.blocks()
    scene.clock.advance(60)
    block(scene, item=item)
    assert scene.service.blocks() == first
    assert len(scene.events("block.set")) == 1
    block(scene, item=item, why="depends on")
    (now,) = scene.service.blocks()
    assert (now.reason, now.since) == ("depends on", first[0].since)
    assert len(scene.events("block.set")) == 2
    scene.service.unblock(item=item)
    assert scene.service.unblock(item=item) == []
    assert len(scene.events("block.removed")) == 1


def test_a_blocked_owner_that_has_not_started_is_overtaken_by_what_is_not_blocked(scene: Scene) -> None:
    """Taken out: the block in `stuck_owners`, by way of the views below it."""
    blocked, behind, also = scene.put(lane=LANE), scene.put(lane=LANE), scene.put(lane=LANE)
    block(scene, item=blocked)
    block(scene, item=behind)
    lease = scene.claim()
    assert lease.item.id == also
    assert scene.item(blocked).status == "deferred"
    scene.service.unblock(item=blocked)
    scene.service.unblock(item=behind)
    scene.done(lease)
    assert scene.claim().item.id == blocked, "it has kept its ticket"


def test_what_is_blocked_itself_overtakes_nobody(scene: Scene) -> None:
    """Taken out: the conditions in `overtakable`."""
    owner, rival = scene.put(lane=LANE, agent="ghost"), scene.put(lane=LANE)
    for target in ({"item": rival}, {"lane": LANE}):
        block(scene, **target)
        assert scene.idle()
        assert (scene.item(owner).status, scene.item(rival).status) == ("pending", "deferred")
        scene.service.unblock(**target)
    assert scene.claim().item.id == rival


def test_it_is_said_what_blocks_an_item_and_what_brings_it_back(scene: Scene) -> None:
    item, behind = scene.put(lane=LANE), scene.put(lane=LANE)
    block(scene, lane=LANE)
    why = scene.service.why(item)
    assert f"is ready, but lane {LANE} is blocked by {BLOCKER} (blocked by, see {URL})" in why.why
    assert why.next.startswith(f"it can start when lane {LANE} is unblocked")
    assert why.cures == (cure("unblock", "removes the block", blocker=BLOCKER, lane=LANE),)
    assert why.hindered
    assert f"is blocked by {BLOCKER}" in scene.service.why(behind).why
    listed = scene.service.items(ItemFilter())
    assert [i.blocked_by for i in listed] == [(BLOCKER,), (BLOCKER,)]
    assert scene.service.show(item).item.blocked_by == (BLOCKER,)
    said = next(check for check in scene.service.doctor() if check.name == "blocks")
    assert f"{LANE} by {BLOCKER}" in said.detail
    scene.service.unblock(lane=LANE)
    assert scene.service.show(item).item.blocked_by == ()


def test_a_claim_that_waits_wakes_when_the_block_is_removed(scene: Scene, open_service: OpenService) -> None:
    item = scene.put()
    block(scene, item=item)
    other = open_service()
    other.unblock(item=item)
    assert [lease.item.id for lease in scene.service.next("coder", wait_s=5)] == [item]


def test_what_cannot_be_blocked_is_refused_in_words(scene: Scene) -> None:
    item = scene.put()
    with pytest.raises(InvalidInput, match="either a lane or an item"):
        block(scene)
    with pytest.raises(InvalidInput, match="either a lane or an item"):
        block(scene, lane=LANE, item=item)
    with pytest.raises(InvalidInput, match=r"blocker. is empty"):
        block(scene, item=item, blocker=" ")
    with pytest.raises(InvalidInput, match=r"why. is missing"):
        block(scene, item=item, why="")
    with pytest.raises(InvalidInput, match="not a URL"):
        block(scene, item=item, url="here")
    with pytest.raises(InvalidInput, match="reserved"):
        block(scene, lane="plan:1")
    scene.cancel(item)
    with pytest.raises(ItemEnded):
        block(scene, item=item)
