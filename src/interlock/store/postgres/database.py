"""One PostgreSQL database: connections, transactions, patience, notices and schema.

Work that may be repeated is repeated: after a deadlock, and until a restarted server is back. A server that
is there and says nothing is given up after the same time.
"""

from __future__ import annotations

import math
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from interlock.core import continuity
from interlock.core.absence import UNREACHABLE, Absence
from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import (
    InterlockError,
    InvalidInput,
    SchemaMismatch,
    StoreBusy,
    StoreRefused,
    StoreSealed,
    StoreUnavailable,
)
from interlock.core.timing import Timing
from interlock.store.migrate import NEWER, Applied, pending, prepare, rows_to_applied
from interlock.store.postgres.connections import Connections
from interlock.store.postgres.notices import Notices
from interlock.store.postgres.statement import Connection, Statement
from interlock.store.statements import Statements

GONE_RETRY_S = 30.0
#: The longest pause between two attempts to reach a server: it is used again this soon after it is back.
PAUSE_MAX_S = 0.5
#: A server that answers at all answers within this, however short the caller's patience is.
SILENCE_MIN_S = 5.0
CONNECT_MAX_S = 5.0
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
#: How many event numbers to skip with each run number: more than a run and its item use.
EVENTS_A_RUN = 16
#: How much text goes through a pipeline at most: what a socket takes at once.
PIPELINE_CHARS = 1 << 16
_MIGRATION_LOCK = 0x696E746C6F636B  # "intlock"
#: What each session relies on, whatever the defaults of database and role. Settings unknown to the server
#: are left out. How the server plans is not ours to choose.
_SETTINGS = {
    # Whatever follows a lock must see what was committed while it was waited for.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    # A client that died while it waited for a lock must not get the lock later.
    "client_connection_check_interval": "1s",
    # A client that was stopped inside a transaction must not hold its rows for ever.
    "idle_in_transaction_session_timeout": "15s",
    # From PostgreSQL 17 on. A client that is stopped in the middle of a pipeline looks busy to the server:
    # `idle_in_transaction_session_timeout` does not end it, this does.
    "transaction_timeout": "60s",
    "lock_timeout": "20s",
    # The caller's own patience bounds a statement, and connections are kept for the next.
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # Every name of ours is qualified; no other schema gets between.
    "search_path": "pg_catalog, pg_temp",
    # Rows go in as arrays, nulls among them.
    "array_nulls": "on",
    "standard_conforming_strings": "on",
    "exit_on_error": "off",
    "restrict_nonsystem_relation_kind": "",
    # A machine that went away without a word must not keep its session, where it is TCP.
    "tcp_user_timeout": "30s",
    # A commit that was answered is durable. Stricter values stay, and `local` is the operator's choice.
    "synchronous_commit": "on",
    # Compiling a statement takes longer than any of ours runs.
    "jit": "off",
}
_CONFIGURE = (
    "SELECT pg_catalog.set_config(name, value, false)"
    " FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[]))"
    " AS s(name, value)"
    " WHERE pg_catalog.current_setting(name, true) IS NOT NULL"
    " AND (name OPERATOR(pg_catalog.<>) 'synchronous_commit'"
    " OR pg_catalog.current_setting(name) OPERATOR(pg_catalog.=) 'off')"
)
_ENCODING = "UTF8"
#: The oldest major version whose SQL ours is.
OLDEST = 16
_PIPELINES_FROM = 17_00_00
#: How the network is watched where it is TCP, unless the URL says otherwise: a machine that went away without
#: a word is noticed in about ten seconds, which leaves time to reach the one that took its place.
_TCP = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
_FORM = "Use postgresql://user@host/database, with options that PostgreSQL knows behind a question mark."
#: Refusals that waiting does not mend: a wrong role, password or database, missing rights, a program that is
#: no PostgreSQL. The driver gives no code for what happens while it connects, only words: the server's, if
#: they are English, a pooler's, and its own. What is not known to be for good may be a restart.
_FOR_GOOD_STATES = ("28", "3D", "42")
#: No space, no memory, no connection, a limit of the server.
_SHORT_STATES = "53"
_FOR_GOOD_WORDS = (
    "does not exist",
    "authentication failed",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "permission denied",
    "no such database",
    "no such user",
    "unsupported startup parameter",
    "does not support SSL",
    "does not support GSSAPI",
    "certificate",
    "no password supplied",
    "authentication method",
    "channel binding",
    "expected authentication request",
    "invalid response to SSL negotiation",
    "Permission denied",
)
GONE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    # What a process learns that was stopped and goes on, or whose server set its clock.
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
)
_AGAIN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
#: What `interlock.expect` raises: the database no longer serves this program.
_TOO_OLD = "IL001"
#: What it raises where the database was moved, restored or failed over since numbers were given out last.
_MOVED = "IL002"
#: What the triggers of a store that is sealed, or about to be, call themselves.
SEALED, CLOSED = "sealed", "no_run_starts"
#: What a server says when it has no connection left, for anybody or for a role.
_FULL = re.compile("FATAL: .*(too many connections|too many clients|remaining connection slots)")
#: What a server says to whom it does not let in.
_NOT_LET_IN = re.compile(r'FATAL: .*(role "|user "|database "|password|pg_hba)')
#: A prepared statement is not there, or another's is: a pooler has changed the session in between.
_NOT_PREPARED = ("26000", "42P05")
#: How often sessions are looked at, since others may get between.
_ANYTHING, _LOOKS = "SELECT 1", 5
#: A table, column or function is not there, or a result has other columns than it had.
_OTHER_SHAPE = ("42", "0A000")
_FORK_LOCK = threading.Lock()

T = TypeVar("T")


class Database:
    """A database whose schema `interlock` is ours."""

    backend = "postgres"
    connection_class = Connection

    def __init__(
        self,
        url: str,
        *,
        timing: Timing | None = None,
        now: Callable[[], int] | None = None,
        max_connections: int = 8,
        retry_s: float = GONE_RETRY_S,
        migrate: bool = True,
        absence: Absence | None = None,
    ) -> None:
        self._absence = absence or Absence()
        self.timing = timing or Timing()
        self.sql = Statements("postgres", Statement.numbered)
        self.now = now
        self._retry_s, self._silence_s = retry_s, max(retry_s, SILENCE_MIN_S)
        self._notices = Notices(self._send_notice)
        self._local = threading.local()
        self._listeners: list[Connection] = []
        self.url = url
        self._max_connections = max_connections
        self._pid = os.getpid()
        self._inherited: list[object] = []
        self.pool = self._open_pool()
        if migrate:
            try:
                prepare(self)
            except BaseException:
                self.close()
                raise

    def _open_pool(self) -> Connections:
        return Connections(self._connect, self._max_connections, self._retry_s)

    def _connect(self) -> Connection:
        conn = self.connection_class.connect(self.url, autocommit=True, **self._options)
        try:
            _check_version(conn)
            conn.silence_s, conn.absence = self._silence_s, self._absence
            _configure(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    @cached_property
    def _options(self) -> dict[str, Any]:
        try:
            given = conninfo_to_dict(self.url)
        except psycopg.ProgrammingError:  # its words may repeat the URL, and so a password
            raise InvalidInput("The store's URL cannot be read.", _FORM) from None
        ours = _TCP | {"connect_timeout": math.ceil(min(self._silence_s, CONNECT_MAX_S))}
        chosen = {name: value for name, value in ours.items() if name not in given}
        return chosen | {"client_encoding": _ENCODING}

    # -- connections and transactions -------------------------------------------------------------

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Say in one sentence what the database refused."""
        try:
            yield
        except psycopg.errors.LockNotAvailable:
            raise StoreBusy("A lock in the database was not given within 20 s.", "Try again.") from None
        except psycopg.errors.ReadOnlySqlTransaction:
            raise StoreUnavailable(
                "The database only takes reads.", "Point INTERLOCK_URL at the primary server."
            ) from None
        except psycopg.errors.InsufficientPrivilege as error:
            if error.diag.constraint_name == SEALED:
                raise StoreSealed(str(error.diag.message_detail)) from None
            if error.diag.constraint_name == CLOSED:
                raise StoreBusy(
                    _first_line(error) + ".", "Wait until that is done, then use the store there."
                ) from None
            raise StoreRefused(
                f"The database refused: {_first_line(error)}.",
                "Grant the role USAGE on schema interlock, rights on its tables and what is named; CREATE to"
                " migrate.",
            ) from None
        except psycopg.errors.DiskFull:
            raise StoreUnavailable(
                "The database has no space left.", "Free some space; nothing was changed."
            ) from None
        except GONE as error:
            raise _unavailable(error) from None
        except psycopg.DatabaseError as error:
            if error.sqlstate == _MOVED:
                raise StoreUnavailable(
                    "The database was moved or failed over, and its numbers cannot be moved forward.",
                    "Run `interlock migrate --after-restore` as the owner of the schema.",
                ) from None
            if error.sqlstate in _NOT_PREPARED:
                raise StoreUnavailable(
                    "The pooler between Interlock and the database does not keep prepared statements.",
                    "Use PgBouncer 1.21 or newer with max_prepared_statements, or its session mode, or none.",
                ) from None
            if error.sqlstate == _TOO_OLD:
                raise SchemaMismatch(f"{_first_line(error)}.", NEWER) from None
            if (error.sqlstate or "").startswith(_OTHER_SHAPE):
                self._refuse_other_schema()
            raise

    def _refuse_other_schema(self) -> None:
        """Say so if a statement failed because the database has moved on since it was opened."""
        pending(self.backend, self._applied())

    def persistently(self, work: Callable[[], T]) -> T:
        """Do work that may be repeated: again after a deadlock, and until a restarted server is back."""
        if self._pinned is not None:
            return work()  # whoever began the transaction repeats it as a whole
        deadline_s = time.monotonic() + self._retry_s
        pause_s, moved, absence = 0.02, False, self._absence
        with self.guard():
            while True:
                try:
                    if moved:
                        self._adopt()
                        moved = False
                    done = work()
                    absence.answered()
                    return done
                except _AGAIN:
                    if time.monotonic() > deadline_s:
                        raise
                except (psycopg.errors.LockNotAvailable, psycopg.errors.DiskFull):
                    raise
                except GONE as error:
                    if not _may_come_back(error):
                        raise
                    absence.missed(UNREACHABLE, time.monotonic())
                    if not absence.waits(time.monotonic(), deadline_s):
                        raise
                except psycopg.DatabaseError as error:
                    if error.sqlstate != _MOVED or time.monotonic() > deadline_s:
                        raise
                    moved = True
                time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _adopt(self) -> None:
        """Move the numbers forward before anything is given out, in a transaction of its own."""
        with self.connection() as conn, self.transaction(conn):
            counter, now_us = conn.execute(self.sql["last_run"]).fetchall()[0]
            last_run = continuity.last_run_after_change(counter, now_us)
            conn.execute(self.sql["adopt"], {"last_run": last_run})

    def leap(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool:
        """Go on above a fence of this lineage; false if another store gives out numbers in its name."""

        def work() -> bool:
            with self.connection() as conn, self.transaction(conn):
                counter, now_us, leapt_us = conn.execute(self.sql["last_leap"]).fetchall()[0]
                last_run = continuity.last_run_after_lag(
                    counter, past, now_us, armed_us=armed_us, leapt_us=leapt_us
                )
                if last_run is not None:
                    params = {"past": past, "last_run": last_run, "run": run, "lane": lane}
                    conn.execute(self.sql["leap"], params)
                return last_run is not None

        return self.persistently(work)

    def lineage(self) -> Lineage:
        """The name of this store, and the stores that it comes from."""
        return continuity.lineage(self.rows("stores"))

    def add_ancestors(self, ancestors: Mapping[str, Ancestor]) -> None:
        """Record stores that this one goes on from."""
        for store, state in ancestors.items():
            self.rows("add_ancestor", id=store, state=state)

    def _leave_parent(self) -> None:
        """In a forked child: the parent's connections are its own. They are kept untouched, for closing one
        would end the parent's session, and new ones are opened."""
        with _FORK_LOCK:
            if self._pid != os.getpid():
                self._inherited += [self.pool, self._local, self._listeners, self._notices]
                self._local, self._listeners = threading.local(), []
                self._notices = Notices(self._send_notice)
                self.pool = self._open_pool()
                self._pid = os.getpid()

    def close(self) -> None:
        if self._pid != os.getpid():
            return
        self._notices.close()
        for listener in self._listeners:
            listener.close()
        self.pool.close()

    # -- schema -----------------------------------------------------------------------------------

    def applied(self) -> list[Applied]:
        return self.persistently(self._applied)

    def _applied(self) -> list[Applied]:
        with self.connection() as conn:
            # Asked of the catalogue's rows: `to_regclass` answers from a cache, which does not notice what
            # another session has made while this transaction waited for its turn to migrate.
            there = conn.execute(
                "SELECT EXISTS (SELECT FROM pg_tables"
                " WHERE schemaname = 'interlock' AND tablename = 'migrations')"
            ).fetchone()
            if not only(there):
                return []
            rows = conn.execute("SELECT * FROM interlock.migrations ORDER BY version")
            return rows_to_applied(rows.fetchall())

    def exclusively(self, work: Callable[[], T]) -> T:
        def once() -> T:
            with self.connection() as conn, self._patient(conn), self.transaction(conn):
                conn.execute("SET LOCAL lock_timeout = '5min'")
                if conn.info.server_version >= _PIPELINES_FROM:
                    conn.execute("SET LOCAL transaction_timeout = 0")
                conn.execute("SELECT pg_advisory_xact_lock($1)", (_MIGRATION_LOCK,))
                with self._pin(conn):
                    # Whoever writes has read this table and ends first; the next ones wait.
                    if self._applied():
                        conn.execute("LOCK TABLE interlock.migrations")
                    return work()

        return self.persistently(once)

    @contextmanager
    def _patient(self, conn: Connection) -> Iterator[None]:
        """A migration takes as long as it takes, and so does waiting for another's."""
        bound_s, conn.silence_s = conn.silence_s, math.inf
        try:
            yield
        finally:
            conn.silence_s = bound_s

    def run(self, script: str) -> None:
        conn: Connection = self._local.pinned
        conn.execute(script.encode(), prepare=False)

    def after_restore(self) -> int:
        """Skip numbers of runs and events that may have been given out since the backup; what this store was
        copied from is gone. Gives the last run number skipped."""
        with self.guard(), self.connection() as conn, self.transaction(conn):
            counter, now_us = conn.execute(self.sql["last_run"]).fetchall()[0]
            last_run = continuity.last_run_after_change(counter, now_us)
            given = {"last_run": last_run, "events": continuity.SKIPPED * EVENTS_A_RUN}
            conn.execute(self.sql["advance"], given)
            conn.execute(self.sql["lose_origins"])
            return last_run

    def check_sessions(self) -> None:
        """`StoreUnavailable` if a pooler between takes away what a session has prepared.

        Else a process that lives long would work for a while, and then now and again.
        """

        def work() -> None:
            with self.connection() as one, self.connection() as other:
                one.execute(_ANYTHING, prepare=True)
                for _ in range(_LOOKS):
                    with self.transaction(other):  # in the session that `one` had, if a pooler shares them
                        other.execute(_ANYTHING, prepare=False)
                        one.execute(_ANYTHING, prepare=True)

        self.persistently(work)

    # -- asking ---------------------------------------------------------------------------------------

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        if self._pid != os.getpid():
            self._leave_parent()
        pinned = self._pinned
        if pinned is not None:  # a second one might never come: there may be no more
            yield pinned
            return
        with self.pool.connection() as conn:
            yield conn

    @property
    def _pinned(self) -> Connection | None:
        """The connection of the transaction that this thread is in, if everything is to be read in it."""
        return getattr(self._local, "pinned", None)

    @contextmanager
    def _pin(self, conn: Connection) -> Iterator[None]:
        self._local.pinned = conn
        try:
            yield
        finally:
            self._local.pinned = None

    def at_once(self, work: Callable[[], T]) -> T:
        """Whatever `work` reads is of one moment. It must not write, and may be repeated."""

        def once() -> T:
            with self.connection() as conn:
                conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                try:
                    with self._pin(conn):
                        return work()
                finally:
                    roll_back(conn)

        return self.persistently(once)

    def ask(self, name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self.connection() as conn:
            return conn.execute(self.sql[name], params, binary=True).fetchall()

    def run_statement(self, name: str) -> None:
        with self.connection() as conn:
            conn.execute(self.sql[name])

    def rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """What a statement reads; asked again if the connection breaks."""
        return self.persistently(lambda: self.ask(name, params))

    def probe(self) -> None:
        """Raise unless the store can be written now. A server that restarts is not waited for."""
        with self.guard():
            try:
                self.run_statement("probe")
            except GONE:  # perhaps the connection is older than the server
                self.run_statement("probe")

    def time(self, conn: Connection) -> int:
        return self.now() if self.now else int(only(conn.execute(self.sql["now"]).fetchone()))

    def given_now(self) -> int | None:
        """The time of an injected clock, for statements that else read the server's."""
        return self.now() if self.now else None

    @contextmanager
    def pipeline(self, conn: Connection, *, chars: int = 0) -> Iterator[None]:
        """Statements sent inside go out together; their answers are there after the block.

        Before PostgreSQL 17 they are sent one by one: there a client that was stopped in the middle of a
        pipeline would keep its locks for ever. So are large ones: the driver waits for an answer to what it
        has not sent yet, and moves all that is left after each write to the socket.
        """
        if conn.info.server_version < _PIPELINES_FROM or chars > PIPELINE_CHARS:
            yield
            return
        with conn.pipeline():
            yield

    @contextmanager
    def transaction(self, conn: Connection) -> Iterator[None]:
        """READ COMMITTED: whatever follows a lock is read by a later statement, so that it sees what was
        committed meanwhile."""
        conn.execute(BEGIN)
        try:
            yield
            conn.execute("COMMIT")
        except BaseException:
            roll_back(conn)
            raise

    # -- notices --------------------------------------------------------------------------------------

    def notify(self) -> None:
        if self._pid != os.getpid():
            self._leave_parent()
        self._notices.want()

    def _send_notice(self) -> None:
        try:
            self.ask("notify", {})
        except (psycopg.Error, InterlockError):
            return  # waiters poll as well; a lost notice costs them a second

    def listener(self) -> Connection:
        if self._pid != os.getpid():
            self._leave_parent()
        listener: Connection | None = getattr(self._local, "listener", None)
        if listener is None or listener.closed:
            listener = self._connect()
            listener.execute("LISTEN interlock_ready")
            self._local.listener = listener
            self._listeners = [each for each in self._listeners if not each.closed] + [listener]
        return listener

    def forget_listener(self) -> None:
        self._local.listener = None


def _check_version(conn: Connection) -> None:
    """Refuse a server that is too old for our SQL, before it refuses that as wrong."""
    if conn.info.server_version < OLDEST * 10_000:
        version = conn.info.parameter_status("server_version") or str(conn.info.server_version // 10_000)
        raise StoreRefused(
            f"This server is PostgreSQL {version.split()[0]}; Interlock needs PostgreSQL {OLDEST} or newer.",
            "Upgrade the server, or point INTERLOCK_URL at a newer one.",
        )


def _configure(conn: Connection) -> None:
    """Make a session independent of the database's and the role's defaults."""
    encoding = conn.info.parameter_status("server_encoding")
    if encoding not in (_ENCODING, None):
        raise StoreUnavailable(
            f"The database has the encoding {encoding}, and Interlock needs {_ENCODING}.",
            f"Make another: CREATE DATABASE … ENCODING '{_ENCODING}' TEMPLATE template0.",
        )
    conn.adapters.register_dumper(int, Int8Dumper)  # one parameter type, so one prepared statement
    conn.execute(_CONFIGURE, (list(_SETTINGS), list(_SETTINGS.values())))


def roll_back(conn: Connection) -> None:
    """End a transaction that failed, if there is still anybody to tell."""
    if not conn.broken:
        conn.execute("ROLLBACK")


def only(row: tuple[Any, ...] | None) -> Any:
    """The single value of a row that must be there."""
    assert row is not None
    return row[0]


def _may_come_back(error: Exception) -> bool:
    """A server that restarts comes back; a wrong password or an unknown database does not."""
    state = getattr(error, "sqlstate", None) or ""
    if state:
        return not state.startswith(_FOR_GOOD_STATES)
    return not any(words in str(error) for words in _FOR_GOOD_WORDS)


def _unavailable(error: psycopg.Error) -> StoreUnavailable:
    """What to say of a database that was not reached, or that could not go on."""
    if (error.sqlstate or "").startswith(_SHORT_STATES):
        return StoreUnavailable(
            f"The database is short of something: {_first_line(error)}.",
            "Raise its limit, or free some; nothing was changed.",
        )
    kind = StoreUnavailable if _may_come_back(error) else StoreRefused
    return kind(f"The database cannot be reached: {_first_line(error)}.", _at_the_door(error))


def _at_the_door(error: psycopg.Error) -> str:
    """What to do about a connection that was not made. A server that says FATAL is up."""
    if _FULL.search(str(error)):
        return "The server is up, and has no connection left: raise the limit, or use a pooler."
    if _NOT_LET_IN.search(str(error)):
        return "The server is up: check the role, the password and the database in INTERLOCK_URL."
    return "Is the server up? Check INTERLOCK_URL."


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
