"""The heartbeat: one thread that renews the leases of all live runs of a process.

One call renews every run and reports cancel requests. It is sent every 2 s, or every third of the shortest
lease if that is less. A call that hangs or fails is harmless: without a renewal each command is
stopped in time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from interlock.core.errors import InterlockError, NoToken, StoreReplaced
from interlock.process.clock import now_s
from interlock.process.live_run import BEAT_MAX_S, LiveRun
from interlock.service.contract import LaneService, RefusalView

#: The pause after a failed renewal, and after one with an invalid token: a server counts the latter.
AGAIN_S, NO_TOKEN_S = 0.1, 2.0


class BackgroundLoop(threading.Thread):
    """A thread that is essential to its process: `crashed` gets its error."""

    def __init__(self, loop: Callable[[], None], name: str, crashed: Callable[[Exception], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._loop = loop
        self._crashed = crashed

    def run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            self._crashed(error)


def _ignore(_: InterlockError | None) -> None:
    """Failing renewals need no report: the commands are stopped in time."""


def _raise(error: Exception) -> None:
    raise error


class Heartbeat:
    """Renews from `start` to `stop`."""

    def __init__(
        self,
        service: LaneService,
        runs: Callable[[], Iterable[LiveRun]],
        *,
        trouble: Callable[[InterlockError | None], None] = _ignore,
        crashed: Callable[[Exception], None] = _raise,
    ) -> None:
        """`trouble` gets the error of each failed renewal, and None after each successful one."""
        self._service = service
        self._runs = runs
        self._trouble = trouble
        self._crashed = crashed
        self._renewing = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._thread: BackgroundLoop | None = None

    def start(self) -> None:
        self._stopped = False
        self._thread = BackgroundLoop(self._beat, "interlock-heartbeat", self._crashed)
        self._thread.start()

    def hurry(self) -> None:
        """Wake up for a new run: its lease may be shorter than the current pause."""
        self._wake.set()

    def finish(self, run: LiveRun) -> None:
        """Stop renewing this run; waits for a renewal in progress.

        A renewal that arrives after the end of its run would count as a refused write.
        """
        run.ending = True
        with self._renewing:
            pass

    def stop(self, timeout_s: float | None = None) -> None:
        """Stop renewing; waits up to `timeout_s` for a renewal in progress."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _beat(self) -> None:
        not_before_s = 0.0
        while not self._stopped:
            due_s = min((run.beat_due_s for run in self._renewable_runs()), default=now_s() + BEAT_MAX_S)
            pause_s = max(due_s, not_before_s) - now_s()
            if pause_s > 0:
                self._wake.wait(pause_s)
                self._wake.clear()
            elif again_s := self._renew():
                not_before_s = now_s() + again_s

    def _renewable_runs(self) -> list[LiveRun]:
        return [run for run in self._runs() if run.beats]

    def _renew(self) -> float:
        """Renew all leases; returns the pause after a failed renewal."""
        with self._renewing:
            runs = self._renewable_runs()
            if not runs:
                return 0.0
            sent_s = now_s()
            try:
                views = self._service.renew([run.renewal for run in runs])
            except StoreReplaced as error:  # the old store never returns
                self._trouble(error)
                for run in runs:
                    run.lose(
                        RefusalView(
                            code=error.code, message=error.sentence, hint=error.hint, cures=error.cures
                        )
                    )
                return AGAIN_S
            except InterlockError as error:
                self._trouble(error)
                return NO_TOKEN_S if isinstance(error, NoToken) else AGAIN_S
        self._trouble(None)
        for run, view in zip(runs, views, strict=True):
            run.renewed(view, sent_s)
        return 0.0
