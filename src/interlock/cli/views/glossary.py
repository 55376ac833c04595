"""The glossary, for people."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.cli.glossary import GlossaryEntry
from interlock.cli.page import Console, Text
from interlock.cli.views import words as wording


def words(console: Console, found: Mapping[str, str]) -> None:
    """Every word with its meaning."""
    made = wording.table("WORD", "MEANING", wrapped=("MEANING",))
    for word, meaning in found.items():
        made.add_row(Text(word, style="bold"), meaning)
    console.print(made)
    console.print("interlock help WORD gives an example. interlock --help lists the commands.")


def entry(console: Console, word: str, found: GlossaryEntry, command: str | None) -> None:
    """One word; `command` has the same name."""
    console.print(Text.assemble((word, "bold"), f": {found.meaning}"))
    console.print(f"\n  {found.command}")
    console.print(Text(f"  {found.does}", style=wording.QUIET))
    if command is not None:
        console.print(f"\nThe command of this name: interlock {command} --help")
