"""What is mounted into a worktree is not the run's: it is neither kept nor deleted, and the worktree stays.

Each test mounts for real, and is skipped where that is not allowed. Before mount points were looked for, the
user's own files behind them were deleted, and copied into the salvage (tried by hand).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.core.errors import GitFailed
from interlock.worker import mounts
from tests.faults.test_worker_salvage import Clone
from tests.integration.test_workspace import Scene


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """The user's own data, outside of the clone. Whatever is mounted below the test's directory is unmounted
    at the end: else pytest would delete through it."""
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("the user's own\n")
    target = tmp_path / "try"
    target.mkdir()
    tried = subprocess.run(["mount", "--bind", outside, target], check=False, capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"nothing can be mounted here: {tried.stderr.strip()}")
    yield outside
    for name in reversed(mounts.below(tmp_path)):
        subprocess.run(["umount", "--lazy", tmp_path / name], check=True)


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    clone = Clone(tmp_path)
    clone.site.file(".interlock").mkdir()
    yield clone
    clone.site.close()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "root").mkdir()
    return Scene(tmp_path / "root")


def bind(what: Path, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", what, where], check=True)


#: What agents mount, by where.
SCRIPTS = {
    "mnt": 'mkdir mnt; mount --bind "$OUTSIDE" mnt',
    "noise.log/mnt": 'mkdir -p noise.log/mnt; mount --bind "$OUTSIDE" noise.log/mnt',
    "a b/m": "mkdir -p 'a b/m'; mount -t tmpfs none 'a b/m'; cp \"$OUTSIDE/file\" 'a b/m'",
    "page": 'mount --bind "$OUTSIDE/file" page',
    "in/build/m": 'git init -q in; mkdir -p in/build/m; mount --bind "$OUTSIDE" in/build/m',
    ".": 'mount --bind "$PWD" "$PWD"',
}


def test_what_agents_mount_is_neither_kept_nor_deleted(clone: Clone, outside: Path) -> None:
    for n, script in enumerate(SCRIPTS.values()):
        item = clone.site.add(max_attempts=1)
        (outside.parent / f"{item}.sh").write_text(
            f"OUTSIDE='{outside}'; echo mine > mine; {script}; exit {n % 2}"
        )
    agent = f"exec sh {outside.parent}/$INTERLOCK_ITEM.sh"
    worker = clone.site.work(agent, "--worktree", "--exit-when-idle")
    for place in SCRIPTS:
        told = worker.until("stays")
        worktree, named = Path(told["path"]), f"{place} (a mount point)"
        assert named in told["text"]
        assert (outside / "file").read_text() == "the user's own\n"
        assert (worktree / "mine").read_text() == "mine\n"
        (ref,) = clone.refs(f"refs/interlock/*/{told['run']}")
        kept = clone.git("ls-tree", "-r", "--name-only", ref).splitlines()
        assert kept == [".gitignore", *(["mine"] if place != "." else []), "page"]
        assert clone.git("show", f"{ref}:page") == "one"
        document = json.loads(clone.git("log", "-1", "--format=%b", ref).split("\n\n")[0])
        assert named in document["left_out"]
    assert worker.ended() == 0
    assert clone.worktrees() == len(SCRIPTS)


def test_what_is_mounted_after_the_look_keeps_the_worktree(scene: Scene, outside: Path) -> None:
    """A run whose command never started is not looked at. Then only the look before the removal tells."""
    files, path = scene.run()
    files.note(supervisor=None)
    bind(outside, path / "mnt")
    with pytest.raises(GitFailed, match="mnt"):
        scene.workspaces.close(files, succeeded=False)
    assert (outside / "file").read_text() == "the user's own\n"
    assert scene.git("status", "--porcelain", at=path) == "?? mnt/"
    assert [place.name for place in scene.home.worktrees.iterdir()] == [path.name]
    subprocess.run(["umount", path / "mnt"], check=True)
    assert scene.workspaces.close(files, succeeded=False) is None
    assert list(scene.home.worktrees.iterdir()) == []
    assert not (scene.root / ".git" / "worktrees").exists()


def test_what_is_mounted_into_git_s_own_directory_keeps_it(scene: Scene, outside: Path) -> None:
    files, path = scene.run()
    admin = Path(scene.git("rev-parse", "--absolute-git-dir", at=path))
    bind(outside, admin / "mnt")
    kept = scene.workspaces.close(files, succeeded=True)
    assert kept is not None
    assert kept.left_out == (f"{admin}/mnt (a mount point)",)
    assert (outside / "file").read_text() == "the user's own\n"
    assert path.exists()


def test_the_rest_of_a_removal_is_not_deleted_across_a_mount(scene: Scene, outside: Path) -> None:
    scene.home.make_worktrees()
    rest = scene.home.worktrees / ".gone-x"
    bind(outside, rest / "worktree" / "mnt")
    scene.workspaces.forget()
    assert (outside / "file").read_text() == "the user's own\n"
    subprocess.run(["umount", rest / "worktree" / "mnt"], check=True)
    scene.workspaces.forget()
    assert not rest.exists()


def test_the_directory_of_a_run_is_not_deleted_across_a_mount(scene: Scene, outside: Path) -> None:
    files, _ = scene.run()
    bind(outside, files.path / "mnt")
    files.remove()
    assert (outside / "file").read_text() == "the user's own\n"


def test_without_a_table_another_device_tells(tmp_path: Path, outside: Path) -> None:
    around = tmp_path / "around"
    (around / "deep" / "mnt").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", around / "deep" / "mnt"], check=True)
    (around / "deep" / "mnt" / "inner").mkdir()
    assert mounts.by_device(around) == ["deep/mnt"] == mounts.below(around)
    assert mounts.by_device(around / "deep" / "mnt") == ["."]
    assert mounts.by_device(outside) == []
