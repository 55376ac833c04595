"""Fixtures for migrations: an empty database of each kind, and a program that has one migration more."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.store import migrate
from tests.faults.processes import Crew
from tests.migration.copies import MakeUrl
from tests.postgres_server import PostgresServer

BACKENDS = ["sqlite", "postgres18", "postgres16"]


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'interlock.db'}"
    found: str = request.getfixturevalue(f"pg_empty{request.param[-2:]}")
    return found


@pytest.fixture
def backend(url: str) -> str:
    return "sqlite" if url.startswith("sqlite:") else "postgres"


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.dismiss()


@pytest.fixture
def next_version(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make this program the next version, whose one new migration has this text; gives its folder of SQL.

    It serves no older version unless `serves` says so; with None the text itself says what it serves.
    """

    def install(text: str, serves: int | None = 0) -> Path:
        folder = tmp_path / "sql of the next version"
        if folder != migrate._ROOT:
            shutil.copytree(migrate._ROOT, folder, dirs_exist_ok=True)
        version = len(migrate.migrations(backend)) + 1
        if serves is not None:
            text = f"-- Serves: {serves or version}\n{text}"
        (folder / backend / "sql" / "migrations" / f"{version:04}_next.sql").write_text(text)
        monkeypatch.setattr(migrate, "_ROOT", folder)
        migrate._known.cache_clear()  # perhaps read before this file was there
        return folder

    return install


@pytest.fixture
def make_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeUrl]:
    """The url of an empty database of some kind."""
    made: list[tuple[PostgresServer, str]] = []

    def make(kind: str) -> str:
        name = f"copy_{uuid.uuid4().hex[:12]}"
        if kind == "sqlite":
            return f"sqlite://{tmp_path / name}.db"
        server: PostgresServer = request.getfixturevalue(kind)
        made.append((server, name))
        return server.create_database(name)

    yield make
    for server, name in made:
        server.drop_database(name)
