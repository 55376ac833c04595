"""Worktrees of runs, without a worker: what becomes of one when its run is over."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from interlock.core.continuity import Lineage
from interlock.core.errors import GitFailed
from interlock.git.plumbing import GitRepository
from interlock.push.fence import FenceStore
from interlock.worker.recovery import Recovery
from interlock.worker.rundirectory import Home, RunFiles, Trace
from interlock.worker.salvage import Salvager
from interlock.worker.worktrees import Workspaces
from tests.git_fixtures import commit, git

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@b.c")


class Named:
    """A store that is asked for its name only: without a lane there is no fence."""

    def lineage(self) -> Lineage:
        return Lineage(store="0123456789ab", ancestors={})


NO_STORE = cast(FenceStore, Named())


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
        path = self.workspaces.open(files, "handle", NO_STORE, lambda _: None).path
        files.note(supervisor=1)  # as if a command had been started
        return files, path


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


def test_what_was_kept_is_told_before_the_worktree_goes_and_again_after_a_crash(scene: Scene) -> None:
    told: list[tuple[int, str]] = []

    def tell(trace: Trace, ref: str) -> None:
        told.append((trace.run, ref))
        assert path.exists()
        if len(told) == 1:
            raise GitFailed("killed", "")

    scene.workspaces = Workspaces(scene.home, kept=tell)
    files, path = scene.run()
    (path / "page").write_text("two\n")
    with pytest.raises(GitFailed, match="killed"):
        scene.workspaces.close(files, succeeded=False)
    assert scene.workspaces.close(files, succeeded=False) is None, "it was kept before"
    assert told == [(1, "refs/interlock/salvage/1")] * 2
    assert not path.exists()


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
    (salvage,) = Salvager(GitRepository(scene.root), scene.root / ".git").waiting_for(
        replace(files.trace, run=2)
    )
    assert str(path) in salvage.sentence


def test_salvage_of_a_dead_worker_names_the_worktree_that_stays(scene: Scene) -> None:
    files, path = scene.run()
    nested(scene, path)
    files.unlock()
    told: list[tuple[int, tuple[str, ...], Path | None]] = []
    recovery = Recovery(
        scene.home,
        scene.workspaces,
        salvaged=lambda trace, kept: told.append((trace.run, kept.left_out, kept.worktree)),
        left=lambda _trace, _text, _path: None,
    )
    recovery.clear()
    recovery.clear()
    assert told == [(1, ("sub/",), path)]
    assert (path / "sub" / "more").exists()


def test_after_the_death_of_a_worker_a_worktree_beside_that_of_its_run_is_named(scene: Scene) -> None:
    files, path = scene.run()
    beside = scene.home.worktrees / "mine"
    scene.git("worktree", "add", "-q", str(beside), at=path)
    files.unlock()
    told: list[tuple[int, str]] = []
    Recovery(
        scene.home,
        scene.workspaces,
        salvaged=lambda _trace, _kept: None,
        left=lambda trace, _text, where: told.append((trace.run, where)),
    ).clear()
    assert told == [(1, str(beside))]
    assert not path.exists()


@pytest.mark.parametrize("committed", [False, True])
def test_a_worktree_that_somebody_deletes_while_it_is_looked_at_is_not_said_to_stay(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """As `git clean -ffdx` in the clone does. What the run has committed is kept all the same."""
    files, path = scene.run()
    (path / "page").write_text("two\n")
    if committed:
        scene.git("commit", "-qam", "two", at=path)
    look = Salvager.commits

    def commits(*args: Any) -> Any:
        shutil.rmtree(path, ignore_errors=True)
        return look(*args)

    monkeypatch.setattr(Salvager, "commits", commits)
    kept = scene.workspaces.close(files, succeeded=False)
    assert [kept is not None, kept and kept.left_out] == ([True, ()] if committed else [False, None])


def test_what_cannot_be_deleted_of_a_worktree_is_named_by_the_next_worker(scene: Scene) -> None:
    rest = scene.home.worktrees / ".gone-x"
    (rest / "worktree").mkdir(parents=True)
    if subprocess.run(["chattr", "+i", rest / "worktree"], check=False, capture_output=True).returncode:
        pytest.skip("this file system cannot make a directory immutable")
    try:
        assert scene.workspaces.forget() == [rest]
    finally:
        subprocess.run(["chattr", "-i", rest / "worktree"], check=True)
    assert scene.workspaces.forget() == []
    assert not rest.exists()


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_worktree_that_was_made_read_only_is_salvaged_and_removed(scene: Scene) -> None:
    files, path = scene.run()
    (path / "new").write_text("work")
    subprocess.run(["chmod", "-R", "a-w", path], check=True)
    kept = scene.workspaces.close(files, succeeded=False)
    assert kept is not None
    assert kept.left_out == ()
    assert list(scene.home.worktrees.iterdir()) == []


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


def test_a_worker_killed_during_the_checkout_hands_nothing_on(scene: Scene) -> None:
    """No command was started: files that are not there yet were removed by nobody."""
    files, path = scene.run()
    files.note(supervisor=None)
    (path / "page").unlink()
    (path / "half").write_text("of a file")
    assert scene.workspaces.close(files, succeeded=False) is None
    assert not path.exists()
    assert scene.git("for-each-ref", "refs/interlock", "refs/heads/interlock") == ""


def test_what_a_hook_of_the_user_makes_is_not_the_work_of_a_run(scene: Scene) -> None:
    hook = scene.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho made > made; mkdir -p dir/void; echo changed > page\n")
    hook.chmod(0o755)
    files, path = scene.run()
    assert (path / "made").exists()
    (path / "own").write_text("work\n")
    kept = scene.workspaces.close(files, succeeded=False)
    assert kept is not None
    assert scene.git("diff", "--name-only", f"{kept.ref}^1", kept.ref) == "own\npage"


def test_work_is_kept_once_by_workers_that_die_before_the_worktree_is_gone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = scene.run()
    (path / "page").write_text("staged\n")
    scene.git("add", "page", at=path)
    (path / "page").write_text("two\n")
    scene.git("stash", "-q", at=path)
    (path / "page").write_text("three\n")
    scene.git("add", "page", at=path)
    (path / "page").write_text("four\n")

    def die(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Workspaces, "_remove", die)
        for _ in range(2):
            with pytest.raises(OSError, match="killed"):
                scene.workspaces.close(files, succeeded=False)
    assert scene.workspaces.close(files, succeeded=False) is None
    assert scene.git("for-each-ref", "--format=%(refname)", "refs/interlock") == "refs/interlock/salvage/1"
    assert not path.exists()


def test_a_worktree_half_removed_by_a_worker_that_died_is_not_work(scene: Scene) -> None:
    """It is out of sight before the first file goes, and a note of its run says so before that."""
    files, path = scene.run()
    (files.path / "removing").touch()
    gone = scene.home.worktrees / ".gone-x"
    gone.mkdir()
    path.rename(gone / path.name)
    (gone / path.name / "page").unlink()
    assert scene.workspaces.close(files, succeeded=False) is None
    scene.workspaces.forget()
    assert list(scene.home.worktrees.iterdir()) == []
    assert scene.git("for-each-ref", "refs/interlock", "refs/heads/interlock") == ""


def test_a_hook_that_refuses_every_ref_does_not_keep_us_from_keeping(scene: Scene, tmp_path: Path) -> None:
    files, path = scene.run()
    (path / "page").write_text("two\n")
    hooks = scene.root / ".interlock" / "hooks"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "reference-transaction").chmod(0o755)
    scene.git("config", "core.hooksPath", str(hooks))
    kept = scene.workspaces.close(files, succeeded=False)
    assert kept is not None
    assert scene.git("show", f"{kept.ref}:page") == "two"


def test_commits_are_kept_while_the_remote_cannot_prove_that_it_has_them(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    remote = tmp_path_factory.mktemp("remote")
    scene.git("init", "-q", "--bare", at=remote)
    scene.git("remote", "add", "origin", str(remote))
    scene.git("push", "-q", "origin", "main")
    kept = {}
    for number, away in ((1, False), (2, True)):
        files, path = scene.run(number)
        scene.git("commit", "-q", "--allow-empty", "-m", f"pushed {number}", at=path)
        scene.git("push", "-q", "origin", f"HEAD:refs/heads/pushed-{number}", at=path)
        if away:
            remote.rename(remote.with_name("away"))
        kept[away] = scene.workspaces.close(files, succeeded=False)
    assert kept[False] is None
    assert kept[True] is not None


def test_worktrees_of_another_directory_are_told_apart_by_their_clones(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    homes = [Home(tmp_path / name, "sqlite:///x", worktrees="../trees") for name in "ab"]
    assert homes[0].worktrees != homes[1].worktrees
    assert {home.worktrees.parent for home in homes} == {tmp_path / "trees"}


def test_git_never_sees_a_worktree_that_is_half_made_or_half_removed(scene: Scene) -> None:
    """A fetch anywhere in the clone fails if it does: fatal: bad object worktrees/run-7/HEAD. With
    `git worktree add` and `remove` this saw some in each of three tries."""
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            with contextlib.suppress(FileNotFoundError):
                for git_dir in (scene.root / ".git" / "worktrees").iterdir():
                    with contextlib.suppress(FileNotFoundError):
                        names = {path.name for path in git_dir.iterdir()}
                        if not {"HEAD", "commondir", "gitdir"} <= names and git_dir.exists():
                            seen.add(f"only {sorted(names)}")
                        elif not (git_dir / "HEAD").read_text().startswith("ref: refs/heads/interlock/"):
                            seen.add((git_dir / "HEAD").read_text())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for number in range(1, 9):
            files, _ = scene.run(number)
            scene.workspaces.close(files, succeeded=False)
    finally:
        over.set()
        watcher.join()
    assert not seen


def make_shallow(root: Path, origin: Path) -> None:
    git(root.parent, "clone", "-q", "--depth", "1", origin.as_uri(), str(root))


def make_apart(root: Path, origin: Path) -> None:
    git(
        root.parent,
        "clone",
        "-q",
        "--separate-git-dir",
        str(root.with_suffix(".git")),
        str(origin),
        str(root),
    )


def make_of_bare(root: Path, origin: Path) -> None:
    bare = root.with_suffix(".git")
    git(root.parent, "clone", "-q", "--bare", str(origin), str(bare))
    git(bare, "worktree", "add", "-q", str(root), "main")


def make_sparse(root: Path, origin: Path) -> None:
    git(root.parent, "clone", "-q", str(origin), str(root))
    git(root, "sparse-checkout", "set", "dir")


def make_modern(root: Path, origin: Path) -> None:
    git(root.parent, "init", "-q", "-b", "main", "--object-format=sha256", str(root))
    for name in ("page", "dir/a", "other/b"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"{name}\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "files")


@pytest.mark.parametrize("make", [make_shallow, make_apart, make_of_bare, make_sparse, make_modern])
def test_work_is_salvaged_in_every_kind_of_clone(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    origin = tmp_path / "origin"
    git(tmp_path, "init", "-q", "-b", "main", str(origin))
    commit(origin, {"page": "one\n", "dir/a": "a\n", "other/b": "b\n"}, "files")
    root = tmp_path / "clone"
    make(root, origin)
    scene = Scene.__new__(Scene)
    scene.root, scene.home = root, Home(root, "sqlite:///x")
    scene.home.make()
    scene.workspaces = Workspaces(scene.home)
    files, path = scene.run()
    assert (path / "other").exists() == (make is not make_sparse)
    (path / "page").write_text("two\n")
    (path / "new").write_text("new\n")
    kept = scene.workspaces.close(files, succeeded=False)
    assert kept is not None
    assert git(root, "diff", "--name-status", f"{kept.ref}^1", kept.ref).split() == ["A", "new", "M", "page"]
    assert not path.exists()
    assert git(root, "fsck", "--connectivity-only", "--no-dangling") == ""


def test_a_repository_with_reftables_is_refused_before_anything_is_claimed(scene: Scene) -> None:
    (scene.root / ".git" / "reftable").mkdir()
    with pytest.raises(GitFailed, match="reftables"):
        scene.workspaces.check()
