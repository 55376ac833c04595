"""The outbox in a database, the same for both: only the statements are of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from interlock.core.timing import to_us
from interlock.store.outbox_port import Backlog, Effect, Owing, Taken

T = TypeVar("T")
#: Asks a statement of `sql/outbox` by its name, or of another folder by both.
Ask = Callable[..., list[Any]]


class Tables(Protocol):
    """How statements reach a database."""

    def writing(self, work: Callable[[Ask], T]) -> T:
        """Do work in one transaction. It may be repeated."""

    def reading(self, work: Callable[[Ask], T]) -> T: ...


class Outbox:
    """The outbox of one database."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def owe(self, effects: Sequence[Effect]) -> int:
        return self._tables.writing(lambda ask: owe(ask, effects))

    def take(self, lease_s: float) -> Taken | None:
        token = os.urandom(8).hex()

        def work(ask: Ask) -> Taken | None:
            while leased := ask("lease", lease_us=to_us(lease_s), token=token):
                repository, number = leased[0]
                of = {"repository": repository, "number": number}
                found = ask("head", **of)
                if found:
                    place, *rest = found[0]
                    ask("mark_sent", place=place, **of)
                    return Taken(repository, number, place, token, *rest)
                ask("set_due", wait_us=0, held=token, token=None, **of)
            return None

        return self._tables.writing(work)

    def next_s(self) -> float | None:
        found = self._tables.reading(lambda ask: ask("next"))
        return max(0.0, found[0][0] / 1e6) if found else None

    def settle(self, taken: Taken, *, made: int | None, outcome: str, then: Sequence[Effect] = ()) -> bool:
        def work(ask: Ask) -> bool:
            if not ask("hold", **_queue(taken), token=taken.token):
                return False
            ask("settle", place=taken.place, made=made, outcome=outcome, **_queue(taken))
            owe(ask, then)
            ask("set_due", wait_us=0, held=taken.token, token=None, **_queue(taken))
            return True

        return self._tables.writing(work)

    def put_off(
        self, taken: Taken, wait_s: float | None, why: str, *, failed: bool, maybe_sent: bool
    ) -> bool:
        how = {"failed": int(failed), "maybe_sent": int(maybe_sent), "wait_us": _us(wait_s), "why": why}
        # While it waits, the queue stays with the token: what is owed meanwhile does not make it due.
        kept = None if wait_s is None else taken.token

        def work(ask: Ask) -> bool:
            if not ask("hold", **_queue(taken), token=taken.token):
                return False
            ask("put_off", place=taken.place, **how, **_queue(taken))
            ask("set_due", wait_us=to_us(wait_s or 0), held=taken.token, token=kept, **_queue(taken))
            return True

        return self._tables.writing(work)

    def effects(self, repository: int, number: int, limit: int) -> list[Owing]:
        of = {"repository": repository, "number": number}
        return self._listed("effects", limit=limit, **of)

    def dead(self, limit: int) -> list[Owing]:
        return self._listed("dead", limit=limit)

    def backlog(self, limit: int) -> Backlog:
        return Backlog(*self._tables.reading(lambda ask: ask("backlog", limit=limit))[0])

    def retry(self, limit: int) -> int:
        def work(ask: Ask) -> int:
            again = ask("retry", limit=limit)
            for repository, number in sorted({tuple(row) for row in again}):
                ask("set_due", wait_us=0, held=None, token=None, repository=repository, number=number)
            return len(again)

        return self._tables.writing(work)

    def _listed(self, name: str, **params: int) -> list[Owing]:
        return [Owing(*row) for row in self._tables.reading(lambda ask: ask(name, **params))]


def owe(ask: Ask, effects: Sequence[Effect]) -> int:
    """Owe effects in a transaction that has begun. Queues are locked in one order."""
    groups: dict[tuple[int, int], list[Effect]] = {}
    for each in effects:
        groups.setdefault((each.repository, each.number), []).append(each)
    new = 0
    for (repository, number), those in sorted(groups.items()):
        of = {"repository": repository, "number": number}
        last = ask("open", count=len(those), **of)[0][0]
        for place, each in enumerate(those, last - len(those) + 1):
            fields = {**each._asdict(), "place": place, "after_us": _us(each.after_s)}
            new += len(ask("owe", **fields))
        ask("set_due", wait_us=0, held=None, token=None, **of)
    return new


def _queue(taken: Taken) -> dict[str, int]:
    return {"repository": taken.repository, "number": taken.number}


def _us(span_s: float | None) -> int | None:
    return None if span_s is None else to_us(span_s)
