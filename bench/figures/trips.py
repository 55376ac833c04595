"""M: what each call sends to a PostgreSQL server, counted on the wire; on a network that is its cost."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from bench.databases import clear, interlock_at
from bench.figure import Figure, Row, Sample, Target
from bench.plan import Plan
from bench.subject import NotAvailable
from bench.subjects import PGBOSS, PGQUEUERS, Procrastinate
from bench.subjects.pgboss_subject import words
from bench.subjects.procrastinate_subject import make_app, new_job
from interlock.core.model import NewItem
from interlock.service.contract import Report
from tests.wire import Counted, CountingWire

#: In the order in which they are done, again and again, until every statement is prepared.
USE_CASES = ("add", "claim that hits", "renew", "finish", "claim that misses")
WARM_UP = 12
#: Whatever a call still sends from a thread of its own, such as a notice, is sent after so long.
AFTER_S = 0.1
TARGETS = {"claim that hits": 2, "renew": 1, "finish": 3}
INTERLOCK = "Interlock"
Calls = Mapping[str, Callable[[], object]]


def trips(plan: Plan) -> list[Figure]:
    """M. Round trips, statements and commits of each call, one item at a time."""
    subjects: dict[str, Callable[[str], AbstractContextManager[Calls]]] = {
        INTERLOCK: interlock,
        "PgQueuer": pgqueuer,
        "Procrastinate": procrastinate,
        "pg-boss": pgboss,
    }
    counts: dict[str, dict[str, Counted]] = {}
    absent: dict[str, str] = {}
    for name, calls in subjects.items():
        plan.rounds.say(f"round trips of {name}")
        try:
            counts[name] = count(plan.postgres_url, calls)
        except NotAvailable as reason:
            plan.rounds.say(f"  {name} is left out: {reason}")
            absent[name] = f"not measured: {reason}"
    rows = []
    for use_case in USE_CASES:
        for name in subjects:
            if name in counts:
                counted = counts[name][use_case]
                note = f"statements: {counted.statements}, commits: {counted.commits}"
                samples = [Sample(value=counted.round_trips)]
            else:
                note, samples = absent[name], []
            rows.append(Row(subject=f"{use_case}: {name}", samples=samples, note=note))
    figure = Figure(
        name="trips",
        title="M. Round trips of each call on PostgreSQL, one item at a time",
        unit="round trips",
        rows=rows,
        exact=True,
    )
    figure.targets = [
        Target.at_most(f"M, {use_case}: round trips", figure.median(f"{use_case}: {INTERLOCK}"), bound)
        for use_case, bound in TARGETS.items()
    ]
    return [figure]


def count(url: str, calls: Callable[[str], AbstractContextManager[Calls]]) -> dict[str, Counted]:
    """What the last of several identical rounds sends."""
    clear("postgres", url)
    found = {}
    with CountingWire(url) as wire, calls(plainly(wire.url)) as steps:
        for _ in range(WARM_UP):
            for use_case in USE_CASES:
                steps[use_case]()
        time.sleep(AFTER_S)
        for use_case in USE_CASES:
            with wire.counted() as counted:
                steps[use_case]()
                time.sleep(AFTER_S)
            found[use_case] = counted
    return found


def plainly(url: str) -> str:
    """The address without the options that asyncpg would hand on to the server."""
    return urlunsplit(urlsplit(url)._replace(query="sslmode=disable"))


@contextmanager
def interlock(url: str) -> Iterator[Calls]:
    with interlock_at("postgres", url) as service:
        held: list[Report] = []

        def claim() -> None:
            held[:] = [Report(run=lease.run) for lease in service.next("coder")]

        yield {
            "add": lambda: service.add([NewItem(title="work")]),
            "claim that hits": claim,
            "renew": lambda: service.renew(held),
            "finish": lambda: service.done(held),
            "claim that misses": claim,
        }


@contextmanager
def pgqueuer(url: str) -> Iterator[Calls]:
    subject = PGQUEUERS[0]
    subject.setup(url)
    from pgqueuer.queries import EntrypointExecutionParameter, Queries

    with asyncio.Runner() as runner:
        opened = subject.connect(url)
        queries = Queries(runner.run(opened.__aenter__()))
        entrypoints = {"item": EntrypointExecutionParameter(concurrency_limit=0)}
        manager_id = uuid4()
        held: list[Any] = []

        def claim() -> None:
            held[:] = runner.run(
                queries.dequeue(
                    batch_size=1,
                    entrypoints=entrypoints,
                    queue_manager_id=manager_id,
                    global_concurrency_limit=None,
                    heartbeat_timeout=timedelta(seconds=30),
                )
            )

        yield {
            "add": lambda: runner.run(queries.enqueue("item", b"")),
            "claim that hits": claim,
            "renew": lambda: runner.run(queries.update_heartbeat([job.id for job in held])),
            "finish": lambda: runner.run(queries.log_jobs([(job, "successful", None) for job in held])),
            "claim that misses": claim,
        }
        runner.run(opened.__aexit__(None, None, None))


@contextmanager
def procrastinate(url: str) -> Iterator[Calls]:
    Procrastinate().setup(url)
    from procrastinate.jobs import Status

    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = make_app(url)
    with asyncio.Runner() as runner:
        runner.run(app.open_async().__aenter__())
        manager = app.job_manager
        worker = runner.run(manager.register_worker())
        held: list[Any] = []

        def claim() -> None:
            held[:] = [runner.run(manager.fetch_job(None, worker))]

        yield {
            "add": lambda: runner.run(manager.defer_job_async(new_job(app, 1, None))),
            "claim that hits": claim,
            "renew": lambda: runner.run(manager.update_heartbeat(worker)),
            "finish": lambda: runner.run(manager.finish_job(held[0], Status.SUCCEEDED, False)),
            "claim that misses": claim,
        }
        runner.run(app.close_async())


@contextmanager
def pgboss(url: str) -> Iterator[Calls]:
    PGBOSS.setup(url)
    boss = subprocess.Popen(words("calls", url, {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert boss.stdin is not None
    assert boss.stdout is not None
    sent, answers = boss.stdin, boss.stdout

    def call(name: str) -> Callable[[], None]:
        def work() -> None:
            sent.write(f"{name}\n")
            sent.flush()
            assert json.loads(answers.readline()) == name

        return work

    yield {
        "add": call("send"),
        "claim that hits": call("fetch"),
        "renew": call("touch"),
        "finish": call("complete"),
        "claim that misses": call("fetch"),
    }
    sent.close()
    boss.wait()
