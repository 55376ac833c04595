"""Salvage: work that a run left uncommitted or unpushed, kept as a commit under a ref of its own.

The commit's parent is the commit that the run had checked out; its tree is the worktree as it was found, with
untracked files and without ignored ones. It is made with an index of its own, so nobody's index changes. Its
message carries a JSON document that names the run, for the next run on that lane.

Left out: files beyond the limits below, files that cannot be read, and repositories inside the worktree. The
document and the answer name them: the worktree must not be removed.
"""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.core.errors import GitFailed
from interlock.git.plumbing import Answer, Repository
from interlock.process.smallfile import an_object, record
from interlock.worker.rundirectory import Trace

#: Refs of salvage for the next run on the lane, and of salvage that a successful run has had, or has left.
WAITING, TAKEN = "refs/interlock/salvage/", "refs/interlock/salvaged/"
TAKEN_KEPT_S = 30 * 24 * 3_600.0
FILE_MAX_BYTES, TOTAL_MAX_BYTES, FILES_MAX = 50 << 20, 200 << 20, 20_000
LEFT_OUT_SHOWN, _REST_SHOWN = 100, 3
_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """Work of an earlier run."""

    ref: str
    oid: str
    run: int
    item: int
    lane: str | None
    store: str
    agent: str
    #: Where the rest is, if not all of it could be kept.
    worktree: str | None = None

    @property
    def sentence(self) -> str:
        """The message to the next run."""
        rest = f" Files that could not be kept are still in {self.worktree}." if self.worktree else ""
        return (
            f"Run {self.run} of {self.agent} ended with work that it had not pushed. It is kept as"
            f" {self.ref}: git diff HEAD...{self.ref} shows it.{rest}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The salvage of a worktree, and the paths that could not be kept."""

    ref: str
    left_out: tuple[str, ...] = ()

    @property
    def rest(self) -> str:
        """The paths left out, in words."""
        named = ", ".join(self.left_out[:_REST_SHOWN])
        more = len(self.left_out) - _REST_SHOWN
        return f"{named} and {more} more" if more > 0 else named


class Salvager:
    """Finds and keeps the work that runs left in worktrees of one repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def keep(self, worktree: Path, trace: Trace, index: Path, *, prefix: str = WAITING) -> Kept | None:
        """Keep the work under a ref; None without any. `index` is a scratch file."""
        place = Repository(worktree)
        head = place.text("rev-parse", "--verify", "HEAD^{commit}")
        changed = _changes(place)
        if not changed and not self.unpushed(head, trace):
            return None
        paths, left_out = _within_limits(worktree, changed)
        tree = place.text("rev-parse", "HEAD^{tree}")
        if paths:
            tree, unread = _tree(place, paths, index)
            left_out += [path for path in unread if path not in left_out]
        oid = self._repository.commit_json(
            {
                "run": trace.run,
                "item": trace.item,
                "lane": trace.lane,
                "store": trace.store,
                "agent": trace.agent,
                "left_out": left_out[:LEFT_OUT_SHOWN],
                "left_out_n": len(left_out),
                "worktree": str(worktree) if left_out else None,
            },
            subject=f"Salvage of run {trace.run}, item {trace.item}: {trace.title}",
            parents=[head],
            tree=tree,
        )
        return Kept(ref=self._store(oid, f"{prefix}{trace.run}"), left_out=tuple(left_out))

    def unpushed(self, oid: str, trace: Trace) -> bool:
        """Whether a commit has something that neither the run's base nor a remote has."""
        known = [trace.base] if trace.base else []
        return bool(self._repository.text("rev-list", "-n", "1", oid, "--not", *known, "--remotes"))

    def waiting_for(self, trace: Trace) -> list[Salvage]:
        """Salvage of earlier runs on the same lane, or of the same item without a lane; oldest first."""
        kept = [
            salvage
            for salvage in self._read()
            if salvage.store == trace.store
            and (salvage.lane == trace.lane if trace.lane else salvage.item == trace.item)
        ]
        return sorted(kept, key=lambda salvage: salvage.run)

    def take(self, kept: Sequence[Salvage]) -> None:
        """A run that had these has succeeded: the next run does not get them."""
        moves = (f"update {s.ref.replace(WAITING, TAKEN)} {s.oid}\ndelete {s.ref} {s.oid}\n" for s in kept)
        self._repository.run("update-ref", "--stdin", stdin="".join(moves))

    def forget(self) -> None:
        """Remove salvage that was taken long ago."""
        form = "--format=%(committerdate:unix) %(refname)"
        oldest_s = time.time() - TAKEN_KEPT_S
        lines = (
            line.split(" ", 1) for line in self._repository.text("for-each-ref", form, TAKEN).splitlines()
        )
        old = [f"delete {ref}\n" for at_s, ref in lines if float(at_s) < oldest_s]
        if old:
            self._repository.run("update-ref", "--stdin", stdin="".join(old))

    def _read(self) -> list[Salvage]:
        form = "--format=%(refname)%00%(objectname)%00%(contents:body)%00"
        parts = self._repository.text("for-each-ref", form, WAITING).split("\0")[:-1]
        found = []
        for ref, oid, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            try:
                document = {"worktree": None, **an_object(body.partition("\n\n")[0])}
                found.append(record(Salvage, {**document, "ref": ref.strip(), "oid": oid}))
            except ValueError:
                continue  # not ours
        return found

    def _store(self, oid: str, ref: str) -> str:
        # Another store that is used from the same clone may have had a run with this number.
        for name in (ref, *(f"{ref}-{n}" for n in range(2, 100))):
            if not self._repository.run("update-ref", name, oid, "0" * len(oid)).code:
                return name
        raise GitFailed(f"{ref} cannot be made.", "See git for-each-ref refs/interlock.")


def _changes(place: Repository) -> list[str]:
    """Paths that differ from the commit that is checked out, tracked ones first, without ignored files.

    A submodule with changes is among them, like any other repository inside this one.
    """
    return [entry[3:] for entry in sorted(_status(place), key=lambda entry: entry.startswith("??"))]


def _status(place: Repository, **environ: str) -> list[str]:
    listed = place.run(
        *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"),
        "--ignore-submodules=none",
        timeout_s=_TIMEOUT_S,
        environ={"GIT_OPTIONAL_LOCKS": "0", **environ},
    )
    _check("status", listed)
    return [entry for entry in listed.out.split("\0") if entry]


def _within_limits(worktree: Path, changed: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths to keep, and those over the limits."""
    kept: list[str] = []
    left_out: list[str] = []
    total = 0
    for path in changed:
        try:
            found = (worktree / path).lstat()
            plain, size = stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode), found.st_size
        except OSError:
            plain, size = True, 0  # a removed file is work too
        fits = plain and size <= FILE_MAX_BYTES and total + size <= TOTAL_MAX_BYTES and len(kept) < FILES_MAX
        (kept if fits else left_out).append(path)
        total += size if fits else 0
    return kept, left_out


def _tree(place: Repository, paths: Sequence[str], index: Path) -> tuple[str, list[str]]:
    """The worktree as a tree object, written through an index of its own, and the paths that git left out."""
    environ = {"GIT_INDEX_FILE": str(index), "GIT_LITERAL_PATHSPECS": "1"}
    own = place.directory / place.text("rev-parse", "--git-path", "index")
    try:
        # With its time stamp: git compares contents only of files that are as old as the index, in whole
        # seconds. With a younger copy it would miss a quick change that kept the size.
        shutil.copy2(own, index)
    except OSError:
        _check("read-tree", place.run("read-tree", "HEAD", environ=environ))
    added = place.run(
        *("add", "--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"),
        stdin="\0".join(paths),
        timeout_s=_TIMEOUT_S,
        environ=environ,
    )
    written = place.run("write-tree", environ=environ)
    _check("write-tree", written)
    # Git leaves out files that it cannot read; its exit code only says that there were some.
    left = _status(place, GIT_INDEX_FILE=str(index)) if added.code else []
    wanted = set(paths)
    return written.out.strip(), [entry[3:] for entry in left if entry[1] != " " and entry[3:] in wanted]


def _check(command: str, answer: Answer) -> None:
    if answer.code:
        raise GitFailed(f"git {command} failed: {answer.complaint}.", "")
