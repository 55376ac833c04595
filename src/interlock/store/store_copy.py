"""Copies a store into another, empty one: seal, copy, open, in this order.

    1. The empty target is locked, in one transaction to the end.
    2. The source is sealed, in its own commit: it accepts no more writes, and has no live run.
    3. Every row is copied; numbers continue above all that the source gave out.
    4. The target's transaction commits, which opens the target.

After a crash between two steps, at most one store accepts writes. Before 2 it is the source. After 2 it is
none, until the copy is repeated or undone. Both need the target's lock, which a slow copier still holds.
After 4 it is the target. It stores the number of the copy, so a commit whose answer was lost is not repeated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol

from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import Held, InterlockError, InvalidInput
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.store.migrate import Migrator, apply_missing
from interlock.store.port import Finding
from interlock.store.tables import Ask

Row = Sequence[Any]
#: Called with a table, and the number of its rows copied so far.
Tell = Callable[[str, int], None]

#: The copied tables, and the columns by which they are read in order. A table comes after those it refers to.
TABLES: dict[str, tuple[str, ...]] = {
    "lanes": ("lane",),
    "plans": ("id",),
    "items": ("id",),
    "payloads": ("item",),
    "messages": ("item", "n"),
    "runs": ("run",),
    "run_logs": ("run",),
    "run_log_pieces": ("run", "start"),
    "events": ("seq",),
    "dedupe_keys": ("project", "key"),
    "pools": ("name",),
    "agents": ("key",),
    "paused_projects": ("project",),
    "modes": ("scope", "value"),
    "blocks": ("lane", "item", "blocker"),
    "marks": ("name",),
    "metric_labels": ("id",),
    "metric_counts": ("metric", "value", "labels"),
    "tokens": ("id",),
    "requests": ("key",),
    "tasks": ("item",),
    "edges": ("source", "target"),
    "revisions": ("plan", "revision"),
    "completions": ("plan", "n"),
    "github_repositories": ("id",),
    "github_deliveries": ("id",),
    "github_numbers": ("repository", "number"),
    "github_consequences": ("repository", "number", "place"),
    "github_choices": ("repository",),
    "github_closes": ("repository", "issue", "pull"),
    "github_signs": ("run",),
    "github_accounts": ("run",),
    "github_outboxes": ("repository", "number"),
    "github_effects": ("repository", "number", "place"),
    "github_heads": ("repository", "number", "commit_id"),
    "github_links": ("run", "repository", "number", "commit_id"),
    "github_workflow_runs": ("repository", "id"),
    "series_notes": ("lane",),
    "run_costs": ("run",),
    "spending": ("scope", "name", "day"),
    "calendars": ("name",),
    "budgets": ("scope", "name", "per"),
    "reserves": ("type",),
}
#: The tables that are not copied: a store's data about itself, and derived data; by backend.
_BOTH = {"migrations", "meta", "stores", "tallies", "workers", "github_answers", "sessions", "trend"}
OWN = {
    "sqlite": frozenset({*_BOTH, "numbers"}),
    "postgres": frozenset({*_BOTH, "clock", "gates", "tally_changes"}),
}
#: The rows read at once: a few dozen megabytes, if each has the largest payload.
READ_ROWS = 64
#: The rows that one statement writes. Then their references are checked, and progress is reported.
WRITE_ROWS = 10_000
#: Names in `meta`: the copy for which a store is sealed, and the copy that it came from.
SEALED, COPIED_FROM = "sealed", "copied_from"
#: How many live runs a refusal names.
NAMED = 5


class Numbers(NamedTuple):
    """The last numbers that a store gave out. An event's number is its `seq`."""

    item: int
    run: int
    ticket: int
    event: int


class LiveRunRow(NamedTuple):
    run: int
    item: int
    agent: str


class CopySeal(NamedTuple):
    """One copy: its number, the other end in words, and the source's time when it was sealed."""

    copy: str
    place: str
    at_us: int

    def text(self) -> str:
        return json.dumps(self._asdict())


def seal_from_rows(rows: Sequence[Row]) -> CopySeal | None:
    """The seal in `meta`, if any."""
    return CopySeal(**json.loads(rows[0][0])) if rows and rows[0][0] is not None else None


class Copied(Record):
    """The result of a copy. Source and target are places in words."""

    source: str
    target: str
    #: The copied rows, by table; none if an earlier try was complete.
    rows: dict[str, int]
    #: The run number after which the target goes on.
    last_run: int


class CopyEnd(Protocol):
    """A store as one end of a copy. All but `read` runs inside a transaction of `database.exclusively`."""

    @property
    def database(self) -> Migrator: ...
    #: Where the store is, in words.
    @property
    def place(self) -> str: ...
    #: The seal in `meta` under a name.
    def kept_seal(self, name: str) -> CopySeal | None: ...
    def columns(self, table: str) -> list[str]: ...
    def numbers(self) -> Numbers: ...

    # -- as the source
    def lineage(self) -> Lineage: ...
    def live_runs(self, limit: int) -> list[LiveRunRow]: ...
    #: Let no run start, for programs of any version, as long as `keep_closed` is called in time.
    def close_claims(self, to: str) -> None: ...
    def keep_closed(self, to: str, for_s: int) -> None: ...
    def open_claims(self) -> None: ...
    #: Refuse all writes from now on, for programs of any version.
    def seal(self, to: str) -> CopySeal: ...
    def unseal(self) -> None: ...
    #: All rows in order, in SQLite's form: a list is JSON, a boolean is 0 or 1.
    def read(self, table: str, columns: Sequence[str], key: Sequence[str]) -> Iterator[Row]: ...

    # -- as the target
    def is_empty(self, table: str) -> bool: ...
    #: Write rows; gives their number.
    def write(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int: ...
    #: Build derived data, and continue the clock and the numbers. Gives the last run number.
    def settle(self, numbers: Numbers, ancestors: Mapping[str, Ancestor], origin: CopySeal) -> int: ...


def copy(source: CopyEnd, target: CopyEnd, tell: Tell) -> Copied:
    """Copy a store into an empty one, or complete an earlier try."""

    def work() -> Copied:
        seal = source.kept_seal(SEALED)
        if seal is not None:
            if _came_from(target, seal):
                last_run = target.numbers().run
                return Copied(source=source.place, target=target.place, rows={}, last_run=last_run)
            _require_same(seal, target)
        apply_missing(target.database)
        require_empty(target)
        seal = source.database.exclusively(lambda: _sealed(source, target.place))
        try:
            return _filled(source, target, seal, tell)
        except BaseException:
            # No reader has seen a row of the target, as its transaction ends here without a commit.
            with suppress(InterlockError):
                source.database.exclusively(source.unseal)
            raise

    return target.database.exclusively(work)


def undo(source: CopyEnd, target: CopyEnd) -> None:
    """Let a store accept writes again after an incomplete copy."""

    def work() -> None:
        seal = source.kept_seal(SEALED)
        if seal is None:
            raise InvalidInput("This store is not sealed.", "There is nothing to undo.")
        _require_same(seal, target)
        if _came_from(target, seal):
            raise Held(
                f"The copy is complete: the store is {target.place} now.",
                "Point INTERLOCK_URL at it. To return, copy it to a new place.",
            )
        source.database.exclusively(source.unseal)

    target.database.exclusively(work)


def finding(read: Ask) -> Finding:
    """The doctor's finding about copies: whether the store accepts writes, and where it came from."""
    seal, origin = (seal_from_rows(read("meta", name=name)) for name in (SEALED, COPIED_FROM))
    came = f" It was copied from {origin.place}." if origin is not None else ""
    return Finding(
        name="takes_writes",
        promise=f"The store takes writes.{came}",
        mend="Point INTERLOCK_URL at the new place. If the copy was interrupted, run it again.",
        broken=(f"it is sealed for its copy to {seal.place}",) if seal is not None else (),
    )


def in_words(live: Sequence[LiveRunRow]) -> str:
    """The first of the live runs."""
    named = ", ".join(f"run {run} of {agent} on item {item}" for run, item, agent in live[:NAMED])
    return named + (" and others" if len(live) > NAMED else "")


def _came_from(target: CopyEnd, seal: CopySeal) -> bool:
    origin = target.kept_seal(COPIED_FROM) if target.database.applied() else None
    return origin is not None and origin.copy == seal.copy


def _require_same(seal: CopySeal, target: CopyEnd) -> None:
    if seal.place != target.place:
        raise Held(
            f"This store is sealed: a copy to {seal.place} was begun.",
            "Finish the copy to that place, or undo it.",
        )


_EMPTY = "Name an empty database, or a file that does not exist yet. Nothing was changed."


def require_empty(target: CopyEnd, hint: str = _EMPTY) -> None:
    """Raise unless a store has no row."""
    if not target.database.applied():
        return
    for table in TABLES:
        if not target.is_empty(table):
            raise Held(f"{target.place} is not empty: its table {table} has rows.", hint)


def _sealed(source: CopyEnd, to: str) -> CopySeal:
    seal = source.kept_seal(SEALED)
    if seal is not None:
        return seal
    live = source.live_runs(NAMED + 1)
    if live:
        raise Held(
            f"The store cannot be copied while runs are live: {in_words(live)}.",
            "Let them end, or set `wait`: the copy then waits for them, and no new run starts.",
        )
    return source.seal(to)


def _filled(source: CopyEnd, target: CopyEnd, seal: CopySeal, tell: Tell) -> Copied:
    rows = transfer(source, target, tell)
    lineage = source.lineage()
    ancestors = {**lineage.ancestors, lineage.store: Ancestor.SEALED}
    last_run = target.settle(source.numbers(), ancestors, seal._replace(place=source.place))
    return Copied(source=source.place, target=target.place, rows=rows, last_run=last_run)


def transfer(source: CopyEnd, target: CopyEnd, tell: Tell) -> dict[str, int]:
    """Write all rows of one store to another; gives their numbers by table."""
    over = dict.fromkeys(TABLES, 0)
    for table, key in TABLES.items():
        columns = source.columns(table)
        assert sorted(columns) == sorted(target.columns(table)), f"{table} has other columns in the target"
        rows = source.read(table, columns, key)
        while count := target.write(table, columns, islice(rows, WRITE_ROWS)):
            over[table] += count
            tell(table, over[table])
    return over


def names(columns: Iterable[str]) -> str:
    """A list of columns for a statement."""
    return ", ".join(f'"{name}"' for name in columns)


def new_seal(place: str, now_us: int) -> CopySeal:
    """The seal of a new copy."""
    return CopySeal(os.urandom(8).hex(), place, now_us)
