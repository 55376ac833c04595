"""Faults of the set-up: a run that met one is given back, and nothing is counted against its item."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput, LeaseLost
from interlock.service.contract import Report
from tests.conformance.scene import LANE, Scene


def test_a_fault_costs_neither_an_attempt_nor_a_back_off(scene: Scene) -> None:
    item = scene.put("work", max_attempts=1)
    for _ in range(10):
        lease = scene.claim()
        assert lease.item.attempt == 1
        scene.release(lease, fault_s=0.0, error="The disk is full.")
        assert (scene.status(item), scene.item(item).attempt) == ("pending", 0)
    assert scene.last("run.released").data["why"] == "The disk is full."
    scene.done(scene.claim())
    assert scene.status(item) == "completed"


def test_a_fault_of_a_lane_keeps_the_lane_and_pauses_it(scene: Scene) -> None:
    first, second = scene.put("first", lane=LANE), scene.put("second", lane=LANE)
    scene.release(scene.claim(), fault_s=5.0, error="Two stores.")
    assert scene.statuses(first, second) == ["pending", "deferred"]
    assert scene.idle()
    assert "a set-up fault" in scene.service.why(first).why
    scene.pass_s(5)
    assert scene.claim().item.id == first
    assert scene.item(first).reason == "due"


def test_an_item_without_a_lane_waits_as_well(scene: Scene) -> None:
    item = scene.put("work", lane=None)
    scene.release(scene.claim(), fault_s=5.0)
    assert scene.idle()
    assert "a set-up fault" in scene.service.why(item).why
    scene.pass_s(5)
    assert scene.claim().item.id == item


def test_a_cancelled_item_ends_also_if_a_fault_met_its_run(scene: Scene) -> None:
    lease = scene.put_running("work")
    scene.cancel(lease.item.id)
    scene.release(lease, fault_s=5.0)
    assert scene.status(lease.item.id) == "cancelled"


@pytest.mark.parametrize("fault_s", [-1.0, 3601.0, float("nan"), "5", True])
def test_a_pause_that_makes_no_sense_is_refused(scene: Scene, fault_s: float) -> None:
    lease = scene.put_running("work")
    with pytest.raises(InvalidInput):
        scene.service.release([Report(run=lease.run, fault_s=fault_s)])
    assert scene.status(lease.item.id) == "in_progress"


def test_run_numbers_leap_past_a_forgotten_fence_once(scene: Scene) -> None:
    lease = scene.put_running("work", lane=LANE)
    ahead = lease.fence + 5_000
    assert scene.service.pass_fence(lease.run, fence=ahead, armed_us=0)
    assert scene.service.pass_fence(lease.run, fence=ahead + 1, armed_us=0), "it is past that too"
    (leap,) = scene.events("store.leapt")
    assert (leap.run, leap.lane, leap.data["past"]) == (lease.fence, LANE, ahead)
    scene.release(lease, fault_s=0.0)
    assert scene.claim().fence == leap.data["last_run"] + 1 > 1_000_000


def test_a_fence_armed_in_its_name_since_the_last_leap_is_a_copys(scene: Scene) -> None:
    """Two stores of one name would leap past each other for ever."""
    lease = scene.put_running("work", lane=LANE)
    far, further = (max(lease.fence, 4 * 10**15) + n * 10**9 for n in (1, 2))
    assert scene.service.pass_fence(lease.run, fence=far, armed_us=0)
    assert not scene.service.pass_fence(lease.run, fence=further, armed_us=10**16)
    assert scene.service.lineage().last_run < further
    assert scene.service.pass_fence(lease.run, fence=further, armed_us=0), "armed before the leap"


def test_a_run_that_is_over_moves_no_numbers(scene: Scene) -> None:
    lease = scene.put_running("work", lane=LANE)
    scene.release(lease)
    with pytest.raises(LeaseLost):
        scene.service.pass_fence(lease.run, fence=lease.fence + 5_000, armed_us=0)
    with pytest.raises(InvalidInput):
        scene.service.pass_fence(lease.run, fence=2**62, armed_us=0)
    assert scene.events("store.leapt") == []
