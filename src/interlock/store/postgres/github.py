"""What PostgreSQL keeps of GitHub."""

from __future__ import annotations

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
from interlock.store.postgres.database import Database
from interlock.store.postgres.statement import Connection
from interlock.store.series_port import Note

T = TypeVar("T")


class PostgresGitHub:
    """The tables of GitHub in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # -- repositories -----------------------------------------------------------------------------

    def repository(self, repository: int, name: str) -> Repository:
        found = self._rows("repository", id=repository)
        lane_name, other = lane_names(name, repository)
        while not found:  # again if two new ones want one name for their lanes at once
            self._rows("add_repository", id=repository, name=name, lane_name=lane_name, other=other)
            found = self._rows("repository", id=repository)
        if found[0][1] != name:
            self._rows("rename_repository", id=repository, name=name)
            found = self._rows("repository", id=repository)
        return Repository(*found[0])

    def repository_named(self, name: str) -> Repository | None:
        found = self._rows("repository_named", name=name)
        return Repository(*found[0]) if found else None

    def repositories(self, after: int, limit: int) -> list[Repository]:
        return [Repository(*row) for row in self._rows("repositories", after=after, limit=limit)]

    def set_swept(self, repository: int, swept_to: str) -> None:
        self._rows("set_swept", id=repository, swept_to=swept_to)

    def choices(self, repository: int) -> Choices:
        found = self._rows("choices", repository=repository)
        return Choices(*map(bool, found[0])) if found else Choices()

    def choose(self, repository: int, choices: Choices) -> None:
        comments, lane_status = map(int, choices)
        self._rows("choose", repository=repository, comments=comments, lane_status=lane_status)

    # -- deliveries -------------------------------------------------------------------------------

    def keep_delivery(
        self, delivery: str, event: str, repository: int | None, number: int | None, body: str
    ) -> bool:
        kept = {"id": delivery, "event": event, "repository": repository, "number": number, "body": body}
        return bool(self._rows("keep_delivery", **kept))

    def delivery(self, delivery: str) -> KeptDelivery | None:
        found = self._rows("delivery", id=delivery)
        return KeptDelivery(*found[0]) if found else None

    def has_delivery(self, delivery: str) -> bool:
        return bool(self._rows("has_delivery", id=delivery))

    def due_deliveries(self, limit: int) -> list[str]:
        return [row[0] for row in self._rows("due_deliveries", limit=limit)]

    def decide_delivery(self, delivery: str, outcome: str) -> None:
        self._rows("decide_delivery", id=delivery, outcome=outcome)

    def put_off_delivery(self, delivery: str, wait_s: float | None, why: str) -> None:
        self._rows("put_off_delivery", id=delivery, wait_us=_us(wait_s), why=why)

    def undecided(self, limit: int) -> list[Undecided]:
        return [Undecided(*row) for row in self._rows("undecided", limit=limit)]

    def undecided_of(self, repository: int, number: int, limit: int) -> list[Undecided]:
        rows = self._rows("undecided_of_number", repository=repository, number=number, limit=limit)
        return [Undecided(*row) for row in rows]

    # -- numbers and what follows -----------------------------------------------------------------

    def known(self, repository: int, number: int) -> Known | None:
        found = self._rows("number", repository=repository, number=number)
        return Known(*found[0]) if found else None

    def advance(self, now: Known, follows: Sequence[Follows], closes: Sequence[int] = ()) -> bool:
        of = {"repository": now.repository, "pull": now.number}

        def work(conn: Connection) -> bool:
            last = self._ask(conn, "advance_number", count=len(follows), **now._asdict())
            if last:
                self._add(conn, now.repository, now.number, follows, last[0][0])
                self._ask(conn, "drop_closes", **of)
                for issue in closes:
                    self._ask(conn, "add_closes", issue=issue, **of)
            return bool(last)

        return self._in_transaction(work)

    def closing(self, repository: int, issues: Sequence[int], limit: int) -> list[tuple[int, int]]:
        rows = self._rows("closing", repository=repository, issues=list(issues), limit=limit)
        return [(issue, pull) for issue, pull in rows]

    def contested(self, limit: int) -> list[tuple[str, int, int]]:
        return [(name, issue, pulls) for name, issue, pulls in self._rows("contested", limit=limit)]

    def add(self, repository: int, number: int, follows: Sequence[Follows]) -> bool:
        def work(conn: Connection) -> bool:
            of = {"repository": repository, "number": number}
            last = self._ask(conn, "take_places", count=len(follows), **of)
            return self._add(conn, repository, number, follows, last[0][0])

        return self._in_transaction(work)

    def _add(
        self, conn: Connection, repository: int, number: int, follows: Sequence[Follows], last: int
    ) -> bool:
        of = {"repository": repository, "number": number}
        first = last - len(follows) + 1
        new = [
            self._ask(conn, "add_consequence", place=place, **each._asdict(), **of)
            for place, each in enumerate(follows, first)
        ]
        return any(new)

    def owed(self, repository: int, number: int, limit: int) -> list[Owed]:
        return [Owed(*row) for row in self._rows("owed", repository=repository, number=number, limit=limit)]

    def owing(self, limit: int) -> list[tuple[int, int]]:
        return [(r, n) for r, n in self._rows("owing", limit=limit)]

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

        def work(conn: Connection) -> bool:
            done = self._ask(conn, "carry_out", **of)
            if done:
                owe(self._of_outbox(conn), effects)
            return bool(done)

        return self._in_transaction(work) if effects else bool(self._rows("carry_out", **of))

    def put_off(self, repository: int, number: int, name: str, wait_s: float | None, why: str) -> None:
        of = {"repository": repository, "number": number, "name": name}
        self._rows("put_off", wait_us=_us(wait_s), why=why, **of)

    def consequences(self, repository: int, number: int, limit: int) -> list[Consequence]:
        rows = self._rows("consequences", repository=repository, number=number, limit=limit)
        return [Consequence(*row) for row in rows]

    def unpaid(self, limit: int) -> list[Unpaid]:
        return [Unpaid(*row) for row in self._rows("unpaid", limit=limit)]

    def try_again(self, limit: int) -> int:
        names = ("retry_deliveries", "retry_consequences")
        again = self._in_transaction(
            lambda conn: sum(len(self._ask(conn, name, limit=limit)) for name in names)
        )
        return again + self.outbox.retry(limit)

    # -- reactions of runs ------------------------------------------------------------------------

    def keep_sign(self, sign: KeptSign) -> None:
        self._rows("keep_sign", **sign._asdict())

    def drop_sign(self, run: int, effects: Sequence[Effect] = ()) -> bool:
        def work(conn: Connection) -> bool:
            gone = self._ask(conn, "drop_sign", run=run)
            if gone:
                owe(self._of_outbox(conn), effects)
            return bool(gone)

        return self._in_transaction(work)

    def left_signs(self, after_s: float, limit: int) -> list[LeftSign]:
        rows = self._rows("left_signs", after_us=to_us(after_s), limit=limit)
        return [LeftSign(KeptSign(*row), shared) for *row, shared in rows]

    # -- accounts of runs -------------------------------------------------------------------------

    def keep_account(self, run: int, item: int, account: str) -> None:
        self._rows("keep_account", run=run, item=item, account=account)

    def acts(self, lane: str, account: str, from_us: int, until_us: int) -> bool:
        of = {"lane": lane, "account": account, "from_us": from_us, "until_us": until_us}
        return bool(self._rows("acts", most=ACTING_MAX, **of)[0][0])

    def accounts(self, limit: int) -> list[str]:
        return [account for (account,) in self._rows("accounts", limit=limit)]

    # -- answers ----------------------------------------------------------------------------------

    def answer(self, key: str) -> Answer | None:
        found = self._rows("answer", key=key)
        return Answer(*found[0]) if found else None

    def keep_answer(self, key: str, answer: Answer) -> None:
        self._rows("keep_answer", key=key, **answer._asdict())

    # -- notes of series --------------------------------------------------------------------------

    def note(self, lane: str) -> Note | None:
        found = self._rows("note", lane=lane)
        return Note(*found[0]) if found else None

    def notes(self, after: str, limit: int) -> list[Note]:
        return [Note(*row) for row in self._rows("notes", after=after, limit=limit)]

    def keep_note(self, note: Note) -> bool:
        return bool(self._rows("keep_note", **note._asdict()))

    # -- pruning ----------------------------------------------------------------------------------

    def old_deliveries(self, before_us: int) -> int:
        count: int = self._rows("old_deliveries", before_us=before_us)[0][0]
        return count

    def prune(self, before_us: int, limit: int) -> tuple[int, bool]:
        def work(conn: Connection) -> tuple[int, bool]:
            gone = [len(self._ask(conn, name, before_us=before_us, limit=limit)) for name in PRUNED]
            return gone[0], max(gone) < limit

        return self._in_transaction(work)

    # -- the outbox -------------------------------------------------------------------------------

    @property
    def outbox(self) -> Outbox:
        return Outbox(self)

    @property
    def links(self) -> Links:
        return Links(self)

    def writing(self, work: Callable[[Ask], T]) -> T:
        return self._in_transaction(lambda conn: work(self._of_outbox(conn)))

    def reading(self, work: Callable[[Ask], T]) -> T:
        def once() -> T:
            with self._database.connection() as conn:
                return work(self._of_outbox(conn))

        return self._database.persistently(once)

    def _of_outbox(self, conn: Connection) -> Ask:
        def ask(name: str, /, **params: Any) -> list[Any]:
            return self._ask(conn, name if "/" in name else f"outbox/{name}", **params)

        return ask

    # -- statements -------------------------------------------------------------------------------

    def _rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        def once() -> list[tuple[Any, ...]]:
            with self._database.connection() as conn:
                return self._ask(conn, name, **params)

        return self._database.persistently(once)

    def _ask(self, conn: Connection, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        given = {**params, "now_us": self._database.given_now()}
        found = conn.execute(
            self._database.sql[name if "/" in name else f"github/{name}"], given, binary=True
        )
        return found.fetchall() if found.description else []

    def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        def once() -> T:
            with self._database.connection() as conn, self._database.transaction(conn):
                return work(conn)

        return self._database.persistently(once)


def _us(span_s: float | None) -> int | None:
    return None if span_s is None else to_us(span_s)
