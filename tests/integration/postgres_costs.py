"""What the statements of a PostgreSQL store touch: stores of any size, made quickly, and connections that ask
the server for the buffers of every statement before they run it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from interlock.service.local import LocalService
from interlock.store import statements
from interlock.store.postgres.database import Database
from interlock.store.postgres.statement import Connection, Statement
from interlock.store.postgres.store import PostgresStore

_FILL = Path(__file__).parent / "sql" / "fill_postgres.sql"


def fill(url: str, last: int, first: int = 1) -> None:
    """Put items numbered from `first` to `last` into a store that has those before."""
    with psycopg.connect(url, autocommit=True) as conn:
        text = _FILL.read_text("utf-8").replace("{first}", str(first)).replace("{last}", str(last))
        conn.execute(text.encode())


@dataclass(slots=True)
class Costs:
    """The most buffers that each statement touched, by the name of its file."""

    names: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, int] = field(default_factory=dict)
    watching: bool = False

    def note(self, text: str, buffers: int) -> None:
        name = self.names.get(text, text)
        self.buffers[name] = max(buffers, self.buffers.get(name, 0))

    @contextmanager
    def watched(self) -> Iterator[None]:
        self.watching = True
        try:
            yield
        finally:
            self.watching = False


class Watched(Connection):
    """A connection that explains every statement before it runs it, with a custom and a generic plan."""

    costs: Costs

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        if self.costs.watching and isinstance(query, Statement) and not query.startswith("LOCK"):
            self.costs.note(query, max(_custom(self, query, params), _generic(self, query, params)))
        return super().execute(query, params, **options)


_run = Connection.execute


def _custom(conn: Connection, text: Statement, params: Any) -> int:
    explained = Statement(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}")
    explained.names = text.names
    with _undone(conn):
        return _buffers(Connection.execute(conn, explained, params).fetchone())


def _generic(conn: Connection, text: Statement, params: Any) -> int:
    """The plan that the server keeps for any parameters."""
    values = [params[name] for name in text.names] if text.names else list(params or ())
    cursor = psycopg.ClientCursor(conn)
    given = ", ".join(cursor.mogrify("%s", (value,)) for value in values)
    call = f"EXECUTE looked_at({given})" if values else "EXECUTE looked_at"
    with _undone(conn):
        _run(conn, "SET LOCAL plan_cache_mode = force_generic_plan")
        _run(conn, f"PREPARE looked_at AS {text}")
        explained = _run(conn, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}")
        buffers = _buffers(explained.fetchone())
        _run(conn, "DEALLOCATE looked_at")
    return buffers


def _buffers(row: Any) -> int:
    """Shared buffers that the whole statement hit or read; those of planning are not counted."""
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@contextmanager
def _undone(conn: Connection) -> Iterator[None]:
    inside = conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    _run(conn, "SAVEPOINT looked" if inside else "BEGIN")
    try:
        yield
    finally:
        _run(conn, "ROLLBACK TO looked" if inside else "ROLLBACK")


class WatchedDatabase(Database):
    """A database all of whose connections are watched, and which sends statements one by one."""

    def __init__(self, url: str, costs: Costs) -> None:
        mine: Any = type("Mine", (Watched,), {"costs": costs})
        self.connection_class = mine
        super().__init__(url)
        folder = Path(statements.__file__).parent / "postgres" / "sql"
        costs.names.update({self.sql[file.stem]: file.stem for file in folder.glob("*.sql")})

    @contextmanager
    def pipeline(self, conn: Connection, *, chars: int = 0) -> Iterator[None]:
        yield


def watched_service(url: str, costs: Costs) -> LocalService:
    return LocalService(PostgresStore(WatchedDatabase(url, costs)))
