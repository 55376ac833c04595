"""A process dies between any two of its requests and writes: the next cycle makes good what it left.

Each promotion is counted and told once, each double is counted once, two issues are never assigned at once.
`INTERLOCK_SERIES_CRASHES=1` lets it die at every step on every store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.core.series.snapshot import RolloutStage
from tests.github.fake import FakeGitHub, Repository
from tests.github.series_desk import BOT, Fate, SeriesDesk
from tests.github.test_series_at_once import most_at_once
from tests.github.test_series_stories import CYCLE_S, Died, opened

EVERY = bool(os.environ.get("INTERLOCK_SERIES_CRASHES"))
#: From one step to the next, by store. The rules are the same on all; SQLite is the quickest.
STRIDES = {"sqlite": 1, "postgres18": 1 if EVERY else 6, "git": 1 if EVERY else 9}
STEPS_MAX = 400


@pytest.fixture
def desk(
    request: pytest.FixtureRequest, github: FakeGitHub, repo: Repository, tmp_path: Path
) -> Iterator[SeriesDesk]:
    desk = opened(request, github, repo, tmp_path, request.param)
    desk.mode(RolloutStage.COMMENT)
    yield desk
    desk.close()


def steps(desk: SeriesDesk, request: pytest.FixtureRequest, happens: Callable[[], object]) -> Iterator[int]:
    """Something happens, a reconcile dies at the n-th step, and the next one comes a cycle later; then the
    same at a later step, until a reconcile ends. Gives each step after that."""

    def die() -> None:
        raise Died

    for step in range(1, STEPS_MAX, STRIDES[request.node.callspec.params["desk"]]):
        happens()
        died = False
        try:
            lanes = desk.git_lanes("another") if desk.in_git else None
            desk.keeper(lanes=lanes, fate=Fate(step, die)).reconcile()
        except Died:
            died = True
        desk.github.clock.advance(CYCLE_S)
        desk.reconcile()
        assert all("was assigned again" in each for each in desk.view().problems), step
        yield step
        if not died:
            assert step > 10, "it died at many steps"
            return
    raise AssertionError("a reconcile never ends")


@pytest.mark.parametrize("desk", STRIDES, indirect=True)
def test_each_promotion_is_counted_and_told_once(desk: SeriesDesk, request: pytest.FixtureRequest) -> None:
    issues, last = [desk.issue(1), desk.issue(2)], desk.issue(99)
    desk.reconcile()
    desk.reconcile()

    def closed() -> None:
        issues.append(desk.issue(2))
        issues[-3].close(by="alice")

    for step in steps(desk, request, closed):
        view, active, following = desk.view(), issues[-2].number, issues[-1].number
        assert (view.active_issue, view.queue) == (active, (following, last.number)), step
        assert desk.assigned() == {active: [BOT]}, step
        assert view.metrics["promotion_events"] == len(issues) - 1, step
        told = [c.body for c in desk.state().comments if f"to #{active}," in c.body]
        assert len(told) == 1, (step, told)
        assert "closed without a merged pull request" in told[0], step
    assert most_at_once(desk.repo) == 1


@pytest.mark.parametrize("desk", ["sqlite", "git"], indirect=True)
def test_each_double_is_counted_once(desk: SeriesDesk, request: pytest.FixtureRequest) -> None:
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.reconcile()
    doubles = steps(desk, request, lambda: second.assign("alice", by="boss"))
    for counted, step in enumerate(doubles, 1):
        assert desk.assigned() == {first.number: [BOT]}, step
        assert desk.view().metrics["duplicate_prevented"] == counted, step
    assert desk.view().metrics["promotion_events"] == 1
