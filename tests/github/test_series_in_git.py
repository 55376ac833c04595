"""Series without a server, on git over HTTP: many at once, broken refs, clocks that are hours off."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.github.series.cycle import NOBODY
from interlock.github.series.lane import lane_of
from tests.git_fixtures import git
from tests.github.fake import FakeGitHub, Repository
from tests.github.series_desk import BOT, SeriesDesk
from tests.github.test_series_at_once import most_at_once

#: Fewer than on a database: each attempt pushes.
ATTEMPTS = int(os.environ.get("INTERLOCK_SERIES_ATTEMPTS", "12"))
AT_ONCE = 4


@pytest.fixture
def desk(github: FakeGitHub, repo: Repository, tmp_path: Path) -> Iterator[SeriesDesk]:
    limits = github.faults.limits
    limits.hourly = dict.fromkeys(limits.hourly, 10**9)
    repo.commit({"README.md": "hello"})
    login = f"x-access-token:{github.token('boss')}@"
    url = f"git+{repo.clone_url.replace('http://', 'http://' + login)}"
    desk = SeriesDesk(github, repo, url, directory=tmp_path)
    yield desk
    desk.close()


def refs(repo: Repository, kind: str) -> list[str]:
    return git(repo.bare, "for-each-ref", "--format=%(refname)", f"refs/interlock/{kind}").split()


@pytest.mark.slow
def test_workflow_runs_that_want_an_issue_at_once(desk: SeriesDesk) -> None:
    """Each has a clone of its own, and assigns by itself what it is given."""
    issues = [desk.issue(n) for n in (1, 2, 3)]
    statuses: Counter[str] = Counter()

    def attempt(n: int) -> None:
        lanes = desk.git_lanes(f"runner-{n % AT_ONCE}")
        issue = issues[n % 3]
        found = desk.keeper(lanes=lanes).acquire(issue.number, login=NOBODY)
        statuses[found.status] += 1
        if found.assign:
            issue.assign(BOT, by="boss")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(attempt, range(ATTEMPTS)))
    assert most_at_once(desk.repo) == 1
    assert statuses["acquired"] == 1
    assert desk.assigned() == {1: [BOT]}
    assert not any(
        value for name, value in statuses.items() if name not in ("acquired", "already-active", "queued")
    )


@pytest.mark.parametrize("kind", ["owner", "queue", "notes"])
def test_refs_that_somebody_broke(desk: SeriesDesk, kind: str) -> None:
    """What cannot be read counts as held, and is mended: the issue that is assigned stays the active one."""
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    head = git(desk.repo.bare, "rev-parse", "refs/heads/main").strip()
    for ref in refs(desk.repo, kind):
        git(desk.repo.bare, "update-ref", ref, head)
    desk.reconcile()
    assert desk.view().active_issue == first.number
    assert desk.view().queue == (second.number,)
    assert desk.assigned() == {first.number: [BOT]}
    assert most_at_once(desk.repo) == 1


def test_refs_that_somebody_deleted(desk: SeriesDesk) -> None:
    """They are rebuilt from the live issues, and never count as a free series."""
    first, second = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.merge(first)
    desk.reconcile()
    first.reopen(by="alice")
    first.unassign(BOT, by="alice")
    for ref in refs(desk.repo, ""):
        git(desk.repo.bare, "update-ref", "-d", ref)
    lanes = desk.git_lanes("another machine")
    answer = desk.keeper(lanes=lanes).acquire(first.number)
    assert (answer.status, answer.active_issue) == ("queued", second.number)
    assert desk.assigned() == {second.number: [BOT]}
    assert most_at_once(desk.repo) == 1


@pytest.mark.parametrize("off_s", [-7200.0, 7200.0])
def test_a_runner_whose_clock_is_hours_off(desk: SeriesDesk, off_s: float) -> None:
    """How long an assignment is gone is measured by GitHub's clock, not by the runners'."""
    first, _ = desk.issue(1), desk.issue(2)
    desk.reconcile()
    desk.reconcile()
    first.unassign(BOT, by="alice")
    desk.reconcile()

    def now() -> float:
        return time.time() + off_s

    lanes = desk.git_lanes("runner", now=lambda: int(now() * 1e6))
    desk.keeper(lanes=lanes, clock=now).reconcile()
    assert desk.view().active_issue == first.number
    assert lane_of("acme/app", "RFC-093") == desk.view().lane
