"""The supervisor: a small process between us and a command, which starts and ends the command.

It runs as a program, one for each command. It reads orders from its control socket, one per line, and writes
answers:

    in:   a JSON object, see `SupervisedCommand.start`; then `extend SECONDS`, `stop`, `kill`, `signal NUMBER`
    out:  `started PID` or `refused ERRNO`, `ended WAITSTATUS WHY`

Promised:
- The command does not outlive our process, its owner: when the socket closes, the supervisor ends all its
  descendants.
- The command does not outlive its lease: without a later `extend` the cancel ladder begins by itself, even
  while the owner is stopped or hangs in a call. After a jump of the clock (a suspended machine, a stopped
  supervisor) missed steps are skipped.
- It answers `ended` only when no process of the command is alive. On Linux that includes daemons, which the
  supervisor adopts (PR_SET_CHILD_SUBREAPER); elsewhere it is the command's process group.

Not promised: that a process that changed its user or hangs in the kernel can be killed. Then there is no
`ended`. If the supervisor is killed, the command dies with it. The owner then kills the command's processes
that are in its session or have its environment.

It uses only a small part of the standard library, because a run may wait for the supervisor to start.
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

#: The same clock as in `process.clock`, which this program cannot import.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: How long the remaining processes of an ended command may clean up.
LINGER_S = 0.5
#: How often to check for the end of the lease, in case the machine was suspended; how often to repeat a kill.
TICK_S, KILL_AGAIN_S, KILL_AGAIN_MAX_S = 0.5, 0.02, 1.0

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: Signals for the command, which the supervisor must survive.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU)
_RUNGS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def now_s() -> float:
    """Seconds on the clock of `process.clock`."""
    return time.clock_gettime(CLOCK)


def descendants(root: int) -> list[int]:
    """All living descendants of `root`."""
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
    """The living processes of the group and the session of `leader`."""
    return [pid for pid, stat in _processes() if str(leader) in stat[2:4]]


def marked(variable: str) -> list[int]:
    """The living processes that were started with this `NAME=value` in their environment."""
    found = []
    for pid, _ in _processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            if os.fsencode(variable) in file.read().split(b"\0"):
                found.append(pid)
    return found


def signal_each(pids: list[int], number: int) -> None:
    """Send a signal to each living process that we are permitted to signal."""
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
    """The start of a living process in ticks: distinguishes it from a later one with the same number."""
    stat = process_stat(pid)
    return None if stat is None else stat[19]


class Supervisor:
    """One command, from its start to the death of the last process that it left."""

    def __init__(self, control: int) -> None:
        os.set_inheritable(control, False)  # otherwise the command would keep it open after our death
        self._control = control
        self._unread = b""
        self._orders: list[str] = []
        self._pid = 0
        self._foreground = False
        #: The steps of the ladder: seconds after its beginning, and the signal.
        self._ladder: list[tuple[float, signal.Signals]] = []
        self._run_until_s: float | None = None
        self._rungs: list[tuple[float, signal.Signals]] = []
        self._stopped_by = "-"
        self._status: int | None = None
        #: When to kill the remaining processes, once the command itself has ended or the owner is dead.
        self._kill_s: float | None = None
        self._kill_again_s = KILL_AGAIN_S
        self._owner_gone = False
        self._wake, wake_in = os.pipe()
        for end in (self._wake, wake_in):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        for number in _IGNORED:
            # The ladder must reach the command, even if a shell put its owner into the background.
            if signal.getsignal(number) is not signal.SIG_IGN or number in _RUNGS:
                signal.signal(number, _ignore)

    def run(self) -> None:
        """Wait for the launch, then until no process of the command is left."""
        while not self._orders:
            if not self._listen(None):
                return
        self._start(json.loads(self._orders.pop(0)))
        while not self._reaped():
            self._handle_orders()
            self._act()
            self._listen(self._pause_s())
        self._send(f"ended {self._status} {self._stopped_by}")

    def _start(self, launch: dict[str, Any]) -> None:
        self._foreground = bool(launch["foreground"])
        interrupt_s, terminate_s = launch["ladder"]
        self._ladder = list(zip((0.0, interrupt_s, interrupt_s + terminate_s), _RUNGS, strict=True))
        self._run_until_s = launch["run_until_s"]
        if launch["lock"] is not None:
            # Supervisor and command share it: a process that gets it exclusively knows that both are dead.
            lock = os.open(launch["lock"], os.O_RDWR)
            fcntl.flock(lock, fcntl.LOCK_SH)
            os.set_inheritable(lock, True)
        prctl = _prctl()
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        failed, failed_in = os.pipe()
        here = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _exec_command(launch, here, failed_in, prctl)
        os.close(failed_in)
        problem = os.read(failed, 16)
        os.close(failed)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # only the command keeps its output open
            os.dup2(nowhere, standard)
        if problem:
            self._send(f"refused {problem.decode()}")
            os._exit(0)
        self._send(f"started {self._pid}")

    # -- orders -------------------------------------------------------------------------------------

    def _listen(self, pause_s: float | None) -> bool:
        """Sleep until there is something to do; false if the owner is dead."""
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

    def _handle_orders(self) -> None:
        for order in self._orders:
            match order.split():
                case ["extend", until_s]:
                    self._run_until_s = float(until_s)
                case ["stop"]:
                    self._begin_ladder(now_s(), "stop")
                case ["kill"]:
                    self._begin_ladder(now_s() - self._ladder[-1][0], "stop")
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
        elif self._run_until_s is not None and self._run_until_s <= now:
            self._begin_ladder(self._run_until_s, "lease")
        due = [rung for rung in self._rungs if rung[0] <= now]
        if due:
            self._rungs = self._rungs[len(due) :]
            number = due[-1][1]  # after a jump of the clock, only the last due signal
            self._signal(number)
            if number is signal.SIGKILL:
                self._kill_s = now
        if self._kill_s is not None and self._kill_s <= now:
            self._kill_s = now + self._kill_again_s
            self._kill_again_s = min(2 * self._kill_again_s, KILL_AGAIN_MAX_S)
            self._signal(signal.SIGKILL)
            signal_each(descendants(os.getpid()), signal.SIGKILL)

    def _begin_ladder(self, begin_s: float, why: str) -> None:
        """Begin the ladder at `begin_s`, unless it began earlier."""
        rungs = [(begin_s + after_s, number) for after_s, number in self._ladder]
        if self._stopped_by == "-":
            self._stopped_by, self._rungs = why, rungs
        elif self._rungs and rungs[-1][0] < self._rungs[-1][0]:
            self._rungs = rungs[-len(self._rungs) :]

    def _end_all(self) -> None:
        """Send SIGTERM to the remaining processes, and set the time of their SIGKILL."""
        if self._kill_s is None:
            self._kill_s = now_s() + LINGER_S
            left = descendants(os.getpid())
            signal_each(left, signal.SIGTERM)
            signal_each(left, signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """Signal the command's group. Once the command is reaped, another process may have its number."""
        if self._status is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)
            os.killpg(self._pid, signal.SIGCONT)  # a stopped process gets no other signal

    def _reaped(self) -> bool:
        """Reap ended processes; true when none is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return False
                if os.WIFSTOPPED(status):
                    # After Ctrl-Z no process could resume it: the shell waits for the owner.
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
        elif self._run_until_s is not None:
            times.append(self._run_until_s - now_s())
        return min(times)

    def _send(self, line: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._control, line.encode() + b"\n")


def _exec_command(launch: dict[str, Any], parent: int, failed: int, prctl: Any) -> NoReturn:
    """Runs in the new process: own group, default signal settings, then the command's program."""
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
    """A handler that ignores the signal; a started program would inherit SIG_IGN."""


def _prctl() -> Any:
    try:
        return ctypes.CDLL(None).prctl
    except AttributeError:  # not Linux
        return lambda *_: -1


if __name__ == "__main__":
    Supervisor(int(sys.argv[1])).run()
