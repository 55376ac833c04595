"""The outbox in a database: unsent effects, and the outcomes of sent ones.

Effects of one number are sent in the order of arrival, by one relay at a time: the relay that takes the next
effect leases the number, and only that lease can settle the effect. A taken effect counts as sent, since a
relay that died may have sent it: the next relay first checks whether GitHub has it.

A receiver of notices has a row among the repositories, with a negative id and the name of its host; its
queue is number 0. A taken notice does not count as sent: it is sent again in any case, with the same id. So
it does not count towards GitHub's limits either.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from interlock.core.row import NamedTuple
from interlock.core.timing import maybe_us, to_us
from interlock.store.tables import Ask, Tables


class Effect(NamedTuple):
    """An effect on GitHub, or a notice. A number has each name once; 0 is the repository or the receiver."""

    repository: int
    number: int
    name: str
    kind: str
    #: JSON.
    data: str
    #: The thing on GitHub that it creates, changes or removes, if other effects do too: the next one gets its
    #: id.
    thing: str = ""
    #: The run that it reports on. It is not sent once that run has lost its lease. Without a run it is always
    #: sent.
    run: int | None = None


class LeasedEffect(NamedTuple):
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
    #: The status of the run.
    run_status: str | None
    enqueued_us: int
    tries: int
    #: When it was taken before, and so may have been sent.
    sent_us: int | None
    #: The id of the thing after the last effect on it; None if it does not exist or is unknown.
    made: int | None
    #: The outcome of that effect.
    last: str | None = None


class OutboxEntry(NamedTuple):
    """An effect and its outcome."""

    repository: int
    number: int
    name: str
    kind: str
    run: int | None
    enqueued_us: int
    tries: int
    made: int | None
    done_us: int | None
    #: Since when it waits for a person.
    dead_us: int | None
    outcome: str | None


class EffectPlace(NamedTuple):
    """Where an effect is: its number, and its place in the queue of that number."""

    repository: int
    number: int
    place: int


class EffectRecord(NamedTuple):
    """An effect in full, with the name of its repository."""

    repo: str
    repository: int
    number: int
    place: int
    name: str
    kind: str
    #: JSON.
    data: str
    run: int | None
    enqueued_us: int
    tries: int
    #: When it was taken last, and so may have been sent.
    sent_us: int | None
    done_us: int | None
    #: Since when it waits for a person.
    dead_us: int | None
    #: What became of it, or of its last try.
    outcome: str | None
    #: When it may be sent; None if it does not wait to be sent.
    due_us: int | None


class Backlog(NamedTuple):
    """The numbers of unsent effects, each counted up to a limit."""

    unsent: int
    #: Since when, or from when, an effect is due.
    due_us: int | None
    #: The effects that wait for a person.
    dead: int


class OutboxStore:
    """The outbox. Each call is one idempotent transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def enqueue(self, effects: Sequence[Effect]) -> int:
        """Enqueue effects in this order, each once by its name; gives the number of new ones."""
        return self._tables.writing(lambda ask: enqueue(ask, effects))

    def take(self, lease_s: float, receiver: int | None = None) -> LeasedEffect | None:
        """Lease the longest due number of GitHub, and take its first effect. None if none is due, or if the
        next effect would exceed the limit of effects a minute or an hour. With `receiver`: of its queue."""
        token = os.urandom(8).hex()
        lease = {"lease_us": to_us(lease_s), "token": token}

        def leasing(ask: Ask) -> list[Any]:
            if receiver is None:
                return ask("outbox/lease", **lease)
            return ask("outbox/lease_receiver", receiver=receiver, **lease)

        def work(ask: Ask) -> LeasedEffect | None:
            while leased := leasing(ask):
                repository, number = leased[0]
                of = {"repository": repository, "number": number}
                found = ask("outbox/head", **of)
                if found:
                    place, *rest = found[0]
                    if receiver is None:
                        ask("outbox/mark_sent", place=place, **of)
                    return LeasedEffect(repository, number, place, token, *rest)
                ask("outbox/set_due", wait_us=0, held=token, token=None, **of)
            return None

        return self._tables.writing(work)

    def next_s(self, receiver: int | None = None) -> float | None:
        """The seconds until an effect of GitHub, or of a receiver, can be taken; None if all are sent."""
        if receiver is None:
            found = self._tables.read("outbox/next")
        else:
            found = self._tables.read("outbox/next_of_receiver", receiver=receiver)
        return max(0.0, found[0][0] / 1e6) if found else None

    def settle(self, taken: LeasedEffect, *, made: int | None, outcome: str) -> bool:
        """Mark an effect as carried out, or as dropped for a reason. `made` is the new id of its thing.

        False, and nothing is written, if another relay now has the lease.
        """

        def work(ask: Ask) -> bool:
            if not ask("outbox/hold", **_queue(taken), token=taken.token):
                return False
            ask("outbox/settle", place=taken.place, made=made, outcome=outcome, **_queue(taken))
            ask("outbox/set_due", wait_us=0, held=taken.token, token=None, **_queue(taken))
            return True

        return self._tables.writing(work)

    def put_off(
        self, taken: LeasedEffect, wait_s: float | None, why: str, *, failed: bool, maybe_sent: bool
    ) -> bool:
        """Postpone an effect that could not be carried out: it is retried after `wait_s`; None leaves it to a
        person. `failed` counts the attempt. `maybe_sent` means that GitHub may have it anyway."""
        how = {"failed": int(failed), "maybe_sent": int(maybe_sent), "wait_us": maybe_us(wait_s), "why": why}
        # While it waits, the queue stays with the token, so that new effects do not make it due.
        kept = None if wait_s is None else taken.token

        def work(ask: Ask) -> bool:
            if not ask("outbox/hold", **_queue(taken), token=taken.token):
                return False
            ask("outbox/put_off", place=taken.place, **how, **_queue(taken))
            ask(
                "outbox/set_due",
                wait_us=to_us(wait_s or 0),
                held=taken.token,
                token=kept,
                **_queue(taken),
            )
            return True

        return self._tables.writing(work)

    def effects(self, repository: int, number: int, limit: int) -> list[OutboxEntry]:
        """The effects of a number, the newest first."""
        of = {"repository": repository, "number": number}
        return self._listed("outbox/effects", limit=limit, **of)

    def dead(self, limit: int) -> list[OutboxEntry]:
        """The effects that wait for a person, the oldest first."""
        return self._listed("outbox/dead", limit=limit)

    def waiting(self, limit: int, *, after: EffectPlace) -> list[EffectRecord]:
        """Unsent effects after a place, number by number in the order in which each number sends them."""
        rows = self._tables.read("outbox/waiting", limit=limit, **after._asdict())
        return [EffectRecord(*row) for row in rows]

    def failed(self, limit: int) -> list[EffectRecord]:
        """The effects that wait for a person in full, the oldest first."""
        return [EffectRecord(*row) for row in self._tables.read("outbox/failed", limit=limit)]

    def settled(self, limit: int) -> list[EffectRecord]:
        """Effects that were carried out or dropped, the newest first."""
        return [EffectRecord(*row) for row in self._tables.read("outbox/settled", limit=limit)]

    def backlog(self, limit: int) -> Backlog:
        return Backlog(*self._tables.read("outbox/backlog", limit=limit)[0])

    def retry(self, limit: int) -> int:
        """Requeue up to `limit` effects that wait for a person, at their old places; gives their number."""

        def work(ask: Ask) -> int:
            return _requeued(ask, ask("outbox/retry", limit=limit))

        return self._tables.writing(work)

    def retry_each(self, places: Sequence[EffectPlace]) -> int:
        """Requeue those of these effects that wait for a person; gives their number."""

        def work(ask: Ask) -> int:
            return _requeued(ask, [r for p in sorted(places) for r in ask("outbox/retry_one", **p._asdict())])

        return self._tables.writing(work)

    def drop_each(self, places: Sequence[EffectPlace], why: str) -> int:
        """Give up those of these effects that wait for a person; gives their number."""

        def work(ask: Ask) -> int:
            return sum(len(ask("outbox/drop_one", why=why, **p._asdict())) for p in sorted(places))

        return self._tables.writing(work)

    def _listed(self, name: str, **params: int) -> list[OutboxEntry]:
        return [OutboxEntry(*row) for row in self._tables.read(name, **params)]


def enqueue(ask: Ask, effects: Sequence[Effect]) -> int:
    """Enqueue effects in the current transaction. Queues are locked in a fixed order."""
    groups: dict[tuple[int, int], list[Effect]] = {}
    for each in effects:
        groups.setdefault((each.repository, each.number), []).append(each)
    new = 0
    for (repository, number), those in sorted(groups.items()):
        of = {"repository": repository, "number": number}
        last = ask("outbox/open", count=len(those), **of)[0][0]
        for place, each in enumerate(those, last - len(those) + 1):
            new += len(ask("outbox/owe", **each._asdict(), place=place))
        ask("outbox/set_due", wait_us=0, held=None, token=None, **of)
    return new


def _requeued(ask: Ask, again: Sequence[Sequence[int]]) -> int:
    """Make the queues of requeued effects due."""
    for repository, number in sorted({(row[0], row[1]) for row in again}):
        ask("outbox/set_due", wait_us=0, held=None, token=None, repository=repository, number=number)
    return len(again)


def _queue(taken: LeasedEffect) -> dict[str, int]:
    return {"repository": taken.repository, "number": taken.number}
