"""`interlock hold` in trouble: holders and waiters that die or stand still, and stores that are gone."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.acceptance.command import Command
from tests.acceptance.holding.holders import (
    LANE,
    UNTIL_LET_GO,
    Process,
    Start,
    begun,
    children,
    dead,
    ended,
    items,
    let_go,
    pid_in,
    until,
)
from tests.postgres_server import PostgresServer

#: A command that ends only if somebody ends it. When that happens: tests/unit/test_ladder.py.
AT_WORK = ("--", "sh", "-c", "echo $$ > pid; sleep 600 & wait")

# -- death and standstill -------------------------------------------------------------------------


def test_a_holder_that_is_killed_takes_its_command_along_and_the_lane_is_free_after_its_lease(
    each_il: Command, start: Start
):
    il = each_il
    process, pid = begun(lambda: start(il, "--lease", 2, *AT_WORK), il.directory / "pid")
    process.kill()
    until(lambda: dead(pid), "the end of the command")
    assert il("hold", LANE, "--", "true").code == 0, "no sweeper runs: the waiter itself repairs"
    assert [i["status"] for i in items(il)][-2:] == ["cancelled", "completed"]


def test_a_waiter_that_is_killed_does_not_keep_the_lane_shut(each_il: Command, start: Start):
    """Taken out: `claim_within_s` in `_new_item`; then the last waiter waits for ever."""
    il = each_il
    holder = start(il, "--", "sh", "-c", f"echo $$ > held; {UNTIL_LET_GO}")
    pid_in(il.directory / "held")
    waiter = start(il, "--lease", 2, "--", "touch", "ran")
    until(lambda: len(items(il)) == 2, "the waiter")
    waiter.kill()
    let_go(il, holder)
    assert il("hold", LANE, "--", "true").code == 0
    assert [i["status"] for i in items(il)] == ["completed", "cancelled", "completed"]
    assert items(il)[1]["reason"] == "unclaimed"
    assert not (il.directory / "ran").exists()


@pytest.mark.parametrize("whom", ["the holder", "the holder and all below it"])
def test_a_holder_that_stood_still_past_its_lease_finds_its_command_dead(
    each_il: Command, start: Start, whom: str
):
    """Taken out: `run_until_s` in `_run_for` and `extend` in `LiveRun`; then the command outlives it."""
    il = each_il
    deaf = ("sh", "-c", "trap '' INT TERM; echo $$ > pid; while :; do sleep 0.1; done")
    process, pid = begun(lambda: start(il, "--lease", 2, "--", *deaf), il.directory / "pid")
    stopped = [process.pid]
    if whom != "the holder":
        (supervisor,) = children(process.pid)
        stopped += [supervisor, pid]
    for each in stopped:
        os.kill(each, signal.SIGSTOP)
    assert il("hold", LANE, "--", "true").code == 0, "the lane is another's after the lease"
    if whom == "the holder":
        assert dead(pid), "the supervisor did not wait for its holder"
    for each in reversed(stopped):
        os.kill(each, signal.SIGCONT)
    until(lambda: dead(pid), "the end of the command")
    answer = ended(process)
    assert answer.code == 5, answer
    assert "could not be renewed in time" in answer.err or "refused" in answer.err


def stop_between_writes(process: Process, il: Command) -> None:
    """Freeze a process while it does not have SQLite's lock, which nobody could take from it."""
    (path,) = il.directory.rglob("interlock.db")

    def stopped() -> bool:
        process.send_signal(signal.SIGSTOP)
        store = apsw.Connection(str(path))
        store.set_busy_timeout(500)
        try:
            store.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            process.send_signal(signal.SIGCONT)
            return False
        finally:
            store.close()
        return True

    until(stopped, "a moment without a write")


def test_a_waiter_that_stood_still_too_long_takes_a_new_place(il: Command, start: Start):
    holder = start(il, "--", "sh", "-c", f"echo $$ > held; {UNTIL_LET_GO}")
    pid_in(il.directory / "held")
    waiter = start(il, "--lease", 3, "--", "touch", "ran")
    until(lambda: len(items(il)) == 2, "the waiter")
    stop_between_writes(waiter, il)
    let_go(il, holder)
    assert il("hold", LANE, "--", "true").code == 0
    assert items(il)[1]["reason"] == "unclaimed"
    waiter.send_signal(signal.SIGCONT)
    assert ended(waiter).code == 0
    assert (il.directory / "ran").exists()
    assert [i["status"] for i in items(il)] == ["completed", "cancelled", "completed", "completed"]


# -- a store that is gone -------------------------------------------------------------------------


def test_a_holder_whose_database_is_gone_ends_its_command_before_the_lease_is_over(
    tmp_path: Path, start: Start, start_postgres: Callable[..., PostgresServer]
):
    server = start_postgres(18)
    il = Command(tmp_path, url=server.create_database("gone"))
    process, pid = begun(lambda: start(il, "--lease", 4, *AT_WORK), tmp_path / "pid")
    server.stop("immediate")
    until(lambda: dead(pid), "the end of the command")
    assert process.poll() is None, "it tries to give the lane back, for half a minute"
    server.start()
    answer = ended(process)
    assert (answer.code, "could not be renewed in time" in answer.err) == (5, True), answer
    assert items(il)[-1]["status"] == "cancelled"


def test_a_holder_whose_database_is_locked_by_another_ends_its_command_in_time(il: Command, start: Start):
    process, pid = begun(lambda: start(il, "--lease", 4, *AT_WORK), il.directory / "pid")
    db = apsw.Connection(str(il.directory / ".interlock" / "interlock.db"))
    db.set_busy_timeout(5_000)
    db.execute("BEGIN IMMEDIATE")
    until(lambda: dead(pid), "the end of the command")
    db.execute("ROLLBACK")
    db.close()
    assert ended(process).code == 5


def test_a_command_that_ends_while_the_store_is_away_keeps_its_exit_code(
    tmp_path: Path, start: Start, start_postgres: Callable[..., PostgresServer]
):
    server = start_postgres(18)
    il = Command(tmp_path, url=server.create_database("away"))
    process = start(
        il, "--lease", 60, "--", "sh", "-c", "echo $$ > pid; until [ -e end ]; do sleep 0.02; done; exit 3"
    )
    pid_in(tmp_path / "pid")
    server.stop("immediate")
    (tmp_path / "end").touch()
    back = threading.Timer(1.0, server.start)
    back.start()
    assert ended(process).code == 3
    back.join()
    assert items(il)[0]["status"] == "cancelled"
