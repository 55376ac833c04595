"""What SQLite keeps of GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from interlock.core.timing import to_us
from interlock.store.github_port import (
    ACTING_MAX,
    PRUNED,
    Answer,
    Choices,
    Consequence,
    Follows,
    KeptDelivery,
    KeptSign,
    Known,
    LeftSign,
    Owed,
    Repository,
    Undecided,
    Unpaid,
    lane_names,
)
from interlock.store.links import Links
from interlock.store.outbox import Ask, Outbox, owe
from interlock.store.outbox_port import Effect
from interlock.store.series_port import Note
from interlock.store.sqlite.database import SqliteDatabase

T = TypeVar("T")


class SqliteGitHub:
    """The tables of GitHub in one SQLite file."""

    def __init__(self, database: SqliteDatabase, now_us: Callable[[], int]) -> None:
        self._database = database
        self._now_us = now_us

    # -- repositories -----------------------------------------------------------------------------

    def repository(self, repository: int, name: str) -> Repository:
        found = self._read("repository", id=repository)
        if not found or found[0][1] != name:
            lane_name, other = lane_names(name, repository)
            with self._database.write():
                self._read("add_repository", id=repository, name=name, lane_name=lane_name, other=other)
                self._read("rename_repository", id=repository, name=name)
            found = self._read("repository", id=repository)
        return Repository(*found[0])

    def repository_named(self, name: str) -> Repository | None:
        found = self._read("repository_named", name=name)
        return Repository(*found[0]) if found else None

    def repositories(self, after: int, limit: int) -> list[Repository]:
        return [Repository(*row) for row in self._read("repositories", after=after, limit=limit)]

    def set_swept(self, repository: int, swept_to: str) -> None:
        self._write("set_swept", id=repository, swept_to=swept_to)

    def choices(self, repository: int) -> Choices:
        found = self._read("choices", repository=repository)
        return Choices(*map(bool, found[0])) if found else Choices()

    def choose(self, repository: int, choices: Choices) -> None:
        self._write("choose", repository=repository, **choices._asdict())

    # -- deliveries -------------------------------------------------------------------------------

    def keep_delivery(
        self, delivery: str, event: str, repository: int | None, number: int | None, body: str
    ) -> bool:
        kept = {"id": delivery, "event": event, "repository": repository, "number": number, "body": body}
        return bool(self._write_at("keep_delivery", **kept))

    def delivery(self, delivery: str) -> KeptDelivery | None:
        found = self._read("delivery", id=delivery)
        return KeptDelivery(*found[0]) if found else None

    def has_delivery(self, delivery: str) -> bool:
        return bool(self._read("has_delivery", id=delivery))

    def due_deliveries(self, limit: int) -> list[str]:
        return [row[0] for row in self._read("due_deliveries", now_us=self._now_us(), limit=limit)]

    def decide_delivery(self, delivery: str, outcome: str) -> None:
        self._write("decide_delivery", id=delivery, outcome=outcome)

    def put_off_delivery(self, delivery: str, wait_s: float | None, why: str) -> None:
        self._write_at("put_off_delivery", id=delivery, wait_us=_us(wait_s), why=why)

    def undecided(self, limit: int) -> list[Undecided]:
        return [Undecided(*row) for row in self._read("undecided", limit=limit)]

    def undecided_of(self, repository: int, number: int, limit: int) -> list[Undecided]:
        rows = self._read("undecided_of_number", repository=repository, number=number, limit=limit)
        return [Undecided(*row) for row in rows]

    # -- numbers and what follows -----------------------------------------------------------------

    def known(self, repository: int, number: int) -> Known | None:
        found = self._read("number", repository=repository, number=number)
        return Known(*found[0]) if found else None

    def advance(self, now: Known, follows: Sequence[Follows], closes: Sequence[int] = ()) -> bool:
        of = {"repository": now.repository, "pull": now.number}
        with self._database.write():
            now_us = self._now_us()
            last = self._read("advance_number", now_us=now_us, count=len(follows), **now._asdict())
            if last:
                self._add(now.repository, now.number, follows, last[0][0], now_us)
                self._read("drop_closes", **of)
                for issue in closes:
                    self._read("add_closes", issue=issue, **of)
            return bool(last)

    def closing(self, repository: int, issues: Sequence[int], limit: int) -> list[tuple[int, int]]:
        asked = {"repository": repository, "issues": json.dumps(list(issues)), "limit": limit}
        return [(issue, pull) for issue, pull in self._read("closing", **asked)]

    def contested(self, limit: int) -> list[tuple[str, int, int]]:
        return [(name, issue, pulls) for name, issue, pulls in self._read("contested", limit=limit)]

    def add(self, repository: int, number: int, follows: Sequence[Follows]) -> bool:
        with self._database.write():
            last = self._read("take_places", repository=repository, number=number, count=len(follows))
            return self._add(repository, number, follows, last[0][0], self._now_us())

    def _add(self, repository: int, number: int, follows: Sequence[Follows], last: int, now_us: int) -> bool:
        of = {"repository": repository, "number": number, "now_us": now_us}
        first = last - len(follows) + 1
        new = [
            self._read("add_consequence", place=place, **each._asdict(), **of)
            for place, each in enumerate(follows, first)
        ]
        return any(new)

    def owed(self, repository: int, number: int, limit: int) -> list[Owed]:
        return [Owed(*row) for row in self._read("owed", repository=repository, number=number, limit=limit)]

    def owing(self, limit: int) -> list[tuple[int, int]]:
        return [(r, n) for r, n in self._read("owing", now_us=self._now_us(), limit=limit)]

    def carry_out(
        self,
        repository: int,
        number: int,
        name: str,
        *,
        item: int | None,
        outcome: str,
        effects: Sequence[Effect] = (),
    ) -> bool:
        of = {"repository": repository, "number": number, "name": name, "item": item, "outcome": outcome}
        with self._database.write():
            done = self._read("carry_out", now_us=self._now_us(), **of)
            if done:
                owe(self._of_outbox, effects)
            return bool(done)

    def put_off(self, repository: int, number: int, name: str, wait_s: float | None, why: str) -> None:
        of = {"repository": repository, "number": number, "name": name}
        self._write_at("put_off", wait_us=_us(wait_s), why=why, **of)

    def consequences(self, repository: int, number: int, limit: int) -> list[Consequence]:
        rows = self._read("consequences", repository=repository, number=number, limit=limit)
        return [Consequence(*row) for row in rows]

    def unpaid(self, limit: int) -> list[Unpaid]:
        return [Unpaid(*row) for row in self._read("unpaid", limit=limit)]

    def try_again(self, limit: int) -> int:
        with self._database.write():
            now_us = self._now_us()
            names = ("retry_deliveries", "retry_consequences")
            again = sum(len(self._read(name, now_us=now_us, limit=limit)) for name in names)
        return again + self.outbox.retry(limit)

    # -- reactions of runs ------------------------------------------------------------------------

    def keep_sign(self, sign: KeptSign) -> None:
        self._write("keep_sign", **sign._asdict())

    def drop_sign(self, run: int, effects: Sequence[Effect] = ()) -> bool:
        with self._database.write():
            gone = self._read("drop_sign", run=run)
            if gone:
                owe(self._of_outbox, effects)
            return bool(gone)

    def left_signs(self, after_s: float, limit: int) -> list[LeftSign]:
        rows = self._read("left_signs", now_us=self._now_us(), after_us=to_us(after_s), limit=limit)
        return [LeftSign(KeptSign(*row), bool(shared)) for *row, shared in rows]

    # -- accounts of runs -------------------------------------------------------------------------

    def keep_account(self, run: int, item: int, account: str) -> None:
        self._write_at("keep_account", run=run, item=item, account=account)

    def acts(self, lane: str, account: str, from_us: int, until_us: int) -> bool:
        of = {"lane": lane, "account": account, "from_us": from_us, "until_us": until_us}
        return bool(self._read("acts", most=ACTING_MAX, **of)[0][0])

    def accounts(self, limit: int) -> list[str]:
        return [account for (account,) in self._read("accounts", limit=limit)]

    # -- answers ----------------------------------------------------------------------------------

    def answer(self, key: str) -> Answer | None:
        found = self._read("answer", key=key)
        return Answer(*found[0]) if found else None

    def keep_answer(self, key: str, answer: Answer) -> None:
        self._write_at("keep_answer", key=key, **answer._asdict())

    # -- notes of series --------------------------------------------------------------------------

    def note(self, lane: str) -> Note | None:
        found = self._read("note", lane=lane)
        return Note(*found[0]) if found else None

    def notes(self, after: str, limit: int) -> list[Note]:
        return [Note(*row) for row in self._read("notes", after=after, limit=limit)]

    def keep_note(self, note: Note) -> bool:
        return bool(self._write("keep_note", **note._asdict()))

    # -- pruning ----------------------------------------------------------------------------------

    def old_deliveries(self, before_us: int) -> int:
        count: int = self._read("old_deliveries", before_us=before_us)[0][0]
        return count

    def prune(self, before_us: int, limit: int) -> tuple[int, bool]:
        with self._database.write():
            gone = [len(self._read(name, before_us=before_us, limit=limit)) for name in PRUNED]
            return gone[0], max(gone) < limit

    # -- the outbox -------------------------------------------------------------------------------

    @property
    def outbox(self) -> Outbox:
        return Outbox(self)

    @property
    def links(self) -> Links:
        return Links(self)

    def writing(self, work: Callable[[Ask], T]) -> T:
        with self._database.write():
            return work(self._of_outbox)

    def reading(self, work: Callable[[Ask], T]) -> T:
        return work(self._of_outbox)

    def _of_outbox(self, name: str, /, **params: Any) -> list[Any]:
        known = name if "/" in name else f"outbox/{name}"
        return self._read(known, now_us=self._now_us(), **params)

    # -- statements -------------------------------------------------------------------------------

    def _read(self, name: str, /, **params: Any) -> list[Any]:
        return self._database.rows(name if "/" in name else f"github/{name}", **params)

    def _write(self, name: str, /, **params: Any) -> list[Any]:
        with self._database.write():
            return self._read(name, **params)

    def _write_at(self, name: str, /, **params: Any) -> list[Any]:
        """Write what names the time, which is read behind the lock."""
        with self._database.write():
            return self._read(name, now_us=self._now_us(), **params)


def _us(span_s: float | None) -> int | None:
    return None if span_s is None else to_us(span_s)
