"""Signals to a process that runs a command for somebody: handed on to the command, as if it had been called
directly; while there is none, they end the process in good order.

A signal that was ignored when we were started (nohup, a job in the background) stays ignored. Suspending is
not handed on: a stopped holder cannot keep its lease, and its command is ended in time.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from interlock.process.command import Agent

HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Signalled(KeyboardInterrupt):
    """A signal came while no command ran. A kind of Ctrl-C, for which every library is prepared."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Signal handlers for the length of a `with` block, in the main thread."""

    def __init__(self) -> None:
        #: Whether any command was sent a signal.
        self.handed = False
        self._agent: Agent | None = None
        self._before: dict[int, Any] = {}
        # A handler must not take the agent's lock: it may have interrupted whoever holds it.
        self._pending: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._hand_on, name="interlock-signals", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for number in HANDED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._pending.put(None)
        self._thread.join()

    @contextmanager
    def handed_to(self, agent: Agent) -> Iterator[None]:
        """While the block lasts, signals are this command's."""
        self._agent = agent
        try:
            yield
        finally:
            self._agent = None

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  (the library's signature)
        if self._agent is None:
            raise Signalled(number)
        self.handed = True
        self._pending.put(number)

    def _hand_on(self) -> None:
        while (number := self._pending.get()) is not None:
            agent = self._agent
            if agent is not None:
                agent.signal(number)
