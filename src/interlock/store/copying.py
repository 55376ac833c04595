"""A store becomes another, empty one: sealed, copied, opened, in this order.

    1. The target is locked and empty: one transaction of it, to the end.
    2. The source is sealed, in a commit of its own: it takes no more writes, and no run in it is live.
    3. Every row goes over; numbers go on above all that the source gave out.
    4. The target's transaction commits, and with it the target opens.

A crash between any two of them leaves one store at most that takes writes. Before 2 it is the source. After 2
it is none, until somebody copies again or takes the seal off, and both need the target's lock: a copier that
is only slow still has it. After 4 it is the target, which knows the number of the copy: a commit whose answer
was lost is not repeated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol, Self

from interlock.core.continuity import Ancestor, Lineage
from interlock.core.errors import Held, InterlockError, InvalidInput
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.store.migrate import Migrator, apply_missing
from interlock.store.port import Finding

Row = Sequence[Any]
#: Called with a table, and how many of its rows are over so far.
Tell = Callable[[str, int], None]

#: What is copied, and by which columns it is read in order. A table comes after those that it refers to.
TABLES: dict[str, tuple[str, ...]] = {
    "lanes": ("lane",),
    "plans": ("id",),
    "items": ("id",),
    "payloads": ("item",),
    "messages": ("item", "n"),
    "runs": ("run",),
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
}
#: What a store knows of itself, or makes of the rest; by backend.
_BOTH = {"migrations", "meta", "stores", "tallies", "workers", "github_answers"}
OWN = {
    "sqlite": frozenset({*_BOTH, "numbers"}),
    "postgres": frozenset({*_BOTH, "clock", "gates", "tally_changes"}),
}
#: How many rows are read at once: some dozens of megabytes, if each has the largest payload.
READ_ROWS = 64
#: How many rows one statement writes. Then their references are checked, and progress is told.
WRITE_ROWS = 10_000
#: Names in `meta`: for which copy a store is sealed, and from which copy it came.
SEALED, COPIED_FROM = "sealed", "copied_from"
#: How many live runs a refusal names.
NAMED = 5


class Numbers(NamedTuple):
    """What a store gave out last. An event's number is its `seq`."""

    item: int
    run: int
    ticket: int
    event: int


class LiveRun(NamedTuple):
    run: int
    item: int
    agent: str


class Mark(NamedTuple):
    """One copy: its number, the other end in words, and the source's time when it was sealed."""

    copy: str
    place: str
    at_us: int

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        return None if text is None else cls(**json.loads(text))

    def text(self) -> str:
        return json.dumps(self._asdict())


class Copied(Record):
    """What a copy did. Source and target are places in words."""

    source: str
    target: str
    #: How many rows went over, by table; none if an earlier try had come to the end.
    rows: dict[str, int]
    #: The run number after which the target goes on.
    last_run: int


class End(Protocol):
    """A store as one end of a copy. All but `read` is done inside a transaction of `database.exclusively`."""

    @property
    def database(self) -> Migrator: ...
    #: Where the store is, in words.
    @property
    def place(self) -> str: ...
    #: What `meta` has under a name.
    def mark(self, name: str) -> Mark | None: ...
    def columns(self, table: str) -> list[str]: ...
    def numbers(self) -> Numbers: ...

    # -- as the source
    def lineage(self) -> Lineage: ...
    def live_runs(self, limit: int) -> list[LiveRun]: ...
    #: No run starts, whichever version asks, as long as `keep_closed` is called in time.
    def close_claims(self, to: str) -> None: ...
    def keep_closed(self, to: str, for_s: int) -> None: ...
    def open_claims(self) -> None: ...
    #: No write from here on, whichever version asks.
    def seal(self, to: str) -> Mark: ...
    def unseal(self) -> None: ...
    #: All rows in order, as SQLite has them: a list is JSON, truth is 0 or 1.
    def read(self, table: str, columns: Sequence[str], key: Sequence[str]) -> Iterator[Row]: ...

    # -- as the target
    def is_empty(self, table: str) -> bool: ...
    #: Gives how many there were.
    def write(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int: ...
    #: Make what a store makes of its rows; let clock and numbers go on. Gives the last run number.
    def settle(self, numbers: Numbers, ancestors: Mapping[str, Ancestor], origin: Mark) -> int: ...


def copy(source: End, target: End, tell: Tell) -> Copied:
    """Copy a store into an empty one, or finish what an earlier try began."""

    def work() -> Copied:
        seal = source.mark(SEALED)
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
            # Nobody has seen a row of the target: its transaction ends here, without a commit.
            with suppress(InterlockError):
                source.database.exclusively(source.unseal)
            raise

    return target.database.exclusively(work)


def undo(source: End, target: End) -> None:
    """Let a store take writes again whose copy did not come to its end."""

    def work() -> None:
        seal = source.mark(SEALED)
        if seal is None:
            raise InvalidInput("This store is not sealed.", "There is nothing to undo.")
        _require_same(seal, target)
        if _came_from(target, seal):
            raise Held(
                f"The copy is complete: the store is {target.place} now.",
                "Let INTERLOCK_URL name it. To come back, copy it to a new place.",
            )
        source.database.exclusively(source.unseal)

    target.database.exclusively(work)


def finding(end: End) -> Finding:
    """What the doctor says of copies: whether the store takes writes, and where it came from."""
    seal, origin = end.mark(SEALED), end.mark(COPIED_FROM)
    came = f" It was copied from {origin.place}." if origin is not None else ""
    return Finding(
        name="takes_writes",
        promise=f"The store takes writes.{came}",
        mend="Let INTERLOCK_URL name the new place. If the copy was interrupted, run it again.",
        broken=(f"it is sealed for its copy to {seal.place}",) if seal is not None else (),
    )


def in_words(live: Sequence[LiveRun]) -> str:
    """The first of the live runs."""
    named = ", ".join(f"run {run} of {agent} on item {item}" for run, item, agent in live[:NAMED])
    return named + (" and others" if len(live) > NAMED else "")


def _came_from(target: End, seal: Mark) -> bool:
    origin = target.mark(COPIED_FROM) if target.database.applied() else None
    return origin is not None and origin.copy == seal.copy


def _require_same(seal: Mark, target: End) -> None:
    if seal.place != target.place:
        raise Held(
            f"This store is sealed: it was being copied to {seal.place}.",
            "Name that place with --to, to finish the copy, or to end it with --undo.",
        )


def require_empty(target: End) -> None:
    """Raise unless a store has no row."""
    if not target.database.applied():
        return
    for table in TABLES:
        if not target.is_empty(table):
            raise Held(
                f"{target.place} is not empty: it has {table.replace('_', ' ')}.",
                "Name an empty database, or a file that does not exist yet. Nothing was changed.",
            )


def _sealed(source: End, to: str) -> Mark:
    seal = source.mark(SEALED)
    if seal is not None:
        return seal
    live = source.live_runs(NAMED + 1)
    if live:
        raise Held(
            f"The store cannot be copied while runs are live: {in_words(live)}.",
            "Let them end, or wait for them with --wait: no other run starts meanwhile.",
        )
    return source.seal(to)


def _filled(source: End, target: End, seal: Mark, tell: Tell) -> Copied:
    over = dict.fromkeys(TABLES, 0)
    for table, key in TABLES.items():
        columns = source.columns(table)
        assert sorted(columns) == sorted(target.columns(table)), f"{table} has other columns in the target"
        rows = source.read(table, columns, key)
        while count := target.write(table, columns, islice(rows, WRITE_ROWS)):
            over[table] += count
            tell(table, over[table])
    lineage = source.lineage()
    ancestors = {**lineage.ancestors, lineage.store: Ancestor.SEALED}
    last_run = target.settle(source.numbers(), ancestors, seal._replace(place=source.place))
    return Copied(source=source.place, target=target.place, rows=over, last_run=last_run)


def names(columns: Iterable[str]) -> str:
    """Columns in a statement."""
    return ", ".join(f'"{name}"' for name in columns)


def new_mark(place: str, now_us: int) -> Mark:
    """The seal of a new copy."""
    return Mark(os.urandom(8).hex(), place, now_us)
