"""The workflow that `interlock actions init` writes, in two styles.

The texts are in the `.yml` files beside this module; this module fills in what differs.
"""

from __future__ import annotations

import json
from enum import StrEnum
from importlib import resources
from textwrap import dedent, indent

from interlock.core.errors import InvalidInput
from interlock.core.names import check_text

COMMAND_MAX_BYTES = 16 * 1024
INSTALL_MAX_BYTES = 2 * 1024
#: A script of the repository's own, so that the workflow favours no agent.
DEFAULT_COMMAND = "bash .github/agent.sh"

#: The second one is the steps that both jobs begin with.
_TEMPLATE, _SETUP = "agent_workflow.yml", "setup_steps.yml"
_COMMAND_INDENT = " " * 12
_INSTALL_INDENT = " " * 10


class Style(StrEnum):
    """What happens to an event whose number has a run at work."""

    QUEUE = "queue"
    CANCEL = "cancel"


_CONCURRENCY = {Style.QUEUE: "      queue: max", Style.CANCEL: "      cancel-in-progress: true"}
_WAITING = {
    Style.QUEUE: """\
# - `queue: max` lets up to 100 events wait for their number, and each of them runs. Without it GitHub lets
#   only one wait, and drops that one when another comes.""",
    Style.CANCEL: """\
# - `cancel-in-progress: true` ends the run at work when a newer event comes for its number. Only the newest
#   runs to its end, so the agent must read the whole conversation and not just the event that woke it.""",
}


#: Only the owner of a repository knows where its Interlock comes from. A plain name would come from a public
#: index, where it may be anybody's, and the installed code runs with the rights of the job.
_INSTALL_FROM_VARIABLE = """\
# What to install: the words behind `pip install`. No default, for this code gets the rights of the job.
INSTALL: ${{ vars.INTERLOCK_INSTALL }}"""


def agent_workflow(style: Style, command: str, install: str | None) -> str:
    """The text of the workflow.

    `command` goes into a shell script unchanged. `install` is the arguments of `pip install`; without it the
    workflow reads a variable of the repository, and fails while that is empty.
    """
    text = _part(_TEMPLATE)
    for mark, value in (
        ("@STYLE@", style.value),
        ("@WAITING@", _WAITING[style]),
        ("@CONCURRENCY@", _CONCURRENCY[style]),
        ("@SETUP@", _part(_SETUP).rstrip()),
        ("@INSTALL@", indent(_installed(install), _INSTALL_INDENT)),
        # Last: what people write may contain any of the other marks.
        ("@COMMAND@", indent(_checked(command), _COMMAND_INDENT)),
    ):
        text = text.replace(mark, value)
    return text


def _part(name: str) -> str:
    return resources.files("interlock.actions").joinpath(name).read_text("utf-8")


def _installed(install: str | None) -> str:
    if install is None:
        return _INSTALL_FROM_VARIABLE
    words = " ".join(check_text("install", install, INSTALL_MAX_BYTES).split())
    if not words:
        raise InvalidInput(
            "What to install is empty.", "Name a path, an address with a commit, or a file of pins."
        )
    if any(c in "\"'\\{}$" or not c.isprintable() for c in words):
        raise InvalidInput(
            "What to install has a quote, a brace, a dollar or a control character, which are not allowed.",
            "Write the arguments of pip install, such as git+https://HOST/interlock@COMMIT.",
        )
    return f"INSTALL: {json.dumps(words, ensure_ascii=False)}"


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
