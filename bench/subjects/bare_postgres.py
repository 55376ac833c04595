"""The limit on PostgreSQL: Interlock's own rows, in two statements and two commits a batch, no rules."""

from __future__ import annotations

from typing import Any

import psycopg

from bench.statements import ORDER, filled, interlocks, parts_of, queue, statement
from bench.subject import Shift
from bench.subjects.interlock_subject import Interlock

#: A cached generic plan does not know the LIMIT, assumes a tenth of the queue and sorts it.
OPTIONS = "-c plan_cache_mode=force_custom_plan -c jit=off"
#: What Interlock's claim does once it has picked items.
WRITING = ("clock", "claimed", "logged", "tallied")
#: The rest of what Interlock's claim asks for, as it is by default.
DEFAULTS = {"now_us": None, "worker": None, "external": False, "lease_s": None, "default_lease_s": 60.0}


class BarePostgres(Interlock):
    """Set up and filled by Interlock; only claim and finish are its own."""

    def __init__(self) -> None:
        super().__init__(store="postgres")
        self.name = "bare SQL"

    def drain(self, shift: Shift) -> None:
        order = shift.order
        with psycopg.connect(order.url, autocommit=True, options=OPTIONS) as connection:
            connection.prepare_threshold = 0
            worker = BareWorker(connection, f"worker-{order.worker}")
            worker.finish(worker.claim(0))
            shift.start()
            while not shift.over:
                claimed = worker.claim(order.batch)
                if not claimed:
                    break
                shift.acknowledge([int(title) for title in worker.finish(claimed)])


class BareWorker:
    """Claims and finishes of one agent."""

    def __init__(self, connection: psycopg.Connection[Any], agent: str) -> None:
        self._connection = connection
        self._agent = agent
        self._queue = queue_of(connection)
        writing = parts_of(interlocks("postgres", "claim"), *WRITING)
        self._claim = filled("postgres", "claim", queue=queue([*self._queue], "%({})s"), writing=writing)

    def sorts(self) -> bool:
        """Whether a claim must sort what is ready, because the index does not have it in order."""
        with self._connection.transaction(force_rollback=True):
            for other in ("sort", "seqscan", "bitmapscan"):
                self._connection.execute(f"SET LOCAL enable_{other} = off".encode())
            parameters = {**DEFAULTS, **self._queue, "agent": self._agent, "batch": 1}
            plan = self._connection.execute(f"EXPLAIN {self._claim}".encode(), parameters).fetchall()
        return any("Sort Key: items.sort_key" in line for (line,) in plan)

    def claim(self, batch: int) -> list[Any]:
        """Start up to `batch` items; answers rows of item, run, bits, title and start."""
        parameters = {**DEFAULTS, **self._queue, "agent": self._agent, "batch": batch}
        return self._connection.execute(self._claim, parameters).fetchall()

    def finish(self, claimed: list[Any]) -> list[str]:
        """Complete what is still ours; answers the titles."""
        parameters = {
            "ids": [row[0] for row in claimed],
            "runs": [row[1] for row in claimed],
            "bits": [row[2] for row in claimed],
            "started_us": claimed[0][4] if claimed else 0,
            "agent": self._agent,
        }
        return [row[0] for row in self._connection.execute(statement("postgres", "finish"), parameters)]


def queue_of(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """What names the queue that the items are in: those of a drain are all in one."""
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        found = cursor.execute("SELECT * FROM interlock.queued LIMIT 1").fetchone() or {}
        return {name: value for name, value in found.items() if name not in ORDER}
