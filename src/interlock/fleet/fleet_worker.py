"""One worker of a running fleet: its process, its record, its log, and the signals that stop it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from interlock.core.timing import doubled_s, span
from interlock.fleet.directory import FleetDirectory, ProcessRecord, is_suspended, rotate
from interlock.fleet.fleetfile import WorkerSpec
from interlock.fleet.journal import Journal, Said
from interlock.process.clock import now_s
from interlock.process.ladder import Ladder

#: The wait before a worker that has ended is started again. It doubles with each end within `STEADY_S`.
AGAIN_FIRST_S, AGAIN_MAX_S, STEADY_S = 1.0, 60.0, 60.0
#: How long a worker may take to stop its commands by their ladder, and then to kill them and to give their
#: items back, before it is killed itself.
STOP_S, KILL_S = Ladder().total_s + 2.0, 10.0
#: A worker drains at the first signal, stops its runs at the second, and kills them at the third. They are
#: different signals, as a second one of the same kind may be merged with the first.
_DRAIN, _STOP, _KILL = 1, 2, 3
_SIGNALS = {_DRAIN: signal.SIGINT, _STOP: signal.SIGTERM, _KILL: signal.SIGHUP}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """A worker as status shows it."""

    name: str
    agent: str
    #: starting, idle, working, draining, stopping, suspended, crashed (it is started again) or stopped.
    state: str
    pid: int | None
    restarts: int
    #: Since when its process runs; null if there is none.
    since: datetime | None
    #: Its runs, with their items and titles.
    runs: tuple[tuple[int, int, str], ...]
    last_line: str
    last_at: datetime | None


def row(kept: ProcessRecord, journal: Journal, *, alive: bool, supervised: bool) -> FleetRow:
    """The row of a worker, from its files."""
    if journal.is_older_than(kept.began_s):
        journal.begin()
    return FleetRow(
        name=kept.name,
        agent=kept.agent,
        state=_state(kept, journal, alive=alive, supervised=supervised),
        pid=kept.pid if alive and kept.pid else None,
        restarts=kept.restarts,
        since=datetime.fromtimestamp(kept.began_s, UTC) if alive else None,
        runs=tuple((run, item, title) for run, (item, title) in sorted(journal.runs.items()))
        if alive
        else (),
        last_line=journal.last.shown if journal.last else "",
        last_at=journal.last.at if journal.last else None,
    )


def _state(kept: ProcessRecord, journal: Journal, *, alive: bool, supervised: bool) -> str:
    if not alive:
        return "crashed" if kept.again_s and supervised else "stopped"
    if kept.pid and is_suspended(kept.pid):
        return "suspended"
    if journal.state == "ready":
        return "working" if journal.runs else "idle"
    return journal.state


class FleetWorker:
    """One worker, for the supervisor that keeps it running."""

    def __init__(self, directory: FleetDirectory, name: str, spec: WorkerSpec | None) -> None:
        """Without a `spec` it is left over: it is not in the file, and only stopped."""
        self.name, self.spec = name, spec
        self._directory = directory
        self.journal = Journal(directory.log(name), directory.former_log(name))
        self.record = directory.read(name)
        #: The living process; None if there is none.
        self.pid: int | None = None
        #: Our own child: its end comes with a status.
        self._own = False
        self._failures = 0
        self._began_s = 0.0
        #: When it is started again, by our clock.
        self.again_s: float | None = None
        self._asked = 0
        #: Lines that were read and not shown yet.
        self._said: list[Said] = []
        #: The rest of the ladder: times and signals.
        self._rungs: list[tuple[float, signal.Signals]] = []

    def row(self) -> FleetRow:
        return row(self.record, self.journal, alive=self.pid is not None, supervised=True)

    def note(self, kind: str, text: str) -> None:
        """Add a line of our own to its log, from where it is shown like the others."""
        said = {"event": kind, "at": datetime.now(UTC).isoformat(), "text": text}
        with suppress(OSError), os.fdopen(self._open_log(), "w") as log:
            log.write(json.dumps(said) + "\n")

    def read(self) -> list[Said]:
        """What it has said since the last time."""
        said, self._said = self._said, []
        said += self.journal.read() if self.journal.has_grown() else []
        if rotate(self._directory, self.name):
            self.journal.moved()
        return said

    # -- its process ----------------------------------------------------------------------------------

    def adopt(self, pid: int) -> None:
        """Take over the process that a former supervisor has started."""
        self.pid, self._own, self._began_s = pid, False, now_s()
        self._keep(pid=pid, again_s=0.0, ended="")
        self.note("adopted", f"Process {pid} was still running, and this fleet keeps it.")

    def start(self, cwd: Path, environ: Mapping[str, str]) -> None:
        """Start its process. If that fails, it is tried again later."""
        assert self.spec is not None
        lock = self._directory.lock(self.name)
        if lock is None:
            self._end("has another process, which cannot be seen from here")
            return
        began = self.again_s is not None
        self.journal.begin()
        try:
            self._keep(
                pid=0,
                began_s=time.time(),
                restarts=self.record.restarts + began,
                again_s=0.0,
                ended="",
                agent=self.spec.agent,
                identity=self.spec.identity(),
            )
            log = self._open_log()
            try:
                process = subprocess.Popen(
                    # -P: a directory of the repository must not take the place of a module.
                    [sys.executable, "-P", "-m", "interlock", *self.spec.arguments()],
                    cwd=cwd,
                    env={**environ, **self.spec.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(lock,),
                    start_new_session=True,  # Ctrl-C and a closed terminal are ours to pass on
                )
            finally:
                os.close(log)
            process.returncode = 0  # we reap it ourselves
            self.pid, self._own, self._began_s = process.pid, True, now_s()
            self._asked, self._rungs, self.again_s = 0, [], None
            self._keep(pid=process.pid)
        except OSError as error:
            self._end(f"could not be started: {(error.strerror or str(error)).lower()}")
        finally:
            os.close(lock)

    def ended(self, status: int | None) -> None:
        """Its process is gone. `status` is that of the system; None if it was not our child."""
        self._said += self.journal.read()
        if status is None:
            how = "has ended"
        elif (code := os.waitstatus_to_exitcode(status)) < 0:
            how = f"was killed by {_signal_name(-code)}"
        else:
            how = f"has ended with exit code {code}"
        self.pid, self._rungs = None, []
        if self._asked:
            self._keep(again_s=0.0, ended=how)
            if status != 0:
                self.note("stopped", f"The worker {how}.")
            return
        self._end(": ".join(filter(None, (how, self.journal.problem))))

    def is_gone(self) -> bool:
        """Whether an adopted process has ended."""
        return self.pid is not None and not self._own and not self._directory.is_alive(self.name)

    def _end(self, how: str) -> None:
        """Plan the next start."""
        if now_s() - self._began_s >= STEADY_S:
            self._failures = 0
        wait_s = doubled_s(AGAIN_FIRST_S, self._failures, AGAIN_MAX_S)
        self._failures += 1
        self.pid, self.again_s = None, now_s() + wait_s
        with suppress(OSError):
            self._keep(again_s=time.time() + wait_s, ended=how)
        how = how.rstrip(".")
        self.note("crashed", f"The worker {how}. It is started again in {span(wait_s)}.")

    # -- stopping -------------------------------------------------------------------------------------

    def ask(self, times: int) -> None:
        """Ask its process to drain (1), to stop its runs (2) or to kill them (3)."""
        if self.again_s is not None:
            self.again_s = None
            self._keep(again_s=0.0)
            self.note("stopped", "It is not started again.")
        if self.pid is None or times <= self._asked:
            return
        now = now_s()
        for step in range(self._asked + 1, times + 1):
            self._signal(_SIGNALS[step])
        self._asked = times
        if times == _STOP:
            self._rungs = [(now + STOP_S, _SIGNALS[_KILL]), (now + STOP_S + KILL_S, signal.SIGKILL)]
        elif times >= _KILL:
            self._rungs = [(now + KILL_S, signal.SIGKILL)]

    def climb(self) -> None:
        """Send the signals of its ladder that are due."""
        while self._rungs and self._rungs[0][0] <= now_s():
            _, number = self._rungs.pop(0)
            if number is signal.SIGKILL:
                self.note("killed", "The worker did not stop in time, and is killed.")
            self._signal(number)

    @property
    def stopped_for_another(self) -> bool:
        """Whether it was asked to stop so that its new entry in the file can be started."""
        return self._asked > 0 and self.spec is not None

    @property
    def next_rung_s(self) -> float | None:
        """When the next thing is due, by our clock."""
        times = [at for at, _ in self._rungs[:1]] + ([self.again_s] if self.again_s is not None else [])
        return min(times, default=None)

    def _signal(self, number: int) -> None:
        # The number of an adopted process is its own as long as the process has its lock.
        if self.pid is None or self.is_gone():
            return
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)
            os.kill(self.pid, signal.SIGCONT)  # a stopped process gets no other signal

    # -- files ----------------------------------------------------------------------------------------

    def _keep(self, **changed: object) -> None:
        self.record = replace(self.record, **changed)  # type: ignore[arg-type]
        self._directory.write(self.record)

    def _open_log(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._directory.log(self.name), flags, 0o600)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
