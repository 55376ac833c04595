"""What this host keeps of the runs it works on: a directory each, locked for as long as anybody cares.

`.interlock/runs/run-<n>/` holds what the agent is told (payload, messages), where it leaves its result, and a
record of whose it is. Worker, supervisor and agent share an OS lock on it, so whoever gets the lock alone
knows that all of them are gone, whatever way they died. No process number is compared: those are used again.

Not promised: anything about runs of other hosts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from interlock.core.errors import InterlockError
from interlock.settings import DIRECTORY, make_home

RESULT_MAX_BYTES = 1 << 20


class Home:
    """The directory `.interlock` of a repository, where runs, logs and results of this host lie."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.directory = root / DIRECTORY
        #: Tells runs of one store from those of another that is used from the same directory.
        self.store = sha256(url.encode()).hexdigest()[:16]

    def make(self) -> None:
        """Make what is missing; a clear refusal where that is not possible."""
        try:
            make_home(self.directory)
            for name in ("runs", "logs", "spool", "worktrees"):
                (self.directory / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InterlockError(
                f"{self.directory} cannot be used: {error.strerror}.",
                "The worker keeps logs and results there; mend its permissions or free some space.",
            ) from None

    @property
    def runs(self) -> Path:
        return self.directory / "runs"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def spool(self) -> Path:
        return self.directory / "spool"

    @property
    def worktrees(self) -> Path:
        return self.directory / "worktrees"


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
    #: The agent's session; None until it has started.
    session: int | None = None
    #: The repository's commit that the worktree began with; None without a worktree.
    base: str | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """From a record; raises ValueError or TypeError where it is none."""
        values: dict[str, Any] = json.loads(text)
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    def rivals(self, other: Trace) -> bool:
        """Whether two runs must never work at once: same lane, or same item."""
        same = self.item == other.item or (self.lane is not None and self.lane == other.lane)
        return same and self.store == other.store and self.run != other.run


class RunFiles:
    """The directory of one run, and our share of its lock."""

    def __init__(self, path: Path, trace: Trace, lock: int) -> None:
        self.path = path
        self.trace = trace
        self._lock = lock

    @classmethod
    def make(cls, home: Home, trace: Trace) -> Self:
        """A new directory; nobody sees it before it is locked and complete."""
        path = home.runs / f"run-{trace.run}"
        draft = home.runs / f".new-{trace.worker}-{trace.run}"
        draft.mkdir(mode=0o700)
        try:
            lock = os.open(draft / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH)
            (draft / "record.json").write_text(json.dumps(asdict(trace)))
            draft.rename(path)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return cls(path, trace, lock)

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def payload(self) -> Path:
        return self.path / "payload.json"

    @property
    def messages(self) -> Path:
        return self.path / "messages.json"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    def note(self, **changed: Any) -> None:
        """Change the record."""
        self.trace = replace(self.trace, **changed)
        draft = self.path / ".record"
        draft.write_text(json.dumps(asdict(self.trace)))
        draft.replace(self.path / "record.json")

    def read_result(self) -> str | None:
        """What the agent left as its result: JSON text. Raises ValueError where it is no such thing."""
        try:
            with self.result.open("rb") as file:
                data = file.read(RESULT_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ValueError(error.strerror) from None
        if len(data) > RESULT_MAX_BYTES:
            raise ValueError(f"it has more than {RESULT_MAX_BYTES:,} bytes")
        text = data.decode()
        json.loads(text, parse_constant=_refuse_constant)
        return text

    def remove(self) -> None:
        """The run is over and nothing of it is needed any more."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.let_go()

    def let_go(self) -> None:
        """Give our share of the lock back."""
        os.close(self._lock)


def abandoned(home: Home) -> Iterator[RunFiles]:
    """Runs of this store whose worker, supervisor and agent are all gone, each held by us alone."""
    for path in _paths(home):
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        if not _locks(lock) or not path.exists():  # somebody cares, or has just cleared it away
            os.close(lock)
            continue
        trace = _trace(path)
        if trace is None or trace.store != home.store:
            os.close(lock)
            continue
        yield RunFiles(path, trace, lock)


def alive(home: Home) -> list[Trace]:
    """Runs on which somebody of this host works, or that nobody has cleared away yet."""
    return [trace for path in _paths(home) if (trace := _trace(path)) is not None]


def _paths(home: Home) -> list[Path]:
    try:
        return sorted(home.runs.glob("run-*"))
    except OSError:
        return []


def _trace(path: Path) -> Trace | None:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return Trace.read((path / "record.json").read_text())
    return None


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
