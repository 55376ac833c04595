"""The commands and their options, read from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs.generation.markdown import code, fence, link_shapes, table
from docs.generation.meanings import meanings
from interlock.cli.command import ENTRIES
from interlock.cli.parser import root

EVERYWHERE = "Everywhere"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name, groups before what is below them."""
    top: Any = root()
    for name in ENTRIES:
        found: Any = top.get_command(None, name)
        yield name, found
        for below, member in getattr(found, "commands", {}).items():
            yield f"{name} {below}", member


def root_options() -> list[Any]:
    """The options of `interlock` itself, also the ones that every command takes."""
    top: Any = root()
    return list(top.params)


def own_parameters(command: Any) -> list[Any]:
    """A command's own arguments and options: without the ones that every command takes."""
    return [p for p in command.params if getattr(p, "rich_help_panel", None) != EVERYWHERE]


def global_options() -> str:
    """Options that stand before or after the name of any command."""
    return _options([p for p in root_options() if p.rich_help_panel == EVERYWHERE])


def options_alone() -> str:
    """Options of `interlock` without a command."""
    return _options([p for p in root_options() if p.rich_help_panel != EVERYWHERE])


def all_commands() -> str:
    """Every command under the heading it has in the help."""
    found = dict(commands())
    answers = meanings("answers", found)
    parts, panel = [], ""
    for name, command in found.items():
        place = ENTRIES[name.partition(" ")[0]]
        if place.panel != panel:
            panel = place.panel
            parts.append(f"## {panel}")
        parts.append(_command(name, command, *answers[name]))
    return "\n\n".join(parts)


def _command(name: str, command: Any, answer: str, exits: str) -> str:
    first, _, more = command.help.partition("\n\n")
    arguments = [p for p in own_parameters(command) if p.param_type_name == "argument"]
    options = [p for p in own_parameters(command) if p.param_type_name == "option"]
    parts = [
        f"### interlock {name}",
        " ".join(first.split()),
        fence("text", _usage(name, arguments, options)),
    ]
    if more:
        parts.append(" ".join(more.split()))
    explained = [p for p in arguments if p.help]
    if explained:
        parts.append(table(("argument", "meaning"), ((code(p.metavar), p.help) for p in explained)))
    if options:
        parts.append(_options(options))
    codes = f" Exit codes beside 0, 1 and 2: {exits}." if exits else ""
    parts.append(f"With `--json`: {link_shapes(answer, 'json.md')}.{codes}")
    return "\n\n".join(parts)


def _usage(name: str, arguments: list[Any], options: list[Any]) -> str:
    words = [f"interlock {name}"]
    values = [p.metavar if p.required else f"[{p.metavar}]" for p in arguments]
    words += [value for value in values if "-- " not in value]
    words += [f"{p.opts[0]} {p.metavar}" for p in options if p.required]
    if any(not p.required for p in options):
        words.append("[OPTIONS]")
    return " ".join(words + [value for value in values if "-- " in value])  # a command comes last


def _options(options: list[Any]) -> str:
    rows = [(_spelling(p), p.help or "", _default(p)) for p in options]
    return table(("option", "meaning", "default"), rows)


def _spelling(option: Any) -> str:
    value = f" {option.metavar}" if option.metavar else ""
    return ", ".join(code(name + value) for name in option.opts)


def _default(option: Any) -> str:
    if option.required:
        return "needed"
    return code(str(option.default)) if isinstance(option.default, str) and option.default else ""
