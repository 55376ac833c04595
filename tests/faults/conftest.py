"""Fixtures for fault tests: both stores, and processes that are gone when the test is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import Crew
from tests.faults.workers import Site

STORES = ["sqlite", "postgres18"]
CHEAP = [*STORES, "postgres16"]


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'interlock.db'}"
    url: str = request.getfixturevalue(f"pg_database{request.param[-2:]}")
    return url


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
