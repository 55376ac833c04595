"""Reporting: ends of runs go to the store in batches, and none is forgotten while the store is away.

A thread gathers ends for a few milliseconds, reports them in one call for each kind of outcome, and tells who
waits for each answer. While the store cannot be reached it tries again, and what it owes lies in the spool.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.core.commands import Outcome
from interlock.core.errors import InterlockError, InvalidInput, UnknownRun
from interlock.core.names import BATCH_MAX
from interlock.process.heartbeat import BackgroundLoop
from interlock.service.contract import LaneService, RunView
from interlock.worker.spool import End, Spool, orphans

GATHER_S = 0.007
AGAIN_FIRST_S, AGAIN_MAX_S = 0.1, 2.0
#: How often the ends of workers that died on this host are looked for.
ORPHANS_EVERY_S = 30.0

#: Gets the store's answer to an end, or the error for which the store will never take it.
Answered = Callable[[End, RunView | InterlockError], None]


@dataclass(frozen=True, slots=True)
class _Owed:
    end: End
    spool: Spool
    answered: Answered


class Reporter:
    """Delivers ends until it is stopped; then once more what it has."""

    def __init__(
        self,
        service: LaneService,
        directory: Path,
        *,
        worker: str,
        store: str,
        writing: threading.Lock,
        trouble: Callable[[InterlockError | OSError | None], None],
        answered: Answered,
        crashed: Callable[[Exception], None],
    ) -> None:
        """`trouble` hears when the store goes away and, with None, when it is back; `answered` what became of
        the ends that others left."""
        self._service = service
        self._directory = directory
        self._store = store
        self._writing = writing
        self._trouble = trouble
        self._answered = answered
        self._spool = Spool.make(directory, worker)
        self._queue: queue.SimpleQueue[_Owed | None] = queue.SimpleQueue()
        self._owed: list[_Owed] = []
        self._adopted: list[Spool] = []
        self._stopping = threading.Event()
        self._thread = BackgroundLoop(self._loop, "interlock-reporter", crashed)

    def start(self) -> None:
        self._thread.start()

    def report(self, end: End, answered: Answered) -> None:
        """Owe the store this end: on disk first, then in the next batch."""
        try:
            self._spool.keep(end)
        except OSError as error:  # a full disk: what memory holds can still be delivered
            self._trouble(error)
        self._queue.put(_Owed(end, self._spool, answered))

    def stop(self) -> None:
        """Deliver what can be delivered now and leave the rest on disk."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join()
        for spool in (self._spool, *self._adopted):
            spool.close()

    def _loop(self) -> None:
        pause_s, looked_s = 0.0, -ORPHANS_EVERY_S
        while True:
            if time.monotonic() - looked_s >= ORPHANS_EVERY_S:
                looked_s = time.monotonic()
                self._adopt()
            self._gather(pause_s if self._owed else ORPHANS_EVERY_S)
            delivered = self._deliver()
            if self._stopping.is_set():
                return
            pause_s = 0.0 if delivered else min(max(2 * pause_s, AGAIN_FIRST_S), AGAIN_MAX_S)

    def _gather(self, wait_s: float) -> None:
        """Wait for the first end, then a little for those that come together with it."""
        with contextlib.suppress(queue.Empty):
            owed = self._queue.get(timeout=wait_s) if wait_s else self._queue.get_nowait()
            until_s = time.monotonic() + GATHER_S
            while owed is not None:
                self._owed.append(owed)
                owed = self._queue.get(timeout=max(0.0, until_s - time.monotonic()))

    def _deliver(self) -> bool:
        """Report what is owed; false if the store did not answer."""
        if not self._owed:
            return True
        try:
            for outcome in Outcome:
                batch = [owed for owed in self._owed if owed.end.outcome is outcome][:BATCH_MAX]
                if batch:
                    self._send(outcome, batch)
        except InterlockError as error:
            self._trouble(error)
            return False
        self._trouble(None)
        for spool in [s for s in self._adopted if all(owed.spool is not s for owed in self._owed)]:
            self._adopted.remove(spool)
            spool.close()
        return True

    def _send(self, outcome: Outcome, batch: Sequence[_Owed]) -> None:
        try:
            with self._writing:
                answers: Sequence[RunView | InterlockError] = getattr(self._service, outcome)(
                    [owed.end.report for owed in batch]
                )
        except (InvalidInput, UnknownRun) as error:
            if len(batch) > 1:  # one of them spoils the batch
                for owed in batch:
                    self._send(outcome, [owed])
                return
            answers = [error]
        for owed, answer in zip(batch, answers, strict=True):
            self._owed.remove(owed)
            owed.spool.drop(owed.end)
            owed.answered(owed.end, answer)

    def _adopt(self) -> None:
        """Take over what workers of this host owed when they died."""
        with contextlib.suppress(OSError):
            for spool in orphans(self._directory):
                ends = spool.ends()
                mine = [end for end in ends if end.store == self._store]
                self._owed += [_Owed(end, spool, self._answered) for end in mine]
                if mine:
                    self._adopted.append(spool)
                else:
                    spool.close()
