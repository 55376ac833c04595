"""The sign by which a run shows on GitHub that it is at work, and what the next run must know of it."""

from __future__ import annotations

from typing import Protocol

from interlock.core.row import NamedTuple

#: How the error of a run begins that ended because its holder got a signal.
INTERRUPTED = "A signal to its holder ended the command"


class Sign(NamedTuple):
    """A reaction on the message that a run works on."""

    repository: str
    #: An `issue` (also a pull request) by its number, a `comment` or a `review_comment` by its id.
    kind: str
    subject: int
    reaction: int


class Before(NamedTuple):
    """The run that held a lane before, as it was when the next one began."""

    #: Which one: a number has each name once.
    name: str
    #: What it showed, where that is known.
    sign: Sign | None = None
    #: By the clock of whoever ended it.
    ended_us: int = 0
    #: A signal ended it, and it could say so.
    interrupted: bool = False
    #: It was ended without its word: its lease was over, or its workflow run.
    lost: bool = False
    #: It was stopped for the sake of the next one.
    superseded: bool = False


class Shown(Protocol):
    """How a holder shows that it is at work. None of it raises, and none of it takes long."""

    def show(self) -> None:
        """Put the sign up."""

    def hide_soon(self) -> None:
        """Begin to take it away, and do not wait for that."""

    def hide(self) -> None:
        """Take it away, if that has not been done."""

    def begin(self, run: str) -> None:
        """The lane is ours, by this handle: see to what the run before left."""
