"""Draft."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from interlock.store.postgres import PostgresStore
from interlock.store.sqlite import SqliteStore
from interlock.testing.clock import Clock
from tests.model.machine import StoresKeepTheRules
from tests.model.subjects import Subject, postgres_subject, sqlite_subject


def _run(subjects: list[Subject], clock: Clock, examples: int) -> None:
    phases = [p for p in Phase if p is not Phase.explain]
    if os.environ.get("NOSHRINK"):
        phases = [Phase.generate]

    def machine() -> StoresKeepTheRules:
        return StoresKeepTheRules(subjects, clock)

    profile = settings(
        max_examples=int(os.environ.get("INTERLOCK_MODEL_EXAMPLES", str(examples))),
        stateful_step_count=60,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        phases=phases,
        suppress_health_check=list(HealthCheck),
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
    store = PostgresStore(pg_database18, now=clock)
    with psycopg.connect(pg_database18, autocommit=True) as connection:
        yield postgres_subject(store, connection)
    store.close()


def test_sqlite_keeps_the_rules(sqlite: Subject, clock: Clock) -> None:
    _run([sqlite], clock, 60)


def test_sqlite_and_postgres_keep_the_rules(sqlite: Subject, postgres: Subject, clock: Clock) -> None:
    _run([sqlite, postgres], clock, 30)
