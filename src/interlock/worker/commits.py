"""Commits that only a worktree knows: those that its own git files name, and that nobody else has.

Git writes into the worktree's own directory what becomes of its HEAD: each commit, amended or dropped, the
rest of a rebase, a merge, a bisection. So every id in those files counts. A commit is safe if it was there
before the run, or if a remote of the clone has it now: it is asked, because tracking branches prove nothing.
A remote whose address leads elsewhere than before the run proves nothing either. After a rebase the remote
has the commit under another id, with the same author, message and change.

The run's *own* commits are those that its HEAD's log does not show as checked out, reset to or fast-forwarded
to: what others made is not handed on as its work.
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
from interlock.git.plumbing import LISTING_MAX_BYTES, Repository
from interlock.git.remotes import effective
from interlock.process.smallfile import read_bytes
from interlock.worker import mounts
from interlock.worker.changes import check
from interlock.worker.inventory import Baseline
from interlock.worker.rundirectory import Trace

_OID = re.compile(rb"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")
#: The log of HEAD: old and new id, who and when, and why.
_LOGGED = re.compile(rb"^[0-9a-f]+ (?P<new>[0-9a-f]+) [^\t\n]*(?:\t(?P<why>.*))?$", re.MULTILINE)
#: HEAD came to a commit that was there already.
_ARRIVED = re.compile(
    rb"(checkout: moving from|reset: moving to|rebase.*\((start|finish|abort)\)|rebase finished"
    rb"|.*: Fast-forward$)"
)
_MOVED = re.compile(rb"checkout: moving from (\S+) to (\S+)")
_STASHED = re.compile(r"(?:WIP on|On) (\(no branch\)|[^:]+):")
_FILE_MAX_BYTES = 64 << 20
#: How long after a stash its reset may come.
_RESET_WITHIN_S = 10
_NOT_SCANNED = ("modules", "objects")
#: What git itself writes into the directory that it has for a worktree.
_GITS = re.compile(
    r"HEAD|[A-Z_]+_(HEAD|MSG|EDITMSG|MODE|RR|AUTOSTASH|DESCRIPTION)|AUTO_MERGE|BISECT_[A-Z_]+|ADD_EDIT\.patch"
    r"|index|sharedindex\.[0-9a-f]+|config\.worktree|gitdir|commondir|locked|addp-hunk-edit\.diff|.*\.lock"
    r"|info/(sparse-checkout|exclude|attributes)|fsmonitor--daemon.*"
    r"|(logs|refs|modules|rebase-merge|rebase-apply|sequencer|NOTES_MERGE_WORKTREE)/.*"
)
_REMOTE_TIMEOUT_S = 30.0
#: What places a change in its file, and the contents' ids: both differ after a rebase.
_PLACED = re.compile(rb"^(?:@@ -\S+ \+\S+ @@.*|index .*)$", re.MULTILINE)
#: Lines around a change that must be the same, where the commit may be a later version of the pushed one.
_CONTEXT_LINES = 3
#: How many commits of a run are compared with the remote's; more are kept without.
_COMPARED_MAX = 1_000
#: Refs that stay in the clone when the worktree is gone. In the stash no run looks for work.
_LASTING = ("refs/heads/", "refs/tags/", "refs/notes/", "refs/interlock/", "refs/stash")


class Commits:
    """The commits of one run's worktree."""

    def __init__(
        self,
        repository: Repository,
        clone: Repository,
        trace: Trace,
        *,
        baseline: Baseline | None,
        git_dir: Path | None,
    ) -> None:
        """`clone` asks the remotes, with the user's settings; `git_dir` is git's own for the worktree."""
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
        """Where the run's branch is."""
        return self._refs.get(self._branch)

    def head(self) -> str | None:
        """What is checked out; None if that is no commit."""
        if self._git_dir is None:
            return self.branch_tip
        found = Repository.exactly(self._git_dir).run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return None if found.code else found.out.strip()

    def half_done(self) -> list[str]:
        """The commits that a merge, a rebase or another half-done command is about."""
        names = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "ORIG_HEAD")
        found = [_read(self._git_dir / name) for name in names] if self._git_dir is not None else []
        return self._commits(oid.decode() for text in found for oid in _OID.findall(text))

    def only_here(self, *, succeeded: bool) -> list[str]:
        """What would be lost with the worktree, and what the next run shall know of: the newest of each line.

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
        """Whether a commit was there before, or is on a remote or below one of `but`."""
        return not self._without([oid], but)

    def odd(self) -> list[str]:
        """What is not git's in git's own directory, as a second index; and refs that are no commits."""
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
        """What the last fetch read from a remote of the clone."""
        assert self._git_dir is not None
        places = tuple(f" of {url.rstrip('/').removesuffix('.git')}" for url in self._remotes)
        lines = _read(self._git_dir / "FETCH_HEAD").decode(errors="replace").splitlines()
        return {line.split("\t", 1)[0] for line in lines if places and line.endswith(places)}

    def _stashed(self) -> list[str]:
        """Entries of the stash that the run has made.

        All worktrees share one stash. An entry names the branch that it was made on. Made on none, the newest
        is the run's if git has reset this worktree, to the commit that it was made on, right after it.
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
                reset_to = ""  # older ones are another's
        return own

    def _last_reset(self) -> tuple[str, int]:
        """The commit that git last moved this worktree from, and when."""
        with contextlib.suppress(OSError):
            if self._git_dir is not None:
                found = self._git_dir / "ORIG_HEAD"
                return _read(found).decode(errors="replace").strip(), int(found.lstat().st_mtime)
        return "", 0

    def _without(self, oids: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
        """The commits of these lines that are not safe and not in `known`, each with its parents."""
        lines = self._rev_list(oids, [*self._safe, *known])
        if lines and self._pushed is None:
            self._pushed = self._on_remotes()
            self._safe += self._pushed
            lines = self._rev_list(oids, [*self._safe, *known])
        return lines

    def _pushed_again(self, lines: dict[str, list[str]]) -> list[str]:
        """Those of these commits that a remote has under another id, as a rebase before the push leaves them.

        The changes must be the same to the letter: patch ids of git ignore blanks. If HEAD itself is on the
        remote, its neighbours may have changed: then the commit is an earlier version of a pushed one.
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
        """Who made each commit, when and why: a rebase keeps all three."""
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
        """What a commit changes, without where."""
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
        """What the remotes of the clone have now. A remote that does not answer proves nothing."""
        oids: list[str] = []
        for url, before in self._remotes.items():
            with contextlib.suppress(InterlockError):
                if effective(self._clone, url) != before:
                    continue
                answer = self._clone.run("ls-remote", "--quiet", "--", url, timeout_s=_REMOTE_TIMEOUT_S)
                oids += [line.split("\t")[0] for line in answer.out.splitlines() if not answer.code]
        return self._commits(oids)

    def _kept_before(self) -> list[str]:
        """What was already kept of this run, by a worker that died before it had removed the worktree."""
        name = re.compile(rf"refs/interlock/salvaged?/{self._trace.run}(-\d+)?")
        return [oid for ref, oid in self._refs.items() if name.fullmatch(ref)]

    @cached_property
    def _refs(self) -> dict[str, str]:
        """The refs that stay in the clone when the worktree is gone, and the stash."""
        listed = self._repository.text("for-each-ref", "--format=%(objectname) %(refname)", *_LASTING)
        return {ref: oid for oid, ref in (line.split(" ", 1) for line in listed.splitlines())}

    def _commits(self, oids: Iterable[str]) -> list[str]:
        """Those that are commits here, or tags of commits."""
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
    """An entry of the stash: the commit that it was made on, when, and what it says."""

    oid: str
    onto: str
    at_s: int
    why: str


def stash_of(repository: Repository) -> list[Stashed]:
    """The entries of the clone's stash."""
    listed = repository.run("log", "--walk-reflogs", "--format=%H%x00%P%x00%ct%x00%gs", "refs/stash", "--")
    rows = [line.split("\0") for line in listed.out.splitlines() if not listed.code]
    return [
        Stashed(oid=row[0], onto=row[1].partition(" ")[0], at_s=int(row[2]), why=row[3])
        for row in rows
        if len(row) == 4
    ]


def files_of(git_dir: Path) -> list[str]:
    """The files in git's own directory for a worktree, but for what is mounted there."""
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
    """A file that the run may have put there; nothing if it is none."""
    try:
        return read_bytes(path, _FILE_MAX_BYTES)
    except (OSError, ValueError):
        return b""
