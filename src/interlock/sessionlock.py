"""Session locks: one process of this host at a time works on the session of an issue or pull request.

`.interlock/locks/<number>.lock` says in JSON who holds it; an OS lock on that file (flock) says *that* it is
held. The system takes the OS lock back when the holder dies in whatever way, so nothing is ever judged by its
age or by a process number: those are used again. A file that cannot be read counts as held while its OS lock
is, else it is replaced.

Every change is made under a short lock on the directory. Otherwise whoever unlinks a file could unlink that
of the next holder, which came to be between the look and the deed.

The OS lock is taken by hand: it goes on to other processes with its descriptor (the command that runs under
it, the keeper that holds it for a shell), which the library for file locks does not let us have, and a file
system without such locks is to be refused, not worked around.

Not promised: anything between hosts. Runners of hosted CI share no disk; there a lane is needed
(`interlock hold`). Nor anything against a person who deletes the file of a holder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interlock import sessionkeeper
from interlock.core.errors import Held, InterlockError, InvalidInput
from interlock.core.names import check_name
from interlock.settings import DIRECTORY, make_home

#: What is done under the directory's lock takes a fraction of this, unless its process was stopped there.
GUARD_WAIT_S, GUARD_LOOK_S = 5.0, 0.005
CONTENT_MAX_BYTES = 4096
NUMBER_MAX = 10**15
_NAME = re.compile(r"([1-9][0-9]{0,14})\.lock", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """One lock file, and what the system says of it."""

    number: int
    held: bool
    #: What the file says; null where it cannot be read.
    run_id: str | None
    acquired_at: datetime | None
    pid: int | None
    #: The process with whose end it becomes free, where another keeps it for that one.
    until_pid: int | None


class SessionLocks:
    """The locks of one repository."""

    def __init__(self, root: Path) -> None:
        """`root` holds the directory `.interlock`; see `settings.repository_root`."""
        self._home = root / DIRECTORY
        self.directory = self._home / "locks"

    def acquire(self, number: int, run_id: str) -> SessionLock:
        """Lock a session for a run; raises `Held` if another holds it. Never waits for it."""
        path = self.path(number)
        check_name("run id", run_id)
        self._make()
        with self._guarded():
            lock = _open(path, os.O_CREAT)
            try:
                if not _take(lock):
                    raise _locked(_status(number, lock, held=True))
                held = SessionLock(self, number, run_id, lock)
                held.sign(os.getpid())
            except BaseException:
                os.close(lock)
                raise
        return held

    def unlock(self, number: int, run_id: str) -> bool:
        """Take a run's lock from whatever process keeps it for the run; false if nobody held it.

        Raises `Held` if it is another run's, or if the file does not say whose it is.
        """
        path = self.path(number)
        check_name("run id", run_id)
        if not path.exists():
            return False
        with self._guarded(), _opened(path) as lock:
            if lock is None:
                return False
            held = not _take(lock)
            if held and (status := _status(number, lock, held=True)).run_id != run_id:
                raise _locked(status)
            # Whoever keeps the lock keeps it on a file without a name, which excludes nobody.
            path.unlink()
            return held

    def forget(self, lock: SessionLock) -> None:
        """Remove the file of a lock that is about to be released."""
        with self._guarded():
            if not lock.taken:
                self.path(lock.number).unlink()

    def clean(self) -> list[int]:
        """Remove the files that nobody holds; their numbers."""
        removed = []
        if self.directory.is_dir():
            with self._guarded():
                for number, path in self._files():
                    with _opened(path) as lock:
                        if lock is not None and _take(lock):
                            path.unlink()
                            removed.append(number)
        return removed

    def status(self, only: int | None = None) -> list[LockView]:
        """Every lock file, or only that of one session; lowest number first."""
        found = []
        wanted = None if only is None else self.path(only)
        if self.directory.is_dir():
            with self._guarded():
                for number, path in self._files():
                    if wanted not in (None, path):
                        continue
                    with _opened(path) as lock:
                        if lock is not None:
                            found.append(_status(number, lock, held=not _take(lock)))
        return found

    def path(self, number: int) -> Path:
        """The file of a session's lock."""
        if type(number) is not int or not 0 < number < NUMBER_MAX:
            raise InvalidInput(
                f"The number {number!r} is not that of an issue or pull request.",
                "Use a whole number from 1.",
            )
        return self.directory / f"{number}.lock"

    def _files(self) -> list[tuple[int, Path]]:
        names = ((_NAME.fullmatch(path.name), path) for path in self.directory.iterdir())
        return sorted((int(match[1]), path) for match, path in names if match is not None)

    def _make(self) -> None:
        try:
            make_home(self._home)
            self.directory.mkdir(exist_ok=True)
        except OSError as error:
            raise InterlockError(
                f"{self.directory} cannot be made: {error.strerror}.",
                "Mend the permissions of the directory.",
            ) from None

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Alone with the directory."""
        guard = _open(self.directory / ".guard", os.O_CREAT)
        try:
            give_up_s = time.monotonic() + GUARD_WAIT_S
            while not _take(guard):
                if time.monotonic() > give_up_s:
                    raise InterlockError(
                        f"Another process keeps {self.directory} locked for more than {GUARD_WAIT_S:g} s.",
                        "Look for a stopped process that has its file .guard open (`fuser`).",
                    )
                time.sleep(GUARD_LOOK_S)
            yield
        finally:
            _free(guard)


class SessionLock:
    """A lock that is held. Leaving its `with` block releases it, and so does the end of the process."""

    def __init__(self, locks: SessionLocks, number: int, run_id: str, lock: int) -> None:
        self._locks = locks
        self.number = number
        self.run_id = run_id
        self.acquired_at = datetime.now(UTC)
        #: The open file whose OS lock it is. A process that inherits it holds the lock too.
        self.descriptor = lock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def sign(self, pid: int, *, until_pid: int | None = None) -> None:
        """Write down who holds it: this run, in that process, for the length of another if one is given."""
        content = {
            "issueNumber": self.number,
            "runId": self.run_id,
            "acquiredAt": self.acquired_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "pid": pid,
        } | ({} if until_pid is None else {"untilPid": until_pid})
        data = json.dumps(content, indent=2).encode() + b"\n"
        os.pwrite(self.descriptor, data, 0)
        os.ftruncate(self.descriptor, len(data))

    def release(self) -> None:
        """Free it for others and remove the file, unless it was taken from us already."""
        try:
            if not self.taken:
                self._locks.forget(self)
        finally:
            _free(self.descriptor)

    @property
    def taken(self) -> bool:
        """Whether the file under our name is not ours any more: somebody unlocked it for our run."""
        try:
            found = self._locks.path(self.number).lstat()
        except FileNotFoundError:
            return True
        return not os.path.samestat(found, os.fstat(self.descriptor))


def lock_until(locks: SessionLocks, number: int, run_id: str, pid: int) -> int:
    """Lock a session until `pid` has ended or it is unlocked; the number of the process that keeps it.

    Where it is kept for the same run and the same process already, that is all there is to do. For the run
    alone it is not: several jobs of one run may be on this host.
    """
    try:
        lock = locks.acquire(number, run_id)
    except Held:
        for view in locks.status(number):
            if view.held and view.pid and (view.run_id, view.until_pid) == (run_id, pid):
                return view.pid
        raise
    return _keep_for(lock, pid)


def _keep_for(lock: SessionLock, pid: int) -> int:
    """Hand a lock to a process that keeps it; the keeper's number."""
    try:
        return _kept(lock, _watched(pid), pid)
    except BaseException:
        lock.release()
        raise


def _watched(pid: int) -> int:
    """A pidfd, or -1 where the system has none."""
    try:
        if pid > 0 and hasattr(os, "pidfd_open"):
            return os.pidfd_open(pid)
        if pid > 0:
            os.kill(pid, 0)
            return -1
    except PermissionError:
        return -1  # it is there, and another's
    except (OSError, OverflowError):
        pass
    raise InvalidInput(f"There is no process {pid}.", "Name one that lives as long as the lock.")


def _kept(lock: SessionLock, watched: int, pid: int) -> int:
    inherited = [fd for fd in (lock.descriptor, watched) if fd >= 0]
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", sessionkeeper.__file__, *map(str, (lock.descriptor, watched, pid))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        pass_fds=inherited,
        start_new_session=True,
    )
    lock.sign(keeper.pid, until_pid=pid)
    keeper.returncode = 0  # nobody waits for it
    for descriptor in inherited:
        os.close(descriptor)
    return keeper.pid


def run_under(lock: SessionLock, command: Sequence[str]) -> int:
    """Run a command that holds the lock as well, so that it is free only when nothing of it is alive; its
    exit code."""
    from interlock.agent import Agent, Ladder  # noqa: PLC0415  (only where a command runs)
    from interlock.handover import Signals  # noqa: PLC0415

    with lock, Signals() as signals:
        agent = Agent(foreground=True, inherited=(lock.descriptor,))
        try:
            with signals.handed_to(agent):
                agent.start(command, env=os.environ, ladder=Ladder())
                code = agent.follow().code
        finally:
            agent.close()
    return code if code >= 0 else 128 - code


def _open(path: Path, flags: int = 0) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o644)
    except OSError as error:
        raise InterlockError(
            f"{path} cannot be opened: {error.strerror}.", "Mend or remove what is in its place."
        ) from None


def _free(lock: int) -> None:
    """Let go of an OS lock for everybody who inherited it: what a command left behind holds nothing."""
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise InterlockError(
            f"The system refuses to lock a file there: {error.strerror}.", "Use a file system that has locks."
        ) from None
    return True


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """A lock file, or none if it is gone or is not a file."""
    try:
        lock = _open(path)
    except InterlockError:
        yield None
        return
    try:
        yield lock
    finally:
        _free(lock)


def _status(number: int, lock: int, *, held: bool) -> LockView:
    run_id, acquired_at, pid, until_pid = _read(os.pread(lock, CONTENT_MAX_BYTES, 0))
    return LockView(
        number=number, held=held, run_id=run_id, acquired_at=acquired_at, pid=pid, until_pid=until_pid
    )


def _read(data: bytes) -> tuple[str | None, datetime | None, int | None, int | None]:
    unreadable = None, None, None, None
    try:
        content: Any = json.loads(data)
        run_id, pid, until_pid = content["runId"], content["pid"], content.get("untilPid")
        acquired_at = datetime.fromisoformat(content["acquiredAt"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return unreadable
    if not isinstance(run_id, str) or not isinstance(pid, int) or acquired_at.tzinfo is None:
        return unreadable
    return run_id, acquired_at, pid, until_pid if isinstance(until_pid, int) else None


def _locked(status: LockView) -> Held:
    number = status.number
    if status.run_id is None or status.acquired_at is None:
        return Held(
            f"Session {number} is locked, but its file does not say by whom.",
            f"fuser .interlock/locks/{number}.lock names the process; the lock ends with it.",
        )
    process = status.pid if status.until_pid is None else status.until_pid
    since = f"{status.acquired_at.astimezone():%Y-%m-%d %H:%M:%S}"
    return Held(
        f"Session {number} is locked by run {status.run_id} (process {process}) since {since}.",
        f"It is free when process {process} ends, or after interlock session unlock {number} --run-id"
        f" {status.run_id}.",
    )
