"""`interlock prune`: what it says, and what it leaves on the disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.faults.processes import wait_until


def test_old_items_go_with_their_logs_and_the_file_shrinks(il: Command) -> None:
    il.ok("add", "old", "--payload", '{"text": "' + 900_000 * "x" + '"}')
    lease = il.claim()
    il.ok("done", lease["run"])
    il.ok("add", "waiting")
    file = next(Path(il.directory).rglob("interlock.db"))
    logs = file.parent / "logs"
    logs.mkdir(exist_ok=True)
    for run, age_s in ((lease["fence"], 3600), (lease["fence"] + 1, 3600)):
        log = logs / f"run-{run}.log"
        log.write_text("said")
        os.utime(log, (time.time() - age_s,) * 2)

    would = il.ok("prune", "--older-than", "0s", "--dry-run")
    assert would == {"items": 1, "plans": 0, "runs": 1, "events": 3, "deliveries": 0, "dry_run": True}
    assert il.ok("prune", "--older-than", "90d")["items"] == 0
    before = file.stat().st_size
    gone = il.ok("prune", "--older-than", "0s", "--vacuum")
    assert gone == {**would, "dry_run": False}
    assert file.stat().st_size < before - 500_000
    assert [log.name for log in logs.iterdir()] == [f"run-{lease['fence'] + 1}.log"]
    assert [item["title"] for item in il.ok("ls", "--all")["items"]] == ["waiting"]


@pytest.mark.parametrize("age", ["", "soon", "-1d", "1e99d"])
def test_an_age_that_makes_no_sense_is_refused(il: Command, age: str) -> None:
    il.ok("add", "kept")
    assert il("--json", "prune", "--older-than", age).code == 2
    assert il("--json", "prune").code == 2
    assert len(il.ok("ls")["items"]) == 1


def test_sweeps_keep_the_setting(il: Command) -> None:
    il.ok("add", "old")
    il.ok("cancel", "1", "--reason", "x")
    swept = il("--json", "sweep", "--once", env={"INTERLOCK_RETENTION_S": "1000"})
    assert swept.json["pruned"] == 0
    wait_until(lambda: _pruned(il), "the item is a second old")
    assert il.ok("ls", "--all")["items"] == []


def _pruned(il: Command) -> bool:
    return bool(il("--json", "sweep", "--once", env={"INTERLOCK_RETENTION_S": "1"}).json["pruned"])
