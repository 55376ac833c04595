"""Where the store, the files of runs and the configuration are, in every kind of git repository."""

import json
import os
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from interlock import settings
from interlock.core.commands import Outcome
from interlock.core.errors import InvalidInput
from interlock.worker.rundirectory import Home
from interlock.worker.spool import RunEnd, Spool
from tests.acceptance.command import PROGRAM, Command


def git(directory: Path, *args: str | Path) -> str:
    options = ("user.name=t", "user.email=t@example.org", "protocol.file.allow=always")
    return subprocess.run(
        ["git", *(word for option in options for word in ("-c", option)), *args],
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def made(path: Path) -> Path:
    """A repository with one commit."""
    git(path.parent, "init", "--quiet", path)
    git(path, "commit", "--quiet", "--allow-empty", "--message", "start")
    return path


def places(directory: Path) -> tuple[Path, Path]:
    """The directory that has `.interlock`, and the one of the store."""
    found = settings.load(environ={}, directory=directory)
    assert found.url.endswith("/interlock.db")
    return found.root, found.home


def test_outside_of_git_everything_is_in_one_directory(tmp_path: Path):
    found = settings.load(environ={}, directory=tmp_path)
    assert (found.root, found.home) == (tmp_path, tmp_path / ".interlock")
    assert (found.url, found.former) == ("sqlite:///.interlock/interlock.db", None)


def test_git_clean_leaves_the_store_alone(tmp_path: Path):
    clone = made(tmp_path / "clone")
    il = Command(clone)
    il.ok("add", "a", "--lane", "issue:acme/app#1")
    assert places(clone) == (clone, clone / ".git" / "interlock")
    assert git(clone, "status", "--porcelain") == ""
    done = il("work", "--agent", "coder", "--limit", 1, "--", "sh", "-c", "git clean -fdxq; echo hi")
    assert done.code == 0
    git(clone, "clean", "-fdxq")
    assert not (clone / ".interlock").exists()
    assert il.ok("show", 1)["item"]["status"] == "completed"
    assert (clone / ".git/interlock/logs/run-1.log").read_text() == "hi\n"


def test_all_worktrees_of_a_repository_share_one_store(tmp_path: Path):
    main = made(tmp_path / "main")
    git(main, "worktree", "add", "--quiet", "../other")
    inside = tmp_path / "other" / "deep" / "down"
    inside.mkdir(parents=True)
    assert places(inside) == places(main) == (main, main / ".git" / "interlock")
    Command(inside).ok("add", "a", "--lane", "issue:acme/app#1")
    assert len(Command(main).ok("ls")["items"]) == 1
    for directory in (main, main / ".git", main / ".git" / "hooks", main / ".git" / "worktrees" / "other"):
        assert places(directory)[1] == main / ".git" / "interlock", "also a hook finds it"


def test_worktrees_of_a_bare_repository_share_one_store_with_it(tmp_path: Path):
    seed = made(tmp_path / "seed")
    hub = tmp_path / "hub.git"
    git(tmp_path, "clone", "--quiet", "--bare", seed, hub)
    for name in ("one", "two"):
        git(hub, "worktree", "add", "--quiet", tmp_path / name)
    for directory in (tmp_path / "one", tmp_path / "two", hub, hub / "hooks"):
        assert places(directory) == (hub, hub / "interlock")


def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path):
    part, outer = made(tmp_path / "part"), made(tmp_path / "outer")
    git(outer, "submodule", "--quiet", "add", part, "module")
    home = outer / ".git" / "modules" / "module" / "interlock"
    assert places(outer / "module") == (outer / "module", home)
    assert places(outer)[1] == outer / ".git" / "interlock"
    git(outer / "module", "worktree", "add", "--quiet", tmp_path / "more")
    assert places(tmp_path / "more")[1] == home, "also in its worktrees"


def test_a_git_directory_elsewhere_holds_the_store(tmp_path: Path):
    git(tmp_path, "init", "--quiet", "--separate-git-dir", tmp_path / "elsewhere", tmp_path / "tree")
    assert places(tmp_path / "tree") == (tmp_path / "tree", tmp_path / "elsewhere" / "interlock")
    Command(tmp_path / "tree").ok("add", "a")
    assert (tmp_path / "elsewhere" / "interlock" / "interlock.db").exists()


def test_a_link_to_a_repository_leads_to_its_store(tmp_path: Path):
    clone = made(tmp_path / "clone")
    (tmp_path / "link").symlink_to(clone)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").symlink_to(clone / ".git")
    for directory in (tmp_path / "link", tmp_path / "tree"):
        assert places(directory)[1] == clone / ".git" / "interlock"


def test_a_store_in_a_git_directory_is_used_from_a_directory_above(tmp_path: Path):
    """Taken out: the stop at `.git` in `leading_out`. The refusal advised to remove `.git` as a link."""
    clone = made(tmp_path / "clone")
    Command(clone).ok("add", "a")
    around = made(tmp_path / "around")
    Command(made(around / "clone")).ok("add", "b")
    for directory, titles in ((tmp_path, ["a"]), (around, ["b"])):
        il = Command(directory, url="sqlite:///clone/.git/interlock/interlock.db")
        assert [item["title"] for item in il.ok("ls")["items"]] == titles


@pytest.mark.parametrize("name", ["c# with (spaces)?", "ünïcode%20", "-dash"])
def test_a_repository_with_an_odd_name_has_a_store(tmp_path: Path, name: str):
    clone = made(tmp_path / name)
    il = Command(clone)
    il.ok("add", "a")
    done = il("work", "--agent", "coder", "--limit", 1, "--", *PROGRAM, "add", "from within")
    assert done.code == 0, done
    assert [item["title"] for item in il.ok("ls", "--all")["items"]] == ["a", "from within"]


def test_variables_of_git_do_not_lead_to_another_store(tmp_path: Path):
    """A hook of one repository may start a command in another: what counts is where it stands."""
    clone, other = made(tmp_path / "clone"), made(tmp_path / "other")
    stray = {
        "GIT_DIR": str(other / ".git"),
        "GIT_COMMON_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
    }
    assert Command(clone)("add", "a", env=stray).code == 0
    assert len(Command(clone).ok("ls")["items"]) == 1
    assert not (other / ".git" / "interlock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository away")
def test_a_repository_that_git_refuses_for_its_owner_has_the_same_store(tmp_path: Path):
    clone = made(tmp_path / "clone")
    Command(clone).ok("add", "a")
    for path in (clone, *clone.rglob("*")):
        os.chown(path, 65534, 65534)
    refused = subprocess.run(
        ["git", "status"],
        cwd=clone,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert b"dubious ownership" in refused.stderr
    assert len(Command(clone).ok("ls")["items"]) == 1


@pytest.mark.parametrize("pointer", ["gitdir: ../gone/.git/worktrees/x\n", "what is this", ""])
def test_a_worktree_whose_repository_is_gone_gets_no_store_of_its_own(tmp_path: Path, pointer: str):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(pointer)
    with pytest.raises(InvalidInput, match=r"does not lead to a git repository") as refused:
        settings.load(environ={}, directory=tree)
    assert "INTERLOCK_URL" in refused.value.hint
    assert settings.load(url="sqlite:///x.db", environ={}, directory=tree).root == tree
    assert not (tree / ".interlock").exists()


def test_another_store_is_never_moved(tmp_path: Path):
    clone = made(tmp_path / "clone")
    url = "sqlite:///.interlock/interlock.db"
    il = Command(clone, url=url)
    il.ok("add", "a")
    il.ok("migrate")
    assert len(il.ok("ls")["items"]) == 1
    assert not (clone / ".git" / "interlock").exists()


def test_doctor_says_where_the_store_is(tmp_path: Path):
    clone = made(tmp_path / "clone")
    il = Command(clone)
    il.ok("add", "a")
    found = il.ok("doctor")
    said = next(check["detail"] for check in found["checks"] if check["name"] == "store")
    assert said == f"The store is {clone}/.git/interlock/interlock.db."


def test_ends_that_an_older_version_left_in_its_spool_are_reported(tmp_path: Path):
    """Taken out (`former_spool`, or `stores`): the result stays there for ever."""
    clone = made(tmp_path / "clone")
    il = Command(clone)
    il.ok("add", "a")
    lease = il.claim()
    former = clone / ".interlock" / "spool"
    former.mkdir(parents=True)
    spool = Spool.make(former, "dead-worker")
    store = Home(clone, f"sqlite:///{clone}/.interlock/interlock.db").store
    end = RunEnd(outcome=Outcome.DONE, run=lease["run"], fence=1, item=1, store=store, result='"kept"')
    (spool.path / "run-1.json").write_text(json.dumps(asdict(end)))
    os.close(spool._lock)
    il("work", "--agent", "coder", "--exit-when-idle", "--", "true")
    assert il.ok("show", 1)["runs"][0]["result"] == "kept"
    assert not list(former.iterdir())


def test_a_home_that_was_removed_is_made_again(tmp_path: Path):
    clone = made(tmp_path / "clone")
    il = Command(clone)
    il.ok("add", "a")
    shutil.rmtree(clone / ".git" / "interlock")
    il.ok("add", "b")
    assert [item["title"] for item in il.ok("ls")["items"]] == ["b"]
