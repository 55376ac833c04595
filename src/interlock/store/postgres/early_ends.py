"""Ends runs in one statement, decided from the items that this process has cached.

    claim, renewal ── remember
    finish ────────── decided ── end     one statement, which locks, compares and writes
                        │         └─ None: a row has changed; the finish locks and loads
                        └─ None: the decision depends on more; the finish locks and loads

If the answer of the statement is lost, it is sent again. It may then find the runs ended as it would record
them: by the first attempt, or by another process that sent the same reports.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from interlock.core.early_ends import decide_early, ended_at
from interlock.core.ledger import LedgerChanges
from interlock.core.model import Item, ItemId
from interlock.store.bulk import in_bulk
from interlock.store.port import Build, Load
from interlock.store.postgres.database import BEGIN, GONE, Database, commit, roll_back
from interlock.store.postgres.statement import StatementConnection
from interlock.store.rows import PORTION_CHARS, array, run_from_row

#: The most running items that a process caches. Others are loaded when they end.
KNOWN_MAX = 10_000

_decide_early = in_bulk(decide_early)


class Rest(Protocol):
    """What a transaction of the rules still does after its own writes, its commit included."""

    def send(self, conn: StatementConnection, decision: LedgerChanges) -> None: ...
    #: The same behind the end of runs, before it is known whether they ended; gives whether it was sent.
    def send_unseen(self, conn: StatementConnection) -> bool: ...
    #: The transaction was committed, but its answers were lost.
    def recall(self, conn: StatementConnection, decision: LedgerChanges) -> None: ...


class EarlyEnd:
    """One early decided finish."""

    def __init__(self, decision: LedgerChanges) -> None:
        self.decision = decision
        #: The length of the callers' texts to write.
        self.chars = sum([len(run.result or "") + len(run.error or "") for run in decision.runs])
        #: Whether the statement was sent and its answer lost.
        self.unsure = False


class EarlyEnds:
    """The running items that this process has cached, and the ends that it decides from them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[ItemId, Item] = OrderedDict()

    def remember(self, items: Mapping[ItemId, Item]) -> None:
        """Cache claimed or renewed items."""
        self._known.update(items)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def decided(self, load: Load, build: Build) -> EarlyEnd | None:
        """Decide on reports about cached items; None if items must be loaded, or the text is too much for one
        statement."""
        if not load.runs:
            return None
        found = [self._known.pop(item, None) for item in load.items]
        items = {item.spec.id: item for item in found if item is not None}
        if len(items) < len(found):
            return None
        decision = _decide_early(items, build(()), self._database.timing)
        early = None if decision is None else EarlyEnd(decision)
        return None if early is None or early.chars > PORTION_CHARS else early

    def end(
        self,
        conn: StatementConnection,
        early: EarlyEnd,
        keep: Callable[[LedgerChanges], None] | None,
    ) -> LedgerChanges | None:
        """End the runs; None if a row has changed. `keep` writes more in the same transaction."""
        try:
            ended_us = self._end(conn, early) if keep is None else self._end_and_keep(conn, early, keep)
            if ended_us is None and early.unsure:
                ended_us = self._ended_before(conn, early)
        except GONE:
            early.unsure |= conn.broken
            raise
        return None if ended_us is None else ended_at(early.decision, ended_us)

    def end_with(
        self, conn: StatementConnection, early: EarlyEnd, lock: Callable[[], None], rest: Rest
    ) -> LedgerChanges | None:
        """The same, with locks before it and the rest of the transaction behind it."""
        try:
            ended_us = self._end_with(conn, early, lock, rest)
            if ended_us is None and early.unsure:
                ended_us = self._ended_before(conn, early)
                if ended_us is not None:
                    rest.recall(conn, early.decision)
        except GONE:
            early.unsure |= conn.broken
            raise
        return None if ended_us is None else ended_at(early.decision, ended_us)

    def _end_with(
        self, conn: StatementConnection, early: EarlyEnd, lock: Callable[[], None], rest: Rest
    ) -> int | None:
        try:
            with self._database.pipeline(conn, chars=early.chars):
                conn.execute(BEGIN)
                lock()
                cursor = conn.execute(*self._statement(early, is_followed=True), binary=True)
                sent = rest.send_unseen(conn)
            ended = cursor.fetchall()
            if not sent:
                with self._database.pipeline(conn):
                    if ended:
                        rest.send(conn, ended_at(early.decision, ended[0][0]))
                    else:
                        conn.execute("ROLLBACK")
        except BaseException:
            roll_back(conn)
            raise
        return ended[0][0] if ended else None

    def _end(self, conn: StatementConnection, early: EarlyEnd) -> int | None:
        rows = conn.fetch(*self._statement(early))
        return rows[0][0] if rows else None

    def _end_and_keep(
        self, conn: StatementConnection, early: EarlyEnd, keep: Callable[[LedgerChanges], None]
    ) -> int | None:
        try:
            with self._database.pipeline(conn, chars=early.chars):
                conn.execute(BEGIN)
                cursor = conn.execute(*self._statement(early), binary=True)
            rows = cursor.fetchall()
            with self._database.pipeline(conn, chars=early.chars):
                if rows:
                    keep(ended_at(early.decision, rows[0][0]))
                commit(conn)
        except BaseException:
            roll_back(conn)
            raise
        return rows[0][0] if rows else None

    def _ended_before(self, conn: StatementConnection, early: EarlyEnd) -> int | None:
        """When the runs ended as decided; None if they did not. The statement that found them ended had
        waited for the transaction that locked their items."""
        runs = early.decision.runs
        cursor = conn.execute(self._database.sql["load_runs"], {"runs": array([r.run for r in runs])})
        found = {record.run: record for record in map(run_from_row, cursor)}
        if any(r.run not in found or found[r.run]._replace(ended_us=r.ended_us) != r for r in runs):
            return None
        return found[runs[0].run].ended_us

    def _statement(self, early: EarlyEnd, *, is_followed: bool = False) -> tuple[str, dict[str, Any]]:
        """The statement that ends these runs, with its parameters. It gives the time, if it did."""
        runs, after = early.decision.runs, early.decision.after
        state, event = after[runs[0].item].state, early.decision.events[0]
        # All reports are of one kind, and end the same way.
        ends = {
            "status": str(state.status),
            "reason": str(state.reason),
            "run_status": str(runs[0].status),
            "run_reason": str(runs[0].reason),
            "kind": str(event.kind),
            "now_us": self._database.given_now(),
            "is_followed": is_followed,
        }
        if len(runs) == 1:
            run = runs[0]
            return self._database.sql["end_run"], ends | {
                "item": run.item,
                "run": run.run,
                "bits": run.bits,
                "message_count": state.message_count,
                "result": run.result,
                "error": run.error,
            }
        return self._database.sql["end_runs"], ends | {
            "items": array([run.item for run in runs]),
            "runs": array([run.run for run in runs]),
            "bits": array([run.bits for run in runs]),
            "message_counts": array([after[run.item].state.message_count for run in runs]),
            "results": array([run.result for run in runs]),
            "errors": array([run.error for run in runs]),
        }
