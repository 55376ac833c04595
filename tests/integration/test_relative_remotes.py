"""Remotes with a relative address, from a worktree: git there reads and writes what it does in the clone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from interlock.core.errors import GitFailed
from interlock.git.plumbing import GitRepository
from interlock.git.remotes import absolute_addresses, check_relative, variables
from tests.git_fixtures import clone, commit, git, make_bare, seed


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A clone, two repositories beside it, and a worktree elsewhere."""
    for name in ("server.git", "my server.git"):
        seed(make_bare(tmp_path / name), tmp_path / f"first {name}", {"README": name})
    place = clone(str(tmp_path / "server.git"), tmp_path / "shop")
    git(place, "worktree", "add", "-q", "-b", "work", str(tmp_path / "far" / "away" / "work"))
    return place


def elsewhere(place: Path, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Git in the worktree, with the variables that a run gets."""
    given = os.environ | variables(absolute_addresses(GitRepository(place)), os.environ)
    worktree = place.parent / "far" / "away" / "work"
    done = subprocess.run(
        ["git", *args], cwd=worktree, env=given, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def pushed(place: Path, to: str) -> bool:
    """Whether a push from the worktree arrives in a repository."""
    oid = commit(place.parent / "far" / "away" / "work", {"page": "new"}, "new")
    elsewhere(place, "push", "-q", "origin", "HEAD:refs/heads/done")
    return git(place.parent / to, "rev-parse", "refs/heads/done") == oid


@pytest.mark.parametrize("url", ["../server.git", "./../server.git/", "../my server.git"])
def test_a_relative_address_works_in_a_worktree(place: Path, url: str) -> None:
    """Taken out (the variables): git finds no repository there."""
    git(place, "remote", "set-url", "origin", url)
    elsewhere(place, "fetch", "-q", "origin")
    assert pushed(place, url.removeprefix("./").removeprefix("../"))
    assert git(place, "config", "remote.origin.url") == url


def test_addresses_for_pushes_are_made_absolute_as_well(place: Path) -> None:
    git(place, "remote", "set-url", "--push", "origin", "../my server.git")
    assert pushed(place, "my server.git")
    assert elsewhere(place, "remote", "get-url", "origin").stdout.strip() == str(place.parent / "server.git")


def test_rules_of_the_user_go_on(place: Path) -> None:
    git(place, "config", "url.../.insteadOf", "beside:")
    git(place, "config", "url.../my .pushInsteadOf", "beside:")
    git(place, "remote", "set-url", "origin", "beside:server.git")
    git(place, "remote", "add", "forge", "https://forge.example/acme/app.git")
    git(place, "config", "url.git@forge.example:.insteadOf", "https://forge.example/")
    elsewhere(place, "fetch", "-q", "origin")
    assert pushed(place, "my server.git")
    assert elsewhere(place, "remote", "get-url", "forge").stdout.strip() == "git@forge.example:acme/app.git"


@pytest.mark.parametrize(
    "url",
    [
        "/srv/app.git",
        "~/app.git",
        "file:///srv/app.git",
        "https://forge.example/app.git",
        "git@forge.example:app.git",
        "ext::sh -c x",
        ".",
    ],
)
def test_other_addresses_are_left_alone(place: Path, url: str) -> None:
    git(place, "remote", "set-url", "origin", url)
    assert absolute_addresses(GitRepository(place)) == {}
    assert variables({}, {}) == {}


def test_variables_that_are_there_stay(place: Path) -> None:
    git(place, "remote", "set-url", "origin", "../server.git")
    mine = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Sam"}
    made = variables(absolute_addresses(GitRepository(place)), mine)
    assert made["GIT_CONFIG_COUNT"] == "2"
    assert "GIT_CONFIG_KEY_0" not in made


def test_an_older_git_is_refused_only_if_an_address_is_relative(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 2.31 git reads no settings from variables."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    program.write_text(
        f'#!/bin/sh\n[ "$1" = version ] && {{ echo git version 2.30.2; exit; }}\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    check_relative(GitRepository(place))
    git(place, "remote", "set-url", "origin", "../server.git")
    with pytest.raises(GitFailed, match=r"'\.\./server\.git', which a worktree"):
        check_relative(GitRepository(place))
