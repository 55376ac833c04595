"""The files of a fleet, beside the default store: who runs, since when, and what its workers have said.

`fleets/<hash of the path of fleet.toml>/` holds for the supervisor and for each worker:

- `NAME.lock`: an OS lock that the process holds while it lives. Whoever gets it knows that the process is
  gone, however it ended. A worker inherits its lock from the supervisor, so there is no moment at which it
  lives without.
- `NAME.json`: its record, written before and after its start.
- `NAME.log`: what a worker prints, one JSON object a line. A long log is moved to `NAME.log.1`.

Not promised: anything about processes of another host.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from interlock.core.errors import InterlockError
from interlock.process import supervisor
from interlock.process.smallfile import read_json, record
from interlock.settings.places import inside, make_home

FLEETS = "fleets"
#: The name of the supervisor's own files; no worker can have it.
SUPERVISOR = ".supervisor"
RECORD_MAX_BYTES = 1 << 20
#: A log beyond this is moved away, and the one before it is deleted.
LOG_MAX_BYTES = 4 << 20
#: A process that only looks holds a lock for microseconds: how long to try again.
LOOKERS_S, _PAUSE_S = 0.5, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What the supervisor knows of a process that it started, or of itself."""

    name: str
    pid: int = 0
    #: Seconds since 1970.
    began_s: float = 0.0
    #: How often it was started again.
    restarts: int = 0
    #: When it is started again, and how it has ended; 0 while it runs.
    again_s: float = 0.0
    ended: str = ""
    agent: str = ""
    #: See `WorkerSpec.identity`.
    identity: str = ""


class FleetDirectory:
    """The directory of the fleet of one `fleet.toml`."""

    def __init__(self, home: Path, root: Path, file: Path) -> None:
        """`home` is where the store's other files of runs are, `root` the repository."""
        name = sha256(os.fsencode(file)).hexdigest()[:12]
        self.path = home / FLEETS / name
        self.file = file
        self._home, self._root = home, root

    def make(self) -> None:
        """Create the directory, if it is missing. Raises `NotTrusted` if a link leads out of the
        repository."""
        inside(self._root, self.path)
        try:
            make_home(self._home)
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.path / "file").write_text(f"{self.file}\n")  # for people who look
        except OSError as error:
            raise InterlockError(
                f"{error.filename or self.path} cannot be used: {error.strerror}.",
                "A fleet keeps its logs there; fix its permissions or free some space.",
            ) from None

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def former_log(self, name: str) -> Path:
        return self.path / f"{name}.log.1"

    def names(self) -> list[str]:
        """The workers that this fleet has, or had."""
        return sorted(path.stem for path in self.path.glob("*.lock") if path.stem != SUPERVISOR)

    # -- records --------------------------------------------------------------------------------------

    def write(self, kept: ProcessRecord) -> None:
        """Replace the record of a process."""
        draft = self.path / f"{kept.name}.json.new"
        draft.write_text(json.dumps(asdict(kept)))
        draft.replace(self.path / f"{kept.name}.json")

    def read(self, name: str) -> ProcessRecord:
        """The record of a process; an empty one if it is missing or damaged."""
        try:
            values = read_json(self.path / f"{name}.json", RECORD_MAX_BYTES)
            return record(ProcessRecord, values)
        except (OSError, ValueError):
            return ProcessRecord(name=name)

    def forget(self, name: str) -> None:
        """Remove the files of a worker that is no longer in the file, and not alive."""
        for path in (self.path / f"{name}.json", self.log(name), self.former_log(name), self._lock(name)):
            path.unlink(missing_ok=True)

    # -- locks ----------------------------------------------------------------------------------------

    def lock(self, name: str) -> int | None:
        """The lock of a process; None if a living process has it."""
        until_s = time.monotonic() + LOOKERS_S
        while True:
            number = os.open(self._lock(name), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(number)
                if time.monotonic() > until_s:
                    return None
                time.sleep(_PAUSE_S)
            else:
                return number

    def is_alive(self, name: str) -> bool:
        """Whether a living process has the lock."""
        try:
            number = os.open(self._lock(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(number)
        return False

    def holders(self, names: Iterable[str]) -> dict[str, int]:
        """The processes that have the locks of these names, on Linux by looking at their open files.

        A supervisor that was killed just after it started a worker has not written down its number. Where
        nothing can be looked at, it is the number in the record.
        """
        wanted: dict[tuple[int, int], str] = {}
        for each in names:
            with contextlib.suppress(OSError):
                found = self._lock(each).stat()
                wanted[found.st_dev, found.st_ino] = each
        holding: dict[str, int] = {}
        for pid in _processes():
            with contextlib.suppress(OSError):
                for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                    with contextlib.suppress(OSError):
                        opened = os.stat(f"/proc/{pid}/fd/{number}")  # noqa: PTH116
                        name = wanted.get((opened.st_dev, opened.st_ino))
                        if name is not None and _holds(pid, number, leads=name != SUPERVISOR):
                            holding[name] = pid
        for each in wanted.values():
            if each not in holding and self.is_alive(each) and (pid := self.read(each).pid):
                holding[each] = pid
        return holding

    def _lock(self, name: str) -> Path:
        return self.path / f"{name}.lock"


def rotate(directory: FleetDirectory, name: str) -> bool:
    """Move a long log away; returns whether it was. Lines that come in that moment may be lost.

    The worker writes at the end of the file that it has open, so its content moves, and the file stays.
    """
    log = directory.log(name)
    try:
        if log.stat().st_size < LOG_MAX_BYTES:
            return False
        directory.former_log(name).write_bytes(log.read_bytes())
        os.truncate(log, 0)
    except OSError:
        return False
    return True


def _holds(pid: int, number: str, *, leads: bool) -> bool:
    """Whether a process has the lock of a file that it has open, and does not only look.

    A worker leads its session: a process that it is just starting does not.
    """
    stat = supervisor.process_stat(pid)
    locks = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
    return stat is not None and (not leads or int(stat[3]) == pid) and "WRITE" in locks.split()


def is_suspended(pid: int) -> bool:
    """Whether a process is stopped, as by SIGSTOP."""
    stat = supervisor.process_stat(pid)
    return stat is not None and stat[0] in "Tt"


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:  # not Linux
        return []
