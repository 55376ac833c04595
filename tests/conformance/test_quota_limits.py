"""Quota limits: a run hits the limit of a provider, and its item or its whole agent waits."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from interlock.core.commands import QuotaLimit
from interlock.core.errors import InvalidInput
from interlock.core.timing import QUOTA_LIMIT_MAX_S
from interlock.service.contract import AgentView, LeaseView, Report, RunView
from tests.conformance.scene import LANE, Scene

HOUR_S = 3600.0


def limited(scene: Scene, lease: LeaseView, for_s: float = HOUR_S, **parts: object) -> RunView:
    return scene.release(lease, wall=QuotaLimit(for_s=for_s, **parts))  # type: ignore[arg-type]


def agent(scene: Scene, name: str) -> AgentView:
    return next(a for a in scene.service.agents() if a.key == name)


def test_an_item_at_a_quota_limit_waits_until_it_is_over_and_has_lost_no_attempt(scene: Scene) -> None:
    lease = scene.put_running(max_attempts=1)
    ended = limited(scene, lease, why="quota")
    assert ended.status == "released"
    assert ended.item is not None
    assert (ended.item.status, ended.item.reason, ended.item.attempt) == ("waiting", "quota_wall", 0)
    assert ended.item.run_at == scene.clock.now + timedelta(seconds=HOUR_S)
    scene.pass_s(HOUR_S - 1)
    assert scene.idle()
    assert "hit a quota limit" in scene.service.why(lease.item.id).why
    scene.pass_s(1)
    again = scene.claim()
    assert again.item.id == lease.item.id
    assert again.item.attempt == 1
    assert scene.last("run.released").data["why"] == "quota"
    assert scene.last("item.parked").reason == "quota_wall"


def test_a_time_says_the_same_as_a_span(scene: Scene) -> None:
    lease = scene.put_running()
    until_us = scene.clock.now_us + 5_000_000
    ended = scene.release(lease, wall=QuotaLimit(until_us=until_us))
    assert ended.item is not None
    assert ended.item.status == "waiting"
    scene.pass_s(5)
    scene.claim()


def test_the_lane_goes_on_without_an_item_at_a_quota_limit_even_if_retries_keep_it(scene: Scene) -> None:
    first = scene.put_running(lane=LANE, retry_lane="keep")
    second = scene.put(lane=LANE)
    assert limited(scene, first).promoted == (second,)
    scene.done(scene.claim())
    scene.pass_s(HOUR_S)
    assert scene.claim().item.id == first.item.id


def test_quota_limits_do_not_count_as_releases_in_a_row(scene: Scene) -> None:
    item = scene.put()
    for _ in range(5):
        limited(scene, scene.claim())
        scene.pass_s(HOUR_S)
    scene.release(scene.claim())
    scene.release(scene.claim())
    assert scene.item(item).status == "pending"
    limited(scene, scene.claim())
    scene.pass_s(HOUR_S)
    scene.release(scene.claim())
    assert scene.item(item).reason == "released_often"


def test_a_quota_limit_that_is_over_is_a_plain_release(scene: Scene) -> None:
    lease = scene.put_running()
    ended = scene.release(lease, wall=QuotaLimit(until_us=scene.clock.now_us, whole_agent=True))
    assert ended.item is not None
    assert (ended.item.status, ended.item.reason) == ("pending", "reported")
    assert agent(scene, "coder").walled_until is None


def test_a_quota_limit_is_over_after_a_week_at_the_latest(scene: Scene) -> None:
    ended = limited(scene, scene.put_running(), for_s=30 * 24 * HOUR_S)
    assert ended.item is not None
    assert ended.item.run_at == scene.clock.now + timedelta(seconds=QUOTA_LIMIT_MAX_S)


def test_no_message_ends_a_quota_limit_and_the_next_run_reads_it(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE, policy="coalesce", agent="coder")
    limited(scene, lease)
    scene.service.msg(lease.item.id, "hurry", author="anna")
    assert scene.add("also this", lane=LANE, policy="coalesce", agent="coder").decision == "coalesced"
    assert scene.status(lease.item.id) == "waiting"
    scene.pass_s(HOUR_S)
    assert [m.text for m in scene.claim().messages] == ["hurry", "also this"]


def test_an_operator_brings_an_item_back_early(scene: Scene) -> None:
    lease = scene.put_running()
    limited(scene, lease)
    scene.service.retry(lease.item.id)
    assert scene.claim().item.id == lease.item.id


def test_a_cancel_request_ends_an_item_at_a_quota_limit(scene: Scene) -> None:
    lease = scene.put_running()
    scene.cancel(lease.item.id)
    limited(scene, lease)
    assert scene.status(lease.item.id) == "cancelled"


def test_the_whole_agent_waits_and_nobody_else(scene: Scene) -> None:
    lease = scene.put_running("hits it", agent="coder")
    mine, anyones, others = scene.put(agent="coder"), scene.put(), scene.put(agent="reviewer")
    running = scene.claim("coder", item=mine)
    limited(scene, lease, why="quota", whole_agent=True)
    ended_at = scene.clock.now
    assert scene.done(running).status == "succeeded", "what runs goes on"
    mine = scene.put(agent="coder")
    assert scene.idle("coder")
    assert scene.idle("Coder "), "names are compared without case"
    why = scene.service.why(mine)
    assert "coder has hit a quota limit (quota)" in why.why
    assert [cure.operation for cure in why.cures] == ["pause_agent"]
    shown = agent(scene, "coder")
    assert shown.walled_until == ended_at + timedelta(seconds=HOUR_S)
    assert (shown.wall_reason, shown.paused) == ("quota", False)
    assert any("coder" in check.detail for check in scene.service.doctor() if check.ok)
    event = scene.last("agent.walled")
    assert (event.agent, event.reason, event.data["why"]) == ("coder", "quota_wall", "quota")
    taken = [scene.claim("reviewer") for _ in range(2)]
    assert {lease.item.id for lease in taken} == {anyones, others}
    for each in taken:
        scene.done(each)
    scene.pass_s(HOUR_S)
    assert {scene.claim("coder").item.id for _ in range(2)} == {mine, lease.item.id}
    assert agent(scene, "coder").walled_until is None


@pytest.mark.parametrize("limit", [None, 2])
def test_resuming_the_agent_ends_the_limit_early(scene: Scene, limit: int | None) -> None:
    scene.service.set_agent("coder", max_concurrency=limit, unlimited=limit is None)
    limited(scene, scene.put_running(agent="coder"), whole_agent=True)
    waits = scene.put(agent="coder")
    assert scene.idle()
    scene.service.set_agent("coder", labels=["gpu"])
    assert scene.idle(), "other changes leave the limit standing"
    scene.service.pause_agent("coder", paused=False, why="")
    assert scene.claim().item.id == waits


def test_of_two_quota_limits_the_later_one_counts(scene: Scene) -> None:
    first, second = scene.put_running(), scene.put_running()
    limited(scene, first, for_s=2 * HOUR_S, why="weekly", whole_agent=True)
    limited(scene, second, for_s=HOUR_S, why="hourly", whole_agent=True)
    assert agent(scene, "coder").wall_reason == "weekly"
    scene.put()
    scene.pass_s(HOUR_S)
    assert scene.idle()


def test_an_owner_of_an_agent_at_a_quota_limit_is_overtaken(scene: Scene) -> None:
    limited(scene, scene.put_running(agent="coder"), whole_agent=True)
    owner = scene.put("owner", agent="coder", lane=LANE)
    rival = scene.put("rival", agent="reviewer", lane=LANE)
    assert scene.claim("reviewer").item.id == rival
    assert scene.status(owner) == "deferred"
    assert scene.last("lane.overtaken").item == owner


def test_an_owner_whose_quota_limit_is_over_is_not_overtaken(scene: Scene) -> None:
    scene.service.set_agent("coder", overtake_after_s=0)
    limited(scene, scene.put_running(agent="coder"), whole_agent=True)
    owner = scene.put("owner", agent="coder", lane=LANE)
    scene.put("rival", agent="reviewer", lane=LANE)
    scene.pass_s(HOUR_S)
    assert scene.idle("reviewer")
    assert scene.status(owner) == "pending"


def test_a_run_that_lost_its_lease_puts_nobody_at_a_quota_limit(scene: Scene) -> None:
    lease = scene.put_running()
    scene.lose(lease)
    assert limited(scene, lease, whole_agent=True).status == "refused"
    assert agent(scene, "coder").walled_until is None


@pytest.mark.parametrize(
    "limit",
    [
        QuotaLimit(),
        QuotaLimit(until_us=1, for_s=1.0),
        QuotaLimit(for_s=-1.0),
        QuotaLimit(until_us=-1),
        QuotaLimit(for_s=float("nan")),
        QuotaLimit(for_s=1.0, why="x" * 5000),
        QuotaLimit(for_s=1.0, whole_agent=json.loads("1")),
    ],
)
def test_a_quota_limit_that_says_nothing_is_refused_and_nothing_changes(
    scene: Scene, limit: QuotaLimit
) -> None:
    lease = scene.put_running()
    with pytest.raises(InvalidInput):
        scene.release(lease, wall=limit)
    assert scene.status(lease.item.id) == "in_progress"


def test_the_whole_pool_waits_and_nobody_else(scene: Scene) -> None:
    scene.service.set_pool("account", max_concurrency=9)
    for name in ("coder", "painter", "loner"):
        scene.service.set_agent(name, pool="account" if name != "loner" else None)
    lease = scene.put_running(agent="coder")
    for _ in range(3):
        scene.put()
    limited(scene, lease, why="session limit", whole_pool=True)
    assert scene.status(lease.item.id) == "waiting"
    assert scene.item(lease.item.id).attempt == 0
    until = scene.clock.now + timedelta(seconds=HOUR_S)
    shown = [agent(scene, name) for name in ("coder", "painter", "loner")]
    assert [a.walled_until for a in shown] == [until, until, None]
    assert [a.wall_reason for a in shown] == ["session limit", "session limit", None]
    assert scene.idle("painter")
    scene.done(scene.claim("loner"))
    scene.service.set_agent("late", pool="account")
    scene.done(scene.claim("late"))
    scene.service.pause_agent("painter", paused=False, why="bought more")
    scene.done(scene.claim("painter"))
    scene.pass_s(HOUR_S)
    assert scene.claim("coder").item.id == lease.item.id


def test_a_limit_of_a_pool_is_that_of_the_agent_alone_if_it_is_in_none(scene: Scene) -> None:
    scene.service.set_agent("other")
    limited(scene, scene.put_running(agent="coder"), whole_pool=True)
    assert agent(scene, "coder").walled_until is not None
    assert agent(scene, "other").walled_until is None


def test_of_two_limits_in_one_batch_the_later_one_counts(scene: Scene) -> None:
    leases = [scene.put_running(agent="coder") for _ in range(2)]
    walls = [QuotaLimit(for_s=each * HOUR_S, whole_agent=True) for each in (2, 1)]
    scene.service.release(
        [Report(run=lease.run, wall=wall) for lease, wall in zip(leases, walls, strict=True)]
    )
    assert agent(scene, "coder").walled_until == scene.clock.now + timedelta(seconds=2 * HOUR_S)
