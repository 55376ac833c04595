"""The nursery: a small process that forks all others, so that 64 of them start in a moment.

It has imported what they need. It is their parent, so it alone stops them, and returns when they have
stopped. It reads orders from standard input, one JSON object a line, and answers on standard output. When
standard input ends, its director has ended: it kills every process and removes the director's directory.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

#: The errors of a disk without space.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
#: How often it looks for processes that have ended.
LOOK_S = 0.05
_IMPORTS = {
    "sqlite": ("interlock.store.sqlite.store", "interlock.service.local"),
    "postgresql": ("interlock.store.postgres.store", "interlock.service.local"),
    "http": ("interlock.remote.service",),
}


class Nursery:
    """The parent of all processes of one proof."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        #: The two ends of each gate: the processes wait at one, and pass when the other is closed.
        self._gates: list[tuple[int, int | None]] = []

    def serve(self) -> bool:
        """Carry out orders; whether the director has ended it, and did not just end."""
        pending = b""
        while True:
            ready, _, _ = select.select([0], [], [], LOOK_S)
            self._bury()
            if not ready:
                continue
            data = os.read(0, 1 << 16)
            if not data:
                return False
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if (order := json.loads(line))["do"] == "end":
                    return True
                self._obey(order)

    def end(self) -> None:
        """Kill all, also the stopped ones, and wait for them."""
        for pid in self._names:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._names:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _obey(self, order: dict[str, Any]) -> None:
        match order["do"]:
            case "gates":
                self._gates += [os.pipe() for _ in range(order["count"])]
                say(gates=len(self._gates))
            case "open":
                waiting, closing = self._gates[order["gate"]]
                assert closing is not None
                os.close(closing)
                self._gates[order["gate"]] = (waiting, None)
                say(open=order["gate"])
            case "start":
                pid = os.fork()
                if pid == 0:
                    self._live(order)
                self._names[pid] = order["name"]
                say(started=order["name"], pid=pid)
            case "stop":
                say(stopped=order["pid"], done=self._stop(order["pid"]))
            case "kill":
                say(killed=order["pid"], done=self._kill(order["pid"]))
            case _:
                with suppress(ProcessLookupError):
                    os.kill(order["pid"], signal.SIGCONT)
                say(resumed=order["pid"])

    def _live(self, order: dict[str, Any]) -> NoReturn:
        """Play a role in the forked process."""
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for _, closing in self._gates:
                if closing is not None:
                    os.close(closing)
            from interlock.prove.roles import play  # noqa: PLC0415  (forked with everything imported)

            play(order, [gate for gate, _ in self._gates])
            code = 0
        except BaseException as error:
            told = getattr(error, "sentence", "") or traceback.format_exc(limit=-4)
            full = isinstance(error, OSError) and error.errno in DISK_FULL
            say(failed=order["name"], error=told, hint=getattr(error, "hint", ""), full=full)
        finally:
            os._exit(code)

    def _stop(self, pid: int) -> bool:
        try:
            os.kill(pid, signal.SIGSTOP)
            _, status = os.waitpid(pid, os.WUNTRACED)
        except (ProcessLookupError, ChildProcessError):
            return False
        if os.WIFSTOPPED(status):
            return True
        self._gone(pid, status)
        return False

    def _kill(self, pid: int) -> bool:
        if pid not in self._names:
            return False
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        del self._names[pid]
        return True

    def _bury(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._gone(pid, status)

    def _gone(self, pid: int, status: int) -> None:
        name = self._names.pop(pid, None)
        if name is not None:
            say(ended=name, pid=pid, code=os.waitstatus_to_exitcode(status))


def say(**answer: Any) -> None:
    """Answer in one write, as several processes share the pipe."""
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(answer).encode() + b"\n")


def main(scheme: str, directory: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the director ends it
    for module in (*_IMPORTS[scheme], "interlock.app", "interlock.prove.roles"):
        import_module(module)
    nursery, ordered = Nursery(), False
    say(ready=os.getpid())
    try:
        ordered = nursery.serve()
    finally:
        nursery.end()
        if not ordered:
            shutil.rmtree(Path(directory), ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
