"""What a worker and its attempts say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from interlock.core.errors import InterlockError
from interlock.process.command import Agent
from interlock.service.contract import Service
from interlock.worker.recovery import Aftermath
from interlock.worker.rundirectory import Home
from interlock.worker.spool import End
from interlock.worker.worktrees import Workspaces

if TYPE_CHECKING:
    from interlock.worker.run import Attempt


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


def told_to_end(asked: int, at_work: int) -> Notice:
    """What a worker says when it is asked to end for the nth time."""
    one = at_work == 1
    if asked == 1:
        rest = f"{at_work} still at work; a second Ctrl-C stops {'it' if one else 'them'}"
        return Notice(
            kind="draining", text=f"Draining: no more is claimed, {rest if at_work else 'nothing runs'}."
        )
    rest = f"{at_work} at work; {'its item is' if one else 'their items are'} given back"
    return Notice(kind="stopping", text=f"Stopping {rest}." if at_work else "Stopping; nothing runs.")


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

    def begun(self) -> None:
        """The agent of an attempt has started."""
        ...

    def hindered(self, attempt: Attempt, error: InterlockError) -> None:
        """This machine cannot start any agent now."""
        ...

    def give_up(self, error: Exception) -> None:
        """No run can be started any more: the command is missing, or something is defective."""
        ...
