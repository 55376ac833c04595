"""`interlock workers`: real workers, alive, gone and killed."""

import os
import signal
import socket
from contextlib import closing
from pathlib import Path

import pytest

from interlock import app
from interlock.worker import presence
from tests.acceptance.command import Command
from tests.faults.processes import wait_until
from tests.patience import PATIENCE_S


def test_a_worker_is_listed_until_it_ends(any_il: Command, tmp_path: Path):
    os.mkfifo(gate := tmp_path / "gate")
    any_il.ok("add", "a")
    il = Command(any_il.directory, any_il.url, any_il.env)
    worker = il.start(
        "work", "--agent", "Coder", "--max", 3, "--limit", 1, "--", "sh", "-c", f"read x < {gate}"
    )
    with gate.open("w") as opened:  # waits for the command: by then the worker has spoken, or does so soon
        while not (found := any_il.ok("workers")["workers"]):
            pass
        assert [(w["host"], w["pid"], w["agent"], w["slots"], w["alive"]) for w in found] == [
            (socket.gethostname(), worker.pid, "coder", 3, True)
        ]
        assert found[0]["folder"] == str(any_il.directory)
        shown = any_il("workers").out
        assert "coder  alive" in shown
        opened.write("go\n")
    worker.communicate(timeout=PATIENCE_S)
    assert any_il.ok("workers") == {"workers": []}


def test_the_number_of_runs_is_the_present_one(il: Command, monkeypatch: pytest.MonkeyPatch):
    """Taken out: the look at the runs between two beats. It was up to ten seconds old."""
    monkeypatch.setattr(presence, "BEAT_S", 3_600.0)
    il.ok("add", "a")
    runs: list[int] = []
    with closing(app.open_service(f"sqlite:///{il.directory}/.interlock/interlock.db")) as service:
        there = presence.WorkerPresence(
            service, name="w", folder="/", agent="coder", slots=2, runs=lambda: len(runs)
        )
        there.start()
        for now in (0, 2, 1):
            runs[:] = range(now)
            wait_until(lambda now=now: [w.runs for w in service.workers()] == [now], f"it says {now}")  # type: ignore[misc]
        there.stop(PATIENCE_S)
        assert service.workers() == []


def test_a_killed_worker_stays_in_the_list_for_a_while(il: Command):
    worker = il.start("work", "--agent", "coder", "--", "true")
    while not il.ok("workers")["workers"]:
        pass
    worker.send_signal(signal.SIGKILL)
    worker.communicate(timeout=PATIENCE_S)
    assert [w["pid"] for w in il.ok("workers")["workers"]] == [worker.pid]


def test_where_nobody_works_the_store_is_named(il: Command):
    said = il("workers").out
    assert said.startswith("No workers.")
    assert "There is no store yet" in said
