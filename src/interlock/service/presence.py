"""Which workers are there: they say so every few seconds, and anybody may look."""

from __future__ import annotations

from interlock.core import names
from interlock.core.workers import Worker, is_alive
from interlock.service.contract import WorkerView
from interlock.service.itemview import moment
from interlock.store.port import Store


class Presence:
    """The use cases of workers that are there, and of whoever looks for them."""

    store: Store

    def see_worker(
        self, name: str, *, host: str, pid: int, folder: str, agent: str, slots: int, runs: int
    ) -> None:
        """Record a worker's sign of life, and forget workers that were silent for an hour."""
        names.check_whole("number of the process", pid, 0, 2**31)
        names.check_whole("number of slots", slots, 1, 10_000)
        names.check_whole("number of runs", runs, 0, 10_000)
        self.store.see_worker(
            Worker(
                name=names.check_name("worker", name),
                host=names.check_text("host", host, 4_096),
                pid=pid,
                folder=names.check_text("folder", folder, 16_384),
                agent=names.agent_key(agent),
                slots=slots,
                runs=runs,
            )
        )

    def leave_worker(self, name: str) -> None:
        """Say that a worker has ended: it is forgotten."""
        self.store.forget_workers(names.check_name("worker", name))

    def workers(self, *, limit: int = 100) -> list[WorkerView]:
        """Workers that did not say goodbye, those seen last first."""
        names.check_whole("limit", limit, 1, 10_000)
        now_us = self.store.now_us()
        return [
            WorkerView(
                name=worker.name,
                host=worker.host,
                pid=worker.pid,
                folder=worker.folder,
                agent=worker.agent,
                slots=worker.slots,
                runs=worker.runs,
                since=moment(worker.started_us),
                last_seen_at=moment(worker.seen_us),
                alive=is_alive(worker, now_us),
            )
            for worker in self.store.workers(limit)
        ]
