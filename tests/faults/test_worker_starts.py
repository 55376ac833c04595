"""Many runs that start at once in one clone: none disturbs another, nor a person who works in the clone."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.faults.workers import Site
from tests.git_fixtures import clone as make_clone
from tests.git_fixtures import git, make_bare, seed

RUNS, WORKERS, SLOTS = 24, 2, 8
#: Fetches as often as it can while others start, then commits and pushes to a branch of its own.
AGENT = (
    "set -e; for n in 1 2 3 4 5 6; do git fetch -q origin main; done;"
    " git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m $INTERLOCK_ITEM;"
    " git push -q origin HEAD:refs/heads/run-$INTERLOCK_ITEM"
)


def test_runs_that_start_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """That nothing half-made is ever seen is in tests/integration/test_workspace.py; here is all of it, with
    fences, fetches and pushes."""
    remote = make_bare(tmp_path / "app.git")
    seed(remote, tmp_path / "first", {f"dir-{n}/file": f"{n}\n" for n in range(30)})
    place = make_clone(str(remote), tmp_path / "clone")
    git(place, "config", "gc.auto", "1")
    site = Site(place, f"sqlite:///{tmp_path}/store.db")
    try:
        items = [site.add(f"item {n}", lane=f"issue:acme/app#{n}") for n in range(RUNS)]
        workers = [site.work(AGENT, "--worktree", "--max", str(SLOTS)) for _ in range(WORKERS)]
        for item in items:
            git(place, "fetch", "-q", "origin")  # a person's own, beside the checkouts
            site.until_status(item, "completed")
        for worker in workers:
            worker.signal(signal.SIGTERM)
            assert worker.ended() == 0
            assert not {"hindered", "stays", "salvaged", "unfenced"} & set(worker.kinds())
        assert [len(site.runs(item)) for item in items] == [1] * RUNS
        assert len(git(place, "ls-remote", "origin", "refs/heads/run-*").splitlines()) == RUNS
        assert git(place, "worktree", "list", "--porcelain").count("worktree ") == 1
        assert git(place, "branch", "--list", "interlock/*") == ""
    finally:
        site.close()
