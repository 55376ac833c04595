"""A store has a name, and knows which stores it comes from and whether they may still be in use."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from interlock.core.continuity import Ancestor, Lineage
from interlock.core.model import NewItem
from tests.faults.stores import open_service, open_store, query


def used(url: str) -> Lineage:
    """The lineage of a store after somebody wrote to it."""
    service = open_service(url)
    service.add([NewItem(title="some work")])
    service.close()
    store = open_store(url)
    found = store.database.lineage()
    store.close()
    return found


def test_a_file_that_is_only_used_or_renamed_keeps_its_name(tmp_path: Path) -> None:
    first = used(f"sqlite://{tmp_path}/il.db")
    (tmp_path / "il.db").rename(tmp_path / "other.db")
    assert used(f"sqlite://{tmp_path}/other.db").store == first.store
    assert first.ancestors == {}
    assert len(first.store) == 12


def test_a_copied_file_is_another_store_whose_origin_may_be_in_use(tmp_path: Path) -> None:
    origin = used(f"sqlite://{tmp_path}/il.db")
    shutil.copy(tmp_path / "il.db", tmp_path / "twin.db")
    twin = used(f"sqlite://{tmp_path}/twin.db")
    assert twin.ancestors == {origin.store: Ancestor.COPIED}
    assert not twin.goes_on_from(origin.store)
    assert used(f"sqlite://{tmp_path}/il.db").store == origin.store


def test_a_file_restored_in_its_place_goes_on_from_the_one_that_is_gone(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/il.db"
    origin = used(url)
    shutil.move(shutil.copy(tmp_path / "il.db", tmp_path / "monday.db"), tmp_path / "il.db")
    restored = used(url)
    assert restored.store != origin.store
    assert restored.goes_on_from(origin.store)


def identity(url: str) -> list[str]:
    return str(query(url, "SELECT value FROM meta WHERE name = 'identity'")[0][0]).split("/")


@pytest.mark.parametrize(
    ("place", "value", "state"),
    [
        (3, "00000000", Ancestor.GONE),  # another timeline: a failover
        (2, "1", Ancestor.GONE),  # the tables were made again here
        (1, "999999999", Ancestor.GONE),  # the database that it was is not on this server any more
        (1, "1", Ancestor.COPIED),  # the database that it was is still there
        (0, "1", Ancestor.COPIED),  # another server
    ],
)
def test_a_database_knows_whether_what_it_was_may_be_in_use(
    pg_database18: str, place: int, value: str, state: Ancestor
) -> None:
    origin = used(pg_database18)
    parts = identity(pg_database18)
    parts[place] = value
    query(pg_database18, f"UPDATE meta SET value = '{'/'.join(parts)}' WHERE name = 'identity'")
    assert used(pg_database18).ancestors == {origin.store: state}


def test_databases_made_from_one_template_have_names_of_their_own(pg_database18: str) -> None:
    with psycopg.connect(pg_database18, autocommit=True) as conn:
        (name,) = conn.execute("SELECT current_database()").fetchone() or ("",)
        twin = f"{name}_twin"
    server = pg_database18.replace(str(name), "postgres")
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*map(sql.Identifier, (twin, name))))
        try:
            assert used(pg_database18.replace(str(name), twin)).store != used(pg_database18).store
        finally:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(twin)))


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_ancestors_are_recorded_by_name(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = (
        f"sqlite://{tmp_path}/il.db" if backend == "sqlite" else str(request.getfixturevalue("pg_database18"))
    )
    own = used(url).store
    store = open_store(url)
    store.database.add_ancestors({"0123456789ab": Ancestor.COPIED, own: Ancestor.GONE})
    store.database.add_ancestors({"0123456789ab": Ancestor.SEALED})
    assert store.database.lineage().ancestors == {"0123456789ab": Ancestor.SEALED}
    assert store.database.lineage().store == own
    store.close()
