"""A SQLite file as one end of a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from interlock.core import continuity
from interlock.core.continuity import Ancestor, Lineage
from interlock.store.rows import event_row
from interlock.store.sqlite.database import SqliteDatabase
from interlock.store.store_copy import (
    COPIED_FROM,
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

#: The tables of a store's data about itself.
_ABOUT_ITSELF = ("migrations", "meta", "stores", "numbers")


class SqliteEnd:
    """A file that is copied, or filled."""

    def __init__(self, database: SqliteDatabase, place: str = "") -> None:
        self.database = database
        self.place = place

    def kept_seal(self, name: str) -> CopySeal | None:
        return seal_from_rows(self.database.rows("meta", name=name))

    def columns(self, table: str) -> list[str]:
        return [row[0] for row in self.database.rows("columns", table=table)]

    def numbers(self) -> Numbers:
        return Numbers(*self.database.rows("last_numbers")[0])

    def now_us(self) -> int:
        return self.database.now_us()

    # -- as the source ----------------------------------------------------------------------------

    def lineage(self) -> Lineage:
        return self.database.lineage()

    def live_runs(self, limit: int) -> list[LiveRunRow]:
        return [LiveRunRow(*row) for row in self.database.rows("running", limit=limit)]

    def close_claims(self, to: str) -> None:
        self.database.run(self._said("copying/close_claims", to))

    def keep_closed(self, to: str, for_s: int) -> None:
        with self.database.write():
            self.database.rows("keep_closed", place=to, for_s=for_s)

    def open_claims(self) -> None:
        self.database.run(self.database.sql["copying/open_claims"])

    def seal(self, to: str) -> CopySeal:
        seal = new_seal(to, self.database.now_us())
        self.open_claims()
        self.database.rows("set_meta", name=SEALED, value=seal.text())
        for table in self._tables():
            self.database.run(self._said("copying/seal_table", to).replace("{table}", table))
        return seal

    def unseal(self) -> None:
        for table in self._tables():
            self.database.run(self.database.sql["copying/unseal_table"].replace("{table}", table))
        self.database.rows("forget_meta", name=SEALED)

    def _tables(self) -> list[str]:
        return [row[0] for row in self.database.rows("tables")]

    def _said(self, name: str, place: str) -> str:
        """A statement with triggers that contain their messages: older SQLite cannot compute messages."""
        return self.database.sql[name].replace("{place}", place.replace("'", "''"))

    def read(self, table: str, columns: Sequence[str], key: Sequence[str]) -> Iterator[Row]:
        with self.database.guard():
            yield from self.database.db.execute(
                f"SELECT {names(columns)} FROM {table} ORDER BY {names(key)}"  # noqa: S608  (our own names)
            )

    def snapshot(self, work: Callable[[], T]) -> T:
        return self.database.at_once(work)

    # -- as the target ----------------------------------------------------------------------------

    def is_empty(self, table: str) -> bool:
        return not self.database.db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").get  # noqa: S608

    def clear(self) -> None:
        for table in self._tables():
            if table not in _ABOUT_ITSELF:
                self.database.run(self.database.sql["copying/clear_table"].replace("{table}", table))

    def count_live(self) -> int:
        count: int = self.database.rows("copying/count_live")[0][0]
        return count

    def revoke_runs(self, bits: int) -> int:
        now_us = self.database.now_us()
        return len(self.database.rows("copying/revoke_runs", now_us=now_us, bits=bits))

    def write(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
        places = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({names(columns)}) VALUES ({places})"  # noqa: S608
        count = 0
        for row in rows:
            self.database.db.execute(statement, tuple(row))
            count += 1
        return count

    def settle(self, numbers: Numbers, ancestors: Mapping[str, Ancestor], origin: CopySeal) -> int:
        database = self.database
        database.go_on_from(origin.at_us)
        now_us = database.now_us()
        last_run = continuity.last_run_after_change(numbers.run, now_us)
        given = {"item": numbers.item, "run": last_run, "ticket": numbers.ticket}
        for name, value in given.items():
            database.rows("reserve", name=name, count=value - database.value("reserve", name=name, count=0))
        database.rows("copying/number_events_after", seq=numbers.event)
        for store, state in ancestors.items():
            database.rows("add_ancestor", id=store, state=state)
        database.rows("set_meta", name=COPIED_FROM, value=origin.text())
        moved = continuity.changed(origin.place, self.place, last_run, now_us)
        database.each("insert_event", [event_row(moved)])
        return last_run
