"""The commands in typer: it writes the help, completes words and reports every mistake.

Two things typer does not do by itself. A global option is accepted before *and* after the command's name. And
a value stays the typed text: typer 0.29 checks every value through pydantic, whose import alone costs 90 ms.
`interlock.cli.values` reads the few numbers and times, with our own error messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import cache
from types import FunctionType, MethodType
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from interlock import __version__
from interlock.cli import completion
from interlock.cli import typer as declared
from interlock.cli.command import ALIASES, ENTRIES, Group
from interlock.cli.invocation import Invocation
from interlock.core.validation import NO_REASON

UsageError = typer.TyperException
#: The library's exit code for Ctrl-C.
Abort = typer.Abort


def _unknown_option(found: re.Match[str]) -> str:
    """Only the library's suggestion most similar to the typed word."""
    given, known = found[1], found[2].split(", ")
    nearest = max(known, key=lambda each: SequenceMatcher(None, given, each).ratio())
    return f"There is no option {given}. Did you mean {nearest}?"


#: The library's sentences and ours, which name the subject first.
_IN_OUR_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"Missing (?:option|argument) '([^']+)'.*"), r"\1 is missing."),
    (re.compile(r"No such option: (\S+?)\.?(?: \(Possible options: ([^)]+)\))"), _unknown_option),
    (re.compile(r"No such option: (\S+?)\.?(?= |$)"), r"There is no option \1."),
    (re.compile(r"No such command '([^']*)'\."), r"There is no command \1."),
    (re.compile(r"Option '([^']+)' requires an argument\."), r"\1 needs a value."),
)
_EXTRA = re.compile(r"Got unexpected extra argument\(s\) \((.*)\)")
#: `-h` works as well as `--help`.
_CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class _GlobalOptions:
    """Takes the global options, and leaves values as typed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params: list[Any] = [*self.params, *_global_options()]

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        return _as_typed(params)


class _Command(_GlobalOptions, TyperCommand):
    """A command that also takes the global options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the line. Arguments before `--` are not taken from after it: `hold -- nice …`."""
        before = args[: args.index("--")] if "--" in args else None
        rest: list[str] = super().parse_args(ctx, args)
        if before is not None and not ctx.resilient_parsing and any(map(_is_command, self.params)):
            given, _, _ = self.make_parser(ctx).parse_args(args=before)
            for param in self.get_params(ctx):
                if param.param_type_name == "argument" and param.required:
                    param.process_value(ctx, given[param.name])  # raises if it is missing
        return rest


class _Group(_GlobalOptions, TyperGroup):
    """A command with commands below it, such as `agents`."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))


class _Root(_Group):
    """`interlock` itself: a command is imported when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  (the library's signature)
        return list(ENTRIES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            # The library looks here for names to suggest.
            self.commands = dict.fromkeys(ENTRIES, self)
            return None
        built: Any = get_command(_app(entry.load()))
        built.name, built.rich_help_panel = cmd_name, entry.panel
        return built


def root() -> Any:
    """The command `interlock` with all commands below it."""
    app = typer.Typer(cls=_Root, name="interlock", context_settings=_CONTEXT_SETTINGS)
    app.callback()(_interlock)
    command: Any = get_command(app)
    # `interlock completion` prints our scripts; typer would install its own, which do not read the store.
    command.params = [option for option in command.params if not option.name.endswith("_completion")]
    return command


def run(args: list[str], call: Invocation) -> Any:
    """Parse a command line and run its command. Returns the command's result."""
    return root().main(args=args, prog_name="interlock", standalone_mode=False, obj=call)


def sentence_of(error: Any) -> tuple[str, str]:
    """A mistake on the command line: one sentence, and where to read on."""
    sentence = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "interlock"
    hint = f"See {path} --help."
    if sentence.startswith("Missing option '--reason'"):
        from interlock.cli.cures import spelled

        return spelled(NO_REASON[0], ("why",)), spelled(NO_REASON[1], ("why",))
    if (path, getattr(error, "option_name", "")) == ("interlock edit", "--lane"):
        return "An item cannot change its lane.", "Cancel it, and add it again on the other lane."
    if path in ("interlock pause", "interlock resume") and "--project" in sentence:
        return "There is no option --project.", f"Type {path} project NAME."
    if extra := _EXTRA.fullmatch(sentence):
        return f"{path} does not take {extra[1]!r}.", f"Quote text that contains spaces. {hint}"
    for theirs, ours in _IN_OUR_WORDS:
        sentence = theirs.sub(ours, sentence)
    return sentence if sentence.endswith((".", "?")) else f"{sentence}.", hint


def _is_command(param: Any) -> bool:
    return str(param.metavar).startswith("-- ")


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"interlock {__version__}")
        raise typer.Exit


def _interlock(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decides who works on what, one at a time, and loses nothing.

    Exit codes: 0 ok, 1 error, 2 usage, 3 no work, 4 held by another, 5 lease lost, 6 stale revision.
    """


def _app(found: Callable[..., int] | Group) -> typer.Typer:
    if isinstance(found, Group):
        app = typer.Typer(
            cls=_Group,
            help=found.help,
            invoke_without_command=True,
            add_completion=False,
            context_settings=_CONTEXT_SETTINGS,
        )
        app.callback()(_for_typer(found.alone))
        for name, function in found.commands.items():
            app.command(name, cls=_Command)(_for_typer(function))
    else:
        app = typer.Typer(add_completion=False)
        app.command(cls=_Command, context_settings=_CONTEXT_SETTINGS)(_for_typer(found))
    return app


def _for_typer(function: Any) -> Any:
    """The same function with typer's own declarations in its signature."""
    same = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    same.__kwdefaults__, same.__doc__ = function.__kwdefaults__, _one_line_a_paragraph(function.__doc__)
    hints = get_type_hints(function, include_extras=True)
    same.__annotations__ = {name: _hint_for_typer(name, hint) for name, hint in hints.items()}
    return same


def _one_line_a_paragraph(text: str) -> str:
    """Help wraps paragraphs to the terminal, and would keep the line breaks of the source as well."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _hint_for_typer(parameter: str, hint: Any) -> Any:
    if hint is declared.Context:
        return typer.Context
    match get_args(hint):
        case (kind, declared.Option(names=names, more=more)):
            return Annotated[kind, typer.Option(*names, **_with_completion(parameter, more))]
        case (kind, declared.Argument(more=more)):
            return Annotated[kind, typer.Argument(**_with_completion(parameter, more))]
        case _:
            return hint


def _with_completion(parameter: str, more: dict[str, Any]) -> dict[str, Any]:
    given = {"autocompletion": completion.offers_for(parameter, more.get("metavar")), **more}
    if (of := given.pop("of", None)) is not None:
        from interlock.service.operations import BY_NAME

        operation, _, name = of.partition(".")
        given["help"] = BY_NAME[operation].sentence(name)
    return given


def _as_typed(params: list[Any]) -> list[Any]:
    for param in params:
        vars(param)["process_value"] = MethodType(_plain_value, param)
        if getattr(param, "is_flag", False):
            param.metavar = ""  # a flag takes no value, so the help shows no type
        elif param.param_type_name == "argument":
            vars(param)["display_type_rich"] = _no_type  # its name is clearer than `<list[str]>`
    return params


def _no_type(ctx: Any) -> None:
    """An argument's type is not shown."""


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
            take(ctx.find_root().obj, value)

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
            help="The store: sqlite:///path, postgresql://…, https://… or git+https://…; else INTERLOCK_URL.",
        ),
    ] = None,
    no_color: Annotated[
        bool, _option("--no-color", _take_no_color, help="No colours (NO_COLOR does the same).")
    ] = False,
) -> None:
    """Only its signature is used: typer makes the options from it."""
