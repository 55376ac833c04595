"""E: how long after an arrival a waiting claim in another process returns."""

from __future__ import annotations

import multiprocessing
import random
import time
from multiprocessing.connection import Connection

from bench.databases import clear, interlock_at
from bench.figure import Figure, Row, Sample, Target
from bench.plan import Plan
from bench.rounds import quantile
from bench.subject import Store
from interlock.core.model import NewItem
from interlock.service.contract import LeaseView, Report

TITLES: dict[Store, str] = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
WAIT_S = 30
ANSWER_TIMEOUT_S = 60
#: The waiter certainly waits after so long; the pause varies, so that no polling interval is met in step.
PAUSE_S = (0.03, 0.08)
P99_MAX_MS = 50


def wakes(plan: Plan) -> list[Figure]:
    """E. Wake-up of a waiting claim on both stores."""
    return [on_store(plan, store) for store in TITLES]


def on_store(plan: Plan, store: Store) -> Figure:
    plan.rounds.say(f"wake-ups on {TITLES[store]}")
    url = plan.postgres_url if store == "postgres" else str(plan.directory / "wakes.db")
    clear(store, url)
    called_ms, returned_ms = spans(store, url, plan.wakes_n)
    rows = [
        row
        for name, values in (("from the call of add", called_ms), ("from the return of add", returned_ms))
        for row in (
            Row(subject=f"{name}, p50", samples=[Sample(value=quantile(values, 0.5))]),
            Row(subject=f"{name}, p99", samples=[Sample(value=quantile(values, 0.99))]),
        )
    ]
    return Figure(
        name=f"wakes-{store}",
        title=f"E. Wake-up of a waiting claim on {TITLES[store]}, {plan.wakes_n} arrivals",
        unit="ms",
        rows=rows,
        targets=[
            Target.at_most(
                f"E, {TITLES[store]}: p99 from the call of add", quantile(called_ms, 0.99), P99_MAX_MS, "ms"
            )
        ],
    )


def spans(store: Store, url: str, n: int) -> tuple[list[float], list[float]]:
    """Milliseconds from the call and from the return of each add to the return of the claim."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    called_ms, returned_ms = [], []
    with interlock_at(store, url) as service:
        waiter = context.Process(target=wait, args=(store, url, n + 1, there))
        waiter.start()
        try:
            receive(here)
            for number in range(n + 1):
                time.sleep(random.uniform(*PAUSE_S))
                called_s = time.monotonic()
                service.add([NewItem(title=str(number))])
                returned_s = time.monotonic()
                woken_s = receive(here)
                if number > 0:  # the first arrival finds statements unprepared
                    called_ms.append(1_000 * (woken_s - called_s))
                    returned_ms.append(1_000 * (woken_s - returned_s))
        finally:
            waiter.terminate()
            waiter.join()
    return called_ms, returned_ms


def receive(here: Connection) -> float:
    """What the waiter says next: a time of the monotonic clock, which all processes share."""
    if not here.poll(ANSWER_TIMEOUT_S):
        raise TimeoutError("the waiting process does not answer")
    moment_s: float = here.recv()
    return moment_s


def wait(store: Store, url: str, n: int, there: Connection) -> None:
    """Claim one item after the other, and tell when each claim returned. Runs in a process of its own."""
    with interlock_at(store, url) as service:
        service.next("sleeper")
        there.send(time.monotonic())
        for _ in range(n):
            leases: list[LeaseView] = []
            while not leases:
                leases = service.next("sleeper", wait_s=WAIT_S)
            woken_s = time.monotonic()
            service.done([Report(run=lease.run) for lease in leases])
            there.send(woken_s)
