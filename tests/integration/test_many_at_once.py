"""A large plan, made by a session that has only seen small tables."""

from __future__ import annotations

from itertools import pairwise

import psycopg

from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore

COUNT = 1_000


def chain(size: int) -> Graph:
    keys = [f"t{n}" for n in range(size)]
    return Graph(
        tasks=tuple(TaskSpec(key=k, title=k, payload="{}") for k in keys),
        edges=tuple(EdgeSpec(source=s, target=t) for s, t in pairwise(keys)),
    )


def test_a_large_plan_reads_no_whole_table_for_each_task(pg_database18: str) -> None:
    """The server looks up what a row refers to by plans that each session makes once. Without `DISCARD PLANS`
    it walks through a million rows of `items` here, and as many of `tasks`."""
    store = PostgresStore(Database(pg_database18))
    service = LocalService(store)
    for n in range(8):
        service.create_plan(f"before {n}", chain(2))
    with psycopg.connect(pg_database18, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    for n in range(8):
        service.create_plan(f"after {n}", chain(2))
    service.create_plan("large", chain(COUNT))
    service.close()  # what a session read is counted when it ends
    with psycopg.connect(pg_database18, autocommit=True) as connection:
        counts = connection.execute(
            "SELECT relname, seq_tup_read FROM pg_stat_user_tables"
            " WHERE relname IN ('items', 'lanes', 'tasks', 'edges')"
        ).fetchall()
    assert max(read for _, read in counts) < 10 * COUNT, counts
