"""The agents' processes as the demo sees them: started, heard, killed, stopped, and none left behind."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import interlock

_CHUNK_BYTES = 65_536


@dataclass
class AgentProcess:
    """One process, and the last it said or suffered."""

    name: str
    #: Tells processes of one name apart.
    label: str
    process: subprocess.Popen[bytes]
    state: str = "starting"
    doing: str = ""
    item: int | None = None
    run: int | None = None
    _unread: bytes = field(default=b"", repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.state != "killed"

    def kill(self) -> None:
        """kill -9; returns when the process is gone."""
        self.process.kill()
        self.process.wait()
        self.state = "killed"

    def stop(self) -> None:
        """SIGSTOP; returns when the last thread stands still.

        Until then a thread may still finish the system call it is in, and that may be the one that locks
        the database.
        """
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{self.name} ended when it was stopped"
        self.state = "stopped"

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.state = "working"

    def finish(self, *, blindly: bool = False) -> None:
        """Let it come to the end of its run; `blindly`: without looking left or right."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"blindly\n" if blindly else b"finish\n")

    def heard(self) -> Iterator[dict[str, Any]]:
        """What it said since the last look. Must only be called when there is something to read."""
        assert self.process.stdout is not None
        *lines, self._unread = (self._unread + os.read(self.process.stdout.fileno(), _CHUNK_BYTES)).split(
            b"\n"
        )
        for line in lines:
            fact: dict[str, Any] = json.loads(line)
            if self.state not in ("killed", "stopped"):
                self.state = fact["state"]
            self.doing = fact.get("doing", "")
            self.item, self.run = fact.get("item"), fact.get("run")
            yield fact


class Crew:
    """All agents of one demo."""

    def __init__(
        self, directory: Path, environ: Mapping[str, str], *, cwd: Path | None, kind: str, label: str
    ) -> None:
        #: One for each place on the screen; a killed one gives its place to its successor.
        self.agents: list[AgentProcess] = []
        self._started: list[AgentProcess] = []
        self._directory = directory
        self._cwd = cwd
        self._environ = _importable(environ)
        self._label = label
        self._kind = kind
        self._selector = selectors.DefaultSelector()

    def start(
        self, name: str, agent: str, *, label: str | None = None, kind: str | None = None
    ) -> AgentProcess:
        """Start a process for an agent; `agent` is the name under which the store knows it."""
        command = [sys.executable, "-m", "interlock.demo.agents"]
        command += ["--agent", agent, "--type", kind or self._kind, "--label", self._label]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._cwd,
                env=self._environ,
                # A group of its own keeps Ctrl-C from it. A session of its own would also keep the hang-up
                # from it with which the system ends a *stopped* process whose parent was killed.
                process_group=0,
            )
        started = AgentProcess(name, label or name, process)
        self.agents.append(started)
        self._started.append(started)
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, started)
        return started

    @property
    def log(self) -> Path:
        """Where the agents' complaints go."""
        return self._directory / "agents.log"

    def of(self, name: str) -> AgentProcess:
        """The living process of an agent."""
        return next(a for a in self.agents if a.name == name and a.alive)

    def replace(self, dead: AgentProcess, agent: str) -> None:
        """Start a killed agent's successor in its place on the screen."""
        successor = self.start(dead.name, agent)
        self.agents.remove(successor)
        self.agents[self.agents.index(dead)] = successor

    def listen(self, timeout_s: float) -> list[tuple[AgentProcess, dict[str, Any]]]:
        """What the agents said, waiting up to `timeout_s` for the first word."""
        said: list[tuple[AgentProcess, dict[str, Any]]] = []
        for key, _ in self._selector.select(timeout_s):
            agent: AgentProcess = key.data
            before = len(said)
            said += [(agent, fact) for fact in agent.heard()]
            if len(said) == before and agent.process.poll() is not None:
                self._selector.unregister(key.fileobj)
        return said

    def fallen(self) -> AgentProcess | None:
        """An agent that ended although nobody killed it: a defect."""
        return next((a for a in self.agents if a.alive and a.process.poll() is not None), None)

    def end(self) -> None:
        """End every process and wait for it. SIGKILL also ends a stopped one."""
        for agent in self._started:
            agent.process.kill()
        for agent in self._started:
            agent.process.wait()
            for pipe in (agent.process.stdin, agent.process.stdout):
                if pipe is not None:
                    pipe.close()
        self._selector.close()


def _importable(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a child finds this very package, wherever it was started."""
    root = str(Path(interlock.__file__).resolve().parents[1])
    rest = environ.get("PYTHONPATH", "")
    return {**environ, "PYTHONPATH": root + (os.pathsep + rest if rest else ""), "PYTHONUNBUFFERED": "1"}
