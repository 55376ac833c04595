"""Reports a worker's presence every few seconds, and when its number of runs has changed.

A report to an unreachable store is not repeated.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable

from interlock.core.errors import InterlockError
from interlock.core.workers import BEAT_S
from interlock.service.contract import Service

#: How often the number of runs is checked. `workers` shows it with this precision.
LOOK_S = 1.0


class WorkerPresence:
    """Sends a worker's heartbeats in the background, and removes the worker at its end."""

    def __init__(
        self, service: Service, *, name: str, folder: str, agent: str, slots: int, runs: Callable[[], int]
    ) -> None:
        self._service = service
        self._name, self._folder, self._agent, self._slots = name, folder, agent, slots
        self._runs = runs
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="interlock-presence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Remove the worker. An unreachable store will forget it by itself."""
        self._ended.set()
        self._thread.join(timeout_s)

    def _loop(self) -> None:
        said, said_s = -1, 0.0
        while True:
            runs, now_s = self._runs(), time.monotonic()
            if runs != said or now_s - said_s >= BEAT_S:
                said, said_s = runs, now_s
                self._say(runs)
            if self._ended.wait(LOOK_S):
                break
        with contextlib.suppress(InterlockError):
            self._service.leave_worker(self._name)

    def _say(self, runs: int) -> None:
        with contextlib.suppress(InterlockError):
            self._service.see_worker(
                self._name,
                host=socket.gethostname(),
                pid=os.getpid(),
                folder=self._folder,
                agent=self._agent,
                slots=self._slots,
                runs=runs,
            )
