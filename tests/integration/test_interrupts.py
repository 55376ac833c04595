"""A signal's exception may come at any line of a write: the next write goes through all the same.

On SQLite the worst place is a `with` whose manager has begun and whose block has not: nobody ends what was
begun. PostgreSQL ends such a transaction itself after 15 s, and another connection does not wait for it.
There the worst place is between a statement and its answer, which the next user of the connection would get.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from interlock.core.model import NewItem
from interlock.service import gathering
from interlock.service.contract import ItemFilter, NextWish, Report
from interlock.service.local import LocalService
from interlock.store.postgres import claims, early_ends, statement, transactions
from interlock.store.postgres import database as postgres_database
from interlock.store.sqlite import database
from interlock.store.sqlite.store import SqliteStore
from tests.faults.stores import open_service
from tests.patience import PATIENCE_S


def files_of(*modules: Any) -> frozenset[str]:
    return frozenset(str(module.__file__) for module in modules)


WATCHED = files_of(contextlib, database)
POSTGRES = files_of(postgres_database, claims, early_ends, statement, transactions)
LANE = "issue:acme/app#42"


class Interruption:
    """`KeyboardInterrupt` at the n-th place of the watched modules. A return is a place, too: what a manager
    gave back has not reached its `with` yet."""

    def __init__(self, at: int, watched: frozenset[str] = WATCHED) -> None:
        self._left, self._watched = at, watched

    def watch(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._step if frame.f_code.co_filename in self._watched else None

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" or (event == "return" and frame.f_code.co_filename == contextlib.__file__):
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        return self._step


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LocalService]:
    service = LocalService(SqliteStore(tmp_path / "interlock.db", busy_timeout_s=0.2))
    service.add([NewItem(title="the first write opens a connection")])
    yield service
    service.close()


def add(service: LocalService, title: str) -> None:
    service.add([NewItem(title=title, lane=LANE)])


def interrupted(
    service: LocalService,
    at: int,
    watched: frozenset[str] = WATCHED,
    work: Callable[[LocalService], object] = lambda service: add(service, "interrupted"),
) -> KeyboardInterrupt | None:
    """An arrival, interrupted at its n-th place; what keeps its frames, or None if it has fewer places."""
    before = sys.gettrace()
    try:
        sys.settrace(Interruption(at, watched).watch)
        work(service)
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.settrace(before)
    return None


def test_an_interrupt_at_any_line_of_a_write_leaves_the_store_usable(service: LocalService):
    at = 1
    while interrupted(service, at) is not None:
        add(service, "next")
        at += 1
    assert at > 30, "the interruptions met the write"
    titles = [item.title for item in service.items(ItemFilter(limit=1000))]
    assert titles.count("next") == at - 1


def test_what_ends_an_interrupted_write_late_leaves_the_next_one_alone(service: LocalService):
    store = service.store
    assert isinstance(store, SqliteStore)
    begun = store.database.write()
    begun.__enter__()
    with store.database.write():
        store.database.rows("set_meta", name="kept", value="yes")
        del begun  # as when the last reference to the exception goes
    assert store.database.value("meta", name="kept") == "yes"


def test_an_interrupted_write_does_not_keep_others_waiting_once_it_is_forgotten(
    service: LocalService, tmp_path: Path
):
    at = 1
    while (error := interrupted(service, at)) is not None:
        del error
        other = LocalService(SqliteStore(tmp_path / "interlock.db", busy_timeout_s=0.2))
        add(other, "next")
        other.close()
        at += 1
    assert at > 30


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a connection that nobody got
def test_an_interrupt_at_any_line_of_a_call_to_postgresql_leaves_no_answer_to_the_next(
    pg_database18: str,
) -> None:
    """Taken out: the end of interrupted connections; the next call gets the answers to other statements."""
    service = open_service(pg_database18)
    service.add([NewItem(title=f"early {n}") for n in range(1_000)])
    added, ended = set[int](), set[str]()

    def work(service: LocalService) -> None:
        add(service, "interrupted")
        service.done([Report(run=service.next("coder")[0].run)], next=NextWish())

    at = 1
    while interrupted(service, at, POSTGRES, work) is not None:
        (view,) = service.add([NewItem(title=f"next {at}")])
        assert view.item is not None
        assert view.item.title == f"next {at}"
        added.add(view.item.id)
        (lease,) = service.next("coder")
        assert service.done([Report(run=lease.run)])[0].refusal is None
        ended.add(lease.run)
        at += 1
    assert at > 100, "the interruptions met the calls"
    found = {item.id: item for item in service.items(ItemFilter(all=True, limit=10_000))}
    assert added <= found.keys()
    assert {found[int(run.split(".")[1])].status for run in ended} == {"completed"}
    service.close()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_an_interrupt_of_the_main_thread_keeps_no_other_thread_waiting(
    service: LocalService, pg_database18: str, store: str
) -> None:
    """Taken out: the main thread's way around the groups; one whose group it leads waits for ever."""
    used = service if store == "sqlite" else open_service(pg_database18)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            used.add([NewItem(title="by another thread")])

    threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for at in range(1, 120):
        interrupted(used, 1 + at % 40, files_of(gathering))
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    used.close()
