"""How many statements a page takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from interlock.store.sqlite.database import SqliteDatabase
from tests.dashboard.client import Visitor

_NUMBERS = itertools.count()


#: What the server reads at times for itself: sessions, limits, and whether something has happened.
_OF_THE_SERVER = ("access/session", "agents", "horizon", "limited_agents", "newest_events")


def statements_of(visitor: Visitor, path: str) -> list[str]:
    """The statements that a page performs, by name, without those that read the history.

    The server reads limits and tokens every few seconds, so the shorter list of two looks counts.
    """
    return min((_statements_once(visitor, path) for _ in range(2)), key=len)


def _statements_once(visitor: Visitor, path: str) -> list[str]:
    with _counted() as names:
        # An address that was not asked for yet: a page that was drawn lately would be shared.
        fresh = f"{path}{'&' if '?' in path else '?'}drawn={next(_NUMBERS)}"
        assert visitor.get(fresh).status == 200
    return [name for name in names if name not in _OF_THE_SERVER]


@contextmanager
def _counted() -> Iterator[list[str]]:
    rows, names = SqliteDatabase.rows, []

    def counted(self: SqliteDatabase, name: str, /, **params: Any) -> list[Any]:
        names.append(name)
        return rows(self, name, **params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteDatabase, "rows", counted)
        yield names
