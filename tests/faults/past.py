"""A store that goes back in time: its rows and counters are put back as they were, in place.

To the store this looks like a dump loaded over its tables: same server, same database, same file. Nothing
tells it that it has a past, so only what it compares itself can refuse a run of that past.
"""

from __future__ import annotations

from typing import Any

import apsw
import psycopg
from psycopg import sql

from tests.faults.stores import file_of, is_sqlite

Rows = list[tuple[Any, ...]]


class Past:
    """A store as it is now, to come back to."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._rows: dict[str, Rows] = {}
        self._counters: dict[str, Rows] = {}
        if is_sqlite(url):
            db = _sqlite(url)
            for name in _tables_of(db):
                self._rows[name] = list(db.execute(f'SELECT * FROM "{name}"'))
            db.close()
            return
        with _postgres(url) as conn:
            tables = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'interlock'")
            for (name,) in tables.fetchall():
                select = sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))
                self._rows[name] = conn.execute(select).fetchall()
            counters = conn.execute("SELECT sequencename FROM pg_sequences WHERE schemaname = 'interlock'")
            for (name,) in counters.fetchall():
                select = sql.SQL("SELECT last_value, is_called FROM {}").format(sql.Identifier(name))
                self._counters[name] = conn.execute(select).fetchall()

    def come_back(self) -> None:
        """Put everything back as it was."""
        if is_sqlite(self._url):
            self._into_sqlite()
        else:
            self._into_postgres()

    def _into_sqlite(self) -> None:
        db = _sqlite(self._url)
        db.execute("BEGIN IMMEDIATE")
        for name in sorted(_tables_of(db), key=lambda name: name == "tallies"):  # triggers write those
            rows = self._rows[name]
            db.execute(f'DELETE FROM "{name}"')
            if rows:
                db.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(rows[0]))})', rows)
        db.execute("COMMIT")
        db.close()

    def _into_postgres(self) -> None:
        with _postgres(self._url) as conn, conn.transaction():
            conn.execute("SET LOCAL session_replication_role = replica")  # whatever refers to what
            for name, rows in self._rows.items():
                conn.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
                if rows:
                    places = sql.SQL(", ").join([sql.Placeholder()] * len(rows[0]))
                    insert = sql.SQL("INSERT INTO {} VALUES ({})").format(sql.Identifier(name), places)
                    conn.cursor().executemany(insert, rows)
            for name, ((value, is_called),) in self._counters.items():
                conn.execute("SELECT setval(%s::regclass, %s, %s)", (name, value, is_called))


def _sqlite(url: str) -> apsw.Connection:
    db = apsw.Connection(file_of(url))
    db.set_busy_timeout(30_000)
    return db


def _tables_of(db: apsw.Connection) -> list[str]:
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in found if name == "sqlite_sequence" or not name.startswith("sqlite_")]


def _postgres(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True, options="-c search_path=interlock")
