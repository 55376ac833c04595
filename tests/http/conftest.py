"""A server on a fresh SQLite file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.serving import Serving, local_service


@pytest.fixture(scope="session")
def one_server() -> Iterator[Serving]:
    server = Serving()
    yield server
    server.stop()


@pytest.fixture
def serving(one_server: Serving, tmp_path: Path) -> Iterator[Serving]:
    """The server, on an empty store of the test's own."""
    service = local_service(tmp_path / "interlock.db")
    one_server.serve(service)
    yield one_server
    service.close()
