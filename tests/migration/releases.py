"""The package of the last recorded release, unpacked from its commit: what other machines may still run."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release, and where its source is."""

    version: str
    commit: str
    schema: int
    source: Path

    def start(self, *args: str, cwd: Path) -> subprocess.Popen[str]:
        """Start the Python of this test run with the release's package; it talks through pipes."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        return subprocess.Popen(
            [sys.executable, *args],
            env=environ | {"PYTHONPATH": str(self.source)},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def recorded() -> list[dict[str, str | int]]:
    """What the file of releases says, oldest first."""
    text = (REPOSITORY / "releases.toml").read_text("utf-8")
    found: list[dict[str, str | int]] = tomllib.loads(text)["release"]
    return found


def unpack_last(directory: Path) -> Release:
    """Unpack the package of the last release. Without its commit the test is skipped; in CI that is allowed
    only where the commit cannot be had."""
    last = recorded()[-1]
    commit = str(last["commit"])
    if not _git("cat-file", "-e", f"{commit}^{{commit}}"):
        _git("fetch", "--quiet", "--depth=1", "origin", commit)
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=REPOSITORY, capture_output=True, check=False
    )
    if archive.returncode != 0:
        why = f"the commit of release {last['version']} is not in this clone, and its remote does not give it"
        whole = (REPOSITORY / ".git").exists() and not (REPOSITORY / ".git" / "shallow").exists()
        (pytest.fail if os.environ.get("CI") and whole else pytest.skip)(why)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(directory, filter="data")
    return Release(
        version=str(last["version"]), commit=commit, schema=int(last["schema"]), source=directory / "src"
    )


def _git(*args: str) -> bool:
    return subprocess.run(["git", *args], cwd=REPOSITORY, capture_output=True, check=False).returncode == 0
