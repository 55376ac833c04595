"""Where things are: the root of a repository, the directory of git, and what Interlock keeps in both."""

from __future__ import annotations

import os
from pathlib import Path

#: In the root of a repository, or outside of one in any directory: the configuration and session locks.
DIRECTORY = ".interlock"
#: In the directory of git that all worktrees share, which `git clean` leaves alone: store and files of runs.
GIT_DIRECTORY = "interlock"


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
    ignore = directory / ".gitignore"
    if directory.name == DIRECTORY and not ignore.exists():
        ignore.write_text("*\n")


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
        else:
            return None, None
        shared = private / "commondir"
        common = (private / shared.read_text().strip()).resolve(strict=True) if shared.is_file() else private
    except (OSError, ValueError):
        return None, None
    return private, common


def _is_git_directory(path: Path) -> bool:
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
