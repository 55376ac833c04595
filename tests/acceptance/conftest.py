"""Fixtures of the acceptance tests: the command on a fresh store."""

from pathlib import Path

import pytest

from tests.acceptance.command import Command, CommandHere


@pytest.fixture
def il(tmp_path: Path) -> Command:
    """The command on SQLite, in an empty directory outside of any repository."""
    return Command(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def any_il(request: pytest.FixtureRequest, tmp_path: Path) -> Command:
    """The command on either store: as a process on SQLite, in this one on PostgreSQL."""
    if request.param == "sqlite":
        return Command(tmp_path)
    return CommandHere(tmp_path, url=request.getfixturevalue("pg_database18"))


@pytest.fixture(params=["sqlite", "postgres"])
def unmigrated_il(request: pytest.FixtureRequest, tmp_path: Path) -> Command:
    """The command on either store, in which there is no schema yet."""
    if request.param == "sqlite":
        return Command(tmp_path)
    return CommandHere(tmp_path, url=request.getfixturevalue("pg_empty18"))
