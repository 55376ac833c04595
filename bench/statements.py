"""The bare statements, read from the .sql files beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import LiteralString

from bench.subject import Store


@cache
def statement(store: Store, name: str) -> LiteralString:
    """The text of one file, which is as constant as the source."""
    path = Path(__file__).parent / "sql" / store / f"{name}.sql"
    return path.read_text(encoding="utf-8")
