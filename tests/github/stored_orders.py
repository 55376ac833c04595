"""Orders of all numbers at once, which only tests ask for."""

from __future__ import annotations

from interlock.store.port import Store
from interlock.store.sqlite.store import SqliteStore


def open_orders(store: Store) -> list[tuple[str, str | None]]:
    """The names and outcomes of the orders that are pending or wait for a person."""
    schema = "" if isinstance(store, SqliteStore) else "interlock."
    statement = f"SELECT name, outcome FROM {schema}github_consequences WHERE done_us IS NULL ORDER BY name"
    return [(name, outcome) for name, outcome in store.github._tables.check(statement)]
