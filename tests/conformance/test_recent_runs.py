"""Runs that go on and that ended lately, by lane and by worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from interlock.core.errors import InvalidInput
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
    monkeypatch.setattr("interlock.store.reads.RUNS_MAX", 2)
    ended = [scene.put_running() for _ in range(3)]
    for lease in ended:
        scene.done(lease)
    held = scene.put_running()
    newest = [held, ended[2], ended[1]]
    assert [r.run for r in scene.service.recent_runs()] == [lease.fence for lease in newest]
    assert [r.run for r in scene.service.recent_runs(limit=2)] == [held.fence, ended[2].fence]


def test_runs_of_a_window_and_of_an_agent_are_found_however_many_came_later(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window in the past is found by the numbers of runs: later runs do not count as searched."""
    scene.service.set_agent("tester")
    zero = scene.clock.now
    long = scene.put_running(lane="long", lease_s=36_000)
    early = [_ran(scene, "coder", n) for n in range(3)]  # one a minute
    other = _ran(scene, "tester", 3)
    scene.done(long)
    later = [_ran(scene, "coder", 10 + n) for n in range(8)]
    held = scene.put_running(lane="held", lease_s=36_000)

    def runs(since: float | None = None, until: float | None = None, agent: str | None = None) -> list[int]:
        at = [None if s is None else zero + timedelta(seconds=s) for s in (since, until)]
        found = scene.service.recent_runs(since=at[0], until=at[1], agent=agent)
        return [run.run for run in found]

    assert runs(until=240) == [other, *reversed(early), long.fence]
    assert runs(since=61, until=119) == [early[1], long.fence], "a run that overlaps the window counts"
    assert runs(until=240, agent="tester") == [other]
    assert runs(since=610) == [held.fence, *later[:5:-1]]
    assert runs(until=0) == []
    assert runs(since=100_000) == [held.fence], "a current run goes on"
    monkeypatch.setattr("interlock.store.reads.RUNS_MAX", 5)
    assert runs(until=240) == [other, *reversed(early), long.fence]
    (first,) = scene.service.recent_runs(agent="TESTER", until=zero + timedelta(seconds=240))
    assert (first.run, first.item_added_at) == (other, scene.service.show(first.item).item.created_at)
    with pytest.raises(InvalidInput):
        scene.service.recent_runs(since=datetime(2027, 1, 1, tzinfo=UTC).replace(tzinfo=None))


def _ran(scene: Scene, agent: str, n: int) -> int:
    """A run of a minute."""
    lease = scene.put_running(lane=f"lane:{n}", agent=agent)
    scene.clock.advance(60)
    scene.done(lease)
    return lease.fence


def test_runs_on_an_observed_lane_are_runs_of_it(scene: Scene) -> None:
    scene.service.set_mode(scope="lane", value="docs:", mode="observe")
    runs = [scene.put_running(lane="docs:1") for _ in range(2)]
    scene.done(runs[0])
    found = scene.service.recent_runs(lane="docs:1")
    assert [(run.run, run.lane) for run in found] == [(lease.fence, "docs:1") for lease in reversed(runs)]
