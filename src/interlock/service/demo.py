"""The demo fleet, as far as the service knows it: its names, its state, and who may start and stop it.

The fleet itself is processes on a server's machine. The server says how to open it; elsewhere there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Protocol

from interlock.core.errors import InterlockError, InvalidInput, TooManyRequests
from interlock.core.record import Record
from interlock.store.port import ItemQuery, PlanQuery, Store

#: Everything that the fleet makes is in this project, for these agents, and of this type.
PROJECT = "interlock-demo"
TYPE = "demo"
EDITOR = "demo-planner"
AGENTS = ("demo-ada", "demo-bert", "demo-cleo", EDITOR)
#: The label of its agents, which tells them from agents of the same name.
LABEL = "interlock-demo"


class DemoView(Record):
    """The demo fleet of a store."""

    #: Whether its processes run, on this server.
    running: bool
    #: Whether its items, plans and agents are in the store.
    present: bool
    #: When it stops by itself.
    ends_at: datetime | None = None


class Fleet(Protocol):
    """The processes of a fleet, and what they made."""

    @property
    def ends_at(self) -> datetime | None:
        """When it stops by itself; None while it does not run."""

    def start(self) -> None:
        """Start the processes on an empty store."""

    def remove(self) -> None:
        """Stop the processes, and delete all items, plans and agents that the fleet made."""


class DemoOperations:
    """The operations on the demo fleet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: Set by a server: makes the fleet, when it is first needed.
        self.open_fleet: Callable[[], Fleet] | None = None
        self._fleet: Fleet | None = None

    def demo(self) -> DemoView:
        """Whether the demo fleet runs here, and whether its items, plans and agents are in the store."""
        ends_at = None if self._fleet is None else self._fleet.ends_at
        return DemoView(running=ends_at is not None, present=_is_present(self._store), ends_at=ends_at)

    def start_demo(self) -> DemoView:
        """Start the demo fleet: a few agents of this machine that work, ask, crash and come back, and a plan
        that is edited. The store must be empty. The fleet ends by itself after an hour."""
        with _processes():
            fleet = self._given()
            if fleet.ends_at is None:
                if _is_present(self._store):  # its server was killed
                    fleet.remove()
                if not _is_empty(self._store):
                    raise InvalidInput(
                        "The demo fleet needs an empty store, and this one has items.",
                        "Choose another store.",
                    )
                fleet.start()
        return self.demo()

    def stop_demo(self) -> DemoView:
        """Stop the demo fleet, and delete all items, plans and agents that it made, and nothing else."""
        with _processes():
            self._given().remove()
        return self.demo()

    def leave_demo(self) -> None:
        """The server ends, and a running fleet with it. If the store is away, the next start or stop deletes
        what the fleet made."""
        if self._fleet is not None and self._fleet.ends_at is not None:
            with suppress(InterlockError, OSError):
                self._fleet.remove()

    def _given(self) -> Fleet:
        if self._fleet is None:
            if self.open_fleet is None:
                raise InvalidInput("Only a server runs the demo fleet.", "Ask a server.")
            self._fleet = self.open_fleet()
        return self._fleet


@contextmanager
def _processes() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise TooManyRequests(
            f"The server's machine cannot run the demo fleet now: {why}.", "Try again later."
        ) from None


def _is_present(store: Store) -> bool:
    agent = store.agent(EDITOR)
    return agent is not None and LABEL in agent.labels


def _is_empty(store: Store) -> bool:
    return not store.items(ItemQuery(limit=1)) and not store.plans(PlanQuery(ended=True, limit=1))
