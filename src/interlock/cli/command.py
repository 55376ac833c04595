"""How commands are built: loaded when asked for, with the global options on every one of them.

Two things typer does not do by itself. A global option is accepted before *and* after the command's
name. And a value stays the text that was typed: typer 0.29 checks every value through pydantic, whose
import alone costs 90 ms of the 250 ms a command may take; `interlock.cli.values` reads the few numbers
and times there are, with error messages of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MethodType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from interlock.cli.invocation import Invocation, invocation_of

#: `-h` works as well as `--help`.
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class _GlobalOptions:
    """Takes the global options, and leaves values as typed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params: list[Any] = [*self.params, *_global_options()]

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        return _as_typed(params)


class Command(_GlobalOptions, TyperCommand):
    """A command that also takes the global options."""


class Group(_GlobalOptions, TyperGroup):
    """A command with commands below it, such as `agents`."""


class Entry(NamedTuple):
    """Where a command is found: a function, or a `typer.Typer` for a group, and its heading in the help."""

    module: str
    name: str
    panel: str


class LazyGroup(Group):
    """The root: a command's module is imported when the command is asked for."""

    entries: Mapping[str, Entry] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  (the library's signature)
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        entry = self.entries.get(cmd_name)
        if entry is None:
            # The library looks here for names to suggest.
            self.commands = dict.fromkeys(self.entries, self)
            return None
        found = getattr(import_module(f"interlock.cli.{entry.module}"), entry.name)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False)
            found.command(cls=Command, context_settings=CONTEXT_SETTINGS)(function)
        built: Any = get_command(found)
        built.name, built.rich_help_panel = cmd_name, entry.panel
        return built


def group(help_text: str) -> typer.Typer:
    """A Typer for a noun with commands below it; its callback runs for the noun alone."""
    return typer.Typer(
        cls=Group,
        help=help_text,
        invoke_without_command=True,
        add_completion=False,
        context_settings=CONTEXT_SETTINGS,
    )


def _as_typed(params: list[Any]) -> list[Any]:
    for param in params:
        vars(param)["process_value"] = MethodType(_plain_value, param)
        if getattr(param, "is_flag", False):
            param.metavar = ""  # a flag takes no value, so the help shows no type
    return params


def _plain_value(param: Any, ctx: Any, value: Any) -> Any:
    """The library's `process_value` without conversion: all our values are text or flags."""
    if param.required and param.value_is_missing(value):
        return type(param).process_value(param, ctx, value)  # raises, in the library's words
    return param.callback(ctx, param, value) if param.callback is not None else value


@cache
def _global_options() -> tuple[Any, ...]:
    single = typer.Typer(add_completion=False)
    single.command()(_take_global_options)
    return tuple(get_command(single).params)


def _option(name: str, take: Callable[[Invocation, Any], None], **more: Any) -> Any:
    """A global option: `take` puts its value into the invocation."""

    def callback(ctx: typer.Context, value: Any) -> None:
        if value not in (None, False) and not ctx.resilient_parsing:
            take(invocation_of(ctx), value)

    fixed: dict[str, Any] = {"is_eager": True, "expose_value": False, "rich_help_panel": "Everywhere"}
    return typer.Option(name, callback=callback, **fixed, **more)


def _take_json(call: Invocation, _: bool) -> None:
    call.out.json = True


def _take_url(call: Invocation, value: str) -> None:
    call.url = value


def _take_no_color(call: Invocation, _: bool) -> None:
    call.out.color = False


def _take_global_options(
    json: Annotated[
        bool, _option("--json", _take_json, help="Print JSON on standard output, errors too.")
    ] = False,
    url: Annotated[
        str | None,
        _option(
            "--url",
            _take_url,
            metavar="URL",
            help="The store: sqlite:///path, postgresql://… or git+https://… (else INTERLOCK_URL).",
        ),
    ] = None,
    no_color: Annotated[
        bool, _option("--no-color", _take_no_color, help="No colours (NO_COLOR does the same).")
    ] = False,
) -> None:
    """Only its signature is used: typer makes the options from it."""
