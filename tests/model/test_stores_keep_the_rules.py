"""Random commands, said to a plain model of the rules and to the real stores: all must agree after each one.

`tests.model.reference` has the rules a second time, in plain lists. `tests.model.commands` is what can be
said, and how often. `tests.model.machine` says it and compares: answers, statuses, owners, lines, attempts,
claims and their order, messages and their order, refusals, promotions, the history and its counters; and it
checks what must hold whatever was said: one owner a lane, no line without one, no input lost, run numbers
that grow with each run of a lane, a doctor that finds nothing.

To look longer:

    INTERLOCK_MODEL_EXAMPLES=2000 make test ARGS="tests/model -k sqlite_alone"

`INTERLOCK_MODEL_SHRINK=no` leaves a failure as long as it was found, which is quick, instead of searching
for the shortest one, which may take minutes. A failure prints a line to reproduce it: put it above
`machine` below.

What it is able to find was tried by breaking rules on purpose, one at a time. Within 200 examples on SQLite
it found:

* lanes: the newest of a line promoted instead of the oldest, position ignored, the successor of a run that
  was asked to stop not put first, a cancelled owner or one that gives way on re-entry not followed,
  observed items not keeping a lane shut, an arrival that does not end an overdue owner, an overtaken owner
  sent to the end;
* policies: messages forgotten on supersede or with the superseded run, titles not handed on, no replacement
  on re-entry, replacement across agents, latest stopping a running owner, a bot's arrival that supersedes,
  a scheduled item absorbed, the running one looked for first by coalesce;
* leases: any run accepted while the item has one (`>=` instead of equality), a renewal that passes the
  grace, a grace that starts anew with each request, a deadline met a microsecond late, a timeout reported
  as a lost lease, done after a cancel request not accepted as reported;
* attempts: a lost run that costs none, a release that costs one, releases that never back off, a kept lane
  given up, jitter ignored, a retry by hand that grants no attempt, a lost run that is parked;
* messages: what a claim delivered unread at done, a read mark that is not kept or goes back, a follow-up
  with its parent's ticket or made after the promotion, a bot's message that wakes;
* claims: priority reversed, a paused project or a limit ignored, dedupe keys kept for too short a time.

Found only in longer runs (2,000 examples): a kept retry overtaken, a bot's coalesced arrival that wakes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.model.machine import StoresKeepTheRules
from tests.model.subjects import Subject, postgres_subject, sqlite_subject

STEPS = 60

pytestmark = pytest.mark.slow


def _run(subjects: list[Subject], clock: Clock, examples: int) -> None:
    def machine() -> StoresKeepTheRules:
        return StoresKeepTheRules(subjects, clock)

    hasty = os.environ.get("INTERLOCK_MODEL_SHRINK") == "no"
    profile = settings(
        max_examples=int(os.environ.get("INTERLOCK_MODEL_EXAMPLES", str(examples))),
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,  # and not derandomized: each run may find what the last one missed
        report_multiple_bugs=False,
        phases=[Phase.reuse, Phase.generate] if hasty else [Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),  # a step is slow for a test of values, not for one of stores
    )
    run_state_machine_as_test(machine, settings=profile)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sqlite(tmp_path: Path, clock: Clock) -> Iterator[Subject]:
    store = SqliteStore(tmp_path / "model.db", now=clock)
    yield sqlite_subject(store)
    store.close()


@pytest.fixture
def postgres(pg_database18: str, clock: Clock) -> Iterator[Subject]:
    store = PostgresStore(Database(pg_database18, now=clock))
    with psycopg.connect(pg_database18, autocommit=True) as connection:
        yield postgres_subject(store, connection)
    store.close()


def test_sqlite_alone_keeps_the_rules(sqlite: Subject, clock: Clock) -> None:
    """Quick: for trying things out, and for long searches."""
    _run([sqlite], clock, examples=25)


def test_sqlite_and_postgres_keep_the_rules_alike(sqlite: Subject, postgres: Subject, clock: Clock) -> None:
    _run([sqlite, postgres], clock, examples=20)
