"""Which tool calls of an agent publish something: pushes, pull requests, comments.

A guard against mistakes, not against bad intent: it sees only commands that `actions.shellscript` sees. Work
that must not be published twice goes through `interlock push`, which the git server itself refuses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from interlock.actions.shellscript import commands

#: Options of git and gh before the subcommand that take the next word as their value.
_GIT_VALUES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
_GH_VALUES = frozenset({"-R", "--repo", "--hostname"})
_GH_NOUNS = frozenset(
    {"pr", "issue", "release", "label", "workflow", "run", "repo", "gist", "variable", "secret", "discussion"}
)
_READS = frozenset(
    {"list", "view", "status", "diff", "checks", "checkout", "clone", "watch", "download", "search", "get"}
)
#: How `gh api` gets a method, and what makes it write without one; a value may be in the same word.
_API_METHOD = re.compile(r"(?:--method|-i?X)(?:$|=?(.+))", re.DOTALL)
_API_WRITES = re.compile(r"-i?[fF].*|--(?:field|raw-field|input)(?:=.*)?", re.DOTALL)
_GITHUB_TOOLS = "mcp__github__"


def publishes(tool: str, given: Mapping[str, Any]) -> str:
    """The command by which a tool call publishes, such as `git push`; empty if none is known."""
    if tool.startswith(_GITHUB_TOOLS):
        verb = tool.removeprefix(_GITHUB_TOOLS)
        return "" if verb.partition("_")[0] in _READS else verb
    script = given.get("command")
    if not isinstance(script, str):
        return ""
    for command in commands(script):
        program = command.program
        name = program[0].rpartition("/")[2] if program else ""
        if name == "git" and _words(program[1:], _GIT_VALUES)[:1] == ["push"]:
            return "git push"
        if name == "gh" and (found := _gh(_words(program[1:], _GH_VALUES), program)):
            return found
    return ""


def _gh(words: list[str], program: list[str]) -> str:
    match words:
        case ["api", *_]:
            method = _method(program)
            writes = any(_API_WRITES.fullmatch(word) for word in program)
            return "gh api" if method.upper() not in ("", "GET") or (writes and not method) else ""
        case [noun, verb, *_] if noun in _GH_NOUNS and verb not in _READS:
            return f"gh {noun} {verb}"
        case _:
            return ""


def _method(program: list[str]) -> str:
    for word, after in pairwise([*program, ""]):
        if named := _API_METHOD.fullmatch(word):
            return named[1] or after
    return ""


def _words(arguments: list[str], with_value: frozenset[str]) -> list[str]:
    """The arguments without options."""
    found: list[str] = []
    skip = False
    for argument in arguments:
        if skip or argument.startswith("-"):
            skip = not skip and argument in with_value
        else:
            found.append(argument)
    return found
