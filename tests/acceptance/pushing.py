"""A run that pushes: a clone, the command in it, and a live run on a lane."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.git_fixtures import clone

LANE = "issue:acme/app#42"


@pytest.fixture
def tree(bare_repository: Path, tmp_path: Path) -> Path:
    return clone(str(bare_repository), tmp_path / "tree")


@pytest.fixture
def il(tree: Path, tmp_path: Path) -> Command:
    """The command in the clone, on a store outside of it."""
    return Command(tree, url=f"sqlite:///{tmp_path}/lanes.db")


@pytest.fixture
def run(il: Command) -> str:
    """The handle of a live run on the lane."""
    il.ok("add", "fix it", "--lane", LANE)
    return str(il.claim()["run"])
