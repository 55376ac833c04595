"""A server on a fresh SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git_fixtures import bare_repository, git_identity  # noqa: F401  (fixtures)
from tests.http.serving import Serving, local_service
from tests.http.up import Up


@pytest.fixture(scope="session")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    service = local_service(tmp_path_factory.mktemp("first") / "interlock.db")
    server = Serving(service)
    yield server
    server.stop()
    service.close()


@pytest.fixture
def serving(one_server: Serving, tmp_path: Path) -> Iterator[Serving]:
    """The server, on an empty store of the test's own."""
    service = local_service(tmp_path / "interlock.db")
    one_server.serve(service)
    yield one_server
    one_server.leave()
    service.close()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A server of the test's own, to be stopped, killed and started again."""
    server = Up(tmp_path)
    yield server
    for client in server.clients:
        client.close()
    server.end()
