"""PgQueuer, through its own QueueManager with an entrypoint that does nothing.

Its asyncpg drivers are measured; the psycopg one was slower at every batch size tried.

It has no lanes. The nearest thing is an entrypoint with `concurrency_limit=1`, which the database enforces
over all workers, so that a lane becomes an entrypoint that is known in advance.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import psycopg

from bench.databases import clear
from bench.subject import NotAvailable, Shift, Store

if TYPE_CHECKING:
    from pgqueuer.ports.driver import Driver

FILL_BATCH = 1000
WATCH_S = 0.02


class PgQueuer:
    store: Store = "postgres"

    def __init__(self, *, driver: Literal["asyncpg", "asyncpg pool", "psycopg"]) -> None:
        self.name = f"PgQueuer ({driver})"
        self._driver = driver

    def setup(self, url: str) -> None:
        try:
            import pgqueuer  # noqa: F401
        except ImportError as missing:
            raise NotAvailable(str(missing)) from missing
        clear(self.store, url)
        asyncio.run(self._install(url))

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        asyncio.run(self._fill(url, n, lanes))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE pgqueuer")

    def drain(self, shift: Shift) -> None:
        # Its own command runs on uvloop where that is installed.
        try:
            import uvloop
        except ImportError:
            asyncio.run(self._drain(shift))
        else:
            uvloop.run(self._drain(shift))

    def left(self, url: str) -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM pgqueuer").fetchone()
        assert row is not None
        return int(row[0])

    @asynccontextmanager
    async def connect(self, url: str) -> AsyncIterator[Driver]:
        if self._driver == "asyncpg":
            import asyncpg  # type: ignore[import-untyped]
            from pgqueuer.db import AsyncpgDriver

            plain = await asyncpg.connect(url)
            try:
                yield AsyncpgDriver(plain)
            finally:
                await plain.close()
        elif self._driver == "asyncpg pool":
            import asyncpg
            from pgqueuer.db import AsyncpgPoolDriver

            async with asyncpg.create_pool(url, min_size=3, max_size=5) as pool:
                yield AsyncpgPoolDriver(pool)
        else:
            from pgqueuer.db import PsycopgDriver

            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                yield PsycopgDriver(connection)

    async def _install(self, url: str) -> None:
        from pgqueuer.queries import Queries

        async with self.connect(url) as driver:
            await Queries(driver).install()

    async def _fill(self, url: str, n: int, lanes: int | None) -> None:
        from pgqueuer.queries import Queries

        async with self.connect(url) as driver:
            queries = Queries(driver)
            for first in range(0, n, FILL_BATCH):
                numbers = range(first, min(first + FILL_BATCH, n))
                await queries.enqueue(
                    [entrypoint_name(number, lanes) for number in numbers],
                    [str(number).encode() for number in numbers],
                    [0 for _ in numbers],
                )

    async def _drain(self, shift: Shift) -> None:
        from pgqueuer.qm import QueueManager
        from pgqueuer.queries import Queries

        class Watched(Queries):
            """Tells the harness when the store has acknowledged a batch of finishes."""

            async def log_jobs(self, job_status: list[Any]) -> None:
                await super().log_jobs(job_status)
                shift.acknowledge([int(job.payload) for job, _, _ in job_status])

        async with self.connect(shift.order.url) as driver:
            manager = QueueManager(Watched(driver))
            for lane in range(shift.order.lanes or 1):
                name = entrypoint_name(lane, shift.order.lanes)
                manager.entrypoint(name, concurrency_limit=0 if shift.order.lanes is None else 1)(do_nothing)
            await manager.verify_structure()
            shift.start()
            watch = asyncio.create_task(stop_when_over(manager, shift))
            await manager.run(batch_size=shift.order.batch)
            await watch


async def stop_when_over(manager: Any, shift: Shift) -> None:
    """End the worker from outside: its own drain mode leaves when another worker holds the last items."""
    while not shift.over:
        await asyncio.sleep(WATCH_S)
    manager.shutdown.set()


async def do_nothing(job: Any) -> None:  # noqa: ARG001
    return


def entrypoint_name(number: int, lanes: int | None) -> str:
    return "item" if lanes is None else f"lane-{number % lanes}"
