"""What the statements of a PostgreSQL store touch: stores of any size, made quickly, and connections that ask
the server for the buffers of every statement before they run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.sql import SQL, Literal

from interlock.service.local import LocalService
from interlock.store.postgres.database import Connection, Database
from interlock.store.postgres.store import PostgresStore

#: Of every hundred items: ninety are history, the rest are spread over all that can be alive. Times are those
#: of a store that has been in use for a while; leases and schedules lie in the future.
FILL = """
SET search_path = interlock;
INSERT INTO lanes SELECT 'issue:acme/app#' || n FROM generate_series({first}, {last}) n;
INSERT INTO agents (key, name, max_concurrency) VALUES ('capped', 'capped', 100000), ('busy', 'busy', 1)
    ON CONFLICT DO NOTHING;
INSERT INTO items (id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane, labels,
    max_attempts, retry_lane, created_us, status, attempt, releases, due_us, run, run_agent, run_started_us, run_lease_s,
    lease_until_us, message_count, delivered, seen, front, first_claimed_us, ended_us, reason)
SELECT n, 'default', 'task', 'item ' || n, CASE WHEN n % 100 IN (90, 91, 98) THEN 'other' WHEN n % 100 = 95 THEN 'coder' ELSE '' END,
    'queue', n % 3, 2147483647, n, ((n % 3) * -1000000000000::bigint) + n,
    CASE WHEN n % 100 IN (96, 98) THEN 'issue:acme/app#' || n WHEN n % 100 = 97 THEN 'issue:acme/app#' || n - 1
        WHEN n % 100 = 99 THEN 'issue:acme/app#' || n - 1 END,
    NULL, 3, 'yield', t.us, CASE WHEN n % 100 < 88 THEN 'completed' WHEN n % 100 = 88 THEN 'failed' WHEN n % 100 = 89 THEN 'cancelled'
        WHEN n % 100 = 94 THEN 'waiting' WHEN n % 100 = 96 THEN 'in_progress' WHEN n % 100 IN (97, 99) THEN 'deferred' ELSE 'pending' END,
    CASE WHEN n % 100 < 89 THEN 1 ELSE 0 END, 0, CASE WHEN n % 100 IN (94, 96) THEN t.us + 86400000000 END,
    CASE WHEN n % 100 = 96 THEN nextval('run_numbers') END, CASE WHEN n % 100 = 96 THEN 'runner' || n % 7 END,
    CASE WHEN n % 100 = 96 THEN t.us END, CASE WHEN n % 100 = 96 THEN 86400 END, CASE WHEN n % 100 = 96 THEN t.us + 86400000000 END,
    0, 0, 0, false, CASE WHEN n % 100 < 89 THEN t.us END, CASE WHEN n % 100 < 90 THEN t.us END, ''
FROM generate_series({first}, {last}) n, (SELECT now_us() AS us) t;
INSERT INTO runs SELECT nextval('run_numbers'), id, 1, 'coder', 'w', created_us, created_us, 'succeeded', 'reported'
    FROM items WHERE status = 'completed' AND id >= {first};
INSERT INTO events (seq, at_us, kind, reason, project, item, lane)
    SELECT 3 * id + e, created_us, k.kind, '', 'default', id, lane
    FROM items, (VALUES (0, 'item.added'), (1, 'run.started'), (2, 'run.succeeded')) AS k(e, kind)
    WHERE id >= {first};
INSERT INTO payloads SELECT id, '{{"n": 1}}' FROM items WHERE id % 2 = 0 AND id >= {first};
INSERT INTO dedupe_keys SELECT 'default', 'key-' || n, n, now_us() + 86400000000 FROM generate_series({first}, {last}) n;
DELETE FROM tallies;
INSERT INTO tallies SELECT status, priority, count(*) FROM items GROUP BY status, priority;
SELECT setval('item_ids', {last}), setval('tickets', {last});
"""

#: What is never looked at: it touches nothing of ours.
_BARE = ("BEGIN", "COMMIT", "ROLLBACK", "SET ", "LISTEN", "LOCK ")


def fill(url: str, last: int, first: int = 1) -> None:
    """Put items numbered from `first` to `last` into a store that has those before."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(SQL(FILL).format(first=Literal(first), last=Literal(last)).as_string(conn).encode())


@dataclass(slots=True)
class Costs:
    """The most buffers that each statement touched, by the name of its file."""

    database: Database | None = None
    buffers: dict[str, int] = field(default_factory=dict)
    #: Round trips of the use case that is under way.
    trips: int = 0
    sent: list[str] = field(default_factory=list)
    watching: bool = False

    def name(self, query: str) -> str:
        assert self.database is not None
        texts = {text: name for name, text in self.database.sql._texts.items()}
        return texts.get(query, query.split("\n", maxsplit=1)[0][:60])


class Watched(psycopg.Connection[Any]):
    """A connection that explains every statement, with a custom and with a generic plan, before it runs it."""

    costs: Costs

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        text = query if isinstance(query, str) else ""
        if self.costs.watching and text and not text.startswith(_BARE):
            self.costs.watching = False
            try:
                name = self.costs.name(text)
                touched = max(_custom(self, text, params), _generic(self, text, params))
                self.costs.buffers[name] = max(touched, self.costs.buffers.get(name, 0))
            finally:
                self.costs.watching = True
        return super().execute(query, params, **options)


def _custom(conn: psycopg.Connection[Any], text: str, params: Any) -> int:
    with _undone(conn):
        plan = psycopg.Connection.execute(
            conn, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode(), params
        )
        return _buffers(plan.fetchone())


def _generic(conn: psycopg.Connection[Any], text: str, params: Any) -> int:
    """The plan that the server keeps for any parameters."""
    cursor = psycopg.ClientCursor(conn)
    if isinstance(params, dict):
        used = [k for k in params if f"%({k})s" in text]
        values = [params[k] for k in used]
        numbered = text % {k: f"${n + 1}" for n, k in enumerate(used)}
    else:
        values = list(params or ())
        numbered = _numbered(text, len(values))
    with _undone(conn):
        conn2 = psycopg.Connection.execute
        conn2(conn, "SET LOCAL plan_cache_mode = force_generic_plan")
        conn2(conn, f"PREPARE looked_at AS {numbered.replace('%%', '%')}".encode())
        given = ", ".join(cursor.mogrify("%s", (v,)) for v in values)
        call = f"EXECUTE looked_at({given})" if values else "EXECUTE looked_at"
        try:
            plan = conn2(conn, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}".encode())
            return _buffers(plan.fetchone())
        finally:
            if conn.info.transaction_status != psycopg.pq.TransactionStatus.INERROR:
                conn2(conn, "DEALLOCATE looked_at")


def _numbered(text: str, count: int) -> str:
    for n in range(count):
        text = text.replace("%s", f"${n + 1}", 1)
    return text


def _buffers(row: Any) -> int:
    """Shared buffers that the whole statement hit or read; those of planning are not counted."""
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@contextmanager
def _undone(conn: psycopg.Connection[Any]) -> Iterator[None]:
    run = psycopg.Connection.execute
    inside = conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    run(conn, "SAVEPOINT looked" if inside else "BEGIN")
    try:
        yield
    finally:
        run(conn, "ROLLBACK TO looked" if inside else "ROLLBACK")


class WatchedDatabase(Database):
    """A database all of whose connections are watched, and which sends statements one by one."""

    def __init__(self, url: str, costs: Costs, **options: Any) -> None:
        self._costs = costs
        super().__init__(url, **options)
        costs.database = self

    def _open_pool(self) -> Any:
        class Mine(Watched):
            costs = self._costs

        pool = super()._open_pool()
        pool.close()
        pool = type(pool)(
            self._url,
            connection_class=Mine,
            kwargs={"autocommit": True},
            min_size=0,
            max_size=2,
            configure=pool._configure,
            open=True,
        )
        return pool

    @contextmanager
    def pipeline(self, conn: Connection) -> Iterator[None]:
        yield


def watched_service(url: str, costs: Costs) -> LocalService:
    return LocalService(PostgresStore(WatchedDatabase(url, costs)))
