"""The workflow that `interlock actions init` writes, in two styles.

The texts are in the `.yml` files beside this module. This module fills in the differences.
"""

from __future__ import annotations

import re
from enum import StrEnum
from importlib import resources
from textwrap import dedent, indent

from interlock.core.errors import InvalidInput
from interlock.core.names import check_text

COMMAND_MAX_BYTES = 16 * 1024
INSTALL_MAX_BYTES = 2 * 1024
DIRECTORY_MAX_BYTES = 200
#: A script in the repository, so that the workflow favours no agent.
DEFAULT_COMMAND = "bash .github/agent.sh"

#: The workflow, and the first steps of both jobs.
_TEMPLATE, _SETUP = "agent_workflow.yml", "setup_steps.yml"
_COMMAND_INDENT = " " * 12


class Style(StrEnum):
    """What happens to an event whose number has an active run."""

    QUEUE = "queue"
    CANCEL = "cancel"


_CONCURRENCY = {
    Style.QUEUE: "      queue: max",
    Style.CANCEL: "      cancel-in-progress: ${{ github.event_name != 'schedule' }}",
}
_WAITING = {
    Style.QUEUE: """\
# - `queue: max` lets up to 100 events wait for their number, and each of them runs. Without it GitHub lets
#   only one wait, and drops that one when another comes.""",
    Style.CANCEL: """\
# - `cancel-in-progress` ends the run at work when a newer event comes for its number. Only the newest runs to
#   its end, so the agent must read the whole conversation and not just the event that woke it. Scheduled
#   runs are not cancelled.""",
}


#: The state's working tree is beside the agent's, so that the agent's branch and the state are pushed
#: separately.
_STATE = """\
# What agents know of all numbers is on the default branch, in $STATE. Keep one file for each number: runs on
# other numbers push there too, and files of their own never conflict.
git remote set-head origin --auto > /dev/null
kept="$(mktemp -d "${RUNNER_TEMP:-/tmp}/kept-XXXXXX")"
git worktree prune
git worktree add --quiet --detach "$kept" origin/HEAD
mkdir -p "$kept/@DIRECTORY@"
export STATE="$kept/@DIRECTORY@"
"""
_KEEP = """\
# A run that failed keeps nothing. If others pushed first, the commit is rebased and pushed again.
git -C "$kept" add --all -- "@DIRECTORY@"
git -C "$kept" diff --cached --quiet || git -C "$kept" commit --quiet --message "Keep the state of $LANE"
if [ -n "$(git -C "$kept" rev-list --max-count=1 HEAD --not --remotes)" ]; then
  cd "$kept"
  default="$(git rev-parse --abbrev-ref origin/HEAD)"
  interlock push origin "HEAD:${default#origin/}"
fi
"""


def agent_workflow(style: Style, command: str, install: str, *, state: str | None = None) -> str:
    """The text of the workflow.

    `command` is inserted into a shell script unchanged. `install` is the arguments of `pip install`; a
    variable of the repository can override them. `state` is a directory on the default branch that runs keep.
    """
    directory = None if state is None else _directory(state)
    text = template(_TEMPLATE)
    for mark, value in (
        ("@STYLE@", style.value),
        ("@WAITING@", _WAITING[style]),
        ("@CONCURRENCY@", _CONCURRENCY[style]),
        ("@SETUP@", setup_steps(install)),
        ("@STATE@", _kept(_STATE, directory)),
        ("@KEEP@", _kept(_KEEP, directory)),
        # Last, because users' texts may contain the other marks.
        ("@COMMAND@", indent(_checked(command), _COMMAND_INDENT)),
    ):
        text = text.replace(mark, value)
    return text


def setup_steps(install: str) -> str:
    """The steps that install Interlock."""
    return template(_SETUP).rstrip().replace("@INSTALL@", _words(install))


def template(name: str) -> str:
    """A text beside this module."""
    return resources.files("interlock.actions").joinpath(name).read_text("utf-8")


def _words(install: str) -> str:
    words = " ".join(check_text("install", install, INSTALL_MAX_BYTES).split())
    if not words:
        raise InvalidInput(
            "The source to install is empty.", "Name a path, an address with a commit, or a file of pins."
        )
    if any(c in "\"'\\{}$" or not c.isprintable() for c in words):
        raise InvalidInput(
            "The source to install has a quote, a brace, a dollar or a control character; none is allowed.",
            "Write the arguments of pip install, such as git+https://HOST/interlock@COMMIT.",
        )
    return words


def _directory(state: str) -> str:
    """A directory of the repository, quoted for a script."""
    name = check_text("state", state, DIRECTORY_MAX_BYTES).strip("/")
    parts = name.split("/")
    if not re.fullmatch(r"[\w./-]+", name, re.ASCII) or {"", ".", "..", ".git"} & {*parts} or name[0] == "-":
        raise InvalidInput(
            f"The state cannot be kept in {state}.",
            "Name a directory of the repository, as in .agent/state; letters, digits, dots and - _ only.",
        )
    return name


def _kept(lines: str, directory: str | None) -> str:
    if directory is None:
        return ""
    return indent(lines.replace("@DIRECTORY@", directory), _COMMAND_INDENT)


def _checked(command: str) -> str:
    command = dedent(check_text("agent command", command, COMMAND_MAX_BYTES)).strip()
    if not command:
        raise InvalidInput("The agent command is empty.", f"The default is {DEFAULT_COMMAND}.")
    if any(not c.isprintable() and c not in "\n\t" for c in command):
        raise InvalidInput(
            "The agent command has a control character.", "Put it into a script and name the script."
        )
    if "${{" in command:
        raise InvalidInput(
            "The agent command has ${{ in it, which GitHub would fill in before the shell reads it.",
            "Let the agent read $GITHUB_EVENT_PATH: a stranger's text must not become part of a script.",
        )
    return command
