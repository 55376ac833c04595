"""Real processes for fault tests: started quickly, spoken to through pipes, killed and stopped by signals."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import psutil  # type: ignore[import-untyped]

from tests.patience import PATIENCE_S

#: A clean process that has imported everything forks the others: real processes, at a few ms each.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["interlock.service.local", "interlock.store.sqlite.store", "interlock.store.postgres.store"]
)


class Actor:
    """One process. Its function gets a pipe to the test as first argument; what it returns is its result."""

    def __init__(self, target: Callable[..., Any], *args: Any) -> None:
        self.talk, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_act, args=(theirs, target, args), daemon=True)
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.killed = False

    def hear(self) -> Any:
        """The next thing the process says; fails if it says nothing, or dies of an error."""
        if not self.talk.poll(PATIENCE_S):
            raise AssertionError(f"Process {self.pid} said nothing for {PATIENCE_S:g} s.")
        try:
            kind, value = self.talk.recv()
        except EOFError:
            raise AssertionError(f"Process {self.pid} died without a word.") from None
        if kind == "error":
            raise AssertionError(f"Process {self.pid} failed:\n{value}")
        return value

    def tell(self, word: Any = "go") -> None:
        with contextlib.suppress(BrokenPipeError):  # what it died of is heard next
            self.talk.send(word)

    def stop(self) -> None:
        """Freeze it in whatever it does, and return when it is frozen."""
        with contextlib.suppress(ProcessLookupError):  # what it died of is heard at the end
            os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: _stopped(self.pid), "the process is stopped")

    def go_on(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """As by `kill -9`; returns when it is gone."""
        self.killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._process.join()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def join(self) -> Any:
        """Its result, once it has ended by itself."""
        value = self.hear()
        self._process.join()
        return value


class Crew:
    """The processes of one test."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []

    def start(self, target: Callable[..., Any], *args: Any) -> Actor:
        self.actors.append(Actor(target, *args))
        return self.actors[-1]

    def start_many(self, count: int, target: Callable[..., Any], *args: Any) -> list[Actor]:
        return [self.start(target, *args) for _ in range(count)]

    def race(self, count: int, target: Callable[..., Any], *args: Any) -> list[Any]:
        """Run `target(talk, barrier, *args)` in so many processes at once; their results."""
        barrier = CONTEXT.Barrier(count)
        return [actor.join() for actor in self.start_many(count, target, barrier, *args)]

    def race_roles(self, roles: Sequence[Any], target: Callable[..., Any], *args: Any) -> list[Any]:
        """Like `race`, with one process for each role: `target(talk, barrier, role, *args)`."""
        barrier = CONTEXT.Barrier(len(roles))
        return [a.join() for a in [self.start(target, barrier, role, *args) for role in roles]]

    def dismiss(self) -> None:
        for actor in self.actors:
            actor.kill()
            actor.talk.close()


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    """Return what `holds` gives as soon as it is true; fail if it never is."""
    deadline_s = (now_s := time.monotonic()) + PATIENCE_S
    while not (found := holds()):
        looked_s = time.monotonic() - now_s
        if now_s + looked_s > deadline_s:
            raise AssertionError(f"It did not come to this within {PATIENCE_S:g} s: {what}.")
        time.sleep(max(0.005, 2 * looked_s))  # who looks must not take the time of those who work
        now_s = time.monotonic()
    return found


def say(talk: Connection, value: Any) -> None:
    """What a process tells the test in the middle of its work."""
    talk.send(("word", value))


def _act(talk: Connection, target: Callable[..., Any], args: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # servers crash here all the time
    try:
        talk.send(("word", target(talk, *args)))
    except BaseException:
        talk.send(("error", traceback.format_exc()))


def signal_aside(pid: int, number: int) -> None:
    """Send a signal to a thread that is not the main one, so that it interrupts no wait of that."""
    other = next(thread.id for thread in psutil.Process(pid).threads() if thread.id != pid)
    assert ctypes.CDLL(None).tgkill(pid, other, number) == 0


def _stopped(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
