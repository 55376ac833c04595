"""`help`: a word of the glossary, or the help of a command."""

from __future__ import annotations

from typing import Annotated

from interlock.cli import typer, views
from interlock.cli.command import ALIASES, ENTRIES, Function, Group
from interlock.cli.glossary import GLOSSARY, key_of, key_of_other
from interlock.cli.invocation import invocation_of
from interlock.core.errors import Exit, InvalidInput


def help_command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD…]", help="A word, such as lease; or a command, such as plan edit."),
    ] = None,
) -> int:
    """Explain a word of Interlock, or a command; alone, list the words."""
    call = invocation_of(ctx)
    asked = [ALIASES.get(word, word) for word in words or ()]
    if not asked:
        meanings = {word: entry.meaning for word, entry in GLOSSARY.items()}
        return call.out.answer({"words": meanings}, lambda out: views.glossary.words(out, meanings))
    name = " ".join(asked)
    command = _command(asked)
    key = key_of(name) or (key_of_other(name) if command is None else None)
    if key is not None:
        entry = GLOSSARY[key]
        value = {"word": key, "meaning": entry.meaning, "command": entry.command, "does": entry.does}
        same = None if command is None else name
        return call.out.answer(value, lambda out: views.glossary.entry(out, key, entry, same))
    if command is None:
        raise InvalidInput(f"There is no word or command {name!r}.", _nearest(name))
    if call.out.json:
        text = command.help if isinstance(command, Group) else str(command.__doc__)
        paragraphs = [" ".join(each.split()) for each in text.split("\n\n")]
        return call.out.answer({"command": name, "help": "\n\n".join(paragraphs)}, "")
    from interlock.cli import parser

    parser.run([*asked, "--help"], call)
    return Exit.OK


def _command(words: list[str]) -> Group | Function | None:
    """The command of this name, if any."""
    first, *below = words
    found: Group | Function | None = ENTRIES[first].load() if first in ENTRIES else None
    for word in below:
        found = found.commands.get(word) if isinstance(found, Group) else None
    return found


def _nearest(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), [*GLOSSARY, *ENTRIES], n=3)
    return f"Did you mean {', '.join(close)}? " * bool(close) + "List all words: interlock help"
