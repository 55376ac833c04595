"""Finds commits that only a worktree has: its own git files name them, and no other place has them.

Git records each step of HEAD in the worktree's own directory: each commit, amended or dropped, the rest of a
rebase, a merge, a bisection. So every id in those files counts. A commit is safe if it existed before the
run, or if a remote of the clone has it now. The remote is asked, because tracking branches prove nothing. A
remote whose address leads elsewhere than before the run proves nothing either. After a rebase, the remote has
the commit under another id, with the same author, message and change.

The run's *own* commits are those that its HEAD's log does not show as checked out, reset to or fast-forwarded
to. Commits of others are not passed on as its work.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from interlock.core.errors import InterlockError
from interlock.git.plumbing import LISTING_MAX_BYTES, GitRepository
from interlock.git.remotes import effective
from interlock.process.smallfile import read_bytes
from interlock.worker import mounts
from interlock.worker.changes import check
from interlock.worker.inventory import Baseline
from interlock.worker.rundirectory import Trace

_OID = re.compile(rb"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")
#: A line of the log of HEAD: old and new id, author and time, and reason.
_LOGGED = re.compile(rb"^[0-9a-f]+ (?P<new>[0-9a-f]+) [^\t\n]*(?:\t(?P<why>.*))?$", re.MULTILINE)
#: Reasons for a move of HEAD to an existing commit.
_ARRIVED = re.compile(
    rb"(checkout: moving from|reset: moving to|rebase.*\((start|finish|abort)\)|rebase finished"
    rb"|.*: Fast-forward$)"
)
_MOVED = re.compile(rb"checkout: moving from (\S+) to (\S+)")
_STASHED = re.compile(r"(?:WIP on|On) (\(no branch\)|[^:]+):")
_FILE_MAX_BYTES = 64 << 20
#: How long after a stash its reset may follow.
_RESET_WITHIN_S = 10
_NOT_SCANNED = ("modules", "objects")
#: The files that git itself writes into its directory for a worktree.
_GITS = re.compile(
    r"HEAD|[A-Z_]+_(HEAD|MSG|EDITMSG|MODE|RR|AUTOSTASH|DESCRIPTION)|AUTO_MERGE|BISECT_[A-Z_]+|ADD_EDIT\.patch"
    r"|index|sharedindex\.[0-9a-f]+|config\.worktree|gitdir|commondir|locked|addp-hunk-edit\.diff|.*\.lock"
    r"|info/(sparse-checkout|exclude|attributes)|fsmonitor--daemon.*"
    r"|(logs|refs|modules|rebase-merge|rebase-apply|sequencer|NOTES_MERGE_WORKTREE)/.*"
)
_REMOTE_TIMEOUT_S = 30.0
#: The position of a change in its file, and the ids of contents: both differ after a rebase.
_PLACED = re.compile(rb"^(?:@@ -\S+ \+\S+ @@.*|index .*)$", re.MULTILINE)
#: The lines around a change that must match, if the commit may be a later version of the pushed one.
_CONTEXT_LINES = 3
#: The most commits of a run that are compared with the remote's. Further ones are kept without comparison.
_COMPARED_MAX = 1_000
#: Refs that stay in the clone when the worktree is gone. No run looks for work in the stash.
_LASTING = ("refs/heads/", "refs/tags/", "refs/notes/", "refs/interlock/", "refs/stash")


class Commits:
    """The commits of one run's worktree."""

    def __init__(
        self,
        repository: GitRepository,
        clone: GitRepository,
        trace: Trace,
        *,
        baseline: Baseline | None,
        git_dir: Path | None,
    ) -> None:
        """`clone` asks the remotes, with the user's settings. `git_dir` is git's own directory for the
        worktree."""
        self._repository = repository
        self._clone = clone
        self._trace = trace
        self._git_dir = git_dir
        self._log = _read(git_dir / "logs" / "HEAD") if git_dir is not None else b""
        self._stash_before = set(baseline.stash) if baseline else set()
        self._git_files = frozenset(baseline.git_files) if baseline else frozenset()
        self._remotes = baseline.remotes if baseline else {}
        self._safe = [oid for oid in (trace.base, *(baseline.refs if baseline else ())) if oid]
        self._known = frozenset(self._safe)
        self._pushed: list[str] | None = None
        self._branch = f"refs/heads/{trace.branch}"

    @property
    def branch_tip(self) -> str | None:
        """The commit of the run's branch."""
        return self._refs.get(self._branch)

    def head(self) -> str | None:
        """The checked out commit; None if it is not a commit."""
        if self._git_dir is None:
            return self.branch_tip
        found = GitRepository.at(self._git_dir).run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return None if found.code else found.out.strip()

    def half_done(self) -> list[str]:
        """The commits of an unfinished merge, rebase or other command."""
        names = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "ORIG_HEAD")
        found = [_read(self._git_dir / name) for name in names] if self._git_dir is not None else []
        return self._commits(oid.decode() for text in found for oid in _OID.findall(text))

    def only_here(self, *, succeeded: bool) -> list[str]:
        """The commits that would be lost with the worktree or that the next run should get: the newest of
        each line.

        Commits of a run that succeeded stay on their branches.
        """
        own = [match["new"].decode() for match in _LOGGED.finditer(self._log) if not _arrived(match)]
        branch = self.branch_tip
        named = self._commits(self._named())
        wanted = self._commits([*own, *self._stashed(), *([branch] if branch else [])])
        kept = self._kept_before()
        lasting = [
            oid
            for ref, oid in self._refs.items()
            if ref != "refs/stash" and (succeeded or ref != self._branch)
        ]
        lines = self._without(wanted, [*kept, *(lasting if succeeded else ())])
        lines |= self._without([*named, *wanted], lasting)
        for oid in self._pushed_again(lines):
            del lines[oid]
        older = {parent for parents in lines.values() for parent in parents}
        return [oid for oid in lines if oid not in older]

    def is_safe(self, oid: str, *, but: Sequence[str]) -> bool:
        """Whether a commit existed before, is on a remote, or is below one of `but`."""
        return not self._without([oid], but)

    def odd(self) -> list[str]:
        """Foreign files in git's own directory, such as a second index, and refs that are not commits."""
        if self._git_dir is None:
            return []
        strange = [name for name in files_of(self._git_dir) if not _GITS.fullmatch(name)]
        refs = self._git_dir / "refs"
        files = [path for path in refs.rglob("*") if path.is_file()] if refs.is_dir() else []
        named = [(path, oid.decode()) for path in files for oid in _OID.findall(_read(path))]
        commits = set(self._commits(oid for _, oid in named))
        odd = [str(path.relative_to(self._git_dir)) for path, oid in named if oid not in commits]
        return odd + [f"{name} in git's own directory" for name in strange if name not in self._git_files]

    def _named(self) -> list[str]:
        """Every id in the files of the worktree's own git directory."""
        if self._git_dir is None:
            return []
        fetched = self._fetched()
        oids: dict[str, None] = {}
        for directory, names, files in os.walk(self._git_dir):
            names[:] = [name for name in names if name not in _NOT_SCANNED]
            for name in files:
                if name == "FETCH_HEAD" or name.startswith(("index", "sharedindex")):
                    continue
                oids |= {oid.decode(): None for oid in _OID.findall(_read(Path(directory, name)))}
        return [oid for oid in oids if oid not in fetched]

    def _fetched(self) -> set[str]:
        """The commits that the last fetch read from a remote of the clone."""
        assert self._git_dir is not None
        places = tuple(f" of {url.rstrip('/').removesuffix('.git')}" for url in self._remotes)
        lines = _read(self._git_dir / "FETCH_HEAD").decode(errors="replace").splitlines()
        return {line.split("\t", 1)[0] for line in lines if places and line.endswith(places)}

    def _stashed(self) -> list[str]:
        """The run's entries of the stash.

        All worktrees share one stash. An entry names the branch that it was made on. Without a branch, the
        newest entry is the run's if git reset this worktree to the entry's commit right afterwards.
        """
        if "refs/stash" not in self._refs:
            return []
        branches = {name.decode(errors="replace") for pair in _MOVED.findall(self._log) for name in pair}
        branches.add(str(self._trace.branch))
        own = []
        reset_to, reset_at_s = self._last_reset()
        for entry in stash_of(self._repository):
            match = _STASHED.match(entry.why)
            if match is None or entry.oid in self._stash_before:
                continue
            right_before = entry.onto == reset_to and 0 <= reset_at_s - entry.at_s <= _RESET_WITHIN_S
            if match[1] in branches:
                own.append(entry.oid)
            elif match[1] == "(no branch)" and right_before:
                own.append(entry.oid)
                reset_to = ""  # older ones are not ours
        return own

    def _last_reset(self) -> tuple[str, int]:
        """The commit that git last moved this worktree from, and when."""
        with contextlib.suppress(OSError):
            if self._git_dir is not None:
                found = self._git_dir / "ORIG_HEAD"
                return _read(found).decode(errors="replace").strip(), int(found.lstat().st_mtime)
        return "", 0

    def _without(self, oids: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
        """The commits of these lines that are neither safe nor in `known`, each with its parents."""
        lines = self._rev_list(oids, [*self._safe, *known])
        if lines and self._pushed is None:
            self._pushed = self._on_remotes()
            self._safe += self._pushed
            lines = self._rev_list(oids, [*self._safe, *known])
        return lines

    def _pushed_again(self, lines: dict[str, list[str]]) -> list[str]:
        """The commits among these that a remote has under another id, as after a rebase before the push.

        The changes must be identical to the byte, as git's patch ids ignore blanks. If HEAD itself is on the
        remote, the surrounding lines may differ: then the commit is an earlier version of a pushed one.
        """
        if not lines or not self._pushed or len(lines) > _COMPARED_MAX:
            return []
        there = self._rev_list(self._pushed, sorted(self._known))
        context = 0 if self.head() in there else _CONTEXT_LINES
        mine = self._signatures([oid for oid, parents in lines.items() if len(parents) == 1])
        signed = set(mine.values())
        theirs = [
            (oid, signature)
            for oid, signature in self._signatures([oid for oid in there if len(there[oid]) == 1]).items()
            if signature in signed
        ]
        changes = {(signature, self._change(oid, context)) for oid, signature in theirs}
        return [oid for oid, signature in mine.items() if (signature, self._change(oid, context)) in changes]

    def _signatures(self, oids: Sequence[str]) -> dict[str, str]:
        """The author, time and message of each commit: a rebase keeps all three."""
        if not oids:
            return {}
        form = "--format=%H%x00%an%x00%ae%x00%at%x00%B%x01"
        listed = self._repository.run(
            *("log", "--no-walk=unsorted", "--stdin", form),
            stdin="".join(f"{oid}\n" for oid in oids),
            output_max_bytes=LISTING_MAX_BYTES,
        )
        check("log", listed)
        rows = (row.lstrip("\n").partition("\0") for row in listed.out.split("\x01")[:-1])
        return {oid: signature for oid, _, signature in rows}

    def _change(self, oid: str, context_lines: int) -> bytes:
        """The change of a commit, without positions."""
        shown = self._repository.run(
            *("diff-tree", "-p", "--no-commit-id", "--no-renames", "--no-ext-diff", "--no-textconv"),
            *("--binary", "--full-index", f"--unified={context_lines}", oid),
            output_max_bytes=LISTING_MAX_BYTES,
        )
        check("diff-tree", shown)
        return _PLACED.sub(b"", shown.data)

    def _rev_list(self, oids: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
        if set(known).issuperset(oids):
            return {}
        wanted = "".join(f"{oid}\n" for oid in oids) + "".join(f"^{oid}\n" for oid in known)
        listed = self._repository.run(
            *("rev-list", "--topo-order", "--parents", "--ignore-missing", "--stdin"),
            stdin=wanted,
            output_max_bytes=LISTING_MAX_BYTES,
        )
        check("rev-list", listed)
        rows = (line.split() for line in listed.out.splitlines())
        return {row[0]: row[1:] for row in rows}

    def _on_remotes(self) -> list[str]:
        """The current commits of the clone's remotes. An unreachable remote proves nothing."""
        oids: list[str] = []
        for url, before in self._remotes.items():
            with contextlib.suppress(InterlockError):
                if effective(self._clone, url) != before:
                    continue
                answer = self._clone.run("ls-remote", "--quiet", "--", url, timeout_s=_REMOTE_TIMEOUT_S)
                oids += [line.split("\t")[0] for line in answer.out.splitlines() if not answer.code]
        return self._commits(oids)

    def _kept_before(self) -> list[str]:
        """Earlier salvage of this run, by a worker that died before it removed the worktree."""
        name = re.compile(rf"refs/interlock/salvaged?/{self._trace.run}(-\d+)?")
        return [oid for ref, oid in self._refs.items() if name.fullmatch(ref)]

    @cached_property
    def _refs(self) -> dict[str, str]:
        """The refs that stay in the clone when the worktree is gone, and the stash."""
        listed = self._repository.text("for-each-ref", "--format=%(objectname) %(refname)", *_LASTING)
        return {ref: oid for oid, ref in (line.split(" ", 1) for line in listed.splitlines())}

    def _commits(self, oids: Iterable[str]) -> list[str]:
        """The ids that are commits here, or tags of commits."""
        wanted = list(dict.fromkeys(oids))
        if self._known.issuperset(wanted):
            return wanted
        asked = "".join(f"{oid}^{{commit}}\n" for oid in wanted)
        found = self._repository.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked)
        check("cat-file", found)
        rows = (line.split(" ") for line in found.out.splitlines())
        return list(dict.fromkeys(row[0] for row in rows if row[1:] == ["commit"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stashed:
    """An entry of the stash: its base commit, time and message."""

    oid: str
    onto: str
    at_s: int
    why: str


def stash_of(repository: GitRepository) -> list[Stashed]:
    """The entries of the clone's stash."""
    listed = repository.run("log", "--walk-reflogs", "--format=%H%x00%P%x00%ct%x00%gs", "refs/stash", "--")
    rows = [line.split("\0") for line in listed.out.splitlines() if not listed.code]
    return [
        Stashed(oid=row[0], onto=row[1].partition(" ")[0], at_s=int(row[2]), why=row[3])
        for row in rows
        if len(row) == 4
    ]


def files_of(git_dir: Path) -> list[str]:
    """The files in git's own directory for a worktree, except mounted ones."""
    found = []
    mounted = {git_dir / name for name in mounts.below(git_dir)}
    for place, names, files in os.walk(git_dir):
        names[:] = [name for name in names if Path(place, name) not in mounted]
        links = [name for name in names if Path(place, name).is_symlink()]
        found += [os.path.relpath(Path(place, name), git_dir) for name in (*files, *links)]
    return sorted(found)


def _arrived(match: re.Match[bytes]) -> bool:
    return _ARRIVED.match(match["why"] or b"") is not None


def _read(path: Path) -> bytes:
    """The content of a file that the run may have written; empty if it is not a file."""
    try:
        return read_bytes(path, _FILE_MAX_BYTES)
    except (OSError, ValueError):
        return b""
