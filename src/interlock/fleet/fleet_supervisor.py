"""Keeps the workers of a fleet running: starts them, starts crashed ones again, and stops all of them.

Promised:
- One supervisor for each `fleet.toml`, and one process for each of its workers. Both are OS locks, which end
  with their process.
- If the supervisor is killed, its workers and their agents go on. The next supervisor adopts a worker whose
  entry in the file is unchanged, and stops the others before it starts anything in their place.
- After it has returned, none of its workers is alive.

Not promised: that workers are started again while no supervisor is there.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from interlock.core.errors import Held
from interlock.fleet.directory import SUPERVISOR, FleetDirectory, ProcessRecord
from interlock.fleet.fleet_worker import FleetRow, FleetWorker, row
from interlock.fleet.fleetfile import WorkerSpec
from interlock.fleet.journal import Journal, Said
from interlock.process.clock import now_s

#: How often to look at logs and at adopted processes. The end of a child is noticed at once.
TICK_S = 0.5
_HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class FleetSupervisor:
    """The supervisor of one fleet. `run` returns when all of its workers have ended."""

    def __init__(
        self,
        directory: FleetDirectory,
        workers: Sequence[WorkerSpec],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        tell: Callable[[str, Said], None],
        left_over: int = 2,
    ) -> None:
        """`tell` gets what a worker says, with its name. It must not block.

        `left_over` says how processes are stopped that are not among `workers`, see `asked`.
        """
        self._directory = directory
        self._cwd, self._environ, self._tell = cwd, environ, tell
        specs = {spec.name: spec for spec in workers}
        names = [*specs, *(name for name in directory.names() if name not in specs)]
        self._workers = [FleetWorker(directory, name, specs.get(name)) for name in names]
        self._left_over = left_over
        self._asked = 0
        #: What a screen shows, made anew at each turn.
        self.rows: tuple[FleetRow, ...] = ()

    @property
    def asked(self) -> int:
        """How often it was asked to end: 1 drains, 2 stops what runs, 3 kills it."""
        return self._asked

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Keep the workers running until a signal ends that; `ready` is called when all were started.

        SIGINT drains, a second one stops what runs, a third one kills it. SIGTERM and SIGHUP stop at once.
        Raises `Held` if another supervisor has this fleet.
        """
        lock = self._directory.lock(SUPERVISOR)
        if lock is None:
            raise already_running(self._directory)
        heard, wake = socket.socketpair()
        before = {number: signal.getsignal(number) for number in _HEARD}
        try:
            for end in (heard, wake):
                end.setblocking(False)
            signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
            for number in _HEARD:
                signal.signal(number, _ignore)
            began_s = time.time()
            self._begin()
            self._directory.write(ProcessRecord(name=SUPERVISOR, pid=os.getpid(), began_s=began_s))
            ready()
            while self._turn():
                self._listen(heard, under_nohup=before[signal.SIGHUP] is signal.SIG_IGN)
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            heard.close()
            wake.close()
            os.close(lock)

    def ask(self, times: int) -> None:
        """Ask the fleet to end, see `asked`."""
        self._asked = max(self._asked, times)
        for worker in self._workers:
            worker.ask(self._asked)

    # -- the loop -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Adopt what still runs, stop what has changed, start the rest."""
        alive = self._directory.holders(worker.name for worker in self._workers)
        for worker in self._workers:
            worker.journal.replay()
            if (pid := alive.get(worker.name)) is None:
                continue
            same = worker.spec is not None and worker.record.identity == worker.spec.identity()
            worker.adopt(pid)
            if not same:
                what = "no longer in the file" if worker.spec is None else "changed in the file"
                worker.note("stopping", f"Process {pid} is stopped: its worker is {what}.")
                worker.ask(self._left_over)
        for worker in self._workers:
            if worker.pid is None and worker.spec is not None:
                worker.start(self._cwd, self._environ)
            elif worker.pid is None:
                self._forget(worker)
        self._workers = [
            worker for worker in self._workers if worker.spec is not None or worker.pid is not None
        ]

    def _turn(self) -> bool:
        """Do what is due; false when all workers have ended and none is started again."""
        said: list[tuple[str, Said]] = []
        self._reap(said)
        for worker in list(self._workers):
            if worker.is_gone():
                self._ended(worker, None, said)
            worker.climb()
            if worker.again_s is not None and worker.again_s <= now_s():
                worker.start(self._cwd, self._environ)
            said += [(worker.name, line) for line in worker.read()]
        self.rows = tuple(worker.row() for worker in self._workers)
        for name, line in said:
            self._tell(name, line)
        return not self._asked or any(worker.pid is not None for worker in self._workers)

    def _forget(self, worker: FleetWorker) -> None:
        """Remove the files of a worker that the file no longer names. Without any, all of them are kept."""
        if any(each.spec is not None for each in self._workers):
            self._directory.forget(worker.name)

    def _reap(self, said: list[tuple[str, Said]]) -> None:
        """Take the status of each ended child, also of strangers: in a container we may be process 1."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                for worker in list(self._workers):
                    if worker.pid == pid:
                        self._ended(worker, status, said)

    def _ended(self, worker: FleetWorker, status: int | None, said: list[tuple[str, Said]]) -> None:
        replaced = worker.stopped_for_another and not self._asked
        worker.ended(status)
        if worker.spec is None:
            said += [(worker.name, line) for line in worker.read()]
            self._forget(worker)
            self._workers.remove(worker)
        elif replaced:
            worker.start(self._cwd, self._environ)

    def _listen(self, heard: socket.socket, *, under_nohup: bool) -> None:
        """Sleep until something is due or a signal comes."""
        times = [at for worker in self._workers if (at := worker.next_rung_s) is not None]
        pause_s = min([TICK_S, *(max(0.0, at - now_s()) for at in times)])
        poll = select.poll()
        poll.register(heard, select.POLLIN)
        if not poll.poll(pause_s * 1_000):
            return
        with suppress(BlockingIOError):
            for number in heard.recv(4096):
                if number == signal.SIGINT:
                    self.ask(self._asked + 1)
                elif number == signal.SIGTERM or (number == signal.SIGHUP and not under_nohup):
                    self.ask(max(self._asked + 1, 2))


def already_running(directory: FleetDirectory) -> Held:
    """The refusal of a second supervisor."""
    pid = directory.holders([SUPERVISOR]).get(SUPERVISOR)
    return Held(
        f"The fleet of {directory.file} is already running{f' in process {pid}' if pid else ''}.",
        "interlock fleet status shows it, interlock fleet down stops it.",
    )


def observed(directory: FleetDirectory) -> tuple[FleetRow, ...]:
    """The rows of a fleet as another process sees them."""
    supervised = directory.is_alive(SUPERVISOR)
    rows = []
    for name in directory.names():
        journal = Journal(directory.log(name), directory.former_log(name))
        journal.replay()
        alive = directory.is_alive(name)
        rows.append(row(directory.read(name), journal, alive=alive, supervised=supervised))
    return tuple(rows)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler that does nothing: the signal is read from the socket."""
