"""Reads a plain command line without typer, whose import costs more than most commands do.

A plain line has known options with values, arguments without a leading dash, nothing missing, nothing extra,
and a command to run only after `--`. Typer parses every other line and reports its mistakes. A test compares
the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

from interlock.cli.command import ALIASES, ENTRIES, Group
from interlock.cli.invocation import Invocation
from interlock.cli.typer import Argument, Context, Option

#: Nouns that work without a command below them. The others print their help, through typer.
ALONE = frozenset({"agents", "hook", "lanes", "plan", "pools", "session", "token", "workers"})
#: Words that need typer for all commands.
ABOUT_TYPER = frozenset({"completion"})
_EVERYWHERE = {"--json": bool, "--no-color": bool, "--url": str}


class _NotPlain(Exception):
    """Only typer can parse the line."""


def read(args: Sequence[str], call: Invocation) -> Callable[[], int] | None:
    """The call of a plain line, without its global options; None if the line is not plain."""
    words = iter(args)
    given: dict[str, Any] = {}
    try:
        name = _next_argument(words, _EVERYWHERE, given) or ""
        name = ALIASES.get(name, name)
        if name not in ENTRIES or name in ABOUT_TYPER:
            return None
        function, rest = _function(name, list(words))
        values = _values(function, rest, given)
    except _NotPlain:
        return None
    call.out.json = "--json" in given
    call.out.color = call.out.color and "--no-color" not in given
    call.url = given.get("--url")
    return partial(function, Context(call), **values)


def _function(name: str, rest: list[str]) -> tuple[Any, list[str]]:
    """The function of a command, or of one below a noun, and the words after its name."""
    found = ENTRIES[name].load()
    if not isinstance(found, Group):
        return found, rest
    if rest and (below := ALIASES.get(rest[0], rest[0])) in found.commands:
        return found.commands[below], rest[1:]
    if name not in ALONE:
        raise _NotPlain
    return found.alone, rest


class _Declared:
    """The declarations of a function: its options by name, its arguments, and the command that it runs."""

    def __init__(self, function: Any) -> None:
        self.kinds: dict[str, Any] = dict(_EVERYWHERE)
        self.names: dict[str, str] = {}
        self.arguments: list[tuple[str, Any]] = []
        self.to_run: str | None = None
        for parameter, hint in get_type_hints(function, include_extras=True).items():
            match get_args(hint):
                case (kind, Option(names=spelled)):
                    for name in spelled or (f"--{parameter.replace('_', '-')}",):
                        self.kinds[name], self.names[name] = kind, parameter
                case (_, Argument(more=more)) if str(more.get("metavar")).startswith("-- "):
                    self.to_run = parameter
                case (kind, Argument()):
                    self.arguments.append((parameter, kind))
                case _:
                    pass


def _values(function: Any, words: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """The values of a function's parameters, by name. Those of global options go to `given`."""
    declared = _Declared(function)
    values: dict[str, Any] = {}
    given_here: dict[str, Any] = {}
    typed: list[str] = []
    if declared.to_run is not None and "--" in words:
        at = words.index("--")
        words, values[declared.to_run] = words[:at], words[at + 1 :]
        if not values[declared.to_run]:
            raise _NotPlain
    ahead = iter(words)
    while (word := _next_argument(ahead, declared.kinds, given_here)) is not None:
        typed.append(word)
    for name, value in given_here.items():
        if name in declared.names:
            values[declared.names[name]] = value
        else:
            given[name] = value
    for parameter, kind in declared.arguments:
        if typed:
            values[parameter], typed = (typed, []) if _many(kind) else (typed[0], typed[1:])
    if typed or not _required(function) <= values.keys():
        raise _NotPlain
    return values


def _next_argument(words: Iterator[str], kinds: dict[str, Any], given: dict[str, Any]) -> str | None:
    """The next word that belongs to no option; the options before it go to `given`."""
    for word in words:
        if not word.startswith("-") or word == "-":
            return word
        name, equals, value = word.partition("=")
        kind = kinds.get(name)
        if kind is None or (kind is bool and equals):
            raise _NotPlain
        if kind is bool:
            given[name] = True
            continue
        if not equals:
            value = next(words, "--")
            if value.startswith("-") and value != "-":
                raise _NotPlain
        given[name] = [*given.get(name, ()), value] if _many(kind) else value
    return None


def _many(kind: Any) -> bool:
    return list in (get_origin(kind), *map(get_origin, get_args(kind)))


def _required(function: Any) -> set[str]:
    """The parameters without a default, but for the context."""
    code = function.__code__
    positional = code.co_varnames[1 : code.co_argcount - len(function.__defaults__ or ())]
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return {*positional, *(n for n in by_name if n not in (function.__kwdefaults__ or {}))}
