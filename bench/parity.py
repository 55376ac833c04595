"""The bare statements must leave the very rows that Interlock leaves, or their ratio would mean nothing."""

from __future__ import annotations

from typing import Any

import psycopg

from bench.databases import interlock_at, sqlite_at
from bench.drain import Broken
from bench.subject import Store
from bench.subjects import bare_postgres, bare_sqlite
from bench.subjects.interlock_subject import Interlock
from interlock.service.contract import Report

AGENT = "worker-0"
TABLES = {"items": "id", "runs": "item", "events": "item"}


def check(store: Store, url: str) -> None:
    """Take one item through Interlock and one through the bare statements, and compare all they wrote."""
    Interlock(store=store).setup(url)
    Interlock(store=store).fill(url, 2)
    with interlock_at(store, url) as service:
        leases = service.next(AGENT, limit=1)
        service.done([Report(run=lease.run) for lease in leases])
    if store == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            server = bare_postgres.BareWorker(connection, AGENT)
            sorts = server.sorts()
            server.finish(server.claim(1))
    else:
        with sqlite_at(url) as database:
            file = bare_sqlite.BareWorker(database, AGENT)
            sorts = file.sorts()
            file.finish(file.claim(1))
    if sorts:
        raise Broken("bare SQL does not claim in the order of Interlock's index")
    for table, column in TABLES.items():
        ours, theirs = (comparable(read(store, url, table, column, item)) for item in (1, 2))
        if len(ours) != len(theirs):
            raise Broken(f"bare SQL leaves {len(theirs)} {table}, Interlock {len(ours)}")
        for mine, bare in zip(ours, theirs, strict=True):
            if other := {name: (bare[name], value) for name, value in mine.items() if bare[name] != value}:
                raise Broken(f"bare SQL leaves other {table} than Interlock, by column: {other}")
    with interlock_at(store, url) as service:
        unsound = [f"{view.name}: {view.detail}" for view in service.doctor() if not view.ok]
    if unsound:
        raise Broken(f"bare SQL leaves a store that is not sound: {'; '.join(unsound)}")


def read(store: Store, url: str, table: str, column: str, item: int) -> list[dict[str, Any]]:
    """All rows about one item, in the order in which they were made."""
    order = {"items": "id", "runs": "run", "events": "seq"}[table]
    if store == "sqlite":
        with sqlite_at(url) as connection:
            cursor = connection.execute(f"SELECT * FROM {table} WHERE {column} = ? ORDER BY {order}", (item,))
            return [
                dict(zip([name for name, _ in cursor.get_description()], row, strict=True)) for row in cursor
            ]
    with psycopg.connect(
        url, options="-c search_path=interlock", row_factory=psycopg.rows.dict_row
    ) as server:
        statement = f"SELECT * FROM {table} WHERE {column} = %s ORDER BY {order}"
        return server.execute(statement.encode(), (item,)).fetchall()


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what differs between any two items: of numbers and times only whether they are there."""
    own = ("id", "item", "run", "seq", "ticket", "sort_key", "title", "bits")
    return [
        {
            name: value is not None if name in own or name.endswith("_us") else value
            for name, value in row.items()
        }
        for row in rows
    ]
