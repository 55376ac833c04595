"""What a hold that died was told and did not read: the next hold on the lane works on it, on every store."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.acceptance.holding.holders import LANE, UNTIL_LET_GO, Start, begun, dead, ended, pid_in, until

#: Writes down what it was told, one line a run.
LOG = "cat $INTERLOCK_MESSAGES >> log; echo >> log"


@pytest.fixture(params=["sqlite", "postgres", "git"])
def il(request: pytest.FixtureRequest, tmp_path: Path) -> Command:
    directory = tmp_path / "here"
    directory.mkdir()
    env = {"INTERLOCK_GIT_LEASE_MIN_S": "1", "INTERLOCK_POLL_S": "0.2"}
    url = None
    if request.param == "postgres":
        url = request.getfixturevalue("pg_database18")
    if request.param == "git":
        subprocess.run(["git", "init", "-q", "--bare", tmp_path / "remote.git"], check=True)
        url = f"git+file://{tmp_path / 'remote.git'}"
    return Command(directory, url=url, env=env)


def skip(il: Command, message: str) -> tuple[str, int]:
    """`--if-held skip` with a message: what it says it did, and its exit code."""
    answer = il(
        *("--json", "hold", LANE, "--if-held", "skip", "--message", message, "--lease", "60"),
        *("--", "sh", "-c", LOG),
    )
    return json.loads(answer.out.splitlines()[-1])["status"], answer.code


def heard(il: Command) -> list[list[str]]:
    lines = (il.directory / "log").read_text().splitlines()
    return [[message["text"] for message in json.loads(line)] for line in lines]


def a_holder_dies(il: Command, start: Start, *, agent: str, told: str) -> None:
    """It leaves `told` unread. On a busy machine its lease may be over before that comes: then once more."""
    pid_file, log = il.directory / "pid", il.directory / "log"
    work = ("sh", "-c", "echo $$ > pid; sleep 600 & wait")
    while True:
        process, pid = begun(lambda: start(il, "--agent", agent, "--lease", 2, "--", *work), pid_file)
        if skip(il, told) == ("skipped", 0):
            break
        ended(process)
        pid_file.unlink()
        log.unlink()
    process.kill()
    until(lambda: dead(pid), "the end of the command")


def test_skip_takes_over_the_follow_up_of_a_dead_holder_and_one_run_works_on_both_messages(
    il: Command, start: Start
):
    """Taken out: `_take_over` in `_arrive`; then the second is skipped too, and nobody is alive."""
    a_holder_dies(il, start, agent="ann", told="one")
    until(lambda: skip(il, "two") == ("ran", 0), "the end of the lease")
    messages = [text for run in heard(il) for text in run]
    assert messages[0] == "one"
    assert set(messages[1:]) == {"two"}, "also those that were left with the dead one before its lease ended"
    assert len(heard(il)) == 1
    assert il.ok("lanes")["lanes"] == []


def test_a_waiter_takes_over_the_follow_up_before_it_and_adds_its_own_message(il: Command, start: Start):
    """Taken out: `_take_over` in `_claim_own_item`; then the waiter outlasts what was left, which is lost."""
    a_holder_dies(il, start, agent="ann", told="one")
    # With a short lease it looks often at what stands before it, on git too.
    waiter = start(il, "--agent", "bob", "--lease", 4, "--message", "mine", "--", "sh", "-c", LOG)
    assert ended(waiter).code == 0
    assert heard(il) == [["one", "mine"]]
    assert il.ok("lanes")["lanes"] == []


def test_a_living_waiter_is_not_taken_over(il: Command, start: Start):
    """Two live holds: the second finds the first one's item pending, and leaves it to it."""
    holder = start(il, "--agent", "ann", "--", "sh", "-c", f"echo $$ > held; {UNTIL_LET_GO}")
    pid_in(il.directory / "held")
    crew = [start(il, "--agent", name, "--message", name, "--", "sh", "-c", LOG) for name in ("bob", "cid")]
    until(lambda: il.ok("lanes")["lanes"][0]["waiting"] == 2, "both waiters")
    (il.directory / "let-go").touch()
    assert [ended(process).code for process in (holder, *crew)] == [0, 0, 0]
    assert sorted(heard(il)) == [["bob"], ["cid"]]
