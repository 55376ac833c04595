"""A hindrance: this machine cannot begin a run now, whatever the item.

The remote cannot be reached, a worktree cannot be made, the disk is full. Another item would fare no better,
so a worker claims nothing for a while, longer each time, until a run has begun again.
"""

from __future__ import annotations

from interlock.core.errors import InterlockError
from interlock.process.command import now_s

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 60.0


class Hindrance:
    """What hinders a worker, if anything does. Its worker sees to it that one thread calls at a time."""

    def __init__(self) -> None:
        self.error: InterlockError | None = None
        self._pause_s = 0.0
        self._until_s = 0.0

    @property
    def left_s(self) -> float:
        """How long to claim nothing yet."""
        return max(0.0, self._until_s - now_s())

    def meet(self, error: InterlockError) -> bool:
        """Something could not be done: pause, twice as long as before. True if nothing hindered until now.

        Runs that were begun together meet the same hindrance together; they lengthen the pause only once.
        """
        new = self.error is None
        if new or not self.left_s:
            self._pause_s = min(max(2 * self._pause_s, PAUSE_FIRST_S), PAUSE_MAX_S)
            self._until_s = now_s() + self._pause_s
        self.error = error
        return new

    def lift(self) -> bool:
        """A run has begun. True if that was not possible before."""
        hindered = self.error is not None
        self.error, self._pause_s, self._until_s = None, 0.0, 0.0
        return hindered


def machine_error(error: InterlockError | OSError) -> InterlockError:
    """The error as a sentence, also where it is the system's own."""
    if isinstance(error, InterlockError):
        return error
    where = f" ({error.filename})" if error.filename else ""
    return InterlockError(
        f"This machine says: {(error.strerror or str(error)).lower()}{where}.",
        "Look for a full disk, missing permissions or a limit that is reached.",
    )
