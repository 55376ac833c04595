"""What a database keeps of the outbox: effects on GitHub that are owed, and what became of them.

Effects of one number are sent in the order in which they were owed, by one sender at a time: whoever takes
the next one has the number leased, and only that lease settles it. An effect that was taken counts as sent,
since nobody knows what a sender did that is gone: whoever takes it again looks first whether it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from interlock.core.row import NamedTuple


class Effect(NamedTuple):
    """Something to do at GitHub. A number has each name once; 0 is the repository itself."""

    repository: int
    number: int
    name: str
    kind: str
    #: JSON.
    data: str
    #: What it makes, changes or removes at GitHub, if others do so too: the next one is told its id.
    thing: str = ""
    #: The run whose progress it tells: not sent any more once that run has lost its lease. Without one it is
    #: always carried out.
    run: int | None = None
    #: Not before so many seconds have passed; meanwhile later ones pass it.
    after_s: float | None = None


class Taken(NamedTuple):
    """The effect to send next, with its number leased."""

    repository: int
    number: int
    place: int
    token: str
    #: The repository's name.
    repo: str
    name: str
    kind: str
    thing: str
    data: str
    run: int | None
    #: How the run has ended, if it has.
    run_status: str | None
    owed_us: int
    tries: int
    #: When it was taken before and may have been sent.
    sent_us: int | None
    #: The id of the thing after the last effect on it; None if there is none, or if nobody knows.
    made: int | None
    #: What became of that effect.
    last: str | None = None


class Owing(NamedTuple):
    """An effect and what became of it."""

    repository: int
    number: int
    name: str
    kind: str
    run: int | None
    owed_us: int
    tries: int
    made: int | None
    done_us: int | None
    #: Since when it waits for a person.
    dead_us: int | None
    outcome: str | None


class Backlog(NamedTuple):
    """How much is owed, each counted up to a limit."""

    owed: int
    #: Since when something is due, or when it is.
    due_us: int | None
    #: What waits for a person.
    dead: int


class OutboxStore(Protocol):
    """The outbox. Each call is a transaction of its own, and may be repeated: it writes each thing once."""

    #: Owe effects, each once by its name, in this order; gives how many are new. Repositories must be known.
    def owe(self, effects: Sequence[Effect]) -> int: ...
    #: Lease the number that is due the longest, and take its first effect; None if none is due, or if so many
    #: were sent in the last minute or hour that the next would be too many.
    def take(self, lease_s: float) -> Taken | None: ...
    #: In how many seconds something can be taken; None if nothing is owed.
    def next_s(self) -> float | None: ...
    #: It is carried out, or dropped for a reason; `made` is the id of its thing from now on. `then` is owed
    #: at the same time. False, and nothing written, if the lease has run out and somebody else has it.
    def settle(
        self, taken: Taken, *, made: int | None, outcome: str, then: Sequence[Effect] = ()
    ) -> bool: ...
    #: It could not be carried out: tried again after `wait_s`, or, without, given to a person. `failed`
    #: counts the try. `maybe_sent` says that it may be there all the same.
    def put_off(
        self, taken: Taken, wait_s: float | None, why: str, *, failed: bool, maybe_sent: bool
    ) -> bool: ...

    #: Those of a number, the newest first.
    def effects(self, repository: int, number: int, limit: int) -> list[Owing]: ...
    #: What waits for a person, the oldest first.
    def dead(self, limit: int) -> list[Owing]: ...
    def backlog(self, limit: int) -> Backlog: ...
    #: What waits for a person is owed again, in its old place, up to `limit`; gives how much that is.
    def retry(self, limit: int) -> int: ...
