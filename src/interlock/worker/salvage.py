"""Salvage: uncommitted or unpushed work of a run, kept as a commit under its own ref.

The first parent is the run's checked out commit. The tree is the worktree as found, with untracked files and
without ignored ones. Further parents are other commits that only the worktree had: a commit with contents
that were only staged, commits on other branches or on none, dropped ones, stashed ones. The commit is made
with its own index, so no other index changes. Its message contains a JSON document that names the run, for
the next run on that lane.

The document and the answer name what cannot be kept. In that case the worktree must not be removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.core.errors import GitFailed
from interlock.git.plumbing import GitRepository
from interlock.process.smallfile import an_object, record
from interlock.worker.changes import Changes, ComparedTree, Entry, check, find_changes
from interlock.worker.commits import Commits
from interlock.worker.inventory import Baseline
from interlock.worker.rundirectory import Trace

#: Refs of salvage for the next run on the lane, and of salvage that a successful run has used or left.
WAITING, TAKEN = "refs/interlock/salvage/", "refs/interlock/salvaged/"
TAKEN_KEPT_S = 30 * 24 * 3_600.0
NAMES_SHOWN, _REST_SHOWN = 100, 3
_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreePlace:
    """The current place of a run's worktree."""

    #: Its original directory.
    home: Path
    #: Its directory, and git's own directory for it; None if one is gone.
    path: Path | None
    git_dir: Path | None
    #: Unexpected changes, because of which the worktree must stay.
    odd: tuple[str, ...] = ()

    @property
    def rest(self) -> Path:
        """The place of the work that could not be kept."""
        if self.path is None and self.git_dir is not None and not os.path.lexists(self.home):
            return self.git_dir
        return self.path or self.home


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
    #: The place of the rest, if not all of it could be kept.
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
class SalvageResult:
    """The salvage of a worktree, and the paths that could not be kept."""

    ref: str
    left_out: tuple[str, ...] = ()
    #: The place of the rest.
    worktree: Path | None = None
    #: False if a worker that died had already kept it.
    fresh: bool = True

    @property
    def rest(self) -> str:
        """The omitted paths, in words."""
        named = ", ".join(self.left_out[:_REST_SHOWN])
        more = len(self.left_out) - _REST_SHOWN
        return f"{named} and {more} more" if more > 0 else named


class Salvager:
    """Finds and keeps unfinished work in runs' worktrees of one repository."""

    def __init__(self, repository: GitRepository, git_dir: Path) -> None:
        """`git_dir` is the git directory that all worktrees of the repository share."""
        self._git_dir = git_dir
        self._clone = repository
        self._repository = GitRepository.at(git_dir)

    def commits(self, trace: Trace, place: WorktreePlace, baseline: Baseline | None) -> Commits:
        """The commits of a run's worktree."""
        return Commits(self._repository, self._clone, trace, baseline=baseline, git_dir=place.git_dir)

    def keep(
        self,
        trace: Trace,
        place: WorktreePlace,
        baseline: Baseline | None,
        commits: Commits,
        *,
        scratch: Path,
        succeeded: bool,
    ) -> SalvageResult | None:
        """Keep the work under a ref; None if there is none. `scratch` is a directory for our own files."""
        assert trace.base is not None
        head = commits.head() or trace.base
        only_here = commits.only_here(succeeded=succeeded)
        pushed = commits.is_safe(head, but=())
        changes = find_changes(
            ComparedTree(
                path=place.path,
                objects=self._git_dir,
                git_dir=place.git_dir,
                commit=head,
                # An ignore rule that only the run has could hide its work.
                rules=head if pushed else trace.base,
                known=(trace.base, *commits.half_done()),
                baseline=baseline,
                scratch=scratch,
            )
        )
        left_out = [*map(shown, (*changes.left_out, *commits.odd())), *place.odd]
        if not changes and not only_here and not left_out:
            return None
        tree = self._tree(head, changes.entries, scratch, left_out)
        kept = SalvageResult(ref="", left_out=tuple(left_out), worktree=place.rest if left_out else None)
        prefix = TAKEN if succeeded else WAITING
        earlier = None if only_here else self._kept_already(trace, tree, head, prefix)
        if earlier is not None:
            return replace(kept, ref=earlier, fresh=False)
        parents = [head]
        if changes.staged:
            parents.append(self._staged(trace, head, changes, scratch, left_out))
        parents += [oid for oid in only_here if oid != head]
        oid = self._repository.commit_json(
            _document(trace, changes, left_out, place),
            subject=f"Salvage of run {trace.run}, item {trace.item}: {trace.title}",
            parents=parents,
            tree=tree,
        )
        return replace(kept, ref=self._store(oid, f"{prefix}{trace.run}"))

    def _tree(
        self, commit: str, entries: Mapping[str, Entry | None], scratch: Path, left_out: list[str]
    ) -> str:
        """The commit's tree with these entries, written with its own index."""
        if not entries:
            return self._repository.text("rev-parse", f"{commit}^{{tree}}")
        index = scratch / "index"
        index.unlink(missing_ok=True)
        environ = {"GIT_INDEX_FILE": str(index)}
        check("read-tree", self._repository.run("read-tree", commit, environ=environ, timeout_s=_TIMEOUT_S))
        nothing = "0" * len(commit)
        removed = [f"0 {nothing}\t{path}\0" for path, entry in entries.items() if entry is None]
        self._apply(removed, environ, left_out)
        added = [f"{entry[0]:06o} {entry[1]}\t{path}\0" for path, entry in entries.items() if entry]
        self._apply(added, environ, left_out)
        written = self._repository.run("write-tree", "--missing-ok", environ=environ, timeout_s=_TIMEOUT_S)
        check("write-tree", written)
        return written.out.strip()

    def _apply(self, lines: Sequence[str], environ: Mapping[str, str], left_out: list[str]) -> None:
        """Change the index. Only a path that git refuses is left out."""
        if not lines:
            return
        done = self._repository.run(
            "update-index",
            "-z",
            "--index-info",
            stdin=os.fsencode("".join(lines)),
            environ=environ,
            timeout_s=_TIMEOUT_S,
        )
        if not done.code:
            return
        if len(lines) == 1:
            left_out.append(shown(lines[0].partition("\t")[2].rstrip("\0")))
            return
        middle = len(lines) // 2
        self._apply(lines[:middle], environ, left_out)
        self._apply(lines[middle:], environ, left_out)

    def _staged(self, trace: Trace, head: str, changes: Changes, scratch: Path, left_out: list[str]) -> str:
        """A commit with the contents that exist only in the index."""
        return self._repository.commit_json(
            {"run": trace.run, "staged": [shown(path) for path in changes.staged][:NAMES_SHOWN]},
            subject=f"Staged in run {trace.run}, and then changed or removed",
            parents=[head],
            tree=self._tree(head, changes.staged, scratch, left_out),
        )

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
        """Mark salvage as used by a successful run, so that the next run does not get it."""
        moves = (f"update {s.ref.replace(WAITING, TAKEN)} {s.oid}\ndelete {s.ref} {s.oid}\n" for s in kept)
        self._repository.run("update-ref", "--stdin", stdin="".join(moves))

    def forget(self) -> None:
        """Remove salvage that was used long ago."""
        form = "--format=%(committerdate:unix) %(refname)"
        oldest_s = time.time() - TAKEN_KEPT_S
        lines = (
            line.split(" ", 1) for line in self._repository.text("for-each-ref", form, TAKEN).splitlines()
        )
        old = [f"delete {ref}\n" for at_s, ref in lines if float(at_s) < oldest_s]
        if old:
            self._repository.run("update-ref", "--stdin", stdin="".join(old))

    def _read(self, prefix: str = WAITING) -> list[Salvage]:
        form = "--format=%(refname)%00%(objectname)%00%(contents:body)%00"
        parts = self._repository.text("for-each-ref", form, prefix).split("\0")[:-1]
        found = []
        for ref, oid, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            try:
                document = {"worktree": None, **an_object(body.partition("\n\n")[0])}
                found.append(record(Salvage, {**document, "ref": ref.strip(), "oid": oid}))
            except ValueError:
                continue  # not ours
        return found

    def _kept_already(self, trace: Trace, tree: str, head: str, prefix: str) -> str | None:
        """The ref under which a worker that died kept the same work."""
        for old in self._read(prefix):
            if (old.store, old.run) == (trace.store, trace.run):
                same = self._repository.text("rev-parse", f"{old.oid}^{{tree}}", f"{old.oid}^1").split()
                if same == [tree, head]:
                    return old.ref
        return None

    def _store(self, oid: str, ref: str) -> str:
        # Another store used from the same clone may have had a run with this number.
        for name in (ref, *(f"{ref}-{n}" for n in range(2, 100))):
            if not self._repository.run("update-ref", name, oid, "0" * len(oid)).code:
                return name
        raise GitFailed(f"{ref} cannot be created.", "See git for-each-ref refs/interlock.")


def shown(path: str) -> str:
    """A path as text, whatever its bytes are."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _document(
    trace: Trace, changes: Changes, left_out: Sequence[str], place: WorktreePlace
) -> dict[str, object]:
    return {
        "run": trace.run,
        "item": trace.item,
        "lane": trace.lane,
        "store": trace.store,
        "agent": trace.agent,
        "left_out": list(left_out[:NAMES_SHOWN]),
        "left_out_n": len(left_out),
        "worktree": str(place.rest) if left_out else None,
        "empty_directories": [shown(path) for path in changes.empty[:NAMES_SHOWN]],
        "ignored": [shown(path) for path in changes.ignored[:NAMES_SHOWN]],
        "ignored_n": len(changes.ignored),
    }
