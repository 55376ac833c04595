"""The demo, run for real: what it shows is what its store holds, and it leaves nothing behind."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

import interlock
from interlock.demo import promises, scenes
from interlock.proof.checker import History, LoggedEvent, most_at_once
from interlock.service.contract import ItemFilter
from tests.docs.picture import not_shown
from tests.patience import PATIENCE_S
from tests.postgres_fixtures import StartPostgres

DEMO = (sys.executable, "-m", "interlock", "demo")
SHORT = ("--seconds", "10")


def environ(tmp_path: Path) -> dict[str, str]:
    """A user's environment: a store that the demo must not touch, and a temporary directory to look into."""
    tmp_path.joinpath("tmp").mkdir(exist_ok=True)
    return {
        **{name: value for name, value in os.environ.items() if name != "COLUMNS"},
        "TMPDIR": str(tmp_path / "tmp"),
        "INTERLOCK_URL": "sqlite:////nowhere/at/all.db",
        "TERM": "xterm-256color",
    }


def run_demo(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEMO, *SHORT, *options],
        env=environ(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def left_over(tmp_path: Path) -> list[str]:
    """Files of the demo, and processes that still run in its environment."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == str(tmp_path / "tmp"):
                processes.append(f"{process.pid} {process.status()} {process.cmdline()}")
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return [*(str(path) for path in (tmp_path / "tmp").iterdir()), *processes]


def wait_until_nothing_is_left(tmp_path: Path, *, but: str = "\0") -> None:
    deadline_s = time.monotonic() + 30
    while left := [name for name in left_over(tmp_path) if but not in name]:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.1)


@contextmanager
def started_demo(tmp_path: Path, sign: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A demo that has printed `sign`."""
    process = subprocess.Popen(
        [*DEMO, *SHORT, *options],
        env=environ(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert any(sign in line for line in process.stdout)
            yield process
        finally:
            process.kill()


# -- what it shows --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_summary_agrees_with_the_kept_store_and_every_check_holds(tmp_path: Path) -> None:
    answer = run_demo(tmp_path, "--keep")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stderr == ""
    story = answer.stdout
    assert " PASS   all 7 checks hold" in story
    assert "1 run, 4 superseded, 5 of 5 messages in its hands" in story
    assert re.search(r"lock outlived \w+ by \d\.\d s \(lease 1.5 s\); \w+ finished at", story)
    assert re.search(r"\d late writes of \w+ refused: .*done", story)
    assert re.search(r"bert waited \d\.\d s behind ada; 2 comments joined", story)
    assert "late `done` of" in story
    assert not re.search(r" +$", story, re.MULTILINE)
    assert not_shown(story) == [], "the README's picture of the demo shows something else"

    kept = re.search(r"INTERLOCK_URL=(\S+) interlock events", story)
    assert kept is not None
    with interlock.connect(kept[1]) as il:
        events = Counter(event.kind for event in il.service.events(limit=10_000))
        assert all(check.ok for check in il.service.doctor())
    added, completed = events["item.added"] + events["item.coalesced"], events["run.succeeded"]
    assert f"{added} added: {completed} completed, 4 superseded, 2 coalesced" in story
    assert f"{events['run.started']} started: {completed} succeeded" in story
    assert f"{events['lane.promoted']} promotions" in story
    wait_until_nothing_is_left(tmp_path, but="interlock-demo-")


@pytest.mark.slow
def test_on_postgresql_the_same_holds_and_the_outcome_is_one_line_of_json(
    tmp_path: Path, start_postgres: StartPostgres
) -> None:
    answer = run_demo(tmp_path, "--url", start_postgres(16, fsync=True).url(), "--json")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count("\n") == 1
    found: dict[str, Any] = json.loads(answer.stdout)
    assert found["ok"]
    assert found["store"] == "postgresql"
    assert [check for check in found["checks"] if not check["ok"]] == []
    assert found["crash"]["recovered"]
    assert found["crash"]["recovered_by"] != found["crash"]["agent"]
    assert 0 < found["crash"]["lock_outlived_s"] < found["crash"]["recovered_after_s"]
    assert "done" in found["zombie"]["refused"]
    assert found["zombie"]["result_stands_of"] != found["zombie"]["agent"]
    assert found["five_comments"]["superseded"] == 4
    assert tuple(found["five_comments"]["messages"]) == scenes.COMMENTS
    assert found["two_agents"]["coalesced"] == 2
    assert found["promotions"] >= 1
    assert found["others"]["overtook"] == 1
    assert found["others"]["most_at_once"] == 1
    wait_until_nothing_is_left(tmp_path)


# -- what it leaves -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "sign"), [(signal.SIGINT, "started by"), (signal.SIGTERM, "SIGSTOP")], ids=["INT", "TERM"]
)
def test_a_signal_ends_agents_even_paused_ones_and_removes_files(
    tmp_path: Path, number: signal.Signals, sign: str
) -> None:
    with started_demo(tmp_path, sign) as demo:
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=PATIENCE_S)

    assert demo.returncode == 130
    assert errors == "Stopped. No agent of the demo is left running.\n"
    assert left_over(tmp_path) == []


def test_an_interrupted_demo_on_a_shared_store_leaves_no_item_unfinished(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    with interlock.connect(url) as il:
        theirs = il.add("Not the demo's business", lane="issue:acme/app#41", agent="ada").item

    with started_demo(tmp_path, "waits behind", "--url", url) as demo:
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=PATIENCE_S)

    assert demo.returncode == 130
    with interlock.connect(url) as il:
        unfinished = il.service.items(ItemFilter())
        assert theirs is not None
        assert [item.id for item in unfinished] == [theirs.id]
        assert len(il.service.items(ItemFilter(all=True))) > 1
    assert left_over(tmp_path) == []


@pytest.mark.slow
def test_agents_end_by_themselves_when_the_demo_is_killed(tmp_path: Path) -> None:
    with started_demo(tmp_path, "SIGSTOP") as demo:
        demo.kill()

    # Nobody was left to remove the files.
    wait_until_nothing_is_left(tmp_path, but="interlock-demo-")


def test_ctrl_c_on_a_terminal_gives_the_screen_back_and_leaves_nothing(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    # The first terminal that the leader of a session opens becomes its own: Ctrl-C then reaches it.
    take = (
        "import os, sys; tty = os.open(sys.argv[1], os.O_RDWR); [os.dup2(tty, n) for n in (0, 1, 2)];"
        "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    )
    demo = subprocess.Popen(
        [sys.executable, "-c", take, os.ttyname(slave), *DEMO[1:], *SHORT],
        env=environ(tmp_path),
        cwd=tmp_path,
        start_new_session=True,
    )
    with demo:
        screen = b""
        while b"started by ada" not in screen:
            screen += os.read(master, 65_536)
        os.write(master, b"\x03")
        while b"No agent of the demo is left" not in screen:
            screen += os.read(master, 65_536)
        assert demo.wait(30) == 130
    os.close(slave)
    os.close(master)

    assert screen.index(b"\x1b[?1049h") < screen.index(b"\x1b[?1049l")
    assert b"Two agents are asked for one issue" in screen
    assert b"Traceback" not in screen
    assert left_over(tmp_path) == []


def test_a_length_out_of_range_is_refused_with_a_hint(tmp_path: Path) -> None:
    answer = subprocess.run(
        [*DEMO, "--seconds", "5"], env=environ(tmp_path), capture_output=True, text=True, check=False
    )

    assert answer.returncode == 2
    assert answer.stderr == "The demo cannot take 5 s.\nUse 10 to 300.\n"
    assert left_over(tmp_path) == []


# -- whether its checks would see a violation -----------------------------------------------------------


def lane_of(*runs: tuple[int, int, int | None]) -> History:
    """Runs of one lane, each as (number, start, end) and each of an item with the run's number."""
    lines: list[LoggedEvent] = []

    def write(kind: str, at: int, item: int, run: int | None = None, **data: Any) -> None:
        lane = "issue:acme/app#41"
        lines.append(
            LoggedEvent(seq=0, at_us=at, kind=kind, item=item, run=run, lane=lane, agent="ada", data=data)
        )

    for number, _, _ in runs:
        write("item.added", 0, number, status="pending" if number == runs[0][0] else "deferred")
    for number, start, end in runs:
        if number != runs[0][0]:
            write("lane.promoted", start, number)
        write("run.started", start, number, number)
        if end is not None:
            write("run.succeeded", end, number, number)
    in_order = sorted(lines, key=lambda line: line.at_us)
    return History(replace(line, seq=n) for n, line in enumerate(in_order, start=1))


def test_runs_that_follow_each_other_pass() -> None:
    handed_over_at_once = lane_of((1, 1, 2), (2, 2, 3), (3, 4, None))

    assert promises.one_run_a_lane(handed_over_at_once).ok
    assert most_at_once(handed_over_at_once.runs.values()) == 1


def test_two_runs_at_once_on_a_lane_are_a_violation() -> None:
    history = lane_of((1, 1, 3), (2, 2, 4))
    found = promises.one_run_a_lane(history)

    assert not found.ok
    assert "is held by items [1, 2]" in found.detail
    assert most_at_once(history.runs.values()) == 2


def test_a_run_that_never_ended_still_holds_its_lane() -> None:
    assert not promises.one_run_a_lane(lane_of((1, 1, None), (2, 2, 4))).ok


def test_a_fence_below_its_predecessor_is_a_violation() -> None:
    found = promises.one_run_a_lane(lane_of((2, 1, 2), (1, 3, 4)))

    assert not found.ok
    assert "came after run 2 of the same lane" in found.detail
