"""The glossary, from `glossary.toml`: the meaning of each word, and a command that shows it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from interlock.core.row import NamedTuple


class GlossaryEntry(NamedTuple):
    """A word's meaning, a command, and the command's effect."""

    meaning: str
    command: str
    does: str
    #: Other words that refer to this entry.
    also: tuple[str, ...] = ()


def _read() -> dict[str, GlossaryEntry]:
    found = tomllib.loads((Path(__file__).parent / "glossary.toml").read_text("utf-8"))
    return {
        word: GlossaryEntry(**{**entry, "also": tuple(entry.get("also", ()))})
        for word, entry in found.items()
    }


GLOSSARY = _read()


def key_of(word: str) -> str | None:
    """The glossary entry of a word in the singular or plural; None if there is none."""
    return _found(word, {key: key for key in GLOSSARY})


def key_of_other(word: str) -> str | None:
    """The glossary entry that another word refers to."""
    return _found(word, {also: key for key, entry in GLOSSARY.items() for also in entry.also})


def _found(word: str, keys: dict[str, str]) -> str | None:
    plain = {" ".join(spelling.replace("-", " ").split()): key for spelling, key in keys.items()}
    asked = " ".join(word.lower().replace("-", " ").replace("_", " ").split())
    singular = f"{asked[:-3]}y" if asked.endswith("ies") else asked.removesuffix("s")
    return plain.get(asked) or plain.get(singular)
