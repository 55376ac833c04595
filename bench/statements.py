"""The bare statements, read from .sql files, and the parts that they take from Interlock itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import LiteralString, cast

from bench.subject import Store
from interlock.store.statements import Statements

#: One part of a statement, `name AS (…)`, by itself on its lines.
_PART = re.compile(r"^(?:WITH )?(\w+) AS (?:MATERIALIZED )?\($.*?^\)", re.MULTILINE | re.DOTALL)


#: The columns of Interlock's view of ready items that say which item it is; all others name its queue.
ORDER = ("id", "sort_key")


class Changed(Exception):
    """A statement of Interlock no longer has the part that a bare statement takes from it."""


@cache
def statement(store: Store, name: str) -> LiteralString:
    """The text of one file, which is as constant as the source."""
    path = Path(__file__).parent / "sql" / store / f"{name}.sql"
    return path.read_text(encoding="utf-8")


def filled(store: Store, name: str, **parts: str) -> LiteralString:
    """The text of one file, with parts of Interlock in the places named for them."""
    text: str = statement(store, name)
    for place, part in parts.items():
        text = text.replace(f"{{{place}}}", part)
    return cast(LiteralString, text)


def interlocks(store: Store, name: str) -> str:
    """A statement of Interlock itself."""
    return Statements(store).text(name)


def parts_of(text: str, *names: str) -> str:
    """Some of a statement's parts, as they are."""
    found = {part[1]: part[0].removeprefix("WITH ") for part in _PART.finditer(text)}
    if missing := [name for name in names if name not in found]:
        raise Changed(f"Interlock's statement has no part {', '.join(missing)} any more.")
    return ",\n".join(found[name] for name in names)


def queue(columns: Sequence[str], place: str) -> str:
    """The condition on items of a queue whose columns are parameters, each in a place like `:{}`."""
    return " AND ".join(f"{column} = {place.format(column)}" for column in columns)


def replaced(text: str, part: str, other: str) -> str:
    """A statement with another text in one place."""
    if text.count(part) != 1:
        raise Changed(f"Interlock's statement does not say {part!r} once.")
    return text.replace(part, other)
