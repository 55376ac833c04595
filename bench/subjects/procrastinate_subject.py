"""Procrastinate, through its own worker; a batch is its concurrency, a lane is its `lock`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import psycopg

from bench.databases import clear
from bench.subject import NotAvailable, Shift, Store

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.jobs import Job

FILL_BATCH = 1000
WATCH_S = 0.02
#: Its worker is not told when a lock becomes free and by default looks again after 5 s.
POLL_S = 0.01


class Procrastinate:
    name = "Procrastinate"
    store: Store = "postgres"

    def setup(self, url: str) -> None:
        try:
            app = make_app(url)
        except ImportError as missing:
            raise NotAvailable(str(missing)) from missing
        clear(self.store, url)
        with app.open():
            app.schema_manager.apply_schema()

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        app = make_app(url)
        with app.open():
            for first in range(0, n, FILL_BATCH):
                numbers = range(first, min(first + FILL_BATCH, n))
                app.job_manager.batch_defer_jobs([new_job(app, number, lanes) for number in numbers])
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE procrastinate_jobs")

    def drain(self, shift: Shift) -> None:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        asyncio.run(work(shift))

    def left(self, url: str) -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
            ).fetchone()
        assert row is not None
        return int(row[0])


def make_app(url: str) -> App:
    import procrastinate

    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="item")
    async def do_nothing(number: int) -> None:  # noqa: ARG001
        return

    return app


def new_job(app: App, number: int, lanes: int | None) -> Job:
    lock = None if lanes is None else f"lane-{number % lanes}"
    return app.configure_task("item", lock=lock).job.evolve(task_kwargs={"number": number})


async def work(shift: Shift) -> None:
    app = make_app(shift.order.url)
    async with app.open_async():
        finish_job = app.job_manager.finish_job

        async def watched(job: Any, status: Any, delete_job: bool) -> None:
            await finish_job(job=job, status=status, delete_job=delete_job)
            shift.acknowledge([int(job.task_kwargs["number"])])

        app.job_manager.finish_job = watched  # type: ignore[method-assign]
        await app.check_connection_async()
        shift.start()
        worker = asyncio.create_task(
            app.run_worker_async(
                concurrency=shift.order.batch,
                fetch_job_polling_interval=POLL_S,
                install_signal_handlers=False,
            )
        )
        while not shift.over:
            await asyncio.sleep(WATCH_S)
        worker.cancel()
        await asyncio.wait([worker])
