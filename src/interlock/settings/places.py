"""Paths: the root of a repository, the directory of git, and Interlock's files in both.

The authors of a repository may have committed links. So every command that writes or deletes below its root
first checks the path with `inside` (ADR 0026).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from interlock.core.errors import NotTrusted
from interlock.settings import trust

#: The directory of the configuration and session locks: in the root of a repository, or in any directory
#: outside of one.
DIRECTORY = ".interlock"
#: The directory of the store and the files of runs, in the directory of git that all worktrees share:
#: `git clean` does not touch it.
GIT_DIRECTORY = "interlock"
DATABASE_NAME = "interlock.db"
#: The suffixes of files that SQLite keeps beside a database.
BESIDE_DATABASE = ("-wal", "-shm", "-journal")
#: The paths that Interlock writes below the root of a repository, unless the user sets others.
WRITTEN = (
    *(f"{DIRECTORY}/{DATABASE_NAME}{more}" for more in ("", *BESIDE_DATABASE)),
    *(
        f"{DIRECTORY}/{name}"
        for name in ("fleets", "git", "hooks", "locks", "logs", "runs", "spool", "worktrees")
    ),
    *(
        f"{GIT_DIRECTORY}/{name}" for name in ("fleets", "git", "logs", "runs", "spool")
    ),  # of a bare repository
    ".claude/settings.json",
    ".github/workflows/agent.yml",
)


def here() -> Path:
    """The working directory, or its former path if it was deleted, so that a run there can still report."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/", os.environ.get("PWD", ""))


def run_log(home: Path, run: int) -> Path:
    """The log of a run's command, kept by a worker of this host."""
    return home / "logs" / f"run-{run}.log"


def make_home(directory: Path) -> None:
    """Create a directory for Interlock, if it is missing. A file in `.interlock` makes git ignore it."""
    directory.mkdir(exist_ok=True)
    if directory.name == DIRECTORY:
        with contextlib.suppress(FileExistsError), (directory / ".gitignore").open("x") as ignore:
            ignore.write("*\n")  # not through a link, not even a dangling one


def inside(root: Path, place: Path, environ: Mapping[str, str] | None = None) -> Path:
    """The given path below the root of a repository, checked before a write.

    Raises `NotTrusted` if a link leads from there out of the repository, and the user does not trust it. Not
    promised: protection from links that appear after this check.
    """
    for link, real in leading_out(root, place):
        if not trust.is_trusted(link, os.fsencode(real), os.environ if environ is None else environ):
            where = str(real) if str(real).isprintable() else ascii(str(real))
            raise NotTrusted(
                f"{link} leads to {where}, and you do not trust it yet.",
                "Remove the link; or, if it is yours, run interlock trust.",
            )
    return place


def leading_out(root: Path, place: Path) -> Iterator[tuple[Path, Path]]:
    """The links in a path that lead out of the repository or into git's directory, with their targets.

    There are none if the path is not below the root, because then the user has named it. There are also none
    in a directory of git, of this repository or one below it, because git checks out no files there.
    """
    parts = place.parts[len(root.parts) :] if place.is_relative_to(root) else ()
    if ".." in parts:
        return
    top, path = root.resolve(), root
    for part in parts:
        if part == ".git":
            return
        path /= part
        real = path.resolve()
        if not is_below(real, top):
            yield path, real
            top = real  # files below it are not part of the repository


def is_below(real: Path, top: Path) -> bool:
    """Whether a path without links is below another, and not in a directory of git, in upper or lower
    case."""
    return real.is_relative_to(top) and ".git" not in map(str.lower, real.parts[len(top.parts) :])


# -- paths of git -----------------------------------------------------------------------------------
#
# They are read from the file system, without git, which costs no process. So all users of a repository find
# the same path, even if git refuses it for them (`safe.directory`) or their environment sets another
# (`GIT_DIR`).


def repository_root(directory: Path) -> Path:
    """The root of the git repository around `directory`, else `directory`; one for all worktrees."""
    place = worktree_root(directory)
    private, common = _git_directories(place)
    if private == common or common is None:
        return place  # also a submodule, which is a separate repository
    return common.parent if common.name == ".git" else common


def common_directory(directory: Path) -> Path | None:
    """The directory of git that all worktrees of a repository share; None outside of a repository.

    Agents in several worktrees share one store there. Otherwise each of them could hold the lane of an issue.
    """
    return _git_directories(worktree_root(directory))[1]


def worktree_root(directory: Path) -> Path:
    """The root of the working tree around `directory`, or the bare repository around it, else `directory`."""
    directory = directory.absolute()
    around = (directory, *directory.parents)
    return next((p for p in around if (p / ".git").exists() or _is_git_directory(p)), directory)


def _git_directories(place: Path) -> tuple[Path | None, Path | None]:
    """The directory of git for one working tree, and the directory that it shares with others."""
    git = place / ".git"
    try:
        if git.is_file():  # in a worktree or a submodule
            prefix, _, pointer = git.read_text().partition(":")
            if prefix != "gitdir":
                return None, None
            private = (place / pointer.strip()).resolve(strict=True)
        elif git.is_dir() or _is_git_directory(place):
            private = (git if git.is_dir() else place).resolve()
            if private == place.resolve():
                return private, private  # a bare repository, with links, may have been committed into another
        else:
            return None, None
        shared = private / "commondir"
        common = (private / shared.read_text().strip()).resolve(strict=True) if shared.is_file() else private
    except (OSError, ValueError):
        return None, None
    return private, common


def _is_git_directory(path: Path) -> bool:
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
