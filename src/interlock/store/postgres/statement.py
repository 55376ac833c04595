"""Statements with numbered parameters, and the connection that sends them and waits for answers.

A statement's text is parsed once. The driver would parse a text with named parameters in every call if it is
longer than 4 KiB. The wait for a silent server is bounded.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import Format

from interlock.core.store_outage import StoreOutage

T = TypeVar("T")

#: How often the driver interrupts its wait to check.
_LOOK_S = 0.1
#: The longest result whose cursor is kept, with the result.
_KEPT_ROWS = 10
_PLACE = re.compile(r"%\((\w+)\)s|%s")


class Statement(str):
    """SQL with `$1`, `$2` …, and the names of its parameters in that order, if it has names."""

    __slots__ = ("encoded", "names")
    names: tuple[str, ...]
    #: What is sent. The driver finds a prepared statement by this text, whose hash is then computed once.
    encoded: bytes

    @classmethod
    def numbered(cls, text: str) -> Self:
        """From `%(name)s`, where equal names are one parameter, or from `%s`, each its own."""
        names: dict[str, int] = {}
        count = 0

        def number(place: re.Match[str]) -> str:
            nonlocal count
            if place[1] is None:
                count += 1
                return f"${count}"
            return f"${names.setdefault(place[1], len(names) + 1)}"

        statement = cls(_PLACE.sub(number, text))
        statement.names = tuple(names)
        statement.encoded = statement.encode()
        return statement


class StatementConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that takes numbered statements, with their parameters by name or in order."""

    #: A server that sends and accepts nothing for this time is given up, with its connection. It may be
    #: frozen, or unreachable through a network that drops packets. The wait for notifications is exempt.
    silence_s: float = math.inf
    #: Ends the wait earlier when the process stops.
    outage = StoreOutage()
    #: The cursors of `fetch`, by statement.
    _cursors: dict[str, psycopg.Cursor[tuple[Any, ...]]] | None = None

    def execute(
        self,
        query: Any,
        params: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,
        cursor: psycopg.Cursor[tuple[Any, ...]] | None = None,
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        if cursor is None:
            cursor = psycopg.RawCursor(self)
            if binary:
                cursor.format = Format.BINARY
        if isinstance(query, Statement):
            if isinstance(params, Mapping):
                params = [params[name] for name in query.names]
            query = query.encoded
        return cursor.execute(query, params, prepare=prepare)

    def fetch(self, query: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Execute a statement outside of a pipeline, and give its rows.

        The cursor is kept for the next time: it knows how to convert each column and parameter. After a long
        result it is not, as it keeps the result as well.
        """
        if self._cursors is None:
            self._cursors = {}
        cursor = self.execute(query, params, binary=True, cursor=self._cursors.pop(query, None))
        rows = cursor.fetchall()
        if len(rows) <= _KEPT_ROWS:
            self._cursors[query] = cursor
        return rows

    def hear(self, timeout_s: float) -> bool:
        """Wait for a notification; gives whether one came in time."""
        bound_s, self.silence_s = self.silence_s, math.inf
        try:
            return any(True for _ in self.notifies(timeout=timeout_s, stop_after=1))
        finally:
            self.silence_s = bound_s

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        if self.silence_s == math.inf:
            return super().wait(gen, *args, **kwargs)
        return super().wait(self._unless_silent(gen), _LOOK_S)

    def _unless_silent(self, gen: PQGen[T]) -> PQGen[T]:
        """Run `gen`, but raise if no data was sent or received for `silence_s`.

        The time is counted in checks, not by a clock: a process that was suspended for an hour has not
        waited.
        """
        looks = 0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                looks = 0 if ready else looks + 1
                if looks and (looks * _LOOK_S >= self.silence_s or not self.outage.waits(time.monotonic())):
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer for {looks * _LOOK_S:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value
