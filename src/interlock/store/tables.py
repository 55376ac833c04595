"""Runs named statements on a database. Code on top of this is shared by SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
#: Runs a statement by its name (`outbox/lease` is `sql/outbox/lease.sql`) and gives its rows.
Ask = Callable[..., list[Any]]


class MissingReference(Exception):
    """A row refers to a missing one."""


class Tables(Protocol):
    """One database. Lists are passed as lists, and `now_us` is added where a statement names it."""

    def read(self, name: str, /, **params: Any) -> list[Any]:
        """Run one statement that only reads."""

    def write(self, name: str, /, **params: Any) -> list[Any]:
        """Run one statement in its own transaction."""

    def reading(self, work: Callable[[Ask], T]) -> T:
        """Read with several statements, without a common snapshot."""

    def writing(self, work: Callable[[Ask], T]) -> T:
        """Do work in one transaction. All of the work may be repeated, including its side effects."""

    def writing_each(self, work: Callable[[Ask], T]) -> T:
        """Do work whose statements need no common transaction. Where a commit is expensive, they share
        one."""

    def lock(self, what: str, /, **of: Any) -> None:
        """Lock the row of a lane, an agent or a pool, unless the transaction has the whole database."""

    def still_prunable(self, what: str, ids: Sequence[int], before_us: int) -> list[int]:
        """The ids of `items` or `plans` that can be deleted in this transaction."""

    def delete(self, table: str, column: str, values: Sequence[int]) -> None:
        """Delete the rows with one of these values in a column."""

    @property
    def checks(self) -> Mapping[str, str]:
        """The doctor's checks by name."""

    def check(self, text: str) -> list[Any]:
        """The rows that violate the invariant of a check."""
