"""Commits in a run's worktree name the run, beside whatever hooks the user has, and none is held up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from interlock.worker.rundirectory import RunFiles, Trace
from interlock.worker.worktrees import Workspace
from tests.integration.test_workspace import NO_STORE, Scene, scene  # noqa: F401

LINE = "Interlock-Run: 7@0123456789ab"
Git = Callable[..., subprocess.CompletedProcess[str]]

# ruff: noqa: F811  (fixtures)


@pytest.fixture
def place(scene: Scene) -> Workspace:
    trace = Trace(run=7, item=1, title="x", lane=None, agent="a", worker="w", store=scene.home.store)
    files = RunFiles.make(scene.home, trace)
    return scene.workspaces.open(files, "handle", NO_STORE, pytest.fail)


def asking(environ: Mapping[str, str], at: Path) -> Git:
    """Git as an agent runs it."""
    named = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "A"}
    named |= {"GIT_COMMITTER_EMAIL": "a@b.c", **environ}

    def git(*args: str, cwd: Path = at, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *args],
            cwd=cwd,
            env={**os.environ, **named, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    return git


@pytest.fixture
def git(place: Workspace) -> Git:
    return asking(place.environ, place.path)


def change(place: Workspace, text: str) -> None:
    (place.path / "page").write_text(text)


def message(git: Git, ref: str = "HEAD") -> str:
    return git("log", "-1", "--format=%B", ref).stdout.strip()


def hook(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_each_way_to_commit_names_the_run_once(place: Workspace, git: Git) -> None:
    for n, args in enumerate((("-m", "plain"), ("-m", "loud", "--no-verify"), ("-m", "a", "-m", "b"))):
        change(place, str(n))
        assert git("commit", "-qa", *args).returncode == 0
        assert message(git).endswith(f"\n\n{LINE}")
    assert git("commit", "-q", "--amend", "--no-edit").returncode == 0
    assert message(git).count(LINE) == 1
    change(place, "more")
    trailer = ("--trailer", "Reviewed-by: C <c@d.e>")
    assert git("commit", "-qam", "with others", *trailer).returncode == 0
    assert message(git).endswith(f"Reviewed-by: C <c@d.e>\n{LINE}")
    (place.path / "editor").write_text('#!/bin/sh\necho "from an editor" > "$1"\n')
    (place.path / "editor").chmod(0o755)
    change(place, "edited")
    assert git("commit", "-qav", GIT_EDITOR=str(place.path / "editor")).returncode == 0
    assert message(git) == f"from an editor\n\n{LINE}"


def test_an_empty_message_still_aborts(place: Workspace, git: Git) -> None:
    change(place, "2")
    assert "empty commit message" in git("commit", "-qa", GIT_EDITOR="true").stderr
    assert git("commit", "-qam", "").returncode == 1


@pytest.mark.parametrize("configured", [False, True])
def test_the_users_hooks_run_and_decide(scene: Scene, place: Workspace, git: Git, configured: bool) -> None:
    """In the clone, or where `core.hooksPath` says, as husky sets it: even while the run goes on."""
    hooks = place.path / ".husky" if configured else scene.root / ".git" / "hooks"
    if configured:
        scene.git("config", "core.hooksPath", ".husky")
    hook(hooks / "prepare-commit-msg", 'echo "[prepared]" >> "$1"')
    hook(hooks / "commit-msg", 'grep -q fine "$1"')
    hook(hooks / "post-commit", "touch committed")
    hook(hooks / "pre-commit", "[ ! -e stop ]")
    change(place, "2")
    assert git("commit", "-qam", "bad").returncode == 1
    assert git("commit", "-qam", "fine").returncode == 0
    assert message(git) == f"fine\n[prepared]\n\n{LINE}"
    assert (place.path / "committed").exists()
    (place.path / "stop").touch()
    change(place, "3")
    assert git("commit", "-qam", "fine").returncode == 1


def test_a_hook_that_reads_what_is_pushed_still_does(
    scene: Scene, place: Workspace, git: Git, tmp_path_factory: pytest.TempPathFactory
) -> None:
    remote = tmp_path_factory.mktemp("remote")
    scene.git("init", "-q", "--bare", str(remote))
    hook(scene.root / ".git" / "hooks" / "pre-push", 'cat > pushed; echo "$1" >> pushed')
    assert git("push", "-q", str(remote), "HEAD:refs/heads/x").returncode == 0
    assert "refs/heads/x" in (place.path / "pushed").read_text()


def test_a_rebase_names_nobody_anew_and_other_repositories_are_left_alone(
    scene: Scene, place: Workspace, git: Git, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (scene.root / "other").write_text("1")
    scene.git("checkout", "-qb", "theirs")
    scene.git("add", "other")
    scene.git("commit", "-qm", "theirs")
    scene.git("checkout", "-q", "main")
    change(place, "2")
    git("commit", "-qam", "mine")
    assert git("cherry-pick", "theirs").returncode == 0
    picked = message(git)
    (scene.root / "third").write_text("1")
    scene.git("add", "third")
    scene.git("commit", "-qm", "onwards")
    git("reset", "-q", "--hard", "theirs")
    assert git("rebase", "-q", "main").returncode == 0
    assert message(git) == "theirs"
    assert picked.endswith(LINE), "this one was made by the run"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    git("init", "-q", ".", cwd=elsewhere)
    assert git("commit", "-q", "--allow-empty", "-m", "elsewhere", cwd=elsewhere).returncode == 0
    assert git("log", "-1", "--format=%B", cwd=elsewhere).stdout.strip() == "elsewhere"


def test_what_is_configured_by_variables_stays(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = scene.root.parent / "mine"
    hook(mine / "commit-msg", 'echo "[mine]" >> "$1"')
    for name, value in (("COUNT", "2"), ("KEY_0", "core.hooksPath"), ("VALUE_0", str(mine))):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    monkeypatch.setenv("GIT_CONFIG_KEY_1", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_1", "Zoe")
    trace = Trace(run=7, item=1, title="x", lane=None, agent="a", worker="w", store=scene.home.store)
    place = scene.workspaces.open(RunFiles.make(scene.home, trace), "handle", NO_STORE, lambda _: None)
    git = asking(place.environ, place.path)
    change(place, "2")
    assert git("commit", "-qam", "x").returncode == 0
    assert message(git) == f"x\n\n{LINE}\n[mine]"
    assert git("config", "user.name").stdout == "Zoe\n"


def test_a_trailer_that_cannot_be_written_holds_up_nothing(place: Workspace, git: Git) -> None:
    real, broken = Path(git("--exec-path").stdout.strip()), place.path.parent / "broken"
    hook(broken / "git", f'[ "$1" != interpret-trailers ] || exit 3\nexec {real / "git"} "$@"')
    for each in real.iterdir():
        if each.name != "git":
            (broken / each.name).symlink_to(each)
    change(place, "2")
    done = git("commit", "-qam", "x", GIT_EXEC_PATH=str(broken))
    assert (done.returncode, message(git)) == (0, "x")


def test_a_clone_can_do_without(scene: Scene) -> None:
    scene.git("config", "interlock.trailer", "no")
    trace = Trace(run=7, item=1, title="x", lane=None, agent="a", worker="w", store=scene.home.store)
    place = scene.workspaces.open(RunFiles.make(scene.home, trace), "handle", NO_STORE, pytest.fail)
    assert place.environ == {}
