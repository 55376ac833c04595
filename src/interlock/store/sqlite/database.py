"""One SQLite file: connections, transactions, schema and clock of the embedded store.

Every write is one `BEGIN IMMEDIATE` transaction with `synchronous=FULL`, so a fence that was given out
survives a power loss; readers never wait. Not promised: network file systems.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from interlock.core.errors import SchemaMismatch
from interlock.core.timing import Timing
from interlock.store import clock
from interlock.store.migrate import Applied, prepare, rows_to_applied
from interlock.store.sqlite import forks
from interlock.store.sqlite.trouble import in_words
from interlock.store.statements import Statements

BUSY_TIMEOUT_S = 30.0
_APPLICATION_ID = 0x494C4F43  # "ILOC", so that a foreign database is not mistaken for ours


class SqliteDatabase:
    """A file that is safe to share between threads and processes; each thread has its own connection."""

    backend = "sqlite"

    def __init__(
        self,
        path: str | Path,
        *,
        timing: Timing | None = None,
        now: Callable[[], int] | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        migrate: bool = True,
    ) -> None:
        self.path = Path(path)
        self.timing = timing or Timing()
        self.sql = Statements("sqlite")
        self._busy_timeout_s = busy_timeout_s
        self._local = threading.local()
        self._clock = now
        self._handle_key: bytes | None = None
        forks.watch(self)
        if migrate:
            prepare(self)

    # -- connections and transactions -------------------------------------------------------------

    @property
    def db(self) -> apsw.Connection:
        """This thread's connection; a forked child opens its own."""
        local = self._local
        if getattr(local, "pid", None) != os.getpid():
            with self._guard():
                local.db = forks.connect(self.path)
                self._prepare(local.db)
            local.pid = os.getpid()
        connection: apsw.Connection = local.db
        return connection

    def _prepare(self, db: apsw.Connection) -> None:
        begun_s = 0.0

        def wait_a_little(tries: int) -> bool:
            # Short waits with jitter: SQLite's own steps grow to 100 ms and starve whoever waited longest.
            nonlocal begun_s
            if tries == 0:
                begun_s = time.monotonic()
            _pause()
            return time.monotonic() - begun_s < self._busy_timeout_s

        db.set_busy_handler(wait_a_little)
        self._use_wal(db)
        db.pragma("synchronous", "full")
        db.pragma("foreign_keys", True)
        db.pragma("temp_store", "memory")
        db.pragma("cache_size", -16_000)

    def _use_wal(self, db: apsw.Connection) -> None:
        """Of several that turn a new file over at once, SQLite tells all but one that it is busy, at once and
        whatever the busy handler says: a lock that two want to raise would else be waited for for ever."""
        deadline_s = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                db.pragma("journal_mode", "wal")
                return
            except apsw.BusyError:
                if time.monotonic() >= deadline_s:
                    raise
                _pause()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Say in one sentence what the database refused."""
        try:
            yield
        except apsw.Error as error:
            db: apsw.Connection | None = getattr(self._local, "db", None)
            said = in_words(
                error,
                self.path,
                busy_timeout_s=self._busy_timeout_s,
                system_errno=db.system_errno if db else 0,
            )
            if said is None:
                raise
            raise said from None

    @contextmanager
    def _write(self) -> Iterator[apsw.Connection]:
        """One transaction that has the write lock from its first statement."""
        db = self.db
        with self._guard():
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Whatever this thread reads meanwhile is of one moment. It must not write."""
        db = self.db
        with self._guard():
            db.execute("BEGIN")
            try:
                yield
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def close(self) -> None:
        if getattr(self._local, "pid", None) == os.getpid():
            forks.disconnect(self._local.db)
            self._local.pid = None

    # -- schema -----------------------------------------------------------------------------------

    def applied(self) -> list[Applied]:
        with self._guard():
            # In this order: another process may commit its migration between the two reads.
            empty = self.db.execute("SELECT count(*) FROM sqlite_schema").get == 0
            ours = self.db.pragma("application_id") == _APPLICATION_ID
            if not ours and not empty:
                raise SchemaMismatch(
                    f"{self.path} is a database, but not one of Interlock's.", "Name another file."
                )
            if empty:
                return []
            rows = self.db.execute("SELECT version, name, checksum FROM migrations ORDER BY version")
            return rows_to_applied(list(rows))

    def exclusively(self, work: Callable[[], int]) -> int:
        with self._write():
            return work()

    def run(self, script: str) -> None:
        self.db.execute(script)

    def advance_runs(self, count: int) -> int:
        """Skip run numbers after a restore, so that none given out since the backup comes again."""
        with self._write() as db:
            number: int = db.execute(self.sql["reserve"], {"name": "run", "count": count}).get
            return number

    # -- time and numbers -------------------------------------------------------------------------

    def now_us(self) -> int:
        if self._clock is None:
            self._clock = clock.anchored(self._anchor())
        return self._clock()

    def _anchor(self) -> str:
        with self._guard():
            stored = self.db.execute(self.sql["clock_anchor"]).get
        if clock.anchor(stored, 0) == stored:
            return str(stored)
        with self._write_or_join() as db:
            stored = db.execute(self.sql["clock_anchor"]).get
            text = clock.anchor(stored, db.execute(self.sql["last_event_us"]).get or 0)
            db.execute(self.sql["set_clock_anchor"], (text,))
        return text

    @contextmanager
    def _write_or_join(self) -> Iterator[apsw.Connection]:
        if self.db.in_transaction:
            yield self.db
        else:
            with self._write() as db:
                yield db

    def tickets(self, count: int) -> list[int]:
        """Taken before the write lock is waited for, so that order of arrival is not order of luck."""
        with self._guard():
            used: int = self.db.execute(self.sql["read_ticket"]).get
        first = max(self.now_us(), used + 1)
        return list(range(first, first + count))

    def _reserve(self, db: apsw.Connection, name: str, count: int) -> list[Any]:
        if not count:
            return []
        last: int = db.execute(self.sql["reserve"], {"name": name, "count": count}).get
        return list(range(last - count + 1, last + 1))

    def _rows(self, name: str, params: Any = ()) -> list[Any]:
        with self._guard():
            return list(self.db.execute(self.sql[name], params))


def _pause() -> None:
    time.sleep(random.uniform(0.0002, 0.002))  # noqa: S311  (spreads those who wait; nothing secret)
