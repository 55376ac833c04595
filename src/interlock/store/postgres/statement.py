"""A statement with numbered parameters: its text is taken apart once, whatever its length.

The driver takes a text with named parameters apart anew for every call if it is longer than 4 KiB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

import psycopg
from psycopg.pq import Format

_PLACE = re.compile(r"%\((\w+)\)s|%s")


class Statement(str):
    """SQL with `$1`, `$2` …, and the names of its parameters in that order, if it names them."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    @classmethod
    def numbered(cls, text: str) -> Self:
        """From `%(name)s`, where equal names are one parameter, or from `%s`, each its own."""
        names: dict[str, int] = {}
        count = 0

        def number(place: re.Match[str]) -> str:
            nonlocal count
            if place[1] is None:
                count += 1
                return f"${count}"
            return f"${names.setdefault(place[1], len(names) + 1)}"

        statement = cls(_PLACE.sub(number, text))
        statement.names = tuple(names)
        return statement


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that takes numbered statements, with their parameters by name or in order."""

    def execute(
        self,
        query: Any,
        params: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        cursor: psycopg.Cursor[tuple[Any, ...]] = psycopg.RawCursor(self)
        if binary:
            cursor.format = Format.BINARY
        if isinstance(params, Mapping):
            params = [params[name] for name in query.names]
        return cursor.execute(query, params, prepare=prepare)
