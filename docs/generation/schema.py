"""The tables, read from the migrations of both stores."""

from __future__ import annotations

import re

from docs.generation.markdown import code, fence, table
from docs.generation.meanings import meanings
from interlock.store.migrate import migrations

_TABLE = re.compile(r"CREATE TABLE (?:interlock\.)?(\w+) \((.*?)\n\)", re.DOTALL)
_ADDED = re.compile(r"ALTER TABLE (?:interlock\.)?(\w+) ADD COLUMN (\w+) ([^;]+);")
_RENAMED = re.compile(r"ALTER TABLE (?:interlock\.)?(\w+) RENAME TO (\w+);")
_COLUMN = re.compile(r'    "?([a-z_]+)"?\s+(.+?),?')
_END_OF_TYPE = re.compile(r"\s+(?:NOT|COLLATE|PRIMARY|REFERENCES|CHECK|DEFAULT|GENERATED)\b.*")
_INDEX = re.compile(r"(?:-- [^\n]+\n)*CREATE (?:UNIQUE )?INDEX (\w+) [^;]+;")
_DROPPED = re.compile(r"DROP INDEX (?:interlock\.)?(\w+);")


def tables(backend: str) -> dict[str, dict[str, str]]:
    """Tables, their columns and types, as the sum of a store's migrations."""
    found: dict[str, dict[str, str]] = {}
    for migration in migrations(backend):
        for name, body in _TABLE.findall(migration.text):
            lines = (_COLUMN.fullmatch(line) for line in body.split("\n"))
            found[name] = {m[1]: _END_OF_TYPE.sub("", m[2]) for m in lines if m}
        for name, column, kind in _ADDED.findall(migration.text):
            if name in found:  # `migrations` is made by its own records
                found[name][column] = _END_OF_TYPE.sub("", kind)
        renamed = dict(_RENAMED.findall(migration.text))
        found = {renamed.get(name, name): columns for name, columns in found.items()}
    return found


def indexes(backend: str) -> list[str]:
    """Every index that no later migration drops, with the comment above it."""
    found: dict[str, str] = {}
    for migration in migrations(backend):
        for dropped in _DROPPED.findall(migration.text):
            found.pop(dropped, None)
        for made in _INDEX.finditer(migration.text):
            found[made[1]] = made[0]
    return list(found.values())


def all_tables() -> str:
    sqlite, postgres = tables("sqlite"), tables("postgres")
    names = list(dict.fromkeys((*sqlite, *postgres)))
    words = meanings("tables", names)
    parts = []
    for name in names:
        here, there = sqlite.get(name, {}), postgres.get(name, {})
        columns = meanings(f"columns.{name}", dict.fromkeys((*here, *there)))
        rows = ((code(c), here.get(c, ""), there.get(c, ""), text) for c, text in columns.items())
        parts += [f"### {name}", words[name], table(("column", "SQLite", "PostgreSQL", "meaning"), rows)]
    return "\n\n".join(parts)


def all_indexes() -> str:
    """Those of PostgreSQL."""
    return fence("sql", "\n\n".join(indexes("postgres")))
