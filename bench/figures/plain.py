"""A, B and C: how many items a second two processes claim and finish, plainly and on lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.drain import drain
from bench.plan import Plan
from bench.rounds import Figure, interleave
from bench.subject import Subject
from bench.subjects import LANES, POSTGRES, SQLITE

BATCHES = (100, 500)
LANE_COUNTS = (300, 30, 3)
LANE_BATCH = 100
BASE_POSTGRES = "bare SQL"
BASE_SQLITE = "bare SQL (apsw)"


def plain(plan: Plan) -> list[Figure]:
    """A. Plain drain on PostgreSQL."""
    figures = []
    for batch in BATCHES:
        plan.say(f"plain drain on PostgreSQL, batches of {batch}")
        rows = interleave(
            measures(plan, POSTGRES, plan.postgres_url, n=plan.drain_n, batch=batch),
            rounds=plan.rounds,
            warm_up=plan.warm_up,
            say=plan.say,
        )
        title = f"Plain drain on PostgreSQL, batches of {batch}, {plan.drain_n:,} items"
        figures.append(
            Figure(name=f"plain-{batch}", title=title, unit="items/s", rows=rows, base=BASE_POSTGRES)
        )
    return figures


def lanes(plan: Plan) -> list[Figure]:
    """B. Drain of items that share lanes, on PostgreSQL."""
    figures = []
    for count in LANE_COUNTS:
        plan.say(f"{count} lanes on PostgreSQL, batches of {LANE_BATCH}")
        rows = interleave(
            measures(plan, LANES, plan.postgres_url, n=plan.lanes_n, batch=LANE_BATCH, lanes=count),
            rounds=plan.rounds,
            warm_up=False,
            say=plan.say,
        )
        title = f"{count} lanes on PostgreSQL, batches of {LANE_BATCH}, {plan.lanes_n:,} items"
        figures.append(
            Figure(name=f"lanes-{count}", title=title, unit="items/s", rows=rows, base="Procrastinate")
        )
    return figures


def sqlite(plan: Plan) -> list[Figure]:
    """C. Plain drain on SQLite."""
    plan.say(f"plain drain on SQLite, batches of {LANE_BATCH}")
    rows = interleave(
        measures(plan, SQLITE, str(plan.directory / "drain.db"), n=plan.sqlite_n, batch=LANE_BATCH),
        rounds=plan.rounds,
        warm_up=plan.warm_up,
        say=plan.say,
    )
    title = f"Plain drain on SQLite, batches of {LANE_BATCH} where there are batches, {plan.sqlite_n:,} items"
    return [Figure(name="sqlite", title=title, unit="items/s", rows=rows, base=BASE_SQLITE)]


def measures(
    plan: Plan, subjects: Sequence[Subject], url: str, *, n: int, batch: int, lanes: int | None = None
) -> dict[str, Callable[[], tuple[float, str]]]:
    def measure(subject: Subject) -> tuple[float, str]:
        drained = drain(subject, url, n=n, batch=batch, lanes=lanes, limit_s=plan.limit_s)
        note = "" if drained.complete else f"stopped after {plan.limit_s:g} s with {drained.items:,} done"
        return drained.items_per_s, note

    return {subject.name: lambda subject=subject: measure(subject) for subject in subjects}  # type: ignore[misc]
