"""Guards taken out: each mutation removes one thing that keeps a promise, to see who notices."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.faults.stores import is_sqlite, query


def replace_statement(service: LocalService, name: str, old: str, new: str) -> None:
    """Change the text of a store's statement, in this store only."""
    store: Any = service.store
    sql = store.database.sql
    text = sql[name]
    assert old in text, f"{name}.sql has changed: mend the mutation"
    changed = type(text)(text.replace(old, new))
    if not isinstance(store, SqliteStore):
        changed.names, changed.encoded = text.names, changed.encode()
    sql._texts[name] = changed


def replace_source(module: ModuleType, old: str, new: str) -> dict[str, Any]:
    """The functions of a module with one piece of their source changed."""
    source = inspect.getsource(module)
    assert old in source, f"{module.__name__} has changed: mend the mutation"
    functions: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source.replace(old, new), module.__file__ or "", "exec"), functions)
    return functions


def drop_owner_index(url: str) -> None:
    """Without it the schema allows two owners of a lane."""
    query(url, "DROP INDEX items_lane_owner")


def unlock_lanes(service: LocalService) -> None:
    """Without it two transactions decide on one lane at once."""
    if isinstance(service.store, SqliteStore):
        write_without_transaction(service)
    else:
        replace_statement(service, "lock_lanes", "FOR NO KEY UPDATE", "")


def unlock_agent(service: LocalService) -> None:
    """Without it two claims count an agent's runs at once."""
    if isinstance(service.store, SqliteStore):
        count_runs_once(service)
    else:
        replace_statement(service, "lock_agent", "FOR NO KEY UPDATE", "")


def unlock_pool(service: LocalService) -> None:
    """Without it two agents count the runs of their pool at once."""
    if isinstance(service.store, SqliteStore):
        store: Any = service.store
        store._pool_room = cache(store._pool_room)
    else:
        replace_statement(service, "lock_pool", "FOR NO KEY UPDATE", "")


def skip_at_once(service: LocalService) -> None:
    """Without it two runs decide at once past which number to skip."""
    if isinstance(service.store, SqliteStore):
        write_without_transaction(service)
    else:
        replace_statement(service, "lock_skips", "interlock.leap(0, 0, 0, NULL)", "NULL")


def write_without_transaction(service: LocalService) -> None:
    """Every statement commits by itself, as if `BEGIN IMMEDIATE` had been forgotten."""
    store: Any = service.store
    store.database.write = nullcontext


def count_runs_once(service: LocalService) -> None:
    """A claim believes the count that it read before it had the write lock."""
    store: Any = service.store
    store._running = cache(store._running)


class Meeting:
    """A place in the code where two threads wait for each other, so that both have read before either writes.
    If a lock keeps the second away, the first goes on alone after a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, url: str, name: str) -> None:
        import interlock.store.postgres.claims
        import interlock.store.postgres.transactions
        import interlock.store.sqlite.store

        postgres = interlock.store.postgres.claims, interlock.store.postgres.transactions
        modules = (interlock.store.sqlite.store,) if is_sqlite(url) else postgres
        module = next(m for m in modules if hasattr(m, name))
        function = getattr(module, name)
        self._barrier = threading.Barrier(2)
        self.met = False

        def met(*args: Any) -> Any:
            with suppress(threading.BrokenBarrierError):
                self._barrier.wait(0.4)
                self.met = True
            return function(*args)

        monkeypatch.setattr(module, name, met)


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """What each gave, or the exception it raised, when done at the same time."""
    with ThreadPoolExecutor(len(works)) as threads:
        futures = [threads.submit(work) for work in works]
        return [future.exception() or future.result() for future in futures]
