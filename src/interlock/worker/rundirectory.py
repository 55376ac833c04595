"""What this host keeps of the runs it works on: a directory each, locked for as long as anybody cares.

`.interlock/runs/run-<n>/` holds what the agent is told (payload, messages), where it leaves its result, and a
record of whose it is. OS locks on it are held by the worker and by the agent, so whoever gets a lock knows
that its holder is gone, whatever way it died. No process number is compared: those are used again.

Not promised: anything about runs of other hosts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from interlock.core.errors import InterlockError
from interlock.process.smallfile import an_object, read_bytes, record
from interlock.settings import DIRECTORY, make_home

#: A record holds a title and a few names.
RECORD_MAX_BYTES = 1 << 16
#: Options in the URL of a PostgreSQL database that say how it is reached, not which one it is.
_NOT_A_PLACE = (
    "application_name=",
    "connect_timeout=",
    "keepalives",
    "password=",
    "ssl",
    "tcp_user_",
    "user=",
)


class Home:
    """The directory `.interlock` of a repository, where runs, logs and results of this host lie."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.directory = root / DIRECTORY
        self.runs, self.logs = self.directory / "runs", self.directory / "logs"
        self.spool, self.worktrees = self.directory / "spool", self.directory / "worktrees"
        #: Tells runs of one store from those of another that is used from the same directory.
        self.store = sha256(_place(url).encode()).hexdigest()[:16]

    def make(self) -> None:
        """Make what is missing; a clear refusal where that is not possible."""
        try:
            make_home(self.directory)
            for directory in (self.runs, self.logs, self.spool, self.worktrees):
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InterlockError(
                f"{self.directory} cannot be used: {error.strerror}.",
                "The worker keeps logs and results there; mend its permissions or free some space.",
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Whose a run's directory is, for those who find it later."""

    run: int
    item: int
    title: str
    lane: str | None
    agent: str
    worker: str
    store: str
    #: The process above the agent, and the agent's session, with when they began: see `supervisor.begun`.
    supervisor: int | None = None
    supervisor_begun: str | None = None
    session: int | None = None
    session_begun: str | None = None
    #: The commit that the worktree began with, and the branch made for it; None without a worktree.
    base: str | None = None
    branch: str | None = None

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """From a record; raises ValueError where it is none."""
        return record(cls, an_object(text))

    def rivals(self, other: Trace) -> bool:
        """Whether two runs must never work at once: same lane, or same item."""
        same = self.item == other.item or (self.lane is not None and self.lane == other.lane)
        return same and self.store == other.store and self.run != other.run


class RunFiles:
    """The directory of one run.

    Two locks: the worker's, which keeps others from clearing it away, and the agent's, which the agent and
    its supervisor share. Whoever has the agent's lock alone knows that no process of the run is left.
    """

    def __init__(self, path: Path, trace: Trace, lock: int | None = None) -> None:
        self.path = path
        self.trace = trace
        self.agent_lock = path / "agent.lock"
        self.payload, self.messages = path / "payload.json", path / "messages.json"
        self.result = path / "result.json"
        self._lock = lock

    @classmethod
    def make(cls, home: Home, trace: Trace) -> Self:
        """A new directory of ours; nobody sees it before it is locked and complete."""
        path = home.runs / f"run-{trace.run}"
        # Of another store that is used from the same directory, or a worktree of its that stays.
        if path.exists() or (home.worktrees / path.name).exists():
            path = home.runs / f"run-{trace.run}-{trace.store}"
        draft = home.runs / f".new-{trace.worker}-{trace.run}"
        draft.mkdir(mode=0o700)
        try:
            (draft / "agent.lock").touch(mode=0o600)
            lock = os.open(draft / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            (draft / "record.json").write_text(json.dumps(asdict(trace)))
            draft.rename(path)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return cls(path, trace, lock)

    def note(self, **changed: Any) -> None:
        """Change the record."""
        self.trace = replace(self.trace, **changed)
        draft = self.path / ".record"
        draft.write_text(json.dumps(asdict(self.trace)))
        draft.replace(self.path / "record.json")

    def adopt(self) -> bool:
        """Become its owner, if its worker is gone."""
        if self._lock is None:
            self._lock = _locked(self.path / "worker.lock")
        return self._lock is not None

    @contextmanager
    def without_agent(self) -> Iterator[bool]:
        """Whether no process of the run is left; while it is true nobody else is told so."""
        lock = _locked(self.agent_lock)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)

    def remove(self) -> None:
        """The run is over and nothing of it is needed any more."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.let_go()

    def let_go(self) -> None:
        """Leave it to whoever comes next."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def found(home: Home) -> list[RunFiles]:
    """Every run of this store that this host knows of."""
    runs = []
    for path in sorted(home.runs.glob("run-*")):
        with contextlib.suppress(OSError, ValueError):  # without its record nobody knows whose it is
            trace = Trace.read(read_bytes(path / "record.json", RECORD_MAX_BYTES))
            if trace.store == home.store:
                runs.append(RunFiles(path, trace))
    return runs


def _place(url: str) -> str:
    """Where a store is, however its URL is spelled. Who logs in, and how, does not make it another store."""
    scheme, _, rest = url.partition("://")
    place = rest.rpartition("@")[2]
    if scheme not in ("postgres", "postgresql"):
        return f"{scheme}://{place}"
    address, query, options = place.partition("?")
    hosts, slash, database = address.partition("/")
    hosts = ",".join(host.lower().removesuffix(":5432").removesuffix(":") for host in hosts.split(","))
    kept = sorted(option for option in options.split("&") if option and not option.startswith(_NOT_A_PLACE))
    return f"postgresql://{hosts}{slash}{database}" + (query + "&".join(kept) if kept else "")


def _locked(path: Path) -> int | None:
    """The file, locked by us alone; None if it is another's or gone."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():  # else whoever had it has just cleared it away
            return lock
    except OSError:
        pass
    os.close(lock)
    return None
