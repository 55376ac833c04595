"""`interlock session`: locks between processes of one host, from the command line and from Python."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock.core.errors import Held
from tests.acceptance.command import PROGRAM, Command, CommandHere
from tests.acceptance.holding.holders import children, dead, ended, pid_in, until

SESSION = " ".join((*PROGRAM, "session"))


@pytest.fixture
def shell(il: Command) -> Iterator["subprocess.Popen[str]"]:
    """A shell that reads what it is to do, as somebody types it."""
    process = subprocess.Popen(
        ["sh"],
        cwd=il.directory,
        env=il.environment(None),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    yield process
    process.kill()
    process.communicate()


def typed(shell: "subprocess.Popen[str]", line: str) -> str:
    """The first line that a command in the shell prints."""
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write(f"{line}\n")
    shell.stdin.flush()
    return shell.stdout.readline()


def locked(il: Command) -> list[int]:
    return [lock["number"] for lock in il.ok("session", "status")["locks"] if lock["held"]]


# -- for the length of a command ------------------------------------------------------------------


def test_a_command_runs_under_the_lock_and_gives_its_exit_code(il: Command):
    script = f"{SESSION} lock 42 --run-id other -- true; echo $?; exit 7"
    answer = il("session", "lock", 42, "--run-id", "run-1", "--", "sh", "-c", script)
    assert (answer.code, answer.out) == (7, "4\n")
    assert "Session 42 is locked by run run-1" in answer.err
    assert il.ok("session", "status") == {"locks": []}
    assert list((il.directory / ".interlock" / "locks").glob("*.lock")) == []


def test_a_killed_holder_takes_its_command_along_and_the_session_is_free(il: Command):
    process = il.start(
        "session", "lock", 42, "--", "sh", "-c", "echo $$ > pid; trap '' TERM; sleep 60 & wait; sleep 60"
    )
    pid = pid_in(il.directory / "pid")
    assert locked(il) == [42]
    process.kill()
    process.communicate()
    until(lambda: dead(pid), "the end of the command")
    assert il("session", "lock", 42, "--", "true").code == 0


def test_a_stray_process_of_a_command_that_has_ended_holds_nothing(il: Command):
    answer = il("session", "lock", 42, "--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $! > pid")
    assert answer.code == 0
    assert locked(il) == []


def test_signals_reach_the_command_under_the_lock(il: Command):
    process = il.start(
        "session", "lock", 42, "--", "sh", "-c", "trap 'exit 9' TERM; echo $$ > pid; sleep 60 & wait"
    )
    pid_in(il.directory / "pid")
    process.send_signal(signal.SIGTERM)
    assert ended(process).code == 9
    assert locked(il) == []


def test_a_command_that_cannot_run_locks_nothing(il: Command):
    answer = il("--json", "session", "lock", 42, "--", "no-such-program")
    assert (answer.code, answer.error["code"]) == (127, "command_unusable")
    assert locked(il) == []


# -- for the length of a shell --------------------------------------------------------------------


def test_a_lock_lasts_as_long_as_the_shell_that_asked_for_it(il: Command, shell: "subprocess.Popen[str]"):
    """No pidfd is mistaken for another's, and no keeper outlives its shell."""
    said = typed(shell, f"{SESSION} lock 42 --run-id run-1")
    assert said == f"Session 42 is locked for run run-1 until process {shell.pid} ends.\n"
    (lock,) = il.ok("session", "status")["locks"]
    assert (lock["held"], lock["run_id"]) == (True, "run-1")
    shell.kill()
    until(lambda: locked(il) == [], "the end of the lock")
    until(lambda: dead(lock["pid"]), "the end of the keeper")
    assert il.ok("session", "clean") == {"removed": [42]}


def test_a_lock_can_be_taken_in_one_step_and_released_in_another(il: Command):
    """As in the steps of a CI job: each is a process of its own, the job is named by --pid."""
    job = str(os.getpid())
    first = il.ok("session", "lock", 42, "--run-id", "17042", "--pid", job)
    assert first == {"number": 42, "run_id": "17042", "pid": first["pid"], "until_pid": os.getpid()}
    assert il("session", "lock", 42, "--run-id", "17043", "--pid", job).code == 4
    refused = il("--json", "session", "unlock", 42, "--run-id", "17043")
    assert (refused.code, refused.error["code"]) == (4, "held")
    assert locked(il) == [42]
    assert il.ok("session", "unlock", 42, "--run-id", "17042") == {"number": 42, "released": True}
    until(lambda: dead(first["pid"]), "the end of the keeper")
    assert il.ok("session", "unlock", 42, "--run-id", "17042") == {"number": 42, "released": False}
    again = il.ok("session", "lock", 42, "--run-id", "17043", "--pid", job)
    os.kill(again["pid"], signal.SIGKILL)
    until(lambda: locked(il) == [], "the end of the lock")


def test_a_step_that_is_repeated_finds_its_lock_and_another_job_of_the_run_does_not(il: Command):
    me, parent = str(os.getpid()), str(os.getppid())
    first = il.ok("session", "lock", 42, "--run-id", "17042", "--pid", me)
    assert il.ok("session", "lock", 42, "--run-id", "17042", "--pid", me) == first
    refused = il("session", "lock", 42, "--run-id", "17042", "--pid", parent)
    assert (refused.code, refused.out) == (4, "")
    assert f"locked by run 17042 (process {me}) since" in refused.err
    assert f"It is free when process {me} ends, or after" in refused.err
    assert il("session", "lock", 42, "--run-id", "17042", "--", "true").code == 4
    (lock,) = il.ok("session", "status")["locks"]
    assert (lock["pid"], lock["until_pid"]) == (first["pid"], os.getpid())
    il.ok("session", "unlock", 42, "--run-id", "17042")
    assert il.ok("session", "lock", 42, "--run-id", "17042", "--pid", me)["pid"] != first["pid"]
    il.ok("session", "unlock", 42, "--run-id", "17042")


def test_the_directory_of_locks_can_be_chosen(il: Command, monkeypatch: pytest.MonkeyPatch):
    env = {"INTERLOCK_LOCKS": "agent/state/locks"}
    (il.directory / "agent").mkdir()
    script = "ls agent/state/locks"
    answer = il("session", "lock", 42, "--run-id", "run-1", "--", "sh", "-c", script, env=env)
    assert (answer.code, answer.out) == (0, "42.lock\n")
    assert not (il.directory / ".interlock" / "locks").exists()
    monkeypatch.setenv("INTERLOCK_LOCKS", env["INTERLOCK_LOCKS"])
    monkeypatch.chdir(il.directory)
    with interlock.session_lock(7, run_id="python"):
        assert (il.directory / "agent" / "state" / "locks" / "7.lock").exists()


def test_status_can_show_one_session(il: Command):
    assert il("session", "status", 42).out == "Session 42 is not locked.\n"
    for number in (7, 42):
        il.ok("session", "lock", number, "--run-id", "run-1", "--pid", str(os.getpid()))
    assert [lock["number"] for lock in il.ok("session", "status", 42)["locks"]] == [42]
    (line,) = il("session", "status", 42).out.splitlines()[1:]
    assert line.split()[:4] == ["42", "locked", "run-1", str(os.getpid())]
    assert il("session", "status", 0).code == 2
    for number in (7, 42):
        il.ok("session", "unlock", number, "--run-id", "run-1")


def test_the_run_is_that_of_the_workflow_where_nobody_names_one(il: Command):
    step = {"GITHUB_RUN_ID": "17042"}
    assert il("session", "lock", 42, "--pid", str(os.getpid()), env=step).code == 0
    assert il.ok("session")["locks"][0]["run_id"] == "17042"
    assert il("session", "unlock", 42).code == 4
    assert il("session", "unlock", 42, env=step).out == "Session 42 is free.\n"


@pytest.mark.parametrize(
    "args",
    [
        ("lock", "0"),
        ("lock", "../x"),
        ("lock", "42", "--run-id", "a b"),
        ("lock", "42", "--pid", "999999999"),
        ("lock", "42", "--pid", "1", "--", "true"),
        ("unlock", "-7"),
    ],
)
def test_bad_input_locks_nothing(tmp_path: Path, args: tuple[str, ...]):
    il = CommandHere(tmp_path)
    answer = il("--json", "session", *args)
    assert (answer.code, answer.error["code"]) in [(2, "invalid_input"), (2, "usage")]
    assert locked(il) == []


def test_people_see_who_holds_what(il: Command):
    assert il("session").out == "No session is locked.\n"
    il.ok("session", "lock", 42, "--run-id", "run-1", "--pid", str(os.getpid()))
    (il.directory / ".interlock" / "locks" / "7.lock").write_text("?")
    lines = il("session").out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["7", "free", "unreadable"],
        ["42", "locked", "run-1"],
    ]
    assert il("session", "clean").out == "Removed: 7.\n"
    il.ok("session", "unlock", 42, "--run-id", "run-1")


# -- from Python ----------------------------------------------------------------------------------


def test_python_programs_lock_with_a_context_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with interlock.session_lock(42, run_id="run-1") as lock:
        assert (lock.number, lock.run_id) == (42, "run-1")
        assert (tmp_path / ".interlock" / "locks" / "42.lock").exists(), "one place for the whole repository"
        with pytest.raises(Held, match="is locked by run run-1"):
            interlock.session_lock(42, run_id="run-2")
    with interlock.session_lock(42, run_id="run-2"):
        pass


def test_a_python_program_that_is_killed_holds_nothing(il: Command):
    program = (
        "import interlock, time\n"
        "with interlock.session_lock(42, run_id='run-1'):\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=il.directory, stdout=subprocess.PIPE, env=il.environment(None)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    assert locked(il) == [42]
    assert children(process.pid) == []
    process.kill()
    process.communicate()
    assert locked(il) == []
