"""A store outage: how long the store has been unreachable, and the callback that is told."""

from __future__ import annotations

import math
from collections.abc import Callable

#: Shorter waits for a store are not reported.
REPORTED_AFTER_S = 2.0
#: The cause where a database or a server accepts no connection.
UNREACHABLE = "Cannot reach the store"
#: How long a process that shuts down still waits for its store.
SHUTDOWN_WAIT_S = 2.0


def waiting(what: str, up_to_s: float | None = None, *, place: str = "") -> str:
    """A sentence about a wait: its cause, and how long it lasts at most. None means without a limit."""
    if what == UNREACHABLE:
        how_long = "until it answers" if up_to_s is None else f"for up to {up_to_s:g} s"
        return f"{what}{f' ({place})' if place else ''}; retrying {how_long}."
    return f"{what}; waiting {'for it' if up_to_s is None else f'up to {up_to_s:g} s'}."


def _ignore(_: str | None) -> None:
    """The default listener."""


class StoreOutage:
    """Shared by all users of a store in one process.

    An outage is reported once every attempt has failed for `REPORTED_AFTER_S`.
    """

    def __init__(self, on_change: Callable[[str | None], None] = _ignore) -> None:
        #: Called with the cause after each failed attempt during an outage, and with None once it
        #: answers again. It may raise, which ends the wait.
        self.on_change = on_change
        #: Whether to wait without a limit, as `watch` does; otherwise each call has a deadline of its own.
        self.forever = False
        self._since_s: float | None = None
        self._reported = False
        self._end_s = math.inf

    def shut_down(self, now_s: float) -> None:
        """End every wait soon, as the process shuts down."""
        self._end_s = now_s + SHUTDOWN_WAIT_S

    def waits(self, now_s: float, deadline_s: float = math.inf) -> bool:
        """Whether a call with this deadline keeps waiting for the store."""
        return now_s <= self._end_s and (self.forever or now_s <= deadline_s)

    def attempt_failed(self, what: str, now_s: float) -> None:
        """Record a failed attempt to reach the store."""
        if self._since_s is None:
            self._since_s = now_s
        elif now_s - self._since_s >= REPORTED_AFTER_S:
            self._reported = True
            self.on_change(what)

    def answered(self) -> None:
        """Record that the store answered, which ends the outage."""
        if self._since_s is not None:
            self._since_s = None
            was_reported, self._reported = self._reported, False
            if was_reported:
                self.on_change(None)
