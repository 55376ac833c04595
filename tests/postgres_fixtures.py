"""Real PostgreSQL servers for tests: one per version and test run, shared by all pytest workers.

Every pytest process of a run holds a shared lock on the run's directory for as long as it lives; the
operating system frees it when the process dies. Whoever leaves last stops the servers. A run that was
killed leaves servers behind, but no lock, and so the next run finds and removes them.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.store.postgres.database import Database
from tests.postgres_server import (
    PostgresFailed,
    PostgresMissing,
    PostgresServer,
    find_installation,
    locked,
    short_tempdir,
)

StartPostgres = Callable[..., PostgresServer]

#: A database with Interlock's schema, of which those that tests use are copies: migrating each anew takes
#: longer than most tests.
_TEMPLATE = "with_schema"


class TestRun:
    """The directory of one test run, and this process's share in it."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        if not _is_still(path, self._lock):
            raise FileNotFoundError(path)

    @classmethod
    def begin(cls) -> "TestRun":
        """Make a directory for a new run and remove what killed runs left."""
        runs = Path(short_tempdir(), f"ilpg-runs-{os.geteuid()}")
        runs.mkdir(mode=0o700, exist_ok=True)
        runs.chmod(0o711)  # the servers may belong to another user, see PostgresServer
        for left in runs.iterdir():
            _remove_if_abandoned(left)
        while True:
            path = Path(tempfile.mkdtemp(dir=runs))
            path.chmod(0o711)
            # A run that begins at the same moment may take the new directory for an abandoned one.
            with contextlib.suppress(FileNotFoundError):
                return cls(path)

    def leave(self) -> None:
        """Give up this process's share; the last one to leave removes everything."""
        _remove_if_unused(self.path, self._lock)
        os.close(self._lock)

    def shared_server(self, version: int) -> PostgresServer:
        with locked(self.path / f"pg{version}.lock"):
            server = self._server(version, f"pg{version}")
            server.start()
            if not server.has_database(_TEMPLATE):
                server.drop_database("being_made")  # somebody may not have come to the end
                Database(server.create_database("being_made")).close()
                server.rename_database("being_made", _TEMPLATE)
        return server

    def own_server(self, version: int, **options: Any) -> PostgresServer:
        server = self._server(version, f"own-{uuid.uuid4().hex[:8]}", **options)
        server.start()
        return server

    def standby(self, primary: PostgresServer) -> PostgresServer:
        return primary.start_standby(self.path / f"own-{uuid.uuid4().hex[:8]}")

    def _server(self, version: int, name: str, **options: Any) -> PostgresServer:
        return PostgresServer(version, self.path / name, templates=self.path / "templates", **options)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_if_abandoned(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _remove_if_unused(path, descriptor)
        finally:
            os.close(descriptor)


def _remove_if_unused(path: Path, descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError, PostgresMissing):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for datadir in path.glob("*/PG_VERSION"):
            # Half a data directory, or a server that will not stop, must not fail the tests.
            with contextlib.suppress(PostgresFailed, ValueError):
                PostgresServer(int(datadir.read_text()), datadir.parent).stop("immediate")
        shutil.rmtree(path, ignore_errors=True)


RUN = pytest.StashKey[TestRun]()


def pytest_configure(config: pytest.Config) -> None:
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    config.stash[RUN] = TestRun.begin() if worker is None else TestRun(Path(worker["interlock_run"]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each pytest-xdist worker which run it belongs to."""
    node.workerinput["interlock_run"] = str(node.config.stash[RUN].path)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].leave()
        del config.stash[RUN]


def _require(version: int) -> None:
    try:
        find_installation(version)
    except PostgresMissing as missing:
        if os.environ.get("CI"):
            pytest.fail(f"{missing} In CI these tests must run.")
        pytest.skip(str(missing))


def _fresh_database(server: PostgresServer, template: str) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield server.create_database(name, template=template)
    server.drop_database(name)


@pytest.fixture(scope="session")
def postgres16(request: pytest.FixtureRequest) -> PostgresServer:
    """The run's PostgreSQL 16. Shared: never stop it, and leave nothing in it (see ``start_postgres``)."""
    _require(16)
    return request.config.stash[RUN].shared_server(16)


@pytest.fixture(scope="session")
def postgres18(request: pytest.FixtureRequest) -> PostgresServer:
    """The run's PostgreSQL 18. Shared: never stop it, and leave nothing in it (see ``start_postgres``)."""
    _require(18)
    return request.config.stash[RUN].shared_server(18)


@pytest.fixture
def pg_database16(postgres16: PostgresServer) -> Iterator[str]:
    """The url of a fresh database on PostgreSQL 16, with Interlock's schema and without a row."""
    yield from _fresh_database(postgres16, _TEMPLATE)


@pytest.fixture
def pg_database18(postgres18: PostgresServer) -> Iterator[str]:
    """The url of a fresh database on PostgreSQL 18, with Interlock's schema and without a row."""
    yield from _fresh_database(postgres18, _TEMPLATE)


@pytest.fixture
def pg_empty16(postgres16: PostgresServer) -> Iterator[str]:
    """The url of a database on PostgreSQL 16 in which nothing is, no schema either."""
    yield from _fresh_database(postgres16, "template1")


@pytest.fixture
def pg_empty18(postgres18: PostgresServer) -> Iterator[str]:
    """The url of a database on PostgreSQL 18 in which nothing is, no schema either."""
    yield from _fresh_database(postgres18, "template1")


@pytest.fixture
def start_postgres(request: pytest.FixtureRequest) -> Iterator[StartPostgres]:
    """Start servers of the test's own, which it may stop, crash and restart: ``start_postgres(16)``; and
    standbys of them, which it may promote: ``start_postgres(standby_of=server)``."""
    servers: list[PostgresServer] = []

    def start(
        version: int = 16, *, standby_of: PostgresServer | None = None, **options: Any
    ) -> PostgresServer:
        _require(version)
        run = request.config.stash[RUN]
        servers.append(run.own_server(version, **options) if standby_of is None else run.standby(standby_of))
        return servers[-1]

    yield start
    for server in servers:
        server.remove()
