"""The fenced push where the lanes live in the same git repository: the owner commit moves with the branch.

The owner's move was left out of the push once, in a copy of the sources: the zombie's commit landed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import app, settings
from interlock.core.model import NewItem
from interlock.git.plumbing import GitRepository
from interlock.push.fence import LanesInGit
from interlock.service.contract import LaneService, LeaseView, Report
from tests.git_fixtures import (
    Window,
    bare_repository,
    clone,
    commit,
    git,
    git_identity,
    http_remote,
    log,
    remote_url,
)
from tests.patience import PATIENCE_S

__all__ = ["bare_repository", "git_identity", "http_remote", "remote_url"]

LANE = "issue:acme/app#42"


@pytest.fixture
def url(remote_url: str) -> str:
    return f"git+{remote_url}"


@pytest.fixture
def lanes(url: str, tmp_path: Path) -> Iterator[LaneService]:
    """Another clone's view of the lanes: arrivals and heirs come from here."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    service = app.open_lanes(settings.load(url=url, environ={}, directory=elsewhere))
    yield service
    service.close()


@pytest.fixture
def tree(remote_url: str, tmp_path: Path) -> Path:
    """A clone at a path that git would read as several, where it reads a list of paths."""
    return clone(remote_url, tmp_path / 'tree: a "quoted" \\ one')


def claim(lanes: LaneService, agent: str = "coder") -> LeaseView:
    lanes.add([NewItem(title="work", lane=LANE, agent=agent)])
    (lease,) = lanes.next(agent)
    return lease


def start(tree: Path, lease: LeaseView, url: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "interlock", "--json", "push", *args],
        cwd=tree,
        env=os.environ | {"INTERLOCK_RUN": lease.run, "INTERLOCK_URL": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, object]]:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert err == ""
    return process.returncode, json.loads(out)


def test_a_zombies_push_is_refused_by_the_server_in_the_window_before_the_update(
    tree: Path, lanes: LaneService, url: str, bare_repository: Path
) -> None:
    lease = claim(lanes)
    window = Window(bare_repository)
    commit(tree, {"a": "zombie"}, "from the zombie")
    zombie = start(tree, lease, url)
    with window.open():
        assert lanes.release([Report(run=lease.run)])[0].refusal is None
        (heir,) = lanes.next("coder")
    code, answer = ended(zombie)
    assert code == 5, answer
    assert answer["error"]["code"] == "lease_lost"  # type: ignore[index]
    assert log(bare_repository) == ["first"]
    assert git(tree, "status", "--porcelain", "--untracked-files=no") == ""
    commit(tree, {"a": "heir"}, "from the heir")
    code, answer = ended(start(tree, heir, url))
    assert code == 0, answer
    assert lanes.done([Report(run=heir.run)])[0].refusal is None, "the push kept the lane"


def test_five_arrivals_while_the_push_is_on_its_way_do_not_disturb_it(
    tree: Path, lanes: LaneService, url: str, bare_repository: Path
) -> None:
    lease = claim(lanes)
    window = Window(bare_repository)
    commit(tree, {"a": "1"}, "mine")
    push = start(tree, lease, url)
    with window.open():
        for n in range(5):
            lanes.add([NewItem(title=f"comment {n}", lane=LANE, agent=f"other{n}")])
    code, answer = ended(push)
    assert (code, answer["moved"], answer["attempts"]) == (0, True, 1), answer
    assert log(bare_repository) == ["mine", "first"]
    (view,) = lanes.lanes(prefix=LANE)
    assert view.waiting == 5


def test_an_owner_commit_of_our_own_in_the_window_costs_one_more_try_and_no_wait(
    tree: Path, lanes: LaneService, url: str, remote_url: str, bare_repository: Path
) -> None:
    assert isinstance(lanes, LanesInGit)
    lease = claim(lanes)
    window = Window(bare_repository)
    commit(tree, {"a": "1"}, "mine")
    push = start(tree, lease, url)
    with window.open():
        assert (
            GitRepository(lanes.objects.parent).push(remote_url, [lanes.new_owner_commit(lease.run)]) is None
        )
    code, answer = ended(push)
    assert (code, answer["moved"], answer["attempts"]) == (0, True, 2), answer


def test_arming_a_lane_in_git_changes_nothing_but_reports_a_lost_lane(
    tree: Path, lanes: LaneService, url: str, bare_repository: Path
) -> None:
    lease = claim(lanes)
    assert ended(start(tree, lease, url, "--arm")) == (0, {"fence": None})
    lanes.release([Report(run=lease.run)])
    assert ended(start(tree, lease, url, "--arm"))[0] == 5


def test_a_push_to_another_repository_than_that_of_the_lanes_is_refused(
    tree: Path, lanes: LaneService, url: str, bare_repository: Path, tmp_path: Path
) -> None:
    fork = clone(str(bare_repository), tmp_path / "fork.git", "--bare")
    lease = claim(lanes)
    commit(tree, {"a": "1"}, "mine")
    code, answer = ended(start(tree, lease, url, str(fork), "main"))
    assert code == 1
    assert "which guards the lane" in answer["error"]["message"]  # type: ignore[index]
    assert log(fork) == ["first"]
