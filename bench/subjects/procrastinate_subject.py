"""Procrastinate, through its own worker; a batch is its concurrency, a lane is its `lock`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import psycopg

from bench.subject import NotAvailable, Shift, Store

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.types import JSONDict

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
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        with app.open():
            app.schema_manager.apply_schema()

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        app = make_app(url)
        with app.open():
            if lanes is None:
                defer(app, range(n), lock=None)
            else:
                # One lock a call is what its interface offers; the order is that of the numbers.
                for number in range(n):
                    defer(app, [number], lock=f"lane-{number % lanes}")
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


def defer(app: App, numbers: range | list[int], *, lock: str | None) -> None:
    deferrer = app.configure_task("item", lock=lock)
    for first in range(0, len(numbers), FILL_BATCH):
        arguments: list[JSONDict] = [{"number": number} for number in numbers[first : first + FILL_BATCH]]
        deferrer.batch_defer(*arguments)


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
