"""One SQLite file: its connections, transactions, schema and clock.

Every write is one `BEGIN IMMEDIATE` transaction with `synchronous=FULL`, so a fence survives a power loss.
Readers never wait. Not promised: network file systems.
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
from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import SchemaMismatch, StoreSealed
from interlock.core.store_outage import StoreOutage
from interlock.store import clock
from interlock.store.migrate import Applied, pending, prepare, rows_to_applied, too_old
from interlock.store.rows import event_row
from interlock.store.sqlite import forks, move, openfiles
from interlock.store.sqlite.error_messages import in_words, no_room
from interlock.store.statements import Statements

T = TypeVar("T")

BUSY_TIMEOUT_S = 30.0
#: How often a reader checks whether its files are still those at the path. A writer checks each time.
LOOK_EVERY_S = 0.05
#: The size to which a log is cut after a long reader made it large. SQLite itself never shrinks it.
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
        outage: StoreOutage | None = None,
    ) -> None:
        self._outage = outage or StoreOutage()
        self.path = Path(path)
        self.sql = Statements("sqlite")
        self._busy_timeout_s = busy_timeout_s
        self._local = threading.local()
        self._clock = now
        #: The first opened file. A later connection must find the same one.
        self._file: openfiles.Identity = None
        #: Whether it was checked that the store knows that file.
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
            # Short waits with jitter: SQLite's own steps grow to 100 ms and starve the oldest waiter.
            nonlocal begun_s
            if tries == 0:
                begun_s = time.monotonic()
            _pause()
            now_s = time.monotonic()
            if self._local.beginning:  # a reader never waits long, and must not hide a waiting writer
                self._outage.attempt_failed(f"Another process has {self.path.name} locked", now_s)
            return self._outage.waits(now_s, begun_s + self._busy_timeout_s)

        self._local.beginning = False
        # Plan a statement once. Otherwise SQLite plans it again whenever a bound value changes.
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
        """Turn SQLite's errors into one sentence with a hint."""
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
                    # A table or column may be missing because the schema has changed.
                    pending(self.backend, self._applied(db))
                raise
            self.check_files()  # this explains more than SQLite's error
            raise said from None

    @contextmanager
    def write(self) -> Iterator[None]:
        """A transaction of this thread with the write lock from its first statement, on a database that
        serves this program."""
        if self.is_part:
            with self.part():
                yield
            return
        if not self._recognised:
            self._recognise()
        with self.transaction():
            self._expect_schema()
            yield

    @contextmanager
    def together(self) -> Iterator[None]:
        """Combine this thread's transactions in the block into one, which is committed at the end. Until then
        each is kept or undone separately."""
        was_part = self.is_part
        with self.write():
            self._local.together = True
            try:
                yield
            finally:
                self._local.together = was_part

    @property
    def is_part(self) -> bool:
        return getattr(self._local, "together", False)

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of this thread's transaction, undone by itself if it fails."""
        db = self.db
        with self.guard():
            db.execute("SAVEPOINT part")
            try:
                yield
            except BaseException:
                if db.in_transaction:  # otherwise SQLite has rolled back all of it
                    db.execute("ROLLBACK TO part")
                    db.execute("RELEASE part")
                raise
            db.execute("RELEASE part")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self.is_part:
            with self.part():
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
                self._outage.answered()
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
        """End a transaction if a signal's exception came between its begin and the block that ends it."""
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
        # The earlier file at this place is gone. One at another place may still exist.
        replaced = self.value("meta", name="place") == openfiles.place(self.path)
        self.rows("leave_store", state=Ancestor.GONE if replaced else Ancestor.COPIED)
        self.rows("name_store")

    def skip_runs(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool:
        """Continue above a fence of this lineage; false if another store gives out numbers in its name."""
        with self.write():
            now_us, counter = self.now_us(), self.value("reserve", name="run", count=0)
            skipped_us = self.value("meta", name="leapt_us")
            last_run = continuity.last_run_after_lag(
                counter, past, now_us, armed_us=armed_us, skipped_us=skipped_us and int(skipped_us)
            )
            if last_run is not None and last_run > counter:
                self.rows("reserve", name="run", count=last_run - counter)
                self.rows("set_meta", name="leapt_us", value=str(now_us))
                event = continuity.numbers_skipped(past, last_run, run, lane, now_us)
                self.each("insert_event", [event_row(event)])
            return last_run is not None

    def lineage(self) -> Lineage:
        """The name of this store, and the stores that it comes from."""
        return continuity.lineage(self.rows("stores"))

    def add_ancestors(self, ancestors: Mapping[str, Ancestor]) -> None:
        """Record stores that this one continues."""
        with self.write():
            for store, state in ancestors.items():
                self.rows("add_ancestor", id=store, state=state)

    def known_file(self) -> str | None:
        """The file of the store at its last write."""
        found: str | None = self.value("meta", name="file")
        return found

    def open_file(self) -> str:
        """The open file."""
        return openfiles.known_as(self.path, self._file)

    def _expect_schema(self) -> None:
        version, serves, self._local.clock, seal = self.db.execute(self.sql["serves"]).get
        if serves > self.sql.schema:
            raise too_old(version, self.sql.schema)
        if seal is not None:
            raise StoreSealed(json.loads(seal)["place"])

    def at_once(self, work: Callable[[], T]) -> T:
        """Run `work` on one snapshot. It must not write."""
        if self.is_part:
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
        """Raise if this thread's open files are not those at the path."""
        if getattr(self._local, "pid", None) == os.getpid():
            self._local.files.check()
            self._looked_s = time.monotonic()

    def _look_at_files(self) -> None:
        """The same for a reader, which may detect it a moment later."""
        if time.monotonic() - self._looked_s >= LOOK_EVERY_S:
            self.check_files()

    def close(self) -> None:
        """Close this thread's connection; the next use opens another."""
        if getattr(self._local, "pid", None) == os.getpid():
            forks.disconnect(self._local.db)
            self._local.pid = self._local.files = self._local.transaction = None

    # -- statements -------------------------------------------------------------------------------

    def rows(self, name: str, /, **params: Any) -> list[Any]:
        """All rows of a statement. Lists are passed as JSON."""
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
        """Raise unless the store can be written and can grow a little. Its log may have room for small writes
        long after the disk is full."""
        with self.write():
            self.rows("probe")
        disk = os.statvfs(self.path.parent)
        if disk.f_bavail * disk.f_frsize < ROOM_BYTES:
            raise no_room(self.path, os.strerror(errno.ENOSPC))

    def check_sessions(self) -> None:
        """Do nothing, as there is no pooler between a process and its file."""

    def applied(self) -> list[Applied]:
        with self.guard():
            # In this order: another process may commit its migration between the two reads.
            empty = self.db.execute("SELECT count(*) FROM sqlite_schema").get == 0
            kind = self.db.pragma("application_id")
            if kind == move.BACKUP_ID:
                raise SchemaMismatch(
                    f"{self.path} is a backup, not a store.",
                    "`interlock restore FILE` fills a store from it.",
                )
            ours = kind == move.APPLICATION_ID
            if not ours and not empty:
                raise SchemaMismatch(
                    f"{self.path} is a database, but not an Interlock store.", "Name another file."
                )
            if empty:
                return []
            if (place := move.moved_to(self.db)) is not None:
                raise SchemaMismatch(
                    f"The store {self.path} was moved to {place}.",
                    "Unset INTERLOCK_URL, or point it at the new place.",
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
        if text is None:  # otherwise this transaction has read it
            with self.guard():
                text = db.execute(self.sql["meta"], {"name": "clock"}).get
        moment = clock.moment()
        now_us = bootclock.reading(clock.offsets_from(text), self._scale(), moment)
        if now_us is not None:
            return now_us
        if db.txn_state() == apsw.SQLITE_TXN_WRITE:
            return self._settle_clock()
        if db.in_transaction:
            return moment.wall_us  # only a read; the next write settles it
        try:
            with self.write():
                return self.now_us()
        except StoreSealed:
            return moment.wall_us  # there will be no more writes

    def go_on_from(self, now_us: int) -> None:
        """Start the clock of a new store no earlier than this."""
        moment = clock.moment()
        if now_us > moment.wall_us:
            offsets = {str(self._scale()): now_us - moment.since_boot_us}
            self.rows("set_meta", name="clock", value=clock.offsets_text(offsets))

    def _settle_clock(self) -> int:
        offsets = clock.offsets_from(self.value("meta", name="clock"))
        last_us = self.value("last_event_us") or 0
        found = bootclock.adjustment(offsets, self._scale(), clock.moment(), last_us)
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
        """The scale of this process's time since boot. A forked child may have another."""
        local = self._local
        if getattr(local, "scale_of", None) != os.getpid():
            local.scale, local.scale_of = clock.scale(), os.getpid()
        found: bootclock.Scale = local.scale
        return found

    def tickets(self, count: int) -> list[int]:
        """Take tickets before the wait for the write lock, so that the order of arrival is kept."""
        first = max(self.now_us(), self.value("read_ticket") + 1)
        return list(range(first, first + count))

    def reserve(self, name: str, count: int) -> list[Any]:
        """Take the next numbers of a counter, which no other process gets."""
        if not count:
            return []
        last: int = self.value("reserve", name=name, count=count)
        return list(range(last - count + 1, last + 1))

    def after_restore(self) -> int:
        """Skip run numbers that may have been given out since the backup. The source of this store is gone.
        Gives the last skipped number."""
        with self.write():
            counter = self.value("reserve", name="run", count=0)
            last_run = continuity.last_run_after_change(counter, self.now_us())
            self.rows("reserve", name="run", count=last_run - counter)
            self.rows("retire_ancestors")
            return last_run


def _pause() -> None:
    from random import uniform  # noqa: PLC0415  (rarely needed: the file is mostly free)

    time.sleep(uniform(0.0002, 0.002))  # noqa: S311  (only spreads the retries)
