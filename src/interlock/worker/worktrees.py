"""Workspaces: a git worktree for each run, created before it starts and removed when it has ended.

A worktree is on a new branch `interlock/run-<n>`, so that commits of a run have a name from the start. It
begins at the remote branch that the repository follows, read after the run has armed its lane's fence.
Without a remote, it begins at the checked out commit.

It is removed only when its whole content is proven to be safe: untouched, ignored, on the remote, on a branch
that stays, or salvaged. Otherwise it stays for people to inspect, locked so that git does not prune it. A
worktree with a mount also stays, as the mounted files would be deleted with it. Git is told which directory
to use: the worktrees are inside the clone, and git would take one without its `.git` for a part of the clone.

Git's own directory for a worktree is created elsewhere and renamed into place. `git worktree add` creates it
in steps, and between them a fetch of any other run in the clone fails.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from interlock.core.errors import GitFailed, InterlockError, NoRemote, PushFailed
from interlock.core.trailers import Trailer
from interlock.git.checkout import current_branch, push_remote_of, remote_of
from interlock.git.plumbing import GitRepository
from interlock.git.refusals import without_secrets
from interlock.git.remotes import absolute_addresses, check_relative, effective, variables
from interlock.push.fence import FenceStore, LaneRun, arm
from interlock.worker import commit_hook, mounts
from interlock.worker.changes import MOUNTED, git_dir_of, tree_of
from interlock.worker.commits import Commits, files_of, stash_of
from interlock.worker.inventory import Baseline, signatures, take
from interlock.worker.rundirectory import Home, RunFiles, Trace
from interlock.worker.salvage import Salvage, Salvager, SalvageResult, WorktreePlace

CHECKOUT_TIMEOUT_S = 900.0
#: The reason with which git keeps a worktree that stays.
_LOCKED = "Interlock could not salvage all of it"
#: The baseline's name in the directory of a run, and the prefix for the remains of a removed worktree.
_BASELINE, _GONE = "baseline.json", ".gone-"
#: The name of the folder for the hooks that name the run in its commits.
_HOOKS = "hooks"
#: The mark in a run's directory that its worktree is accounted for and is being removed, and the system's
#: suffix for the name of a deleted directory.
_REMOVING, _DELETED = "removing", " (deleted)"


def confined(worktrees: Path) -> dict[str, str]:
    """Variables that keep git, below this directory, from finding a repository above it."""
    others = os.environ.get("GIT_CEILING_DIRECTORIES", "")
    return {"GIT_CEILING_DIRECTORIES": f"{worktrees}{os.pathsep}{others}" if others else str(worktrees)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The workspace of a run."""

    path: Path
    #: Salvaged work of earlier runs on its lane.
    salvage: tuple[Salvage, ...]
    #: Variables with which git finds remotes whose address is relative to the clone.
    environ: Mapping[str, str]


class Workspaces:
    """The worktrees of one repository."""

    def __init__(self, home: Home, *, kept: Callable[[Trace, str], None] = lambda _trace, _ref: None) -> None:
        """`kept` gets a run and the ref of its salvage, before its worktree is removed."""
        self._home = home
        self._kept = kept
        self._repository = GitRepository(home.root)

    @cached_property
    def _git_dir(self) -> Path:
        """The git directory that all worktrees of the clone share."""
        return (self._home.root / self._repository.text("rev-parse", "--git-common-dir")).resolve()

    @cached_property
    def _salvager(self) -> Salvager:
        return Salvager(self._repository, self._git_dir)

    def check(self) -> None:
        """Raise unless worktrees can be created here."""
        GitRepository.containing(self._home.root)
        if self._repository.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").code:
            raise GitFailed("There is no commit yet.", "Commit something before you work in worktrees.")
        if (self._git_dir / "reftable").is_dir():
            raise GitFailed(
                "This repository keeps its refs as reftables: Interlock cannot tell a run's commits in them.",
                "Run git refs migrate --ref-format=files, or work without --worktree.",
            )
        check_relative(self._repository)

    def has(self, path: str) -> bool:
        """Whether the checked out commit has this file. A worktree will probably have it too."""
        return self._repository.run("cat-file", "-e", f"HEAD:{os.path.normpath(path)}").code == 0

    def check_remote(self, *, required: bool) -> None:
        """Raise if the remote of worktrees is unreachable, or is missing and `required`."""
        try:
            remote = remote_of(self._repository)
        except NoRemote:
            if required:
                raise
            return
        self._repository.ls_remote(remote, "HEAD")

    def open(self, files: RunFiles, handle: str, store: FenceStore, warn: Callable[[str], None]) -> Workspace:
        """Create a worktree for a run. `warn` gets a sentence if it is not fenced.

        Raises the errors of `check_fence`, and `RemoteUnavailable` if the remote is unreachable.
        """
        trace = files.trace
        kept = tuple(self._salvager.waiting_for(trace))
        lane_run = LaneRun(lane=trace.lane, handle=handle, agent=trace.agent) if trace.lane else None
        base = self._base(lane_run, store, warn)
        path = self._home.worktrees / files.path.name
        files.note(base=base, worktree=str(path))
        branch = self._new_branch(f"interlock/run-{trace.run}", base)
        files.note(branch=branch)
        try:
            git_dir = self._register(path, branch)
        except OSError as error:
            raise GitFailed(
                f"The worktree {path} cannot be created: {error}.", "See git worktree list."
            ) from None
        made = GitRepository(path, environ=confined(self._home.worktrees)).run(
            *("checkout", "--force", "--quiet", "--no-recurse-submodules"), timeout_s=CHECKOUT_TIMEOUT_S
        )
        if made.code:
            raise GitFailed(
                f"The worktree {path} cannot be created: {made.complaint}.", "See git worktree list."
            )
        files.hold(path)
        rules = absolute_addresses(self._repository)
        self._baseline(path, git_dir, base, rules.values()).write(files.path / _BASELINE)
        environ = variables(rules, os.environ)
        environ |= self._hook_variables(files, path, git_dir, store, {**os.environ, **environ}, warn)
        return Workspace(path=path, salvage=kept, environ=environ)

    def _hook_variables(
        self,
        files: RunFiles,
        path: Path,
        git_dir: Path,
        store: FenceStore,
        environ: Mapping[str, str],
        warn: Callable[[str], None],
    ) -> dict[str, str]:
        """Variables with which git names the run in its commits, unless the clone's settings forbid that."""
        hooks = files.path / _HOOKS
        if self._repository.run("config", "--type=bool", "--get", commit_hook.SETTING).out.strip() == "false":
            return {}
        try:
            commit_hook.install(hooks, path, git_dir, Trailer(files.trace.run, store.lineage().store))
        except (OSError, InterlockError) as error:  # the commits matter more than the name
            warn(f"adds no trailer to its commits: {error}")
            return {}
        return commit_hook.variables(hooks, environ)

    def close(
        self,
        files: RunFiles,
        *,
        succeeded: bool,
        given: Sequence[Salvage] = (),
        warn: Callable[[str, str], None] = lambda _text, _path: None,
    ) -> SalvageResult | None:
        """Salvage the work in the worktree and remove it; returns the salvage, if any.

        `warn` gets a sentence and a path for the rest. `given` is the salvage that the run began with. If
        some of the work could not be kept, the worktree stays for good. If this raises, for example because a
        process of the run is left, it stays until a worker tries again.
        """
        if succeeded and given:
            self._salvager.take(given)
        try:
            return self._close(files, succeeded=succeeded, warn=warn)
        except (GitFailed, OSError):
            if files.trace.worktree is None or Path(files.trace.worktree).exists():
                raise
        # It was deleted meanwhile, for example by `git clean -ffdx`. Its commits still exist.
        return self._close(files, succeeded=succeeded, warn=warn)

    def _close(
        self, files: RunFiles, *, succeeded: bool, warn: Callable[[str, str], None]
    ) -> SalvageResult | None:
        trace = files.trace
        if trace.base is None or not files.path.exists():  # otherwise another worker has already cleaned up
            return None
        with files.without_agent() as sure:
            # Only now, as another worker may have been cleaning up until now.
            baseline = Baseline.read(files.path / _BASELINE)
            place = self._find(files, baseline)
            if _stays(place):
                return None
            if not sure:
                raise GitFailed(
                    f"Run {trace.run} still has a process.", f"Its worktree stays at {place.path}."
                )
            commits = self._salvager.commits(trace, place, baseline)
            kept = None
            if trace.supervisor is not None:  # otherwise no command was started, so there is no work
                kept = self._salvager.keep(
                    trace, place, baseline, commits, scratch=files.path, succeeded=succeeded
                )
            if kept is not None and not succeeded:
                self._kept(trace, kept.ref)
            if kept is None or not kept.left_out:
                # After a success the branch itself stays, unless it is on the remote.
                (files.path / _REMOVING).touch()
                rest = self._remove(place, trace, commits, None if succeeded else kept)
                if rest.exists():
                    warn(f"left files that cannot be deleted, though all are kept; see {rest}", str(rest))
            elif place.git_dir is not None:
                (place.git_dir / "locked").write_text(_LOCKED)
            for other in self._new_neighbours(baseline, place) if baseline is not None else ():
                warn(f"ended beside a worktree of no run, which stays; see {other}", str(other))
            return kept if kept is not None and kept.fresh else None

    def forget(self) -> list[Path]:
        """Remove old used salvage, and the remains of removed worktrees; returns the remains that cannot be
        deleted."""
        with contextlib.suppress(GitFailed):
            self._salvager.forget()
        rests = sorted(self._home.worktrees.glob(f"{_GONE}*"))
        for rest in rests:
            _delete(rest)
        return [rest for rest in rests if rest.exists()]

    def _base(self, run: LaneRun | None, store: FenceStore, warn: Callable[[str], None]) -> str:
        try:
            remote, guarded = remote_of(self._repository), push_remote_of(self._repository)
        except NoRemote:
            return self._repository.text("rev-parse", "HEAD^{commit}")
        if run is not None:
            try:
                arm(self._repository, guarded, run, store)
            except PushFailed as error:  # without permission to push, no fence is possible or needed
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

    def _new_branch(self, name: str, base: str) -> str:
        """Create a branch of this name, or of the next free one: another store may have had a run with this
        number."""
        repository = GitRepository.at(self._git_dir)
        for branch in (name, *(f"{name}-{k}" for k in range(2, 100))):
            made = repository.run("update-ref", f"refs/heads/{branch}", base, "0" * len(base))
            if not made.code:
                return branch
        raise GitFailed(f"The branch {name} cannot be created: {made.complaint}.", "See git branch --list.")

    def _register(self, path: Path, branch: str) -> Path:
        """Create the directory of a worktree and git's own for it, without files yet; returns git's own."""
        path.mkdir(mode=0o777, parents=True)
        admins = self._git_dir / "worktrees"
        admins.mkdir(exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="interlock-worktree-", dir=self._git_dir))
        try:
            draft.chmod(stat.S_IMODE(admins.stat().st_mode))
            (draft / "commondir").write_text("../..\n")
            (draft / "gitdir").write_text(f"{path}/.git\n")
            (draft / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
            # Git writes into an existing log, whatever core.logAllRefUpdates is.
            (draft / "logs").mkdir()
            (draft / "logs" / "HEAD").touch()
            self._copy_sparseness(draft)
            git_dir = _renamed(draft, admins, path.name)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        (path / ".git").write_text(f"gitdir: {git_dir}\n")
        return git_dir

    def _copy_sparseness(self, draft: Path) -> None:
        """Apply the clone's sparse checkout to the worktree too, as `git worktree add` does."""
        patterns, own = self._git_dir / "info" / "sparse-checkout", self._git_dir / "config.worktree"
        if patterns.exists():
            (draft / "info").mkdir()
            shutil.copy(patterns, draft / "info")
        if own.exists():
            copied = Path(shutil.copy(own, draft))
            for name in ("core.worktree", "core.bare"):
                self._repository.run("config", "--file", str(copied), "--unset-all", name)

    def _baseline(self, path: Path, git_dir: Path, base: str, more_remotes: Iterable[str]) -> Baseline:
        repository = GitRepository.at(self._git_dir)
        found = take(path)
        root = path.stat()
        kinds = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/interlock/", "refs/stash")
        listed = repository.text("for-each-ref", "--format=%(objectname) %(refname)", *kinds).splitlines()
        stashed = any(line.endswith(" refs/stash") for line in listed)
        urls = self._repository.run("config", "--null", "--get-regexp", r"^remote\..*\.(push)?url$").out
        return Baseline(
            root=(root.st_dev, root.st_ino),
            admin=git_dir.name,
            files=signatures(path, found, tree_of(repository, base), digits=len(base)),
            newest_ns=max((status.st_ctime_ns for status in found.files.values()), default=0),
            empty=[os.fsdecode(name) for name in found.empty],
            refs=list(dict.fromkeys(line.partition(" ")[0] for line in listed)),
            stash=[entry.oid for entry in stash_of(repository)] if stashed else [],
            remotes={
                address: effective(self._repository, address)
                for address in (*(url.partition("\n")[2] for url in urls.split("\0") if url), *more_remotes)
            },
            git_files=files_of(git_dir),
            beside=[other.name for other in self._home.worktrees.glob("*")],
        )

    # -- its state after the run ----------------------------------------------------------------------

    def _find(self, files: RunFiles, baseline: Baseline | None) -> WorktreePlace:
        """The current place of a run's worktree, and whether it is still the created one."""
        path = Path(files.trace.worktree or self._home.worktrees / files.path.name)
        admins = self._git_dir / "worktrees"
        git_dir: Path | None = admins / (baseline.admin if baseline else path.name)
        assert git_dir is not None
        if not (git_dir / "HEAD").exists():
            git_dir = None

        def is_worktree(place: Path) -> bool:
            with contextlib.suppress(OSError):
                found = place.lstat()
                same = baseline is not None and baseline.root == (found.st_dev, found.st_ino)
                return stat.S_ISDIR(found.st_mode) and (same or _points_to(place, git_dir))
            return False

        mounted = tuple(f"{git_dir / name} {MOUNTED}" for name in mounts.below(git_dir)) if git_dir else ()
        if is_worktree(path):
            own = not os.path.lexists(path / ".git") or _points_to(path, git_dir)
            return WorktreePlace(
                home=path, path=path, git_dir=git_dir, odd=(*mounted, *(() if own else (".git",)))
            )
        removing = (files.path / _REMOVING).exists()
        seen = "" if removing else files.worktree_path() or ""
        elsewhere = [] if git_dir is None else [_place_of(git_dir)]
        others = (*([Path(seen)] if seen else ()), *elsewhere, *self._home.worktrees.glob("*"))
        moved = next(
            (p for p in others if p != path and not p.name.startswith(_GONE) and is_worktree(p)), None
        )
        odd = (*mounted, *([f"{path} is not what was made"] if os.path.lexists(path) else ()))
        if moved is not None:
            odd = (*odd, f"its place (it was moved to {moved})")
        elif git_dir and baseline and not (odd or removing or seen.endswith(_DELETED)):
            odd = (f"its files (it is not at {path}; where it went is unknown)",)
        return WorktreePlace(home=path, path=moved, git_dir=git_dir, odd=odd)

    def _new_neighbours(self, baseline: Baseline, place: WorktreePlace) -> list[Path]:
        """New entries in the folder of worktrees since the run began that are no run's: this run may have
        made them."""
        found = [other for other in self._home.worktrees.glob("*") if not other.name.startswith(_GONE)]
        runs = (self._home.runs, self._home.former_runs)
        return [
            other
            for other in found
            if other.name not in baseline.beside
            and other != place.path
            and not any((folder / other.name).exists() for folder in runs)
            and other.exists()  # still exists, now that its run is gone
            and not _stays(WorktreePlace(home=other, path=other, git_dir=git_dir_of(other)))
        ]

    def _remove(
        self, place: WorktreePlace, trace: Trace, commits: Commits, kept: SalvageResult | None
    ) -> Path:
        """Remove the worktree, and its branch if its commits are elsewhere. It is moved aside first: a
        half-removed worktree would look like one whose files were deleted by the run. Returns that place."""
        self._home.make_worktrees()
        rest = Path(tempfile.mkdtemp(prefix=_GONE, dir=self._home.worktrees))
        _move_aside(place, rest)
        if place.git_dir is not None:
            _delete(place.git_dir)  # if it is on another file system
            with contextlib.suppress(OSError):
                place.git_dir.parent.rmdir()  # as git does with the last one
        _delete(rest)
        tip = commits.branch_tip
        if tip is not None and commits.is_safe(tip, but=[kept.ref] if kept else []):
            GitRepository.at(self._git_dir).run("update-ref", "-d", f"refs/heads/{trace.branch}", tip)
        return rest


def _stays(place: WorktreePlace) -> bool:
    """Whether another worker has salvaged the worktree, and left it because of the rest."""
    try:
        return place.git_dir is not None and (place.git_dir / "locked").read_text("utf-8").strip() == _LOCKED
    except (OSError, ValueError):
        return False


def _place_of(git_dir: Path) -> Path:
    """The worktree's place according to git."""
    try:
        return Path((git_dir / "gitdir").read_text("utf-8", "surrogateescape").strip()).parent
    except (OSError, ValueError):
        return git_dir


def _points_to(place: Path, git_dir: Path | None) -> bool:
    return git_dir is not None and git_dir_of(place) == git_dir.resolve()


def _renamed(draft: Path, directory: Path, name: str) -> Path:
    """Give a directory the first free name. No process ever sees it without its contents."""
    for target in (directory / name, *(directory / f"{name}-{n}" for n in range(2, 100))):
        with contextlib.suppress(OSError):  # an empty directory would be replaced, another refuses
            if not target.exists():
                return draft.rename(target)
    raise OSError(f"{directory / name} is taken")


def _move_aside(place: WorktreePlace, rest: Path) -> None:
    """Rename the worktree and git's directory for it into `rest`, unless something is mounted in them."""
    moved = {}
    try:
        if place.path is not None:
            place.path.chmod(0o700)  # a directory that was made read-only cannot be moved
            moved[place.path] = place.path.rename(rest / "worktree")
        if place.git_dir is not None:
            with contextlib.suppress(OSError):  # `rest` may be on another file system
                moved[place.git_dir] = place.git_dir.rename(rest / "git")
        # The search for work would have found it. But this check is the last, at a place unknown to the
        # command.
        if mounted := [str(old / name) for old, new in moved.items() for name in mounts.below(new)]:
            raise GitFailed(f"{', '.join(mounted)}: something is mounted there.", "Unmount it.")
    except (OSError, GitFailed):
        for old, new in moved.items():
            new.rename(old)
        rest.rmdir()
        raise


def _delete(path: Path) -> None:
    """Delete a directory, including read-only contents. If something is mounted in it, delete nothing."""
    if mounts.below(path):
        return

    def open_up(_function: object, name: str, _error: object) -> None:
        with contextlib.suppress(OSError):
            Path(name).parent.chmod(0o700)
            found = os.lstat(name)
            if stat.S_ISDIR(found.st_mode):
                Path(name).chmod(0o700)
                shutil.rmtree(name, ignore_errors=True)
            else:
                Path(name).unlink()

    shutil.rmtree(path, onerror=open_up)
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)
