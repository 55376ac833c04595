"""An item that nobody claims in time gives its lane away, whoever looks first: sweeper, claim or arrival."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.service import sweeper
from tests.conformance.scene import LANE, Scene


def test_the_sweeper_ends_it_and_promotes_the_next_in_the_same_step(scene: Scene) -> None:
    dead, heir = scene.put("dead", lane=LANE, claim_within_s=30), scene.put("heir", lane=LANE)
    assert scene.item(dead).claim_by == scene.clock.in_s(30 - 0.000001)
    scene.pass_s(29)
    assert scene.statuses(dead, heir) == ["pending", "deferred"]
    scene.clock.advance(1)
    swept = scene.service.sweep()
    assert (swept.expired, swept.reentered, swept.promoted) == (1, 0, 1)
    assert scene.statuses(dead, heir) == ["cancelled", "pending"]
    assert (scene.item(dead).reason, scene.item(dead).claim_by) == ("unclaimed", None)
    assert scene.kinds(dead) == ["item.added", "item.cancelled"]
    ended, promoted = scene.last("item.cancelled"), scene.last("lane.promoted")
    assert (ended.at, ended.reason) == (promoted.at, "unclaimed")


def test_a_claim_finds_the_heir_where_no_sweeper_runs(scene: Scene) -> None:
    scene.put("dead", lane=LANE, agent="gone", claim_within_s=30)
    heir = scene.put("heir", lane=LANE)
    scene.clock.advance(30)
    assert scene.claim().item.id == heir


def test_an_arrival_finds_the_lane_free_where_no_sweeper_runs(scene: Scene) -> None:
    dead = scene.put("dead", lane=LANE, claim_within_s=30)
    scene.clock.advance(30)
    assert scene.add("newcomer", lane=LANE).decision == "admitted"
    assert scene.status(dead) == "cancelled"


def test_a_claimed_item_keeps_its_run_past_that_time_and_a_lost_one_has_it_anew(scene: Scene) -> None:
    lease = scene.put_running("work", lane=LANE, claim_within_s=5)
    assert scene.item(lease.item.id).claim_by is None
    scene.pass_s(30)
    assert scene.status(lease.item.id) == "in_progress"
    scene.lose(lease)
    assert scene.status(lease.item.id) == "pending"
    scene.pass_s(4)
    assert scene.status(lease.item.id) == "pending"
    scene.pass_s(1)
    assert scene.status(lease.item.id) == "cancelled"


def test_in_line_it_waits_as_long_as_it_must(scene: Scene) -> None:
    owner = scene.put_running("owner", lane=LANE, lease_s=3_600)
    heir = scene.put("heir", lane=LANE, claim_within_s=5)
    scene.pass_s(1_000)
    assert scene.status(heir) == "deferred"
    scene.done(owner)
    assert scene.item(heir).claim_by == scene.clock.in_s(5)
    assert scene.claim(item=heir).item.claim_by is None


def test_a_line_of_the_dead_is_gone_through_one_time_after_the_other(scene: Scene) -> None:
    dead = [scene.put("dead", lane=LANE, claim_within_s=10) for _ in range(3)]
    alive = scene.put("alive", lane=LANE)
    for n in range(3):
        assert scene.owner() == dead[n]
        scene.pass_s(10)
    assert scene.owner() == alive


def test_it_can_be_retried(scene: Scene) -> None:
    item = scene.put("work", claim_within_s=10)
    scene.pass_s(10)
    scene.service.retry(item)
    assert scene.claim().item.id == item


HELD_BACK = ("gate", "project", "agent", "item blocked", "lane blocked")


def hold_back(scene: Scene, how: str, item: int, *, on: bool) -> None:
    """Keep everybody from claiming an item, or let it go."""
    service = scene.service
    match how:
        case "gate":
            series = "series:acme/app/RFC-093"
            service.set_gate(LANE, series=series, open=not on, exempt=(), why="its turn")
        case "project":
            service.pause_project("default", paused=on, why="release day")
        case "agent":
            service.pause_agent("coder", paused=on, why="holiday", create=True)
        case _:
            what: dict[str, Any] = {"lane": LANE} if how == "lane blocked" else {"item": item}
            if on:
                service.block(**what, blocker="acme/app#3", why="blocked by")
            else:
                service.unblock(**what)


@pytest.mark.parametrize("how", HELD_BACK)
@pytest.mark.parametrize("before", [True, False], ids=["held back first", "ready first"])
def test_the_time_does_not_end_an_item_that_nobody_can_claim(scene: Scene, how: str, before: bool) -> None:
    if before and how != "item blocked":
        scene.idle("coder")
        hold_back(scene, how, 0, on=True)
    item = scene.put("work", lane=LANE, agent="coder", claim_within_s=30)
    if not before or how == "item blocked":
        scene.clock.advance(20)
        hold_back(scene, how, item, on=True)
    heir = scene.put("heir", lane=LANE, policy="queue", agent="coder")
    assert "unless claimed" not in scene.service.why(item).why
    for _ in range(4):
        scene.pass_s(31)
        assert scene.status(item) == "pending"
    scene.add("an arrival looks too", lane=LANE, agent="coder", position=9)
    hold_back(scene, how, item, on=False)
    assert scene.status(item) == "pending"
    assert "unless claimed" in scene.service.why(item).why
    scene.pass_s(31)
    assert (scene.status(item), scene.item(item).reason) == ("cancelled", "unclaimed")
    scene.cancel(heir)


@pytest.mark.parametrize("how", HELD_BACK)
def test_the_time_begins_anew_when_the_item_is_let_go_though_nobody_swept(scene: Scene, how: str) -> None:
    scene.idle("coder")
    item = scene.put("work", lane=LANE, agent="coder", claim_within_s=30)
    hold_back(scene, how, item, on=True)
    scene.clock.advance(100)
    hold_back(scene, how, item, on=False)
    assert scene.item(item).claim_by == scene.clock.in_s(30)
    scene.pass_s(29)
    assert scene.status(item) == "pending"
    scene.pass_s(1)
    assert (scene.status(item), scene.item(item).reason) == ("cancelled", "unclaimed")


@pytest.mark.parametrize("how", HELD_BACK)
def test_a_hold_that_is_lifted_gives_no_time_to_what_it_did_not_hold(scene: Scene, how: str) -> None:
    scene.idle("coder")
    item = scene.put("work", lane=LANE, agent="coder", claim_within_s=30)
    others = [
        scene.put("other", project="other", claim_within_s=30),
        scene.put("other", project="other", agent="bob", claim_within_s=30),
    ]
    running = scene.put("runs", project="other", agent="coder", claim_within_s=30)
    scene.claim("coder", item=running)
    hold_back(scene, how, item, on=True)
    scene.clock.advance(30)
    hold_back(scene, how, item, on=False)
    scene.service.sweep()
    assert scene.statuses(item, *others, running) == ["pending", "cancelled", "cancelled", "in_progress"]
    scene.clock.advance(29)
    hold_back(scene, how, item, on=False)  # nothing holds it
    scene.pass_s(1)
    assert scene.status(item) == "cancelled"


def test_what_two_hold_back_has_its_time_when_the_second_lets_go(scene: Scene) -> None:
    scene.idle("coder")
    item = scene.put("work", lane=LANE, agent="coder", claim_within_s=30)
    for how in HELD_BACK:
        hold_back(scene, how, item, on=True)
    for how in HELD_BACK:
        scene.clock.advance(100)
        hold_back(scene, how, item, on=False)
    assert scene.item(item).claim_by == scene.clock.in_s(30)
    assert scene.claim("coder").item.id == item


def test_a_sweep_goes_on_behind_many_items_that_are_held_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "BATCH", 2)
    for n in range(3):
        scene.put(f"held {n}", project="held", claim_within_s=30)
    scene.service.pause_project("held", paused=True, why="release day")
    late = scene.put("late", claim_within_s=30)
    scene.pass_s(30)
    assert scene.status(late) == "cancelled"
