"""`interlock log`: what a run's command wrote, also while it runs."""

import os
from pathlib import Path

import pytest

from interlock.worker.log import HEAD_BYTES, TAIL_BYTES, RunLog, written
from tests.acceptance.command import Command
from tests.patience import PATIENCE_S


def test_the_log_of_a_run_is_printed_and_named_in_show(il: Command):
    il.ok("add", "a")
    il("work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", "echo out; echo ünd")
    assert il("log", 1).out == "out\nünd\n"
    answer = il("--json", "log", 1).json
    assert (answer["run"], answer["running"], answer["text"]) == (1, False, "out\nünd\n")
    assert Path(answer["path"]).is_file()
    assert f"Log of run 1: {answer['path']} (interlock log 1)" in il("show", 1).out
    assert il("log", "-f", 1).out == "out\nünd\n"
    assert il("log", env={"INTERLOCK_RUN": "1.1.0123456789abcdef"}).out == "out\nünd\n"


def test_a_log_is_followed_until_the_run_is_over(il: Command, tmp_path: Path):
    os.mkfifo(gate := tmp_path / "gate")
    il.ok("add", "a")
    worker = il.start(
        "work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", f"echo one; read x < {gate}; echo two"
    )
    with gate.open("w") as opened:  # waits for the command
        reader = il.start("log", "-f", 1)
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"one\n"
        opened.write("go\n")
    rest, said = reader.communicate(timeout=PATIENCE_S)
    assert (rest, said, reader.returncode) == (b"two\n", b"", 0)
    worker.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("run", "word"), [("7", "no log of run 7 on this host"), ("x", "run"), ("", "RUN is missing")]
)
def test_what_is_no_run_here_is_said(il: Command, run: str, word: str):
    answer = il("--json", "log", *([run] if run else []))
    assert word in answer.error["message"]


def test_of_a_log_longer_than_it_keeps_the_end_comes_when_the_run_is_over(tmp_path: Path):
    log = RunLog(tmp_path / "run-1.log")
    log.take(b"a" * HEAD_BYTES + b"b" * TAIL_BYTES)
    runs = iter((True, True, False))

    def goes_on() -> bool:
        more = next(runs)
        if not more:
            log.take(b"the end")
            log.close()
        return more

    seen = b"".join(written(tmp_path / "run-1.log", goes_on))
    assert seen[: HEAD_BYTES + TAIL_BYTES] == b"a" * HEAD_BYTES + b"b" * TAIL_BYTES
    assert b"7 bytes left out" in seen
    assert seen.endswith(b"bthe end")
