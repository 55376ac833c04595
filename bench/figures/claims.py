"""D: what a claim costs, whatever stands in the database besides the items it takes."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench.backlog import Backlog, give_back
from bench.databases import interlock_at
from bench.figure import Figure, Row, Sample, Target, divided
from bench.plan import Plan
from bench.subject import Store
from interlock.service.contract import Service

LIMITS = (1, 100)
#: Claims of each limit in one round, after which the items are given back: a third of the small backlog.
A_ROUND = {1: 10, 100: 3}
#: Longer than the measurement, so that no claim has to sweep.
LEASE_S = 3_600
TITLES: dict[Store, str] = {"postgres": "PostgreSQL", "sqlite": "SQLite"}


def claims(plan: Plan) -> list[Figure]:
    """D. Cost of a claim on both stores."""
    return [figure for store in TITLES for figure in on_store(plan, store)]


def on_store(plan: Plan, store: Store) -> list[Figure]:
    many = plan.backlog_n
    backlogs = (
        Backlog(name="1,000 pending", pending=1_000),
        Backlog(name=f"{many:,} pending", pending=many),
        Backlog(
            name=f"1,000 pending behind {many // 10:,} for another agent",
            for_others=many // 10,
            pending=1_000,
        ),
        Backlog(name=f"1,000 pending after {many:,} finished", finished=many, pending=1_000),
    )
    rows = {limit: {backlog.name: Row(subject=backlog.name) for backlog in backlogs} for limit in LIMITS}
    with ExitStack() as stack:
        places: list[tuple[str, str, Service]] = []
        for number, backlog in enumerate(backlogs):
            plan.rounds.say(f"claims on {TITLES[store]}: filling {backlog.name}")
            url = place(plan, store, number)
            backlog.make(store, url)
            places.append((backlog.name, url, stack.enter_context(interlock_at(store, url))))
        plan.rounds.say(f"claims on {TITLES[store]}: timing")
        for number in range(1 + plan.claims_n // A_ROUND[1]):
            for name, url, service in places:
                for limit in LIMITS:
                    times = [time_claim(service, limit) for _ in range(A_ROUND[limit])]
                    if number > 0:  # the first round connects and prepares
                        rows[limit][name].samples += [Sample(value=1_000 * span_s) for span_s in times]
                give_back(store, url)
    return [figure_of(store, limit, list(rows[limit].values())) for limit in LIMITS]


def place(plan: Plan, store: Store, number: int) -> str:
    name = f"claims{number}"
    return plan.new_database(name) if store == "postgres" else str(plan.directory / f"{name}.db")


def time_claim(service: Service, limit: int) -> float:
    begun_s = time.perf_counter()
    leases = service.next("coder", limit=limit, lease_s=LEASE_S)
    span_s = time.perf_counter() - begun_s
    assert len(leases) == limit, f"claimed {len(leases)} instead of {limit}"
    return span_s


def figure_of(store: Store, limit: int, rows: list[Row]) -> Figure:
    items = "one item" if limit == 1 else f"{limit} items"
    medians = [row.median for row in rows if row.median is not None]
    return Figure(
        name=f"claims-{store}-{limit}",
        title=f"D. Claim of {items} on {TITLES[store]}",
        unit="ms",
        rows=rows,
        base="1,000 pending",
        targets=[
            Target.at_most(
                f"D, claim of {items} on {TITLES[store]}: dearest backlog to cheapest",
                divided(max(medians), min(medians)),
                2,
            )
        ],
    )
