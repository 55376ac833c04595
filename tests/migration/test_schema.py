"""The schema is the sum of its migrations, and is what the code takes it for."""

from __future__ import annotations

from pathlib import Path

import apsw
import psycopg
import pytest

from interlock.core.states import ItemStatus, RunStatus
from interlock.store.rows import ITEM_COLUMNS
from tests.faults.stores import open_store, query
from tests.migration import schemas

SCHEMAS = Path(__file__).parents[2] / "docs" / "reference" / "schema"


def make_from_snapshot(url: str, backend: str) -> None:
    text = (SCHEMAS / f"{backend}.sql").read_text()
    if backend == "sqlite":
        db = apsw.Connection(url.removeprefix("sqlite://"))
        db.execute(text)
        db.close()
    else:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(text.encode())


def empty_again(url: str, backend: str) -> None:
    if backend == "sqlite":
        for file in Path(url.removeprefix("sqlite://")).parent.glob("interlock.db*"):
            file.unlink()
    else:
        query(url, "DROP SCHEMA interlock CASCADE")


def test_all_migrations_together_make_the_schema_that_people_read(url: str, backend: str) -> None:
    open_store(url).close()
    migrated = schemas.of(url)
    empty_again(url, backend)
    make_from_snapshot(url, backend)
    assert schemas.differences(migrated, schemas.of(url)) == []
    assert len(migrated) > 5


CHANGES = [
    "CREATE INDEX one_more ON {}items (title)",
    "DROP INDEX {}items_lane_owner",
    "ALTER TABLE {}runs ADD COLUMN one_more text",
    "ALTER TABLE {}agents DROP COLUMN wall_why",
    "ALTER TABLE {}messages RENAME COLUMN text TO words",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_schema_that_differs_in_anything_is_told_from_it(url: str, backend: str, change: str) -> None:
    """The comparison above has power."""
    open_store(url).close()
    before = schemas.of(url)
    query(url, change.format("interlock." if backend == "postgres" else ""))
    assert schemas.differences(before, schemas.of(url)) != []


def test_a_column_in_another_place_is_told_too() -> None:
    one = {"columns": [("items", 1, "id"), ("items", 2, "lane")]}
    other = {"columns": [("items", 2, "lane"), ("items", 1, "id")]}
    assert schemas.differences(one, other) == ["another order, columns"]


def test_columns_stand_in_the_order_of_the_fields(url: str) -> None:
    """A store reads and writes whole rows by position."""
    open_store(url).close()
    if url.startswith("sqlite:"):
        columns = [row[1] for row in query(url, "PRAGMA table_info(items)")]
    else:
        rows = query(
            url,
            "SELECT attname FROM pg_attribute WHERE attrelid = 'items'::regclass AND attnum > 0"
            " ORDER BY attnum",
        )
        columns = [name for (name,) in rows]
    assert tuple(columns) == ITEM_COLUMNS


def test_the_schema_knows_every_state_of_the_core_and_no_other(url: str, backend: str) -> None:
    open_store(url).close()
    text = (SCHEMAS / f"{backend}.sql").read_text()
    for table, function, statuses in (
        ("items", "is_consistent", {s.value for s in ItemStatus}),
        ("runs", "ends_a_run", {s.value for s in RunStatus} - {"running"}),
    ):
        body = text.partition(f"{table} (")[2].partition(";")[0]
        if "status IN (" not in body:
            body = text.partition(f"FUNCTION interlock.{function}(")[2]
        check = body.partition("status IN (")[2].partition(")")[0]
        assert {word.strip().strip("'") for word in check.split(",")} == statuses


def test_numbers_are_never_given_out_ahead(pg_empty18: str) -> None:
    """A cached sequence would let a later claim have a smaller number than an earlier one."""
    open_store(pg_empty18).close()
    sequences = query(pg_empty18, "SELECT sequencename, cache_size, increment_by FROM pg_sequences")
    assert len(sequences) == 4
    assert all(row[1:] == (1, 1) for row in sequences)
