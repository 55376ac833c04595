"""Fixtures for `interlock hold`: the command as a process on either store, and processes that hold a lane."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.acceptance.holding.holders import LANE, UNTIL_LET_GO, Process, Start, pid_in


@pytest.fixture(params=["sqlite", "postgres"])
def each_il(request: pytest.FixtureRequest, tmp_path: Path) -> Command:
    """The command as a process, on either store."""
    url = None if request.param == "sqlite" else request.getfixturevalue("pg_database18")
    return Command(tmp_path, url=url)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `interlock hold` without waiting for it; what is left at the end is killed."""
    started: list[Process] = []

    def start_one(il: Command, *args: str | int) -> Process:
        started.append(il.start("hold", LANE, *args))
        return started[-1]

    yield start_one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def holder(il: Command, start: Start) -> Process:
    """Somebody who holds the lane until the file `let-go` is there."""
    process = start(il, "--agent", "ann", "--", "sh", "-c", f"echo $$ > held; {UNTIL_LET_GO}")
    pid_in(il.directory / "held")
    return process
