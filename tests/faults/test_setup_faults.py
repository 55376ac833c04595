"""Faults of the set-up: they cost no item an attempt. When they are mended, everything is done by itself."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.past import Past
from tests.faults.stores import file_of, query, read_log
from tests.faults.workers import Site, WorkProcess
from tests.git_fixtures import clone, git, make_bare, seed

#: More than a worker has slots, so that some are claimed after the first met the fault.
ITEMS = 6
#: Pushes to a branch of its own.
AGENT = "git push -q origin HEAD:refs/heads/run-$INTERLOCK_ITEM"
FENCED = f"{Site.python} -m interlock push origin HEAD:run-$INTERLOCK_ITEM"


def made(url: str, tmp_path: Path) -> Site:
    """A clone whose remote has a relative address, and a store."""
    seed(make_bare(tmp_path / "server.git"), tmp_path / "first", {"README": "hello\n"})
    place = clone("server.git", tmp_path / "shop")
    git(place, "remote", "set-url", "origin", "../server.git")
    return Site(place, url)


@pytest.fixture
def site(url: str, tmp_path: Path) -> Iterator[Site]:
    site = made(url, tmp_path)
    yield site
    site.close()


def stop(worker: WorkProcess) -> None:
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def worked(site: Site, items: list[int], *options: str) -> WorkProcess:
    """A worker that has done these items."""
    worker = site.work(AGENT, "--worktree", "--max", "4", *options)
    finished(site, items)
    return worker


def name_of(site: Site) -> str:
    return str(query(site.url, "SELECT id FROM stores WHERE state = 'this'")[0][0])


def examined(site: Site) -> dict[str, Any]:
    """What the doctor says of the fences."""
    checks = json.loads(site.interlock("--json", "doctor").stdout)["checks"]
    return next(dict(check) for check in checks if check["name"] == "fences")


def fill(site: Site, count: int = ITEMS) -> list[int]:
    return [site.add(f"item {n}", lane=f"issue:acme/app#{n}", max_attempts=1) for n in range(1, count + 1)]


def finished(site: Site, items: list[int]) -> None:
    """Each item was done in its first attempt, and its branch is on the remote."""
    for item in items:
        site.until_status(item, "completed")
        assert site.item(item).attempt == 1
    pushed = {line.split("\t")[1] for line in git(site.directory, "ls-remote", "origin").splitlines()}
    assert {f"refs/heads/run-{item}" for item in items} <= pushed


def test_a_remote_with_a_relative_address_works_in_worktrees(site: Site) -> None:
    """Taken out (the variables of the workspace): each item is a dead letter."""
    items = fill(site, 4)
    worker = site.work(AGENT, "--worktree", "--max", "4")
    finished(site, items)
    stop(worker)
    assert not {"hindered", "stays", "salvaged", "unfenced"} & set(worker.kinds())


def test_fences_that_a_restored_store_has_forgotten_are_passed_by_themselves(site: Site) -> None:
    """The rows are put back as they were, in the same database: the store cannot notice. Taken out
    (`pass_fence` in `check_fence`): runs are given back again and again, and nothing is ever done."""
    items = fill(site)
    monday = Past(site.url)
    assert site.interlock("migrate", "--after-restore").returncode == 0  # numbers far above those of Monday
    stop(worked(site, items))
    monday.come_back()
    worker = site.work(AGENT, "--worktree", "--max", "4")
    finished(site, items)
    stop(worker)
    assert not {"hindered", "unfenced"} & set(worker.kinds())
    leaps = [line for line in read_log(site.url) if line.kind == "store.leapt"]
    assert len(leaps) == 1, "one leap passes all fences"
    assert {run.status for item in items for run in site.runs(item)} == {"released", "succeeded"}


def test_a_store_in_the_place_of_another_goes_on_when_it_is_told_so(site: Site, tmp_path: Path) -> None:
    """As somebody moves by hand: items are added again, and the old store is gone. Taken out (`goes_on_from`
    in `check_fence`): nobody is told, and all items are done over the fences of the other store."""
    old = Site(site.directory, f"sqlite://{tmp_path}/old.db")
    foreign = fill(old, 3)
    stop(worked(old, foreign))
    old.close()
    items = fill(site)
    worker = site.work(AGENT, "--worktree", "--max", "4")
    cures = [worker.until("hindered")["text"] for _ in foreign]
    finished(site, items[3:])
    assert [site.item(item).status for item in items[:3]] != ["completed"] * 3
    ours, theirs = name_of(site), name_of(old)
    for text in cures:
        assert f"for another store, {theirs}; this one is {ours}." in text
        assert f"run interlock migrate --replaces {theirs}." in text
        assert "Next retry in" in text
    sick = examined(site)
    assert not sick["ok"]
    assert f"for another store, {theirs}; this one is {ours}." in sick["detail"]
    assert f"run interlock migrate --replaces {theirs}." in sick["mend"]
    assert site.interlock("migrate", "--replaces", theirs).returncode == 0
    assert examined(site)["ok"]
    finished(site, items)
    assert all(site.item(item).attempt == 1 for item in items)
    stop(worker)


def test_twins_do_not_leap_past_each_other(sqlite_url: str, tmp_path: Path) -> None:
    """A copy of a store that is still in use gets greater numbers, and yet may not shut out its origin."""
    prod = made(sqlite_url, tmp_path)
    stop(worked(prod, fill(prod, 1)))
    shutil.copy(file_of(sqlite_url), tmp_path / "dev.db")
    dev = Site(prod.directory, f"sqlite://{tmp_path}/dev.db")
    again = dev.add("once more", lane="issue:acme/app#1")
    worker = dev.work(AGENT, "--worktree", "--exit-when-idle")
    assert worker.ended() == 4
    (told,) = (said["text"] for said in worker.heard if said.get("event") == "hindered")
    assert f"for the store {name_of(prod)}, of which this one ({name_of(dev)}) is a copy" in told
    assert dev.item(again).attempt == 0
    more = prod.add("more", lane="issue:acme/app#1")
    stop(worked(prod, [more]))
    dev.close()
    prod.close()


@pytest.mark.parametrize("options", [(), ("--worktree",)], ids=["in place", "worktrees"])
def test_a_missing_remote_costs_no_attempt(options: tuple[str, ...], sqlite_url: str, tmp_path: Path) -> None:
    """The command meets it, in its push. Taken out (`read_fault` in `_end_after`): three dead letters."""
    site = made(sqlite_url, tmp_path)
    items = fill(site, 3)
    git(site.directory, "remote", "rename", "origin", "away")
    git(site.directory, "remote", "remove", "away")
    worker = site.work(FENCED, "--max", "3", *options)
    assert "There is no remote 'origin'" in worker.until("hindered")["text"]
    git(site.directory, "remote", "add", "origin", "../server.git")
    finished(site, items)
    stop(worker)
    site.close()
