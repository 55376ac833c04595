"""What a worker and its attempts say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from interlock.aftermath import Aftermath
from interlock.agent import Agent
from interlock.contract import Service
from interlock.runfiles import Home
from interlock.spool import End
from interlock.workspace import Workspaces

if TYPE_CHECKING:
    from interlock.attempt import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that happened in a worker, for people and logs."""

    kind: str
    text: str
    run: int | None = None
    item: int | None = None
    lane: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is the same for all runs of a worker."""

    agent: str
    command: tuple[str, ...]
    #: The worker's incarnation, new at each start.
    worker: str
    #: The store, as the agent can reach it from any directory.
    url: str
    worktree: bool
    home: Home
    service: Service
    workspaces: Workspaces
    aftermath: Aftermath


class Host(Protocol):
    """What an attempt asks of its worker. None of it waits."""

    def tell(self, notice: Notice) -> None: ...

    def echo(self, run: int, data: bytes) -> None:
        """Output of an agent, as it comes."""
        ...

    def take_agent(self) -> Agent: ...

    def report(self, attempt: Attempt, end: End) -> None:
        """Owe the store this end; `attempt.close` follows its answer."""
        ...

    def over(self, attempt: Attempt) -> None:
        """The attempt needs its slot no more."""
        ...

    def give_up(self, error: Exception) -> None:
        """No run can be started any more: the command is missing, or something is defective."""
        ...
