"""One behavioural suite for every backend: what is promised through `Service` holds on each of them.

Every test starts with an empty database and a clock that only the test moves. When it is over, the doctor
looks at what the test left behind, so each scenario also checks every invariant.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from interlock.contract import Service
from interlock.core.timing import Timing
from interlock.service import LocalService
from interlock.store.postgres import PostgresStore
from interlock.store.sqlite import SqliteStore
from interlock.testing.clock import Clock
from interlock.testing.postgres import PostgresServer
from tests.conformance.scene import Scene

#: Every backend, named once. A new store joins the suite here and in `_database`.
BACKENDS = ("sqlite", "postgres16", "postgres18")

#: What the doctor says of the machine and not of the data: here the clock is the test's, and the shared
#: test servers are quick instead of durable.
OF_THE_MACHINE = frozenset({"clock_agrees", "writes_are_durable"})
#: What waits for the next sweep, and is not wrong before it.
OF_THE_SWEEPER = frozenset({"no_overdue_lease", "nothing_overdue"})

OpenService = Callable[..., Service]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def kept() -> dict[str, str]:
    """Databases that are emptied and used again: making one anew takes far longer than most tests."""
    return {}


def _database(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new, empty database: a file or a url."""
    if backend == "sqlite":
        return str(tmp_path / f"{uuid.uuid4().hex}.db")
    server: PostgresServer = request.getfixturevalue(backend)
    return server.create_database(f"test_{uuid.uuid4().hex[:12]}")


def _emptied(url: str) -> str:
    """The same database without a row. Numbers go on where they were; no test may count on them."""
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")  # in any order, whatever refers to what
        found = connection.execute(
            "SELECT tablename FROM pg_tables"
            " WHERE schemaname = 'interlock' AND tablename NOT IN ('migrations', 'meta')"
        )
        for (name,) in found.fetchall():
            connection.execute(sql.SQL("DELETE FROM interlock.{}").format(sql.Identifier(name)))
    return url


@pytest.fixture
def open_service(
    backend: str, clock: Clock, kept: dict[str, str], request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[OpenService]:
    """Open services: all on the test's one database, as several processes would, or each on its own."""
    opened: list[Service] = []
    if backend in kept:
        shared = _emptied(kept[backend])
    else:
        shared = _database(backend, request, tmp_path)
        if backend != "sqlite":
            kept[backend] = shared

    def open_one(*, elsewhere: bool = False, **timing: Any) -> Service:
        address = _database(backend, request, tmp_path) if elsewhere else shared
        kind: Any = SqliteStore if backend == "sqlite" else PostgresStore
        service = LocalService(kind(address, timing=Timing(**timing), now=clock), poll_s=0.05)
        opened.append(service)
        return service

    yield open_one
    try:
        for service in opened:
            examine(service)
    finally:
        for service in reversed(opened):
            service.close()


@pytest.fixture
def service(open_service: OpenService) -> Service:
    """A service on an empty database, with the default spans."""
    return open_service()


@pytest.fixture
def scene(service: Service, clock: Clock) -> Scene:
    """The service in short words."""
    return Scene(service, clock)


def examine(service: Service) -> None:
    """After every test all invariants hold: most of them at once, the sweeper's after a sweep."""
    assert broken(service, OF_THE_MACHINE | OF_THE_SWEEPER) == []
    service.sweep()
    assert broken(service, OF_THE_MACHINE) == []


def broken(service: Service, but: frozenset[str]) -> list[str]:
    """The invariants that do not hold, but for those named."""
    checks = service.doctor()
    assert len(checks) > 8, "a doctor that asks nothing finds nothing"
    return [f"{c.name}: {c.detail}" for c in checks if not c.ok and c.name not in but]
