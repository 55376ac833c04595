"""A claim and a renewal are SQL in a database and a function where there is none: both say the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.core.checking import checked_wish
from interlock.core.claiming import Claim, renewed, started, wanted
from interlock.core.model import Item, ItemId
from interlock.service.local import LocalService
from tests.conformance.scene import LANE, Scene


def stored(scene: Scene, item: int) -> Item:
    assert isinstance(scene.service, LocalService)
    found = scene.service.store.item(ItemId(item))
    assert found is not None
    return found


def wish(agent: str, **options: object) -> Claim:
    asked = checked_wish(agent, (), (), 1, None, None)
    return replace(asked, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("fields", [{}, {"timeout_s": 20.0}, {"lease_s": 300.0}, {"claim_within_s": 5.0}])
def test_a_started_item_is_the_same_value(scene: Scene, fields: dict[str, float]) -> None:
    item = scene.put("work", lane=LANE, message="hello", **fields)
    before = stored(scene, item)
    scene.clock.advance(3)
    lease = scene.claim("coder", worker="box.1")
    after = stored(scene, item)
    asked = wish("coder", worker="box.1")
    assert wanted(asked, before)
    assert after.state.run is not None
    lease_s = before.spec.lease_s or 60.0
    assert started(before, asked, after.state.run, lease_s, scene.clock.now_us) == after
    scene.clock.advance(7)
    scene.renew(lease, seen=9)
    assert renewed(after, 9, scene.clock.now_us) == stored(scene, item)


def test_a_renewal_under_a_cancel_request_is_the_same_value(scene: Scene) -> None:
    lease = scene.put_running("work", lane=LANE)
    scene.cancel(lease.item.id)
    before = stored(scene, lease.item.id)
    scene.clock.advance(7)
    scene.renew(lease)
    assert renewed(before, 0, scene.clock.now_us) == stored(scene, lease.item.id)


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {}),
        ({"agent": "coder"}, {}),
        ({"agent": "planner"}, {}),
        ({"type": "review"}, {"types": ("review", "task")}),
        ({"type": "review"}, {"types": ("task",)}),
        ({"labels": ("gpu",)}, {}),
        ({"labels": ("gpu",)}, {"labels": ("gpu", "big")}),
        ({"labels": ("gpu", "big")}, {"labels": ("gpu",)}),
        ({"in_s": 60}, {}),
    ],
)
def test_what_a_claim_wants_is_the_same(
    scene: Scene, fields: dict[str, object], options: dict[str, tuple[str, ...]]
) -> None:
    item = stored(scene, scene.put("work", **fields))
    other = wish("coder", **options)
    assert wanted(other, item) is not scene.idle("coder", **options)
    assert not wanted(replace(other, item=ItemId(item.id + 1)), item)
