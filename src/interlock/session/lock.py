"""Session locks: one process of this host at a time works on the session of an issue or pull request.

`.interlock/locks/<number>.lock` names the holder in JSON. An OS lock on that file (flock) shows *that* it is
held. The system releases the OS lock on any death of the holder. So no lock is ever broken because of its age
or its process number, which the system reuses. An unreadable file counts as held while its OS lock is held;
otherwise it is replaced.

Every change is made under a short lock on the directory. Otherwise a process that unlinks a file could unlink
the file of the next holder, if that was created between its look and its unlink.

While it is held, the file has a second name, `.<number>.held`, under which it is created. If the first name
is moved, removed or replaced, the lock is still found under the second, and no other process gets it. On a
file system without hard links it has only the first name.

We take the OS lock ourselves, without a library. Other processes inherit its descriptor: the command that
runs under it, or the process that holds it for a shell. A file system without such locks is refused.

Not promised: exclusion between hosts. Runners of hosted CI share no disk; use a lane there
(`interlock hold`). Also not promised: protection from a person who deletes the whole directory of a holder.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import reprlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from interlock.core.errors import Held, InterlockError, InvalidInput
from interlock.core.names import check_name
from interlock.session import lock_holder
from interlock.session.lockfile import (
    LockView,
    check_only_name,
    free,
    is_name_of,
    open_lock,
    opened,
    publish,
    status_of,
    take,
    unlink,
    unread,
)
from interlock.settings.places import DIRECTORY, inside, make_home

#: How long to wait for the directory's lock. Its holder needs a fraction of this, unless it is suspended.
GUARD_WAIT_S, GUARD_LOOK_S = 5.0, 0.005
NUMBER_MAX = 10**15
_NAME = re.compile(r"([1-9][0-9]{0,14})\.lock|\.([1-9][0-9]{0,14})\.held", re.ASCII)


class SessionLocks:
    """The locks of one repository."""

    def __init__(self, root: Path, directory: str = "") -> None:
        """`root` holds the directory `.interlock`; see `places.repository_root`. The locks are in
        `directory`, which may be relative to the root; by default in `.interlock/locks`.

        Raises `NotTrusted` if a link leads from there out of the repository.
        """
        self._home = None if directory else root / DIRECTORY
        place = root / (Path(directory).expanduser() if directory else Path(DIRECTORY, "locks"))
        self.directory = inside(root, place)

    def acquire(self, number: int, run_id: str) -> SessionLock:
        """Lock a session for a run; raises `Held` if another holds it. Never waits."""
        path, second = self.names(number)
        check_name("run id", run_id)
        self._make()
        with self._directory_locked(), contextlib.ExitStack() as undo:
            if (status := self._held(number)) is not None:
                raise _locked(status)
            unlink(second)  # left by a holder that died
            with opened(path) as left:
                if left is not None:
                    check_only_name(path, left)
                    if not take(left):
                        raise _locked(status_of(number, left, held=True))
            lock = open_lock(second, os.O_CREAT | os.O_EXCL)
            undo.callback(free, lock)
            undo.callback(unlink, second)
            take(lock)
            held = SessionLock(self, number, run_id, lock)
            held.sign(os.getpid())
            if not publish(second, path, lock):
                raise InterlockError(
                    f"{path} was deleted while it was locked.",
                    "Nothing was locked. Stop the process that deletes files there, and try again.",
                )
            undo.pop_all()
        return held

    def unlock(self, number: int, run_id: str) -> bool:
        """Release a run's lock, held by any process; false if it was not held.

        Raises `Held` if another run holds it, or if the file does not name its run.
        """
        path = self.path(number)
        check_name("run id", run_id)
        if not any(map(os.path.lexists, self.names(number))):
            return False
        with self._directory_locked():
            if (status := self._held(number)) is not None and status.run_id != run_id:
                raise _locked(status)
            # The holder then locks a file without a name, which excludes no process.
            unlink(self._held_path(number))
            if status is not None and status.problem is not None:
                return True  # the file in its place now is not ours
            with opened(path) as lock:
                if lock is None:
                    return False
                held = not take(lock)
                if held and (lying := status_of(number, lock, held=True)).run_id != run_id:
                    raise _locked(lying)
                unlink(path)
                return held

    def forget(self, lock: SessionLock) -> None:
        """Remove the file of a lock that is about to be released."""
        with self._directory_locked():
            for name in self.names(lock.number):
                if is_name_of(name, lock.descriptor):
                    unlink(name)

    def clean(self) -> list[int]:
        """Remove stale files; returns their numbers."""
        removed = []
        if self.directory.is_dir():
            with self._directory_locked():
                for number in self._numbers():
                    # Anything that is not a lock file or cannot be removed stays; `status` shows it.
                    with contextlib.suppress(InterlockError):
                        if self._held(number) is None and self._remove(number):
                            removed.append(number)
        return removed

    def _remove(self, number: int) -> bool:
        """Remove the names of a lock that is not held under its second name."""
        left = os.path.lexists(self._held_path(number))
        unlink(self._held_path(number))
        with opened(self.path(number)) as lock:
            if lock is None or not take(lock):
                return left and lock is None
            unlink(self.path(number))
            return True

    def status(self, only: int | None = None) -> list[LockView]:
        """All lock files, or only the file of one session; lowest number first."""
        found = []
        if only is not None:
            self.path(only)  # refuses an invalid number
        if self.directory.is_dir():
            with self._directory_locked():
                for number in self._numbers():
                    if only not in (None, number):
                        continue
                    try:
                        if (status := self._held(number) or self._lock_at_path(number)) is not None:
                            found.append(status)
                    except InterlockError as error:  # one file must not hide the others
                        found.append(unread(number, problem=error.sentence))
        return found

    def names(self, number: int) -> tuple[Path, Path]:
        """The two names of a held lock: its file, and the second one."""
        return self.path(number), self._held_path(number)

    def _held_path(self, number: int) -> Path:
        return self.directory / f".{number}.held"

    def _held(self, number: int) -> LockView | None:
        """The lock that is held under its second name, wherever its first one is now."""
        path, second = self.names(number)
        with opened(second) as lock:
            if lock is None or take(lock):
                return None
            status = status_of(number, lock, held=True)
            if is_name_of(path, lock):
                return status
            return replace(status, problem=f"{path} was moved, removed or replaced while it is held.")

    def _lock_at_path(self, number: int) -> LockView | None:
        """The lock whose file has the first name, held or not."""
        with opened(self.path(number)) as lock:
            return None if lock is None else status_of(number, lock, held=not take(lock))

    def path(self, number: int) -> Path:
        """The file of a session's lock."""
        if type(number) is not int or not 0 < number < NUMBER_MAX:
            raise InvalidInput(
                f"The number {reprlib.repr(number)} is not that of an issue or pull request.",
                "Use a whole number from 1.",
            )
        return self.directory / f"{number}.lock"

    def _numbers(self) -> list[int]:
        names = (_NAME.fullmatch(path.name) for path in self.directory.iterdir())
        return sorted({int(match[1] or match[2]) for match in names if match is not None})

    def _make(self) -> None:
        try:
            if self._home is not None:
                make_home(self._home)
            self.directory.mkdir(parents=self._home is None, exist_ok=True)
        except OSError as error:
            raise InterlockError(
                f"{self.directory} cannot be created: {error.strerror}.",
                "Fix the permissions of the directory.",
            ) from None

    @contextlib.contextmanager
    def _directory_locked(self) -> Iterator[None]:
        """Lock the directory for the length of the block."""
        guard = open_lock(self.directory / ".guard", os.O_CREAT)
        try:
            give_up_s = time.monotonic() + GUARD_WAIT_S
            while not take(guard):
                if time.monotonic() > give_up_s:
                    raise InterlockError(
                        f"Another process keeps {self.directory} locked for more than {GUARD_WAIT_S:g} s.",
                        "Look for a stopped process that has its file .guard open (`fuser`).",
                    )
                time.sleep(GUARD_LOOK_S)
            yield
        finally:
            free(guard)


class SessionLock:
    """A lock that is held. Leaving its `with` block releases it, and so does the end of the process."""

    def __init__(self, locks: SessionLocks, number: int, run_id: str, lock: int) -> None:
        self._locks = locks
        self.number = number
        self.run_id = run_id
        self.acquired_at = datetime.now(UTC)
        #: The open, locked file. A process that inherits it holds the lock too.
        self.descriptor = lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def sign(self, pid: int, *, until_pid: int | None = None) -> None:
        """Write the holder into the file: the run, its process, and the process it is kept for, if any."""
        content = {
            "issueNumber": self.number,
            "runId": self.run_id,
            "acquiredAt": self.acquired_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "pid": pid,
        } | ({} if until_pid is None else {"untilPid": until_pid})
        data = json.dumps(content, indent=2).encode() + b"\n"
        try:
            if os.pwrite(self.descriptor, data, 0) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.ftruncate(self.descriptor, len(data))
        except OSError as error:
            raise InterlockError(
                f"The lock of session {self.number} cannot be written: {error.strerror}.",
                "Nothing was locked. Free some space, and try again.",
            ) from None

    def release(self) -> None:
        """Release the lock and remove the file, unless it was unlocked already."""
        try:
            if not self.taken:
                self._locks.forget(self)
        finally:
            free(self.descriptor)

    @property
    def taken(self) -> bool:
        """Whether the file is not ours any more: it was unlocked for our run."""
        return not any(is_name_of(name, self.descriptor) for name in self._locks.names(self.number))


def lock_until(locks: SessionLocks, number: int, run_id: str, pid: int) -> int:
    """Lock a session until `pid` has ended or it is unlocked; returns the number of the holder.

    If it is already kept for the same run and process, the call does nothing. The same run alone is not
    enough: several jobs of one run may be on this host.
    """
    try:
        lock = locks.acquire(number, run_id)
    except Held:
        for view in locks.status(number):
            if view.held and view.pid and (view.run_id, view.until_pid) == (run_id, pid):
                return view.pid
        raise
    try:
        return _start_holder(lock, _open_process(pid), pid)
    except BaseException:
        lock.release()
        raise


def _open_process(pid: int) -> int:
    """A pidfd, or -1 if the system does not support them."""
    try:
        if pid > 0 and hasattr(os, "pidfd_open"):
            return os.pidfd_open(pid)
        if pid > 0:
            os.kill(pid, 0)
            return -1
    except PermissionError:
        return -1  # it exists, and belongs to another user
    except (OSError, OverflowError):
        pass
    raise InvalidInput(f"There is no process {pid}.", "Name one that lives as long as the lock.")


def _start_holder(lock: SessionLock, watched: int, pid: int) -> int:
    inherited = [fd for fd in (lock.descriptor, watched) if fd >= 0]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", lock_holder.__file__, *map(str, (lock.descriptor, watched, pid))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        pass_fds=inherited,
        start_new_session=True,
    )
    lock.sign(process.pid, until_pid=pid)
    process.returncode = 0  # no parent waits for it
    for descriptor in inherited:
        os.close(descriptor)
    return process.pid


def run_under(lock: SessionLock, command: Sequence[str]) -> int:
    """Run a command that inherits the lock; returns the exit code. The lock is free only when no process of
    the command is left."""
    from interlock.process.command import SupervisedCommand  # noqa: PLC0415  (only where a command runs)
    from interlock.process.ladder import Ladder  # noqa: PLC0415
    from interlock.process.signals import Signals  # noqa: PLC0415

    with lock, Signals() as signals:
        supervised = SupervisedCommand(foreground=True, inherited=(lock.descriptor,))
        with contextlib.closing(supervised), signals.forwarded_to(supervised):
            supervised.start(command, env=os.environ, ladder=Ladder())
            code = supervised.follow().code
    return code if code >= 0 else 128 - code


def _locked(status: LockView) -> Held:
    number = status.number
    if status.run_id is None or status.acquired_at is None:
        return Held(
            f"Session {number} is locked, but its file does not say by whom.",
            f"`fuser {number}.lock` in the directory of locks names the process; the lock ends with it.",
        )
    process = status.pid if status.until_pid is None else status.until_pid
    since = f"{status.acquired_at.astimezone():%Y-%m-%d %H:%M:%S}"
    moved = f" {status.problem}" if status.problem else ""
    return Held(
        f"Session {number} is locked by run {status.run_id} (process {process}) since {since}.{moved}",
        f"It is free when process {process} ends, or after interlock session unlock {number} --run-id"
        f" {status.run_id}.",
    )
