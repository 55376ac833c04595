"""An agent: a command that runs under a lease, and the cancel ladder that ends it.

The command runs in a session of its own, below a small process (`process.supervisor`) that ends it when
its worker dies, when its trust runs out, or when it is told to. An ending is reported only when nothing that
the command started is alive any more: so nobody gives an item away while a process still works on it.

Not promised: that output of an agent whose worker died is kept, nor that a process can be killed that the
system does not let us kill. Then there is no ending.
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
from interlock.settings import CANCEL_INTERRUPT_S, CANCEL_TERMINATE_S

now_s = supervisor.now_s

#: Python calls a signal's handler when the main thread goes on. One that comes just before that thread begins
#: to wait for a command is heard after so long.
HEARKEN_S = 1.0
#: A ladder takes at most this share of its lease, and trust ends a margin before that: the store's clock may
#: run faster than ours, and a kill takes its time.
LADDER_SHARE, MARGIN_SHARE, MARGIN_MAX_S = 1 / 4, 1 / 20, 2.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """How an agent is asked to end: SIGINT, a while, SIGTERM, a while, SIGKILL to its whole group."""

    interrupt_s: float = CANCEL_INTERRUPT_S
    terminate_s: float = CANCEL_TERMINATE_S

    @property
    def total_s(self) -> float:
        return self.interrupt_s + self.terminate_s

    def within(self, lease_s: float) -> Ladder:
        """The same ladder, shortened in proportion where the lease is short."""
        share = min(1.0, lease_s * LADDER_SHARE / self.total_s)
        return Ladder(interrupt_s=share * self.interrupt_s, terminate_s=share * self.terminate_s)

    def trust_s(self, lease_s: float) -> float:
        """How long after the sending of a renewal an agent may go on without the next one."""
        return lease_s - self.total_s - min(MARGIN_SHARE * lease_s, MARGIN_MAX_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an agent ended. Nothing of it is alive."""

    #: As a shell has it: 0 to 255, or minus the signal's number.
    code: int
    #: Why the ladder began: `stop` (asked to), `trust` (its lease could not be renewed); else None.
    stopped_by: str | None


class Agent:
    """One command, from its start to the death of the last process it started.

    Made ahead of time, it waits without a command: what is slow about a start has then happened. `trust`,
    `stop`, `kill` and `signal` may be called from any thread and never wait.
    """

    def __init__(self, *, foreground: bool = False, inherited: Sequence[int] = ()) -> None:
        """With `foreground` the command has our standard streams and, where there is one, our terminal.

        It and its supervisor inherit the descriptors that are named.
        """
        self._foreground = foreground
        self._gave_terminal = False
        #: In the environment of the command and of whatever it starts.
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
        #: The process that watches over the command.
        self.supervisor = self._process.pid
        #: The command's process and group; None until it has started.
        self.pid: int | None = None
        #: The last signal of the ladder that was sent.
        self.rung: str | None = None

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        ladder: Ladder,
        trust_until_s: float | None = None,
        cwd: Path | None = None,
        lock: Path | None = None,
    ) -> None:
        """Start the command; returns when it runs. Raises `CommandUnusable`, and then nothing runs.

        `trust_until_s` is when the ladder begins by itself, on the clock of `now_s`. `lock` is a file on
        which the command and its supervisor hold a shared OS lock for as long as they live.
        """
        self._mark = f"INTERLOCK_RUN={env.get('INTERLOCK_RUN')}"
        self._gave_terminal = self._foreground and _has_terminal()
        launch = {
            "command": list(command),
            "env": dict(env),
            "cwd": None if cwd is None else str(cwd),
            "lock": None if lock is None else str(lock),
            "ladder": (ladder.interrupt_s, ladder.terminate_s),
            "trust_s": trust_until_s,
            "foreground": self._foreground,
            "terminal": self._gave_terminal,
        }
        self._wake()
        self._control.setblocking(True)
        try:
            self._control.sendall(json.dumps(launch).encode() + b"\n")
            while self.pid is None and self._ended is None:
                self._hear(command[0])
        except OSError:
            self._ended = self._ended or "died"
        finally:
            self._control.setblocking(False)
        if self.pid is None:
            raise CommandUnusable(
                "The process that watches over the command ended before it could start it.",
                "Look for a lack of memory or of processes on this machine.",
            )

    def trust(self, until_s: float) -> None:
        """The lease was renewed: the ladder begins by itself only then."""
        self._order(f"trust {until_s!r}")

    def stop(self) -> None:
        """Begin the ladder."""
        self._order("stop")

    def kill(self) -> None:
        """Take the last step of the ladder at once."""
        self._order("kill")

    def signal(self, number: int) -> None:
        """Hand a signal on to the command's group."""
        self._order(f"signal {int(number)}")

    def follow(self, take: Callable[[str, bytes], None] | None = None) -> Ending:
        """Read the command's output into `take(stream, data)` until nothing of it is alive."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            for name, stream in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, name)
            while (ready := selector.select(0 if self._ended else HEARKEN_S)) or self._ended is None:
                for key, _ in ready:
                    if key.data is None:
                        self._hear()
                        if self._ended is not None:
                            selector.unregister(self._control)
                        if self._ended == "died":
                            self._bury()
                    elif data := os.read(key.fd, _READ_BYTES):
                        if take is not None:
                            take(key.data, data)
                    else:
                        selector.unregister(key.fileobj)
        return self._ending()

    def close(self) -> None:
        """Let go of it. What still runs is ended by the supervisor."""
        with self._one_order:
            self._control.close()
        self._wake()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._process.wait()

    def _order(self, line: str) -> None:
        """Tell the supervisor; never waits."""
        self._wake()
        with self._one_order, contextlib.suppress(OSError):
            self._control.send(line.encode() + b"\n")

    def _wake(self) -> None:
        """Whoever stopped the supervisor stopped the wrong process: nothing would end the command."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGCONT)

    def _hear(self, program: str = "") -> None:
        try:
            heard = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if not heard:
            self._ended = self._ended or "died"
            return
        *lines, self._unread = (self._unread + heard).split(b"\n")
        for line in lines:
            match line.decode().split():
                case ["started", pid]:
                    self.pid = int(pid)
                case ["refused", number]:
                    self._ended = "refused"
                    raise unusable(program, os.strerror(int(number)))
                case ["rung", name]:
                    self.rung = name
                case ["ended", status, why]:
                    self._ended = f"{status} {why}"
                case unknown:
                    raise AssertionError(f"no such answer: {unknown}")

    def _bury(self) -> None:
        """Kill what a supervisor that was killed itself left of the agent, and wait until it is gone.

        The agent died with its supervisor (PR_SET_PDEATHSIG); what it had started may still be there.
        """
        assert self.pid is not None
        pause_s = 0.005
        while left := [*supervisor.members(self.pid), *supervisor.marked(self._mark)]:
            supervisor.signal_each(left, signal.SIGKILL)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, supervisor.KILL_AGAIN_MAX_S)

    def _ending(self) -> Ending:
        assert self._ended is not None and self.pid is not None
        self._process.wait()
        if self._gave_terminal:
            _take_terminal()
        if self._ended == "died":
            return Ending(code=-signal.SIGKILL, stopped_by=None)
        status, why = self._ended.split()
        return Ending(code=os.waitstatus_to_exitcode(int(status)), stopped_by=None if why == "-" else why)


def unusable(
    program: str,
    why: str,
    hint: str = "Check its spelling, PATH and permissions; everything after -- is the command.",
) -> CommandUnusable:
    """The error for a program that is not there or may not be run."""
    return CommandUnusable(f"The command {program!r} cannot be started: {why[:1].lower()}{why[1:]}.", hint)


def in_worktree(command: Sequence[str], worktree: Path) -> Sequence[str]:
    """The command as a run in a worktree finds it; raises where it does not.

    A relative path means the file in the worktree. Where that has none it means the one that the worker sees:
    a script need not be committed to be used.
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
    """Raise if the command is missing. A relative path may still appear in a worktree, unless it is to run
    `here`."""
    if not command or not command[0]:
        raise InvalidInput("There is no command.", "Put it after --, as in -- ./agent.sh.")
    program = command[0]
    if (here or "/" not in program or Path(program).is_absolute()) and shutil.which(program) is None:
        raise unusable(program, "permission denied" if Path(program).exists() else "there is no such program")


def _has_terminal() -> bool:
    """Whether the terminal is ours to give."""
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
