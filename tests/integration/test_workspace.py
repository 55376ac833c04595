"""Worktrees of runs, without a worker: what becomes of one when its run is over."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.git.plumbing import Repository
from interlock.worker.recovery import Recovery
from interlock.worker.rundirectory import Home, RunFiles, Trace
from interlock.worker.salvage import Salvager
from interlock.worker.worktrees import Workspaces

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@b.c")


class Scene:
    """A repository with a commit, in which runs get worktrees."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main")
        (root / "page").write_text("one\n")
        (root / ".gitignore").write_text(".interlock\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "a page")
        self.home = Home(root, "sqlite:///x")
        self.home.make()
        self.workspaces = Workspaces(self.home)

    def git(self, *args: str, at: Path | None = None) -> str:
        command = ["git", *IDENTITY, *args]
        done = subprocess.run(command, cwd=at or self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def run(self, number: int = 1, store: str | None = None) -> tuple[RunFiles, Path]:
        files = RunFiles.make(
            self.home,
            Trace(
                run=number,
                item=1,
                title="x",
                lane=None,
                agent="a",
                worker="w",
                store=store or self.home.store,
            ),
        )
        return files, self.workspaces.open(files, "handle", lambda _: None).path


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def nested(scene: Scene, worktree: Path) -> None:
    """A repository inside of it, with a commit and with changes."""
    scene.git("init", "-q", "sub", at=worktree)
    (worktree / "sub" / "made").write_text("work\n")
    scene.git("add", ".", at=worktree / "sub")
    scene.git("commit", "-q", "-m", "made", at=worktree / "sub")
    (worktree / "sub" / "more").write_text("more work\n")


@pytest.mark.parametrize("succeeded", [False, True])
def test_a_worktree_with_a_repository_inside_stays(scene: Scene, succeeded: bool) -> None:
    files, path = scene.run()
    nested(scene, path)
    (path / "page").write_text("two\n")
    kept = scene.workspaces.close(files, succeeded=succeeded)
    assert kept is not None
    assert (kept.left_out, kept.rest) == (("sub/",), "sub/")
    assert scene.git("show", f"{kept.ref}:page") == "two"
    assert (path / "sub" / "more").read_text() == "more work\n"
    assert scene.git("log", "--format=%s", at=path / "sub") == "made"
    document = json.loads(scene.git("log", "-1", "--format=%b", kept.ref).split("\n\n")[0])
    assert document["worktree"] == str(path)


def test_a_change_within_the_second_of_the_checkout_is_salvaged(scene: Scene) -> None:
    """As long as before, so that git must compare the contents. With an index copied without its time the
    salvage had the old contents."""
    for number in range(1, 100):
        files, path = scene.run(number)
        (path / "page").write_text("two\n")
        index = path / scene.git("rev-parse", "--git-path", "index", at=path)
        second = int((path / "page").stat().st_ctime)
        if int(index.stat().st_mtime) == second:
            break
    else:
        pytest.fail("a checkout takes more than a second here")
    while int(time.time()) == second:
        time.sleep(0.01)
    kept = scene.workspaces.close(files, succeeded=False)
    assert kept is not None
    assert scene.git("show", f"{kept.ref}:page") == "two"


def test_a_worktree_that_stays_is_salvaged_only_once(scene: Scene) -> None:
    """Its worker may have been stopped while another took the lane over and cleared up."""
    files, path = scene.run()
    nested(scene, path)
    assert scene.workspaces.close(files, succeeded=False) is not None
    assert scene.workspaces.close(files, succeeded=False) is None
    files.remove()
    assert scene.workspaces.close(files, succeeded=False) is None
    assert (path / "sub" / "more").exists()
    (salvage,) = Salvager(Repository(scene.root)).waiting_for(replace(files.trace, run=2))
    assert str(path) in salvage.sentence


def test_salvage_of_a_dead_worker_names_the_worktree_that_stays(scene: Scene) -> None:
    files, path = scene.run()
    nested(scene, path)
    files.let_go()
    told: list[tuple[int, tuple[str, ...], Path]] = []
    recovery = Recovery(
        scene.home, scene.workspaces, lambda trace, kept, at: told.append((trace.run, kept.left_out, at))
    )
    recovery.clear()
    recovery.clear()
    assert told == [(1, ("sub/",), path)]
    assert (path / "sub" / "more").exists()


def test_a_run_of_this_number_in_another_store_gets_a_worktree_beside_it(scene: Scene) -> None:
    files, path = scene.run()
    nested(scene, path)
    scene.workspaces.close(files, succeeded=False)
    files.remove()
    _, other = scene.run(store="other")
    assert other != path


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_worktree_with_a_file_that_cannot_be_read_stays(scene: Scene) -> None:
    files, path = scene.run()
    (path / "shut").write_text("work")
    (path / "shut").chmod(0)
    (path / "open").write_text("work")
    kept = scene.workspaces.close(files, succeeded=False)
    assert kept is not None
    assert kept.left_out == ("shut",)
    assert (path / "shut").exists()


def test_a_submodule_that_was_worked_in_is_not_thrown_away(scene: Scene, tmp_path_factory) -> None:
    library = tmp_path_factory.mktemp("library")
    scene.git("init", "-q", "-b", "main", at=library)
    scene.git("commit", "-q", "--allow-empty", "-m", "empty", at=library)
    allowed = ("-c", "protocol.file.allow=always", "submodule", "--quiet")
    scene.git(*allowed, "add", str(library), "lib")
    scene.git("commit", "-q", "-m", "a library")
    files, path = scene.run()
    scene.git(*allowed, "update", "--init", at=path)
    (path / "lib" / "made").write_text("work")
    kept = scene.workspaces.close(files, succeeded=False)
    assert kept is not None
    assert kept.left_out == ("lib",)
    assert (path / "lib" / "made").exists()


def test_a_worktree_that_was_salvaged_completely_is_removed(scene: Scene) -> None:
    files, path = scene.run()
    (path / "page").write_text("two\n")
    kept = scene.workspaces.close(files, succeeded=False)
    assert kept is not None
    assert kept.left_out == ()
    assert not path.exists()
