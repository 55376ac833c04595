"""Claiming one named item: it and nothing else, and only where any claim could have taken it."""

from __future__ import annotations

import threading

import pytest

from interlock.core.errors import InvalidInput, ItemEnded, NotFound
from tests.conformance.scene import LANE, Scene


def test_the_item_asked_for_is_claimed_although_others_come_first(scene: Scene) -> None:
    scene.put("urgent", priority=9)
    mine = scene.put("mine", agent="coder")
    anyones = scene.put("for anyone")
    assert scene.claim(item=anyones).item.id == anyones
    assert scene.claim(item=mine).item.id == mine


def test_what_keeps_a_claim_from_an_item_keeps_this_one_from_it_too(scene: Scene) -> None:
    scene.service.set_agent("limited", max_concurrency=1)
    scene.put_running("keeps it full", by="limited")
    owner, behind = scene.put("owner", lane=LANE), scene.put("behind", lane=LANE)
    others = scene.put("for another", agent="reviewer")
    labelled = scene.put("needs a label", labels=("gpu",))
    later = scene.put("later", in_s=60)
    assert scene.idle(item=behind)
    assert scene.idle(item=others)
    assert scene.idle(item=labelled)
    assert scene.idle(item=later)
    assert scene.idle("limited", item=owner)
    assert scene.idle(types=["review"], item=owner)
    scene.service.pause_agent("coder", paused=True, why="lunch")
    assert scene.idle(item=owner)
    assert scene.claim("gpu-coder", labels=["gpu"], item=labelled).item.id == labelled


def test_one_item_is_claimed_once(scene: Scene) -> None:
    item = scene.put()
    assert scene.claim(item=item).item.id == item
    assert scene.idle(item=item)
    assert scene.idle("reviewer", item=item)


def test_it_starts_in_place_of_an_owner_that_cannot_and_no_other_item_does(scene: Scene) -> None:
    other = "issue:acme/app#7"
    for lane in (LANE, other):
        scene.put("owner of nobody we know", lane=lane, agent="never-seen")
    elsewhere = scene.put("elsewhere", lane=other, agent="coder")
    first, second = (scene.put(title, lane=LANE, agent="coder") for title in ("first", "second"))
    assert scene.idle(item=second), "it is not the first of its line"
    assert scene.claim(item=first).item.id == first
    assert scene.statuses(elsewhere, second) == ["deferred", "deferred"]


def test_an_item_that_has_ended_is_refused_with_its_reason(scene: Scene) -> None:
    item = scene.put()
    scene.cancel(item)
    with pytest.raises(ItemEnded) as refused:
        scene.service.next("coder", item=item, wait_s=30)
    assert refused.value.reason == "operator"


def test_an_item_that_is_not_there_and_a_limit_beside_it_are_errors(scene: Scene) -> None:
    item = scene.put()
    for number in (item + 1_000, 0, -1, 2**63):
        with pytest.raises(NotFound):
            scene.service.next("coder", item=number)
    with pytest.raises(InvalidInput):
        scene.service.next("coder", item=item, limit=2)
    assert scene.status(item) == "pending"


def test_a_wait_for_one_item_ends_with_its_promotion_and_not_with_other_work(scene: Scene) -> None:
    lease = scene.put_running("owner", lane=LANE)
    behind = scene.put("behind", lane=LANE)
    scene.put("other work that is ready", priority=9)
    other = threading.Thread(target=lambda: scene.done(lease))
    other.start()
    leases = scene.service.next("coder", item=behind, wait_s=30)
    other.join()
    assert [found.item.id for found in leases] == [behind]
