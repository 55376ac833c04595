"""Interlock itself, through its service: `next` and `done` in batches, as a Python worker uses them."""

from __future__ import annotations

import psycopg

from bench.databases import clear, interlock_at, sqlite_at
from bench.subject import Shift, Store
from interlock.core.model import NewItem
from interlock.service.contract import LeaseView, NextWish, Report

FILL_BATCH = 1000
#: How long a worker waits for the next item: with lanes, others may hold all that there are.
WAIT_S = 0.5
LEFT = "SELECT count(*) FROM items WHERE status <> 'completed'"


class Interlock:
    def __init__(self, *, store: Store, renewed: bool = False, chained: bool = False) -> None:
        """`chained`: an end and the next claim are one call, as `interlock work` makes it."""
        kind = ", each run renewed" if renewed else ", next in done" if chained else ""
        self.name = f"Interlock{kind}"
        self.store = store
        self._renewed, self._chained = renewed, chained

    def setup(self, url: str) -> None:
        clear(self.store, url)
        with interlock_at(self.store, url):
            pass

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        with interlock_at(self.store, url) as service:
            for first in range(0, n, FILL_BATCH):
                numbers = range(first, min(first + FILL_BATCH, n))
                service.add([new_item(number, lanes) for number in numbers])
        if self.store == "postgres":
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE interlock.items")

    def drain(self, shift: Shift) -> None:
        order = shift.order
        agent = f"worker-{order.worker}"
        with interlock_at(self.store, order.url) as service:
            service.agents()  # connects
            shift.start()
            leases: list[LeaseView] = []
            while not shift.over:
                leases = leases or service.next(agent, limit=order.batch, wait_s=WAIT_S)
                reports = [Report(run=lease.run) for lease in leases]
                leases = []
                if self._renewed and reports:
                    kept = service.renew(reports)
                    assert all(view.refusal is None for view in kept), "a run was lost although nobody sweeps"
                if self._chained and reports:
                    ended, leases = service.done(reports, next=NextWish(agent, limit=order.batch))
                else:
                    ended = service.done(reports)
                shift.acknowledge(
                    [int(view.item.title) for view in ended if view.item and view.status == "succeeded"]
                )

    def left(self, url: str) -> int:
        if self.store == "sqlite":
            with sqlite_at(url) as connection:
                return int(connection.execute(LEFT).get)
        with psycopg.connect(url, options="-c search_path=interlock") as connection:
            row = connection.execute(LEFT).fetchone()
        assert row is not None
        return int(row[0])


def new_item(number: int, lanes: int | None) -> NewItem:
    return NewItem(title=str(number), lane=None if lanes is None else f"lane:{number % lanes}")
