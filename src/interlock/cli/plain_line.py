"""Reads a plain command line of a command that agents call often, without typer.

Plain is: known options with their values, arguments that begin with no dash, nothing missing and nothing too
much. Any other line is typer's, which also says what is wrong with it. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

from interlock.cli.command import ENTRIES, Group
from interlock.cli.invocation import Invocation
from interlock.cli.typer import Argument, Context, Option

OFTEN = frozenset(
    (
        *("add", "next", "renew", "done", "fail", "release", "inbox", "msg", "hook"),
        *("ls", "show", "why", "events", "cancel", "retry"),
    )
)
_EVERYWHERE = {"--json": bool, "--no-color": bool, "--url": str}


class _NotPlain(Exception):
    """Only typer can read the line."""


def read(args: Sequence[str], call: Invocation) -> Callable[[], int] | None:
    """The call that a plain line means, its global options taken; None if the line is not plain."""
    words = iter(args)
    given: dict[str, Any] = {}
    try:
        name = _next_argument(words, _EVERYWHERE, given)
        if name not in OFTEN:
            return None
        found = ENTRIES[name].load()
        function = found.alone if isinstance(found, Group) else found
        values = _values(function, words, given)
    except _NotPlain:
        return None
    call.out.json = "--json" in given
    call.out.color = call.out.color and "--no-color" not in given
    call.url = given.get("--url")
    return partial(function, Context(call), **values)


def _values(function: Any, words: Iterator[str], given: dict[str, Any]) -> dict[str, Any]:
    """The values of a function's parameters, by name. Those of global options go to `given`."""
    kinds: dict[str, Any] = dict(_EVERYWHERE)
    names: dict[str, str] = {}
    arguments: list[tuple[str, Any]] = []
    for parameter, hint in get_type_hints(function, include_extras=True).items():
        match get_args(hint):
            case (kind, Option(names=spelled)):
                for name in spelled or (f"--{parameter.replace('_', '-')}",):
                    kinds[name], names[name] = kind, parameter
            case (kind, Argument()):
                arguments.append((parameter, kind))
            case _:
                pass
    values: dict[str, Any] = {}
    given_here: dict[str, Any] = {}
    typed: list[str] = []
    while (word := _next_argument(words, kinds, given_here)) is not None:
        typed.append(word)
    for name, value in given_here.items():
        if name in names:
            values[names[name]] = value
        else:
            given[name] = value
    for parameter, kind in arguments:
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
