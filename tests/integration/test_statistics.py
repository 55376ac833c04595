"""Whatever the server's statistics say of a plan's tables, no statement does quadratic work.

Rows that are touched are counted, with no clock: for a plan four times as large they are about four times as
many, in the doctor's checks and in edits, claims and ends. Each statement is looked at with a plan that is
made for it now, and with the one that its session has kept.

A kept plan is the danger: one from the days when the tables were empty walks through the whole table for each
row of another. So the doctor once needed more than 30 s for a plan of 10,000 tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import psycopg
import pytest

from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, Graph, RemoveEdge, TaskSpec
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.database import Database
from interlock.store.postgres.store import PostgresStore
from tests.integration.postgres_costs import Costs, rows, watched_service
from tests.postgres_server import PostgresServer

SMALL, LARGE = 150, 600
#: Rows that a statement may touch whatever the size of the plan.
SLACK = 2_000
#: The driver prepares a statement at its sixth use, and five uses later the server keeps a plan for all.
UNTIL_KEPT = 12
TABLES = ("edges", "completions", "revisions", "tasks", "payloads", "gates", "items", "plans")


def two_chains(size: int) -> Graph:
    """Two chains, so that an edge between them reaches through half of the plan."""
    halves = [[f"{side}{n}" for n in range(size // 2)] for side in "ab"]
    tasks = tuple(TaskSpec(key=key) for half in halves for key in half)
    return Graph(
        tasks=tasks, edges=tuple(EdgeSpec(source=s, target=t) for half in halves for s, t in pairwise(half))
    )


def make(url: str, size: int) -> int:
    """A plan, made by another process."""
    service = LocalService(PostgresStore(Database(url)))
    plan = service.create_plan("work", two_chains(size)).id
    service.close()
    return plan


def use(service: LocalService, plan: int, size: int) -> None:
    """Claims, ends, retries and edits of a plan's tasks."""
    half = size // 2
    first, second = service.next("coder", limit=2)
    service.done([Report(run=first.run)])
    service.fail([Report(run=second.run, retry=False)])
    service.sweep()
    service.retry(second.item.id, why="once more")
    known = {first.item.title, second.item.title}
    service.edit_plan(
        plan,
        base=service.plan(plan).revision,
        operations=(
            AddTask(task=TaskSpec(key="new")),
            AddEdge(edge=EdgeSpec(source=f"a{half - 2}", target="new")),
            AddEdge(edge=EdgeSpec(source="new", target="b1")),
            RemoveEdge(source=f"a{half - 2}", target=f"a{half - 1}"),
        ),
    )
    assert known == {"a0", "b0"}
    service.why(service.plan(plan).tasks[-1].item)


def analyze(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("VACUUM ANALYZE")


def missing(service: LocalService, doctor: LocalService, url: str, size: int) -> int:
    return make(url, size)


def fresh(service: LocalService, doctor: LocalService, url: str, size: int) -> int:
    plan = make(url, size)
    analyze(url)
    return plan


def emptied(service: LocalService, doctor: LocalService, url: str, size: int) -> int:
    """Tables that were full, were emptied and vacuumed, and then saw a few small plans."""
    make(url, size)
    with psycopg.connect(url, autocommit=True) as conn:
        for table in TABLES:
            conn.execute(f"DELETE FROM interlock.{table}".encode())
    analyze(url)
    for _ in range(UNTIL_KEPT):
        doctor.store.findings()
    for _ in range(UNTIL_KEPT):
        plan = service.create_plan("small", two_chains(6)).id
        use(service, plan, 6)
        service.cancel_plan(plan, why="enough")
        service.sweep()
    return make(url, size)


@pytest.mark.slow
@pytest.mark.parametrize("statistics", [missing, emptied, fresh])
def test_no_statistics_make_a_statement_quadratic(
    start_postgres: Callable[..., PostgresServer],
    statistics: Callable[[LocalService, LocalService, str, int], int],
) -> None:
    """Fails if the doctor's checks are prepared: two of them touch sixteen times as many rows."""
    server = start_postgres(16, settings={"autovacuum": "off"})
    found: list[Costs] = []
    for size in (SMALL, LARGE):
        costs = Costs(measure=rows)
        url = server.create_database(f"of_{size}")
        # One session each: the driver keeps a hundred statements of a session prepared.
        service, doctor = (watched_service(url, costs) for _ in range(2))
        plan = statistics(service, doctor, url, size)
        with costs.watched():
            use(service, plan, size)
            assert {"edges_rise", "tasks_count_their_edges"} <= {f.name for f in doctor.store.findings()}
        service.close()
        doctor.close()
        found.append(costs)
    small, large = (costs.touched for costs in found)
    assert len(large) > 50, "most statements are looked at"
    growth = 1.5 * LARGE / SMALL
    grown = {
        name: (small.get(name, 0), touched)
        for name, touched in large.items()
        if touched > growth * small.get(name, 0) + SLACK
    }
    assert grown == {}, grown
