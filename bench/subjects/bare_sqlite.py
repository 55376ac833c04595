"""The limit on SQLite: Interlock's own rows through apsw, in two commits a batch, no rules."""

from __future__ import annotations

import time
from typing import Any

import apsw

from bench.databases import sqlite_at
from bench.statements import ORDER, filled, interlocks, queue, replaced, statement
from bench.subject import Shift
from bench.subjects.interlock_subject import Interlock

#: Where Interlock's statement that starts items takes them from, and what it answers.
GIVEN = "SELECT key AS nth, value AS item FROM json_each(:items)"
ANSWER = "RETURNING *"
#: The rest of what that statement asks for, as it is by default.
DEFAULTS = {"worker": None, "external": False, "lease_s": None, "default_lease_s": 60.0}


class BareSqlite(Interlock):
    """Set up and filled by Interlock; only claim and finish are its own."""

    def __init__(self) -> None:
        super().__init__(store="sqlite")
        self.name = "bare SQL (apsw)"

    def drain(self, shift: Shift) -> None:
        with sqlite_at(shift.order.url) as connection:
            worker = BareWorker(connection, f"worker-{shift.order.worker}")
            shift.start()
            while not shift.over:
                claimed = worker.claim(shift.order.batch)
                if not claimed:
                    break
                shift.acknowledge([int(title) for title in worker.finish(claimed)])


class BareWorker:
    """Claims and finishes of one agent."""

    def __init__(self, connection: apsw.Connection, agent: str) -> None:
        self._connection = connection
        self._agent = agent
        self._queue = queue_of(connection)
        picked = filled("sqlite", "claim", queue=queue([*self._queue], ":{}"))
        start = replaced(interlocks("sqlite", "start"), GIVEN, picked)
        self._start = replaced(start, ANSWER, "RETURNING id, run, run_bits, title, project, created_us")

    def sorts(self) -> bool:
        """Whether a claim must sort what is ready, because the index does not have it in order."""
        parameters = {
            **DEFAULTS,
            **self._queue,
            "agent": self._agent,
            "batch": 1,
            "now_us": 0,
            "first_run": 0,
        }
        plan = self._connection.execute(f"EXPLAIN QUERY PLAN {self._start}", parameters)
        return any("TEMP B-TREE" in step for *_, step in plan)

    def claim(self, batch: int) -> list[Any]:
        """Start up to `batch` items; answers rows of item, run, bits, title, project and start."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        now_us = time.time_ns() // 1000
        last_run: Any = connection.execute(statement("sqlite", "reserve"), {"n": batch}).get
        given = {"agent": self._agent, "batch": batch, "now_us": now_us, "first_run": last_run - batch + 1}
        rows: list[Any] = connection.execute(self._start, {**DEFAULTS, **self._queue, **given}).fetchall()
        connection.executemany(
            statement("sqlite", "event"),
            [
                (now_us, "run.started", "", project, item, run, self._agent, now_us - created_us)
                for item, run, _, _, project, created_us in rows
            ],
        )
        connection.execute("COMMIT")
        return [(item, run, bits, title, project, now_us) for item, run, bits, title, project, _ in rows]

    def finish(self, claimed: list[Any]) -> list[str]:
        """Complete what is still ours in one transaction; answers the titles."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        now_us = time.time_ns() // 1000
        ended = connection.executemany(
            statement("sqlite", "finish"), [(now_us, item, run, bits) for item, run, bits, *_ in claimed]
        ).fetchall()
        assert len(ended) == len(claimed), "a run was lost although nobody sweeps"
        connection.executemany(
            statement("sqlite", "run"),
            [
                (run, item, self._agent, started_us, now_us, bits)
                for item, run, bits, _, _, started_us in claimed
            ],
        )
        connection.executemany(
            statement("sqlite", "event"),
            [
                (now_us, "run.succeeded", "reported", project, item, run, self._agent, now_us - started_us)
                for item, run, _, _, project, started_us in claimed
            ],
        )
        connection.execute("COMMIT")
        return [row[3] for row in claimed]


def queue_of(connection: apsw.Connection) -> dict[str, Any]:
    """What names the queue that the items are in: those of a drain are all in one."""
    cursor = connection.execute("SELECT * FROM queued LIMIT 1")
    for row in cursor:
        found = dict(zip([name for name, _ in cursor.get_description()], row, strict=True))
        return {name: value for name, value in found.items() if name not in ORDER}
    return {}
