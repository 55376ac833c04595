"""A database's schema as plain values that can be compared, read from its own catalogue."""

from __future__ import annotations

import re
from typing import Any

import apsw
import psycopg

Schema = dict[str, list[tuple[Any, ...]]]


def of_sqlite(file: str) -> Schema:
    """Tables, columns, keys, indexes, and the words of each: SQLite has no other record of checks."""
    db = apsw.Connection(file)
    found: Schema = {}
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in sorted(tables):
        found[table] = [
            *(row[2:] for row in db.execute(f"PRAGMA table_list('{table}')")),
            *db.execute(f"PRAGMA table_xinfo('{table}')"),
            *db.execute(f"PRAGMA foreign_key_list('{table}')"),
        ]
    for kind, name, text in db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"):
        found[f"{kind} {name}"] = [tuple(_words(text or ""))]
    db.close()
    return found


def _words(text: str) -> list[str]:
    text = re.sub(r"--[^\n]*", "", text).replace("IF NOT EXISTS", "").replace('"', "")
    return re.findall(r"\w+|'[^']*'|[^\w\s]", text)


_CATALOGUE = {
    "columns": """
        SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            l.collname, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r'
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        LEFT JOIN pg_collation l ON l.oid = a.attcollation
        WHERE c.relnamespace = 'interlock'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY 1, 2""",
    "constraints": """
        SELECT conrelid::regclass::text, contype, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'interlock'::regnamespace ORDER BY 1, 2, 3""",
    "indexes": """
        SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = 'interlock'::regnamespace ORDER BY 1""",
    "functions": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'interlock'::regnamespace ORDER BY 1, 2""",
    "sequences": """
        SELECT sequencename, data_type::text, start_value, increment_by, max_value, cycle, cache_size
        FROM pg_sequences WHERE schemaname = 'interlock' ORDER BY 1""",
    "options": """
        SELECT relname, reloptions FROM pg_class
        WHERE relnamespace = 'interlock'::regnamespace AND reloptions IS NOT NULL ORDER BY 1""",
    "triggers": """
        SELECT tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = 'interlock'::regnamespace AND NOT tgisinternal ORDER BY 1""",
}


def of_postgres(url: str) -> Schema:
    with psycopg.connect(url, autocommit=True) as conn:
        return {what: conn.execute(text.encode()).fetchall() for what, text in _CATALOGUE.items()}


def of(url: str) -> Schema:
    return of_sqlite(url.removeprefix("sqlite://")) if url.startswith("sqlite:") else of_postgres(url)


def differences(one: Schema, other: Schema) -> list[str]:
    """What one has and the other has not, in words."""
    found = []
    for what in sorted({*one, *other}):
        mine, theirs = one.get(what, []), other.get(what, [])
        found += [f"only in the first, {what}: {row}" for row in mine if row not in theirs]
        found += [f"only in the second, {what}: {row}" for row in theirs if row not in mine]
        if mine != theirs and sorted(map(str, mine)) == sorted(map(str, theirs)):
            found.append(f"another order, {what}")
    return found
