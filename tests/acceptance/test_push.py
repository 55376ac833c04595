"""`interlock push` as it is typed: answers, every bad input, and the hook of a clone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import Answer, Command
from tests.acceptance.pushing import LANE, il, run, tree
from tests.faults.past import Past
from tests.git_fixtures import (
    bare_repository,
    clone,
    commit,
    git,
    git_identity,
    http_remote,
    log,
    write_hook,
)

__all__ = ["bare_repository", "git_identity", "http_remote", "il", "run", "tree"]


def lose(il: Command) -> str:
    """Item 1 goes to another run; its handle."""
    il.ok("release", "--item", 1, "--reason", "it does not answer")
    return str(il.claim("heir")["run"])


def refused(il: Command, *args: str, code: int = 1, env: dict[str, str] | None = None) -> str:
    """The sentence and the hint of a push that must fail, with nothing changed on the remote."""
    before = git(il.directory.parent / "srv" / "app.git", "for-each-ref")
    answer = il("--json", "push", *args, env=env)
    assert answer.code == code, answer
    assert git(il.directory.parent / "srv" / "app.git", "for-each-ref") == before
    return f"{answer.error['message']} {answer.error['hint']}"


# -- answers


def test_arm_then_push_then_nothing_new(il: Command, run: str, tree: Path, bare_repository: Path) -> None:
    fence = il.ok("push", "--arm", "--run", run)["fence"]
    assert (fence["run"], fence["agent"]) == (1, "coder")
    assert il.ok("push", "--arm", "--run", run)["fence"] == fence
    oid = commit(tree, {"a": "1"}, "mine")
    assert il.ok("push", "--run", run) == {
        "remote": "origin",
        "branch": "main",
        "commit": oid,
        "moved": True,
        "rebased": False,
        "attempts": 1,
        "fenced": True,
    }
    assert log(bare_repository) == ["mine", "first"]
    again = il("push", env={"INTERLOCK_RUN": run})
    assert (again.code, again.out) == (0, f"main of origin has {oid[:12]} already.\n")


def test_without_a_run_a_push_rebases_and_says_that_it_is_not_fenced(
    il: Command, tree: Path, bare_repository: Path, tmp_path: Path
) -> None:
    other = clone(str(bare_repository), tmp_path / "other")
    commit(other, {"b": "1"}, "theirs")
    git(other, "push", "--quiet", "origin", "main")
    commit(tree, {"a": "1"}, "mine")
    answer = il("push", env={"INTERLOCK_RUN": ""})
    assert answer.code == 0, answer.err
    assert "There is no run, so this push is not fenced." in answer.err
    assert "on top of what others pushed" in answer.out
    assert log(bare_repository) == ["mine", "theirs", "first"]
    assert il("--json", "push", env={"INTERLOCK_RUN": ""}).json["fenced"] is False
    assert "refs/interlock" not in git(bare_repository, "for-each-ref")


def test_the_output_for_people(
    il: Command, run: str, tree: Path, bare_repository: Path, tmp_path: Path
) -> None:
    assert il("push", "--arm", "--run", run).out.startswith(
        "Run 1 has armed refs/interlock/fence/issue-acme-"
    )
    other = clone(str(bare_repository), tmp_path / "other")
    commit(other, {"b": "1"}, "theirs")
    git(other, "push", "--quiet", "origin", "main")
    commit(tree, {"a": "1"}, "mine")
    answer = il("push", "--run", run)
    oid = git(tree, "rev-parse", "HEAD")
    assert answer.out == f"Pushed {oid[:12]} to main of origin, on top of what others pushed.\n"
    assert answer.err == ""


def test_the_store_refuses_a_run_that_lost_its_lane_before_git_does(
    il: Command, run: str, tree: Path, bare_repository: Path
) -> None:
    lose(il)
    commit(tree, {"a": "1"}, "mine")
    assert "Run 1 of coder ended as released" in refused(il, "--run", run, code=5)
    assert "Run 1 of coder ended as released" in refused(il, "--arm", "--run", run, code=5)
    assert log(bare_repository) == ["first"]


def test_a_detached_head_and_other_branches(il: Command, run: str, tree: Path, bare_repository: Path) -> None:
    git(tree, "switch", "--quiet", "--detach")
    commit(tree, {"a": "1"}, "detached")
    for named in ((), ("origin", "HEAD"), ("origin", "@")):
        assert "HEAD is detached" in refused(il, "--run", run, *named, code=2)
    assert il.ok("push", "--run", run, "origin", "main")["moved"]
    git(tree, "switch", "--quiet", "-c", "topic")
    commit(tree, {"a": "2"}, "on topic")
    assert "'topic' is checked out, not 'main'." in refused(il, "--run", run, "origin", "main", code=2)
    assert il.ok("push", "--run", run)["branch"] == "topic"
    assert il.ok("push", "--run", run, "origin", "HEAD")["branch"] == "topic"
    assert il.ok("push", "--run", run, "origin", "HEAD:main")["branch"] == "main"
    assert log(bare_repository) == ["on topic", "detached", "first"]


@pytest.mark.parametrize(
    "branch",
    ["", "HEAD:", "HEAD:HEAD", "HEAD:@", "HEAD:refs/tags/v1", "refs/interlock/owner/x", "+main", "a:b"],
)
def test_arguments_that_name_no_branch_push_nothing(
    il: Command, run: str, tree: Path, bare_repository: Path, branch: str
) -> None:
    commit(tree, {"a": "1"}, "mine")
    before = git(bare_repository, "for-each-ref")
    refused(il, "--run", run, "origin", branch, code=2)
    assert git(bare_repository, "for-each-ref") == before


def test_it_pushes_where_git_push_would(
    il: Command, run: str, tree: Path, bare_repository: Path, tmp_path: Path
) -> None:
    fork = tmp_path / "fork.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(bare_repository), str(fork))
    commit(tree, {"a": "1"}, "mine")
    git(tree, "remote", "add", "fork", str(fork))
    git(tree, "config", "remote.pushDefault", "fork")
    assert il.ok("push", "--run", run)["remote"] == "fork"
    commit(tree, {"a": "2"}, "by another address")
    git(tree, "config", "--unset", "remote.pushDefault")
    git(tree, "config", "remote.origin.pushurl", str(fork))
    assert il.ok("push", "--run", run)["moved"]
    assert log(fork) == ["by another address", "mine", "first"]
    assert log(bare_repository) == ["first"]
    git(tree, "config", "--add", "remote.origin.pushurl", str(bare_repository))
    assert "pushes to 2 addresses" in refused(il, "--run", run, code=2)


def test_a_push_for_an_item_without_a_lane_warns(il: Command, tree: Path, bare_repository: Path) -> None:
    il.ok("add", "no lane")
    run = il.claim()["run"]
    commit(tree, {"a": "1"}, "mine")
    answer = il("push", "--run", run)
    assert answer.code == 0
    assert answer.err == "Item 1 has no lane, so this push is not fenced.\n"
    assert git(bare_repository, "for-each-ref", "refs/interlock") == ""


# -- bad input


def test_a_dirty_or_half_rebased_tree_is_refused_before_anything_is_pushed(
    il: Command, run: str, tree: Path, bare_repository: Path
) -> None:
    commit(tree, {"a": "1"}, "mine")
    (tree / "README").write_text("changed\n")
    said = refused(il, "--run", run)
    assert said.startswith("There are uncommitted changes: README. Commit them")
    git(tree, "checkout", "--quiet", "README")
    git(tree, "switch", "--quiet", "-c", "side", "HEAD~1")
    commit(tree, {"a": "2"}, "clash")
    git(tree, "rebase", "main", check=False)
    assert "A rebase is in progress here." in refused(il, "--run", run, "origin", "main")
    git(tree, "rebase", "--abort")
    git(tree, "merge", "--quiet", "main", check=False)
    assert "git merge --abort" in refused(il, "--run", run)


def test_a_run_of_a_lost_past_pushes_nothing_though_its_number_is_given_out_again(
    il: Command, tree: Path, bare_repository: Path, tmp_path: Path
) -> None:
    """As after a failover that lost commits, or a dump loaded over the tables."""
    il.ok("add", "fix it", "--lane", LANE)
    past = Past(f"sqlite://{tmp_path}/lanes.db")
    zombie = str(il.claim("zombie")["run"])
    past.come_back()
    heir = str(il.claim("heir")["run"])
    assert zombie.rpartition(".")[0] == heir.rpartition(".")[0]
    oid = commit(tree, {"a": "1"}, "mine")
    for arming in ([], ["--arm"]):
        assert "no run 1 with this handle" in refused(il, *arming, "--run", zombie, code=5)
    assert il.ok("push", "--run", heir)["commit"] == oid
    # With the store away the fence in git decides alone: it has a hash of the heir's handle.
    commit(tree, {"a": "2"}, "more")
    away = {"INTERLOCK_LANE": LANE, "INTERLOCK_AGENT": "zombie"}
    away |= {"INTERLOCK_URL": "postgresql://127.0.0.1:1/none", "INTERLOCK_BUSY_TIMEOUT_S": "0.1"}
    assert "Run 1 of heir armed" in refused(il, "--run", zombie, code=5, env=away)
    assert zombie.rpartition(".")[2] not in git(bare_repository, "log", "--all", "--format=%B")
    assert heir.rpartition(".")[2] not in git(bare_repository, "log", "--all", "--format=%B")


def test_unknown_remotes_branches_and_runs_are_refused(il: Command, run: str, tree: Path) -> None:
    commit(tree, {"a": "1"}, "mine")
    assert "There is no remote 'upstream'." in refused(il, "--run", run, "upstream")
    git(tree, "remote", "add", "moved", "/nowhere/shop.git")
    assert "There is no repository at the remote 'moved': /nowhere/shop.git." in refused(
        il, "--run", run, "moved"
    )
    assert "is not a remote" in refused(il, "--run", run, "a\nb", code=2)
    assert "cannot be the name of a branch" in refused(il, "--run", run, "origin", "a..b", code=2)
    assert "is not a handle" in refused(il, "--run", "seven", code=2)
    assert "no run 1 with this handle" in refused(il, "--run", "1.1.0123456789abcdef", code=5)
    assert "--run is missing." in refused(il, "--arm", code=2)
    assert "exclude each other" in refused(il, "--arm", "--install-hook", code=2)


def test_repositories_that_cannot_push_are_refused(il: Command, run: str, tree: Path, tmp_path: Path) -> None:
    git(tree, "remote", "remove", "origin")
    assert "This repository has no remote to push to." in refused(il, "--run", run)
    empty = tmp_path / "empty"
    empty.mkdir()
    il.directory = empty
    assert "This is not a git repository." in refused(il, "--run", run)
    git(empty, "init", "--quiet", "--initial-branch=main")
    git(empty, "remote", "add", "origin", str(tmp_path / "srv" / "app.git"))
    assert "There is no commit yet." in refused(il, "--run", run)
    il.directory = tmp_path / "srv" / "app.git"
    assert "has no working tree" in il("--json", "push", "--run", run).error["message"]


def test_a_machine_without_git(il: Command, run: str, tmp_path: Path) -> None:
    assert "git is not installed" in refused(il, "--run", run, env={"PATH": str(tmp_path)})


def test_servers_that_refuse_the_push_are_explained(
    il: Command, run: str, tree: Path, bare_repository: Path
) -> None:
    commit(tree, {"a": "1"}, "mine")
    git(bare_repository, "config", "receive.advertiseAtomic", "false")
    assert "cannot move two refs in one push" in refused(il, "--run", run)
    git(bare_repository, "config", "--unset", "receive.advertiseAtomic")
    git(bare_repository, "config", "receive.hideRefs", "refs/interlock")
    assert "hides refs/interlock/fence/" in refused(il, "--run", run)
    assert "refs/interlock/fence/" in refused(il, "--arm", "--run", run)
    git(bare_repository, "config", "--unset", "receive.hideRefs")
    write_hook(bare_repository, "pre-receive", "#!/bin/sh\necho not on Sundays >&2\nexit 1\n")
    assert "pre-receive hook declined: not on Sundays" in refused(il, "--run", run)


def test_a_server_that_only_lets_us_read(
    il: Command, run: str, tree: Path, bare_repository: Path, http_remote: str
) -> None:
    commit(tree, {"a": "1"}, "mine")
    git(bare_repository, "config", "http.receivepack", "false")
    said = refused(il, "--run", run, http_remote.replace("//", "//me:secret@"), "main")
    assert "You may not push" in said
    assert "secret" not in said


def test_a_remote_that_cannot_be_reached(il: Command, run: str, tree: Path) -> None:
    commit(tree, {"a": "1"}, "mine")
    assert "cannot be read" in refused(il, "--run", run, "http://127.0.0.1:9/app.git", "main")


def test_a_store_that_is_gone_needs_the_lane_from_the_environment(il: Command, run: str, tree: Path) -> None:
    commit(tree, {"a": "1"}, "mine")
    gone = {
        "INTERLOCK_URL": "postgresql://nobody@127.0.0.1:9/none?connect_timeout=2",
        "INTERLOCK_BUSY_TIMEOUT_S": "1",
    }
    assert "Set INTERLOCK_LANE" in refused(il, "--run", run, env=gone)


# -- the hook


def plain_push(tree: Path, il: Command, run: str | None = None) -> subprocess.CompletedProcess[str]:
    """`git push` as an agent under this run would type it."""
    return subprocess.run(
        ["git", "push", "origin", "HEAD"],
        cwd=tree,
        env=il.environment({"INTERLOCK_RUN": run} if run else None),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_hook_refuses_a_plain_push_after_the_lease_was_lost(
    il: Command, run: str, tree: Path, bare_repository: Path
) -> None:
    hook = Path(il.ok("push", "--install-hook")["hook"])
    assert hook == tree / ".git" / "hooks" / "pre-push"
    commit(tree, {"a": "1"}, "alive")
    assert plain_push(tree, il, run).returncode == 0
    heir = lose(il)
    commit(tree, {"a": "2"}, "dead")
    answer = plain_push(tree, il, run)
    assert answer.returncode != 0
    assert "Run 1 of coder ended as released" in answer.stderr
    assert log(bare_repository) == ["alive", "first"]
    assert il.ok("push", "--run", heir)["moved"], "the fenced push passes"
    commit(tree, {"a": "3"}, "by a person")
    assert plain_push(tree, il).returncode == 0
    assert log(bare_repository)[0] == "by a person"


def test_the_hook_checks_the_fence_if_the_store_is_gone(
    il: Command, run: str, tree: Path, bare_repository: Path
) -> None:
    il.ok("push", "--install-hook")
    il.ok("push", "--arm", "--run", lose(il))
    il.url = "postgresql://nobody@127.0.0.1:9/none?connect_timeout=2"
    il.env |= {"INTERLOCK_LANE": LANE, "INTERLOCK_BUSY_TIMEOUT_S": "1"}
    commit(tree, {"a": "1"}, "dead")
    answer = plain_push(tree, il, run)
    assert answer.returncode != 0
    assert "Run 2 of heir armed" in answer.stderr
    assert log(bare_repository) == ["first"]


def test_an_existing_hook_is_kept_and_restored(il: Command, run: str, tree: Path, tmp_path: Path) -> None:
    hook = tree / ".git" / "hooks" / "pre-push"
    script = f'#!/bin/sh\necho "$1" >> {tmp_path}/ran\ncat >> {tmp_path}/ran\n'
    hook.write_text(script)
    hook.chmod(0o755)
    for _ in range(3):
        il.ok("push", "--install-hook")
    oid = commit(tree, {"a": "1"}, "mine")
    il.ok("push", "--run", run)
    ran = (tmp_path / "ran").read_text().splitlines()
    assert ran[0] == "origin"
    assert any(line.startswith("refs/heads/") or oid in line for line in ran)
    hook.with_name("pre-push.before-interlock").write_text("#!/bin/sh\nexit 7\n")
    commit(tree, {"a": "2"}, "more")
    assert "A hook refused the push" in refused(il, "--run", run)
    assert plain_push(tree, il).returncode != 0
    hook.with_name("pre-push.before-interlock").write_text(script)
    ours = hook.read_text()
    hook.write_text("#!/bin/sh\n# of another tool\n")
    assert "is another hook" in refused(il, "--install-hook")
    hook.write_text(ours)
    assert il.ok("push", "--uninstall-hook") == {"hook": str(hook), "installed": False}
    assert hook.read_text() == script
    assert il.ok("push", "--uninstall-hook") == {"hook": None, "installed": False}


def test_the_hook_goes_where_git_looks_for_it(il: Command, tree: Path, tmp_path: Path) -> None:
    worktree = tmp_path / "worktree"
    git(tree, "worktree", "add", "--quiet", "--detach", str(worktree))
    (worktree / "deep").mkdir()
    il.directory = worktree / "deep"
    assert il.ok("push", "--install-hook")["hook"] == str(tree / ".git" / "hooks" / "pre-push")
    git(tree, "config", "core.hooksPath", ".hooks")
    assert il.ok("push", "--install-hook")["hook"] == str(worktree / ".hooks" / "pre-push")
    assert os.access(worktree / ".hooks" / "pre-push", os.X_OK)


def test_a_hook_that_belongs_to_the_repository_is_not_replaced(il: Command, tree: Path) -> None:
    git(tree, "config", "core.hooksPath", ".hooks")
    commit(tree, {".hooks/pre-push": "#!/bin/sh\n"}, "our hooks")
    said = refused(il, "--install-hook")
    assert "belongs to the repository" in said
    assert f"{sys.executable} -P -m interlock push --pre-push" in said
    assert git(tree, "status", "--porcelain") == ""


def test_the_hook_checks_only_pushes_that_are_not_fenced(il: Command, run: str, tree: Path) -> None:
    def check(*refs: str) -> Answer:
        lines = "".join(f"HEAD {'1' * 40} {ref} {'2' * 40}\n" for ref in refs)
        return il("push", "--pre-push", "origin", stdin=lines, env={"INTERLOCK_RUN": run})

    assert check("refs/heads/main").code == 0
    lose(il)
    assert check("refs/heads/main").code == 5
    assert check("refs/heads/main", "refs/tags/v1").code == 5
    assert check("refs/interlock/salvage/1").code == 0
    assert check("refs/heads/main", "refs/interlock/fence/x-1").code == 0
    assert check().code == 0
