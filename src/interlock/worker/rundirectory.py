"""The directory of each run on this host, locked while its worker or its command lives.

`runs/run-<n>/` beside the default store holds the payload and messages for the command, its result, and its
record. Worker and command hold OS locks on it, so a process that gets a lock knows that its holder is gone,
however it died. Process numbers are not compared, as the system reuses them.

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
from interlock.git.plumbing import GitRepository
from interlock.process.briefing import Briefing
from interlock.process.smallfile import an_object, read_bytes, record
from interlock.settings.places import DIRECTORY, inside, make_home
from interlock.worker import mounts

#: A record holds a title and a few names.
RECORD_MAX_BYTES = 1 << 16
#: Options of a PostgreSQL URL that describe how to reach the database, not which one it is.
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
    """The runs, logs and results of one repository and one store on this host.

    They are in `directory`. Worktrees are in `.interlock` of the repository, or in the configured place.
    Agents and containers that know only the clone find them there. Runs and results of an older version in
    `.interlock` are still found.
    """

    def __init__(
        self,
        root: Path,
        url: str,
        directory: Path | None = None,
        former: Path | None = None,
        *,
        worktrees: str | None = None,
    ) -> None:
        """`directory` is `.interlock` outside of git. `former` is the place of the store in an older version.

        `worktrees` is another directory for worktrees, shared with other clones.
        """
        local = root / DIRECTORY
        self.root = root
        self.directory = directory or local
        self.runs, self.logs = self.directory / "runs", self.directory / "logs"
        self.spool = self.directory / "spool"
        self.former_runs, self.former_spool = local / "runs", local / "spool"
        own = f"{root.name}-{sha256(os.fsencode(root)).hexdigest()[:12]}"
        elsewhere = root / Path(worktrees).expanduser() / own if worktrees else None
        self._worktrees = elsewhere or local / "worktrees"
        self._worktrees_home = None if elsewhere else local
        #: Without links in its path, as git compares it with the system's path.
        self.worktrees = self._worktrees.resolve()
        #: A name that distinguishes the runs of two stores that are used from the same directory.
        self.store = _name(url)
        #: The current and former names of the store.
        self.stores = {self.store, *([] if former is None else [_name(f"sqlite:///{former.absolute()}")])}

    def make(self) -> None:
        """Create the missing directories, except that of worktrees.

        Raises `NotTrusted` if one of them is a link out of the repository.
        """
        ours = (self.runs, self.logs, self.spool)
        for place in (*ours, self.former_runs, self.former_spool, self._worktrees):
            inside(self.root, place)
        self._make(self.directory, *ours)
        former = [place for place in (self.former_runs, self.former_spool) if place.exists()]
        if former and self.former_runs != self.runs:
            # Tracked files came with the clone: a stranger's record could make us remove files or kill
            # processes.
            tracked = GitRepository(self.root).run("ls-files", "--", *map(str, former))
            if tracked.code or tracked.out:
                self.former_runs, self.former_spool = self.runs, self.spool

    def make_worktrees(self) -> None:
        """Create the directory of worktrees, if it is missing."""
        self._make(self._worktrees_home, self.worktrees)

    def _make(self, home: Path | None, *directories: Path) -> None:
        try:
            if home is not None:
                make_home(home)
            for directory in directories:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InterlockError(
                f"{error.filename or self.directory} cannot be used: {error.strerror}.",
                "The worker keeps logs and results there; fix its permissions or free some space.",
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The record of a directory's run, for a worker that finds it later."""

    run: int
    item: int
    title: str
    lane: str | None
    agent: str
    worker: str
    store: str
    #: The supervisor and the command's session, with their start times: see `supervisor.begun`.
    supervisor: int | None = None
    supervisor_begun: str | None = None
    session: int | None = None
    session_begun: str | None = None
    #: The worktree's first commit, its branch and its place; None without a worktree.
    base: str | None = None
    branch: str | None = None
    worktree: str | None = None

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Parse a record. Raises `ValueError` if it is damaged."""
        return record(cls, {"worktree": None, **an_object(text)})  # version 0.1 did not write it

    def rivals(self, other: Trace) -> bool:
        """Whether two runs must never work at once: same lane, or same item."""
        same = self.item == other.item or (self.lane is not None and self.lane == other.lane)
        return same and self.store == other.store and self.run != other.run


class RunFiles:
    """The directory of one run.

    It has two locks. The worker's lock keeps others from removing the directory. The agent's lock is shared
    by the command and its supervisor. A process that gets the agent's lock exclusively knows that no process
    of the run is left.
    """

    def __init__(self, path: Path, trace: Trace, lock: int | None = None) -> None:
        self.path = path
        self.trace = trace
        self.agent_lock = path / "agent.lock"
        self.briefing = Briefing(path)
        self._lock = lock
        self._worktree: int | None = None

    @classmethod
    def make(cls, home: Home, trace: Trace) -> Self:
        """Create a directory. No other worker sees it before it is locked and complete."""
        path = home.runs / f"run-{trace.run}"
        # Taken by another store used from the same directory, or by a worktree of it that stays.
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

    def hold(self, worktree: Path) -> None:
        """Keep the directory of the worktree open: a descriptor follows a move."""
        self._worktree = os.open(worktree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def worktree_path(self) -> str | None:
        """The path of the worktree, with ` (deleted)` if it was removed; None if unknown."""
        with contextlib.suppress(OSError):
            if self._worktree is not None:
                return str(Path(f"/proc/self/fd/{self._worktree}").readlink())
        return None

    def adopt(self) -> bool:
        """Take over the directory if its worker is gone."""
        if self._lock is None:
            self._lock = locked(self.path / "worker.lock")
        return self._lock is not None

    @contextmanager
    def without_agent(self) -> Iterator[bool]:
        """Whether no process of the run is left. No other worker gets this answer at the same time."""
        lock = locked(self.agent_lock)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)

    def remove(self) -> None:
        """Remove the directory of a run that has ended, unless something is mounted in it."""
        if not mounts.below(self.path):
            shutil.rmtree(self.path, ignore_errors=True)
        self.unlock()

    def unlock(self) -> None:
        """Unlock the directory, for the next worker that cleans up."""
        for held in (self._lock, self._worktree):
            if held is not None:
                os.close(held)
        self._lock = self._worktree = None


def found(home: Home) -> list[RunFiles]:
    """The runs of this store with a directory on this host."""
    runs = []
    for path in sorted(path for folder in {home.runs, home.former_runs} for path in folder.glob("run-*")):
        with contextlib.suppress(OSError, ValueError):  # without a record its run is unknown
            trace = Trace.read(read_bytes(path / "record.json", RECORD_MAX_BYTES))
            if trace.store in home.stores:
                runs.append(RunFiles(path, replace(trace, store=home.store)))
    return runs


def _name(url: str) -> str:
    return sha256(_place(url).encode()).hexdigest()[:16]


def _place(url: str) -> str:
    """The place of a store, the same for all spellings of its URL and for every user."""
    scheme, _, rest = url.partition("://")
    place = rest.rpartition("@")[2]
    if scheme not in ("postgres", "postgresql"):
        return f"{scheme}://{place}"
    address, query, options = place.partition("?")
    hosts, slash, database = address.partition("/")
    hosts = ",".join(host.lower().removesuffix(":5432").removesuffix(":") for host in hosts.split(","))
    kept = sorted(option for option in options.split("&") if option and not option.startswith(_NOT_A_PLACE))
    return f"postgresql://{hosts}{slash}{database}" + (query + "&".join(kept) if kept else "")


def locked(path: Path) -> int | None:
    """The file, locked by us; None if another has it or it is gone."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():  # otherwise its holder has just removed it
            return lock
    except OSError:
        pass
    os.close(lock)
    return None
