"""A, B and C: how many items a second two processes claim and finish, plainly and on lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench import parity
from bench.drain import drain
from bench.figure import Figure, Sample, Target, divided
from bench.plan import Plan
from bench.subject import Subject
from bench.subjects import (
    CHAINED_POSTGRES,
    HUEY,
    INTERLOCK_POSTGRES,
    INTERLOCK_SQLITE,
    LANES,
    LITEQUEUES,
    PGBOSS,
    PGBOSS_LANES,
    PGQUEUERS,
    POSTGRES,
    SKETCH,
    SQLITE,
)

BATCH = 100
INTERLOCK = INTERLOCK_POSTGRES.name
NO_LANES = "Interlock without lanes"
BARE = "bare SQL"
BARE_SQLITE = "bare SQL (apsw)"
PROCRASTINATE = "Procrastinate"


def plain(plan: Plan) -> list[Figure]:
    """A. Plain drain on PostgreSQL."""
    parity.check("postgres", plan.postgres_url)
    figures = []
    for batch in plan.batches:
        size = "one by one" if batch == 1 else f"batches of {batch}"
        plan.rounds.say(f"plain drain on PostgreSQL, {size}")
        subjects = (CHAINED_POSTGRES, *POSTGRES) if batch == 1 else POSTGRES
        rows = plan.rounds.interleave(
            {subject.name: on_postgres(plan, subject, n=plan.drain_n, batch=batch) for subject in subjects}
        )
        title = f"A. Plain drain on PostgreSQL, {size}, {plan.drain_n:,} items"
        figure = Figure(
            name=f"plain-{batch}", title=title, unit="items/s", rows=rows, base=BARE, ours=INTERLOCK
        )
        figure.targets = plain_targets(figure, batch, size)
        figures.append(figure)
    return figures


def plain_targets(figure: Figure, batch: int, size: str) -> list[Target]:
    ours = figure.median(INTERLOCK)
    if batch == 1:
        boss, sketch = figure.median(PGBOSS.name), figure.cost_us(SKETCH.name)
        return [
            target
            for name in (INTERLOCK, CHAINED_POSTGRES.name)
            for target in (
                Target.at_least(f"A, {size}: {name} to pg-boss", divided(figure.median(name), boss), 1.3),
                Target.at_most(
                    f"A, {size}: processor time of {name} to {SKETCH.name}",
                    divided(figure.cost_us(name), sketch),
                    2.2,
                ),
            )
        ]
    peers = figure.best(*(subject.name for subject in PGQUEUERS))
    return [
        Target.at_least(f"A, {size}: Interlock to pg-boss", divided(ours, figure.median(PGBOSS.name)), 1.0),
        Target.at_least(f"A, {size}: Interlock to PgQueuer", divided(ours, peers), 1.2),
        Target.at_least(
            f"A, {size}: Interlock to Procrastinate", divided(ours, figure.median(PROCRASTINATE)), 15
        ),
        Target.at_least(f"A, {size}: Interlock to bare SQL", divided(ours, figure.median(BARE)), 0.6),
    ]


def lanes(plan: Plan) -> list[Figure]:
    """B. Drain of items that share lanes, on PostgreSQL."""
    rounds = replace(plan.rounds, warm_up=False)  # the plain drains before have warmed up all there is
    figures = []
    for count in plan.lane_counts:
        plan.rounds.say(f"{count} lanes on PostgreSQL, batches of {BATCH}")
        measures = {NO_LANES: on_postgres(plan, INTERLOCK_POSTGRES, n=plan.lanes_n, batch=BATCH)}
        for subject in LANES:
            measures[subject.name] = on_postgres(plan, subject, n=plan.lanes_n, batch=BATCH, lanes=count)
        rows = rounds.interleave(measures)
        title = f"B. {count} lanes on PostgreSQL, batches of {BATCH}, {plan.lanes_n:,} items"
        figure = Figure(name=f"lanes-{count}", title=title, unit="items/s", rows=rows, base=PROCRASTINATE)
        figure.ours = INTERLOCK
        ours = figure.median(INTERLOCK)
        strict = PGBOSS_LANES[0].name
        boss = divided(ours, figure.median(strict))
        figure.targets = [Target.at_least(f"B, {count} lanes: Interlock to {strict}", boss, 1.0)]
        if count == 300:
            kept = divided(ours, figure.median(NO_LANES))
            figure.targets.append(
                Target.at_least("B, 300 lanes: Interlock to its own plain drain", kept, 0.7)
            )
        if count == 30:
            ratio = divided(ours, figure.median(PROCRASTINATE))
            figure.targets.append(
                Target.at_least("B, 30 lanes: Interlock to Procrastinate's lock", ratio, 10)
            )
        figures.append(figure)
    return figures


def sqlite(plan: Plan) -> list[Figure]:
    """C. Plain drain on SQLite."""
    url = str(plan.directory / "drain.db")
    parity.check("sqlite", url)
    plan.rounds.say(f"plain drain on SQLite, batches of {BATCH}")
    rows = plan.rounds.interleave({subject.name: on_sqlite(plan, subject, url) for subject in SQLITE})
    title = f"C. Plain drain on SQLite, batches of {BATCH} where there are batches, {plan.sqlite_n:,} items"
    figure = Figure(name="sqlite", title=title, unit="items/s", rows=rows, base=BARE_SQLITE)
    ours = figure.median(INTERLOCK_SQLITE.name)
    figure.targets = [
        Target.at_least(f"C: Interlock to {subject.name}", divided(ours, figure.median(subject.name)), 2)
        for subject in (*LITEQUEUES, HUEY)
    ]
    return [figure]


def on_postgres(
    plan: Plan, subject: Subject, *, n: int, batch: int, lanes: int | None = None
) -> Callable[[], Sample]:
    def measure() -> Sample:
        drained = drain(
            subject,
            plan.postgres_url,
            n=n,
            batch=batch,
            lanes=lanes,
            limit_s=plan.limit_s,
            server_cpu_s=plan.server_cpu_s,
        )
        return Sample(
            value=drained.items_per_s,
            note="" if drained.complete else stopped(plan, drained.items),
            worker_us=1e6 * drained.worker_cpu_s / drained.items,
            server_us=1e6 * drained.server_cpu_s / drained.items,
        )

    return measure


def on_sqlite(plan: Plan, subject: Subject, url: str) -> Callable[[], Sample]:
    def measure() -> Sample:
        drained = drain(subject, url, n=plan.sqlite_n, batch=BATCH, limit_s=plan.limit_s)
        return Sample(
            value=drained.items_per_s,
            note="" if drained.complete else stopped(plan, drained.items),
            worker_us=1e6 * drained.worker_cpu_s / drained.items,
        )

    return measure


def stopped(plan: Plan, items: int) -> str:
    return f"stopped after {plan.limit_s:g} s with {items:,} done"
