"""`interlock work`: exit codes, what the command is told, what is refused before anything is claimed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.cli.views.worker_slots import column_widths
from tests.acceptance.command import PROGRAM, Command
from tests.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("script", "run", "item"),
    [
        ("exit 0", "succeeded", "completed"),
        ("exit 75", "released", "pending"),
        ("echo what went wrong >&2; exit 3", "failed", "waiting"),
        ("exit 127", "failed", "waiting"),
        ("kill -TERM $$", "failed", "waiting"),
    ],
)
def test_the_exit_code_of_the_command_says_how_the_run_ended(
    il: Command, script: str, run: str, item: str
) -> None:
    il.ok("add", "some work")
    answer = il("--json", "work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", script)
    assert answer.code == 0
    events = [json.loads(line) for line in answer.out.splitlines()]
    assert [event["event"] for event in events] == ["ready", "started", "ended", "stopped"]
    assert events[2]["status"] == run
    shown = il.ok("show", 1)
    assert shown["item"]["status"] == item
    if run == "failed":
        assert shown["runs"][0]["error"].startswith(("Exit code", "Killed by SIGTERM"))
        assert ("what went wrong" in script) == ("what went wrong" in shown["runs"][0]["error"])


@pytest.mark.parametrize("written", ["+2h", "$(date -u -d '+2 hours' +%FT%TZ)", "$(date -d '+2 hours' +%s)"])
def test_a_command_at_a_quotas_wall_says_until_when_its_item_waits(il: Command, written: str) -> None:
    il.ok("add", "some work", "--lane", "branch:main")
    script = f'echo "{written}" > "$INTERLOCK_RETRY_AT_FILE"; exit 75'
    answer = il("--json", "work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", script)
    assert [json.loads(line)["event"] for line in answer.out.splitlines()][1:3] == ["started", "ended"]
    item = il.ok("show", 1)["item"]
    assert (item["status"], item["reason"], item["attempt"]) == ("waiting", "quota_wall", 0)
    assert il.ok("lanes") == {"lanes": []}
    left_s = (datetime.fromisoformat(item["run_at"]) - datetime.now(UTC)).total_seconds()
    assert 3600 < left_s <= 7200


@pytest.mark.parametrize("write", ["echo soon >", "head -c 999 /dev/zero >", "rm -f", "mkdir", "ln -s x"])
def test_a_time_that_cannot_be_read_is_a_plain_release(il: Command, write: str) -> None:
    il.ok("add", "some work")
    script = f'{write} "$INTERLOCK_RETRY_AT_FILE"; exit 75'
    answer = il("--json", "work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", script)
    events = [json.loads(line)["event"] for line in answer.out.splitlines()]
    assert ("bad_retry_at" in events) == (write != "rm -f")
    item = il.ok("show", 1)["item"]
    assert (item["status"], item["reason"]) == ("pending", "reported")


def test_a_command_at_a_wall_of_its_whole_agent_says_so_itself(il: Command) -> None:
    il.ok("add", "some work")
    il.ok("add", "more work")
    script = '"$0" -m interlock release --for 2h --whole-agent --reason quota; exit 75'
    command = ("sh", "-c", script, sys.executable)
    answer = il("--json", "work", "--agent", "coder", "--exit-when-idle", "--", *command)
    assert answer.code == 0, answer
    ended = [json.loads(line) for line in answer.out.splitlines() if '"ended"' in line]
    assert [event["status"] for event in ended] == ["released"]
    assert [item["status"] for item in il.ok("ls")["items"]] == ["waiting", "pending"]
    (agent,) = il.ok("agents")["agents"]
    assert agent["wall_reason"] == "quota"
    assert "starts nothing until" in il("agents").out


@pytest.mark.parametrize("scope", ["", "item", "pool"])
def test_a_providers_limit_in_the_output_releases_the_item(il: Command, scope: str) -> None:
    il.ok("pools", "set", "account", "--max", 9)
    for name in ("coder", "painter"):
        il.ok("agents", "set", name, "--pool", "account")
    il.ok("add", "some work", "--max-attempts", 1)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=3)
    (il.directory / "agent.sh").write_text(
        f"echo working >&2\necho 'Claude AI usage limit reached|{until.timestamp():.0f}'\nexit 1\n"
    )
    env = {"INTERLOCK_QUOTA_SCOPE": scope}
    answer = il("--json", "work", "--agent", "coder", "--limit", 1, "--", "sh", "agent.sh", env=env)
    events = [json.loads(line) for line in answer.out.splitlines()]
    assert [event["event"] for event in events] == ["ready", "started", "quota_limit", "ended", "stopped"]
    item = il.ok("show", 1)["item"]
    assert (item["status"], item["reason"], item["attempt"]) == ("waiting", "quota_wall", 0)
    assert datetime.fromisoformat(item["run_at"]) == until
    walled = {agent["key"] for agent in il.ok("agents")["agents"] if agent["walled_until"]}
    assert walled == {"": {"coder"}, "item": set(), "pool": {"coder", "painter"}}[scope]
    assert "Claude AI usage limit reached" in str(il.ok("show", 1)["events"])


def test_a_command_that_only_talks_of_limits_has_failed(il: Command) -> None:
    il.ok("add", "some work")
    script = 'echo "You\'ve hit your limit · resets 3pm" is what Claude prints; exit 1'
    il("work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", script)
    shown = il.ok("show", 1)
    assert (shown["item"]["reason"], shown["item"]["attempt"]) == ("back_off", 1)


def test_settings_add_patterns_and_bad_ones_are_refused_before_anything_is_claimed(il: Command) -> None:
    il.ok("add", "some work")
    work = ("work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", "echo Tokens of x used up; exit 3")
    for name, value in (("PATTERNS", '["aider"]'), ("PATTERNS", "aider"), ("SCOPE", "all"), ("WAIT_S", "5")):
        refused = il(*work, env={f"INTERLOCK_QUOTA_{name}": value})
        assert refused.code == 2
        assert refused.err.count("\n") == 2
    assert il(*work, env={"INTERLOCK_QUOTA_PATTERNS": '["aider: Tokens of * used up"]'}).code == 0
    item = il.ok("show", 1)["item"]
    assert item["reason"] == "quota_wall"
    left_s = (datetime.fromisoformat(item["run_at"]) - datetime.now(UTC)).total_seconds()
    assert 1700 < left_s <= 1800


def test_the_command_of_a_task_is_told_its_plan(il: Command) -> None:
    il.ok("plan", "create", "-", stdin='{"name": "p", "tasks": [{"key": "a"}]}')
    script = "echo $INTERLOCK_PLAN"
    il("work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", script)
    item = il.ok("plan", "show", 1)["tasks"][0]["item"]
    assert il.ok("show", item)["runs"][0]["result"]["stdout"] == "1\n"


def test_the_command_is_told_everything_about_its_run(il: Command) -> None:
    il.ok("add", "Fix it", "--lane", "issue:acme/app#1", "--payload", '{"page": 7}', "--message", "hurry")
    names = ("RUN", "FENCE", "ITEM", "LANE", "AGENT", "URL", "PAYLOAD", "MESSAGES", "RESULT")
    lines = [f"echo {name}=$INTERLOCK_{name} >> told" for name in names]
    script = "; ".join([*lines, "cat $INTERLOCK_PAYLOAD $INTERLOCK_MESSAGES"])
    il("work", "--agent", "Coder", "--limit", 1, "--", "sh", "-c", script)
    told = dict(line.split("=", 1) for line in (il.directory / "told").read_text().splitlines())
    assert told["RUN"].startswith("1.1.")
    assert (told["FENCE"], told["ITEM"], told["LANE"]) == ("1", "1", "issue:acme/app#1")
    assert told["AGENT"] == "Coder"
    assert told["URL"] == f"sqlite:///{il.directory}/.interlock/interlock.db"
    stdout = il.ok("show", 1)["runs"][0]["result"]["stdout"]
    payload, rest = json.JSONDecoder().raw_decode(stdout)
    assert payload == {"page": 7}
    (message,), _ = json.JSONDecoder().raw_decode(stdout[rest:])
    assert (message["n"], message["text"]) == (1, "hurry")
    assert not list((il.directory / ".interlock/runs").iterdir())


@pytest.mark.parametrize(
    ("written", "result"),
    [
        ('{"pages": 3}', {"pages": 3}),
        ("[1, 2]", [1, 2]),
        ("NaN", {"stdout": "hi\n", "problem": "INTERLOCK_RESULT: NaN is not a finite number"}),
        (None, {"stdout": "hi\n", "problem": "INTERLOCK_RESULT: it is a FIFO, not a plain file"}),
    ],
)
def test_a_result_file_wins_over_what_was_printed(il: Command, written: str | None, result: object) -> None:
    il.ok("add", "some work")
    leave = "mkfifo $INTERLOCK_RESULT" if written is None else f"echo '{written}' > $INTERLOCK_RESULT"
    script = f"echo hi; {leave}"
    assert il("work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", script).code == 0
    assert il.ok("show", 1)["runs"][0]["result"] == result


def test_a_worker_ends_when_it_is_idle_and_says_if_there_was_nothing(il: Command) -> None:
    assert il("work", "--agent", "coder", "--exit-when-idle", "--", "true").code == 3
    for n in range(3):
        il.ok("add", f"item {n}")
    answer = il("work", "--agent", "coder", "--exit-when-idle", "--", "echo", "hello")
    assert answer.code == 0
    assert answer.out.count("| hello") == 3
    assert {item["status"] for item in il.ok("ls", "--all")["items"]} == {"completed"}


def test_types_and_labels_choose_what_is_claimed(il: Command) -> None:
    il.ok("add", "a review", "--type", "review")
    il.ok("add", "a build", "--type", "build")
    assert il("work", "--agent", "a", "--type", "build", "--exit-when-idle", "--", "true").code == 0
    assert [item["status"] for item in il.ok("ls", "--all")["items"]] == ["pending", "completed"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--agent", "a", "--", "no-such-program"), 127, "'no-such-program' cannot be started"),
        (("--agent", "a", "--", "./not/there"), 127, "'./not/there' cannot be started"),
        (("--agent", "a", "--", "/dev/null"), 126, "'/dev/null' cannot be started: permission denied"),
        (("--agent", "a"), 2, "There is no command."),
        (("--agent", "", "--", "true"), 2, "agent"),
        (("--agent", "a", "--type", "a b", "--", "true"), 2, "type"),
        (("--agent", "a", "--max", "0", "--", "true"), 2, "max"),
        (("--agent", "a", "--max", "1001", "--", "true"), 2, "max"),
        (("--agent", "a", "--lease", "0.1s", "--", "true"), 2, "lease"),
        (("--agent", "a", "--limit", "none", "--", "true"), 2, "limit"),
        (("--agent", "a", "--worktree", "--", "true"), 1, "not a git repository"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_claimed(
    il: Command, args: tuple[str, ...], code: int, words: str
) -> None:
    il.ok("add", "some work")
    answer = il("--json", "work", *args)
    assert answer.code == code
    assert words in answer.error["message"]
    assert il.ok("show", 1)["item"]["first_claimed_at"] is None


def write_script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def make_repository(directory: Path) -> None:
    """With one commit that has `committed.sh`."""
    write_script(directory / "committed.sh", "pwd; echo $0")
    for args in (
        ("init", "-q", "-b", "main"),
        ("add", "committed.sh"),
        ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "one"),
    ):
        subprocess.run(["git", *args], cwd=directory, check=True)


def test_a_command_that_vanishes_gives_its_item_back_and_ends_the_worker(il: Command) -> None:
    """It costs no attempt."""
    for title in ("first", "second"):
        il.ok("add", title)
    write_script(il.directory / "once.sh", "rm once.sh")
    answer = il("work", "--agent", "a", "--", "./once.sh")
    assert answer.code == 127
    assert "'./once.sh' cannot be started: no such file" in answer.err
    shown = il.ok("show", 2)
    assert (shown["item"]["status"], shown["item"]["attempt"]) == ("pending", 0)


def test_a_script_need_not_be_committed_to_work_in_worktrees(il: Command) -> None:
    """It is taken from where the worker was started; one that is committed from the worktree."""
    make_repository(il.directory)
    write_script(il.directory / "agent.sh", "pwd; echo $0")
    for command, place in (("./agent.sh", f"{il.directory}/agent.sh"), ("./committed.sh", "./committed.sh")):
        il.ok("add", "some work")
        answer = il("work", "--agent", "a", "--worktree", "--limit", 1, "--", command)
        assert answer.code == 0
        assert "/.interlock/worktrees/run-" in answer.out
        assert f"| {place}\n" in answer.out


def test_a_missing_script_is_refused_before_anything_is_claimed(il: Command) -> None:
    make_repository(il.directory)
    il.ok("add", "some work")
    answer = il("--json", "work", "--agent", "a", "--worktree", "--", "./nowhere.sh")
    assert answer.code == 127
    assert answer.error["hint"] == "Commit it, or give its absolute path."
    assert il.ok("show", 1)["item"]["first_claimed_at"] is None


def test_a_failed_run_says_how_and_when_it_is_tried_again(il: Command) -> None:
    il.ok("add", "some work")
    il.ok("add", "other work", "--max-attempts", 1)
    script = "[ $INTERLOCK_ITEM = 1 ] && exit 3; kill -TERM $$"
    answer = il("work", "--agent", "a", "--limit", 2, "--", "sh", "-c", script)
    assert re.search(r"Run 1 failed \(exit code 3\); item 1 comes back in \d+ s\n", answer.out)
    assert "Run 2 failed (killed by SIGTERM); item 2 is failed\n" in answer.out


@pytest.mark.parametrize("report", ["done", "release"])
def test_a_command_that_reports_its_own_end_causes_no_refusal_notice(il: Command, report: str) -> None:
    il.ok("add", "some work")
    program = " ".join(PROGRAM)
    answer = il("work", "--agent", "a", "--limit", 1, "--", "sh", "-c", f"{program} {report}")
    status = {"done": "succeeded", "release": "released"}[report]
    assert f"Run 1 had already reported itself: {status}\n" in answer.out
    assert "refused" not in answer.out


def test_of_a_progress_bar_the_last_state_is_shown(il: Command) -> None:
    il.ok("add", "some work")
    answer = il("work", "--agent", "a", "--limit", 1, "--", "printf", r"1%%\r50%%\r100%%\nready\r\n")
    assert "1 | 100%\n" in answer.out
    assert "1 | ready\n" in answer.out
    assert r"\x0d" not in answer.out


def test_a_repository_without_a_commit_has_no_worktrees(il: Command) -> None:
    subprocess.run(["git", "init", "-q", il.directory], check=True)
    answer = il("--json", "work", "--agent", "a", "--worktree", "--", "true")
    assert answer.error["message"] == "There is no commit yet."


def test_the_log_of_a_run_stays(il: Command, tmp_path: Path) -> None:
    il.ok("add", "some work")
    il("work", "--agent", "a", "--limit", 1, "--", "sh", "-c", "echo out; echo err >&2")
    assert sorted((tmp_path / ".interlock/logs/run-1.log").read_text().split()) == ["err", "out"]


def test_a_narrow_table_keeps_its_numbers_and_leaves_the_lane_out() -> None:
    row = {"SLOT": "1", "RUN": "1204", "ITEM": "1187", "TITLE": "Fix " * 9, "LANE": "issue:acme/app#1"}
    row |= {"SINCE": "14 min", "STATE": "reporting", "LAST OUTPUT": "x" * 80}
    for width in (45, 60, 75, 90, 120, 200):
        widths = column_widths([row], width)
        assert sum(widths.values()) + 2 * (len(widths) - 1) <= width
        assert all(widths[name] >= len(row[name]) for name in ("SLOT", "RUN", "ITEM", "SINCE", "STATE"))
        assert ("TITLE" in widths, "LANE" in widths) == (width >= 60, width >= 90)


def test_people_see_a_table_of_slots(il: Command) -> None:
    for n in (1, 2):
        il.ok("add", f"Fix page {n}", "--lane", f"issue:acme/app#{n}")
    script = "echo step one; until [ -e go ]; do sleep 0.02; done"
    args = ("work", "--agent", "coder", "--max", "3", "--exit-when-idle", "--", "sh", "-c", script)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    env = il.environment({"TERM": "xterm"})
    process = subprocess.Popen(
        [*PROGRAM, *args], cwd=il.directory, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    running = re.compile(r"^\d +\d +\d +(Fix page \d) +(issue:acme/app#\d) .*running +step one", re.M)
    seen = ""
    with contextlib.suppress(OSError):  # the terminal ends with the worker
        while text := os.read(ours, 65536).decode(errors="replace"):
            seen += text
            if len(set(running.findall(seen))) == 2:  # one run may be drawn many times before the other
                (il.directory / "go").touch()
    os.close(ours)
    assert process.wait(PATIENCE_S) == 0
    assert set(running.findall(seen)) == {
        ("Fix page 1", "issue:acme/app#1"),
        ("Fix page 2", "issue:acme/app#2"),
    }
    assert re.search(r"^3 +idle", seen, re.M)
    assert "Run 1 succeeded; item 1 is completed" in seen
