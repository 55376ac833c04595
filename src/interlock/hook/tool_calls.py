"""Which tool calls of an agent publish something: pushes, pull requests, comments.

This protects against mistakes, not against bad intent. It detects the commands that `actions.shellscript`
finds, and the tools of GitHub's MCP server by their names. `docs/reference/hook.md` lists what is detected
and what is not. An unclear call counts as publishing: while the lease is held, that costs one look at the
store. Work that must not be published twice goes through `interlock push`, which the git server itself can
refuse.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from interlock.actions.shellscript import SHELLS, commands, shell_text

#: A longer command is not parsed: it counts as publishing if it names one of the programs.
COMMAND_MAX_CHARS = 64 * 1024
_DEPTH_MAX = 5

#: Options before the subcommand that take the next word as their value.
_GIT_VALUES = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
)
_GH_VALUES = frozenset({"-R", "--repo", "--hostname"})
_JJ_VALUES = frozenset(
    {"-R", "--repository", "--at-operation", "--at-op", "--config", "--config-file", "--color"}
)
#: The git commands that send commits or patches; for some, the second word decides.
_GIT_SENDS = frozenset({"push", "send-pack", "http-push", "send-email"})
_GIT_PAIRS = frozenset({("lfs", "push"), ("subtree", "push"), ("svn", "dcommit"), ("p4", "submit")})
_HUB_WRITES = frozenset({"pull-request", "fork", "create", "delete"})
_HUB_PAIRS = frozenset(
    {("issue", "create"), ("issue", "update"), ("gist", "create")}
    | {("release", verb) for verb in ("create", "edit", "delete")}
)
_GH_NOUNS = frozenset(
    {"pr", "issue", "release", "label", "workflow", "run", "repo", "gist", "variable", "secret", "discussion"}
    | {"project", "cache", "agent-task"}
)
_READS = frozenset(
    {
        "list",
        "ls",
        "view",
        "status",
        "diff",
        "checks",
        "checkout",
        "clone",
        "watch",
        "download",
        "search",
        "get",
    }
    | {"set-default", "verify", "field-list", "item-list"}
)
#: The options of `gh api` that set the method, or that write without one. The value may be in the same word.
_API_METHOD = re.compile(r"(?:--method|-i?X)(?:$|=?(.+))", re.DOTALL)
_API_WRITES = re.compile(r"-i?[fF].*|--(?:field|raw-field|input)(?:=.*)?", re.DOTALL)
_PROGRAMS = frozenset({"git", "git-push", "git-send-pack", "gh", "hub", "jj"})
_NAMED = re.compile(r"\b(?:git|gh|hub|jj)\b")
#: Programs that do not run their arguments. Any other program may start a `git push` in its arguments.
_PRINTERS = """
    [ [[ : alias apropos awk basename case cat command complete cp declare diff dirname echo egrep export expr
    fgrep for function grep head help info jq less let local ls man mkdir more mv printf read readonly rg rm
    sed select set tail tee test touch tr type typeset unset wc whatis whereis which
"""
_STARTS_NOTHING = _PROGRAMS | frozenset(_PRINTERS.split())
#: Programs that run an argument with a space in it as a script.
_RUNS_TEXT = frozenset(
    {"env", "flock", "nix-shell", "parallel", "runuser", "script", "ssh", "su", "trap", "watch"}
)

#: The names of reading tools of GitHub's MCP server. All other tools count as writing.
_READING_TOOL = re.compile(r"(?:get|list|search|find|download)(?:_.*)?|(?!mark_).*_(?:read|get|list)")


def publishes(tool: str, given: Mapping[str, Any]) -> str:
    """The command by which a tool call publishes, such as `git push`; empty if none is known."""
    if tool.startswith("mcp__"):
        return _mcp(tool)
    script = given.get("command")
    if isinstance(script, list):
        script = shlex.join(map(str, script))
    return _in_script(script, depth=0) if isinstance(script, str) else ""


def _mcp(tool: str) -> str:
    """A tool of a server with GitHub in its name. People choose these names."""
    server, _, name = tool.removeprefix("mcp__").rpartition("__")
    return "" if "github" not in server.lower() or _READING_TOOL.fullmatch(name) else name


def _in_script(script: str, *, depth: int) -> str:
    if len(script) > COMMAND_MAX_CHARS or depth > _DEPTH_MAX:
        named = _NAMED.search(script)
        return f"{named[0]}, in a command too long to be read," if named else ""
    for command in commands(script):
        program = command.program
        if found := _published(program):
            return found
        for inner in _texts(program):
            if found := _in_script(inner, depth=depth + 1):
                return found
    return ""


def _published(program: Sequence[str]) -> str:
    """The publishing command in a program call: the program itself, or one that it starts."""
    if not program:
        return ""
    if _name(program[0]) in _STARTS_NOTHING:
        return _by_itself(program)
    found = ("a push" for first, second in pairwise(program[:2]) if "$" in first and second == "push")
    started = (_by_itself(program[at:]) for at in range(len(program)) if _name(program[at]) in _PROGRAMS)
    return next(filter(None, [*found, *started]), "")


def _texts(program: Sequence[str]) -> Iterator[str]:
    """The scripts among the arguments of a program that starts others."""
    name = _name(program[0]) if program else ""
    if name == "git":
        words = _words(program[1:], _GIT_VALUES)
        if words[:2] == ["submodule", "foreach"]:
            yield " ".join(words[2:])
    elif " " in name:  # a text that `env -S` splits
        yield program[0]
    elif name in _RUNS_TEXT:
        yield from (word for word in program[1:] if " " in word)
    elif name not in _STARTS_NOTHING | SHELLS:
        shells = [at for at, word in enumerate(program) if _name(word) in SHELLS]
        yield from shell_text(program[shells[0] :]) if shells else ()


def _by_itself(program: Sequence[str]) -> str:
    match _name(program[0]):
        case "git":
            return _git(_words(program[1:], _GIT_VALUES))
        case "hub":
            words = _words(program[1:], _GIT_VALUES | _GH_VALUES)
            writes = _HUB_WRITES.intersection(words[:1]) or tuple(words[:2]) in _HUB_PAIRS
            return f"hub {words[0]}" if writes else _git(words) or _api("hub", words, program)
        case "gh":
            return _gh(_words(program[1:], _GH_VALUES), program)
        case "jj":
            words = _words(program[1:], _JJ_VALUES)
            return "jj git push" if words[:2] == ["git", "push"] else ""
        case "git-push" | "git-send-pack" as name:
            return name
        case _:
            return ""


def _git(words: Sequence[str]) -> str:
    sends = _GIT_SENDS.intersection(words[:1])
    return (
        f"git {words[0]}" if sends else f"git {' '.join(words[:2])}" if tuple(words[:2]) in _GIT_PAIRS else ""
    )


def _gh(words: Sequence[str], program: Sequence[str]) -> str:
    match words:
        case ["label", "clone", *_]:
            return "gh label clone"
        case [noun, verb, *_] if noun in _GH_NOUNS and verb not in _READS:
            return f"gh {noun} {verb}"
        case _:
            return _api("gh", words, program)


def _api(client: str, words: Sequence[str], program: Sequence[str]) -> str:
    """A writing call of GitHub's API. For GraphQL: a call with a mutation, or with its query in a file."""
    if words[:1] != ["api"]:
        return ""
    method = _method(program).upper()
    fields = [word for word in program if _API_WRITES.fullmatch(word)]
    if words[1:2] == ["graphql"]:
        reads = any("query=" in word for word in program) and not any("mutation" in word for word in program)
        return "" if reads and not any("query=@" in word for word in program) else f"{client} api"
    return f"{client} api" if method not in ("", "GET") or (fields and not method) else ""


def _method(program: Sequence[str]) -> str:
    for word, after in pairwise([*program, ""]):
        if named := _API_METHOD.fullmatch(word):
            return named[1] or after
    return ""


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _words(arguments: Sequence[str], with_value: frozenset[str]) -> list[str]:
    """The arguments without options."""
    found: list[str] = []
    skip = False
    for argument in arguments:
        if skip or argument.startswith("-"):
            skip = not skip and argument in with_value
        else:
            found.append(argument)
    return found
