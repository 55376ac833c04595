"""External runs: work that is done outside, by no process that could renew a lease."""

from __future__ import annotations

import re
from typing import Any

import pytest

from interlock.core.errors import InvalidInput, ItemEnded, LeaseLost
from interlock.core.timing import CANCEL_GRACE_S
from interlock.service.contract import LeaseView, Report
from tests.conformance.conftest import OpenService
from tests.conformance.scene import FIRST_BACK_OFF_S, LANE, Scene

YEAR_S = 365 * 24 * 3600.0


def outside(scene: Scene, **fields: Any) -> LeaseView:
    """An item that an agent outside has."""
    item = scene.put(lane=LANE, agent="copilot", **fields)
    return scene.claim("copilot", item=item, external=True)


def test_an_external_run_has_no_lease_and_no_time_ends_it(scene: Scene) -> None:
    """Taken out: the null lease in `claim.sql` and `start.sql`."""
    lease = outside(scene)
    assert (lease.expires_at, lease.lease_s, lease.renew_within_s) == (None, None, None)
    assert (lease.item.external, lease.item.expires_at, lease.item.worker) == (True, None, None)
    scene.pass_s(YEAR_S)
    assert scene.idle("copilot")
    assert scene.item(lease.item.id).run == lease.fence
    assert scene.done(lease).status == "succeeded"
    assert not scene.item(lease.item.id).external
    assert scene.last("run.started").data == {"external": True}


def test_it_is_said_everywhere_that_a_run_is_external(scene: Scene) -> None:
    lease = outside(scene)
    held = scene.service.lanes()[0].holder
    assert held is not None
    assert (held.external, held.expires_at, held.run) == (True, None, lease.fence)
    assert [i.id for i in scene.service.external()] == [lease.item.id]
    why = scene.service.why(lease.item.id)
    assert f"(external run {lease.fence} of copilot)" in why.why
    assert "without a deadline" in why.why
    assert not re.search(r"\blease", f"{why.why} {why.lane}")
    second = scene.put(lane=LANE)
    behind = scene.service.why(second).why
    assert f"held by external run {lease.fence} of copilot" in behind
    assert "which no deadline ends" in behind
    assert not re.search(r"\blease", behind)
    said = next(check for check in scene.service.doctor() if check.name == "external_runs")
    assert f"run {lease.fence} of copilot (item {lease.item.id})" in said.detail
    assert "external run" in _loss(scene, lease), "a late writer is told who has it now"


def _loss(scene: Scene, lease: LeaseView) -> str:
    """What the holder of an ended run is told once an external one has its item."""
    scene.release(lease)
    now = scene.claim("copilot", item=lease.item.id, external=True)
    refusal = scene.done(lease).refusal
    assert refusal is not None
    assert f"run {now.fence}" in refusal.message
    return refusal.message


def test_a_renewal_learns_of_messages_and_gives_no_lease(scene: Scene) -> None:
    lease = outside(scene)
    scene.service.msg(lease.item.id, "hello")
    kept = scene.renew(lease)
    assert (kept.status, kept.expires_at, kept.unread) == ("running", None, 1)
    assert [m.text for m in scene.service.inbox(lease.run)] == ["hello"]
    assert scene.item(lease.item.id).external
    scene.pass_s(YEAR_S)
    assert scene.item(lease.item.id).run == lease.fence


def test_a_timeout_of_the_item_ends_it_and_nothing_before(scene: Scene) -> None:
    lease = outside(scene, timeout_s=600.0)
    assert lease.expires_at is not None
    scene.pass_s(599)
    scene.renew(lease)
    assert "time is up in 1 s" in scene.service.why(lease.item.id).why
    scene.pass_s(1)
    assert scene.item(lease.item.id).status == "pending"
    assert scene.last("run.timed_out").run == lease.fence


def test_a_cancel_request_revokes_it_when_the_grace_is_over(scene: Scene) -> None:
    lease = outside(scene)
    second = scene.put(lane=LANE)
    scene.cancel(lease.item.id)
    assert scene.renew(lease).cancel_requested
    scene.pass_s(CANCEL_GRACE_S - 1)
    assert scene.item(lease.item.id).external
    scene.renew(lease)
    scene.pass_s(1)
    assert scene.item(lease.item.id).status == "cancelled"
    assert scene.item(second).status == "pending"
    assert scene.last("run.cancelled").reason == "cancel_grace_over"


def test_a_newer_arrival_supersedes_it_after_the_grace(scene: Scene) -> None:
    lease = outside(scene, policy="supersede")
    newer = scene.put(lane=LANE, agent="copilot", policy="supersede")
    scene.pass_s(CANCEL_GRACE_S)
    assert scene.item(lease.item.id).status == "superseded"
    assert scene.claim("copilot", external=True).item.id == newer


def test_operators_end_it_by_force(scene: Scene) -> None:
    first, second = outside(scene), scene.put(lane=LANE)
    scene.service.take_back(first.item.id, why="nobody is there")
    assert scene.item(first.item.id).status == "pending"
    again = scene.claim("copilot", item=first.item.id, external=True)
    scene.service.cancel(first.item.id, why="nobody is there", force=True)
    assert scene.item(first.item.id).status == "cancelled"
    assert scene.item(second).status == "pending"
    assert scene.done(again).refusal is not None


@pytest.mark.parametrize(
    ("outcome", "kind", "status"),
    [
        ("done", "run.succeeded", "completed"),
        ("fail", "run.failed", "waiting"),
        ("release", "run.released", "pending"),
        ("cancel", "run.cancelled", "cancelled"),
    ],
)
def test_whoever_sees_its_end_writes_it_by_the_number_of_the_run(
    scene: Scene, outcome: str, kind: str, status: str
) -> None:
    lease = outside(scene)
    second = scene.put(lane=LANE)
    change = scene.service.end_external(lease.item.id, lease.fence, outcome, why="closed", by="github")
    assert (change.item.status, change.item.external) == (status, False)
    assert change.promoted == (() if status == "pending" else (second,))
    line = scene.last(kind)
    assert (line.reason, line.data["why"], line.data["by"]) == ("seen_outside", "closed", "github")
    (run,) = scene.service.show(lease.item.id).runs
    assert (run.run, run.reason) == (lease.fence, "seen_outside")
    assert scene.done(lease).refusal is not None, "its holder comes too late"


def test_an_end_that_was_seen_too_late_changes_nothing(scene: Scene) -> None:
    """Taken out: the comparison of the run's number in `end_external`."""
    first = outside(scene)
    scene.release(first)
    now = scene.claim("copilot", item=first.item.id, external=True)
    before = scene.service.show(first.item.id)
    with pytest.raises(
        LeaseLost, match=f"not the current run of item {first.item.id}, which has run {now.fence}"
    ):
        scene.service.end_external(first.item.id, first.fence, "done", why="closed")
    assert scene.service.show(first.item.id) == before
    scene.done(now)
    with pytest.raises(LeaseLost, match="which is completed"):
        scene.service.end_external(first.item.id, now.fence, "done", why="closed")


def test_a_run_under_a_lease_is_ended_by_its_handle_alone(scene: Scene) -> None:
    """Taken out: the look at `external` in `end_external`."""
    lease = scene.put_running()
    with pytest.raises(LeaseLost, match="not external"):
        scene.service.end_external(lease.item.id, lease.fence, "done", why="closed")
    assert scene.done(lease).refusal is None


def test_under_a_cancel_request_a_seen_release_ends_the_item(scene: Scene) -> None:
    lease = outside(scene)
    scene.cancel(lease.item.id)
    change = scene.service.end_external(lease.item.id, lease.fence, "release", why="unassigned")
    assert change.item.status == "cancelled"


def test_a_failure_that_was_seen_is_tried_again_after_its_back_off(scene: Scene) -> None:
    lease = outside(scene)
    scene.service.end_external(lease.item.id, lease.fence, "fail", why="no pull request")
    assert scene.service.show(lease.item.id).runs[0].error == "no pull request"
    scene.pass_s(FIRST_BACK_OFF_S)
    assert scene.claim("copilot").item.attempt == 2


def test_external_runs_count_for_the_limit_of_their_agent(scene: Scene) -> None:
    scene.service.set_agent("copilot", max_concurrency=1)
    lease = outside(scene)
    scene.put(agent="copilot")
    assert scene.idle("copilot")
    scene.done(lease)
    scene.claim("copilot", external=True)


def test_messages_that_nobody_read_become_a_follow_up(scene: Scene) -> None:
    lease = outside(scene)
    scene.service.msg(lease.item.id, "and this", author="ann")
    scene.service.end_external(lease.item.id, lease.fence, "done", why="merged")
    assert scene.claim("copilot").item.title.startswith("Follow-up: ")


def test_an_external_claim_has_neither_lease_nor_worker(scene: Scene) -> None:
    item = scene.put()
    for more in ({"lease_s": 60.0}, {"worker": "box.1"}):
        with pytest.raises(InvalidInput, match="no lease and no worker"):
            scene.service.next("copilot", item=item, external=True, **more)
    with pytest.raises(InvalidInput, match="outcome"):
        scene.service.end_external(item, 1, "vanish", why="closed")
    with pytest.raises(InvalidInput, match=r"why. is missing"):
        scene.service.end_external(item, 1, "done", why="")
    scene.cancel(item)
    with pytest.raises(ItemEnded):
        scene.service.next("copilot", item=item, external=True)


def test_another_process_sees_and_ends_it(scene: Scene, open_service: OpenService) -> None:
    lease = outside(scene)
    other = open_service()
    (found,) = other.external()
    assert found.run == lease.fence
    other.end_external(found.id, lease.fence, "done", why="merged")
    assert scene.service.done([Report(run=lease.run)])[0].refusal is not None
    assert other.external() == []
