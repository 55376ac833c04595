"""`interlock up` as a process of a test."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from interlock.remote.service import connect
from interlock.service.contract import Service
from interlock.settings import credentials
from tests.acceptance.command import PROGRAM
from tests.patience import PATIENCE_S


class Up:
    """`interlock up` as a process, on a port that stays the same."""

    #: What starts it.
    program: tuple[str, ...] = PROGRAM
    #: Where its log goes; None: a file `log`.
    stderr: int | None = None

    def __init__(self, directory: Path, *args: str, **environ: str) -> None:
        self._args = args
        self.directory, self.port, self.url = directory, "0", ""
        self.clients: list[Service] = []
        self._environ = {
            **os.environ,
            "XDG_CONFIG_HOME": str(directory / "config"),
            "INTERLOCK_URL": f"sqlite:///{directory / 'store.db'}",
            **environ,
        }
        self.start()

    def start(self) -> None:
        self.log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen(
            [*self.program, "up", "--port", self.port, *self._args],
            cwd=self.directory,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=self.log if self.stderr is None else self.stderr,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert " at http" in line, (line, (self.directory / "log").read_text())
        self.url = line.rsplit(" ", 1)[1].strip()
        self.port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()
        return code

    @property
    def token(self) -> str:
        found = credentials.token_for(self.url, {"XDG_CONFIG_HOME": str(self.directory / "config")})
        assert found is not None
        return found

    def client(self, patience_s: float = PATIENCE_S) -> Service:
        self.clients.append(connect(self.url, self.token, patience_s=patience_s))
        return self.clients[-1]
