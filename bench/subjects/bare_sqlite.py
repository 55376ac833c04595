"""The limit on SQLite: the rows that have to be written, through apsw, in two commits a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw

from bench.statements import statement
from bench.subject import Shift, Store

BUSY_TIMEOUT_MS = 60_000


class BareSqlite:
    name = "bare SQL (apsw)"
    store: Store = "sqlite"

    def setup(self, url: str) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(url + suffix).unlink(missing_ok=True)
        with opened(url) as connection:
            connection.execute(statement("sqlite", "schema"))

    def fill(
        self, url: str, n: int, lanes: int | None = None, *, first: int = 0, agent_key: str = ""
    ) -> None:
        if lanes is not None:
            raise NotImplementedError("the bare loop has no lanes")
        with opened(url) as connection, connection:
            bounds = {"first": first, "last": first + n - 1, "agent_key": agent_key}
            connection.execute(statement("sqlite", "fill"), bounds)

    def drain(self, shift: Shift) -> None:
        agent = f"worker-{shift.order.worker}"
        with opened(shift.order.url) as connection:
            shift.start()
            while not shift.over:
                claimed = claim(connection, agent, shift.order.batch)
                if not claimed:
                    break
                shift.acknowledge(finish(connection, claimed))

    def left(self, url: str) -> int:
        with opened(url) as connection:
            return int(
                connection.execute(
                    "SELECT count(*) FROM items WHERE id NOT IN (SELECT item_id FROM runs)"
                ).get
            )


@contextmanager
def opened(url: str) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(url)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")
    try:
        yield connection
    finally:
        connection.close()


def claim(connection: apsw.Connection, agent: str, batch: int) -> list[tuple[int, int]]:
    """Claim up to `batch` items in one transaction; answers (item, run) pairs."""
    connection.execute("BEGIN IMMEDIATE")
    ready = connection.execute(statement("sqlite", "ready"), {"agent": agent, "batch": batch}).fetchall()
    first_run = reserve_runs(connection, len(ready))
    now_us = time.time_ns() // 1000
    rows = [
        {"id": row[0], "run": first_run + index, "agent": agent, "now_us": now_us}
        for index, row in enumerate(ready)
    ]
    connection.executemany(statement("sqlite", "claim"), rows)
    connection.executemany(
        statement("sqlite", "event"), [row | {"kind": "run.started", "reason": "claimed"} for row in rows]
    )
    connection.execute("COMMIT")
    return [(cast(int, row[0]), first_run + index) for index, row in enumerate(ready)]


def finish(connection: apsw.Connection, claimed: list[tuple[int, int]]) -> list[int]:
    """Complete what is still ours in one transaction; answers the numbers of the items."""
    connection.execute("BEGIN IMMEDIATE")
    now_us = time.time_ns() // 1000
    rows, tickets = [], []
    for item, run in claimed:
        ended = connection.execute(statement("sqlite", "finish"), {"id": item, "run": run}).get
        if ended is not None:
            ticket, started_us, agent = ended
            tickets.append(ticket)
            rows.append({"id": item, "run": run, "agent": agent, "started_us": started_us, "now_us": now_us})
    connection.executemany(statement("sqlite", "run"), rows)
    connection.executemany(
        statement("sqlite", "event"), [row | {"kind": "run.finished", "reason": "done"} for row in rows]
    )
    connection.execute("COMMIT")
    return tickets


def reserve_runs(connection: apsw.Connection, n: int) -> int:
    """The first of n run numbers that nobody had or will have."""
    return int(connection.execute(statement("sqlite", "reserve"), {"n": n}).get) - n + 1
