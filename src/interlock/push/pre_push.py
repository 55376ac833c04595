"""The `pre-push` hook of a clone: it stops a plain `git push` of a run that lost its lease.

It is a safeguard, not a lock: `git push --no-verify` skips it, and a lease can be lost right after the check.
The server itself enforces only `interlock push`, which this hook lets through.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from interlock.core.errors import GitFailed
from interlock.git.plumbing import GitRepository
from interlock.settings.places import inside

#: The new name of a hook that was there before. It still runs, after ours.
KEPT_NAME = "pre-push.before-interlock"
_MARK = "# Installed by `interlock push --install-hook`."
_STATE_REFS = "refs/interlock/"


def install(repository: GitRepository) -> Path:
    """Install the hook, and keep an existing one. It is idempotent."""
    path = _place(repository)
    kept, fresh = path.with_name(KEPT_NAME), path.with_name(f"{path.name}.{os.getpid()}")
    made = [fresh]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not _is_ours(path):
            _check_untracked(repository, path)
            if kept.exists():
                raise GitFailed(
                    f"{kept} exists already, and {path.name} is another hook.",
                    "Merge both into one file and remove the other; then install again.",
                )
            made.append(kept)
            shutil.copy2(path, kept, follow_symlinks=False)  # not moved, so that there is always a hook
        with fresh.open("x") as file:
            file.write(_script())
        fresh.chmod(0o755)
        fresh.replace(path)
    except OSError as error:
        for path_made in made:
            path_made.unlink(missing_ok=True)
        raise GitFailed(f"{path} cannot be written: {error.strerror}.", "Check who owns it.") from None
    return path


def uninstall(repository: GitRepository) -> Path | None:
    """Remove the hook and restore the previous one; None if ours is not installed."""
    path = _place(repository)
    if not _is_ours(path):
        return None
    kept = path.with_name(KEPT_NAME)
    try:
        if kept.exists():
            kept.replace(path)
        else:
            path.unlink()
    except OSError as error:
        raise GitFailed(f"{path} cannot be removed: {error.strerror}.", "Check who owns it.") from None
    return path


def needs_no_check(lines: Iterable[str]) -> bool:
    """Whether the push in these lines from git is fenced or moves only refs of Interlock."""
    refs = [words[2] for line in lines if len(words := line.split()) == 4]
    ours = [ref.startswith(_STATE_REFS) for ref in refs]
    return any(ref.startswith((f"{_STATE_REFS}fence/", f"{_STATE_REFS}owner/")) for ref in refs) or all(ours)


def _place(repository: GitRepository) -> Path:
    """The file that git runs: below core.hooksPath if set, else in the clone for all its worktrees."""
    top = repository.run("rev-parse", "--show-toplevel")
    base = Path(top.out.strip()) if not top.code else repository.directory
    hooks = base / GitRepository(base).text("rev-parse", "--git-path", "hooks")
    inside(base, hooks / KEPT_NAME)
    return inside(base, hooks / "pre-push")


def _is_ours(path: Path) -> bool:
    try:
        return _MARK in path.read_text(errors="replace")
    except OSError:
        return False


def _check_untracked(repository: GitRepository, path: Path) -> None:
    if repository.run("ls-files", "--error-unmatch", "--", str(path)).code == 0:
        raise GitFailed(
            f"{path} belongs to the repository, so Interlock does not replace it.",
            f'Add this line to it: [ -z "$INTERLOCK_RUN" ] || {_command()} "$1" || exit',
        )


def _command() -> str:
    # -P: do not import a directory named interlock in the repository.
    return f"{shlex.quote(sys.executable)} -P -m interlock push --pre-push"


def _script() -> str:
    return f"""#!/bin/sh
{_MARK}
# A run that lost its lease does not push. The hook that was here before is beside this file and runs as well.
refs=$(cat)
refs_of_push() {{
    [ -z "$refs" ] || printf '%s\\n' "$refs"
}}
if [ -n "$INTERLOCK_RUN" ]; then
    refs_of_push | {_command()} "$1" || exit
fi
kept=$(dirname "$0")/{KEPT_NAME}
if [ -x "$kept" ]; then
    refs_of_push | "$kept" "$@" || exit
fi
"""
