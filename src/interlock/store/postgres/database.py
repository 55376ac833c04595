"""One PostgreSQL database: connections, transactions, retries, notifications and schema.

Idempotent work is repeated after a deadlock, and until a restarted server is back. A connected but silent
server is given up after the same time.
"""

from __future__ import annotations

import math
import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from interlock.core import continuity
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
from interlock.core.store_outage import UNREACHABLE, StoreOutage
from interlock.core.timing import Timing
from interlock.store.migrate import NEWER, Applied, pending, prepare, rows_to_applied
from interlock.store.postgres.connections import Connections
from interlock.store.postgres.notifications import Notifications
from interlock.store.postgres.statement import Statement, StatementConnection
from interlock.store.statements import Statements

GONE_RETRY_S = 30.0
#: The longest pause between two attempts to reach a server, so the longest delay after it is back.
PAUSE_MAX_S = 0.5
#: The shortest wait for an answer, even if the caller's patience is shorter.
SILENCE_MIN_S = 5.0
CONNECT_MAX_S = 5.0
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
#: The most text in a pipeline: as much as a socket takes at once.
PIPELINE_CHARS = 1 << 16
_MIGRATION_LOCK = 0x696E746C6F636B  # "intlock"
#: The settings that each session needs, whatever the defaults of database and role. Settings unknown to the
#: server are left out. There are no planner settings.
_SETTINGS = {
    # Statements after a lock must see commits made during the wait for it.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    # A client that dies while it waits for a lock must not get the lock later.
    "client_connection_check_interval": "1s",
    # A client that is suspended inside a transaction must not lock its rows forever.
    "idle_in_transaction_session_timeout": "15s",
    # Since PostgreSQL 17. A client that is suspended in the middle of a pipeline looks busy to the server, so
    # `idle_in_transaction_session_timeout` does not end it. This setting does.
    "transaction_timeout": "60s",
    "lock_timeout": "20s",
    # The caller's own patience bounds a statement, and connections are kept for reuse.
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # All our names are qualified, so no other schema can interfere.
    "search_path": "pg_catalog, pg_temp",
    # Rows are sent as arrays, which may contain nulls.
    "array_nulls": "on",
    "standard_conforming_strings": "on",
    "exit_on_error": "off",
    "restrict_nonsystem_relation_kind": "",
    # With TCP, a machine that vanished silently must not keep its session.
    "tcp_user_timeout": "30s",
    # An acknowledged commit is durable. Stricter values stay, and `local` is the operator's choice.
    "synchronous_commit": "on",
    # JIT compilation takes longer than any of our statements.
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
#: The oldest supported major version.
OLDEST = 16
_PIPELINES_FROM = 17_00_00
#: Keepalive settings for TCP, unless the URL sets others. A machine that vanished silently is detected in
#: about ten seconds, which leaves time to reach its replacement.
_TCP = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
_FORM = "Use postgresql://user@host/database. Options of PostgreSQL follow a question mark."
#: Permanent refusals: a wrong role, password or database, missing permissions, a program other than
#: PostgreSQL. The driver gives no code for errors while it connects, only messages: the server's, if they are
#: English, a pooler's, and its own. Any other error may be a restart.
_FOR_GOOD_STATES = ("28", "3D", "42")
#: Errors of missing space, memory or connections, or of a limit of the server.
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
    # Errors of a process that was suspended, or whose server set its clock.
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
)
_AGAIN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
#: The error of `interlock.expect` if the database no longer serves this program.
_TOO_OLD = "IL001"
#: Its error if the database was moved, restored or failed over since numbers were last given out.
_MOVED = "IL002"
#: The names of the triggers of a store that is sealed, or about to be.
SEALED, CLOSED = "sealed", "no_run_starts"
#: The server's message when it has no connection left, in total or for a role.
_FULL = re.compile("FATAL: .*(too many connections|too many clients|remaining connection slots)")
#: The server's message to a rejected client.
_NOT_LET_IN = re.compile(r'FATAL: .*(role "|user "|database "|password|pg_hba)')
#: A prepared statement is missing, or belongs to another client: a pooler has changed the session in between.
_NOT_PREPARED = ("26000", "42P05")
#: How often sessions are checked, since other clients may interfere.
_ANYTHING, _LOOKS = "SELECT 1", 5
#: A table, column or function is missing, or the columns of a result have changed.
_OTHER_SHAPE = ("42", "0A000")
_FORK_LOCK = threading.Lock()

T = TypeVar("T")


class Database:
    """A database with our schema `interlock`."""

    backend = "postgres"
    connection_class = StatementConnection

    def __init__(
        self,
        url: str,
        *,
        timing: Timing | None = None,
        now: Callable[[], int] | None = None,
        max_connections: int = 8,
        retry_s: float = GONE_RETRY_S,
        migrate: bool = True,
        outage: StoreOutage | None = None,
    ) -> None:
        self._outage = outage or StoreOutage()
        self.timing = timing or Timing()
        self.sql = Statements("postgres", Statement.numbered)
        self.now = now
        self._retry_s, self._silence_s = retry_s, max(retry_s, SILENCE_MIN_S)
        self._notifications = Notifications(self._send_notification)
        self._local = threading.local()
        self._listeners: list[StatementConnection] = []
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

    def _connect(self) -> StatementConnection:
        conn = self.connection_class.connect(self.url, autocommit=True, **self._options)
        try:
            _check_version(conn)
            conn.silence_s, conn.outage = self._silence_s, self._outage
            _configure(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    @cached_property
    def _options(self) -> dict[str, Any]:
        try:
            given = conninfo_to_dict(self.url)
        except psycopg.ProgrammingError:  # its message may quote the URL, and so a password
            raise InvalidInput("Invalid store URL.", _FORM) from None
        ours = _TCP | {"connect_timeout": math.ceil(min(self._silence_s, CONNECT_MAX_S))}
        chosen = {name: value for name, value in ours.items() if name not in given}
        return chosen | {"client_encoding": _ENCODING}

    # -- connections and transactions -------------------------------------------------------------

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turn the database's errors into one sentence."""
        try:
            yield
        except psycopg.errors.LockNotAvailable:
            raise StoreBusy("Timed out after 20 s of waiting for a database lock.", "Try again.") from None
        except psycopg.errors.ReadOnlySqlTransaction:
            raise StoreUnavailable(
                "The database is read-only.", "Point INTERLOCK_URL at the primary server."
            ) from None
        except psycopg.errors.InsufficientPrivilege as error:
            if error.diag.constraint_name == SEALED:
                raise StoreSealed(str(error.diag.message_detail)) from None
            if error.diag.constraint_name == CLOSED:
                raise StoreBusy(
                    _first_line(error) + ".", "Wait until the copy is complete, then use the new store."
                ) from None
            raise StoreRefused(
                f"Permission denied by the database: {_first_line(error)}.",
                "Grant the role USAGE on schema interlock and rights on its tables. To migrate, it"
                " needs CREATE.",
            ) from None
        except psycopg.errors.DiskFull:
            raise StoreUnavailable(
                "The database has no space left.", "Free some space. Nothing was changed."
            ) from None
        except GONE as error:
            raise _unavailable(error) from None
        except psycopg.DatabaseError as error:
            if error.sqlstate == _MOVED:
                raise StoreUnavailable(
                    "The database was moved or failed over, and its run numbers could not be advanced.",
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
        """Raise if a statement failed because the schema has changed since the database was opened."""
        pending(self.backend, self._applied())

    def persistently(self, work: Callable[[], T]) -> T:
        """Do idempotent work: repeat it after a deadlock, and until a restarted server is back."""
        if self.pinned is not None:
            return work()  # whoever began the transaction repeats the whole of it
        deadline_s = time.monotonic() + self._retry_s
        pause_s, moved, outage = 0.02, False, self._outage
        with self.guard():
            while True:
                try:
                    if moved:
                        self._adopt()
                        moved = False
                    done = work()
                    outage.answered()
                    return done
                except _AGAIN:
                    if time.monotonic() > deadline_s:
                        raise
                except (psycopg.errors.LockNotAvailable, psycopg.errors.DiskFull):
                    raise
                except GONE as error:
                    if not _may_come_back(error):
                        raise
                    outage.attempt_failed(UNREACHABLE, time.monotonic())
                    if not outage.waits(time.monotonic(), deadline_s):
                        raise
                except psycopg.DatabaseError as error:
                    if error.sqlstate != _MOVED or time.monotonic() > deadline_s:
                        raise
                    moved = True
                time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _adopt(self) -> None:
        """Move the numbers forward before any is given out, in its own transaction."""
        with self.connection() as conn, self.transaction(conn):
            counter, now_us = conn.execute(self.sql["last_run"]).fetchall()[0]
            last_run = continuity.last_run_after_change(counter, now_us)
            conn.execute(self.sql["adopt"], {"last_run": last_run})

    def skip_runs(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool:
        """Continue above a fence of this lineage; false if another store gives out numbers in its name."""

        def work() -> bool:
            with self.connection() as conn, self.transaction(conn):
                # One process after the other: the second one reads what the first one has skipped.
                conn.execute(self.sql["lock_skips"])
                counter, now_us, skipped_us = conn.execute(self.sql["last_skip"]).fetchall()[0]
                last_run = continuity.last_run_after_lag(
                    counter, past, now_us, armed_us=armed_us, skipped_us=skipped_us
                )
                if last_run is not None:
                    params = {"past": past, "last_run": last_run, "run": run, "lane": lane}
                    conn.execute(self.sql["skip_runs"], params)
                return last_run is not None

        return self.persistently(work)

    def lineage(self) -> Lineage:
        """The name of this store, and the stores that it comes from."""
        return continuity.lineage(self.rows("stores"))

    def add_ancestors(self, ancestors: Mapping[str, Ancestor]) -> None:
        """Record stores that this one continues."""
        for store, state in ancestors.items():
            self.rows("add_ancestor", id=store, state=state)

    def _leave_parent(self) -> None:
        """In a forked child: leave the parent's connections untouched, as closing one would end the parent's
        session. New ones are opened."""
        with _FORK_LOCK:
            if self._pid != os.getpid():
                self._inherited += [self.pool, self._local, self._listeners, self._notifications]
                self._local, self._listeners = threading.local(), []
                self._notifications = Notifications(self._send_notification)
                self.pool = self._open_pool()
                self._pid = os.getpid()

    def close(self) -> None:
        if self._pid != os.getpid():
            return
        self._notifications.close()
        for listener in self._listeners:
            listener.close()
        self.pool.close()

    # -- schema -----------------------------------------------------------------------------------

    def applied(self) -> list[Applied]:
        return self.persistently(self._applied)

    def _applied(self) -> list[Applied]:
        with self.connection() as conn:
            # Read from the catalogue's rows: `to_regclass` answers from a cache, which misses changes by
            # another session while this transaction waited for its turn to migrate.
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
                self._unbounded(conn)
                conn.execute("SELECT pg_advisory_xact_lock($1)", (_MIGRATION_LOCK,))
                with self._pin(conn):
                    # Writing transactions have read this table and end first. Later ones wait.
                    if self._applied():
                        conn.execute("LOCK TABLE interlock.migrations")
                    return work()

        return self.persistently(once)

    def _unbounded(self, conn: StatementConnection) -> None:
        """Lift the time limit of this transaction."""
        if conn.info.server_version >= _PIPELINES_FROM:
            conn.execute("SET LOCAL transaction_timeout = 0")

    @contextmanager
    def _patient(self, conn: StatementConnection) -> Iterator[None]:
        """Lift the time limits for a migration and for the wait for another one."""
        bound_s, conn.silence_s = conn.silence_s, math.inf
        try:
            yield
        finally:
            conn.silence_s = bound_s

    def run(self, script: str) -> None:
        conn: StatementConnection = self._local.pinned
        conn.execute(script.encode(), prepare=False)

    def after_restore(self) -> int:
        """Skip numbers of runs and events that may have been given out since the backup. The source of this
        store is gone. Gives the last skipped run number."""
        with self.guard(), self.connection() as conn, self.transaction(conn):
            counter, now_us = conn.execute(self.sql["last_run"]).fetchall()[0]
            last_run = continuity.last_run_after_change(counter, now_us)
            given = {"last_run": last_run, "events": continuity.EVENTS_SKIPPED}
            conn.execute(self.sql["advance"], given)
            conn.execute(self.sql["retire_ancestors"])
            return last_run

    def check_sessions(self) -> None:
        """Raise `StoreUnavailable` if a pooler in between drops prepared statements of a session.

        Otherwise a long-lived process would work for a while, and then only sometimes.
        """

        def work() -> None:
            with self.connection() as one, self.connection() as other:
                one.execute(_ANYTHING, prepare=True)
                for _ in range(_LOOKS):
                    with self.transaction(other):  # in the session of `one`, if a pooler shares sessions
                        other.execute(_ANYTHING, prepare=False)
                        one.execute(_ANYTHING, prepare=True)

        self.persistently(work)

    # -- asking ---------------------------------------------------------------------------------------

    def connection(self) -> AbstractContextManager[StatementConnection]:
        if self._pid != os.getpid():
            self._leave_parent()
        pinned = self.pinned
        # Where this thread has one, waiting for a second one might never end.
        return self.pool.connection() if pinned is None else nullcontext(pinned)

    @property
    def pinned(self) -> StatementConnection | None:
        """The connection of this thread's current transaction, if all reads belong to it."""
        return getattr(self._local, "pinned", None)

    @contextmanager
    def _pin(self, conn: StatementConnection) -> Iterator[None]:
        self._local.pinned = conn
        try:
            yield
        finally:
            self._local.pinned = None

    @contextmanager
    def pinned_transaction(self) -> Iterator[StatementConnection]:
        """A transaction that includes all statements of this thread, or the part of one."""
        if (pinned := self.pinned) is not None:
            yield pinned
            return
        with self.connection() as conn, self.transaction(conn), self._pin(conn):
            yield conn

    def at_once(self, work: Callable[[], T], *, lasting: bool = False) -> T:
        """Run `work` on one snapshot. It must not write, and may be repeated. In a transaction that has
        begun, each statement has its own snapshot.

        With `lasting` it may take hours.
        """
        if self.pinned is not None:
            return work()

        def once() -> T:
            with self.connection() as conn:
                conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                try:
                    if lasting:
                        self._unbounded(conn)
                        conn.execute("SET LOCAL idle_in_transaction_session_timeout = '5min'")
                    with self._pin(conn):
                        return work()
                finally:
                    roll_back(conn)

        return self.persistently(once)

    def ask(self, name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self.connection() as conn:
            return conn.fetch(self.sql[name], params)

    def run_statement(self, name: str) -> None:
        with self.connection() as conn:
            conn.execute(self.sql[name])

    def rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """The rows of a reading statement, which is repeated if the connection breaks."""
        return self.persistently(lambda: self.ask(name, params))

    def probe(self) -> None:
        """Raise unless the store can be written now. It does not wait for a restarting server."""
        with self.guard():
            try:
                self.run_statement("probe")
            except GONE:  # perhaps the connection is older than the server
                self.run_statement("probe")

    def time(self, conn: StatementConnection) -> int:
        return self.now() if self.now else int(only(conn.execute(self.sql["now"]).fetchone()))

    def given_now(self) -> int | None:
        """The time of an injected clock, for statements that otherwise read the server's."""
        return self.now() if self.now else None

    @contextmanager
    def pipeline(self, conn: StatementConnection, *, chars: int = 0) -> Iterator[None]:
        """Send the statements of the block together. Their answers are available after it.

        Before PostgreSQL 17 they are sent one by one: there a client that is suspended in the middle of a
        pipeline would keep its locks forever. Large ones are also sent one by one: the driver would wait for
        an answer to unsent data, and copies all remaining data after each write to the socket.
        """
        if conn.info.server_version < _PIPELINES_FROM or chars > PIPELINE_CHARS:
            yield
            return
        with conn.pipeline():
            yield

    @contextmanager
    def transaction(self, conn: StatementConnection) -> Iterator[None]:
        """A READ COMMITTED transaction. Reads after a lock are later statements, so they see commits made
        during the wait."""
        conn.execute(BEGIN)
        try:
            yield
            commit(conn)
        except BaseException:
            roll_back(conn)
            raise

    # -- notifications -------------------------------------------------------------------------------

    def notify(self) -> None:
        if self._pid != os.getpid():
            self._leave_parent()
        self._notifications.want()

    def _send_notification(self) -> None:
        try:
            self.ask("notify", {})
        except (psycopg.Error, InterlockError):
            return  # waiters also poll; a lost notification costs them a second

    def listener(self) -> StatementConnection:
        if self._pid != os.getpid():
            self._leave_parent()
        listener: StatementConnection | None = getattr(self._local, "listener", None)
        if listener is None or listener.closed:
            listener = self._connect()
            listener.execute("LISTEN interlock_ready")
            self._local.listener = listener
            self._listeners = [each for each in self._listeners if not each.closed] + [listener]
        return listener

    def forget_listener(self) -> None:
        self._local.listener = None


def _check_version(conn: StatementConnection) -> None:
    """Refuse a server that is too old for our SQL, before it reports syntax errors."""
    if conn.info.server_version < OLDEST * 10_000:
        version = conn.info.parameter_status("server_version") or str(conn.info.server_version // 10_000)
        raise StoreRefused(
            f"This server is PostgreSQL {version.split()[0]}; Interlock needs PostgreSQL {OLDEST} or newer.",
            "Upgrade the server, or point INTERLOCK_URL at a newer one.",
        )


def _configure(conn: StatementConnection) -> None:
    """Make a session independent of the database's and the role's defaults."""
    encoding = conn.info.parameter_status("server_encoding")
    if encoding not in (_ENCODING, None):
        raise StoreUnavailable(
            f"The database's encoding is {encoding}; Interlock needs {_ENCODING}.",
            f"Create another: CREATE DATABASE … ENCODING '{_ENCODING}' TEMPLATE template0.",
        )
    conn.adapters.register_dumper(int, Int8Dumper)  # one parameter type, so one prepared statement
    conn.execute(_CONFIGURE, (list(_SETTINGS), list(_SETTINGS.values())))


def commit(conn: StatementConnection) -> None:
    """Commit, without a prepared statement: where an earlier statement of its pipeline fails, the driver
    would take the COMMIT for prepared, and the server would not know it."""
    conn.execute("COMMIT", prepare=False)


def roll_back(conn: StatementConnection) -> None:
    """Roll back a failed transaction, if the connection still works. After a signal it is closed instead: an
    answer may be on its way."""
    error = sys.exc_info()[1]
    if error is not None and not isinstance(error, Exception):
        conn.close()
    elif not conn.broken:
        conn.execute("ROLLBACK")


def only(row: tuple[Any, ...] | None) -> Any:
    """The single value of a row that must exist."""
    assert row is not None
    return row[0]


def _may_come_back(error: Exception) -> bool:
    """Whether an error may be temporary, as a restart is. A wrong password or unknown database is
    permanent."""
    state = getattr(error, "sqlstate", None) or ""
    if state:
        return not state.startswith(_FOR_GOOD_STATES)
    return not any(words in str(error) for words in _FOR_GOOD_WORDS)


def _unavailable(error: psycopg.Error) -> StoreUnavailable:
    """The error for a database that is unreachable, or that could not continue."""
    if (error.sqlstate or "").startswith(_SHORT_STATES):
        return StoreUnavailable(
            f"The database is out of resources: {_first_line(error)}.",
            "Raise its limits or free resources. Nothing was changed.",
        )
    kind = StoreUnavailable if _may_come_back(error) else StoreRefused
    return kind(f"Cannot reach the database: {_first_line(error)}.", _at_the_door(error))


def _at_the_door(error: psycopg.Error) -> str:
    """The hint for a failed connection. A server that answers FATAL is up."""
    if _FULL.search(str(error)):
        return "The server is up but has no free connections: raise the limit, or use a pooler."
    if _NOT_LET_IN.search(str(error)):
        return "The server is up: check the role, the password and the database in INTERLOCK_URL."
    return "Is the server up? Check INTERLOCK_URL."


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
