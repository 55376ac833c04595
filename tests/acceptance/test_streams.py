"""Standard streams and directories that are missing or full: work is done, or one sentence says why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.patience import PATIENCE_S


def started(il: Command, how: str) -> Command:
    """The command as a shell starts it."""
    return replace(il, under=("sh", "-c", f'{how} "$@"', "sh"))


def closed(il: Command, what: str) -> Command:
    return replace(il, under=("sh", "-c", f'exec "$@" {what}', "sh"))


def test_a_command_without_standard_streams_does_its_work(il: Command, tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert closed(il, "<&- >&- 2>&-")("hold", "lane", "--", "touch", str(there)).code == 0
    assert there.exists()
    assert closed(il, ">&-")("ls").code == 0


def test_a_standard_input_that_is_closed_is_an_empty_one(il: Command) -> None:
    assert "payload" in closed(il, "<&-")("add", "x", "--payload", "-", "--json").error["message"]


@pytest.mark.parametrize("args", [("ls",), ("ls", "--json"), ("show", "99", "--json")])
def test_an_output_that_is_full_is_said_once(il: Command, args: tuple[str, ...]) -> None:
    il.ok("add", "x")
    answer = closed(il, ">/dev/full")(*args)
    assert answer.code == 1
    assert answer.err == "The output cannot be written: No space left on device.\nFree some space.\n"


@pytest.mark.parametrize(
    "command", ["ls --watch --json", "ls --watch", "events -f", "events -f --json", "top"]
)
def test_a_command_that_goes_on_ends_with_its_reader(il: Command, command: str) -> None:
    """Taken out: `while_read`. On a store in which nothing happens it never ends."""
    il.ok("add", "x")
    process = il.start(*command.split())
    assert process.stdout is not None
    if command.startswith("ls"):
        process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 1
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_command_in_the_background_ends_with_its_reader_too(il: Command) -> None:
    """A shell lets background jobs ignore Ctrl-C."""
    il.ok("add", "x")
    pipe = replace(il, under=("sh", "-c", 'trap "" INT; "$@" | head -c 1; echo over', "sh"))
    assert pipe("ls", "--watch", "--json").out == "{over\n"


def test_a_run_whose_directory_is_gone_still_reports(il: Command, tmp_path: Path) -> None:
    il.ok("add", "x")
    run = il.claim()["run"]
    gone = replace(
        started(il, "mkdir gone && cd gone && rmdir ../gone && exec"),
        url=il.url or f"sqlite:///{tmp_path}/.interlock/interlock.db",
    )
    assert gone.ok("done", run)["runs"][0]["status"] == "succeeded"
    assert gone("push", "--run", run, "--json").error["code"] == "no_repository"
