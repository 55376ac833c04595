"""Git as plumbing: state in commits, refs moved by compare-and-swap, and what every failure says."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from interlock.core.errors import (
    GitFailed,
    GitMissing,
    InvalidInput,
    NoRemote,
    NoRepository,
    RemoteUnavailable,
    TooLarge,
    UnreadableState,
)
from interlock.git import plumbing
from interlock.git.plumbing import GitRepository, GitResult, lane_ref_id
from interlock.git.refusals import RefMove, RefusalKind
from tests.git_fixtures import (
    bare_repository,
    clone,
    commit,
    git,
    git_identity,
    http_remote,
    make_bare,
    remote_url,
    write_hook,
)

__all__ = ["bare_repository", "git_identity", "http_remote", "remote_url"]

REF = "refs/interlock/owner/x"


@pytest.fixture
def place(remote_url: str, tmp_path: Path) -> GitRepository:
    return GitRepository(clone(remote_url, tmp_path / "clone"))


def test_state_goes_to_a_remote_and_comes_back(place: GitRepository, remote_url: str, tmp_path: Path) -> None:
    oid = place.commit_json({"lane": "ü", "n": 1}, subject="first")
    assert place.push("origin", [RefMove(ref=REF, old_oid=None, new_oid=oid)]) is None
    other = GitRepository.make_bare(tmp_path / "other")
    assert other.ls_remote(remote_url, REF) == {REF: oid}
    assert not other.has(oid)
    other.fetch(remote_url, REF)
    assert other.has(oid)
    assert other.read_json(oid) == {"lane": "ü", "n": 1}


def test_two_commits_with_the_same_content_are_never_the_same_commit(place: GitRepository) -> None:
    assert place.commit_json({"a": 1}, subject="s") != place.commit_json({"a": 1}, subject="s")


def test_state_needs_no_name_in_the_configuration_and_no_signing_key(
    place: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER")) or name == "EMAIL":
            monkeypatch.delenv(name)
    git(place.directory, "config", "user.useConfigOnly", "true")
    git(place.directory, "config", "commit.gpgSign", "true")
    oid = place.commit_json({}, subject="s")
    assert git(place.directory, "log", "-1", "--format=%an", oid) == "Interlock"


def test_only_one_of_two_creates_a_ref(place: GitRepository, tmp_path: Path, remote_url: str) -> None:
    other = GitRepository(clone(remote_url, tmp_path / "two"))
    mine, theirs = place.commit_json({}, subject="s"), other.commit_json({}, subject="s")
    assert place.push("origin", [RefMove(ref=REF, old_oid=None, new_oid=mine)]) is None
    refused = other.push("origin", [RefMove(ref=REF, old_oid=None, new_oid=theirs)])
    assert refused is not None
    assert (refused.kind, refused.ref) == (RefusalKind.STALE, REF)
    assert place.ls_remote("origin", REF) == {REF: mine}


def test_a_stale_pin_moves_no_ref_of_the_push(place: GitRepository) -> None:
    first, second = place.commit_json({}, subject="1"), place.commit_json({}, subject="2")
    assert place.push("origin", [RefMove(ref=REF, old_oid=None, new_oid=first)]) is None
    refused = place.push(
        "origin",
        [
            RefMove(ref="refs/interlock/queue/x", old_oid=None, new_oid=second),
            RefMove(ref=REF, old_oid=second, new_oid=second),
        ],
    )
    assert refused is not None
    assert (refused.kind, refused.ref) == (RefusalKind.STALE, REF)
    assert place.ls_remote("origin", "refs/interlock/*") == {REF: first}


def test_a_ref_is_deleted_by_compare_and_swap_too(place: GitRepository) -> None:
    first, second = place.commit_json({}, subject="1"), place.commit_json({}, subject="2")
    assert place.push("origin", [RefMove(ref=REF, old_oid=None, new_oid=first)]) is None
    refused = place.push("origin", [RefMove(ref=REF, old_oid=second, new_oid=None)])
    assert refused is not None
    assert refused.kind is RefusalKind.STALE
    assert place.push("origin", [RefMove(ref=REF, old_oid=first, new_oid=None)]) is None
    assert place.ls_remote("origin", "refs/interlock/*") == {}


def test_a_ref_that_moves_between_advertisement_and_update_is_stale(
    place: GitRepository, bare_repository: Path
) -> None:
    first, second, third = (place.commit_json({}, subject=str(n)) for n in range(3))
    for oid, ref in ((first, REF), (third, "refs/interlock/keep")):
        assert place.push("origin", [RefMove(ref=ref, old_oid=None, new_oid=oid)]) is None
    # the hook runs in the window; quarantine forbids it to write refs, so it goes around
    move = f"env -u GIT_QUARANTINE_PATH git update-ref {REF} {third} {first}"
    write_hook(bare_repository, "pre-receive", f"#!/bin/sh\n{move}\n")
    refused = place.push(
        "origin",
        [
            RefMove(ref=REF, old_oid=first, new_oid=second),
            RefMove(ref="refs/interlock/queue/x", old_oid=None, new_oid=second),
        ],
    )
    assert refused is not None
    assert refused.kind is RefusalKind.STALE
    assert place.ls_remote("origin", REF, "refs/interlock/queue/x") == {REF: third}


def test_a_server_hook_that_declines_is_a_hook_refusal(place: GitRepository, bare_repository: Path) -> None:
    write_hook(bare_repository, "pre-receive", "#!/bin/sh\nexit 1\n")
    move = RefMove(ref=REF, old_oid=None, new_oid=place.commit_json({}, subject="s"))
    refused = place.push("origin", [move])
    assert refused is not None
    assert refused.kind is RefusalKind.HOOK


def test_a_server_without_atomic_pushes_is_recognised(place: GitRepository, bare_repository: Path) -> None:
    git(bare_repository, "config", "receive.advertiseAtomic", "false")
    move = RefMove(ref=REF, old_oid=None, new_oid=place.commit_json({}, subject="s"))
    refused = place.push("origin", [move])
    assert refused is not None
    assert refused.kind is RefusalKind.ATOMIC_UNSUPPORTED
    assert place.push("origin", [move], atomic=False) is None


def test_hidden_refs_and_a_checked_out_branch_are_permission_refusals(
    place: GitRepository, bare_repository: Path, tmp_path: Path
) -> None:
    git(bare_repository, "config", "receive.hideRefs", "refs/interlock")
    oid = place.commit_json({}, subject="s")
    refused = place.push("origin", [RefMove(ref=REF, old_oid=None, new_oid=oid)])
    assert refused is not None
    assert refused.kind is RefusalKind.PERMISSION
    tree = clone(str(bare_repository), tmp_path / "tree")
    tip = git(tree, "rev-parse", "HEAD")
    refused = place.push(str(tree), [RefMove(ref="refs/heads/main", old_oid=tip, new_oid=oid)])
    assert refused is not None
    assert refused.kind is RefusalKind.PERMISSION


def test_a_push_to_a_read_only_server_is_a_permission_refusal(
    http_remote: str, bare_repository: Path, tmp_path: Path
) -> None:
    git(bare_repository, "config", "http.receivepack", "false")
    place = GitRepository(clone(http_remote, tmp_path / "clone"))
    refused = place.push(
        "origin", [RefMove(ref=REF, old_oid=None, new_oid=place.commit_json({}, subject="s"))]
    )
    assert refused is not None
    assert refused.kind is RefusalKind.PERMISSION


def test_an_unreachable_server_is_a_network_refusal(place: GitRepository) -> None:
    oid = place.commit_json({}, subject="s")
    nowhere = "http://someone:secret@127.0.0.1:9/x.git"
    refused = place.push(nowhere, [RefMove(ref=REF, old_oid=None, new_oid=oid)])
    assert refused is not None
    assert refused.kind is RefusalKind.NETWORK
    assert "secret" not in refused.detail
    with pytest.raises(RemoteUnavailable) as caught:
        place.ls_remote(nowhere)
    assert "secret" not in str(caught.value)


def test_a_server_that_never_answers_times_out(
    place: GitRepository, bare_repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.git.plumbing.REMOTE_TIMEOUT_S", 0.5)
    write_hook(bare_repository, "pre-receive", "#!/bin/sh\nread line\nexec sleep 3\n")
    move = RefMove(ref=REF, old_oid=None, new_oid=place.commit_json({}, subject="s"))
    refused = place.push("origin", [move])
    assert refused is not None
    assert refused.kind is RefusalKind.NETWORK


def test_the_users_pre_push_hook_runs_only_if_asked_for(place: GitRepository) -> None:
    hook = place.directory / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    move = RefMove(ref=REF, old_oid=None, new_oid=place.commit_json({}, subject="s"))
    assert place.push("origin", [move], hooks=True) is not None
    assert place.push("origin", [move]) is None


def test_git_variables_of_a_hook_do_not_redirect_git(
    place: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(make_bare(tmp_path / "another.git")))
    assert place.text("log", "-1", "--format=%s") == "first"


def test_a_repository_with_long_hashes_works_as_well(tmp_path: Path) -> None:
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "--quiet", "--bare", "--object-format=sha256")
    here = GitRepository(tmp_path / "here")
    oid = here.commit_json({"a": 1}, subject="s")
    assert here.push(str(tmp_path / "there"), [RefMove(ref=REF, old_oid=None, new_oid=oid)]) is None
    assert here.read_json(oid) == {"a": 1}


def test_a_commit_of_someone_else_is_unreadable_state(place: GitRepository) -> None:
    theirs = commit(place.directory, {"a": "1"}, "not\n\nours [\n\nat all")
    with pytest.raises(UnreadableState):
        place.read_json(theirs)
    with pytest.raises(UnreadableState):
        place.read_json("0" * 40)


def test_every_bad_input_is_one_sentence(
    place: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoRepository):
        GitRepository.containing(tmp_path)
    with pytest.raises(NoRepository):
        GitRepository.containing(tmp_path / "nothing")
    with pytest.raises(NoRemote):
        place.ls_remote("upstream")
    with pytest.raises(NoRemote):
        place.push("upstream", [RefMove(ref=REF, old_oid=None, new_oid=place.commit_json({}, subject="s"))])
    for bad in ("", "-u", "--upload-pack=touch x", "a\nb"):
        with pytest.raises(InvalidInput):
            place.ls_remote(bad)
    with pytest.raises(InvalidInput):
        place.read_json("--help")
    with pytest.raises(GitFailed, match="couldn't find remote ref"):
        place.fetch("origin", "refs/interlock/none")
    with pytest.raises(GitFailed, match=r"2\.30"):
        place.text("fetch", "--no-such-option")
    with pytest.raises(TooLarge):
        place.commit_json({"a": "x" * (17 << 20)}, subject="s")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissing):
        place.text("version")


def test_lane_ids_are_valid_refs_and_unique(place: GitRepository) -> None:
    lanes = ["issue:acme/app#42", "issue:acme/app-42", "branch:A", "branch:a", "=", "x" * 200, "x" * 199]
    ids = [lane_ref_id(lane) for lane in lanes]
    assert len({*ids}) == len(lanes)
    assert len({i.lower() for i in ids}) == len(lanes)
    for name in ids:
        place.text("check-ref-format", f"refs/interlock/owner/{name}")
        assert "/" not in name
        assert len(name) < 70
    assert ids[0].startswith("issue-acme-app-42-")
    assert lane_ref_id("issue:ACME/App#42") == ids[0]
    with pytest.raises(InvalidInput):
        lane_ref_id("../escape")


def test_a_failure_names_what_git_was_asked_to_do_and_a_full_disk_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_bare(tmp_path / "x.git")
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'fatal: write error: No space left on device' >&2\nexit 128\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(GitFailed) as failed:
        GitRepository(tmp_path / "x.git").text("-c", "a.b=c", "update-ref", "refs/x", "HEAD")
    assert failed.value.sentence.startswith("git update-ref failed: ")
    assert "space" in failed.value.hint


def test_a_fetch_that_another_one_overtakes_is_tried_again(
    place: GitRepository, remote_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two processes of one machine that do not take turns: the slower one finds the local ref moved."""
    oid = place.commit_json({}, subject="x", parents=[])
    assert place.push(remote_url, [RefMove(ref="refs/interlock/x", old_oid=None, new_oid=oid)]) is None
    ask, lost = (
        GitRepository._ask,
        [f"error: cannot lock ref 'refs/interlock/x': is at {oid} but expected 1a2b"],
    )

    def overtaken(repository: GitRepository, *args: str, **named: Any) -> GitResult:
        return GitResult(code=1, out="", err=lost.pop()) if lost else ask(repository, *args, **named)

    monkeypatch.setattr(GitRepository, "_ask", overtaken)
    place.fetch(remote_url, "+refs/interlock/*:refs/interlock/*")
    assert place.text("rev-parse", "refs/interlock/x") == oid


def test_a_process_that_outlives_git_does_not_overwrite_what_git_printed(tmp_path: Path) -> None:
    """Taken out: `pread`. A seek moved the offset that both share, and the late line stood on git's own."""

    class Late(io.FileIO):
        """The file of an output, into which another process writes at the last moment before it is read."""

        def fileno(self) -> int:
            return self.late(super().fileno())

        def read(self, size: int | None = -1, /) -> bytes:
            self.late(super().fileno())
            return super().read(size)

        def late(self, fd: int) -> int:
            os.write(fd, b"fatal: the remote end hung up\n")
            return fd

    with Late(tmp_path / "err", "w+") as file:
        os.write(io.FileIO.fileno(file), b"fatal: no support for --atomic\n")
        said = plumbing._bounded(file, 1000)
    assert said.splitlines() == [b"fatal: no support for --atomic", b"fatal: the remote end hung up"]
