"""How commands are built: loaded when asked for, with the global options on every one of them.

Two things typer does not do by itself. A global option is accepted before *and* after the command's
name. And a value stays the text that was typed: typer 0.29 checks every value through pydantic, whose
import alone costs 90 ms of the 250 ms a command may take; `interlock.cli.values` reads the few numbers
and times there are, and says what is wrong in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MethodType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from interlock.cli.session import session_of

#: `-h` works as well as `--help`.
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command that also takes the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _global_options()

    def get_params(self, ctx: Any) -> list[Any]:
        return _as_typed(super().get_params(ctx))


class Group(TyperGroup):
    """A command with commands below it, such as `agents`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _global_options()

    def get_params(self, ctx: Any) -> list[Any]:
        return _as_typed(super().get_params(ctx))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is found: a function, or a `typer.Typer` for a group, and its heading in the help."""

    module: str
    name: str
    panel: str


class LazyGroup(Group):
    """The root: a command's module is imported when the command is asked for."""

    places: Mapping[str, Place] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  (the library's signature)
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        place = self.places.get(cmd_name)
        if place is None:
            # The library looks here for names to suggest.
            self.commands = dict.fromkeys(self.places, self)
            return None
        found = getattr(import_module(f"interlock.cli.{place.module}"), place.name)
        return (
            _group(cmd_name, found, place)
            if isinstance(found, typer.Typer)
            else _command(cmd_name, found, place)
        )


def group(help_text: str) -> typer.Typer:
    """A Typer for a noun with commands below it; its callback is what the noun does alone."""
    return typer.Typer(
        cls=Group,
        help=help_text,
        invoke_without_command=True,
        add_completion=False,
        context_settings=CONTEXT_SETTINGS,
    )


def _command(name: str, function: Callable[..., Any], place: Place) -> Any:
    single = typer.Typer(add_completion=False)
    single.command(name, cls=Command, rich_help_panel=place.panel, context_settings=CONTEXT_SETTINGS)(
        function
    )
    return get_command(single)


def _group(name: str, members: typer.Typer, place: Place) -> Any:
    built: Any = get_command(members)
    built.name, built.rich_help_panel = name, place.panel
    return built


def _as_typed(params: list[Any]) -> list[Any]:
    for param in params:
        vars(param)["process_value"] = MethodType(_plain_value, param)
        if getattr(param, "is_flag", False):
            param.metavar = ""  # else the help shows a type where nothing is to be written
    return params


def _plain_value(param: Any, ctx: Any, value: Any) -> Any:
    """What the library's `process_value` does, without converting: all our values are text or flags."""
    if param.required and param.value_is_missing(value):
        return type(param).process_value(param, ctx, value)  # raises, in the library's words
    return param.callback(ctx, param, value) if param.callback is not None else value


@cache
def _global_options() -> tuple[Any, ...]:
    single = typer.Typer(add_completion=False)
    single.command()(_take_global_options)
    return tuple(get_command(single).params)


def _take_json(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        session_of(ctx).out.json = True


def _take_url(ctx: typer.Context, value: str | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        session_of(ctx).url = value


def _take_no_color(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        session_of(ctx).out.color = False


def _take_global_options(
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            callback=_take_json,
            is_eager=True,
            expose_value=False,
            rich_help_panel="Everywhere",
            help="Print JSON on standard output, errors too.",
        ),
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            callback=_take_url,
            is_eager=True,
            expose_value=False,
            metavar="URL",
            rich_help_panel="Everywhere",
            help="The store: sqlite:///path, postgresql://… or git+https://… (else INTERLOCK_URL).",
        ),
    ] = None,
    no_color: Annotated[
        bool,
        typer.Option(
            "--no-color",
            callback=_take_no_color,
            is_eager=True,
            expose_value=False,
            rich_help_panel="Everywhere",
            help="No colours (NO_COLOR does the same).",
        ),
    ] = False,
) -> None:
    """Only its signature is used: typer makes the options from it."""
