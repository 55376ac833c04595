"""Processes of two versions on one database: those that it serves go on, the others are told and stop."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import __version__
from interlock.core.errors import SchemaMismatch
from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store import migrate
from interlock.store.statements import Statements
from tests.faults.stores import assert_kept, open_service, open_store, query
from tests.migration import old_process
from tests.migration.releases import Release, recorded, unpack_last
from tests.patience import PATIENCE_S

NEXT = {
    "sqlite": "CREATE TABLE costs (run INTEGER) STRICT;\nCREATE INDEX runs_by_agent ON runs (agent);\n",
    "postgres": "CREATE TABLE interlock.costs (run bigint);\n"
    "CREATE INDEX runs_by_agent ON interlock.runs (agent);\n",
}
WRITTEN = ("items", "runs", "events", "agents", "messages", "lanes")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return unpack_last(tmp_path_factory.mktemp("release"))


def contents(url: str) -> dict[str, list[str]]:
    """Every row, as text: one side may not know how to read it."""
    return {table: sorted(map(str, query(url, f"SELECT * FROM {table}"))) for table in WRITTEN}


def move_on(url: str) -> int:
    store = open_store(url, migrate=False)
    ran = migrate.migrate(store.database)
    store.close()
    return ran


def app_url(url: str) -> str:
    return url.replace("sqlite://", "sqlite:///", 1) if url.startswith("sqlite:") else url


def test_every_release_is_recorded_with_a_whole_commit_and_its_schema(backend: str) -> None:
    versions = [tuple(map(int, str(r["version"]).split("."))) for r in recorded()]
    assert versions == sorted(set(versions))
    assert all(re.fullmatch("[0-9a-f]{40}", str(r["commit"])) for r in recorded())
    assert int(recorded()[-1]["schema"]) <= len(migrate.migrations(backend))
    assert __version__ not in {r["version"] for r in recorded()}, "after a release the version moves on"


def test_an_open_process_of_the_last_release_writes_nothing_once_the_schema_has_moved_on(
    url: str, tmp_path: Path, release: Release
) -> None:
    """Without the changed names in migration 8 its claim commits a run that nobody has."""
    old = release.start(old_process.__file__, app_url(url), cwd=tmp_path)
    assert old.stdout is not None
    assert any(line.startswith("{") for line in old.stdout)
    assert query(url, "SELECT count(*) FROM items WHERE run IS NOT NULL") == [(1,)]
    assert move_on(url) > 0
    before = contents(url)
    said, _ = old.communicate("go on\n", timeout=PATIENCE_S)
    refused = dict(json.loads(line) for line in said.splitlines() if line.startswith("["))
    assert set(refused) == {"next", "add", "done"}
    assert contents(url) == before
    for what, words in refused.items():
        assert "install a newer Interlock" in words, (what, words)


def test_a_worker_of_the_last_release_claims_nothing_once_the_schema_has_moved_on(
    url: str, tmp_path: Path, release: Release
) -> None:
    open_old = ("-m", "interlock", "--url", app_url(url))
    old = release.start(*open_old, "add", "made by the old version", cwd=tmp_path)
    assert "admitted" in old.communicate(timeout=PATIENCE_S)[0]
    worker = release.start(*open_old, "work", "--agent", "coder", "--", "true", cwd=tmp_path)
    assert worker.stdout is not None
    try:
        assert any("succeeded" in line for line in worker.stdout)
        move_on(url)
        service = open_service(url)
        service.add([NewItem(title="of the new version")])
        told = next(line for line in worker.stdout if "newer Interlock" in line or "Run 2 started" in line)
        assert "install a newer Interlock" in told
        assert service.next("reviewer")[0].item.title == "of the new version"
        service.close()
    finally:
        worker.kill()
        worker.communicate()
    assert query(url, "SELECT status FROM items ORDER BY id") == [("completed",), ("in_progress",)]


def writes(service: LocalService, run: str) -> dict[str, Callable[[], Any]]:
    """Every way to write. Those that end a run come last."""
    return {
        "next": lambda: service.next("coder"),
        "add": lambda: service.add([NewItem(title="one more", lane="issue:acme/app#1")]),
        "renew": lambda: service.renew([Report(run=run)]),
        "set_agent": lambda: service.set_agent("coder", max_concurrency=3),
        "pause": lambda: service.pause_project("default", paused=True, why="a look"),
        "resume": lambda: service.pause_project("default", paused=False, why="seen"),
        "cancel": lambda: service.cancel(3, why="not wanted"),
        "done": lambda: service.done([Report(run=run)]),
    }


def started(url: str) -> tuple[LocalService, str]:
    service = open_service(url)
    service.add([NewItem(title=f"item {n}") for n in range(3)])
    return service, service.next("coder", lease_s=60)[0].run


def test_a_process_that_a_newer_schema_does_not_serve_is_refused_in_words_and_writes_nothing(
    url: str, backend: str, next_version: Callable[..., Path]
) -> None:
    """Taken out: `expect` in a statement, and `_expect_schema`; then that write goes through."""
    service, run = started(url)
    known = len(migrate.migrations(backend))
    next_version(NEXT[backend])
    assert move_on(url) == 1
    before = contents(url)
    for name, write in writes(service, run).items():
        with pytest.raises(SchemaMismatch) as error:
            write()
        assert f"has schema version {known + 1}, this Interlock knows {known}" in error.value.sentence, name
        assert "newer Interlock" in error.value.hint
    assert contents(url) == before
    service.close()


def test_a_process_that_a_newer_schema_serves_goes_on_beside_it(
    url: str, backend: str, monkeypatch: pytest.MonkeyPatch, next_version: Callable[..., Path]
) -> None:
    service, run = started(url)
    known = len(migrate.migrations(backend))
    present = migrate._ROOT
    next_version(NEXT[backend], serves=known)
    assert move_on(url) == 1
    newer = open_service(url)
    monkeypatch.setattr(migrate, "_ROOT", present)
    late = open_service(url)
    assert move_on(url) == 0
    for each in (late, newer):
        assert each.next("reviewer")[0].item.title == "item " + ("1" if each is late else "2")
    for write in writes(service, run).values():
        write()
    for each in (service, late, newer):
        each.close()
    assert_kept(url)


def test_a_migration_says_once_which_version_it_serves_and_never_less_than_the_one_before(
    backend: str, next_version: Callable[..., Path]
) -> None:
    version = len(migrate.migrations(backend)) + 1
    for text, complaint in (
        ("SELECT 1;\n", "says once"),
        (f"-- Serves: {version}\n-- Serves: {version}\nSELECT 1;\n", "says once"),
        (f"-- Serves: {version + 1}\nSELECT 1;\n", "serves"),
        (f"-- Serves: {migrate.SIDE_BY_SIDE_FROM - 1}\nSELECT 1;\n", "serves"),
    ):
        folder = next_version(text, serves=None) / backend / "sql" / "migrations"
        with pytest.raises(AssertionError, match=complaint):
            migrate.migrations(backend)
        (folder / f"{version:04}_next.sql").unlink()


def test_a_migration_that_serves_older_programs_leaves_the_tables_they_read_as_they_are(backend: str) -> None:
    """They read whole rows, and by names that must still be there. A condition on rows may be written
    in another way, and a function or an index go that no statement names."""
    named = Statements(backend)
    named.load()
    statements = " ".join(named._texts.values())

    def is_named(dropped: re.Match[str]) -> str:
        return dropped[0] if dropped[1] in statements else ""

    for migration in migrate.migrations(backend):
        if migration.serves < migration.version:
            text = re.sub(r"ALTER TABLE \S+ (?:ADD|DROP) CONSTRAINT\b", "", migration.text)
            text = re.sub(r"DROP (?:FUNCTION|INDEX) interlock\.(\w+)", is_named, text)
            assert not re.search(r"\b(ALTER TABLE|DROP|RENAME)\b", text), migration.name
