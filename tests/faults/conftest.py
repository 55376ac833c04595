"""Fixtures for fault tests: both stores, and processes that are gone when the test is.

Every PostgreSQL database of these tests must have counted no deadlock in the end. The mark `deadlocks`
exempts a test that makes one by hand.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.clocks import ServerClock
from tests.faults.failpoints import Proxy
from tests.faults.processes import Crew
from tests.faults.stores import open_service, query
from tests.faults.workers import Site
from tests.postgres_fixtures import StartPostgres
from tests.postgres_server import PostgresServer, short_tempdir

STORES = ["sqlite", "postgres18"]
CHEAP = [*STORES, "postgres16"]


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'interlock.db'}"
    url: str = request.getfixturevalue(f"pg_database{request.param[-2:]}")
    return url


def _assert_no_deadlock(request: pytest.FixtureRequest, server: PostgresServer, url: str) -> None:
    """A deadlock shows that locks are not taken in one order everywhere: see test_lock_order."""
    if request.node.get_closest_marker("deadlocks") is None:
        counted = "SELECT datname, deadlocks FROM pg_stat_database WHERE deadlocks > 0"
        shared = " AND datname = current_database()" if "/postgres?" not in url else ""
        found = query(url, counted + shared)
        assert found == [], "\n".join(["the server undid deadlocks", *map(server.deadlocks, dict(found))])


@pytest.fixture
def pg_database16(
    request: pytest.FixtureRequest, postgres16: PostgresServer, pg_database16: str
) -> Iterator[str]:
    yield pg_database16
    _assert_no_deadlock(request, postgres16, pg_database16)


@pytest.fixture
def pg_database18(
    request: pytest.FixtureRequest, postgres18: PostgresServer, pg_database18: str
) -> Iterator[str]:
    yield pg_database18
    _assert_no_deadlock(request, postgres18, pg_database18)


@pytest.fixture
def start_postgres(request: pytest.FixtureRequest, start_postgres: StartPostgres) -> Iterator[StartPostgres]:
    servers: list[PostgresServer] = []

    def start(*args: Any, **options: Any) -> PostgresServer:
        servers.append(start_postgres(*args, **options))
        return servers[-1]

    yield start
    for server in servers:
        if server.running:
            _assert_no_deadlock(request, server, server.url())


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store: SQLite, PostgreSQL 18."""
    return _url(request, tmp_path)


@pytest.fixture(params=CHEAP)
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store: SQLite, PostgreSQL 18, PostgreSQL 16. For tests that cost little."""
    return _url(request, tmp_path)


@pytest.fixture(params=["postgres16", "postgres18"])
def pg_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database on PostgreSQL 16 and 18."""
    return _url(request, tmp_path)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A fresh SQLite store."""
    return f"sqlite://{tmp_path / 'interlock.db'}"


@pytest.fixture
def crew() -> Iterator[Crew]:
    """Starts real processes; whatever is left of them is killed at the end."""
    crew = Crew()
    yield crew
    crew.dismiss()


@pytest.fixture
def site(tmp_path: Path, sqlite_url: str) -> Iterator[Site]:
    """A directory in which workers work, on SQLite; they are gone when the test is."""
    site = Site(tmp_path, sqlite_url)
    yield site
    site.close()


@pytest.fixture
def any_site(tmp_path: Path, url: str) -> Iterator[Site]:
    """The same on SQLite and on PostgreSQL."""
    site = Site(tmp_path, url)
    yield site
    site.close()


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir=short_tempdir()) as name:
        yield Path(name)


@pytest.fixture
def proxy(pg_url: str, directory: Path) -> Iterator[Proxy]:
    """Between Interlock and a fresh database with the schema."""
    open_service(pg_url).close()
    proxy = Proxy(pg_url, directory)
    yield proxy
    proxy.close()


@pytest.fixture
def server_directory() -> Iterator[Path]:
    """A directory that PostgreSQL servers can read."""
    with tempfile.TemporaryDirectory(dir=short_tempdir()) as name:
        Path(name).chmod(0o755)  # the servers may belong to another user
        yield Path(name)


@pytest.fixture
def server_clock(server_directory: Path) -> ServerClock:
    """The clock of PostgreSQL servers that are started with its `environ`."""
    return ServerClock(server_directory)
