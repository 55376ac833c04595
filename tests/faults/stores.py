"""Stores for fault tests: named by a plain url, so that another process can open the same one.

What a test concludes is read past Interlock, with plain SQL: a store must not be its own witness.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import apsw
import psycopg

from interlock.core.timing import Timing
from interlock.proof.checker import History, LoggedEvent
from interlock.service.contract import CheckView
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from interlock.store.sqlite.store import SqliteStore
from tests.faults.judge import verdicts

#: The shortest lawful lease, so that a holder is lost within a second.
QUICK = Timing(lease_s=1.0, cancel_grace_s=1.0, back_off_first_s=0.05, back_off_max_s=0.2)


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite:")


def file_of(url: str) -> str:
    return url.removeprefix("sqlite://")


def open_store(
    url: str, *, timing: Timing = QUICK, now: Callable[[], int] | None = None, **options: Any
) -> SqliteStore | PostgresStore:
    if is_sqlite(url):
        return SqliteStore(file_of(url), timing=timing, now=now, **options)
    return PostgresStore(Database(url, timing=timing, now=now, **options))


def open_service(
    url: str, *, timing: Timing = QUICK, now: Callable[[], int] | None = None, **options: Any
) -> LocalService:
    return LocalService(open_store(url, timing=timing, now=now, **options), poll_s=0.1)


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Rows of a plain statement. Tables are named without schema."""
    if is_sqlite(url):
        db = apsw.Connection(file_of(url))
        db.set_busy_timeout(30_000)
        try:
            return list(db.execute(statement))
        finally:
            db.close()
    options = "-c search_path=interlock"
    with psycopg.connect(url, autocommit=True, client_encoding="UTF8", options=options) as conn:
        cursor = conn.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def read_log(url: str) -> list[LoggedEvent]:
    """Every committed line of the history."""
    rows = query(url, "SELECT seq, at_us, kind, reason, item, run, lane, data FROM events ORDER BY seq")
    names = ("seq", "at_us", "kind", "reason", "item", "run", "lane")
    return [
        LoggedEvent(**dict(zip(names, row[:7], strict=True)), data=json.loads(row[7] or "{}")) for row in rows
    ]


def statuses(url: str) -> dict[int, str]:
    return dict(query(url, "SELECT id, status FROM items"))


def broken(checks: list[CheckView]) -> list[str]:
    """What the doctor found, but for what is the tests' own doing: their servers' settings, their clocks,
    agents that never come."""
    ours = ("writes_are_durable", "nothing_is_switched_off", "clock_agrees", "stalled_lanes")
    return [f"{c.name}: {c.detail}" for c in checks if not c.ok and c.name not in ours]


def assert_kept(
    url: str,
    *,
    added: tuple[int, ...] = (),
    done: tuple[tuple[int, int], ...] = (),
    steady_clock: bool = True,
) -> History:
    """Every promise that history and tables can show was kept, and the doctor finds nothing."""
    history = History(read_log(url))
    history.check_inputs(added)
    history.check_acknowledged(done)
    history.check_store(statuses(url))
    if steady_clock:
        history.check_times()
    assert not history.violations, "\n".join(map(str, history.violations[:20]))
    if not is_sqlite(url):
        said = verdicts(partial(query, url), done)
        assert not said, "\n".join(said[:20])
    service = open_service(url)
    try:
        found = broken(service.doctor())
    finally:
        service.close()
    assert not found, found
    return history


@dataclass(frozen=True)
class Seam:
    """A function of a store that a test may hold up: where it lives differs from store to store."""

    place: Any
    name: str

    def get(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self.place, self.name)
        return found

    def put(self, function: Callable[..., Any]) -> None:
        setattr(self.place, self.name, function)


def writing(service: LocalService) -> Seam:
    """Where a store writes what was decided, inside its transaction."""
    store: Any = service.store
    return Seam(store, "_apply") if isinstance(store, SqliteStore) else Seam(store.transactions, "_write")
