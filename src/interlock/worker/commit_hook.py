"""Installs the hook that adds the run's name to its commits: `Interlock-Run: 7@STORE`.

Variables in the environment of a run's command point git to hooks in a directory of the run. Nothing in the
clone changes. Each hook there runs the user's own hook of the same name, wherever git would have found it
(`core.hooksPath`, husky, the clone), and returns its result. Ours adds one line to the message and never
blocks a commit: if it fails, the message is unchanged.

Not promised: the line in a commit of a program that drops its environment, or of git before 2.31. Rebased
commits keep their lines.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from interlock.core import trailers
from interlock.git.plumbing import GitRepository

#: The hooks that git may run in a clone. Those in the second line run often, so they are only passed on if
#: the user has one when the run begins.
_HOOKS = (
    *("applypatch-msg", "commit-msg", "post-applypatch", "post-checkout", "post-commit", "post-merge"),
    *("post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push"),
    *("pre-rebase", "prepare-commit-msg", "sendemail-validate"),
)
_FREQUENT = ("post-index-change", "reference-transaction")
_KEY = "core.hooksPath"
#: With `false` in git's configuration of the clone, commits get no line.
SETTING = "interlock.trailer"


def install(directory: Path, worktree: Path, git_dir: Path, trailer: trailers.Trailer) -> None:
    """Write the hooks of a run. `git_dir` is git's own directory for its worktree."""
    directory.mkdir()
    script = _script(directory, git_dir, trailer)
    users = worktree / GitRepository(worktree).text("rev-parse", "--git-path", "hooks")
    for name in (*_HOOKS, *(each for each in _FREQUENT if (users / each).exists())):
        hook = directory / name
        hook.write_text(script)
        hook.chmod(0o755)


def variables(directory: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which git finds these hooks, in addition to settings that already come this way."""
    n = int(environ.get("GIT_CONFIG_COUNT") or 0)
    return {
        "GIT_CONFIG_COUNT": str(n + 1),
        f"GIT_CONFIG_KEY_{n}": _KEY,
        f"GIT_CONFIG_VALUE_{n}": str(directory),
    }


def _script(directory: Path, git_dir: Path, trailer: trailers.Trailer) -> str:
    here, mine = shlex.quote(str(directory)), shlex.quote(os.path.realpath(git_dir))
    line = shlex.quote(f"{trailers.KEY}: {trailer}")
    return f"""#!/bin/sh
# Made by Interlock for one run. It runs the hook that git would have run without it.
name=${{0##*/}}
users_hook() {{
    n=0
    while [ "$n" -lt "${{GIT_CONFIG_COUNT:-0}}" ]; do
        eval "value=\\$GIT_CONFIG_VALUE_$n"
        [ "$value" != {here} ] || eval "export GIT_CONFIG_KEY_$n=interlock.hooks"
        n=$((n + 1))
    done
    found=$(git rev-parse --git-path hooks 2>/dev/null) || exit 0
    case $found in {here}|{here}/*) exit 0 ;; esac
    [ ! -x "$found/$name" ] || printf '%s\\n' "$found/$name"
}}
hook=$(users_hook)
case $name in
prepare-commit-msg|commit-msg) ;;
*)
    [ -n "$hook" ] || exit 0
    exec "$hook" "$@"
    ;;
esac
if [ -n "$hook" ]; then
    "$hook" "$@" || exit
fi
# Only commits of this worktree, with a message already, and not those that a rebase makes again.
git_dir=$(git rev-parse --absolute-git-dir 2>/dev/null) || exit 0
[ "$git_dir" = {mine} ] || exit 0
[ ! -d "$git_dir/rebase-merge" ] && [ ! -d "$git_dir/rebase-apply" ] || exit 0
grep -q '^[[:space:]]*[^#[:space:]]' "$1" 2>/dev/null || exit 0
grep -qxF {line} "$1" ||
    git interpret-trailers --in-place --no-divider --if-exists add --trailer {line} "$1" 2>/dev/null
exit 0
"""
