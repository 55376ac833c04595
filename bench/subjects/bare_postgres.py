"""The limit on PostgreSQL: the rows that have to be written, in two statements and two commits a batch."""

from __future__ import annotations

import psycopg

from bench.statements import statement
from bench.subject import Shift, Store

#: A cached generic plan does not know the LIMIT, assumes a tenth of the queue and sorts it.
OPTIONS = "-c plan_cache_mode=force_custom_plan -c jit=off"


class BarePostgres:
    name = "bare SQL"
    store: Store = "postgres"

    def setup(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement("postgres", "schema"))

    def fill(
        self, url: str, n: int, lanes: int | None = None, *, first: int = 0, agent_key: str = ""
    ) -> None:
        if lanes is not None:
            raise NotImplementedError("the bare loop has no lanes")
        with psycopg.connect(url, autocommit=True) as connection:
            bounds = {"first": first, "last": first + n - 1, "agent_key": agent_key}
            connection.execute(statement("postgres", "fill"), bounds)
            connection.execute("VACUUM ANALYZE items")

    def drain(self, shift: Shift) -> None:
        claim, finish = statement("postgres", "claim"), statement("postgres", "finish")
        order = shift.order
        with psycopg.connect(order.url, autocommit=True, options=OPTIONS) as connection:
            connection.prepare_threshold = 0
            connection.execute(claim, {"agent": f"worker-{order.worker}", "batch": 0})
            connection.execute(finish, {"ids": [], "runs": []})
            shift.start()
            while not shift.over:
                claimed = connection.execute(
                    claim, {"agent": f"worker-{order.worker}", "batch": order.batch}
                ).fetchall()
                if not claimed:
                    break
                ended = connection.execute(
                    finish, {"ids": [row[0] for row in claimed], "runs": [row[1] for row in claimed]}
                ).fetchall()
                shift.acknowledge([row[0] for row in ended])

    def left(self, url: str) -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM items LEFT JOIN runs ON runs.item_id = items.id WHERE runs.run IS NULL"
            ).fetchone()
        assert row is not None
        return int(row[0])
