"""Recipes: a `fleet.toml` and an `agent.sh` for each agent program, which work as they are.

The script gives the agent its item as a prompt, commits what the agent has changed, and pushes it. So the
agent needs no right but to edit files. The script is found beside `fleet.toml`, and need not be committed.
"""

from __future__ import annotations

from dataclasses import dataclass

SCRIPT = "agent.sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one agent program works without a person."""

    #: The program that must be on the PATH; None if the script itself is the agent.
    program: str | None
    #: The name of its worker, and so of its agent.
    worker: str
    #: The lines of the script that start it, with the prompt in $prompt.
    lines: str


RECIPES = {
    "claude": Recipe(
        program="claude",
        worker="claude",
        lines="""\
# Edits are accepted; a tool that would ask is refused. To let it run tests, add
#   --allowedTools "Bash(make test)"
claude -p "$prompt" --permission-mode acceptEdits < /dev/null
""",
    ),
    "codex": Recipe(
        program="codex",
        worker="codex",
        lines="""\
# It may change files in its working tree, and has no network.
codex exec --sandbox workspace-write --skip-git-repo-check "$prompt" < /dev/null
""",
    ),
    "copilot": Recipe(
        program="copilot",
        worker="copilot",
        lines="""\
# It may change files. To let it run tests, write --allow-tool='write, shell(make test)'.
copilot -p "$prompt" -s --no-ask-user --allow-tool='write' < /dev/null
""",
    ),
    "gemini": Recipe(
        program="gemini",
        worker="gemini",
        lines="""\
# Edits are accepted, the shell is not; --approval-mode yolo accepts all. If you have switched on
# Gemini's trusted folders, trust this repository first.
gemini -p "$prompt" --approval-mode auto_edit < /dev/null
""",
    ),
    "script": Recipe(
        program=None,
        worker="script",
        lines="""\
# Put your program here. Exit code 0 is done, 75 gives the item back, any other is a failed attempt.
printf '%s\\n' "$prompt"
""",
    ),
}

_FLEET = """\
# The workers of this repository: `interlock fleet up` runs them, and starts crashed ones again.
# Whoever clones this file must trust it before it runs: `interlock trust`, also after each change.
# All keys: docs/how-to/run-a-fleet.md of Interlock.

[workers.{worker}]
# A path is found beside this file, whether or not it is committed.
command = ["./{script}"]
# So many runs at once.
max = 2
{worktree}
#types = ["issue_triage"]
#labels = ["gpu"]
#lease = "5m"

# Variables of its commands. Keep secrets out of this file: what your shell exports is passed on.
#[workers.{worker}.environment]
#EXAMPLE = "value"
"""
_WORKTREE = """\
# Each run gets a git worktree of its own, so that two runs never edit the same files.
worktree = true"""
_NO_WORKTREE = """\
# In a git repository, give each run a working tree of its own.
worktree = false"""

_SCRIPT = """\
#!/bin/sh
# Works on one item: `interlock work` runs this under a lease, see fleet.toml.
# The exit code is the answer: 0 is done, 75 gives the item back, any other is a failed attempt.
set -eu

# The item, and what was said about it.
prompt=$(interlock --json show | python3 -c '
import json, os, sys
item = json.load(sys.stdin)["item"]
print("Work on this:", item["title"])
for message in json.load(open(os.environ["INTERLOCK_MESSAGES"])):
    print(message["author"], "says:", message["text"])
if item.get("lane"):
    print("It is about", item["lane"])
print("Change the files in this directory. Do not commit and do not push: that is done for you.")')

{lines}
# Keep what the agent has changed: on the remote, or without one on a branch of this clone. Only in
# a worktree of the run's own, so that nothing of yours is committed.
own=$(git rev-parse --git-dir 2> /dev/null || true)
if [ "$own" != "$(git rev-parse --git-common-dir 2> /dev/null || true)" ]; then
    git add --all
    title=$(printf '%s\\n' "$prompt" | sed -n '1s/^Work on this: //p')
    git diff --cached --quiet || git commit --quiet --message "$title"
    branch="agent/item-$INTERLOCK_ITEM"
    if git remote get-url origin > /dev/null 2>&1; then
        interlock push origin "HEAD:$branch"
    else
        git branch --force "$branch"
        echo "See git log $branch"
    fi
fi
"""


def fleet_file(recipe: Recipe, *, in_git: bool) -> str:
    """The content of `fleet.toml`. Worktrees need a git repository."""
    return _FLEET.format(worker=recipe.worker, script=SCRIPT, worktree=_WORKTREE if in_git else _NO_WORKTREE)


def script(recipe: Recipe) -> str:
    """The content of `agent.sh`."""
    return _SCRIPT.replace("{lines}", recipe.lines)
