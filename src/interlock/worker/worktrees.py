"""Workspaces: a git worktree for each run, made before it starts and removed when it is over.

A worktree is in `.interlock/worktrees/run-<n>`, on a new branch `interlock/run-<n>`, so that commits of a run
have a name from the start. It begins with the remote branch that the repository follows, read after the run
has armed its lane's fence; without a remote, with the commit that is checked out. It is removed only after
everything in it is safe: pushed, on a branch, or salvaged. A worktree that could not be salvaged completely
stays for people to look at, locked so that nobody clears it away.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.core.errors import GitFailed, NoRemote, PushFailed
from interlock.git.checkout import current_branch, push_remote_of, remote_of
from interlock.git.plumbing import Repository
from interlock.git.refusals import without_secrets
from interlock.push.fence import LaneRun, arm
from interlock.worker.rundirectory import Home, RunFiles
from interlock.worker.salvage import TAKEN, WAITING, Kept, Salvage, Salvager

CHECKOUT_TIMEOUT_S = 900.0
#: The reason with which git keeps a worktree that stays.
_LOCKED = "Interlock could not salvage all of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where a run works."""

    path: Path
    #: Work that earlier runs on its lane left.
    salvage: tuple[Salvage, ...]


class Workspaces:
    """The worktrees of one repository."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._repository = Repository(home.root)
        self._salvager = Salvager(self._repository)
        # Two git processes that make or remove worktrees at once would block on the same lock files.
        self._one_change = threading.Lock()

    def check(self) -> None:
        """Raise unless worktrees can be made here."""
        Repository.around(self._home.root)
        if self._repository.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").code:
            raise GitFailed("There is no commit yet.", "Commit something before you work in worktrees.")

    def has(self, path: str) -> bool:
        """Whether the commit that is checked out has this file: a worktree will probably have it too."""
        return self._repository.run("cat-file", "-e", f"HEAD:{os.path.normpath(path)}").code == 0

    def reach(self) -> None:
        """Raise `RemoteUnavailable` if the remote that worktrees begin with cannot be read."""
        with contextlib.suppress(NoRemote):
            self._repository.ls_remote(remote_of(self._repository), "HEAD")

    def open(self, files: RunFiles, handle: str, warn: Callable[[str], None]) -> Workspace:
        """Make a worktree for a run; `warn` gets a sentence if it is not fenced.

        `LeaseLost` if a later run has armed the lane; `RemoteUnavailable` if the remote cannot be read.
        """
        trace = files.trace
        kept = tuple(self._salvager.waiting_for(trace))
        lane_run = LaneRun(lane=trace.lane, handle=handle, agent=trace.agent) if trace.lane else None
        base = self._base(lane_run, warn)
        path = self.path_of(files)
        with self._one_change:
            branch = self._new_branch(f"interlock/run-{trace.run}")
            files.note(base=base, branch=branch)
            made = self._repository.run(
                *("worktree", "add", "--quiet", "-b", branch, str(path), base), timeout_s=CHECKOUT_TIMEOUT_S
            )
        if made.code:
            raise GitFailed(
                f"The worktree {path} cannot be made: {made.complaint}.", "See git worktree list."
            )
        return Workspace(path=path, salvage=kept)

    def close(self, files: RunFiles, *, succeeded: bool, given: Sequence[Salvage] = ()) -> Kept | None:
        """Salvage the work in the worktree and remove it; returns what was kept, if anything.

        `given` is the salvage that the run began with. If some of the work could not be kept, the worktree
        stays for good. If this raises, for example because a process of the run is left, it stays until
        somebody tries again.
        """
        if succeeded and given:
            self._salvager.take(given)
        trace = files.trace
        path = self.path_of(files)
        if trace.base is None:
            return None
        with files.without_agent() as sure:
            if not path.is_dir():  # removed by the run that took the lane over, or by the command itself
                with self._one_change:
                    self._remove(path, files, None)
                return None
            if self._stays(path):
                return None
            if not sure:
                raise GitFailed(f"Run {trace.run} still has a process.", f"Its worktree stays at {path}.")
            kept = None
            if not succeeded or self._would_be_lost(path, files):
                prefix = TAKEN if succeeded else WAITING
                kept = self._salvager.keep(path, trace, files.path / "index", prefix=prefix)
            with self._one_change:
                if kept is not None and kept.left_out:
                    self._repository.run("worktree", "lock", "--reason", _LOCKED, str(path))
                else:
                    self._remove(path, files, kept.ref if kept and not succeeded else None)
            return kept

    def path_of(self, files: RunFiles) -> Path:
        """The path of a run's worktree."""
        return self._home.worktrees / files.path.name

    def forget(self) -> None:
        """Remove old salvage that was taken."""
        with contextlib.suppress(GitFailed):
            self._salvager.forget()

    def _base(self, run: LaneRun | None, warn: Callable[[str], None]) -> str:
        try:
            remote, guarded = remote_of(self._repository), push_remote_of(self._repository)
        except NoRemote:
            return self._repository.text("rev-parse", "HEAD^{commit}")
        if run is not None:
            try:
                arm(self._repository, guarded, run)
            except PushFailed as error:  # without the right to push there is no fence, and no need for one
                warn(f"is not fenced on {without_secrets(guarded)}: {error.sentence}")
        refs = self._repository.ls_remote(remote, "HEAD", "refs/heads/*")
        wanted = (self._followed(), f"refs/heads/{current_branch(self._repository)}", "HEAD")
        ref = next((name for name in wanted if name in refs), None)
        if ref is None:
            return self._repository.text("rev-parse", "HEAD^{commit}")  # an empty remote
        self._repository.fetch(remote, ref)
        return refs[ref]

    def _followed(self) -> str:
        branch = current_branch(self._repository)
        return self._repository.run("config", "--get", f"branch.{branch}.merge").out.strip()

    def _new_branch(self, name: str) -> str:
        """The name, or the first free one after it: another store may have had a run with this number."""
        taken = self._repository.text(
            "for-each-ref", "--format=%(refname:short)", f"refs/heads/{name}*"
        ).split()
        return next(n for n in (name, *(f"{name}-{k}" for k in range(2, 10_000))) if n not in taken)

    def _stays(self, path: Path) -> bool:
        """Whether another run has salvaged the worktree, and left it because of the rest."""
        place = Repository(path)
        asked = place.run("rev-parse", "--git-path", "locked")
        try:
            return not asked.code and (path / asked.out.strip()).read_text("utf-8").strip() == _LOCKED
        except (OSError, ValueError):
            return False

    def _would_be_lost(self, path: Path, files: RunFiles) -> bool:
        """Whether a successful run would lose work with its worktree. Commits on a branch are safe."""
        place = Repository(path)
        if place.text("status", "--porcelain", "--ignore-submodules=all"):
            return True
        head = place.text("rev-parse", "HEAD^{commit}")
        return current_branch(place) is None and self._salvager.unpushed(head, files.trace)

    def _remove(self, path: Path, files: RunFiles, kept: str | None) -> None:
        """Remove the worktree, and its branch if its commits are in `kept`, in its base or on a remote."""
        self._repository.run(
            "worktree", "remove", "--force", "--force", str(path), timeout_s=CHECKOUT_TIMEOUT_S
        )
        if path.exists():  # git could not remove a file, or does not know the worktree any more
            shutil.rmtree(path, ignore_errors=True)
            self._repository.run("worktree", "prune")
        branch = f"refs/heads/{files.trace.branch}"
        known = [name for name in (files.trace.base, kept) if name]
        rest = self._repository.run("rev-list", "-n", "1", branch, "--not", *known, "--remotes")
        if not rest.code and not rest.out.strip():
            self._repository.run("update-ref", "-d", branch)
