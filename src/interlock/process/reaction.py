"""The reaction on GitHub that shows an active run, and its data for the next run."""

from __future__ import annotations

from typing import Protocol

from interlock.core.row import NamedTuple

#: The prefix of the error of a run whose holder was ended by a signal.
INTERRUPTED = "A signal to its holder ended the command"


class PostedReaction(NamedTuple):
    """A reaction to the message that a run works on."""

    repository: str
    #: An `issue` (also a pull request) by its number, a `comment` or a `review_comment` by its id.
    kind: str
    subject: int
    reaction: int


class PreviousRun(NamedTuple):
    """The previous run of a lane, in its state when the next run began."""

    #: The name of the run; unique for each number.
    name: str
    #: Its reaction, if known.
    reaction: PostedReaction | None = None
    #: By the clock of the process that ended it.
    ended_us: int = 0
    #: A signal ended it, and it reported that.
    interrupted: bool = False
    #: It was ended from outside: its lease expired, or its workflow run ended.
    lost: bool = False
    #: It was stopped in favour of the next run.
    superseded: bool = False


class ReactionDisplay(Protocol):
    """Shows that a holder is at work. No method raises or takes long."""

    def show(self) -> None:
        """Add the reaction."""

    def hide_soon(self) -> None:
        """Start its removal without waiting."""

    def hide(self) -> None:
        """Remove it, unless it was already removed."""

    def begin(self, run: str) -> None:
        """Clean up after the previous run. Called when this process holds the lane with this handle."""
