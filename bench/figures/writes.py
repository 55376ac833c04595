"""R: what a pair of claim and finish writes: bytes of the write-ahead log, and commits."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import NamedTuple

import psycopg

from bench.databases import clear, interlock_at, sqlite_at
from bench.figure import Figure, Row, Sample, Target
from bench.plan import Plan
from bench.subject import Store
from interlock.core.model import NewItem
from interlock.service.contract import Report

TITLES: dict[Store, str] = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
#: Pairs of two runs: the difference is what pairs cost, without what a start and an end cost.
FEW, MANY = 10, 60
#: How often that is counted: a vacuum of the database commits too, and is not the pairs' doing.
COUNTS = 3
BYTES, COMMITS = "log, bytes", "commits"


class Written(NamedTuple):
    """What something has written."""

    log_bytes: float
    #: Not counted on SQLite, where each call is one.
    commits: float | None


#: A pair, one by one, of the version of 18 November 2026 (caca54ed), counted in the same way.
BEFORE: dict[Store, Written] = {"postgres": Written(2_234, 2), "sqlite": Written(66_002, None)}
SHARE_MAX = 0.5


def writes(plan: Plan) -> list[Figure]:
    """R. Items one by one, one service, no lanes."""
    return [_on(plan, store) for store in TITLES]


def _on(plan: Plan, store: Store) -> Figure:
    plan.rounds.say(f"what a pair writes on {TITLES[store]}")
    url = plan.postgres_url if store == "postgres" else str(plan.directory / "writes.db")
    clear(store, url)
    with interlock_at(store, url) as service:
        service.add([NewItem(title=str(n)) for n in range(FEW + COUNTS * (FEW + MANY))])
    _written(store, url, FEW)  # pages are written whole after a checkpoint, each once
    counts = [_of_a_pair(store, url) for _ in range(COUNTS)]
    log_bytes, before = statistics.median(each.log_bytes for each in counts), BEFORE[store]
    rows = [_row(BYTES, log_bytes), _row(f"{BYTES}, before", before.log_bytes)]
    if before.commits is not None:
        rows.append(_row(COMMITS, statistics.median(each.commits or 0 for each in counts)))
        rows.append(_row(f"{COMMITS}, before", before.commits))
    most = SHARE_MAX * before.log_bytes
    return Figure(
        name=f"writes-{store}",
        title=f"R. What a claim and a finish write on {TITLES[store]}, one by one",
        unit="a pair",
        rows=rows,
        targets=[Target.at_most(f"R, {TITLES[store]}: log of a pair", log_bytes, round(most), "bytes")],
    )


def _row(subject: str, value: float) -> Row:
    return Row(subject=subject, samples=[Sample(value=value)])


def _of_a_pair(store: Store, url: str) -> Written:
    few, many = _written(store, url, FEW), _written(store, url, MANY)
    pairs, commits = MANY - FEW, None
    if few.commits is not None and many.commits is not None:
        commits = (many.commits - few.commits) / pairs
    return Written((many.log_bytes - few.log_bytes) / pairs, commits)


def _written(store: Store, url: str, pairs: int) -> Written:
    """What so many pairs write, with the start and the end of their service."""
    if store == "sqlite":
        with sqlite_at(url) as connection:  # the log is kept while this is open, and begun anew
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            _work(store, url, pairs)
            return Written(Path(f"{url}-wal").stat().st_size, None)
    with psycopg.connect(url, autocommit=True) as server:
        before = _counted(server)
        _work(store, url, pairs)
        after = _counted(server)
    return Written(after[0] - before[0], after[1] - before[1])


def _work(store: Store, url: str, pairs: int) -> None:
    with interlock_at(store, url) as service:
        for _ in range(pairs):
            (lease,) = service.next("coder")
            service.done([Report(run=lease.run)])


def _counted(server: psycopg.Connection[tuple[int, int]]) -> tuple[int, int]:
    """The place in the log, and the commits of all sessions that have ended."""
    row = server.execute(
        "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, xact_commit FROM pg_stat_database"
        " WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
