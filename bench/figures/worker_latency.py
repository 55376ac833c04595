"""G: what `interlock work` adds to a command: from the claim's answer to its start, and in all."""

from __future__ import annotations

import queue
import subprocess
import time
from typing import Any

from bench.databases import clear, interlock_at
from bench.figure import Figure, Row, Sample, Target
from bench.plan import Plan
from bench.rounds import quantile
from interlock.core.model import NewItem
from interlock.service.contract import LeaseView, Service
from interlock.worker.rundirectory import Home
from interlock.worker.status_lines import StatusLine
from interlock.worker.worker import Worker, WorkerOptions

#: Long enough for a worker to be ready for the next one, as it is beside any agent.
COMMAND = ("sleep", "0.05")
START_MAX_MS = 30


class Watched:
    """A service that notes when each claim was answered."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.claimed_s: dict[int, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def next(self, *args: Any, **options: Any) -> list[LeaseView]:
        leases = self._service.next(*args, **options)
        self.claimed_s |= dict.fromkeys((lease.fence for lease in leases), time.monotonic())
        return leases


def worker_latency(plan: Plan) -> list[Figure]:
    """G. Items one after the other, beside the command alone."""
    plan.rounds.say("what a worker adds to a command on SQLite")
    url = str(plan.directory / "work.db")
    clear("sqlite", url)
    starts_ms, item_ms = spans(plan, url)
    alone_ms = [timed_alone() for _ in range(plan.commands_n)]
    rows = [
        Row(subject="the command alone, p50", samples=[Sample(value=quantile(alone_ms, 0.5))]),
        Row(subject="claim to start, p50", samples=[Sample(value=quantile(starts_ms, 0.5))]),
        Row(subject="claim to start, p99", samples=[Sample(value=quantile(starts_ms, 0.99))]),
        Row(subject="an item in all, mean", samples=[Sample(value=item_ms)]),
    ]
    return [
        Figure(
            name="worker-latency",
            title=f"G. A worker on SQLite, {plan.wakes_n} items one after the other",
            unit="ms",
            rows=rows,
            targets=[Target.at_most("G, claim to start: p50", quantile(starts_ms, 0.5), START_MAX_MS, "ms")],
        )
    ]


def spans(plan: Plan, url: str) -> tuple[list[float], float]:
    """Milliseconds from each claim to its start, and for each item in all."""
    started: queue.SimpleQueue[tuple[int | None, float]] = queue.SimpleQueue()

    def tell(notice: StatusLine) -> None:
        if notice.kind == "started":
            started.put((notice.run, time.monotonic()))

    with interlock_at("sqlite", url) as service:
        service.add([NewItem(title=str(n)) for n in range(plan.wakes_n)])
        watched = Watched(service)
        home = Home(plan.directory, url)
        options = WorkerOptions(agent="coder", command=COMMAND, exit_when_idle=True)
        begun_s = time.monotonic()
        Worker(watched, options, home=home, url=url, tell=tell, echo=lambda *_: None).run()
        item_ms = 1_000 * (time.monotonic() - begun_s) / plan.wakes_n
    starts = [started.get_nowait() for _ in range(plan.wakes_n)]
    return [1_000 * (at_s - watched.claimed_s[run]) for run, at_s in starts if run is not None], item_ms


def timed_alone() -> float:
    begun_s = time.monotonic()
    subprocess.run(COMMAND, check=True)
    return 1_000 * (time.monotonic() - begun_s)
