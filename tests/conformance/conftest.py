"""One behavioural suite for every backend: what is promised through `Service` holds on each of them.

Every test starts with an empty database and a clock that only the test moves. When it is over, the doctor
looks at what the test left behind, so each scenario also checks every invariant.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from interlock.core.timing import Timing
from interlock.service.contract import CheckView, Service, SweepView
from interlock.service.local import LocalService
from interlock.store.postgres.connections import Connections
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from interlock.store.sqlite.store import SqliteStore
from interlock.store.statements import Statements
from tests.clock import Clock
from tests.conformance.planner import Planner
from tests.conformance.scene import Scene
from tests.faults import stores
from tests.http.serving import Serving
from tests.postgres_server import PostgresServer

#: Every backend, named once. A new store joins the suite here and in `_database`.
#: `http` is a server on SQLite, through its remote client. It runs a part of the suite, and all of it with
#: `INTERLOCK_EVERY_CASE`.
BACKENDS = ("sqlite", "postgres16", "postgres18", "http")

ON_SQLITE = ("sqlite", "http")
#: What a usual run tries through a server.
THROUGH_A_SERVER = (
    "test_attention",
    "test_costs",
    "test_done_and_next",
    "test_effects",
    "test_external",
    "test_item_batches",
    "test_listing",
    "test_live_questions",
    "test_operators",
    "test_plan_editors",
    "test_policies",
    "test_questions",
    "test_recap",
    "test_run_logs",
)
#: What looks past the service, or at values that a server does not send.
PAST_THE_SERVICE = {
    *("test_at_once", "test_claims_agree", "test_wrong_types", "test_true_input", "test_repeated"),
    *("test_link_store", "test_setters", "test_first_items", "test_receivers", "test_every_cure"),
    "test_a_gate_outlives_what_was_on_its_lane",
    "test_an_agent_cannot_join_a_pool_that_was_removed_meanwhile",
    "test_a_revision_is_read_as_a_whole_while_others_edit",
    "test_a_batch_is_read_as_a_whole_while_it_is_answered",
}

#: What the doctor says of the machine and not of the data: here the clock is the test's, and the shared
#: test servers are quick instead of durable.
OF_THE_MACHINE = frozenset({"clock_agrees", "writes_are_durable"})
#: What waits for the next sweep, and is not wrong before it.
OF_THE_SWEEPER = frozenset({"no_overdue_lease", "nothing_overdue"})
#: What asks for a person's attention, and is not wrong.
OF_PEOPLE = frozenset({"nothing_waits_for_a_person", "no_dead_effects", "effects_are_sent", "stalled_lanes"})

OpenService = Callable[..., Service]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Kept:
    """One database of a server, emptied for each test and used again with the connections to it.

    Making both anew takes far longer than most tests: a database has its migrations to run, and a connection
    has every statement to plan. What a store remembers by itself is new in each test.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.pool: Connections | None = None
        Database(url).close()
        self._connection = self._connect()
        tables = self._connection.execute(
            "SELECT tablename FROM pg_tables"
            " WHERE schemaname = 'interlock' AND tablename NOT IN ('migrations', 'meta', 'clock', 'stores')"
        )
        each = [sql.SQL("DELETE FROM interlock.{};").format(sql.Identifier(name)) for (name,) in tables]
        # A function keeps the plans of its statements.
        self._connection.execute(
            sql.SQL("CREATE FUNCTION public.empty() RETURNS void LANGUAGE plpgsql AS {}").format(
                sql.Literal(f"BEGIN {sql.Composed(each).as_string(self._connection)} END")
            )
        )
        self._ill = " UNION ALL ".join(
            f"(SELECT '{name}' FROM ({text.strip().removesuffix(';')}\n) AS found LIMIT 1)"
            for name, text in Statements("postgres").checks.items()
        )

    def _connect(self) -> psycopg.Connection[Any]:
        # In any order, whatever refers to what.
        return psycopg.connect(self.url, autocommit=True, options="-c session_replication_role=replica")

    def ill(self, now_us: int) -> list[str]:
        """Which of the doctor's checks find something, asked in one statement that is planned once."""
        found = self._connection.execute(self._ill, {"now_us": now_us}, prepare=True)
        return [name for (name,) in found]

    def empty(self) -> None:
        """No row is left. Numbers go on where they were; no test may count on them."""
        if self._connection.closed:  # the server went down during the last test, and that one has failed
            self._connection = self._connect()
        self._connection.execute("SELECT public.empty()", prepare=True)

    def close(self) -> None:
        self._connection.close()
        if self.pool is not None:
            self.pool.close()


class KeptDatabase(Database):
    """A kept database: the first that is open takes the kept connections, and leaves them."""

    def __init__(self, kept: Kept, **options: Any) -> None:
        self._kept = kept
        super().__init__(kept.url, **options)

    def _open_pool(self) -> Connections:
        pool, self._kept.pool = self._kept.pool, None
        return pool or super()._open_pool()

    def close(self) -> None:
        self._notifications.close()  # sends what is wanted, for which it needs a connection
        if self._kept.pool is None:
            self._kept.pool, self.pool = self.pool, super()._open_pool()
        super().close()


@pytest.fixture(scope="session")
def kept_databases(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Kept]]:
    """The kept database of each server."""
    kept: dict[str, Kept] = {}

    def of(backend: str) -> Kept:
        if backend not in kept:
            server: PostgresServer = request.getfixturevalue(backend)
            kept[backend] = Kept(server.create_database(f"test_{uuid.uuid4().hex[:12]}"))
        return kept[backend]

    yield of
    for each in kept.values():
        each.close()


@pytest.fixture(scope="session")
def idle_servers() -> Iterator[list[Serving]]:
    """Servers that no test uses now: each serves one store after the other."""
    idle: list[Serving] = []
    yield idle
    for server in idle:
        server.stop()


@pytest.fixture
def serve(idle_servers: list[Serving]) -> Iterator[Callable[[LocalService], Service]]:
    """A service behind a server, as its remote client has it."""
    used: list[Serving] = []

    def through(local: LocalService) -> Service:
        server = idle_servers.pop() if idle_servers else Serving(local)
        used.append(server)
        return server.serve(local)

    yield through
    idle_servers.extend(used)


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a schema and no rows, to be copied."""
    path = tmp_path_factory.mktemp("empty") / "interlock.db"
    SqliteStore(path).close()
    return path


@pytest.fixture
def open_service(
    backend: str, clock: Clock, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[OpenService]:
    """Open services: all on the test's one database, as several processes would, or each on its own."""
    opened: list[Service] = []
    apart: list[Service] = []
    kept: Kept | None = None
    path = tmp_path / "interlock.db"
    if backend in ON_SQLITE:
        shutil.copyfile(request.getfixturevalue("empty_file"), path)
    else:
        kept = request.getfixturevalue("kept_databases")(backend)
        kept.empty()

    def store(elsewhere: bool, **options: Any) -> SqliteStore | PostgresStore:
        if backend in ON_SQLITE:
            return SqliteStore(tmp_path / f"{uuid.uuid4().hex}.db" if elsewhere else path, **options)
        if elsewhere:
            server: PostgresServer = request.getfixturevalue(backend)
            return PostgresStore(Database(server.create_database(f"test_{uuid.uuid4().hex[:12]}"), **options))
        assert kept is not None
        return PostgresStore(KeptDatabase(kept, **options))

    def open_one(*, elsewhere: bool = False, **timing: Any) -> Service:
        local = LocalService(store(elsewhere, timing=Timing(**timing), now=clock), poll_s=0.05)
        service = request.getfixturevalue("serve")(local) if backend == "http" else local
        opened.append(service)
        if elsewhere:
            apart.append(service)
        return service

    yield open_one
    try:
        for service in opened:
            examine(service, None if service in apart else kept)
    finally:
        for service in reversed(opened):
            service.close()


@pytest.fixture
def query(
    backend: str, open_service: OpenService, request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[str], list[tuple[Any, ...]]]:
    """Plain SQL on the test's one database, past the store. Tables are named without schema."""
    url = f"sqlite://{tmp_path / 'interlock.db'}"
    if backend not in ON_SQLITE:
        url = request.getfixturevalue("kept_databases")(backend).url
    return partial(stores.query, url)


@pytest.fixture
def service(open_service: OpenService) -> Service:
    """A service on an empty database, with the default spans."""
    return open_service()


@pytest.fixture
def scene(service: Service, clock: Clock) -> Scene:
    """The service in short words."""
    return Scene(service, clock)


@pytest.fixture
def planner(service: Service, clock: Clock) -> Planner:
    """The scene in the words of plans."""
    return Planner(service, clock)


@pytest.fixture
def every_claim_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of an agent that is there: a process tells the store now and then, by a clock of its own."""
    monkeypatch.setattr("interlock.service.claims.SEEN_EVERY_S", 0.0)


def examine(service: Service, kept: Kept | None) -> None:
    """After every test all invariants hold: most of them at once, the sweeper's after a sweep."""
    found = broken(service, kept)
    assert {name: found[name] for name in found.keys() - OF_THE_SWEEPER} == {}
    if service.sweep() != SweepView() or found:
        assert broken(service, kept) == {}


def broken(service: Service, kept: Kept | None) -> dict[str, str]:
    """The invariants that do not hold, but for what is no fault of the data."""
    checks = service.doctor() if kept is None else _doctor(service, kept)
    assert len(checks) > 8, "a doctor that asks nothing finds nothing"
    ignored = OF_THE_MACHINE | OF_PEOPLE
    return {c.name: c.detail for c in checks if not c.ok and c.name not in ignored}


def _doctor(service: Service, kept: Kept) -> list[CheckView]:
    """What the doctor says. It plans each of its questions anew, which takes longer than most tests: those
    that find nothing are asked together."""
    assert isinstance(service, LocalService)
    assert isinstance(service.store, PostgresStore)
    ill, asked = kept.ill(service.store.now_us()), service.store.database.sql
    healthy = [CheckView(name=name, ok=True, detail="", mend="") for name in asked.checks if name not in ill]
    asked.checks = {name: text for name, text in asked.checks.items() if name in ill}
    try:
        return [*healthy, *service.doctor()]
    finally:
        del asked.checks


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not tried through a server."""
    every = bool(os.environ.get("INTERLOCK_EVERY_CASE"))

    def wanted(item: pytest.Item) -> bool:
        chosen = getattr(item, "callspec", None)
        if chosen is None or chosen.params.get("backend") != "http":
            return True
        module, name = item.path.stem, getattr(item, "originalname", "")
        return not {module, name} & PAST_THE_SERVICE if every else module in THROUGH_A_SERVER

    left_out = [item for item in items if not wanted(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if wanted(item)]
