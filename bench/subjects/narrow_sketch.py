"""A sketch of the least that a pair costs on PostgreSQL with a fence, two events, a run and five indexes.

It is SQL alone, in two narrow statements: no lanes, plans, counts or rules. It bounds what a pair costs us.
"""

from __future__ import annotations

import psycopg

from bench.databases import clear
from bench.subject import Shift, Store

TABLES = """
CREATE TABLE items(
    id bigserial PRIMARY KEY, title text, agent_key text NOT NULL DEFAULT '', sort_key bigint NOT NULL,
    status text NOT NULL DEFAULT 'pending', run bigint, bits bigint, agent text, due_us bigint,
    ended_us bigint, attempt int DEFAULT 0, lane text,
    project text DEFAULT 'default', priority int DEFAULT 0);
CREATE INDEX ON items(agent_key, sort_key) WHERE status = 'pending';
CREATE INDEX ON items(agent_key, lane, sort_key) WHERE status = 'pending';
CREATE INDEX ON items(due_us) WHERE due_us IS NOT NULL;
CREATE INDEX ON items(status, (-id));
CREATE INDEX ON items(agent) WHERE status = 'in_progress';
CREATE UNIQUE INDEX ON items(lane) WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL;
CREATE TABLE events(
    seq bigserial PRIMARY KEY, at_us bigint, kind text, reason text, project text, item bigint, run bigint,
    lane text, agent text);
CREATE INDEX ON events(item, seq);
CREATE TABLE runs(
    run bigint PRIMARY KEY, item bigint, attempt int, agent text, ended_us bigint, status text, reason text);
CREATE INDEX ON runs(item);
CREATE SEQUENCE run_numbers;
CREATE FUNCTION now_us() RETURNS bigint LANGUAGE sql
    AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint'
"""
CLAIM = """
WITH picked AS (
    SELECT id FROM items WHERE status = 'pending' AND agent_key = ''
    ORDER BY sort_key LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
), started AS (
    UPDATE items SET status = 'in_progress', run = nextval('run_numbers'), bits = (random() * 1e15)::bigint,
        agent = %s, due_us = now_us() + 60000000, attempt = attempt + 1
    FROM picked WHERE items.id = picked.id RETURNING items.*
), logged AS (
    INSERT INTO events(at_us, kind, reason, project, item, run, lane, agent)
    SELECT due_us - 60000000, 'run.started', '', project, id, run, lane, agent FROM started
)
SELECT id, run, bits, title, lane, project, priority, attempt FROM started
"""
FINISH = """
WITH given AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS given(id, run, bits)
), ended AS (
    UPDATE items SET status = 'completed', ended_us = now_us(), run = NULL, bits = NULL, due_us = NULL
    FROM given
    WHERE items.id = given.id AND items.run = given.run AND items.bits = given.bits AND status = 'in_progress'
    RETURNING items.id, given.run, title, project, attempt, agent, ended_us, lane
), kept AS (
    INSERT INTO runs SELECT run, id, attempt, agent, ended_us, 'succeeded', 'reported' FROM ended
), logged AS (
    INSERT INTO events(at_us, kind, reason, project, item, run, lane, agent)
    SELECT ended_us, 'run.succeeded', 'reported', project, id, run, lane, agent FROM ended
)
SELECT title FROM ended
"""


class NarrowSketch:
    name = "narrow sketch"
    store: Store = "postgres"

    def setup(self, url: str) -> None:
        clear(self.store, url)
        with psycopg.connect(url) as connection:
            connection.execute(TABLES)

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        assert lanes is None, "it has no lanes"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO items(title, sort_key) SELECT g::text, g FROM generate_series(0, %s) g", [n - 1]
            )
            connection.execute("VACUUM ANALYZE items")

    def drain(self, shift: Shift) -> None:
        order = shift.order
        with psycopg.connect(order.url, autocommit=True, prepare_threshold=1) as connection:
            cursor = connection.cursor(binary=True)
            shift.start()
            while not shift.over:
                claimed = cursor.execute(CLAIM, [order.batch, f"worker-{order.worker}"]).fetchall()
                if not claimed:
                    break
                given = [[row[n] for row in claimed] for n in range(3)]
                shift.acknowledge([int(title) for (title,) in cursor.execute(FINISH, given)])

    def left(self, url: str) -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM items WHERE status <> 'completed'").fetchone()
        assert row is not None
        return int(row[0])
