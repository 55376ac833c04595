"""Finds what a work tree has and a commit lacks: contents on disk and in the index, path by path.

`git status` is not used, as settings, index bits and filters decide what it shows. Instead the bytes of every
file on disk are compared with the commit, and the bytes themselves are kept. Git's conversions (line ends,
filters, LFS) are used only where a checkout restores exactly the same bytes.

A path is accounted for if it is untouched, in the commit, ignored, or kept. Every other path is left out and
named: a path that git cannot keep or that exceeds the limits, a mount point, and an inner repository, unless
it is a submodule whose whole content is proven to be on its remotes.

*Ignored* means ignored by the `.gitignore` files of a commit that is not the run's own: `ComparedTree.rules`.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from interlock.core.errors import GitFailed
from interlock.git.plumbing import LISTING_MAX_BYTES, GitRepository, GitResult
from interlock.worker.inventory import Baseline, Inventory, blob_id, link_target, take, tree_mode

FILE_MAX_BYTES, TOTAL_MAX_BYTES, FILES_MAX = 50 << 20, 200 << 20, 20_000
#: An entry of a tree: mode and id.
Entry = tuple[int, str]
GITLINK, LINK = 0o160000, 0o120000
#: The name of a mount point among the left out paths.
MOUNTED = "(a mount point)"

_TIMEOUT_S = 300.0
_EMPTY_BLOBS = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)
_STAGED = re.compile(r"(?P<tag>.) (?P<mode>\d+) (?P<oid>[0-9a-f]+) (?P<stage>\d)\t(?P<path>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTree:
    """A work tree, and the commits it is compared with."""

    #: Its directory; None if it is gone, and only git's own directory is left.
    path: Path | None
    #: The repository with its objects, and git's own directory for this work tree, if that exists.
    objects: Path
    git_dir: Path | None
    #: The checked out commit, the commit whose `.gitignore` files count, and other known commits.
    commit: str
    rules: str
    known: Sequence[str] = ()
    baseline: Baseline | None = None
    #: A directory for scratch files.
    scratch: Path


@dataclass(slots=True, kw_only=True)
class Changes:
    """The differences from the commit."""

    #: Different entries; None for a removed path.
    entries: dict[str, Entry | None] = field(default_factory=dict)
    #: Contents that exist only in the index.
    staged: dict[str, Entry] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    #: Not work, so not kept.
    ignored: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.entries or self.staged or self.left_out or self.empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    mode: int
    oid: str
    stage: int
    path: str
    #: Not checked out, by a sparse checkout.
    absent: bool


def tree_of(store: GitRepository, commit: str) -> dict[str, Entry]:
    """Every path of a commit."""
    listed = store.run(
        "ls-tree", "-r", "-z", "--full-tree", commit, timeout_s=_TIMEOUT_S, output_max_bytes=LISTING_MAX_BYTES
    )
    check("ls-tree", listed)
    tree = {}
    for entry in os.fsdecode(listed.data).split("\0")[:-1]:
        kind, _, path = entry.partition("\t")
        mode, _, oid = kind.split(" ")
        tree[path] = (int(mode, 8), oid)
    return tree


def find_changes(scope: ComparedTree, *, keep: bool = True) -> Changes:
    """Find what the work tree has and its commit lacks. With `keep`, the contents go to the object store."""
    return _Search(scope).changes(keep=keep)


class _Search:
    """One search of a work tree."""

    def __init__(self, scope: ComparedTree) -> None:
        self._scope = scope
        self._store = GitRepository.at(scope.objects, scope.path)
        self._found = take(scope.path) if scope.path is not None else Inventory()
        self._path = scope.path or scope.objects
        self._tree = tree_of(self._store, scope.commit)
        #: Trees of other known commits: their files are tracked, and their contents are safe.
        self._others = [
            tree_of(self._store, oid) for oid in dict.fromkeys(scope.known) if oid != scope.commit
        ]
        self._changes = Changes()
        self._index = self._read_index()
        self._tracked = self._tree.keys() | {entry.path for entry in self._index}
        self._tracked |= {path for tree in self._others for path in tree}
        self._links = {path for path, (mode, _) in self._tree.items() if mode == GITLINK}
        self._links |= {entry.path for entry in self._index if entry.mode == GITLINK}
        #: The contents of each changed file, before any conversion.
        self._raw: dict[str, str] = {}

    def changes(self, *, keep: bool) -> Changes:
        found, changes = self._found, self._changes
        self._find_changed()
        new = [path for path in (*self._raw, *found.odd) if path not in self._tracked]
        repositories = [path + "/" for path in found.repositories if path not in self._links]
        empty = [path + "/" for path in found.empty if self._is_new_directory(path)]
        ignored = self._ignored([*new, *repositories, *empty])
        changes.ignored = sorted(ignored)
        changes.left_out += [path for path in (*found.odd, *repositories) if path not in ignored]
        changes.left_out += [f"{path} {MOUNTED}" for path in found.mounted]
        changes.empty = [path for path in empty if path not in ignored]
        wanted = [path for path in self._raw if path not in ignored]
        self._keep(self._within_limits(wanted), keep=keep)
        for path in found.repositories:
            if path in self._links:
                self._look_into(path)
        self._look_into_modules()
        self._find_removed()
        self._find_staged()
        changes.left_out.sort()
        return changes

    def _find_changed(self) -> None:
        """Compare each file on disk with the commit, by its bytes."""
        scope, digits = self._scope, len(self._scope.commit)
        for path, status in self._found.files.items():
            if scope.baseline is not None and scope.baseline.untouched(path, status):
                continue
            if self._below_link(path):  # an index cannot hold it beside the submodule
                self._changes.left_out.append(path)
                continue
            if status.st_size > FILE_MAX_BYTES and path not in self._tree:
                self._raw[path] = ""
                continue
            try:
                oid = blob_id(self._path / path, digits=digits)
            except OSError:
                self._changes.left_out.append(path)
                continue
            if scope.baseline is not None and scope.baseline.had(path, oid):
                continue
            if self._tree.get(path) != (self._mode(path), oid):
                self._raw[path] = oid

    def _below_link(self, path: str) -> bool:
        return any(path.startswith(link + "/") for link in self._links)

    def _is_new_directory(self, path: str) -> bool:
        baseline = self._scope.baseline
        if path in self._links or (baseline is not None and path in baseline.empty):
            return False
        return not any(known.startswith(path + "/") for known in self._tracked)

    def _mode(self, path: str) -> int:
        status, baseline = self._found.files[path], self._scope.baseline
        committed = self._tree.get(path)
        if (
            committed
            and committed[0] != GITLINK
            and baseline is not None
            and baseline.same_mode(path, status)
        ):
            return committed[0]
        return tree_mode(status.st_mode)

    def _within_limits(self, paths: Sequence[str]) -> list[str]:
        """The paths to keep, tracked ones first. Paths over the limits are left out."""
        kept: list[str] = []
        total = 0
        for path in sorted(paths, key=lambda path: (path not in self._tracked, path)):
            size = self._found.files[path].st_size
            if size > FILE_MAX_BYTES or total + size > TOTAL_MAX_BYTES or len(kept) >= FILES_MAX:
                self._changes.left_out.append(path)
                continue
            kept.append(path)
            total += size
        return kept

    def _keep(self, paths: Sequence[str], *, keep: bool) -> None:
        """Make the entry of each path: as git would commit it if a checkout restores the bytes, else raw."""
        plain = [path for path in paths if self._mode(path) != LINK]
        cleaned = self._restored({path: oid for path, oid in self._cleaned(plain) if oid != self._raw[path]})
        raw = [path for path in paths if path not in cleaned]
        written = self._write(raw) if keep else {path: self._raw[path] for path in raw}
        for path in paths:
            oid = cleaned.get(path) or written.get(path)
            if oid is None:
                self._changes.left_out.append(path)
            elif self._tree.get(path) != (self._mode(path), oid):
                self._changes.entries[path] = (self._mode(path), oid)

    def _cleaned(self, paths: Sequence[str]) -> list[tuple[str, str]]:
        """The ids of files as git would commit them. A file whose filter fails is not among them."""
        if not paths:
            return []
        names = b"".join(_quoted(os.fsencode(path)) + b"\n" for path in paths)
        answer = self._git("hash-object", "-w", "--stdin-paths", stdin=names)
        if not answer.code:
            return list(zip(paths, answer.out.split(), strict=True))
        middle = len(paths) // 2
        return [*self._cleaned(paths[:middle]), *self._cleaned(paths[middle:])] if middle else []

    def _restored(self, cleaned: Mapping[str, str]) -> dict[str, str]:
        """The files for which a checkout restores the bytes on disk."""
        if not cleaned:
            return {}
        with _scratch(self._scope) as place:
            index = str(place / "index")
            lines = os.fsencode("".join(f"100644 {oid}\t{path}\0" for path, oid in cleaned.items()))
            self._git("update-index", "-z", "--index-info", stdin=lines, index=index)
            # A failing filter does not restore the files that it has not written.
            self._git("checkout-index", "--all", "--quiet", f"--prefix={place}/made/", index=index)
            restored = {}
            for path, oid in cleaned.items():
                with contextlib.suppress(OSError):
                    if blob_id(place / "made" / path, digits=len(oid)) == self._raw[path]:
                        restored[path] = oid
            return restored

    def _write(self, paths: Iterable[str]) -> dict[str, str]:
        """Put unconverted files and links into the object store, in one pack; returns the readable ones."""
        written = {}
        with tempfile.TemporaryFile() as stream:
            for path in paths:
                place = self._path / path
                with contextlib.suppress(OSError):
                    data = link_target(place) if self._mode(path) == LINK else place.read_bytes()
                    stream.write(b"blob\ndata %d\n%s\n" % (len(data), data))
                    written[path] = self._raw[path]
            if not written:
                return {}
            stream.write(b"done\n")
            imported = self._store.run("fast-import", "--quiet", "--done", stdin=stream, timeout_s=_TIMEOUT_S)
            check("fast-import", imported)
        wanted = "".join(f"{oid}\n" for oid in written.values())
        there = self._store.run("cat-file", "--batch-check=%(objecttype)", stdin=wanted)
        check("cat-file", there)
        kinds = there.out.split("\n")
        return {
            path: oid for (path, oid), kind in zip(written.items(), kinds, strict=False) if kind == "blob"
        }

    def _git(self, *args: str, stdin: bytes = b"", index: str | None = None) -> GitResult:
        """Run git at the work tree, without an index or with its own."""
        environ = {"GIT_INDEX_FILE": index or os.devnull}
        return self._store.run(*args, stdin=stdin, environ=environ, timeout_s=_TIMEOUT_S)

    # -- the index ------------------------------------------------------------------------------------

    def _read_index(self) -> list[_Staged]:
        scope = self._scope
        if scope.git_dir is None or not (scope.git_dir / "index").exists():
            return []
        listed = GitRepository.at(scope.git_dir, scope.path).run(
            "ls-files", "-z", "-t", "--stage", timeout_s=_TIMEOUT_S, output_max_bytes=LISTING_MAX_BYTES
        )
        if listed.code:
            self._changes.left_out.append("its index")
            return []
        matches = (_STAGED.fullmatch(entry) for entry in os.fsdecode(listed.data).split("\0")[:-1])
        return [
            _Staged(
                mode=int(match["mode"], 8),
                oid=match["oid"],
                stage=int(match["stage"]),
                path=match["path"],
                absent=match["tag"] in "Ss",
            )
            for match in matches
            if match is not None
        ]

    def _find_removed(self) -> None:
        """Find paths of the commit that are no longer on disk."""
        baseline, found = self._scope.baseline, self._found
        there = {entry.path for entry in self._index if not entry.absent}
        absent = {entry.path for entry in self._index if entry.absent}
        on_disk = {*found.files, *found.odd, *found.repositories, *found.mounted, *found.empty}
        #: Directories that could not be searched: their files may still exist.
        directories = (path + "/" for path in (*found.repositories, *found.mounted))
        hidden = tuple(name for name in (*found.odd, *directories) if name.endswith("/"))
        if self._scope.path is None or "/" in hidden or "./" in hidden:
            return
        for path in self._tree.keys() - on_disk - absent - self._changes.entries.keys():
            was_there = path in there or (baseline is not None and path in baseline.files)
            if was_there and not path.startswith(hidden):
                self._changes.entries[path] = None

    def _find_staged(self) -> None:
        """Find contents that were staged, and then changed or removed on disk."""
        for entry in self._index:
            kept = self._changes.entries.get(entry.path) or (0, "")
            same = (self._tree.get(entry.path), kept, *(tree.get(entry.path) for tree in self._others))
            known = {found[1] for found in same if found} | {self._raw.get(entry.path), *_EMPTY_BLOBS}
            # The first stage of a conflict is the common ancestor, made by git, not by the agent.
            if entry.oid not in known and entry.mode != GITLINK and entry.stage != 1:
                name = entry.path + (f"~stage{entry.stage}" if entry.stage else "")
                self._changes.staged[name] = (entry.mode, entry.oid)

    # -- ignored files --------------------------------------------------------------------------------

    def _ignored(self, paths: Sequence[str]) -> set[str]:
        """The paths that the repository's own rules ignore, found in an empty repository with only these
        rules."""
        if not paths:
            return set()
        rules = tree_of(self._store, self._scope.rules)
        files = {
            path: oid
            for path, (mode, oid) in rules.items()
            if _names_rules(path) and mode not in (LINK, GITLINK)
        }
        if not files:
            return set()
        with _scratch(self._scope) as place:
            for path, oid in files.items():
                target = place / path
                target.parent.mkdir(parents=True, exist_ok=True)
                blob = self._store.run("cat-file", "blob", oid)
                check("cat-file", blob)
                target.write_bytes(blob.data)
            git_dir = place / ".git"
            made = GitRepository(place).run(
                "-c", "init.templateDir=", "init", "--quiet", "--bare", str(git_dir)
            )
            check("init", made)
            asked = GitRepository.at(git_dir, place).run(
                *("-c", "core.bare=false", "-c", f"core.excludesFile={os.devnull}", "check-ignore"),
                *("--no-index", "-z", "--stdin"),
                stdin=os.fsencode("".join(f"./{path}\0" for path in paths)),  # :x alone would be a pathspec
                timeout_s=_TIMEOUT_S,
                output_max_bytes=LISTING_MAX_BYTES,
            )
            if asked.code not in (0, 1):
                raise GitFailed(f"git check-ignore failed: {asked.complaint}.", "")
            return {name.removeprefix("./") for name in os.fsdecode(asked.data).split("\0")[:-1]}

    # -- submodules -----------------------------------------------------------------------------------

    def _look_into(self, path: str) -> None:
        """Check a submodule: record its commit if all of it is proven to be elsewhere, else leave it out."""
        oid = self._proven(path)
        if oid is None:
            self._changes.left_out.append(path)
        elif self._tree.get(path) != (GITLINK, oid):
            self._changes.entries[path] = (GITLINK, oid)

    def _proven(self, path: str) -> str | None:
        scope = self._scope
        place = self._path / path
        git_dir = git_dir_of(place)
        if scope.git_dir is None or git_dir is None:
            return None
        if not git_dir.is_relative_to((scope.git_dir / "modules").resolve()):
            return None  # another repository in its place
        head = GitRepository.at(git_dir, place).run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if head.code or has_own_commits(git_dir, pinned=[oid for _, oid in self._links_known()]):
            return None
        oid = head.out.strip()
        inside = replace(
            scope,
            path=place,
            objects=git_dir,
            git_dir=git_dir,
            commit=oid,
            rules=oid,
            known=(),
            baseline=None,
        )
        return None if find_changes(inside, keep=False) else oid

    def _look_into_modules(self) -> None:
        """Check the repositories of submodules, also of those that are no longer checked out."""
        modules = self._scope.git_dir / "modules" if self._scope.git_dir is not None else None
        if modules is None or self._changes.left_out or not modules.is_dir():
            return
        pinned = [oid for _, oid in self._links_known()]
        for place, names, _ in os.walk(modules):
            if "objects" in names and has_own_commits(Path(place), pinned=pinned):
                self._changes.left_out.append(f"the repository {place}")

    def _links_known(self) -> list[Entry]:
        trees = self._others or [self._tree]
        return [entry for tree in trees for entry in tree.values() if entry[0] == GITLINK]


def has_own_commits(git_dir: Path, *, pinned: Sequence[str]) -> bool:
    """Whether a submodule's repository has a commit, perhaps stashed or dropped, that no remote has."""
    known = "".join(f"^{oid}\n" for oid in pinned)
    found = GitRepository.at(git_dir).run(
        *("rev-list", "-n", "1", "--ignore-missing", "--single-worktree", "--all", "--reflog"),
        *("--not", "--remotes", "--not", "--stdin"),
        stdin=known,
        timeout_s=_TIMEOUT_S,
    )
    return bool(found.code or found.out.strip())


def git_dir_of(place: Path) -> Path | None:
    """The git directory that the file `.git` names; None if it is no such file."""
    try:
        pointer = place / ".git"
        if pointer.is_symlink() or not pointer.is_file():
            return None
        name = pointer.read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    if not name.startswith("gitdir:"):
        return None
    return (place / name.removeprefix("gitdir:").strip()).resolve()


def _names_rules(path: str) -> bool:
    return path == ".gitignore" or path.endswith("/.gitignore")


def _quoted(path: bytes) -> bytes:
    """A path as one line for git, which unquotes a path that begins with a quote."""
    if not re.search(rb'[\x00-\x1f"\\]', path):
        return path
    return b'"' + re.sub(rb'[\x00-\x1f"\\]', lambda found: b"\\%03o" % found[0][0], path) + b'"'


@contextmanager
def _scratch(scope: ComparedTree) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=scope.scratch, prefix="scratch-") as name:
        yield Path(name)


def check(command: str, answer: GitResult) -> None:
    """Raise if git failed."""
    if answer.code:
        raise GitFailed(f"git {command} failed: {answer.complaint}.", "")
