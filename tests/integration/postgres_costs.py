"""What the statements of a PostgreSQL store touch: stores of any size, made quickly, and connections that ask
the server for the buffers or the rows of every statement before they run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from interlock.service.local import LocalService
from interlock.store import statements
from interlock.store.postgres.database import Database
from interlock.store.postgres.statement import Statement, StatementConnection
from interlock.store.postgres.store import PostgresStore

_FILL = Path(__file__).parent / "sql" / "fill_postgres.sql"


def fill(url: str, last: int, first: int = 1) -> None:
    """Put items numbered from `first` to `last` into a store that has those before."""
    with psycopg.connect(url, autocommit=True) as conn:
        text = _FILL.read_text("utf-8").replace("{first}", str(first)).replace("{last}", str(last))
        conn.execute(text.encode())


def buffers(plan: dict[str, Any]) -> int:
    """Shared buffers that the whole statement hit or read; those of planning are not counted."""
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def rows(plan: dict[str, Any]) -> int:
    """Rows that the nodes of a plan gave or threw away, each time that they were asked."""
    own = plan["Actual Rows"] + sum(n for name, n in plan.items() if name.startswith("Rows Removed"))
    return int(own * plan["Actual Loops"]) + sum(map(rows, plan.get("Plans", ())))


@dataclass(slots=True)
class Costs:
    """The most that each statement touched, by the name of its file: buffers, or what `measure` counts."""

    names: dict[str, str] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    watching: bool = False
    measure: Callable[[dict[str, Any]], int] = buffers
    #: How often each statement is looked at, at most.
    looks: int = 1_000_000
    looked: Counter[str] = field(default_factory=Counter)

    def wants(self, text: str) -> bool:
        """Whether to look at a statement now."""
        self.looked[text] += self.watching
        return self.watching and self.looked[text] <= self.looks

    def note(self, text: str, touched: int) -> None:
        name = self.names.get(text, text)
        self.touched[name] = max(touched, self.touched.get(name, 0))

    @contextmanager
    def watched(self) -> Iterator[None]:
        self.watching = True
        try:
            yield
        finally:
            self.watching = False


class Watched(StatementConnection):
    """A connection that explains every statement before it runs it: with a custom plan, with a generic one,
    and with the one that this session has kept, if it has."""

    costs: Costs

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        if isinstance(query, Statement) and not query.startswith("LOCK") and self.costs.wants(query):
            plans = _custom(self, query, params), _generic(self, query, params), _kept(self, query, params)
            self.costs.note(query, max(self.costs.measure(plan) for plan in plans if plan is not None))
        return super().execute(query, params, **options)


_run = StatementConnection.execute


def _custom(conn: StatementConnection, text: Statement, params: Any) -> dict[str, Any]:
    explained = Statement(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}")
    explained.names, explained.encoded = text.names, explained.encode()
    with _undone(conn):
        return _plan(StatementConnection.execute(conn, explained, params, prepare=False))


def _generic(conn: StatementConnection, text: Statement, params: Any) -> dict[str, Any]:
    """The plan that the server keeps for any parameters."""
    with _undone(conn):
        _run(conn, "SET LOCAL plan_cache_mode = force_generic_plan", prepare=False)
        _run(conn, f"PREPARE looked_at AS {text}", prepare=False)
        plan = _executed(conn, "looked_at", text, params)
        _run(conn, "DEALLOCATE looked_at", prepare=False)
    return plan


def _kept(conn: StatementConnection, text: Statement, params: Any) -> dict[str, Any] | None:
    """The plan that this session made for an earlier call, and keeps."""
    known = "SELECT name FROM pg_prepared_statements WHERE statement = $1 AND generic_plans > 0"
    found = StatementConnection.execute(conn, known, [str(text)], prepare=False).fetchone()
    if found is None:
        return None
    with _undone(conn):
        return _executed(conn, found[0], text, params)


def _executed(conn: StatementConnection, name: str, text: Statement, params: Any) -> dict[str, Any]:
    values = [params[name] for name in text.names] if text.names or not params else list(params)
    cursor = psycopg.ClientCursor(conn)
    given = ", ".join(cursor.mogrify("%s", (value,)) for value in values)
    call = f"EXECUTE {name}({given})" if values else f"EXECUTE {name}"
    return _plan(_run(conn, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}", prepare=False))


def _plan(explained: psycopg.Cursor[Any]) -> dict[str, Any]:
    plan: dict[str, Any] = explained.fetchall()[0][0][0]["Plan"]
    return plan


@contextmanager
def _undone(conn: StatementConnection) -> Iterator[None]:
    """Past the driver: it forgets every statement that it prepared when it sees something rolled back."""
    inside = conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    conn.pgconn.exec_(b"SAVEPOINT looked" if inside else b"BEGIN")
    try:
        yield
    finally:
        conn.pgconn.exec_(b"ROLLBACK TO looked" if inside else b"ROLLBACK")


class WatchedDatabase(Database):
    """A database all of whose connections are watched, and which sends statements one by one."""

    def __init__(self, url: str, costs: Costs, **options: Any) -> None:
        mine: Any = type("Mine", (Watched,), {"costs": costs})
        self.connection_class = mine
        super().__init__(url, **options)
        folder = Path(statements.__file__).parent / "postgres" / "sql"
        costs.names.update({self.sql[file.stem]: file.stem for file in folder.glob("*.sql")})
        of_github = [
            f"{part}/{file.stem}"
            for part in ("budgets", "costs", "github", "links", "metrics", "outbox")
            for file in folder.glob(f"{part}/*.sql")
        ]
        costs.names.update({self.sql[name]: name for name in of_github})
        costs.names.update({Statement.numbered(text): name for name, text in self.sql.checks.items()})

    @contextmanager
    def pipeline(self, conn: StatementConnection, *, chars: int = 0) -> Iterator[None]:
        yield


def watched_service(url: str, costs: Costs) -> LocalService:
    """On one connection: the sender of notices would now and then make us open a second one, whose first
    statements read the catalogue for about 300 buffers."""
    return LocalService(PostgresStore(WatchedDatabase(url, costs, max_connections=1)))
