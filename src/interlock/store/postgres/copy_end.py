"""A PostgreSQL database as one end of a copy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from interlock.core import continuity
from interlock.core.continuity import Ancestor, Lineage
from interlock.store.postgres.database import Database
from interlock.store.rows import event_rows
from interlock.store.store_copy import (
    COPIED_FROM,
    READ_ROWS,
    SEALED,
    CopySeal,
    LiveRunRow,
    Numbers,
    Row,
    names,
    new_seal,
    seal_from_rows,
)

T = TypeVar("T")

#: Conversions of values whose type SQLite lacks, for writing and for reading.
_TO_PLAIN: dict[str, Callable[[Any], Any]] = {"ARRAY": json.dumps, "boolean": int}
_FROM_PLAIN: dict[str, Callable[[Any], Any]] = {"ARRAY": json.loads, "boolean": bool}


class PostgresEnd:
    """A database that is copied, or filled."""

    def __init__(self, database: Database, place: str = "") -> None:
        self.database = database
        self.place = place

    def kept_seal(self, name: str) -> CopySeal | None:
        return seal_from_rows(self.database.rows("meta", name=name))

    def columns(self, table: str) -> list[str]:
        return list(self._types(table))

    def _types(self, table: str) -> dict[str, str]:
        return dict(self.database.rows("columns", table=table))

    def numbers(self) -> Numbers:
        return Numbers(*self.database.rows("last_numbers")[0])

    def now_us(self) -> int:
        now_us: int = self.database.rows("now")[0][0]
        return now_us

    # -- as the source ----------------------------------------------------------------------------

    def lineage(self) -> Lineage:
        return self.database.lineage()

    def live_runs(self, limit: int) -> list[LiveRunRow]:
        return [LiveRunRow(*row) for row in self.database.rows("running", limit=limit)]

    def close_claims(self, to: str) -> None:  # noqa: ARG002  (`keep_closed` says it)
        self.database.run(self.database.sql.text("copying/close_claims"))

    def keep_closed(self, to: str, for_s: int) -> None:
        self._write("keep_closed", place=to, for_s=for_s)

    def open_claims(self) -> None:
        self.database.run(self.database.sql.text("copying/open_claims"))

    def seal(self, to: str) -> CopySeal:
        seal = new_seal(to, self.now_us())
        self.open_claims()
        self._write("set_meta", name=SEALED, value=seal.text())
        self.database.run(self.database.sql.text("copying/seal"))
        return seal

    def unseal(self) -> None:
        self.database.run(self.database.sql.text("copying/unseal"))

    def read(self, table: str, columns: Sequence[str], key: Sequence[str]) -> Iterator[Row]:
        types = self._types(table)
        plain = [(n, _TO_PLAIN[types[name]]) for n, name in enumerate(columns) if types[name] in _TO_PLAIN]
        at = [columns.index(name) for name in key]
        places = ", ".join(f"${n + 1}" for n in range(len(key)))
        select = f"SELECT {names(columns)} FROM interlock.{table}"  # noqa: S608  (our own names)
        behind = f"WHERE ({names(key)}) > ({places})"
        order = f"ORDER BY {names(key)} LIMIT {READ_ROWS}"
        page = self._page(f"{select} {order}", ())
        while page:
            for row in page:
                values = list(row)
                for n, convert in plain:
                    values[n] = None if values[n] is None else convert(values[n])
                yield values
            page = self._page(f"{select} {behind} {order}", [page[-1][n] for n in at])

    def _page(self, statement: str, behind: Sequence[Any]) -> list[tuple[Any, ...]]:
        def once() -> list[tuple[Any, ...]]:
            with self.database.connection() as conn:
                return conn.execute(statement, behind).fetchall()

        return self.database.persistently(once)

    def snapshot(self, work: Callable[[], T]) -> T:
        return self.database.at_once(work, lasting=True)

    # -- as the target ----------------------------------------------------------------------------

    def is_empty(self, table: str) -> bool:
        return not self._page(f"SELECT FROM interlock.{table} LIMIT 1", ())

    def clear(self) -> None:
        self.database.run(self.database.sql.text("copying/clear"))

    def count_live(self) -> int:
        count: int = self.database.rows("copying/count_live")[0][0]
        return count

    def revoke_runs(self, bits: int) -> int:
        now_us = self.now_us()
        return len(self.database.rows("copying/revoke_runs", now_us=now_us, bits=bits))

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
        types = self._types(table)
        own = [(n, _FROM_PLAIN[types[name]]) for n, name in enumerate(columns) if types[name] in _FROM_PLAIN]
        statement = f"COPY interlock.{table} ({names(columns)}) FROM STDIN"
        count = 0
        with (
            self.database.connection() as conn,
            conn.cursor() as cursor,
            cursor.copy(statement.encode()) as lines,
        ):
            for row in rows:
                values = list(row)
                for n, convert in own:
                    values[n] = None if values[n] is None else convert(values[n])
                lines.write_row(values)
                count += 1
        return count

    def settle(self, numbers: Numbers, ancestors: Mapping[str, Ancestor], origin: CopySeal) -> int:
        self._write("settle_copy", at_us=origin.at_us)
        now_us = self.now_us()
        last_run = continuity.last_run_after_change(numbers.run, now_us)
        self._write("set_counters", **numbers._replace(run=last_run)._asdict())
        self._write("adopt", last_run=last_run)
        self.database.add_ancestors(ancestors)
        self._write("set_meta", name=COPIED_FROM, value=origin.text())
        moved = continuity.changed(origin.place, self.place, last_run, now_us)
        self._write("insert_events", now_us=None, rows=event_rows([moved]))
        return last_run

    def _write(self, name: str, /, **params: Any) -> None:
        with self.database.connection() as conn:
            conn.execute(self.database.sql[name], params)
