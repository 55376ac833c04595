"""The supervisor: a small process between us and a command, which starts the command and ends it.

Run as a program, one for each command. It reads orders from its control socket, one a line, and writes
answers:

    in:   a JSON object, see `SupervisedCommand.start`; then `trust SECONDS`, `stop`, `kill`, `signal NUMBER`
    out:  `started PID` or `refused ERRNO`, `ended WAITSTATUS WHY`

What it promises:
- The command does not outlive our process, its owner: when the socket closes, the supervisor ends everything
  below itself.
- The command does not outlive its trust: without a later `trust` the cancel ladder begins by itself, even
  while the owner is stopped or hangs in a call. After a jump of the clock (a suspended machine, a stopped
  supervisor) missed rungs are skipped.
- It answers `ended` only when nothing that the command started is alive. On Linux that includes daemons,
  which the supervisor adopts (PR_SET_CHILD_SUBREAPER); elsewhere it is the command's process group.

Not promised: that a process which changed its user or hangs in the kernel can be killed. Then there is no
`ended`. If somebody kills the supervisor, the command dies with it, and the owner kills what the command had
started, as far as that is in its session or has its environment.

Only the standard library, and little of it: a run may wait for the supervisor to start.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

#: The same as in `process.clock`, which this program cannot import.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: How long the rest of a command that has ended may clean up.
LINGER_S = 0.5
#: How late a machine that was suspended notices the end of trust; how often a kill is repeated.
TICK_S, KILL_AGAIN_S, KILL_AGAIN_MAX_S = 0.5, 0.02, 1.0

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: Signals meant for the command. The supervisor must survive them.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU)
_RUNGS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def now_s() -> float:
    """Seconds on the clock of `process.clock`."""
    return time.clock_gettime(CLOCK)


def descendants(root: int) -> list[int]:
    """Every living process below `root`."""
    children: dict[int, list[int]] = {}
    for pid, stat in _processes():
        children.setdefault(int(stat[1]), []).append(pid)
    below, queue = [], [root]
    while queue:
        found = children.get(queue.pop(), [])
        below += found
        queue += found
    return below


def members(leader: int) -> list[int]:
    """The living processes of the group and of the session that `leader` began."""
    return [pid for pid, stat in _processes() if str(leader) in stat[2:4]]


def marked(variable: str) -> list[int]:
    """The living processes with this `NAME=value` in the environment they were started with."""
    found = []
    for pid, _ in _processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            if os.fsencode(variable) in file.read().split(b"\0"):
                found.append(pid)
    return found


def signal_each(pids: list[int], number: int) -> None:
    """Send a signal to each process that is alive and that we may signal."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _processes() -> list[tuple[int, list[str]]]:
    """All living processes; empty on systems other than Linux."""
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  (quick start)
    except OSError:
        return []
    return [(pid, stat) for pid in numbers if (stat := process_stat(pid)) is not None]


def process_stat(pid: int) -> list[str] | None:
    """State, parent, group, session and the further fields of a living process; None once it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields if fields and fields[0] not in "ZX" else None


def begun(pid: int) -> str | None:
    """When a living process began, in ticks: distinguishes it from a later one with the same number."""
    stat = process_stat(pid)
    return None if stat is None else stat[19]


class Supervisor:
    """One command, from its start to the death of the last process it left."""

    def __init__(self, control: int) -> None:
        os.set_inheritable(control, False)  # else the command would keep it open after our death
        self._control = control
        self._unread = b""
        self._orders: list[str] = []
        self._pid = 0
        self._foreground = False
        #: The rungs of the ladder: seconds after it begins, and the signal.
        self._ladder: list[tuple[float, signal.Signals]] = []
        self._trust_s: float | None = None
        self._rungs: list[tuple[float, signal.Signals]] = []
        self._stopped_by = "-"
        self._status: int | None = None
        #: When to kill what is left, once the command itself or the owner is gone.
        self._kill_s: float | None = None
        self._kill_again_s = KILL_AGAIN_S
        self._owner_gone = False
        self._wake, wake_in = os.pipe()
        for end in (self._wake, wake_in):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        for number in _IGNORED:
            # The ladder must reach the command, also if a shell put its owner into the background.
            if signal.getsignal(number) is not signal.SIG_IGN or number in _RUNGS:
                signal.signal(number, _ignore)

    def run(self) -> None:
        """Wait for the launch, then until no process of the command is left."""
        while not self._orders:
            if not self._listen(None):
                return
        self._start(json.loads(self._orders.pop(0)))
        while not self._reaped():
            self._obey()
            self._act()
            self._listen(self._pause_s())
        self._say(f"ended {self._status} {self._stopped_by}")

    def _start(self, launch: dict[str, Any]) -> None:
        self._foreground = bool(launch["foreground"])
        interrupt_s, terminate_s = launch["ladder"]
        self._ladder = list(zip((0.0, interrupt_s, interrupt_s + terminate_s), _RUNGS, strict=True))
        self._trust_s = launch["trust_s"]
        if launch["lock"] is not None:
            # Supervisor and command share it: whoever gets it exclusively knows that both are gone.
            lock = os.open(launch["lock"], os.O_RDWR)
            fcntl.flock(lock, fcntl.LOCK_SH)
            os.set_inheritable(lock, True)
        prctl = _prctl()
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        failed, failed_in = os.pipe()
        here = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _become(launch, here, failed_in, prctl)
        os.close(failed_in)
        problem = os.read(failed, 16)
        os.close(failed)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # only the command keeps its output open
            os.dup2(nowhere, standard)
        if problem:
            self._say(f"refused {problem.decode()}")
            os._exit(0)
        self._say(f"started {self._pid}")

    # -- orders -------------------------------------------------------------------------------------

    def _listen(self, pause_s: float | None) -> bool:
        """Sleep until there is something to do; false if the owner is gone."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if not self._owner_gone:
            poll.register(self._control, select.POLLIN)
        ready = dict(poll.poll(None if pause_s is None else max(0.0, pause_s) * 1_000))
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        if self._control not in ready:
            return True
        with contextlib.suppress(OSError):
            if received := os.read(self._control, 65536):
                *lines, self._unread = (self._unread + received).split(b"\n")
                self._orders += [line.decode() for line in lines]
                return True
        self._owner_gone = True
        return False

    def _obey(self) -> None:
        for order in self._orders:
            match order.split():
                case ["trust", until_s]:
                    self._trust_s = float(until_s)
                case ["stop"]:
                    self._climb(now_s(), "stop")
                case ["kill"]:
                    self._climb(now_s() - self._ladder[-1][0], "stop")
                case ["signal", number]:
                    self._signal(int(number))
                case unknown:
                    raise AssertionError(f"no such order: {unknown}")
        self._orders.clear()

    # -- the command --------------------------------------------------------------------------------

    def _act(self) -> None:
        now = now_s()
        if self._status is not None or self._owner_gone:
            self._end_all()
        elif self._trust_s is not None and self._trust_s <= now:
            self._climb(self._trust_s, "trust")
        due = [rung for rung in self._rungs if rung[0] <= now]
        if due:
            self._rungs = self._rungs[len(due) :]
            number = due[-1][1]  # after a jump of the clock, only the last one
            self._signal(number)
            if number is signal.SIGKILL:
                self._kill_s = now
        if self._kill_s is not None and self._kill_s <= now:
            self._kill_s = now + self._kill_again_s
            self._kill_again_s = min(2 * self._kill_again_s, KILL_AGAIN_MAX_S)
            self._signal(signal.SIGKILL)
            signal_each(descendants(os.getpid()), signal.SIGKILL)

    def _climb(self, begin_s: float, why: str) -> None:
        """Begin the ladder at `begin_s`, unless it began earlier."""
        rungs = [(begin_s + after_s, number) for after_s, number in self._ladder]
        if self._stopped_by == "-":
            self._stopped_by, self._rungs = why, rungs
        elif self._rungs and rungs[-1][0] < self._rungs[-1][0]:
            self._rungs = rungs[-len(self._rungs) :]

    def _end_all(self) -> None:
        """Send SIGTERM to what is left, and set the time of its SIGKILL."""
        if self._kill_s is None:
            self._kill_s = now_s() + LINGER_S
            left = descendants(os.getpid())
            signal_each(left, signal.SIGTERM)
            signal_each(left, signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """Signal the command's group. Once the command is reaped, its number may be another's."""
        if self._status is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)
            os.killpg(self._pid, signal.SIGCONT)  # a stopped process gets no other signal

    def _reaped(self) -> bool:
        """Reap processes that have ended; true when none is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return False
                if os.WIFSTOPPED(status):
                    # After Ctrl-Z nobody could resume it: the shell waits for the owner.
                    if self._foreground and os.WSTOPSIG(status) == signal.SIGTSTP:
                        self._signal(signal.SIGCONT)
                elif pid == self._pid:
                    self._status = status
        except ChildProcessError:
            return True

    def _pause_s(self) -> float:
        times = [TICK_S]
        if self._kill_s is not None:
            times.append(self._kill_s - now_s())
        elif self._rungs:
            times.append(self._rungs[0][0] - now_s())
        elif self._trust_s is not None:
            times.append(self._trust_s - now_s())
        return min(times)

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._control, line.encode() + b"\n")


def _become(launch: dict[str, Any], parent: int, failed: int, prctl: Any) -> NoReturn:
    """In the new process: own group, default signal settings, then the command's program."""
    try:
        if launch["foreground"]:
            os.setpgid(0, 0)
            if launch["terminal"]:
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
                os.tcsetpgrp(0, os.getpid())
        else:
            os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        for number in signal.valid_signals():
            if signal.getsignal(number) is _ignore or number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if launch["cwd"] is not None:
            os.chdir(launch["cwd"])
        os.execvpe(launch["command"][0], launch["command"], launch["env"])  # noqa: S606  (no shell is meant)
    except OSError as error:
        os.write(failed, str(error.errno).encode())
    finally:
        os._exit(127)


def _ignore(*_: object) -> None:
    """Used instead of SIG_IGN, which a started program would inherit."""


def _prctl() -> Any:
    try:
        return ctypes.CDLL(None).prctl
    except AttributeError:  # not Linux
        return lambda *_: -1


if __name__ == "__main__":
    Supervisor(int(sys.argv[1])).run()
