"""The heartbeat of a worker: one thread that keeps the leases of all its runs, and hears what became of them.

One call renews every run and learns of cancel requests, so it comes every 2 s, or every third of the
shortest lease if that is less. What a renewal says is judged by the moment *before* it was sent: the lease
began no earlier. A call that hangs or fails does not matter here: the trust of each agent runs out by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from interlock.core.errors import InterlockError
from interlock.process.command import now_s
from interlock.service.contract import LaneService, Report, RunView

BEAT_MAX_S = 2.0
#: After a renewal that failed.
AGAIN_S = 0.1


class Beating(Protocol):
    """A run whose lease is kept."""

    @property
    def handle(self) -> str: ...

    @property
    def beat_due_s(self) -> float:
        """When the next renewal is due, on the clock of `now_s`."""
        ...

    def renewed(self, view: RunView, sent_s: float) -> None:
        """The store's answer to a renewal that was sent at `sent_s`; also a refusal."""
        ...


class BackgroundLoop(threading.Thread):
    """A thread without which a worker must not go on: if it fails, somebody hears."""

    def __init__(self, loop: Callable[[], None], name: str, crashed: Callable[[Exception], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._loop = loop
        self._crashed = crashed

    def run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            self._crashed(error)


class Heartbeat:
    """Renews until it is stopped."""

    def __init__(
        self,
        service: LaneService,
        beating: Callable[[], Sequence[Beating]],
        *,
        writing: threading.Lock,
        trouble: Callable[[InterlockError | None], None],
        crashed: Callable[[Exception], None],
    ) -> None:
        """`beating` says whose leases are to be kept now; `trouble` hears when that does not work.

        `writing` is held during a renewal, and by whoever reports an end: a renewal that follows the end of
        its own run would count as a refused write.
        """
        self._service = service
        self._beating = beating
        self._writing = writing
        self._trouble = trouble
        self._wake = threading.Event()
        self._stopped = False
        self._thread = BackgroundLoop(self._beat, "interlock-heartbeat", crashed)

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """Something began: its lease may be shorter than the pause that is going on."""
        self._wake.set()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join()

    def _beat(self) -> None:
        not_before_s = 0.0
        while not self._stopped:
            due_s = min((run.beat_due_s for run in self._beating()), default=now_s() + BEAT_MAX_S)
            pause_s = max(due_s, not_before_s) - now_s()
            if pause_s > 0:
                self._wake.wait(pause_s)
                self._wake.clear()
            elif not self._renew():
                not_before_s = now_s() + AGAIN_S

    def _renew(self) -> bool:
        with self._writing:
            runs = self._beating()
            if not runs:
                return True
            sent_s = now_s()
            try:
                views = self._service.renew([Report(run=run.handle) for run in runs])
            except InterlockError as error:
                self._trouble(error)
                return False
        self._trouble(None)
        for run, view in zip(runs, views, strict=True):
            run.renewed(view, sent_s)
        return True
