"""The processes from the director's side: starts, stops, resumes and kills them through the nursery."""

from __future__ import annotations

import errno
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import interlock
from interlock.core.errors import InterlockError

#: How long an order to the nursery may take. It waits for no store.
ANSWER_S = 60.0
_ERRORS_SHOWN = 600


class ProcessFailed(InterlockError):
    """A process of the proof ended with an error of its own."""

    code = "process_failed"


class ProcessCrew:
    """All processes of one proof."""

    def __init__(self, directory: Path, environ: Mapping[str, str], scheme: str) -> None:
        # A child must import this same package, from any directory.
        path = [str(Path(interlock.__file__).resolve().parents[1]), environ.get("PYTHONPATH", "")]
        self._log = directory / "processes.log"
        with self._log.open("ab") as log:
            self._nursery = subprocess.Popen(
                [sys.executable, "-m", "interlock.prove.nursery", scheme, str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
                process_group=0,  # Ctrl-C is for the director
            )
        #: The living processes: name to process id.
        self.pids: dict[str, int] = {}
        self.started = 0
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="nursery", daemon=True)
        self._reader.start()
        self._wait("ready")

    def make_gates(self, count: int) -> None:
        """Gates for the processes that are started next."""
        self._ask("gates", count=count)

    def open(self, gate: int) -> None:
        """Let every process pass that waits at a gate, all at the same moment."""
        self._ask("open", gate=gate)

    def start(self, name: str, role: str, **more: Any) -> None:
        self.pids[name] = self._ask("started", "start", name=name, role=role, **more)["pid"]
        self.started += 1

    def stop(self, name: str) -> bool:
        """SIGSTOP; returns when its last thread has stopped. False if it had ended."""
        return name in self.pids and bool(self._ask("stopped", "stop", pid=self.pids[name])["done"])

    def resume(self, name: str) -> None:
        if name in self.pids:
            self._ask("resumed", "resume", pid=self.pids[name])

    def kill(self, name: str) -> bool:
        """kill -9; returns when it is gone."""
        pid = self.pids.pop(name, None)
        return pid is not None and bool(self._ask("killed", "kill", pid=pid)["done"])

    def look(self) -> None:
        """Raise if a process has failed."""
        with suppress(queue.Empty):
            while True:
                self._note(self._answers.get_nowait())

    def end(self) -> None:
        """End every process. SIGKILL also ends a stopped one."""
        with suppress(BrokenPipeError):
            self._pipe.write(b'{"do": "end"}\n')
            self._pipe.close()
        self._reader.join()
        with self._nursery:  # closes its pipes and waits
            pass

    @property
    def _pipe(self) -> Any:
        assert self._nursery.stdin is not None
        return self._nursery.stdin

    def _read(self) -> None:
        assert self._nursery.stdout is not None
        for line in self._nursery.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def _ask(self, word: str, do: str = "", **more: Any) -> dict[str, Any]:
        try:
            self._pipe.write(json.dumps({"do": do or word, **more}).encode() + b"\n")
            self._pipe.flush()
        except BrokenPipeError:
            raise self._fallen() from None
        return self._wait(word)

    def _wait(self, word: str) -> dict[str, Any]:
        while True:
            try:
                answer = self._answers.get(timeout=ANSWER_S)
            except queue.Empty:
                raise self._fallen() from None
            self._note(answer)
            if answer is not None and word in answer:
                return answer

    def _note(self, answer: dict[str, Any] | None) -> None:
        if answer is None:
            raise self._fallen()
        if "failed" in answer:
            self.pids.pop(answer["failed"], None)
            if answer["full"]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            text = answer["error"].strip()
            raise ProcessFailed(f"Process {answer['failed']} failed: {text[-_ERRORS_SHOWN:]}", answer["hint"])
        if "ended" in answer and self.pids.get(answer["ended"]) == answer["pid"]:
            del self.pids[answer["ended"]]

    def _fallen(self) -> ProcessFailed:
        told = ""
        with suppress(OSError):
            told = self._log.read_text(errors="replace")[-_ERRORS_SHOWN:].strip()
        return ProcessFailed("The process that starts all others has ended.", told)
