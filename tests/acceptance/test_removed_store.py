"""`git clean -fdx` takes the store from under `hold` and `work`: they end their commands, and say why."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.acceptance.holding.holders import LANE, Process, dead, ended, pid_in
from tests.patience import PATIENCE_S

#: A command that writes its process number and ends when it is asked to.
AT_WORK = "trap 'echo asked >> signals; exit 1' INT TERM; echo $$ > pid; while :; do sleep 0.02; done"


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as left:
        yield left


def start(il: Command, left: ExitStack, *args: str | int) -> Process:
    process = il.start(*args)
    left.callback(process.communicate)
    left.callback(process.kill)
    return process


def remove_store(il: Command) -> None:
    """Like `rm -rf`: a process that notices at once removes its part of the files at the same moment."""
    while (directory := il.directory / ".interlock").exists():
        shutil.rmtree(directory, ignore_errors=True)


def test_a_holder_whose_store_is_removed_ends_its_command_and_has_lost_the_lane(
    il: Command, processes: ExitStack
):
    """Taken out (`check_files`): the command goes on beside the next holder's, and both exit 0."""
    holder = start(il, processes, "--json", "hold", LANE, "--lease", 30, "--", "sh", "-c", AT_WORK)
    pid = pid_in(il.directory / "pid")
    remove_store(il)
    answer = ended(holder)
    assert (answer.code, answer.error["code"]) == (5, "lease_lost")
    assert "was removed or replaced" in answer.error["message"]
    assert dead(pid), "its command was ended"
    assert (il.directory / "signals").read_text() == "asked\n", "and not killed at once"
    assert il("hold", LANE, "--", "true").code == 0, "the lane is free in the store that is there now"


def test_a_command_that_ends_after_its_store_was_removed_has_not_held_the_lane(
    il: Command, processes: ExitStack
):
    script = "echo $$ > pid; until [ -e gone ]; do sleep 0.02; done"
    holder = start(il, processes, "--json", "hold", LANE, "--lease", 3600, "--", "sh", "-c", script)
    pid_in(il.directory / "pid")
    holder.send_signal(signal.SIGSTOP)  # so that no renewal notices it first
    remove_store(il)
    (il.directory / "gone").touch()
    holder.send_signal(signal.SIGCONT)
    answer = ended(holder)
    assert (answer.code, answer.error["code"]) == (5, "lease_lost")


def test_a_waiter_whose_store_is_removed_says_so(il: Command, processes: ExitStack):
    start(il, processes, "hold", LANE, "--", "sh", "-c", AT_WORK)
    pid_in(il.directory / "pid")
    waiter = start(il, processes, "--json", "hold", LANE, "--", "true")
    while len(il.ok("ls")["items"]) < 2:
        assert waiter.poll() is None
    remove_store(il)
    answer = ended(waiter)
    assert (answer.code, answer.error["code"]) == (1, "store_replaced")


def test_a_worker_whose_store_is_removed_ends_its_commands_and_itself(il: Command, processes: ExitStack):
    il.ok("add", "some work")
    worker = start(il, processes, "--json", "work", "--agent", "coder", "--", "sh", "-c", AT_WORK)
    assert worker.stdout is not None
    begun = [
        worker.stdout.readline() for _ in range(2)
    ]  # the command runs a moment before its start is known
    pid = pid_in(il.directory / "pid")
    remove_store(il)
    answer = ended(worker)
    assert answer.code == 1
    said = [json.loads(line) for line in begun + answer.out.splitlines()]
    assert said[-1]["error"]["code"] == "store_replaced"
    assert [line["event"] for line in said[:-1]] == ["ready", "started", "lost", "stopped"]
    assert dead(pid)


def test_an_idle_worker_whose_store_is_replaced_does_not_wait_for_ever(il: Command, processes: ExitStack):
    il.ok("add", "some work")
    worker = start(il, processes, "--json", "work", "--agent", "coder", "--", "touch", "ran")
    while il.ok("show", 1)["item"]["status"] != "completed":
        assert worker.poll() is None
    remove_store(il)
    answer = ended(worker)
    assert (answer.code, json.loads(answer.out.splitlines()[-1])["error"]["code"]) == (1, "store_replaced")


def test_a_sweeper_whose_store_is_removed_ends(il: Command, processes: ExitStack):
    il.ok("add", "some work")
    sweeper = start(il, processes, "--json", "sweep", "--every", "0.05")
    assert sweeper.stdout is not None
    sweeper.stdout.readline()
    remove_store(il)
    out, _ = sweeper.communicate(timeout=PATIENCE_S)
    assert json.loads(out.splitlines()[-1])["error"]["code"] == "store_replaced"


def test_a_lease_in_python_is_lost_with_its_store(il: Command, tmp_path: Path):
    script = """
import interlock, shutil
with interlock.connect() as il:
    il.add("some work")
    with il.next("coder", lease_s=2) as lease:
        shutil.rmtree(".interlock")
        while not lease.lost:
            pass
        raise SystemExit(7)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=il.environment(None),
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 7
