"""What is checked out in a working tree, as far as a push must know and change it."""

from __future__ import annotations

from pathlib import Path

from interlock.core.errors import GitFailed, InvalidInput, NoRemote, NoRepository, PushFailed, RebaseConflict
from interlock.git.plumbing import LOCAL_TIMEOUT_S, Repository
from interlock.git.refusals import without_secrets

REBASE_TIMEOUT_S = 600.0
#: How many conflicting files an error names.
FILES_SHOWN = 10

_CHECKED_OUT = ("HEAD", "@")
_HALF_DONE = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


class Checkout:
    """A working tree. Whatever fails here leaves it as it was."""

    def __init__(self, repository: Repository) -> None:
        top = repository.run("rev-parse", "--show-toplevel")
        if top.code:
            raise NoRepository(
                "This repository has no working tree, so there is nothing checked out to push.",
                "Go to a clone or a worktree of it.",
            )
        # From the top: a rebase may take the directory away in which it was asked for.
        self.repository = Repository(Path(top.out.removesuffix("\n")))

    def head(self) -> str:
        """The commit that is checked out."""
        answer = self.repository.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if answer.code:
            raise GitFailed("There is no commit yet.", "Commit something before you push.")
        return answer.out.strip()

    def target(self, asked: str | None) -> str:
        """The branch to push to: the one that is checked out, unless `asked` says otherwise.

        `git push REMOTE NAME` means the local branch NAME, which need not be the one checked out. So another
        name than its own must be asked for as `HEAD:NAME`, lest work lands where nobody meant it to.
        """
        current = current_branch(self.repository)
        if asked is None or asked in _CHECKED_OUT:
            if current is None:
                raise InvalidInput(
                    "HEAD is detached, so no branch to push to is known.",
                    "Name it: interlock push REMOTE BRANCH.",
                )
            return current
        source, colon, name = asked.rpartition(":")
        if name in ("", *_CHECKED_OUT) or (colon and source not in _CHECKED_OUT):
            raise InvalidInput(
                f"{asked[:80]!r} does not say where to push what is checked out.",
                "Say BRANCH, or HEAD:BRANCH for a branch of another name.",
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
                f"Switch to it, or say HEAD:{name} to push what is checked out to that branch.",
            )
        return name

    def check_clean(self) -> None:
        """Raise unless a rebase could start: no changes to tracked files, nothing half done."""
        asked = [word for name in _HALF_DONE for word in ("--git-path", name)]
        paths = self.repository.text("rev-parse", *asked).splitlines()
        for path, what in zip(paths, _HALF_DONE.values(), strict=True):
            if (self.repository.directory / path).exists():
                raise GitFailed(
                    f"A {what} is half done here.", f"Finish it, or take it back with git {what} --abort."
                )
        status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
        changed = self.repository.text(*status).splitlines()
        if changed:
            files = _named([line[3:] for line in changed])
            raise GitFailed(
                f"There are changes that are not committed: {files}.",
                "Commit them, or put them aside with git stash; then push again.",
            )

    def contains(self, oid: str) -> bool:
        """Whether the checked out commit has this one in its history."""
        return self.repository.run("merge-base", "--is-ancestor", oid, "HEAD").code == 0

    def rebase(self, onto: str, *, remote: str, branch: str) -> None:
        """Put the own commits on top of `onto`; in a conflict all is as before and the files are named."""
        if self.repository.run("merge-base", onto, "HEAD").code:
            raise self._strangers(branch)
        before = self.head()
        done = False
        try:
            answer = self.repository.run(
                *("-c", "rebase.autoStash=false", "-c", "rebase.updateRefs=false"),
                *("rebase", "--quiet", onto),
                timeout_s=REBASE_TIMEOUT_S,
            )
            done = answer.code == 0
            if done:
                return
            files = self.repository.text("diff", "--name-only", "--diff-filter=U", "-z").split("\0")[:-1]
        finally:
            if not done:  # also when interrupted: a rebase left half done would break every later push
                self.repository.run("rebase", "--abort", timeout_s=LOCAL_TIMEOUT_S)
        if self.head() != before:
            raise GitFailed(
                f"The rebase onto {branch} failed and could not be taken back: {answer.complaint}.",
                f"Run git rebase --abort; your commits end in {before[:12]}.",
            )
        if files:
            raise RebaseConflict(
                f"The rebase onto the new commits of {branch} conflicts in {_named(files)}. It was taken"
                " back; nothing was pushed.",
                f"Run git pull --rebase {without_secrets(remote)} {branch}, mend the files, then push again.",
            )
        raise PushFailed(
            f"The rebase onto the new commits of {branch} failed: {answer.complaint}. It was taken back.",
            "Mend what git says, then push again.",
        )

    def _strangers(self, branch: str) -> GitFailed:
        if self.repository.text("rev-parse", "--is-shallow-repository") == "true":
            return GitFailed(
                f"This clone is shallow and does not know where {branch} and its own commits part.",
                "Run git fetch --unshallow, then push again.",
            )
        return GitFailed(
            f"The remote's {branch} and what is checked out have no commit in common.",
            "See whether this is the right remote and branch.",
        )


def current_branch(repository: Repository) -> str | None:
    """The branch that is checked out; None with a detached HEAD."""
    answer = repository.run("symbolic-ref", "--quiet", "--short", "HEAD")
    return None if answer.code else answer.out.strip()


def remote_of(repository: Repository) -> str:
    """The remote that new work begins with: that of the branch, the only one, or origin."""
    branch = current_branch(repository)
    if branch:
        remote = _setting(repository, f"branch.{branch}.remote")
        if remote and remote != ".":
            return remote
    remotes = repository.text("remote").split()
    if not remotes:
        raise NoRemote("This repository has no remote to push to.", "Add one with git remote add origin URL.")
    return remotes[0] if len(remotes) == 1 else "origin"


def push_remote_of(repository: Repository, asked: str | None = None) -> str:
    """Where `git push` would push to: the asked remote, or the one that the settings name for pushing.

    A remote with another address for pushing is given as that address: a push must look where it writes.
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
        return remote  # an address, or a name that git itself will complain of
    addresses = pushes_to.out.splitlines()
    if len(addresses) > 1:
        raise InvalidInput(
            f"The remote {remote!r} pushes to {len(addresses)} places, which no push can move at once.",
            "Name one of them: interlock push URL BRANCH.",
        )
    return remote if addresses == repository.text("remote", "get-url", remote).splitlines() else addresses[0]


def _setting(repository: Repository, name: str) -> str:
    return repository.run("config", "--get", name).out.strip()


def _named(files: list[str]) -> str:
    more = f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
    return ", ".join(files[:FILES_SHOWN]) + more
