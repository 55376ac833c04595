"""Q: how much memory a server takes on a large store, at rest and under load."""

from __future__ import annotations

from contextlib import closing, suppress

import psutil

from bench.backlog import Backlog
from bench.figure import Figure, Row, Sample, Target
from bench.figures.server import TITLES, Where, pairs, rate, up
from bench.plan import Plan
from bench.subject import Store
from interlock.remote.service import connect
from interlock.service.contract import ItemFilter

REST = "after its start"
PEAK_MAX_MB = 250


def memory(plan: Plan) -> list[Figure]:
    """Q. One server process; half of the items are finished, with their history."""
    return [_on(plan, store) for store in TITLES]


def _on(plan: Plan, store: Store) -> Figure:
    count, peak = plan.backlog_n, f"at most, with {plan.clients} clients and one that reads everything"
    plan.rounds.say(f"memory of a server with {count:,} items on {TITLES[store]}")
    url = plan.postgres_url if store == "postgres" else str(plan.directory / "memory.db")
    Backlog(name="half", finished=count // 2, pending=count - count // 2).make(store, url)
    with up(plan.directory, store, url) as (address, token):
        (process,) = (each for each in psutil.Process().children() if "up" in each.cmdline())
        rest_mb = process.memory_info().rss / 1e6
        rate(plan, pairs, plan.clients, Where(address=address, tokens=[token], store=store, url=url))
        with closing(connect(address, token, patience_s=120)) as service:
            for _ in range(3):
                service.items(ItemFilter(all=True, limit=1_000))
                service.events(limit=1_000)
                service.stats()
                service.doctor()
        peak_mb = _peak_mb(process)
    return Figure(
        name=f"server-memory-{store}",
        title=f"Q. Memory of a server with {count:,} items, {TITLES[store]}",
        unit="MB",
        rows=[
            Row(subject=REST, samples=[Sample(value=rest_mb)]),
            Row(subject=peak, samples=[Sample(value=peak_mb)]),
        ],
        targets=[
            Target.at_most(f"Q, {TITLES[store]}: memory of a server, {peak}", peak_mb, PEAK_MAX_MB, "MB")
        ],
    )


def _peak_mb(process: psutil.Process) -> float:
    """The most memory it ever had, where the system says so."""
    with suppress(OSError), open(f"/proc/{process.pid}/status", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    return float(process.memory_info().rss / 1e6)
