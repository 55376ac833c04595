"""The workers of a store: each sends a heartbeat every few seconds."""

from __future__ import annotations

from interlock.core import names
from interlock.core.workers import WorkerRecord, is_alive
from interlock.service.contract import WorkerView
from interlock.service.gathering import Gathering, Steps, gathered
from interlock.service.item_view import moment
from interlock.store.port import Store


class Workers:
    """The operations on workers."""

    def __init__(self, store: Store, gathering: Gathering) -> None:
        self._store, self._gathering = store, gathering

    @gathered
    def see_worker(
        self, name: str, *, host: str, pid: int, folder: str, agent: str, slots: int, runs: int
    ) -> Steps[None]:
        """Record a worker's heartbeat, and forget workers that were silent for an hour."""
        names.check_whole("number of the process", pid, 0, 2**31)
        names.check_whole("number of slots", slots, 1, 10_000)
        names.check_whole("number of runs", runs, 0, 10_000)
        yield from self._gathering.see_worker(
            WorkerRecord(
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
        """Remove a worker that has ended."""
        self._store.forget_workers(names.check_name("worker", name))

    def workers(self, *, limit: int = 100) -> list[WorkerView]:
        """Workers that have not ended, most recently seen first."""
        names.check_whole("limit", limit, 1, 10_000)
        now_us = self._store.now_us()
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
            for worker in self._store.workers(limit)
        ]
