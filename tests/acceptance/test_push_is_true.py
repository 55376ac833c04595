"""`interlock push` tells the truth, whatever git is configured to do, and waits for no person."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from interlock.push.fence import fence_ref
from tests.acceptance.command import PROGRAM, Command
from tests.acceptance.pushing import LANE, il, run, tree
from tests.git_fixtures import (
    BRANCH,
    bare_repository,
    clone,
    commit,
    git,
    git_identity,
    http_remote,
    log,
    make_bare,
    write_hook,
)

__all__ = ["bare_repository", "git_identity", "http_remote", "il", "run", "tree"]


def refused(il: Command, *args: str, env: dict[str, str] | None = None) -> str:
    answer = il("--json", "push", *args, env=env)
    assert answer.code == 1, answer
    error = answer.error
    return f"{error['message']} {error['hint']}"


#: A user's configuration in which everything that touches a push is set otherwise.
HOSTILE = """
[push]
    default = nothing
    recurseSubmodules = only
    gpgSign = true
    followTags = true
    autoSetupRemote = true
    useForceIfIncludes = true
    negotiate = true
    pushOption = ci.skip
[submodule]
    recurse = true
[remote "origin"]
    push = refs/heads/elsewhere:refs/heads/elsewhere
    mirror = true
[fetch]
    prune = true
    pruneTags = true
    recurseSubmodules = true
    writeCommitGraph = true
[remote]
    pushDefault = origin
[commit]
    gpgSign = true
[tag]
    gpgSign = true
[user]
    signingKey = nobody
[gpg]
    program = false
[color]
    ui = always
    push = always
    transport = always
    advice = always
[rebase]
    autoStash = true
    autoSquash = true
    updateRefs = true
    backend = apply
[log]
    showSignature = true
[status]
    showUntrackedFiles = all
    short = true
[diff]
    noprefix = true
    ignoreSubmodules = none
[i18n]
    commitEncoding = ISO-8859-1
    logOutputEncoding = ISO-8859-1
"""


def _hostile(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "hostile"
    path.write_text(HOSTILE)
    return {"GIT_CONFIG_GLOBAL": str(path)}


def _with_submodule(tree: Path, tmp_path: Path) -> Path:
    """A submodule in the tree, whose commit is on its own remote."""
    library = make_bare(tmp_path / "srv" / "library.git")
    first = clone(str(library), tmp_path / "library")
    git(first, "switch", "--quiet", "-c", BRANCH)
    commit(first, {"lib": "1"}, "library")
    git(first, "push", "--quiet", "origin", BRANCH)
    git(tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    return tree / "lib"


def test_the_users_configuration_plays_no_part(
    il: Command, run: str, tree: Path, tmp_path: Path, bare_repository: Path
) -> None:
    """`push.recurseSubmodules=only` made git report success while the branch stayed where it was."""
    git(bare_repository, "config", "receive.advertisePushOptions", "true")
    _with_submodule(tree, tmp_path)
    head = commit(tree, {"a": "1"}, "mine")
    git(tree, "tag", "-a", "v1", "-m", "not to be pushed")
    answer = il("--json", "push", "--run", run, env=_hostile(tmp_path))
    assert answer.code == 0, answer
    assert (answer.json["moved"], answer.json["commit"]) == (True, head)
    assert git(bare_repository, "for-each-ref", "--format=%(refname)").splitlines() == [
        f"refs/heads/{BRANCH}",
        fence_ref(LANE),
    ]
    assert git(bare_repository, "rev-parse", BRANCH) == head


def test_a_hold_in_git_needs_nothing_of_the_users_configuration(
    tree: Path, tmp_path: Path, http_remote: str
) -> None:
    """Over HTTP, because a server that is a directory reads the same configuration."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "pre-push", "commit-msg"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    env = _hostile(tmp_path)
    Path(env["GIT_CONFIG_GLOBAL"]).write_text(f"{HOSTILE}[core]\n    hooksPath = {hooks}\n")
    il = Command(tree, url=f"git+{http_remote}", env=env)
    assert il("hold", LANE, "--", "true").code == 0
    assert il("lanes").code == 0


def test_lanes_fence_and_branch_are_read_where_they_are_written(
    il: Command, run: str, tree: Path, tmp_path: Path, bare_repository: Path
) -> None:
    """Taken out: `push_address`; then the fence is made in one repository and looked for in the other."""
    other = make_bare(tmp_path / "srv" / "other.git")
    git(tree, "push", "--quiet", str(other), BRANCH)
    config = tmp_path / "elsewhere"
    sections = [
        f'[url "{other}"]\n    pushInsteadOf = {bare_repository}\n',
        f'[url "{other.as_uri()}"]\n    pushInsteadOf = {bare_repository.as_uri()}\n',
    ]
    config.write_text("".join(sections))
    env = {"GIT_CONFIG_GLOBAL": str(config)}
    head = commit(tree, {"a": "1"}, "mine")
    answer = il("push", str(bare_repository), f"HEAD:{BRANCH}", "--run", run, env=env)
    assert (answer.code, git(other, "rev-parse", BRANCH)) == (0, head), answer
    assert str(other) in answer.out, "the answer names where it went"
    lanes = Command(tree, url=f"git+{bare_repository.as_uri()}", env=env)
    assert lanes("hold", "deploy:x", "--", "true").code == 0
    assert "refs/interlock/owner/deploy-x" in git(other, "for-each-ref")
    assert "interlock" not in git(bare_repository, "for-each-ref")


def test_a_submodule_commit_that_is_nowhere_is_named_if_the_user_wants_it(
    il: Command, run: str, tree: Path, tmp_path: Path, bare_repository: Path
) -> None:
    commit(_with_submodule(tree, tmp_path), {"lib": "2"}, "not pushed")
    git(tree, "add", "lib")
    commit(tree, {}, "mine")
    assert "the submodules lib are on no remote" in refused(il, "--run", run, env=_hostile(tmp_path))
    assert log(bare_repository) == ["first"]


def test_exit_0_only_if_the_remotes_branch_has_the_commit(
    il: Command, run: str, tree: Path, tmp_path: Path, bare_repository: Path
) -> None:
    """A server whose hook takes the branch back at once: git itself reports success."""
    write_hook(
        bare_repository, "post-receive", f"#!/bin/sh\ngit update-ref refs/heads/{BRANCH} {BRANCH}~1 || true\n"
    )
    commit(tree, {"a": "1"}, "mine")
    assert f"git reports a push, but {BRANCH} of 'origin' does not have" in refused(il, "--run", run)


# -- forced pushes


def _removed_by_others(bare: Path, tmp_path: Path, tree: Path) -> str:
    """Others push a commit, we fetch it, they take it back by force and go on; the commit."""
    other = clone(str(bare), tmp_path / "other")
    removed = commit(other, {"secret": "password"}, "a secret")
    git(other, "push", "--quiet", "origin", BRANCH)
    git(tree, "pull", "--quiet", "--ff-only", "origin", BRANCH)
    git(other, "reset", "--quiet", "--hard", "HEAD~1")
    commit(other, {"b": "1"}, "without the secret")
    git(other, "push", "--quiet", "--force", "origin", BRANCH)
    return removed


@pytest.mark.parametrize("fetched", [False, True], ids=["not fetched since", "fetched since"])
def test_what_others_removed_by_force_is_not_brought_back(
    il: Command, run: str, tree: Path, tmp_path: Path, bare_repository: Path, fetched: bool
) -> None:
    removed = _removed_by_others(bare_repository, tmp_path, tree)
    head = commit(tree, {"a": "1"}, "mine")
    if fetched:
        git(tree, "fetch", "--quiet", "origin")
    said = refused(il, "--run", run)
    assert f"Others removed {removed[:12]} from {BRANCH} (a forced push)" in said
    assert git(tree, "rev-parse", "HEAD") == head, "the clone is as it was"
    assert log(bare_repository) == ["without the secret", "first"]
    git(tree, "fetch", "--quiet", "origin", BRANCH)  # what the hint says
    git(tree, "rebase", "--quiet", "--onto", "FETCH_HEAD", removed)
    assert il("push", "--run", run).code == 0
    assert log(bare_repository) == ["mine", "without the secret", "first"]


def test_a_branch_that_others_set_back_is_not_moved_forward_again(
    il: Command, run: str, tree: Path, bare_repository: Path
) -> None:
    """Our own commit, pushed and taken back: the next push is a fast-forward, and would bring it back."""
    removed = commit(tree, {"a": "1"}, "mine, a mistake")
    assert il("push", "--run", run).code == 0
    git(bare_repository, "update-ref", f"refs/heads/{BRANCH}", f"{BRANCH}~1")
    commit(tree, {"a": "2"}, "mine")
    assert f"Others removed {removed[:12]}" in refused(il, "--run", run)
    assert log(bare_repository) == ["first"]


def test_a_worktree_does_not_bring_back_what_it_began_with(
    il: Command, tree: Path, tmp_path: Path, bare_repository: Path
) -> None:
    """`work --worktree` fetches without a tracking branch; the branch of the worktree knows its beginning."""
    other = clone(str(bare_repository), tmp_path / "other")
    commit(other, {"secret": "password"}, "a secret")
    git(other, "push", "--quiet", "origin", BRANCH)
    script = (
        "git commit -q --allow-empty -m mine"
        f" && git -C {bare_repository} update-ref refs/heads/{BRANCH} {BRANCH}~1"
        f" && {' '.join(PROGRAM)} push origin HEAD:{BRANCH} 2> {tmp_path / 'said'}"
    )
    il.ok("add", "work", "--lane", LANE, "--max-attempts", 1)
    work = ("work", "--agent", "coder", "--worktree", "--limit", 1, "--", "sh", "-c", script)
    il(*work)
    assert "Others removed" in (tmp_path / "said").read_text()
    assert log(bare_repository) == ["first"]


# -- nobody at the keyboard


class _Locked(BaseHTTPRequestHandler):
    """A server that wants a password for everything."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Tests have no use for a request log."""


@pytest.fixture
def locked() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Locked)
    server.daemon_threads = True
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/app.git"
    server.shutdown()
    server.server_close()


def _program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.slow
def test_an_askpass_program_that_waits_for_a_person_is_ended(
    il: Command, run: str, tmp_path: Path, locked: str
) -> None:
    """Taken out: `prompts._limited`; then the command waits as long as the askpass program."""
    asked = tmp_path / "asked"
    asks = _program(tmp_path / "window", f"echo $$ >> {asked}\nsleep 600 & wait")
    said = refused(il, locked, BRANCH, "--run", run, env={"GIT_ASKPASS": asks})
    assert "cannot be read" in said
    assert asked.exists()
    forced = {"SSH_ASKPASS": asks, "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
    asked.unlink()
    assert "cannot be read" in refused(il, locked, BRANCH, "--run", run, env=forced)
    assert not asked.exists()


def test_an_askpass_script_with_the_password_is_used(
    il: Command, run: str, tmp_path: Path, locked: str
) -> None:
    asked = tmp_path / "asked"
    asks = _program(tmp_path / "script", f'echo "$1" >> {asked}; echo token')
    refused(il, locked, BRANCH, "--run", run, env={"GIT_ASKPASS": asks})
    assert [line.split()[0] for line in asked.read_text().splitlines()[:2]] == ["Username", "Password"]


@pytest.mark.parametrize("own", ["", "ssh -i key"], ids=["git's own ssh", "the user's ssh command"])
def test_ssh_never_asks_a_person(il: Command, run: str, tree: Path, tmp_path: Path, own: str) -> None:
    """The program stands for ssh: without BatchMode it waits for a password."""
    said = tmp_path / "said"
    programs = tmp_path / "programs"
    programs.mkdir()
    _program(
        programs / "ssh", f'echo "$@" >> {said}\ncase "$*" in *BatchMode=yes*) exit 255;; esac\nsleep 600'
    )
    if own:
        git(tree, "config", "core.sshCommand", own)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    assert "cannot be read" in refused(il, "git@example.org:x.git", BRANCH, "--run", run, env={"PATH": path})
    assert said.read_text().startswith("-i key -oBatchMode=yes" if own else "-oBatchMode=yes")


def test_a_program_of_the_users_own_instead_of_ssh_gets_no_option_of_ours(
    il: Command, run: str, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    wrapper = _program(
        tmp_path / "wrapper", f'echo "$@" >> {said}; echo "$SSH_ASKPASS_REQUIRE" >> {said}; exit 1'
    )
    refused(il, "git@example.org:x.git", BRANCH, "--run", run, env={"GIT_SSH_COMMAND": wrapper})
    assert "BatchMode" not in said.read_text()
    assert "force" in said.read_text()


# -- servers


@pytest.mark.parametrize("setting", ["transfer", "uploadpack", "receive"])
@pytest.mark.parametrize("use", ["push", "hold"])
def test_a_server_that_hides_our_refs_is_named_at_once(
    tree: Path, tmp_path: Path, bare_repository: Path, setting: str, use: str
) -> None:
    git(bare_repository, "config", f"{setting}.hideRefs", "refs/interlock")
    url = f"sqlite:///{tmp_path / 'lanes.db'}" if use == "push" else f"git+{bare_repository.as_uri()}"
    il = Command(tree, url=url)
    args = ["hold", LANE, "--", "true"]
    if use == "push":
        il.ok("add", "work", "--lane", LANE)
        args = ["push", "--run", il.claim()["run"]]
        commit(tree, {"a": "1"}, "mine")
    for _ in range(2):  # the second time, a server that hides refs only from readers has them
        answer = il("--json", *args)
        assert answer.code == 1
        assert "hides refs/interlock/" in answer.error["message"]
        assert f"{setting}.hideRefs" in answer.error["hint"]
    assert log(bare_repository) == ["first"]


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "with commits"])
def test_a_server_with_another_object_format_is_named_at_once(
    il: Command, run: str, tree: Path, tmp_path: Path, filled: bool
) -> None:
    other = tmp_path / "other.git"
    other.mkdir()
    git(other, "init", "--quiet", "--bare", f"--initial-branch={BRANCH}", "--object-format=sha256")
    if filled:
        first = tmp_path / "first-there"
        git(tmp_path, "init", "--quiet", "--object-format=sha256", str(first))
        commit(first, {}, "first")
        git(first, "push", "--quiet", str(other), f"HEAD:{BRANCH}")
    assert "another object format than this repository, which uses sha1" in refused(
        il, str(other), BRANCH, "--run", run
    )
    held = Command(tree, url=f"git+{other.as_uri()}")("--json", "hold", LANE, "--", "true")
    assert held.code == 1
    assert "another object format" in held.error["message"]
