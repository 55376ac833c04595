"""Empty databases, and Interlock on them with its defaults, whatever the environment says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import psycopg

from bench.subject import Store
from interlock import settings
from interlock.app import open_service
from interlock.service.contract import Service

BUSY_TIMEOUT_MS = 60_000


def clear(store: Store, url: str) -> None:
    """Leave nothing of the subject that was here before, so that no vacuum of it disturbs the next."""
    if store == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS interlock, pgboss CASCADE")
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
    else:
        for suffix in ("", "-wal", "-shm"):
            Path(url + suffix).unlink(missing_ok=True)


def settle(store: Store, url: str) -> None:
    """Let the database do what it would do some time after it was filled, before the clock starts."""
    if store == "postgres":
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("VACUUM ANALYZE")


@contextmanager
def interlock_at(store: Store, url: str) -> Iterator[Service]:
    """A service as a Python program has it; an empty database gets its schema."""
    address = url if store == "postgres" else f"sqlite:///{url}"
    chosen = settings.load(url=address, environ={}, directory=Path(tempfile.gettempdir()))
    service = open_service(settings=chosen)
    try:
        yield service
    finally:
        service.close()


@contextmanager
def sqlite_at(url: str) -> Iterator[apsw.Connection]:
    """A connection as durable as Interlock's."""
    connection = apsw.Connection(url)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON")
    try:
        yield connection
    finally:
        connection.close()
