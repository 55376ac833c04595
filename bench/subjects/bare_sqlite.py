"""The limit on SQLite: Interlock's own rows through apsw, in two commits a batch, no rules."""

from __future__ import annotations

import time
from typing import Any

import apsw

from bench.databases import sqlite_at
from bench.statements import statement
from bench.subject import Shift
from bench.subjects.interlock_subject import Interlock


class BareSqlite(Interlock):
    """Set up and filled by Interlock; only claim and finish are its own."""

    def __init__(self) -> None:
        super().__init__(store="sqlite")
        self.name = "bare SQL (apsw)"

    def drain(self, shift: Shift) -> None:
        agent = f"worker-{shift.order.worker}"
        with sqlite_at(shift.order.url) as connection:
            shift.start()
            while not shift.over:
                claimed = claim(connection, agent, shift.order.batch)
                if not claimed:
                    break
                shift.acknowledge([int(title) for title in finish(connection, agent, claimed)])


def claim(connection: apsw.Connection, agent: str, batch: int) -> list[Any]:
    """Start up to `batch` items in one transaction; answers rows of item, run, title, project and start."""
    connection.execute("BEGIN IMMEDIATE")
    now_us = time.time_ns() // 1000
    last_run: Any = connection.execute(statement("sqlite", "reserve"), {"n": batch}).get
    first_run = last_run - batch + 1
    rows: list[Any] = connection.execute(
        statement("sqlite", "claim"),
        {"agent": agent, "batch": batch, "now_us": now_us, "first_run": first_run},
    ).fetchall()
    connection.executemany(
        statement("sqlite", "event"),
        [
            (now_us, "run.started", "", project, item, run, agent, now_us - created_us)
            for item, run, _, project, created_us in rows
        ],
    )
    connection.execute("COMMIT")
    return [(item, run, title, project, now_us) for item, run, title, project, _ in rows]


def finish(connection: apsw.Connection, agent: str, claimed: list[Any]) -> list[str]:
    """Complete what is still ours in one transaction; answers the titles."""
    connection.execute("BEGIN IMMEDIATE")
    now_us = time.time_ns() // 1000
    ended = connection.executemany(
        statement("sqlite", "finish"), [(now_us, row[0], row[1]) for row in claimed]
    ).fetchall()
    assert len(ended) == len(claimed), "a run was lost although nobody sweeps"
    connection.executemany(
        statement("sqlite", "run"),
        [(run, item, agent, started_us, now_us) for item, run, _, _, started_us in claimed],
    )
    connection.executemany(
        statement("sqlite", "event"),
        [
            (now_us, "run.succeeded", "reported", project, item, run, agent, now_us - started_us)
            for item, run, _, project, started_us in claimed
        ],
    )
    connection.execute("COMMIT")
    return [row[2] for row in claimed]
