"""The limit on PostgreSQL: Interlock's own rows, in two statements and two commits a batch, no rules."""

from __future__ import annotations

from typing import Any

import psycopg

from bench.statements import statement
from bench.subject import Shift
from bench.subjects.interlock_subject import Interlock

#: A cached generic plan does not know the LIMIT, assumes a tenth of the queue and sorts it.
OPTIONS = "-c plan_cache_mode=force_custom_plan -c jit=off"


class BarePostgres(Interlock):
    """Set up and filled by Interlock; only claim and finish are its own."""

    def __init__(self) -> None:
        super().__init__(store="postgres")
        self.name = "bare SQL"

    def drain(self, shift: Shift) -> None:
        order = shift.order
        agent = f"worker-{order.worker}"
        with psycopg.connect(order.url, autocommit=True, options=OPTIONS) as connection:
            connection.prepare_threshold = 0
            finish(connection, agent, claim(connection, agent, 0))
            shift.start()
            while not shift.over:
                claimed = claim(connection, agent, order.batch)
                if not claimed:
                    break
                shift.acknowledge([int(title) for title in finish(connection, agent, claimed)])


def claim(connection: psycopg.Connection[Any], agent: str, batch: int) -> list[Any]:
    """Start up to `batch` items; answers rows of item, run, title and start."""
    return connection.execute(statement("postgres", "claim"), {"agent": agent, "batch": batch}).fetchall()


def finish(connection: psycopg.Connection[Any], agent: str, claimed: list[Any]) -> list[str]:
    """Complete what is still ours; answers the titles."""
    parameters = {
        "ids": [row[0] for row in claimed],
        "runs": [row[1] for row in claimed],
        "started_us": claimed[0][3] if claimed else 0,
        "agent": agent,
    }
    return [row[0] for row in connection.execute(statement("postgres", "finish"), parameters)]
