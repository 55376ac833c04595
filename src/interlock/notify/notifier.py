"""Runs the user's commands for due notices, one after another, outside of all transactions.

Each command runs at least once for each of its events. It is retried if it fails (a few times, with
back-off), and if its sweeper dies before it has recorded the end in the store. While one process runs it, no
other does, unless that process is suspended for longer than the lease. So a command should be idempotent: the
event's `seq` identifies a repetition.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from interlock.core.errors import InterlockError
from interlock.core.notices import TIMEOUT_S
from interlock.service.contract import NoticeView, Service, to_json

#: The most notices of one poll, because a sweeper has other work too.
AT_ONCE = 20
EVERY_S = 5.0
_ERROR_BYTES = 2_000


class Notifier:
    """Runs commands by the names of their notices."""

    def __init__(
        self,
        service: Service,
        commands: Mapping[str, tuple[str, ...]],
        *,
        directory: Path,
        tell: Callable[[str], None],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._service = service
        self._commands = commands
        self._directory = directory
        self._tell = tell
        self._timeout_s = timeout_s

    def run(self) -> int:
        """Run the commands of due notices; returns their number."""
        ran = 0
        for name, command in self._commands.items():
            while ran < AT_ONCE and (notice := self._service.next_notice(name)) is not None:
                error = run_command(command, notice, self._directory, self._timeout_s)
                ran += 1
                self._service.end_notice(notice, error=error)
                if error is not None:
                    self._tell(f"{name} failed for event {notice.event.seq}: {error}")
        return ran

    def start(self) -> None:
        """Run due notices every few seconds in the background, until this process ends."""
        if self._commands:
            threading.Thread(target=self._loop, name="interlock-notify", daemon=True).start()

    def _loop(self) -> None:
        wait = threading.Event()
        while True:
            with suppress(InterlockError):  # the store may be unreachable; the next poll retries
                self.run()
            wait.wait(EVERY_S)


def run_command(
    command: tuple[str, ...], notice: NoticeView, directory: Path, timeout_s: float = TIMEOUT_S
) -> str | None:
    """Run a command with a notice on its standard input; returns the problem, if any."""
    told = {"notice": notice.name, "attempt": notice.attempt, "event": notice.event, "item": notice.item}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(json.dumps(to_json(told)).encode() + b"\n")
        given.seek(0)
        try:
            # Files instead of pipes: processes that the command leaves running cannot block us.
            process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        except OSError as error:
            return f"{command[0]} cannot be run: {error.strerror}."
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return f"It took longer than {timeout_s:g} s and was killed."
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return None if code == 0 else f"It ended with {code}. {_tail(said)}".strip()


def _tail(said: BinaryIO) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - _ERROR_BYTES))
    text = said.read().decode(errors="replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return " ".join(text.split())
