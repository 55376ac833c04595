"""A signal's exception may come at any line of a write to SQLite: the next write goes through all the same.

The worst place is a `with` whose manager has begun and whose block has not: nobody ends what was begun.
PostgreSQL ends such a transaction itself after 15 s, and another connection does not wait for it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter
from interlock.service.local import LocalService
from interlock.store.sqlite import database
from interlock.store.sqlite.store import SqliteStore

WATCHED = frozenset(str(module.__file__) for module in (contextlib, database))
LANE = "issue:acme/app#42"


class Interruption:
    """`KeyboardInterrupt` at the n-th place of the watched modules. A return is a place, too: what a manager
    gave back has not reached its `with` yet."""

    def __init__(self, at: int) -> None:
        self._left = at

    def watch(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._step if frame.f_code.co_filename in WATCHED else None

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


def interrupted(service: LocalService, at: int) -> KeyboardInterrupt | None:
    """An arrival, interrupted at its n-th place; what keeps its frames, or None if it has fewer places."""
    before = sys.gettrace()
    try:
        sys.settrace(Interruption(at).watch)
        add(service, "interrupted")
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
