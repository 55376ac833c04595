"""Users' commands that are told of dead letters, run by real sweepers and workers."""

import json
import os
import signal
from pathlib import Path

import pytest

from interlock.notify.notifier import run_command
from interlock.service.contract import EventView, NoticeView
from interlock.service.item_view import moment
from tests.acceptance.command import Command
from tests.acceptance.test_trust import Stranger


def asking(command: list[str]) -> dict[str, str]:
    return {"INTERLOCK_ON_DEAD_LETTER": json.dumps(command)}


def bury(il: Command, title: str = "work") -> int:
    item = il.ok("add", title)["item"]["id"]
    il.ok("fail", il.claim()["run"], "--no-retry", "--error", "boom")
    return int(item)


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """The file into which the command writes what it is told."""
    return tmp_path / "told"


def keeping(path: Path) -> list[str]:
    return ["sh", "-c", 'cat >> "$1"', "keep", str(path)]


@pytest.mark.parametrize("by", ["sweep", "work"])
def test_a_sweeper_and_a_worker_run_the_command_with_the_event(any_il: Command, told: Path, by: str):
    any_il.env |= asking(keeping(told))
    any_il.ok("sweep", "--once")
    if by == "sweep":
        item = bury(any_il)
        any_il.ok("sweep", "--once")
    else:
        item = any_il.ok("add", "work", "--max-attempts", 1)["item"]["id"]
        os.mkfifo(fifo := told.with_name("fifo"))
        worker = Command(
            any_il.directory, any_il.url, asking(["sh", "-c", 'cat > "$1"', "keep", str(fifo)])
        ).start("work", "--agent", "coder", "--", "false")
        told.write_text(fifo.read_text())  # waits for the worker's command
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    (line,) = told.read_text().splitlines()
    notice = json.loads(line)
    assert (notice["notice"], notice["attempt"]) == ("on_dead_letter", 1)
    assert (notice["event"]["item"], notice["event"]["kind"]) == (item, "run.failed")
    assert (notice["item"]["title"], notice["item"]["status"]) == ("work", "failed")
    assert notice["event"]["seq"] in [e["seq"] for e in any_il.ok("events", "--item", item)["events"]]
    any_il.ok("sweep", "--once")
    assert told.read_text().splitlines() == [line]


def test_a_sweeper_runs_the_command_for_a_question(any_il: Command, told: Path):
    any_il.env |= {"INTERLOCK_ON_QUESTION": json.dumps(keeping(told))}
    any_il.ok("sweep", "--once")
    bury(any_il)  # is none of its business
    item = any_il.ok("add", "work")["item"]["id"]
    any_il.ok("ask", any_il.claim()["run"], "Which database?")
    any_il.ok("sweep", "--once")
    (line,) = told.read_text().splitlines()
    notice = json.loads(line)
    assert (notice["notice"], notice["attempt"]) == ("on_question", 1)
    assert (notice["event"]["item"], notice["event"]["kind"]) == (item, "question.asked")
    assert notice["event"]["data"]["question"] == "Which database?"
    assert notice["item"]["id"] == item
    any_il.ok("msg", item, "PostgreSQL.", "--from-person")
    any_il.ok("ask", any_il.claim()["run"], "Which version?")
    any_il.ok("sweep", "--once")
    asked = [json.loads(line)["event"]["data"]["question"] for line in told.read_text().splitlines()]
    assert asked == ["Which database?", "Which version?"]


def test_a_command_that_fails_is_said_and_tried_later(il: Command):
    il.env |= asking(["sh", "-c", "echo no mail server >&2; exit 4"])
    il.ok("sweep", "--once")
    bury(il)
    answer = il("sweep", "--once")
    assert answer.code == 0
    assert "on_dead_letter failed for event" in answer.err
    assert "It ended with 4. no mail server" in answer.err
    assert il("sweep", "--once").err == "", "it waits"


def test_a_stranger_s_command_is_not_run_until_it_is_trusted(tmp_path: Path, told: Path):
    stranger = Stranger(tmp_path)
    stranger.write(f"on_dead_letter = {json.dumps(keeping(told))}\n")
    il = stranger.il
    il.ok("sweep", "--once")
    bury(il)
    answer = il("sweep", "--once")
    assert "Ignored until you trust" in answer.err
    assert not told.exists()
    stranger.trust()
    il.ok("sweep", "--once")  # from here on
    item = bury(il)
    il.ok("sweep", "--once")
    assert [json.loads(line)["event"]["item"] for line in told.read_text().splitlines()] == [item]


NOTICE = NoticeView(
    name="on_dead_letter",
    event=EventView(
        seq=7,
        at=moment(0),
        kind="run.failed",
        reason="",
        project="p",
        item=1,
        run=1,
        lane=None,
        agent=None,
        data={},
    ),
    item=None,
    attempt=1,
    after=0,
    token=1,
)


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(tmp_path: Path):
    os.mkfifo(fifo := tmp_path / "alive")
    keeper = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    error = run_command(
        ("sh", "-c", f"exec 9>{fifo}; sleep 600 & sleep 600"), NOTICE, tmp_path, timeout_s=0.5
    )
    assert error == "It took longer than 0.5 s and was killed."
    os.set_blocking(keeper, True)
    assert os.read(keeper, 1) == b"", "nobody has the pipe open any more"
    os.close(keeper)


def test_no_shell_reads_the_arguments(tmp_path: Path):
    out = tmp_path / "out"
    argument = "$(touch pwned); `id` | x"
    assert (
        run_command(("sh", "-c", 'printf %s "$1" > "$2"', "s", argument, str(out)), NOTICE, tmp_path) is None
    )
    assert out.read_text() == argument
    assert not (tmp_path / "pwned").exists()


def test_a_program_that_is_not_there_is_said(tmp_path: Path):
    assert run_command(("no-such-program",), NOTICE, tmp_path) == (
        "no-such-program cannot be run: No such file or directory."
    )


def test_what_a_command_leaves_running_keeps_nobody_waiting(tmp_path: Path):
    pid = tmp_path / "pid"
    assert run_command(("sh", "-c", f"sleep 600 & echo $! > {pid}"), NOTICE, tmp_path) is None
    os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("text", ["notify-send x", "[]", '[""]', '["a", 1]', '["a\\u0000"]', '"a"', "{}"])
def test_a_command_is_a_list_of_arguments(il: Command, text: str):
    answer = il("--json", "ls", env={"INTERLOCK_ON_DEAD_LETTER": text})
    assert answer.error["code"] == "invalid_input"
    assert "INTERLOCK_ON_DEAD_LETTER is not a list of a program and its arguments" in answer.error["message"]
