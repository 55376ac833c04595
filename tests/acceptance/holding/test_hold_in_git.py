"""`interlock hold` on a remote repository: no server, no database, the same behaviour."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.acceptance.command import PROGRAM, Command
from tests.acceptance.holding.holders import (
    LANE,
    UNTIL_LET_GO,
    Start,
    begun,
    dead,
    ended,
    let_go,
    pid_in,
    until,
)


@pytest.fixture
def il(tmp_path: Path) -> Command:
    """The command in an empty directory, with a bare repository as its store and leases of seconds."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "remote.git"], check=True)
    directory = tmp_path / "here"
    directory.mkdir()
    env = {"INTERLOCK_GIT_LEASE_MIN_S": "1", "INTERLOCK_POLL_S": "0.2"}
    return Command(directory, url=f"git+file://{tmp_path / 'remote.git'}", env=env)


def holders(il: Command) -> list[int]:
    return [lane["holder"]["item"] for lane in il.ok("lanes")["lanes"] if lane["holder"]]


def test_four_processes_count_one_after_the_other(il: Command, start: Start):
    (il.directory / "count").write_text("0")
    script = "set -e; mkdir inside; n=$(cat count); sleep 0.05; echo $((n + 1)) > count; rmdir inside"
    crew = [start(il, "--", "sh", "-c", script) for _ in range(4)]
    assert [ended(process).code for process in crew] == [0] * 4
    assert (il.directory / "count").read_text().strip() == "4"
    assert holders(il) == []


def test_a_message_is_left_with_the_holder_whose_command_runs_again(il: Command, start: Start):
    script = f"echo $$ >> held; cp $INTERLOCK_MESSAGES heard.$(wc -l < held); {UNTIL_LET_GO}"
    holder = start(il, "--", "sh", "-c", script)
    pid_in(il.directory / "held")
    assert il("hold", LANE, "--if-held", "skip", "--message", "one more", "--", "false").code == 0
    refused = il("hold", LANE, "--if-held", "fail", "--", "false")
    assert (refused.code, f"Lane {LANE} is held by alice (run 1)" in refused.err) == (4, True)
    assert il("hold", LANE, "--wait", "0.1", "--", "false").code == 4
    let_go(il, holder)
    heard = [json.loads((il.directory / f"heard.{n}").read_text()) for n in (1, 2)]
    assert [[m["text"] for m in messages] for messages in heard] == [[], ["one more"]]
    assert il.ok("lanes")["lanes"] == [], "the waiter that gave up left nothing behind"


def test_a_holder_that_is_killed_gives_the_lane_away_with_its_lease(il: Command, start: Start):
    work = ("sh", "-c", "echo $$ > pid; sleep 600 & wait")
    process, pid = begun(lambda: start(il, "--lease", 2, "--", *work), il.directory / "pid")
    process.kill()
    until(lambda: dead(pid), "the end of the command")
    answer = il("hold", LANE, "--", "echo", "mine")
    assert (answer.code, answer.out) == (0, "mine\n")


def test_a_hold_that_waited_for_most_of_its_lease_has_a_whole_lease(il: Command, start: Start):
    """Taken out: `waited_s` in `LiveRun`; then the command is killed as it starts; exit code 5."""
    holder = start(il, "--agent", "ann", "--", "sh", "-c", f"echo $$ > held; {UNTIL_LET_GO}")
    pid_in(il.directory / "held")
    waiter = start(il, "--agent", "bob", "--lease", 4, "--", "sh", "-c", "echo $$ > ran; sleep 1; echo end")
    until(lambda: il.ok("lanes")["lanes"][0]["waiting"] == 1, "the waiter")
    time.sleep(3.5)  # its wait is one call of 4 s
    let_go(il, holder)
    answer = ended(waiter)
    assert (answer.code, answer.out) == (0, "end\n")


def test_a_command_reads_its_messages_and_keeps_its_lease_by_hand(il: Command, start: Start):
    interlock = " ".join(PROGRAM)
    script = f"echo $$ > held; {UNTIL_LET_GO}; {interlock} --json inbox >> inbox; {interlock} renew"
    holder = start(il, "--", "sh", "-c", script)
    pid_in(il.directory / "held")
    (item,) = holders(il)
    assert il("msg", item, "one more").code == 0
    let_go(il, holder)
    (message,) = json.loads((il.directory / "inbox").read_text())["messages"]
    assert message["text"] == "one more"
