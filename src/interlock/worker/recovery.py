"""Recovers from runs whose worker died or lost them: cleans up their files and processes on this host.

Work in their worktrees is salvaged for the next run on the lane. Before a run begins, processes of earlier
runs on its lane are killed: two runs must never work on a lane at once.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from interlock.core.errors import InterlockError
from interlock.process import supervisor
from interlock.worker.rundirectory import Home, RunFiles, Trace, found
from interlock.worker.salvage import SalvageResult
from interlock.worker.worktrees import Workspaces

#: How long a killed process of an earlier run may take to die.
RIVAL_WAIT_S = 10.0
_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.005, 0.25


class Recovery:
    """Cleans up after dead runs. Safe to run concurrently in threads and workers."""

    def __init__(
        self,
        home: Home,
        workspaces: Workspaces,
        *,
        salvaged: Callable[[Trace, SalvageResult], None],
        left: Callable[[Trace, str, str], None],
    ) -> None:
        """`salvaged` gets the run whose work was salvaged, and the salvage. `left` gets the rest: the run, a
        sentence and a path."""
        self._home = home
        self._workspaces = workspaces
        self._salvaged = salvaged
        self._left = left

    def clear(self) -> None:
        """Remove the runs whose worker and command are gone. Work that cannot be salvaged stays."""
        for files in found(self._home):
            if files.adopt() and not self._closed(files):
                files.unlock()

    def end_rivals(self, trace: Trace, *, give_up: threading.Event) -> bool:
        """Kill processes of earlier runs on the same lane or item; false if one survives.

        Their leases are lost, since this run has the lane. So their work is salvaged even if their worker
        still lives, for example suspended.
        """
        deadline_s = time.monotonic() + RIVAL_WAIT_S
        pause_s = _PAUSE_FIRST_S
        while True:
            rivals = [files for files in found(self._home) if files.trace.rivals(trace)]
            for files in rivals:
                if files.trace.run < trace.run:
                    _kill(files)
            if all(self._closed(files) or _no_process(files) for files in rivals):
                return True
            if time.monotonic() > deadline_s or give_up.wait(pause_s):
                return False
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def left_by_rivals(self, trace: Trace) -> list[str]:
        """After `end_rivals`: sentences about worktrees that could not be salvaged, for example on a full
        disk."""
        rivals = [files.trace for files in found(self._home) if files.trace.rivals(trace)]
        return [
            f"Run {rival.run} of {rival.agent} left a worktree that could not be salvaged: {rival.worktree}."
            for rival in rivals
            if rival.worktree is not None and rival.supervisor is not None and Path(rival.worktree).exists()
        ]

    def _closed(self, files: RunFiles) -> bool:
        """Salvage and remove a run without processes; false if that failed."""
        try:
            kept = self._workspaces.close(
                files, succeeded=False, warn=lambda text, path: self._left(files.trace, text, path)
            )
        except (InterlockError, OSError):
            return False
        if not _no_process(files):
            return False
        if kept is not None:
            self._salvaged(files.trace, kept)
        files.remove()
        return True


def _no_process(files: RunFiles) -> bool:
    with files.without_agent() as sure:
        return sure


def _kill(files: RunFiles) -> None:
    """Kill the processes of a run, unless a process number now belongs to another process.

    Those below its supervisor come first: once it is dead, only session, environment and lock identify them.
    If the first process of a session is dead, its number may be reused. Then the session is the run's only if
    one of its processes has inherited something from the run.
    """
    trace = files.trace
    above, session = trace.supervisor, trace.session
    if above is not None and trace.supervisor_begun and supervisor.begun(above) == trace.supervisor_begun:
        supervisor.signal_each([*supervisor.descendants(above), above], signal.SIGKILL)
    marked = supervisor.marked(f"INTERLOCK_RESULT={files.briefing.result}")
    if session is not None:
        begun, members = supervisor.begun(session), supervisor.members(session)
        if begun is None:
            ours = any(pid in marked or _shares(pid, files.agent_lock) for pid in members)
        else:
            ours = begun == trace.session_begun
        if ours:
            supervisor.signal_each(members, signal.SIGKILL)
    supervisor.signal_each(marked, signal.SIGKILL)


def _shares(pid: int, lock: Path) -> bool:
    """Whether a process shares the agent's lock, as agents do. A worker that tests it locks exclusively."""
    with contextlib.suppress(OSError):
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if opened.samefile(lock):
                    return "READ" in Path(f"/proc/{pid}/fdinfo/{opened.name}").read_text().split()
    return False
