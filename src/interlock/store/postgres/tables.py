"""Named statements on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from psycopg.errors import ForeignKeyViolation

from interlock.store.postgres.database import Database
from interlock.store.postgres.statement import Statement, StatementConnection
from interlock.store.rows import array
from interlock.store.tables import Ask, MissingReference

T = TypeVar("T")


class PostgresTables:
    """Runs named statements on PostgreSQL. All work is repeated if the connection breaks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, name: str, /, **params: Any) -> list[Any]:
        def once() -> list[Any]:
            with self._database.connection() as conn:
                return self._ask(conn, name, **params)

        return self._database.persistently(once)

    write = read

    def reading(self, work: Callable[[Ask], T]) -> T:
        def once() -> T:
            with self._database.connection() as conn:
                return work(partial(self._ask, conn))

        return self._database.persistently(once)

    writing_each = reading

    def writing(self, work: Callable[[Ask], T]) -> T:
        def once() -> T:
            with self._database.pinned_transaction() as conn:
                return work(partial(self._ask, conn))

        try:
            return self._database.persistently(once)
        except ForeignKeyViolation as error:
            raise MissingReference from error

    def lock(self, what: str, /, **of: Any) -> None:
        self.read(f"lock_{what}", **of)

    def still_prunable(self, what: str, ids: Sequence[int], before_us: int) -> list[int]:
        rows = self.read(f"lock_prunable_{what}", before_us=before_us, **{what: ids})
        return [row[0] for row in rows]

    def delete(self, table: str, column: str, values: Sequence[int]) -> None:
        text = self._database.sql.text("prune").replace("{table}", table).replace("{column}", column)
        with self._database.connection() as conn:
            conn.execute(Statement.numbered(text), {"gone": array(values)})

    @property
    def checks(self) -> Mapping[str, str]:
        return self._database.sql.checks

    def check(self, text: str) -> list[Any]:
        def once() -> list[Any]:
            with self._database.connection() as conn:
                params = {"now_us": self._database.time(conn)}
                # A cached plan from when the tables were small may be quadratic now.
                return conn.execute(Statement.numbered(text), params, prepare=False).fetchall()

        return self._database.persistently(once)

    def _ask(self, conn: StatementConnection, name: str, /, **params: Any) -> list[Any]:
        """Run a statement on a connection. The server's clock is used unless one is injected."""
        given = {k: array(v) if isinstance(v, list | tuple) else v for k, v in params.items()}
        given.setdefault("now_us", self._database.given_now())
        found = conn.execute(self._database.sql[name], given, binary=True)
        return found.fetchall() if found.description else []
