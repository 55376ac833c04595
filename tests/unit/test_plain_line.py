"""A line that is read without typer means what typer would make of it; every other line is left to typer."""

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.cli import parser, plain_line
from interlock.cli.command import ENTRIES, Group
from interlock.cli.invocation import Invocation

TOP = parser.root()
BELOW = {name: TOP.get_command(None, name) for name in ENTRIES}
COMMANDS: dict[tuple[str, ...], Any] = {(name,): command for name, command in BELOW.items()} | {
    (noun, name): command
    for noun, group in BELOW.items()
    if isinstance(ENTRIES[noun].load(), Group)
    for name, command in group.commands.items()
}
#: With what typer takes for options and for the end of options.
VALUES = ("1", "7.9.ab", "-", "", "a b", "x=y", "install", "--", "-1", "-x", "--json")


def pieces(name: tuple[str, ...]) -> list[list[str]]:
    """Words that go together: an option with and without its value, an argument, an unknown option."""
    found = [["-h"], ["--no-such"], ["1"], ["7.9.ab"], ["a b"], ["--", "echo", "--json", "-x"]]
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            if option.startswith("-"):
                found += [[option], [f"{option}=v"], [option, "1"], [option, "-"], [option, "--json"]]
    return found + [[value] for value in VALUES]


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(sorted(COMMANDS)))
    before = st.lists(st.sampled_from([["--json"], ["--no-color"], ["--url", "u"], ["--url=u"]]), max_size=2)
    after = st.lists(st.sampled_from(pieces(name)), max_size=5)
    return [*chain(*draw(before)), *name, *chain(*draw(after))]


def read_by_typer(line: list[str]) -> tuple[dict[str, Any], Invocation] | None:
    """The values of a command and the global options, or None if typer refuses the line or answers itself."""
    call = Invocation()
    try:
        top = TOP.make_context("interlock", list(line), obj=call)
        name, command, rest = TOP.resolve_command(top, [*top._protected_args, *top.args])
        below = command.make_context(name, rest, parent=top)
        if below._protected_args:
            name, command, rest = command.resolve_command(below, [*below._protected_args, *below.args])
            below = command.make_context(name, rest, parent=below)
    except (parser.UsageError, SystemExit, RuntimeError):
        return None
    return below.params, call


def read_plainly(line: list[str]) -> tuple[dict[str, Any], Invocation, Any] | None:
    call = Invocation()
    found: Any = plain_line.read(line, call)
    return None if found is None else (found.keywords, call, found.func)


def function_of(line: list[str]) -> Any:
    words = iter(line)
    found = next(ENTRIES[word].load() for word in words if word in ENTRIES)
    if not isinstance(found, Group):
        return found
    return next((found.commands[word] for word in words if word in found.commands), found.alone)


def settled(function: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The values with those that were not given as the function has them."""
    code = function.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    given = {n: list(v) if isinstance(v, tuple) else v for n, v in values.items() if v not in ((), [])}
    before = code.co_varnames[code.co_argcount - len(function.__defaults__ or ()) : code.co_argcount]
    defaults = dict(zip(before, function.__defaults__ or (), strict=True)) | (function.__kwdefaults__ or {})
    return {n: given.get(n, defaults.get(n)) for n in names}


@given(lines())
def test_both_read_the_same(line: list[str]) -> None:
    plainly = read_plainly(line)
    if plainly is None:
        return
    by_typer = read_by_typer(line)
    assert by_typer is not None, f"typer refuses {line}"
    assert plainly[2] is function_of(line)
    assert settled(plainly[2], plainly[0]) == settled(plainly[2], by_typer[0])
    assert plainly[1].url == by_typer[1].url
    assert (plainly[1].out.json, plainly[1].out.color) == (by_typer[1].out.json, by_typer[1].out.color)


@pytest.mark.parametrize(
    "line",
    [
        "--json show 1",
        "show 1 --json",
        "next --agent a --type t --type u --limit=2",
        "--url sqlite:///x.db done 1.2.ab 3.4.cd --seen 3",
        "fail 1.2.ab --error text --no-retry",
        "hook",
        "add title --lane l:1 --label a --label b --message -",
        "events -f",
        "hold l:1 --if-held skip -- make --jobs 2",
        "work --agent a --max 3 -- sh -c true",
        "push origin HEAD:main",
        "plan show 1 --json",
        "agents set coder --max 2",
        "lanes --limit 5",
        "doctor",
        "hook install",
    ],
)
def test_what_agents_type_is_plain(line: str) -> None:
    assert read_plainly(line.split()) is not None


@pytest.mark.parametrize("noun", ["agents", "lanes", "plan", "pools", "session", "token", "workers"])
def test_a_noun_that_lists_does_so_as_ls_too(noun: str) -> None:
    """`list` is taken as well, and not shown."""
    alone, ls, other = (read_plainly([noun, *more]) for more in ([], ["ls"], ["list"]))
    assert alone is not None
    assert ls is not None
    assert other is not None
    assert (ls[0], ls[2]) == (other[0], other[2])
    assert read_by_typer([noun, "list"]) is not None
    assert "list" not in COMMANDS[noun,].commands


@pytest.mark.parametrize("name", sorted(COMMANDS), ids=" ".join)
def test_no_command_gives_a_global_option_a_second_meaning(name: tuple[str, ...]) -> None:
    spelled = [option for parameter in COMMANDS[name].params for option in parameter.opts]
    assert [option for option in ("--json", "--url", "--no-color") if spelled.count(option) != 1] == []


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "show --help",
        "next",
        "show 1 2",
        "done --seen",
        "github",
        "completion bash",
        "agents no-such",
        "hold -- nice make",
        "hold l:1 --",
        "hold l:1 nice -- make",
        "shwo 1",
        "show -- 1",
    ],
)
def test_what_is_not_plain_is_left_to_typer(line: str) -> None:
    assert read_plainly(line.split()) is None
