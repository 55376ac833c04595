"""The inventory of a worktree: every path on disk, and whether it is untouched.

It is taken twice: after the checkout, before the command starts (the baseline), and when the run has ended.
A file in the baseline with unchanged times, size and inode is not the command's work. A file that was written
less than two seconds before the newest one of the baseline is compared by its contents, as the clocks of file
systems are coarse.

Paths are relative and in Python's form, so bytes that are not text survive. Links are not followed: a link is
its target's name. Mount points are not searched, as their files do not belong to the run.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from hashlib import new as new_hash
from pathlib import Path
from typing import Self

from interlock.process.smallfile import read_bytes
from interlock.worker import mounts

#: The coarsest clock of a file system, and how much is read at once.
_COARSE_NS, _PIECE_BYTES = 2_000_000_000, 1 << 20
_BASELINE_MAX_BYTES = 1 << 30
_GIT = ".git"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The contents below a directory."""

    #: Plain files and symbolic links.
    files: dict[str, os.stat_result] = field(default_factory=dict)
    #: Sockets, FIFOs, devices, directories that cannot be read, and names that git keeps for itself.
    odd: list[str] = field(default_factory=list)
    #: Directories with a repository of their own. Nothing in them is listed.
    repositories: list[str] = field(default_factory=list)
    #: Mount points, also those in such directories.
    mounted: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def take(root: Path) -> Inventory:
    """Look at everything below `root` but its own `.git`."""
    found = Inventory(mounted=mounts.below(root))
    todo = [] if "." in found.mounted else [""]
    while todo:
        directory = todo.pop()
        try:
            with os.scandir(root / directory) as listed:
                entries = [entry for entry in listed if directory or entry.name != _GIT]
        except OSError:
            found.odd.append(directory + "/")
            continue
        if any(entry.name == _GIT for entry in entries):
            found.repositories.append(directory)
            continue
        if directory and not entries:
            found.empty.append(directory)
        todo += _sort(found, directory, entries)
    return found


def _sort(found: Inventory, directory: str, entries: Iterable[os.DirEntry[str]]) -> list[str]:
    """Sort the entries of a directory by kind; returns its directories."""
    deeper = []
    for entry in entries:
        path = f"{directory}/{entry.name}" if directory else entry.name
        if path in found.mounted:
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            found.odd.append(path)
            continue
        if entry.name.lower() == _GIT:  # git accepts no spelling of .GIT, on any system
            found.odd.append(path)
        elif stat.S_ISDIR(status.st_mode):
            deeper.append(path)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            found.files[path] = status
        else:
            found.odd.append(path)
    return deeper


def blob_id(path: Path, *, digits: int) -> str:
    """The id that git would give to the unconverted bytes of a file. Raises `OSError` if it is unreadable."""
    digest = new_hash("sha1" if digits == 40 else "sha256", usedforsecurity=False)
    if path.is_symlink():
        target = link_target(path)
        digest.update(b"blob %d\0" % len(target) + target)
        return digest.hexdigest()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        digest.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def link_target(path: Path) -> bytes:
    """The target of a symbolic link."""
    return os.fsencode(os.readlink(path))  # noqa: PTH115  (a Path would change the spelling)


def tree_mode(st_mode: int) -> int:
    """Git's mode for a plain file or a link."""
    if stat.S_ISLNK(st_mode):
        return 0o120000
    return 0o100755 if st_mode & stat.S_IXUSR else 0o100644


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The state of a worktree at the start of its run."""

    #: Device and inode of its directory, and git's own directory for it.
    root: tuple[int, int]
    admin: str
    #: For each path its mode, size, times and inode; also its id if the commit lacks the path.
    files: dict[str, list[int | str]]
    empty: list[str]
    #: When the newest file was changed.
    newest_ns: int
    #: The refs and the stash of the clone, and where git went for each address of its remotes.
    refs: list[str]
    stash: list[str]
    remotes: dict[str, str]
    #: The files in git's own directory for it: a hook may have put some there.
    git_files: list[str] = field(default_factory=list)
    #: Other entries in the folder of worktrees.
    beside: list[str] = field(default_factory=list)

    def untouched(self, path: str, status: os.stat_result) -> bool:
        """Whether a file is certainly unchanged since the checkout, by its times."""
        known = self.files.get(path)
        settled = status.st_ctime_ns < self.newest_ns - _COARSE_NS
        return known is not None and settled and known[:5] == _signature(status)

    def had(self, path: str, oid: str) -> bool:
        """Whether a file that the commit lacks was there, with the same contents."""
        known = self.files.get(path)
        return known is not None and known[5:] == [oid]

    def same_mode(self, path: str, status: os.stat_result) -> bool:
        """Whether a path's mode is unchanged. Some file systems cannot store the commit's mode."""
        known = self.files.get(path)
        return known is not None and tree_mode(int(known[0])) == tree_mode(status.st_mode)

    def write(self, path: Path) -> None:
        """Write the baseline atomically."""
        draft = path.with_name(f".{path.name}")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read a baseline; None if it is incomplete or damaged."""
        try:
            values = json.loads(read_bytes(path, _BASELINE_MAX_BYTES))
            # An older version wrote only a list of addresses, which proves nothing.
            remotes = values["remotes"] if isinstance(values["remotes"], dict) else {}
            return cls(**{**values, "root": tuple(values["root"]), "remotes": remotes})
        except (OSError, ValueError, TypeError, KeyError):
            return None


def signatures(
    root: Path, found: Inventory, committed: Iterable[str], *, digits: int
) -> dict[str, list[int | str]]:
    """The files of a baseline. Files added by a hook get the id of their contents."""
    tracked = set(committed)
    files: dict[str, list[int | str]] = {}
    for path, status in found.files.items():
        files[path] = _signature(status)
        if path not in tracked:
            files[path].append(blob_id(root / path, digits=digits))
    return files


def _signature(status: os.stat_result) -> list[int | str]:
    return [status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
