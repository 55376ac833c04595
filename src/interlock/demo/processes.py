"""The agents' processes from the demo's side: starts, reads, kills and stops them, and leaves none behind."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import interlock


@dataclass
class AgentProcess:
    """One process, and its last report."""

    name: str
    #: Distinguishes processes with the same name.
    label: str
    process: subprocess.Popen[str]
    state: str = "starting"
    doing: str = ""
    item: int | None = None
    run: int | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """kill -9; returns when the process is gone."""
        self.process.kill()
        self.process.wait()
        self.state = "killed"

    def stop(self) -> None:
        """SIGSTOP; returns when the last thread has stopped.

        Until then a thread may still complete its system call, such as the one that locks the database.
        """
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{self.name} ended when it was stopped"
        self.state = "stopped"

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.state = "working"

    def finish(self, *, blindly: bool = False) -> None:
        """Order it to finish its run; `blindly`: without checking whether the lease is lost."""
        assert self.process.stdin is not None
        self.process.stdin.write("blindly\n" if blindly else "finish\n")

    def apply_report(self, report: Mapping[str, Any]) -> None:
        """Apply its report."""
        if self.state not in ("killed", "stopped"):
            self.state = report["state"]
        self.doing = report.get("doing", "")
        self.item, self.run = report.get("item"), report.get("run")


Report = tuple[AgentProcess, dict[str, Any]]


class Crew:
    """All agents of one demo."""

    def __init__(
        self, directory: Path, environ: Mapping[str, str], *, cwd: Path | None, module: str = "agents"
    ) -> None:
        """`module` is the one of this room that the processes run."""
        self._module = f"interlock.demo.{module}"
        #: One agent for each row on the screen. The successor of a killed agent takes its row.
        self.agents: list[AgentProcess] = []
        self._started: list[AgentProcess] = []
        #: The agents' standard error.
        self.log = directory / "agents.log"
        self._cwd = cwd
        # A child must import this same package, from any directory.
        path = [str(Path(interlock.__file__).resolve().parents[1]), environ.get("PYTHONPATH", "")]
        self._environ = {**environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        self._readers: list[threading.Thread] = []
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()

    def start(
        self, arguments: Sequence[str], *, name: str, label: str, instead: AgentProcess | None = None
    ) -> None:
        """Start a process, in the row of a killed one if `instead` names it."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", self._module, *arguments],
                bufsize=1,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._cwd,
                env=self._environ,
                # A separate process group blocks Ctrl-C. A separate session would also block the hang-up
                # signal that ends a *stopped* process whose parent was killed.
                process_group=0,
            )
        started = AgentProcess(name, label, process)
        self._started.append(started)
        if instead is None:
            self.agents.append(started)
        else:
            self.agents[self.agents.index(instead)] = started
        self._readers.append(threading.Thread(target=self._read, args=(started,), daemon=True))
        self._readers[-1].start()

    def _read(self, agent: AgentProcess) -> None:
        assert agent.process.stdout is not None
        for line in agent.process.stdout:
            if line.endswith("\n"):  # a kill may truncate the last line
                self._reports.put((agent, json.loads(line)))

    def of_run(self, run: int) -> AgentProcess | None:
        """The process that works on a run."""
        return next((a for a in self.agents if a.run == run), None)

    def listen(self, timeout_s: float) -> list[Report]:
        """The agents' reports; waits up to `timeout_s` for the first."""
        heard: list[Report] = []
        with suppress(queue.Empty):
            heard.append(self._reports.get(timeout=timeout_s))
            while True:
                heard.append(self._reports.get_nowait())
        for agent, report in heard:
            agent.apply_report(report)
        return heard

    def ended_by_itself(self) -> AgentProcess | None:
        """An agent that ended without being killed, which is a defect."""
        return next((a for a in self.agents if a.state != "killed" and a.process.poll() is not None), None)

    def end(self) -> None:
        """Kill every process and wait for it. SIGKILL also ends a stopped one."""
        for agent in self._started:
            agent.process.kill()
        for agent, reader in zip(self._started, self._readers, strict=True):
            reader.join()
            with agent.process:  # closes its pipes and waits
                pass
