"""A worker sends its output to a server, and another host reads it there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.faults.processes import wait_until
from tests.http.up import Up
from tests.patience import PATIENCE_S


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    (tmp_path / "server").mkdir()
    server = Up(tmp_path / "server")
    yield server
    server.end()


def test_another_host_reads_the_output_of_a_live_run_without_its_handle(up: Up, tmp_path: Path):
    """Taken out (`SharedOutput._redacted` and the same in `append_log`): the reader could end the run."""
    hosts = []
    for name in ("worker", "reader"):
        (tmp_path / name).mkdir()
        env = {"INTERLOCK_TOKEN": up.token, "INTERLOCK_LOG_SHARE_S": "0.1"}
        hosts.append(Command(tmp_path / name, url=up.url, env=env))
    worker, reader = hosts
    os.mkfifo(gate := tmp_path / "gate")
    item = worker.ok("add", "a")["item"]["id"]
    script = f'echo "I am $INTERLOCK_RUN"; read x < {gate}; echo done'
    running = worker.start("work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", script)

    try:
        first = wait_until(lambda: reader("log", "--item", item).out, "the first line")
    finally:
        opened = os.open(gate, os.O_RDWR)  # waits for no reader
        os.write(opened, b"go\n")
        running.communicate(timeout=PATIENCE_S)
        os.close(opened)

    run = worker.ok("show", item)["runs"][0]["run"]
    assert first == f"I am {run}.{item}.[redacted]\n"
    assert running.returncode == 0
    found = reader("--json", "log", "--item", item).json
    text = f"I am {run}.{item}.[redacted]\ndone\n"
    assert found == {"run": run, "path": None, "running": False, "text": text}
    handle = worker("log", run).out.split()[2]
    assert len(handle.rpartition(".")[2]) == 16, "the worker's own log is complete"
