"""Faults of the set-up: they cost no item an attempt. When they are mended, everything is done by itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.workers import Site
from tests.git_fixtures import clone, git, make_bare, seed

ITEMS = 15
#: Commits, and pushes to a branch of its own.
AGENT = (
    "set -e; git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m $INTERLOCK_ITEM;"
    f" {Site.python} -m interlock push origin HEAD:run-$INTERLOCK_ITEM"
)


@pytest.fixture
def site(url: str, tmp_path: Path) -> Iterator[Site]:
    """A clone whose remote has a relative address, and a store."""
    seed(make_bare(tmp_path / "server.git"), tmp_path / "first", {"README": "hello\n"})
    place = clone("server.git", tmp_path / "shop")
    git(place, "remote", "set-url", "origin", "../server.git")
    site = Site(place, url)
    yield site
    site.close()


def fill(site: Site, count: int = ITEMS) -> list[int]:
    return [site.add(f"item {n}", lane=f"issue:acme/app#{n}", max_attempts=1) for n in range(1, count + 1)]


def finished(site: Site, items: list[int]) -> None:
    """Each item was done in its first attempt, and its branch is on the remote."""
    for item in items:
        site.until_status(item, "completed")
        assert site.item(item).attempt == 1
        assert git(site.directory, "ls-remote", "origin", f"refs/heads/run-{item}") != ""


def test_a_remote_with_a_relative_address_works_in_worktrees(site: Site) -> None:
    """Taken out (the variables of the workspace): each item is a dead letter."""
    items = fill(site, 4)
    worker = site.work(AGENT, "--worktree", "--max", "4")
    finished(site, items)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert not {"hindered", "stays", "salvaged", "unfenced"} & set(worker.kinds())
