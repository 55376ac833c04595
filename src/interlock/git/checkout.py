"""The working tree of a push: the checked-out commit, the target branch, and the rebase."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from interlock.core.errors import GitFailed, InvalidInput, NoRemote, NoRepository, PushFailed, RebaseConflict
from interlock.git.plumbing import LOCAL_TIMEOUT_S, GitRepository
from interlock.git.refusals import without_secrets

REBASE_TIMEOUT_S = 600.0
#: How many conflicting files an error names.
FILES_SHOWN = 10

#: The prefix of branches of workers' worktrees.
RUN_BRANCHES = "interlock/run-"
#: How many past commits of a tracking branch are considered.
SIGHTS_MAX = 1_000

_CHECKED_OUT = ("HEAD", "@")
#: Settings that override the user's.
_REBASE_SETTINGS = ("rebase.autoStash=false", "rebase.updateRefs=false", "rebase.autoSquash=false")
_HALF_DONE = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


class Checkout:
    """A working tree. A failure leaves it unchanged."""

    def __init__(self, repository: GitRepository) -> None:
        top = repository.run("rev-parse", "--show-toplevel")
        if top.code:
            raise NoRepository(
                "This repository has no working tree, so there is nothing checked out to push.",
                "Go to a clone or a worktree of it.",
            )
        # At the top level: a rebase may remove the current directory.
        self.repository = GitRepository(Path(top.out.removesuffix("\n")))

    def head(self) -> str:
        """The checked-out commit."""
        answer = self.repository.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if answer.code:
            raise GitFailed("There is no commit yet.", "Commit something before you push.")
        return answer.out.strip()

    def target(self, asked: str | None) -> str:
        """The branch to push to: the checked-out one, unless `asked` names another.

        `git push REMOTE NAME` means the local branch NAME, which may not be checked out. So a different
        name must be given as `HEAD:NAME`. Otherwise work could go to the wrong branch.
        """
        current = current_branch(self.repository)
        if asked is None or asked in _CHECKED_OUT:
            if current is None:
                raise InvalidInput(
                    "HEAD is detached, so there is no branch to push to.",
                    "Name it: interlock push REMOTE BRANCH.",
                )
            return current
        source, colon, name = asked.rpartition(":")
        if name in ("", *_CHECKED_OUT) or (colon and source not in _CHECKED_OUT):
            raise InvalidInput(
                f"{asked[:80]!r} does not name a branch to push the checked-out commit to.",
                "Use BRANCH, or HEAD:BRANCH for a branch of another name.",
            )
        name = name.removeprefix("refs/heads/")
        if name.startswith("refs/"):
            raise InvalidInput(f"{name[:80]!r} is not a branch.", "Only branches are pushed with a fence.")
        if name.startswith(("-", "+")) or self.repository.run("check-ref-format", f"refs/heads/{name}").code:
            raise InvalidInput(
                f"{name[:80]!r} cannot be the name of a branch.", "Use letters, digits, - and /."
            )
        if not colon and current not in (None, name):
            raise InvalidInput(
                f"{current!r} is checked out, not {name!r}.",
                f"Switch to it, or use HEAD:{name} to push the checked-out commit to that branch.",
            )
        return name

    def check_clean(self) -> None:
        """Raise unless a rebase could start: no changed tracked files, no unfinished operation."""
        asked = [word for name in _HALF_DONE for word in ("--git-path", name)]
        paths = self.repository.text("rev-parse", *asked).splitlines()
        for path, what in zip(paths, _HALF_DONE.values(), strict=True):
            if (self.repository.directory / path).exists():
                raise GitFailed(
                    f"A {what} is in progress here.", f"Finish it, or abort it with git {what} --abort."
                )
        status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
        changed = self.repository.text(*status).splitlines()
        if changed:
            files = _named([line[3:] for line in changed])
            raise GitFailed(
                f"There are uncommitted changes: {files}.",
                "Commit them, or put them aside with git stash; then push again.",
            )

    def contains(self, oid: str) -> bool:
        """Whether the checked-out commit has this one in its history."""
        return self.repository.run("merge-base", "--is-ancestor", oid, "HEAD").code == 0

    def check_own(self, tip: str, *, remote: str, branch: str, seen: Collection[str]) -> None:
        """Raise if a push on top of `tip` would restore commits that others removed, or shares no history.

        These commits are known to have been on the branch: `seen`, the commits that this clone saw there at
        fetches and pushes, and the base commit of a worker's worktree. Commits that a clone without tracking
        branches has fetched are unknown.
        """
        if self.repository.run("merge-base", tip, "HEAD").code:
            raise self._unrelated(branch)
        ours = self.repository.text("rev-list", "--topo-order", f"{tip}..HEAD").split()
        known = {*seen, *self._tracked(remote, branch), *self._began_with(remote)}
        removed = next((oid for oid in ours if oid in known), None)
        if removed is None:
            return
        name = without_secrets(remote)
        raise PushFailed(
            f"Others removed {removed[:12]} from {branch} (a forced push), and your commits are based on it:"
            " pushing them would bring it back.",
            f"To leave it out: git fetch {name} {branch} && git rebase --onto FETCH_HEAD {removed[:12]}; then"
            " push again.",
        )

    def _tracked(self, remote: str, branch: str) -> list[str]:
        """The past commits of a branch that this clone saw, according to its tracking branches."""
        found = []
        for name in self.repository.text("remote").split():
            address = self.repository.run("remote", "get-url", name).out.strip()
            if remote in (name, address):
                walk = ("rev-list", "--walk-reflogs", f"--max-count={SIGHTS_MAX}")
                ref = f"refs/remotes/{name}/{branch}"
                found += self.repository.run(*walk, ref, "--").out.split()
                found += self.repository.run("rev-parse", "--verify", "--quiet", ref).out.split()
        return found

    def _began_with(self, remote: str) -> list[str]:
        """The commit of the remote that a worker's worktree was created from."""
        current = current_branch(self.repository)
        if current is None or not current.startswith(RUN_BRANCHES) or remote_of(self.repository) != remote:
            return []
        return self.repository.run("rev-list", "--walk-reflogs", f"refs/heads/{current}", "--").out.split()[
            -1:
        ]

    def rebase(self, onto: str, *, remote: str, branch: str) -> None:
        """Rebase our commits onto `onto`. A conflict is undone, and the error names the files."""
        before = self.head()
        done = False
        try:
            answer = self.repository.run(
                *(word for setting in _REBASE_SETTINGS for word in ("-c", setting)),
                *("rebase", "--quiet", onto),
                timeout_s=REBASE_TIMEOUT_S,
            )
            done = answer.code == 0
            if done:
                return
            files = self.repository.text("diff", "--name-only", "--diff-filter=U", "-z").split("\0")[:-1]
        finally:
            if not done:  # also when interrupted: an unfinished rebase would break every later push
                self.repository.run("rebase", "--abort", timeout_s=LOCAL_TIMEOUT_S)
        if self.head() != before:
            raise GitFailed(
                f"The rebase onto {branch} failed and could not be undone: {answer.complaint}.",
                f"Run git rebase --abort; your commits end in {before[:12]}.",
            )
        if files:
            raise RebaseConflict(
                f"The rebase onto the new commits of {branch} conflicts in {_named(files)}. It was undone;"
                " nothing was pushed.",
                f"Run git pull --rebase {without_secrets(remote)} {branch}, fix the files, then push again.",
            )
        raise PushFailed(
            f"The rebase onto the new commits of {branch} failed: {answer.complaint}. It was undone.",
            "Fix what git names, then push again.",
        )

    def _unrelated(self, branch: str) -> GitFailed:
        if self.repository.text("rev-parse", "--is-shallow-repository") == "true":
            return GitFailed(
                f"This clone is shallow: the common commit of {branch} and HEAD is missing.",
                "Run git fetch --unshallow, then push again.",
            )
        return GitFailed(
            f"The remote's {branch} and HEAD have no commit in common.",
            "Check the remote and the branch.",
        )


def current_branch(repository: GitRepository) -> str | None:
    """The checked-out branch; None with a detached HEAD."""
    answer = repository.run("symbolic-ref", "--quiet", "--short", "HEAD")
    return None if answer.code else answer.out.strip()


def remote_of(repository: GitRepository) -> str:
    """The remote to fetch from: the branch's remote, the only one, or origin."""
    branch = current_branch(repository)
    if branch:
        remote = _setting(repository, f"branch.{branch}.remote")
        if remote and remote != ".":
            return remote
    remotes = repository.text("remote").split()
    if not remotes:
        raise NoRemote("This repository has no remote to push to.", "Add one with git remote add origin URL.")
    return remotes[0] if len(remotes) == 1 else "origin"


def push_remote_of(repository: GitRepository, asked: str | None = None) -> str:
    """The remote that `git push` would use: `asked`, or the remote for pushes in git's configuration.

    For a remote with a separate push address, this is that address: a push must read where it writes.
    """
    branch = current_branch(repository)
    remote = (
        asked
        or (branch and _setting(repository, f"branch.{branch}.pushRemote"))
        or _setting(repository, "remote.pushDefault")
        or remote_of(repository)
    )
    pushes_to = repository.run("remote", "get-url", "--push", "--all", remote)
    if pushes_to.code:
        return repository.push_address(remote)  # may be a name that git itself refuses
    addresses = pushes_to.out.splitlines()
    if len(addresses) > 1:
        raise InvalidInput(
            f"The remote {remote!r} pushes to {len(addresses)} addresses; a fenced push needs one.",
            "Name one of them: interlock push URL BRANCH.",
        )
    return remote if addresses == repository.text("remote", "get-url", remote).splitlines() else addresses[0]


def _setting(repository: GitRepository, name: str) -> str:
    return repository.run("config", "--get", name).out.strip()


def _named(files: list[str]) -> str:
    more = f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
    return ", ".join(files[:FILES_SHOWN]) + more
