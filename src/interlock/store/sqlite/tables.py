"""Named statements on SQLite."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import apsw

from interlock.store.sqlite.database import SqliteDatabase
from interlock.store.tables import Ask, MissingReference

T = TypeVar("T")


class SqliteTables:
    """Runs named statements on SQLite. Reads take no lock. A write reads the clock after it has the write
    lock."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def read(self, name: str, /, **params: Any) -> list[Any]:
        if ":now_us" in self._database.sql[name] and "now_us" not in params:
            params["now_us"] = self._database.now_us()
        return self._database.rows(name, **params)

    def write(self, name: str, /, **params: Any) -> list[Any]:
        with self._database.write():
            return self.read(name, **params)

    @property
    def checks(self) -> Mapping[str, str]:
        return self._database.sql.checks

    def check(self, text: str) -> list[Any]:
        with self._database.guard():
            return list(self._database.db.execute(text, {"now_us": self._database.now_us()}))

    def reading(self, work: Callable[[Ask], T]) -> T:
        return work(self.read)

    def writing(self, work: Callable[[Ask], T]) -> T:
        try:
            with self._database.write():
                return work(self.read)
        except apsw.ConstraintError as error:
            if getattr(error, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_FOREIGNKEY:
                raise MissingReference from error
            raise

    writing_each = writing

    def lock(self, what: str, /, **of: Any) -> None:
        """Do nothing, as a writing transaction locks the whole file."""

    def still_prunable(self, what: str, ids: Sequence[int], before_us: int) -> list[int]:  # noqa: ARG002
        return list(ids)

    def delete(self, table: str, column: str, values: Sequence[int]) -> None:
        statement = self._database.sql["prune"].format(table=table, column=column)
        self._database.db.execute(statement, {"gone": json.dumps(values)})
