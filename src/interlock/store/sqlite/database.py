"""One SQLite file: its connections, transactions, schema and clock.

Every write is one `BEGIN IMMEDIATE` transaction with `synchronous=FULL`, so a fence that was given out
survives a power loss; readers never wait. Not promised: network file systems.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from interlock.core import bootclock, continuity
from interlock.core.absence import Absence
from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import SchemaMismatch, StoreSealed
from interlock.store import clock
from interlock.store.migrate import Applied, pending, prepare, rows_to_applied, too_old
from interlock.store.rows import event_row
from interlock.store.sqlite import forks, move, openfiles
from interlock.store.sqlite.trouble import in_words, no_room
from interlock.store.statements import Statements

T = TypeVar("T")

BUSY_TIMEOUT_S = 30.0
#: How often a reader looks whether its files are still those at the path. A writer does each time.
LOOK_EVERY_S = 0.05
#: What is left of a log that a long reader made large, once that is gone. SQLite itself never shrinks it.
LOG_KEPT_BYTES = 16 << 20
#: A disk with less space than this is full.
ROOM_BYTES = 1 << 20


class SqliteDatabase:
    """A file that threads and processes may share; each thread has its own connection."""

    backend = "sqlite"

    def __init__(
        self,
        path: str | Path,
        *,
        now: Callable[[], int] | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        migrate: bool = True,
        absence: Absence | None = None,
    ) -> None:
        self._absence = absence or Absence()
        self.path = Path(path)
        self.sql = Statements("sqlite")
        self._busy_timeout_s = busy_timeout_s
        self._local = threading.local()
        self._clock = now
        #: The file that was opened first. A later connection must find the same one.
        self._file: openfiles.Identity = None
        #: Whether it was looked at whether the store knows that file.
        self._recognised = False
        self._looked_s = 0.0
        forks.watch(self)
        if migrate:
            prepare(self)

    # -- connections and transactions -------------------------------------------------------------

    @property
    def db(self) -> apsw.Connection:
        """This thread's connection; a forked child opens its own."""
        local = self._local
        if getattr(local, "pid", None) != os.getpid():
            with self.guard():
                local.db = openfiles.connect(self.path, self._file)
                self._prepare(local.db)
                self._file, local.files = openfiles.opened(self.path, local.db)
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
            now_s = time.monotonic()
            if self._local.beginning:  # a reader never waits for long, and must not hide who does
                self._absence.missed(f"Another process has {self.path.name} locked", now_s)
            return self._absence.waits(now_s, begun_s + self._busy_timeout_s)

        self._local.beginning = False
        # Plan a statement once: without this, SQLite plans it again whenever a bound value changes.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        db.set_busy_handler(wait_a_little)
        self._use_wal(db)
        db.pragma("synchronous", "full")
        db.pragma("journal_size_limit", LOG_KEPT_BYTES)
        db.pragma("foreign_keys", True)
        db.pragma("temp_store", "memory")
        db.pragma("cache_size", -16_000)

    def _use_wal(self, db: apsw.Connection) -> None:
        """When several processes switch a new file to WAL at once, SQLite reports busy to all but one without
        calling the busy handler: waiting could deadlock two connections that both want a stronger lock."""
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
    def guard(self) -> Iterator[None]:
        """Turn what SQLite refuses into one sentence with a hint."""
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
                if isinstance(error, apsw.SQLError) and db is not None:
                    # Perhaps a table or column is not there because the database has moved on.
                    pending(self.backend, self._applied(db))
                raise
            self.check_files()  # they explain more than what SQLite makes of them
            raise said from None

    @contextmanager
    def write(self) -> Iterator[None]:
        """One transaction of this thread that has the write lock from its first statement, on a database that
        serves this program."""
        if self._is_part:
            with self._part():
                yield
            return
        if not self._recognised:
            self._recognise()
        with self.transaction():
            self._expect_schema()
            yield

    @contextmanager
    def together(self) -> Iterator[None]:
        """Transactions of this thread within are parts of one, which is committed at the end. Each is kept or
        undone by itself until then."""
        with self.write():
            self._local.together = True
            try:
                yield
            finally:
                self._local.together = False

    @property
    def _is_part(self) -> bool:
        return getattr(self._local, "together", False)

    @contextmanager
    def _part(self) -> Iterator[None]:
        db = self.db
        with self.guard():
            db.execute("SAVEPOINT part")
            try:
                yield
            except BaseException:
                if db.in_transaction:  # else SQLite has undone the whole
                    db.execute("ROLLBACK TO part")
                    db.execute("RELEASE part")
                raise
            db.execute("RELEASE part")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._is_part:
            with self._part():
                yield
            return
        db, local = self.db, self._local
        with self.guard():
            self._end_interrupted(db)
            mine = local.transaction = object()
            try:
                local.beginning = True
                db.execute("BEGIN IMMEDIATE")
                local.beginning = False
                self._absence.answered()
                self.check_files()
                yield
                db.execute("COMMIT")
            except BaseException:
                if getattr(local, "transaction", None) is mine and db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            finally:
                local.beginning, local.clock = False, None

    def _end_interrupted(self, db: apsw.Connection) -> None:
        """A signal's exception may come between a transaction's begin and the block that would end it."""
        if db.in_transaction:
            db.execute("ROLLBACK")

    def _recognise(self) -> None:
        """If the store is a copy or was restored, skip the run numbers that may be in use elsewhere."""
        if self.known_file() != self.open_file():
            with self.transaction():
                self._expect_schema()
                was = self.known_file()
                if was != self.open_file():
                    openfiles.mark(self.path)
                    self.rows("set_meta", name="file", value=self.open_file())
                    if was is not None:
                        self._go_on_after(was)
                    self.rows("set_meta", name="place", value=openfiles.place(self.path))
        self._recognised = True

    def _go_on_after(self, was: str) -> None:
        now_us, counter = self.now_us(), self.value("reserve", name="run", count=0)
        last_run = continuity.last_run_after_change(counter, now_us)
        self.rows("reserve", name="run", count=last_run - counter)
        self.each("insert_event", [event_row(continuity.changed(was, self.open_file(), last_run, now_us))])
        # The file that was at this place is not there any more. One at another place may be.
        replaced = self.value("meta", name="place") == openfiles.place(self.path)
        self.rows("leave_store", state=Ancestor.GONE if replaced else Ancestor.COPIED)
        self.rows("name_store")

    def leap(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool:
        """Go on above a fence of this lineage; false if another store gives out numbers in its name."""
        with self.write():
            now_us, counter = self.now_us(), self.value("reserve", name="run", count=0)
            leapt_us = self.value("meta", name="leapt_us")
            last_run = continuity.last_run_after_lag(
                counter, past, now_us, armed_us=armed_us, leapt_us=leapt_us and int(leapt_us)
            )
            if last_run is not None and last_run > counter:
                self.rows("reserve", name="run", count=last_run - counter)
                self.rows("set_meta", name="leapt_us", value=str(now_us))
                event = continuity.leapt(past, last_run, run, lane, now_us)
                self.each("insert_event", [event_row(event)])
            return last_run is not None

    def lineage(self) -> Lineage:
        """The name of this store, and the stores that it comes from."""
        return continuity.lineage(self.rows("stores"))

    def add_ancestors(self, ancestors: Mapping[str, Ancestor]) -> None:
        """Record stores that this one goes on from."""
        with self.write():
            for store, state in ancestors.items():
                self.rows("add_ancestor", id=store, state=state)

    def known_file(self) -> str | None:
        """The file that the store was in when it was last written."""
        found: str | None = self.value("meta", name="file")
        return found

    def open_file(self) -> str:
        """The file that is open."""
        return openfiles.known_as(self.path, self._file)

    def _expect_schema(self) -> None:
        version, serves, self._local.clock, seal = self.db.execute(self.sql["serves"]).get
        if serves > self.sql.schema:
            raise too_old(version, self.sql.schema)
        if seal is not None:
            raise StoreSealed(json.loads(seal)["place"])

    def at_once(self, work: Callable[[], T]) -> T:
        """Whatever `work` reads is of one moment. It must not write."""
        if self._is_part:
            return work()
        db = self.db
        with self.guard():
            self._look_at_files()
            self._end_interrupted(db)
            db.execute("BEGIN")
            try:
                return work()
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def check_files(self) -> None:
        """Raise if the files that this thread has open are not those that the path names."""
        if getattr(self._local, "pid", None) == os.getpid():
            self._local.files.check()
            self._looked_s = time.monotonic()

    def _look_at_files(self) -> None:
        """The same for a reader, who may be late by a moment."""
        if time.monotonic() - self._looked_s >= LOOK_EVERY_S:
            self.check_files()

    def close(self) -> None:
        """Close this thread's connection; the next use opens another."""
        if getattr(self._local, "pid", None) == os.getpid():
            forks.disconnect(self._local.db)
            self._local.pid = self._local.files = self._local.transaction = None

    # -- statements -------------------------------------------------------------------------------

    def rows(self, name: str, /, **params: Any) -> list[Any]:
        """All rows of a statement. Lists go in as JSON."""
        plain = {k: json.dumps(v) if isinstance(v, list | tuple) else v for k, v in params.items()}
        with self.guard():
            db = self.db
            if not db.in_transaction:
                self._look_at_files()
            return list(db.execute(self.sql[name], plain))

    def value(self, name: str, /, **params: Any) -> Any:
        """The first column of a statement's first row; None if it has no row."""
        found = self.rows(name, **params)
        return found[0][0] if found else None

    def each(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row of values."""
        if rows:
            self.db.executemany(self.sql[name], rows)

    # -- schema -----------------------------------------------------------------------------------

    def probe(self) -> None:
        """Raise unless the store can be written now, and grow a little: its log may have room for small
        writes long after the disk is full."""
        with self.write():
            self.rows("probe")
        disk = os.statvfs(self.path.parent)
        if disk.f_bavail * disk.f_frsize < ROOM_BYTES:
            raise no_room(self.path, os.strerror(errno.ENOSPC))

    def check_sessions(self) -> None:
        """Nothing is between a process and its file."""

    def applied(self) -> list[Applied]:
        with self.guard():
            # In this order: another process may commit its migration between the two reads.
            empty = self.db.execute("SELECT count(*) FROM sqlite_schema").get == 0
            ours = self.db.pragma("application_id") == move.APPLICATION_ID
            if not ours and not empty:
                raise SchemaMismatch(
                    f"{self.path} is a database, but not one of Interlock's.", "Name another file."
                )
            if empty:
                return []
            if (place := move.moved_to(self.db)) is not None:
                raise SchemaMismatch(
                    f"The store {self.path} was moved to {place}.",
                    "Unset INTERLOCK_URL, or let it name the new place.",
                )
            return self._applied(self.db)

    def _applied(self, db: apsw.Connection) -> list[Applied]:
        return rows_to_applied(list(db.execute("SELECT * FROM migrations ORDER BY version")))

    def exclusively(self, work: Callable[[], T]) -> T:
        with self.transaction():
            return work()

    def run(self, script: str) -> None:
        self.db.execute(script)

    # -- time and numbers -------------------------------------------------------------------------

    def now_us(self) -> int:
        """The store's time: see `core.bootclock`."""
        if self._clock is not None:
            return self._clock()
        db, text = self.db, getattr(self._local, "clock", None)
        if text is None:  # else this transaction has read it
            with self.guard():
                text = db.execute(self.sql["meta"], {"name": "clock"}).get
        moment = clock.moment()
        now_us = bootclock.reading(clock.offsets_from(text), self._scale(), moment)
        if now_us is not None:
            return now_us
        if db.txn_state() == apsw.SQLITE_TXN_WRITE:
            return self._settle_clock()
        if db.in_transaction:
            return moment.wall_us  # only a look; the next write settles it
        try:
            with self.write():
                return self.now_us()
        except StoreSealed:
            return moment.wall_us  # nobody will write

    def go_on_from(self, now_us: int) -> None:
        """Let the clock of a new store begin no earlier than this."""
        moment = clock.moment()
        if now_us > moment.wall_us:
            offsets = {str(self._scale()): now_us - moment.since_boot_us}
            self.rows("set_meta", name="clock", value=clock.offsets_text(offsets))

    def _settle_clock(self) -> int:
        offsets = clock.offsets_from(self.value("meta", name="clock"))
        last_us = self.value("last_event_us") or 0
        found = bootclock.settled(offsets, self._scale(), clock.moment(), last_us)
        self._local.clock = clock.offsets_text(found.offsets)
        self.rows("set_meta", name="clock", value=self._local.clock)
        if found.step_us:
            for name in ("move_deadlines", "move_plan_deadlines", "move_completions"):
                self.rows(name, step_us=found.step_us)
        if found.mercy:
            self.rows("spare_leases", now_us=found.now_us)
        if found.event is not None:
            self.each("insert_event", [event_row(found.event)])
        return found.now_us

    def _scale(self) -> bootclock.Scale:
        """The way in which this process counts the time since boot; a forked child may count in another."""
        local = self._local
        if getattr(local, "scale_of", None) != os.getpid():
            local.scale, local.scale_of = clock.scale(), os.getpid()
        found: bootclock.Scale = local.scale
        return found

    def tickets(self, count: int) -> list[int]:
        """Tickets, taken before the wait for the write lock, so that arrivals go in order and not by luck."""
        first = max(self.now_us(), self.value("read_ticket") + 1)
        return list(range(first, first + count))

    def reserve(self, name: str, count: int) -> list[Any]:
        """The next numbers of a counter, which nobody else gets."""
        if not count:
            return []
        last: int = self.value("reserve", name=name, count=count)
        return list(range(last - count + 1, last + 1))

    def after_restore(self) -> int:
        """Skip run numbers that may have been given out since the backup; what this store was copied from is
        gone. Gives the last number skipped."""
        with self.write():
            counter = self.value("reserve", name="run", count=0)
            last_run = continuity.last_run_after_change(counter, self.now_us())
            self.rows("reserve", name="run", count=last_run - counter)
            self.rows("lose_origins")
            return last_run


def _pause() -> None:
    from random import uniform  # noqa: PLC0415  (most commands find the file free)

    time.sleep(uniform(0.0002, 0.002))  # noqa: S311  (spreads the waiting ones; nothing secret)
