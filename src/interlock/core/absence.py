"""Since when a store does not answer, and who hears of it."""

from __future__ import annotations

import math
from collections.abc import Callable

#: A shorter wait for a store is not worth a word.
SAID_AFTER_S = 2.0
#: What `Absence` hears of a database or server to which no connection can be made.
UNREACHABLE = "Cannot reach the store"
#: How long a process that stops still waits for its store.
HURRY_S = 2.0


def waiting(what: str, up_to_s: float | None = None, *, place: str = "") -> str:
    """The sentence for whoever waits: what the matter is, and how long to wait; None: for ever."""
    if what == UNREACHABLE:
        how_long = "until it answers" if up_to_s is None else f"for up to {up_to_s:g} s"
        return f"{what}{f' ({place})' if place else ''}; retrying {how_long}."
    return f"{what}; waiting {'for it' if up_to_s is None else f'up to {up_to_s:g} s'}."


def _nobody(_: str | None) -> None:
    """Nobody listens."""


class Absence:
    """Shared by all who use a store in one process.

    A store is away when nobody here has reached it for `SAID_AFTER_S`.
    """

    def __init__(self, heard: Callable[[str | None], None] = _nobody) -> None:
        #: Gets what the matter is after each attempt that failed while the store is away, and None once it
        #: answers again. It may raise, which ends the wait.
        self.heard = heard
        #: Whether to wait without end, as whoever watches does; else each call has a patience of its own.
        self.forever = False
        self._since_s: float | None = None
        self._away = False
        self._end_s = math.inf

    def hurry(self, now_s: float) -> None:
        """The process stops: nothing waits for long any more."""
        self._end_s = now_s + HURRY_S

    def waits(self, now_s: float, deadline_s: float = math.inf) -> bool:
        """Whether a call with this deadline goes on waiting for the store."""
        return now_s <= self._end_s and (self.forever or now_s <= deadline_s)

    def missed(self, what: str, now_s: float) -> None:
        """An attempt to reach the store failed."""
        if self._since_s is None:
            self._since_s = now_s
        elif now_s - self._since_s >= SAID_AFTER_S:
            self._away = True
            self.heard(what)

    def answered(self) -> None:
        """The store did what it was asked."""
        if self._since_s is not None:
            self._since_s = None
            was_away, self._away = self._away, False
            if was_away:
                self.heard(None)
