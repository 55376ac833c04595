"""Where things are: the root of a repository, the directory of git, and what Interlock keeps in both.

Whoever wrote a repository may have committed links. So every command that writes or deletes below its root
asks `inside` for the place first (ADR 0026).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from interlock.core.errors import NotTrusted
from interlock.settings import trust

#: In the root of a repository, or outside of one in any directory: the configuration and session locks.
DIRECTORY = ".interlock"
#: In the directory of git that all worktrees share, which `git clean` leaves alone: store and files of runs.
GIT_DIRECTORY = "interlock"
DATABASE_NAME = "interlock.db"
#: Files that SQLite keeps beside a database, by what it adds to the name.
BESIDE_DATABASE = ("-wal", "-shm", "-journal")
#: What Interlock writes below the root of a repository if the user names no other place.
WRITTEN = (
    *(f"{DIRECTORY}/{DATABASE_NAME}{more}" for more in ("", *BESIDE_DATABASE)),
    *(f"{DIRECTORY}/{name}" for name in ("git", "hooks", "locks", "logs", "runs", "spool", "worktrees")),
    *(f"{GIT_DIRECTORY}/{name}" for name in ("git", "logs", "runs", "spool")),  # of a bare repository
    ".claude/settings.json",
    ".github/workflows/agent.yml",
)


def here() -> Path:
    """The working directory, or its former path if it was deleted: such a run can still report."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/", os.environ.get("PWD", ""))


def run_log(home: Path, run: int) -> Path:
    """Where a worker of this host keeps what the command of a run writes."""
    return home / "logs" / f"run-{run}.log"


def make_home(directory: Path) -> None:
    """Make a directory for Interlock, if it is not there; git ignores `.interlock` by itself."""
    directory.mkdir(exist_ok=True)
    if directory.name == DIRECTORY:
        with contextlib.suppress(FileExistsError), (directory / ".gitignore").open("x") as ignore:
            ignore.write("*\n")  # not through a link, not even one that leads to nothing


def inside(root: Path, place: Path, environ: Mapping[str, str] | None = None) -> Path:
    """The place below the root of a repository where we are about to write, as it was given.

    Raises `NotTrusted` if a link leads from there out of the repository, and the user does not trust it. Not
    promised: anything about links that appear after this look.
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
    """The links on the way to a place that lead out of the repository or into git's directory, and where to.

    There are none if the place is not below the root, since then the user has named it, nor in a directory
    of git, that of this repository or of one below it: nothing is checked out there.
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
            top = real  # what is below it is not the repository's


def is_below(real: Path, top: Path) -> bool:
    """Whether a path without links is below another, and not in a directory of git, in whatever case."""
    return real.is_relative_to(top) and ".git" not in map(str.lower, real.parts[len(top.parts) :])


# -- git, as far as it says where things are --------------------------------------------------------
#
# Read from the file system, without git: that costs no process, and all users of a repository find the same
# place, also those for whom git refuses it (`safe.directory`) or whose environment names another (`GIT_DIR`).


def repository_root(directory: Path) -> Path:
    """The root of the git repository around `directory`, else `directory`; one for all worktrees."""
    place = worktree_root(directory)
    private, common = _git_directories(place)
    if private == common or common is None:
        return place  # also a submodule, which is a repository of its own
    return common.parent if common.name == ".git" else common


def common_directory(directory: Path) -> Path | None:
    """The directory of git that all worktrees of a repository share; None outside of a repository.

    Agents in several worktrees share one store there: else each of them would hold "the" lane of an issue.
    """
    return _git_directories(worktree_root(directory))[1]


def worktree_root(directory: Path) -> Path:
    """The root of the working tree around `directory`, or the bare repository around it, else `directory`."""
    directory = directory.absolute()
    around = (directory, *directory.parents)
    return next((p for p in around if (p / ".git").exists() or _is_git_directory(p)), directory)


def _git_directories(place: Path) -> tuple[Path | None, Path | None]:
    """The directory of git for one working tree, and the one that it shares with others."""
    git = place / ".git"
    try:
        if git.is_file():  # of a worktree or of a submodule
            prefix, _, pointer = git.read_text().partition(":")
            if prefix != "gitdir":
                return None, None
            private = (place / pointer.strip()).resolve(strict=True)
        elif git.is_dir() or _is_git_directory(place):
            private = (git if git.is_dir() else place).resolve()
            if private == place.resolve():
                return private, private  # a bare repository may have been committed into another, with links
        else:
            return None, None
        shared = private / "commondir"
        common = (private / shared.read_text().strip()).resolve(strict=True) if shared.is_file() else private
    except (OSError, ValueError):
        return None, None
    return private, common


def _is_git_directory(path: Path) -> bool:
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
