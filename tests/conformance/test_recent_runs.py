"""Runs that go on and that ended lately, by lane and by worker."""

from __future__ import annotations

import pytest

from interlock.service.contract import RecentRunView
from interlock.store.port import RUNS_MAX
from tests.conformance.scene import LANE, LEASE_S, Scene


def told(runs: list[RecentRunView]) -> list[tuple[int, str | None, str, str, str | None]]:
    return [(r.run, r.worker, r.status, r.reason, r.item_status) for r in runs]


def test_runs_are_listed_with_how_they_ended_the_newest_first(scene: Scene) -> None:
    first, second, third = (scene.put(lane=lane, max_attempts=1) for lane in (LANE, "b", "c"))
    began = scene.clock.now
    one, two = (
        scene.claim(item=item, worker=worker).fence
        for item, worker in ((first, "actions-7-1.9"), (second, None))
    )
    scene.clock.advance(2 * LEASE_S)
    scene.service.sweep()
    three = scene.claim(item=third, worker="actions-7-2.9").fence
    runs = scene.service.recent_runs()
    assert told(runs) == [
        (three, "actions-7-2.9", "running", "", "in_progress"),
        (two, None, "lost", "lease_expired", "failed"),
        (one, "actions-7-1.9", "lost", "lease_expired", "failed"),
    ]
    assert (runs[2].lane, runs[2].item, runs[2].agent) == (LANE, first, "coder")
    assert (runs[2].started_at, runs[2].ended_at) == (began, scene.clock.now)
    assert runs[0].ended_at is None
    assert [r.run for r in scene.service.recent_runs(worker="actions-7-1")] == [one]
    assert [r.run for r in scene.service.recent_runs(worker="actions-")] == [three, one]
    assert [r.run for r in scene.service.recent_runs(lane=LANE.upper())] == [one]
    assert scene.service.recent_runs(lane="b", worker="actions-") == []


def test_only_the_newest_ended_runs_are_looked_through(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert RUNS_MAX > 2
    for backend in ("sqlite", "postgres"):
        monkeypatch.setattr(f"interlock.store.{backend}.reads.RUNS_MAX", 2)
    ended = [scene.put_running() for _ in range(3)]
    for lease in ended:
        scene.done(lease)
    held = scene.put_running()
    newest = [held, ended[2], ended[1]]
    assert [r.run for r in scene.service.recent_runs()] == [lease.fence for lease in newest]
    assert [r.run for r in scene.service.recent_runs(limit=2)] == [held.fence, ended[2].fence]
