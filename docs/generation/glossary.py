"""The glossary: for users as `interlock help` has it, for engineers with the place of each word."""

from __future__ import annotations

from pathlib import Path

import interlock
from docs.generation.markdown import code, table
from docs.generation.meanings import Unexplained, meanings, names_in
from interlock.cli.glossary import GLOSSARY

PACKAGE = Path(interlock.__file__).parent


def for_users() -> str:
    rows = ((f"**{word}**", each.meaning, code(each.command)) for word, each in GLOSSARY.items())
    return table(("word", "meaning", "example"), rows)


def for_engineers() -> str:
    places, in_code = meanings("places", GLOSSARY), meanings("words", names_in("words"))
    found = {word: (entry.meaning, places[word]) for word, entry in GLOSSARY.items()} | in_code
    if gone := [place for _, place in found.values() if not (PACKAGE / place).is_file()]:
        raise Unexplained(f"docs/meanings.toml names {', '.join(gone)}, which is no more.")
    rows = ((f"**{word}**", meaning, code(place)) for word, (meaning, place) in sorted(found.items()))
    return table(("word", "meaning", "where"), rows)
