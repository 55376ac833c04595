"""A fleet for tests: a directory with a store and a fleet.toml, and real supervisors and workers."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from interlock.fleet.directory import SUPERVISOR, FleetDirectory
from tests.acceptance.command import PROGRAM, Answer, Command
from tests.patience import PATIENCE_S


def wait_until(is_so: Callable[[], Any], what: str) -> Any:
    """What is so, as soon as it is."""
    end_s = time.monotonic() + PATIENCE_S
    while not (found := is_so()):
        assert time.monotonic() < end_s, f"not in time: {what}"
        time.sleep(0.02)
    return found


@dataclass
class FleetSite:
    """The fleet of one directory."""

    il: Command
    supervisors: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return self.il.directory

    @property
    def file(self) -> Path:
        return self.directory / "fleet.toml"

    @property
    def files(self) -> FleetDirectory:
        git = self.directory / ".git"
        home = git / "interlock" if git.exists() else self.directory / ".interlock"
        return FleetDirectory(home, self.directory, self.file.parent.resolve() / self.file.name)

    def write(self, text: str) -> None:
        """Write the file, and trust it."""
        self.file.write_text(text)
        trusted = self.il("trust")
        assert trusted.code == 0, trusted

    def script(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def up(self, *args: str) -> subprocess.Popen[bytes]:
        """A supervisor in the foreground, once all of its workers are ready."""
        with (self.directory / "up.out").open("ab") as out:
            process = subprocess.Popen(
                [*PROGRAM, "fleet", "up", *args],
                cwd=self.directory,
                env=self.il.environment(None),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.supervisors.append(process)
        self.until(lambda found: found["pid"] == process.pid and found["workers"], "its supervisor is up")
        return process

    def status(self) -> dict[str, Any]:
        answer = self.il("--json", "fleet", "status")
        assert answer.code == 0, answer
        return dict(answer.json)

    def worker(self, name: str = "coder") -> dict[str, Any]:
        return next(each for each in self.status()["workers"] if each["worker"] == name)

    def until(self, is_so: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """The status, as soon as it fulfils this."""

        def look() -> dict[str, Any] | None:
            found = self.status()
            return found if is_so(found) else None

        return dict(wait_until(look, what))

    def until_state(self, state: str, name: str = "coder") -> dict[str, Any]:
        def is_so(found: dict[str, Any]) -> bool:
            return any(each["worker"] == name and each["state"] == state for each in found["workers"])

        found = self.until(is_so, f"{name} is {state}")
        return dict(next(each for each in found["workers"] if each["worker"] == name))

    def until_item(self, number: int, status: str) -> None:
        wait_until(lambda: self.item(number)["status"] == status, f"item {number} is {status}")

    def item(self, number: int) -> dict[str, Any]:
        return dict(self.il.ok("show", number)["item"])

    def runs(self, number: int) -> list[str]:
        """How an item's runs have ended, in order."""
        return [
            run["status"] for run in sorted(self.il.ok("show", number)["runs"], key=lambda run: run["run"])
        ]

    def down(self, *args: str) -> Answer:
        answer = self.il("fleet", "down", *args)
        assert answer.code == 0, answer
        return answer

    def number_in(self, name: str) -> int:
        """A number that a command wrote into a file, as soon as it is there."""

        def read() -> int:
            with suppress(OSError, ValueError):
                return int((self.directory / name).read_text())
            return 0

        return int(wait_until(read, f"{name} has a number"))

    def said(self) -> list[dict[str, Any]]:
        """All that workers have said."""
        out = self.il("--json", "fleet", "logs", "--lines", "100000").out
        return [json.loads(line) for line in out.splitlines()]

    def processes(self) -> list[psutil.Process]:
        """The living workers of this directory, whoever started them."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                if (
                    "work" in words
                    and "interlock" in words
                    and process.cwd() == str(self.directory.resolve())
                ):
                    found.append(process)
        return found

    def close(self) -> None:
        for process in self.supervisors:
            process.kill()
            process.wait()
        with suppress(OSError):
            for pid in self.files.holders([*self.files.names(), SUPERVISOR]).values():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def make_site(directory: Path, env: Mapping[str, str] | None = None) -> FleetSite:
    """A site whose trust is its own."""
    state = {"XDG_STATE_HOME": str(directory.parent / f"{directory.name}-state")}
    return FleetSite(Command(directory, env={**state, **(env or {})}))


def gone(pid: int) -> bool:
    """Whether a process has ended; one that waits to be reaped has."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
