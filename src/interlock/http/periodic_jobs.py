"""The periodic jobs of a server, for its store and with a token for GitHub: each has a thread.

Several servers may run the same job at once: its work is leased or decided in the store.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from interlock.core.errors import InterlockError
from interlock.github.limits import Limits
from interlock.github.series.controller import open_on_database
from interlock.github.series.overview import repositories_of
from interlock.github.tokens import is_given
from interlock.github.wiring import Shared, open_intake, open_outbox_relay, open_reconciler
from interlock.notify.webhooks import Webhooks
from interlock.service.local import LocalService
from interlock.service.series import reconcile_begun
from interlock.service.spans import open_spans
from interlock.service.trace_export import TraceExporter
from interlock.settings import Settings
from interlock.store.port import Store

#: How often a server runs each job.
SWEEP_S, DELIVERIES_S, NOTICES_S, ANSWERS_S, EFFECTS_S, RECONCILE_S = 1.0, 5.0, 5.0, 60.0, 5.0, 300.0
METRICS_S, TRACES_S = 5.0, 2.0
EFFECTS_AT_ONCE = 100
#: How long a stop waits for the current runs.
STOP_S = 10.0
#: Stores a delivery, by its event, id and body; false if it was delivered before.
Keep = Callable[[str, str, bytes], bool]
#: GitHub's rate limits, by resource: requests left and requests per hour.
Allowances = Callable[[], Mapping[str, tuple[int, int]]]


class PeriodicJob:
    """Work that runs every `every_s`, and on request."""

    def __init__(self, name: str, every_s: float, work: Callable[[], object]) -> None:
        self.name, self.every_s, self.work = name, every_s, work
        self._requested, self._stopped = threading.Event(), False
        self._thread: threading.Thread | None = None
        #: When it last succeeded, by the monotonic clock; None before the first success.
        self.done_s: float | None = None
        #: Why the last run failed; None if it succeeded.
        self.error: str | None = None

    def start(self, *, done: Callable[[str, Any], None], failed: Callable[[str, Exception], None]) -> None:
        """Run it until `stop`. `done` gets the result of each run, `failed` its error."""
        self._thread = threading.Thread(
            target=self._loop, args=(done, failed), name=f"interlock-{self.name}", daemon=True
        )
        self._thread.start()

    def request(self) -> None:
        """Run it now, before it is due."""
        self._requested.set()

    def stop(self) -> None:
        """End after the current run, without waiting for it."""
        self._stopped = True
        self._requested.set()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def age_s(self) -> float | None:
        """How long ago it last succeeded."""
        return None if self.done_s is None else time.monotonic() - self.done_s

    def _loop(self, done: Callable[[str, Any], None], failed: Callable[[str, Exception], None]) -> None:
        while not self._stopped:
            self._requested.clear()
            try:
                result = self.work()
                self.done_s, self.error = time.monotonic(), None
                done(self.name, result)
            except Exception as error:  # without the job, locks would stay behind
                self.error = error.sentence if isinstance(error, InterlockError) else type(error).__name__
                failed(self.name, error)
            if not self._stopped:
                self._requested.wait(self.every_s)


@contextmanager
def open_periodic_jobs(
    settings: Settings,
    service: LocalService,
    limits: Limits,
    notify: Callable[[], object],
    tell: Callable[[str], None] = lambda _: None,
    postponed: Callable[[str, str, str], None] = lambda *_: None,
) -> Iterator[tuple[list[PeriodicJob], Keep, Allowances]]:
    """The periodic jobs, the function that stores a delivery, and GitHub's remaining rate limits.

    `limits` are those of the token, which all parts share. `tell` gets the reason if traces are missing.
    `postponed` gets each waiting delivery: its id, its event and the reason.
    """
    service.series_operations.open_series = partial(
        open_on_database, service, settings=settings, environ=os.environ, limits=limits
    )
    service.series_operations.repositories = partial(repositories_of, service.store.github)
    with ExitStack() as opened:
        shared = Shared(limits, opened.enter_context(open_spans(os.environ, tell)))
        intake = opened.enter_context(open_intake(settings, shared))
        intake.on_postponed = postponed
        jobs = [
            PeriodicJob("sweeper", SWEEP_S, service.sweep),
            PeriodicJob("deliveries", DELIVERIES_S, intake.sweep_all),
            PeriodicJob("notices", NOTICES_S, notify),
            PeriodicJob("answers", ANSWERS_S, service.forget_requests),
            PeriodicJob("sessions", ANSWERS_S, service.forget_sessions),
            PeriodicJob("metrics", METRICS_S, service.count_history),
        ]
        if settings.notify_urls:
            # Of its own: a slow receiver must not delay effects on GitHub.
            webhooks = Webhooks(service.store, settings)
            jobs.append(PeriodicJob("receivers", EFFECTS_S, webhooks.run))
        if is_given(os.environ):
            relay = opened.enter_context(open_outbox_relay(settings, shared))
            reconciler = opened.enter_context(open_reconciler(settings, shared))
            jobs += [
                PeriodicJob("effects", EFFECTS_S, lambda: relay.send(EFFECTS_AT_ONCE)),
                PeriodicJob("reconcile", RECONCILE_S, lambda: list(reconciler.look_at_all())),
                PeriodicJob("series", RECONCILE_S, lambda: reconcile_begun(service, reconciler.followed())),
            ]
        keep: Keep = intake.keep
        if shared.spans is not None:
            history = TraceExporter(service.store, shared.spans, os.environ, tell)
            jobs.append(PeriodicJob("traces", TRACES_S, history.follow))
            keep = _traced(intake.keep, service.store, shared)
        yield jobs, keep, limits.allowances


def _traced(keep: Keep, store: Store, shared: Shared) -> Keep:
    """Stores a delivery, and records a span for it."""
    traces = shared.traces(store)
    assert traces is not None

    def traced(event: str, delivery: str, body: bytes) -> bool:
        begun_us = time.time_ns() // 1000
        new = keep(event, delivery, body)
        traces.received(delivery, event, begun_us, new=new)
        return new

    return traced
