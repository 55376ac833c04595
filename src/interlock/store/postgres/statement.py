"""Statements with numbered parameters, and the connection that sends them and waits for the answers.

A statement's text is taken apart once, whatever its length: the driver takes one with named parameters apart
anew for every call if it is longer than 4 KiB. A server that says nothing is not waited for without end.
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

from interlock.core.absence import Absence

T = TypeVar("T")

#: How often the driver looks up from waiting.
_LOOK_S = 0.1
_ANEW = "-- Planned anew for each call"
_PLACE = re.compile(r"%\((\w+)\)s|%s")


class Statement(str):
    """SQL with `$1`, `$2` …, and the names of its parameters in that order, if it names them."""

    __slots__ = ("kept", "names")
    names: tuple[str, ...]
    #: Whether a session may keep its plan, unless its comment says that it is planned anew.
    kept: bool

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
        statement.kept = _ANEW not in text
        return statement


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that takes numbered statements, with their parameters by name or in order."""

    #: A server that sends and takes nothing for so long is given up, and the connection with it: it may be
    #: frozen, or unreachable through a network that swallows packets. While notices are waited for, silence
    #: is what one expects.
    silence_s: float = math.inf
    #: Ends the wait earlier when the process stops.
    absence = Absence()

    def execute(
        self,
        query: Any,
        params: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = False,
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        cursor: psycopg.Cursor[tuple[Any, ...]] = psycopg.RawCursor(self)
        if binary:
            cursor.format = Format.BINARY
        if isinstance(params, Mapping):
            params = [params[name] for name in query.names]
        if isinstance(query, Statement) and not query.kept:
            prepare = False
        return cursor.execute(query, params, prepare=prepare)

    def hear(self, timeout_s: float) -> bool:
        """Whether a notice came within this time."""
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
        """What `gen` does, but for an error once nothing has come or gone for `silence_s`.

        Counted in looks, not by a clock: a process that was stopped for an hour has not waited meanwhile.
        """
        looks = 0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                looks = 0 if ready else looks + 1
                if looks and (looks * _LOOK_S >= self.silence_s or not self.absence.waits(time.monotonic())):
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer for {looks * _LOOK_S:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value
