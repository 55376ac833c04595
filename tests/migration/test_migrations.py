"""Moving a database on: once, all or nothing, by one process at a time, and never what is not ours."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from interlock.core.errors import SchemaMismatch, StoreUnavailable
from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter, Report
from interlock.store import migrate
from tests.faults.processes import Crew
from tests.faults.stores import assert_kept, open_service, open_store, query
from tests.migration import migrating, schemas

NEXT = {
    "sqlite": "-- next\nALTER TABLE runs ADD COLUMN cost INTEGER;\n"
    "CREATE TABLE costs (run INTEGER) STRICT;\n",
    "postgres": "-- next\nALTER TABLE interlock.runs ADD COLUMN cost bigint;\n"
    "CREATE TABLE interlock.costs (run bigint);\n",
}
BROKEN = {
    "sqlite": "CREATE TABLE costs (run INTEGER) STRICT;\nINSERT INTO nowhere VALUES (1);\n",
    "postgres": "CREATE TABLE interlock.costs (run bigint);\nINSERT INTO interlock.nowhere VALUES (1);\n",
}


def refused(url: str) -> SchemaMismatch:
    """Opening it is refused, and leaves it as it was."""
    before = schemas.of(url), query(url, "SELECT * FROM migrations")
    with pytest.raises(SchemaMismatch) as error:
        open_store(url)
    assert (schemas.of(url), query(url, "SELECT * FROM migrations")) == before
    return error.value


def test_an_empty_database_gets_its_schema_and_is_left_alone_from_then_on(url: str, backend: str) -> None:
    store = open_store(url)
    known = migrate.migrations(backend)
    assert [(a.version, a.name, a.checksum) for a in store.database.applied()] == [
        (m.version, m.name, m.checksum) for m in known
    ]
    before = schemas.of(url), query(url, "SELECT * FROM migrations")
    assert migrate.migrate(store.database) == 0
    store.close()
    open_store(url).close()
    assert (schemas.of(url), query(url, "SELECT * FROM migrations")) == before


def test_without_leave_to_migrate_an_empty_database_stays_empty(url: str, backend: str) -> None:
    store = open_store(url, migrate=False)
    with pytest.raises(SchemaMismatch, match="has no Interlock schema") as error:
        migrate.require_current(backend, store.database.applied())
    assert error.value.hint == "Run `interlock migrate`."
    assert store.database.applied() == []
    store.close()


def test_a_migration_whose_text_was_changed_is_refused(url: str) -> None:
    open_store(url).close()
    query(url, "UPDATE migrations SET checksum = 'of another text'")
    error = refused(url)
    assert "Migration 1" in error.sentence
    assert "Nothing was changed" in error.hint


def test_the_script_applied_by_hand_is_the_same_as_migrating(url: str, backend: str) -> None:
    text = migrate.script(backend, [])
    if backend == "sqlite":
        apsw.Connection(url.removeprefix("sqlite://")).execute(text)
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(text.encode())
    service = open_service(url)
    service.add([NewItem(title="by hand")])
    lease = service.next("coder")[0]
    assert service.done([Report(run=lease.run)])[0].status == "succeeded"
    service.close()
    store = open_store(url, migrate=False)
    assert migrate.migrate(store.database) == 0
    store.close()


def test_a_database_of_a_newer_version_is_refused(url: str, backend: str) -> None:
    open_store(url).close()
    known = len(migrate.migrations(backend))
    query(url, f"INSERT INTO migrations VALUES ({known + 1}, 'of the future', 'unknown', 0, {known + 1})")
    error = refused(url)
    assert f"has schema version {known + 1}, this Interlock knows {known}" in error.sentence
    assert "newer Interlock" in error.hint


def test_an_older_database_is_refused_with_what_to_type_and_then_moved_on(
    url: str, backend: str, next_version: Callable[..., Path]
) -> None:
    service = open_service(url)
    service.add([NewItem(title="from before", lane="issue:acme/app#1")])
    service.close()
    before = len(migrate.migrations(backend))
    next_version(NEXT[backend])
    error = refused(url)
    assert f"has schema version {before}, this Interlock needs {before + 1}" in error.sentence
    assert error.hint == "Run `interlock migrate`."

    store = open_store(url, migrate=False)
    assert NEXT[backend].strip() in migrate.script(backend, store.database.applied())
    assert migrate.migrate(store.database) == 1
    store.close()
    assert query(url, "SELECT version FROM migrations ORDER BY version") == [
        (n,) for n in range(1, before + 2)
    ]
    service = open_service(url)
    assert service.next("coder")[0].item.title == "from before"
    service.close()
    assert_kept(url)


#: One item in each state, as the first schema kept them. What is not named has a value that says little.
FIRST_ITEMS: tuple[dict[str, Any], ...] = (
    {"id": 1, "status": "pending"},
    {"id": 2, "status": "pending", "due_us": 9 * 10**15, "lane": "a:1"},
    {"id": 3, "status": "deferred", "lane": "a:1"},
    {
        "id": 4,
        "status": "in_progress",
        "due_us": 9 * 10**15,
        "run": 7,
        "run_agent": "coder",
        "run_started_us": 1,
        "run_lease_s": 60.0,
        "lease_until_us": 9 * 10**15,
    },
    {"id": 5, "status": "completed", "ended_us": 5},
)
PLAIN = {"project": "default", "type": "task", "title": "from before", "agent_key": "", "policy": "queue"}
PLAIN |= {"retry_lane": "yield", "reason": ""}
NUMBERS = ("priority", "position", "created_us", "attempt", "releases", "message_count", "delivered", "seen")


def test_a_database_of_the_first_version_with_work_in_every_state_is_moved_on(
    url: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "sql of the first version"
    shutil.copytree(migrate._ROOT, first)
    for later in sorted((first / backend / "sql" / "migrations").glob("[0-9]*.sql"))[1:]:
        later.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(migrate, "_ROOT", first)
        open_store(url).close()
    query(url, "INSERT INTO lanes (lane) VALUES ('a:1')")
    for fields in FIRST_ITEMS:
        row = {**PLAIN, **dict.fromkeys(NUMBERS, 0), **fields, "max_attempts": 3}
        row |= {"ticket": row["id"], "sort_key": row["id"], "front": "f" if backend == "postgres" else 0}
        query(url, f"INSERT INTO items ({', '.join(row)}) VALUES ({', '.join(map(repr, row.values()))})")
    assert "has schema version 1" in refused(url).sentence
    store = open_store(url, migrate=False)
    assert migrate.migrate(store.database) == len(migrate.migrations(backend)) - 1
    store.close()
    service = open_service(url)
    found = service.items(ItemFilter(all=True))
    assert [(i.id, i.status) for i in found] == [(f["id"], f["status"]) for f in FIRST_ITEMS]
    assert {(i.claim_within_s, i.claim_by) for i in found} == {(None, None)}
    assert [lease.item.id for lease in service.next("coder", limit=9)] == [1]
    # Nobody holds the bits of a run that was live: it may not write. It keeps its item until its lease ends.
    ((item, run, bits),) = query(url, "SELECT id, run, run_bits FROM items WHERE run = 7")
    assert bits is not None
    (view,) = service.done([Report(run=f"{run}.{item}.{'0' * 16}")])
    assert view.refusal is not None
    assert query(url, "SELECT status FROM items WHERE run = 7") == [("in_progress",)]
    assert query(url, "SELECT 1 FROM meta WHERE name = 'handle_key'") == []
    service.close()


def test_a_migration_that_fails_leaves_nothing_behind(
    url: str, backend: str, next_version: Callable[..., Path]
) -> None:
    open_store(url).close()
    before = schemas.of(url), query(url, "SELECT * FROM migrations")
    next_version(BROKEN[backend])
    store = open_store(url, migrate=False)
    with pytest.raises(Exception, match="nowhere"):
        migrate.migrate(store.database)
    store.close()
    assert (schemas.of(url), query(url, "SELECT * FROM migrations")) == before


def test_migrations_are_numbered_without_gaps(
    backend: str, tmp_path: Path, next_version: Callable[..., Path]
) -> None:
    last = len(migrate.migrations(backend)) + 1
    folder = next_version(NEXT[backend]) / backend / "sql" / "migrations"
    assert [m.version for m in migrate.migrations(backend)] == list(range(1, last + 1))
    (folder / f"{last:04}_next.sql").rename(folder / f"{last + 1:04}_next.sql")
    with pytest.raises(AssertionError, match="numbered"):
        migrate.migrations(backend)


def test_eight_processes_make_one_schema_in_an_empty_database(crew: Crew, url: str, backend: str) -> None:
    """Taken out: the lock in `exclusively`; the second then finds tables that it wants to make."""
    outcomes = crew.race(8, migrating.migrate_once, url, None)
    assert sorted(ran for ran, _ in outcomes) == [0] * 7 + [len(migrate.migrations(backend))]
    assert {version for _, version in outcomes} == {len(migrate.migrations(backend))}


def test_eight_first_commands_on_an_empty_database_all_succeed_and_share_one_secret(
    crew: Crew, url: str
) -> None:
    """Nobody takes a database that another is just making for a foreign or a broken one."""
    for _ in range(3 if url.startswith("sqlite:") else 1):
        outcomes = crew.race(8, migrating.start_and_add, url)
        service = open_service(url)
        ends = service.done([Report(run=handle) for handle, _ in outcomes])
        assert [end.status for end in ends] == ["succeeded"] * 8, "a handle of one is unknown to the others"
        service.close()
        assert len({arrival for _, arrival in outcomes}) == 8
        assert_kept(url)
        if url.startswith("sqlite:"):
            for file in Path(url.removeprefix("sqlite://")).parent.glob("interlock.db*"):
                file.unlink()


def test_eight_processes_move_a_database_on_once(
    crew: Crew, url: str, backend: str, next_version: Callable[..., Path]
) -> None:
    open_store(url).close()
    folder = next_version(NEXT[backend])
    outcomes = crew.race(8, migrating.migrate_once, url, folder)
    assert sorted(ran for ran, _ in outcomes) == [0] * 7 + [1]
    assert {version for _, version in outcomes} == {len(migrate.migrations(backend))}


def test_a_file_of_somebody_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "theirs.db"
    db = apsw.Connection(str(file))
    db.execute("CREATE TABLE customers (name); INSERT INTO customers VALUES ('Ada')")
    db.close()
    for migrate_it in (True, False):
        with pytest.raises(SchemaMismatch, match="not an Interlock store"):
            open_store(f"sqlite://{file}", migrate=migrate_it).database.applied()
    db = apsw.Connection(str(file))
    assert list(db.execute("SELECT name FROM sqlite_schema")) == [("customers",)]
    db.close()


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Not a database, although somebody named it as one. " * 100)
    before = hashlib.sha256(file.read_bytes()).digest()
    with pytest.raises(StoreUnavailable):
        open_store(f"sqlite://{file}")
    assert hashlib.sha256(file.read_bytes()).digest() == before


def test_a_database_shared_with_others_keeps_their_tables(pg_empty18: str) -> None:
    """In PostgreSQL the schema `interlock` is ours, and nothing else is."""
    query(pg_empty18, "CREATE TABLE public.customers AS SELECT 'Ada' AS name")
    open_store(pg_empty18).close()
    assert query(pg_empty18, "SELECT name FROM public.customers") == [("Ada",)]
    made = query(
        pg_empty18,
        "SELECT DISTINCT schemaname FROM pg_tables WHERE schemaname !~ '^(pg_catalog|information_schema)$'",
    )
    assert sorted(made) == [("interlock",), ("public",)]


def test_after_a_restore_run_numbers_go_on_above_those_given_out_since(url: str) -> None:
    """The backup does not know of runs that came after it; their numbers must not come again."""
    service = open_service(url)
    service.add([NewItem(title=f"item {n}") for n in range(2)])
    before = service.next("coder")[0].fence
    store = open_store(url)
    skipped = store.database.after_restore()
    store.close()
    assert service.next("coder")[0].fence == skipped + 1 > before + 1_000_000
    service.close()
    assert_kept(url)
