"""A supervised command: it never outlives its lease, nor the process that started it.

The command runs in its own session, below a small process (`process.supervisor`). That process ends it when
our process dies, when its lease is not renewed in time, or when we request it. `follow` returns only when no
process of the command is alive, so an item is not released while a process still works on it.

Not promised: that the output survives our own death, nor that every process can be killed. `follow` does not
return while a process lives that the system does not let us kill.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.core.errors import CommandUnusable, InvalidInput
from interlock.process import supervisor
from interlock.process.ladder import Ladder

#: How long a signal may go unnoticed. Python runs a handler only when the main thread continues, and a signal
#: just before that thread begins to wait for a command does not wake it.
SIGNAL_POLL_S = 1.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandExit:
    """How a command ended. None of its processes is alive."""

    #: 0 to 255, or minus the number of the signal that killed it.
    code: int
    #: Why the ladder began: `stop` (we requested it), `lease` (it was not renewed in time); else None.
    stopped_by: str | None


class SupervisedCommand:
    """One command, from its start to the death of the last process that it started.

    If it is created ahead of time, its supervisor waits for the command, and the slow part of the start is
    done. Any thread may call `extend`, `stop`, `kill` and `signal`; they never block.
    """

    def __init__(self, *, foreground: bool = False, inherited: Sequence[int] = ()) -> None:
        """With `foreground` the command gets our standard streams and our terminal, if there is one.

        The command and its supervisor inherit the descriptors `inherited`.
        """
        self._foreground = foreground
        self._gave_terminal = False
        #: A variable in the environment of the command and of all processes that it starts.
        self._mark = ""
        ours, theirs = socket.socketpair()
        pipe = None if foreground else subprocess.PIPE
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                stdin=None if foreground else subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                bufsize=0,
                pass_fds=(theirs.fileno(), *inherited),
                start_new_session=not foreground,
                process_group=0 if foreground else None,
            )
        ours.setblocking(False)
        self._control = ours
        self._one_order = threading.Lock()
        self._unread = b""
        self._ended: str | None = None
        #: The process number of the supervisor.
        self.supervisor = self._process.pid
        #: The command's process and group; None until it has started.
        self.pid: int | None = None

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        ladder: Ladder,
        run_until_s: float | None = None,
        cwd: Path | None = None,
        lock: Path | None = None,
    ) -> None:
        """Start the command and return when it runs. After `CommandUnusable` no process runs.

        At `run_until_s`, on the clock of `now_s`, the ladder begins by itself. The command and its
        supervisor hold a shared OS lock on the file `lock` while they live.
        """
        self._mark = f"INTERLOCK_RUN={env.get('INTERLOCK_RUN')}"
        self._gave_terminal = self._foreground and _has_terminal()
        launch = {
            "command": list(command),
            "env": dict(env),
            "cwd": None if cwd is None else str(cwd),
            "lock": None if lock is None else str(lock),
            "ladder": (ladder.interrupt_s, ladder.terminate_s),
            "run_until_s": run_until_s,
            "foreground": self._foreground,
            "terminal": self._gave_terminal,
        }
        self._wake()
        self._control.setblocking(True)
        try:
            self._control.sendall(json.dumps(launch).encode() + b"\n")
            while self.pid is None and self._ended is None:
                self._read_answers(command[0])
        except OSError:
            self._ended = self._ended or "died"
        finally:
            self._control.setblocking(False)
        if self.pid is None:
            raise CommandUnusable(
                "The supervisor of the command ended before it could start it.",
                "Check whether this machine is out of memory or of processes.",
            )

    def extend(self, until_s: float) -> None:
        """The lease was renewed: the ladder now begins by itself at `until_s`."""
        self._order(f"extend {until_s!r}")

    def stop(self) -> None:
        """Begin the ladder."""
        self._order("stop")

    def kill(self) -> None:
        """Take the last step of the ladder at once."""
        self._order("kill")

    def signal(self, number: int) -> None:
        """Send a signal to the command's group."""
        self._order(f"signal {int(number)}")

    def follow(self, take: Callable[[str, bytes], None] | None = None) -> CommandExit:
        """Read the command's output into `take(stream, data)` until none of its processes is alive."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            for name, stream in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, name)
            while (ready := selector.select(0 if self._ended else SIGNAL_POLL_S)) or self._ended is None:
                for key, _ in ready:
                    if key.data is None:
                        self._read_answers()
                        if self._ended is not None:
                            selector.unregister(self._control)
                        if self._ended == "died":
                            self._kill_rest()
                    elif data := os.read(key.fd, _READ_BYTES):
                        if take is not None:
                            take(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
        return self._ending()

    def close(self) -> None:
        """Close the connection. The supervisor ends the processes that still run."""
        with self._one_order:
            self._control.close()
        self._wake()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._process.wait()

    def _order(self, line: str) -> None:
        """Send the supervisor an order; never blocks."""
        self._wake()
        with self._one_order, contextlib.suppress(OSError):
            self._control.send(line.encode() + b"\n")

    def _wake(self) -> None:
        """Resume the supervisor if it was stopped: only the supervisor ends the command."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)

    def _read_answers(self, program: str = "") -> None:
        try:
            received = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._ended = self._ended or "died"
            return
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            match line.decode().split():
                case ["started", pid]:
                    self.pid = int(pid)
                case ["refused", number]:
                    self._ended = "refused"
                    raise unusable(program, os.strerror(int(number)))
                case ["ended", status, why]:
                    self._ended = f"{status} {why}"
                case unknown:
                    raise AssertionError(f"no such answer: {unknown}")

    def _kill_rest(self) -> None:
        """After the supervisor was killed: kill the processes that the command started, and wait for their
        end.

        The command itself died with its supervisor (PR_SET_PDEATHSIG).
        """
        assert self.pid is not None
        pause_s = 0.005
        while left := [*supervisor.members(self.pid), *supervisor.marked(self._mark)]:
            supervisor.signal_each(left, signal.SIGKILL)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, supervisor.KILL_AGAIN_MAX_S)

    def _ending(self) -> CommandExit:
        assert self._ended is not None and self.pid is not None
        self._process.wait()
        if self._gave_terminal:
            _take_terminal()
        if self._ended == "died":
            return CommandExit(code=-signal.SIGKILL, stopped_by=None)
        status, why = self._ended.split()
        return CommandExit(
            code=os.waitstatus_to_exitcode(int(status)), stopped_by=None if why == "-" else why
        )


def unusable(
    program: str,
    why: str,
    hint: str = "Check its spelling, PATH and permissions; everything after -- is the command.",
) -> CommandUnusable:
    """The error for a program that is missing or may not be run."""
    return CommandUnusable(f"The command {program!r} cannot be started: {why[:1].lower()}{why[1:]}.", hint)


def in_worktree(command: Sequence[str], worktree: Path) -> Sequence[str]:
    """The command with a path that works for a run in a worktree; raises if it is missing.

    A relative path names the file in the worktree, else the file in the worker's own directory. So a script
    need not be committed.
    """
    program = Path(command[0])
    if "/" not in command[0] or program.is_absolute() or (worktree / program).exists():
        return command
    if not program.exists():
        raise not_in_worktree(command[0])
    return (str(program.absolute()), *command[1:])


def not_in_worktree(program: str) -> CommandUnusable:
    return unusable(
        program,
        "it is neither in the worktree nor where the worker was started",
        "Commit it, or give its absolute path.",
    )


def check_command(command: Sequence[str], *, here: bool = False) -> None:
    """Raise if the command does not exist. A relative path may still exist in a worktree, unless the command
    runs `here`."""
    if not command or not command[0]:
        raise InvalidInput("There is no command.", "Put it after --, as in -- ./agent.sh.")
    program = command[0]
    if (here or "/" not in program or Path(program).is_absolute()) and shutil.which(program) is None:
        raise unusable(program, "permission denied" if Path(program).exists() else "program not found")


def _has_terminal() -> bool:
    """Whether we have a terminal to give to a command."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _take_terminal() -> None:
    """Take the terminal back from a command that has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    with contextlib.suppress(OSError):
        os.tcsetpgrp(0, os.getpgrp())
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
