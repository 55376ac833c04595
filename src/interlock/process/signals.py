"""Handles signals to a process that runs a command under a lease.

They are forwarded to the command, as if it had been called directly. While no command runs, they shut down
the process cleanly. A signal that was ignored when we were started (nohup, a background job) stays ignored.
Suspending is not forwarded: a stopped holder cannot keep its lease, so its supervisor ends the command.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from interlock.process.command import SupervisedCommand

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Signalled(KeyboardInterrupt):
    """A signal arrived while no command ran. It is a `KeyboardInterrupt`, which every library expects."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Installs signal handlers for a `with` block, in the main thread."""

    def __init__(self, after: Callable[[], None] = lambda: None) -> None:
        """`after` is called after each forwarded signal, in another thread."""
        #: Whether any signal was forwarded.
        self.forwarded = False
        self._after = after
        self._command: SupervisedCommand | None = None
        self._before: dict[int, Any] = {}
        # A handler must not take the command's lock: it may have interrupted the thread that holds it.
        self._pending: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._forward, name="interlock-signals", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._pending.put(None)
        self._thread.join()

    @contextmanager
    def forwarded_to(self, command: SupervisedCommand) -> Iterator[None]:
        """Forward signals to this command during the block."""
        self._command = command
        try:
            yield
        finally:
            self._command = None

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (the library's signature)
        if self._command is None:
            raise Signalled(number)
        self.forwarded = True
        self._pending.put(number)

    def _forward(self) -> None:
        while (number := self._pending.get()) is not None:
            command = self._command
            if command is not None:
                command.signal(number)
            self._after()
