"""A full disk: each command says it in a sentence and changes nothing, and all goes on when there is space.

The disks are small file systems in memory, which only root may mount.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.stores import query
from tests.faults.workers import Site
from tests.git_fixtures import clone, git, make_bare, seed
from tests.postgres_fixtures import StartPostgres


class Disk:
    """A small disk."""

    def __init__(self, path: Path, size: str, owner: int = 0) -> None:
        path.mkdir(mode=0o755)
        self.path = path
        options = f"size={size},uid={owner},mode=755"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            pytest.skip("a file system cannot be mounted here")

    def fill(self) -> None:
        """Leave no space at all."""
        with (self.path / "filler").open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                with contextlib.suppress(OSError):  # there is no space left
                    while True:
                        file.write(bytes(size))

    def empty(self) -> None:
        (self.path / "filler").unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


@pytest.fixture
def make_disk(tmp_path: Path) -> Iterator[Callable[..., Disk]]:
    disks: list[Disk] = []

    def make(size: str, path: Path | None = None, **options: int) -> Disk:
        disks.append(Disk(path or tmp_path / "disk", size, **options))
        return disks[-1]

    yield make
    for disk in disks:
        disk.unmount()


def test_a_store_on_a_full_disk_takes_nothing_half_and_goes_on_with_space(
    make_disk: Callable[..., Disk],
) -> None:
    disk = make_disk("4m")
    site = Site(disk.path, f"sqlite:///{disk.path}/store.db")
    site.add("First")
    before = query(site.url, "SELECT count(*) FROM events")
    disk.fill()
    for args in (("add", "x"), ("next", "--agent", "coder"), ("msg", "1", "x"), ("sweep", "--once")):
        said = site.interlock("--json", *args)
        assert said.returncode == 1, said
        error = json.loads(said.stdout)["error"]
        assert error["code"] == "store_unavailable"
        assert "cannot grow" in error["message"]
        assert "Free some space" in error["hint"]
    said = site.interlock("init")
    assert said.returncode == 1
    assert said.stderr.splitlines() == [
        f"{disk.path}/interlock.toml cannot be written: No space left on device.",
        "Make it writable, or free some space.",
    ]
    assert not (disk.path / "interlock.toml").exists()
    disk.empty()
    assert query(site.url, "SELECT count(*) FROM events") == before
    assert site.interlock("init").returncode == 0
    assert site.interlock("add", "Second").returncode == 0
    assert site.interlock("doctor").returncode == 0


def test_a_worker_whose_store_has_no_space_says_so_once_and_goes_on(make_disk: Callable[..., Disk]) -> None:
    """Its run ends while nothing can be written: the renewals that failed are then of no matter."""
    disk = make_disk("4m")
    site = Site(disk.path.parent, f"sqlite:///{disk.path}/store.db")
    try:
        item = site.add()
        worker = site.work("until [ -e go ]; do sleep 0.05; done")
        worker.until("started")
        disk.fill()
        assert "Free some space" in worker.until("trouble")["text"]
        site.file("go").touch()
        disk.empty()
        worker.until("ended", item=item, status="succeeded")
        if "recovered" not in worker.kinds():  # a last renewal may have come through before the end
            worker.until("recovered")
        site.add("Next")
        worker.until("ended", status="succeeded")
        assert (worker.kinds().count("trouble"), worker.kinds().count("recovered")) == (1, 1)
    finally:
        site.close()


def test_a_clone_on_a_full_disk_costs_no_item_an_attempt_and_loses_no_work(
    tmp_path: Path, make_disk: Callable[..., Disk]
) -> None:
    """Logs, ends, worktrees and salvage are on it; the store is elsewhere."""
    disk = make_disk("8m")
    seed(make_bare(tmp_path / "server.git"), tmp_path / "first", {"README": "hello\n"})
    site = Site(clone(str(tmp_path / "server.git"), disk.path / "shop"), f"sqlite:///{tmp_path}/store.db")
    try:
        first = site.add("Fills the disk", lane="issue:acme/app#1", max_attempts=1)
        worker = site.work("echo precious > work; cat /dev/zero > junk; exit 1", "--worktree", "--limit", "1")
        worker.until("log_lost", run=1)
        assert "Out of diskspace" in worker.until("stays")["text"]
        unkept = worker.until("unkept", run=1)["text"]
        assert unkept.startswith("The end of run 1 cannot be written to disk: No space left on device. It is")
        assert worker.until("ended", item=first)["status"] == "failed"
        assert worker.ended() == 0
        assert {"trouble", "recovered"}.isdisjoint(worker.kinds())
        assert "No space left on device" in (site.runs(first)[0].error or "")  # it said so, if not to its log

        second = site.add("Finds it full", max_attempts=1)
        worker = site.work("exit 0", "--worktree")
        text = worker.until("hindered")["text"]
        assert "There is no space left on the disk. Free some space." in text
        (site.directory / ".interlock/worktrees/run-1/junk").unlink()
        worker.until("ended", item=second, status="succeeded")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        worker = site.work("exit 0", "--worktree", "--exit-when-idle")  # each looks at once, and later again
        assert worker.until("salvaged")["ref"] == "refs/interlock/salvage/1"
        assert worker.ended() == 3
        assert git(site.directory, "show", "refs/interlock/salvage/1:work") == "precious"
        assert [run.status for run in site.runs(second)][-1] == "succeeded"
        assert not site.spooled()
    finally:
        site.close()


def test_a_postgresql_server_without_space_refuses_at_once_and_changes_nothing(
    tmp_path: Path, make_disk: Callable[..., Disk], start_postgres: StartPostgres
) -> None:
    """The tables of the store are on the small disk, and not the server's log."""
    server = start_postgres(18)
    owner = server.datadir.stat()
    disk = make_disk("64m", server.datadir.parent / f"{server.datadir.name}-disk", owner=owner.st_uid)
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
        conn.execute("CREATE DATABASE store TABLESPACE small")
    site = Site(tmp_path, server.url("store"))
    try:
        item = site.add()
        before = query(site.url, "SELECT count(*) FROM events")
        disk.fill()
        file = tmp_path / "lines"
        large = [{"title": "x", "message": os.urandom(4000).hex()} for _ in range(500)]
        file.write_text("".join(json.dumps(line) + "\n" for line in large))
        said = site.interlock("--json", "add", "--batch", str(file))
        assert said.returncode == 1
        assert json.loads(said.stdout)["error"] == {
            "code": "store_unavailable",
            "message": "The database has no space left.",
            "hint": "Free some space. Nothing was changed.",
            "cures": [],
        }
        assert said.stderr == ""
        assert query(site.url, "SELECT count(*) FROM events") == before
        disk.empty()
        assert site.interlock("add", "--batch", str(file)).returncode == 0
        worker = site.work("exit 0", "--limit", "1")
        assert worker.until("ended", item=item)["status"] == "succeeded"
    finally:
        site.close()
        server.stop()


def test_a_proof_on_a_full_disk_says_so_and_leaves_nothing(make_disk: Callable[..., Disk]) -> None:
    disk = make_disk("2m")
    store = f"sqlite:///{disk.path}/interlock.db"
    command = [sys.executable, "-m", "interlock", "prove", "--seconds", "30", "--store", store]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 1, answer
    said, hint = answer.stderr.splitlines()
    assert "full" in said or "no space" in said
    assert hint
    assert list(disk.path.iterdir()) == []
