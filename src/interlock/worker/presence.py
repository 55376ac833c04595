"""A worker's word that it is there, every few seconds; a store that is away only misses it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable

from interlock.core.errors import InterlockError
from interlock.core.workers import BEAT_S
from interlock.service.contract import Service


class Presence:
    """Says in the background that a worker is there, and goodbye at its end."""

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
        """Say goodbye; a store that does not answer in time will forget the worker by itself."""
        self._ended.set()
        self._thread.join(timeout_s)

    def _loop(self) -> None:
        while True:
            with contextlib.suppress(InterlockError):
                self._service.see_worker(
                    self._name,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    folder=self._folder,
                    agent=self._agent,
                    slots=self._slots,
                    runs=self._runs(),
                )
            if self._ended.wait(BEAT_S):
                break
        with contextlib.suppress(InterlockError):
            self._service.leave_worker(self._name)
