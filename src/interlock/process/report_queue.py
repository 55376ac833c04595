"""The report queue: sends ends of runs to the store in batches.

The thread that reports an end sends it, together with all ends of the same outcome that were queued
meanwhile. So one commit covers all of them, in the thread of one reporter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from interlock.core.commands import Outcome
from interlock.core.errors import StoreBusy, StoreUnavailable
from interlock.core.names import BATCH_MAX
from interlock.service.contract import LaneService, Report, RunView

#: The errors of an unreachable store: the same report may be retried.
RETRYABLE_ERRORS = (StoreUnavailable, StoreBusy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueuedReport:
    outcome: Outcome
    report: Report
    answer: Future[RunView] = field(default_factory=Future)


class ReportQueue:
    """Sends ends of runs to the store, one call at a time. All threads may use it."""

    def __init__(self, service: LaneService, *, gather_s: float = 0.0) -> None:
        """`gather_s` is how long to wait for other ends before a batch is sent."""
        self._service = service
        self._gather_s = gather_s
        self._sending, self._adding = threading.Lock(), threading.Lock()
        #: The unsent reports.
        self.owed: list[_QueuedReport] = []

    def send(self, outcome: Outcome, report: Report) -> RunView:
        """Report an end and wait; returns the store's answer, or raises what the store raised."""
        mine = _QueuedReport(outcome=outcome, report=report)
        with self._adding:
            self.owed.append(mine)
        with self._sending:
            if self._gather_s and not mine.answer.done():
                time.sleep(self._gather_s)
            while not mine.answer.done():  # else another reporter has sent ours too
                self._deliver(outcome, self._take(outcome))
        return mine.answer.result()

    def _take(self, outcome: Outcome) -> list[_QueuedReport]:
        with self._adding:
            batch = [owed for owed in self.owed if owed.outcome is outcome][:BATCH_MAX]
            taken = set(map(id, batch))
            self.owed = [owed for owed in self.owed if id(owed) not in taken]
        return batch

    def _deliver(self, outcome: Outcome, batch: Sequence[_QueuedReport]) -> None:
        try:
            views: list[RunView] = getattr(self._service, outcome)([owed.report for owed in batch])
        except BaseException as error:
            if len(batch) > 1 and not isinstance(error, RETRYABLE_ERRORS):  # one report made the batch fail
                for owed in batch:
                    self._deliver(outcome, [owed])
                return
            for owed in batch:
                owed.answer.set_exception(error)
        else:
            for owed, view in zip(batch, views, strict=True):
                owed.answer.set_result(view)
