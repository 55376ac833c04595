"""Real workers for fault tests: `interlock work --json` as a process, its events read as they come."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from interlock.core.model import NewItem
from interlock.core.timing import CANCEL_GRACE_S
from interlock.service.contract import EndedRunView
from interlock.service.item_view import ItemView
from interlock.service.local import LocalService
from tests.faults.processes import wait_until
from tests.faults.stores import QUICK, open_service
from tests.patience import PATIENCE_S

#: A worker learns within two seconds that a run shall stop, and then needs its ladder: a shorter grace than
#: the usual one would not be lawful.
_TIMING = replace(QUICK, cancel_grace_s=CANCEL_GRACE_S)
PROGRAM = (sys.executable, "-m", "interlock")


class WorkProcess:
    """One worker. What it says is kept in `heard`."""

    def __init__(self, site: Site, *args: str, env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [*PROGRAM, "--json", "work", *args],
            cwd=site.directory,
            env=site.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # what is typed at the test is not for it
        )
        self.pid = self._process.pid
        self.heard: list[dict[str, Any]] = []
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")

    def until(self, event: str, **expected: Any) -> dict[str, Any]:
        """The next thing it says of this kind; fails if it ends first or says nothing for long."""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError(f"no {event} {expected} after {self.heard}") from None
            if not line:
                raise AssertionError(f"it ended before {event} {expected}: {self.heard}, {self.complaint}")
            said = json.loads(line)
            self.heard.append(said)
            if said.get("event") == event and expected.items() <= said.items():
                return dict(said)

    def peek(self) -> dict[str, Any] | None:
        """What it has said meanwhile, if anything; waits for a moment only."""
        with contextlib.suppress(queue.Empty):
            self.heard.append(json.loads(self._lines.get(timeout=0.01)))
            return self.heard[-1]
        return None

    @property
    def complaint(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().decode() if self._process.poll() is not None else ""

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """As by `kill -9`; returns when it is gone."""
        self._process.kill()
        self._process.wait()

    def ended(self) -> int:
        """Its exit code, once it has ended by itself; what it said until then is in `heard`."""
        code = self._process.wait(PATIENCE_S)
        while line := self._lines.get(timeout=PATIENCE_S):
            self.heard.append(json.loads(line))
        assert "Traceback" not in self.complaint
        return code

    def kinds(self) -> list[str]:
        return [said["event"] for said in self.heard]

    def supervisors(self) -> list[psutil.Process]:
        """The processes between it and its agents."""
        return [p for p in psutil.Process(self.pid).children() if any("supervisor" in w for w in p.cmdline())]

    def close(self) -> None:
        """Kill it and everything below it, whatever was stopped."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE_S)
        assert not self._reader.is_alive(), "something still has the worker's output open"
        assert self._process.stderr is not None
        self._process.stderr.close()


class Site:
    """A directory with a store, in which workers work."""

    #: For agents that are programs in Python.
    python = sys.executable

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.env: dict[str, str] = {}
        self._workers: list[WorkProcess] = []

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("INTERLOCK_", "GIT_"))}
        quick = {"INTERLOCK_BACK_OFF_FIRST_S": "0.05", "INTERLOCK_BACK_OFF_MAX_S": "0.2"}
        return kept | quick | {"INTERLOCK_URL": self.url} | self.env | (more or {})

    def work(
        self, command: str, *options: str, env: dict[str, str] | None = None, agent: str = "coder"
    ) -> WorkProcess:
        """Start a worker whose command is a shell script."""
        worker = WorkProcess(self, "--agent", agent, *options, "--", "sh", "-c", command, env=env)
        self._workers.append(worker)
        return worker

    def interlock(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Any other command."""
        return subprocess.run(
            [*PROGRAM, *args],
            cwd=self.directory,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def add(self, title: str = "some work", **fields: Any) -> int:
        """The number of a new item."""
        with self.service() as service:
            item = service.add([NewItem(title=title, **fields)])[0].item
        assert item is not None
        return item.id

    def item(self, number: int) -> ItemView:
        with self.service() as service:
            return service.show(number).item

    def runs(self, number: int) -> list[EndedRunView]:
        """What became of an item's runs, in order."""
        with self.service() as service:
            return sorted(service.show(number).runs, key=lambda run: run.run)

    def until_status(self, number: int, status: str) -> None:
        wait_until(lambda: self.item(number).status == status, f"item {number} is {status}")

    @contextmanager
    def service(self) -> Iterator[LocalService]:
        service = open_service(self.url, timing=_TIMING)
        try:
            yield service
        finally:
            service.close()

    def file(self, name: str) -> Path:
        return self.directory / name

    def number_in(self, name: str) -> int:
        """A number that an agent wrote into a file, as soon as it is there."""
        path = self.file(name)

        def read() -> int:
            with contextlib.suppress(OSError, ValueError):
                return int(path.read_text())
            return 0

        return int(wait_until(read, f"{name} has a number"))

    def spooled(self) -> list[Path]:
        return sorted(self.file(".interlock/spool").glob("*/run-*"))

    def heard(self) -> list[dict[str, Any]]:
        """What workers have said so far, as far as a test has listened."""
        return [told for worker in self._workers for told in worker.heard]

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


def gone(pid: int) -> bool:
    """Whether a process has ended; one that waits to be reaped has."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def until_gone(pid: int, what: str = "the process is gone") -> None:
    wait_until(lambda: gone(pid), what)
