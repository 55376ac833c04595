"""The store for several machines: PostgreSQL through psycopg 3 and a pool.

Locks are taken in one order everywhere: pool, agent, budgets, lanes sorted, items sorted, plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.errors import InsufficientPrivilege, ReadOnlySqlTransaction

from interlock.core.claims import MESSAGES_AT_ONCE, Claim
from interlock.core.commands import Repair
from interlock.core.errors import StoreUnavailable
from interlock.core.handles import Handle
from interlock.core.ledger import LedgerChanges, Snapshot
from interlock.core.model import Item, ItemId
from interlock.core.timing import Timing
from interlock.store.clock import since_boot_us
from interlock.store.port import (
    Build,
    CallOutcome,
    ClaimAnswer,
    Depths,
    EndsAndClaim,
    Finding,
    Load,
    Renewal,
    outcome_of,
)
from interlock.store.postgres.claims import Claims, filters
from interlock.store.postgres.clock import ServerClock
from interlock.store.postgres.database import GONE, Database, only
from interlock.store.postgres.tables import PostgresTables
from interlock.store.postgres.transactions import Transactions, unread_from_rows
from interlock.store.registry import Registry
from interlock.store.retention import BY_PLAN
from interlock.store.rows import (
    array,
    item_from_row,
    remembered,
)
from interlock.store.tables import Ask

if TYPE_CHECKING:
    from interlock.store.access import Note

T = TypeVar("T")


class PostgresStore(Registry):
    """A store on a PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        super().__init__(PostgresTables(database))
        self.database = database
        self.clock = ServerClock(database)
        self.transactions = Transactions(database, self.clock)
        self.claims = Claims(database, self.transactions)

    @property
    def timing(self) -> Timing:
        return self.database.timing

    @timing.setter
    def timing(self, timing: Timing) -> None:
        self.database.timing = timing

    def close(self) -> None:
        self.database.close()

    # -- reading ----------------------------------------------------------------------------------

    def at_once(self, work: Callable[[], T]) -> T:
        return self.database.at_once(work)

    def now_us(self) -> int:
        return self.database.given_now() or int(self.database.rows("now")[0][0])

    def due(self, limit: int) -> list[ItemId]:
        params = {"now_us": self.database.given_now(), "limit": limit}

        def work() -> tuple[int, list[tuple[Any, ...]]]:
            with self.database.connection() as conn:
                return since_boot_us(), conn.execute(self.database.sql["due"], params, binary=True).fetchall()

        self.clock.recall()
        while True:
            sent_us, rows = self.database.persistently(work)
            _, now_us, offset_us = rows[0]
            if not self.clock.stepped(now_us, offset_us, sent_us):
                return list(dict.fromkeys(item for item, *_ in rows if item is not None))
            self.clock.correct()

    def look(self, item: ItemId) -> Snapshot:
        rows = self.database.rows("look", item=item, limit=MESSAGES_AT_ONCE)
        items = {i.id: i for i in map(item_from_row, rows)}
        known = [r[-9:] for r in rows[:1] if r[-9] is not None]
        return Snapshot(items=items, unread=unread_from_rows(items, rows), **remembered(known))

    def depths(self) -> Depths:
        def fold() -> None:
            # A read-only role leaves it to others: unfolded changes are counted anyway.
            with suppress(InsufficientPrivilege, ReadOnlySqlTransaction):
                self.database.run_statement("fold_tallies")

        self.database.persistently(fold)
        return super().depths()

    def _own_findings(self) -> list[Finding]:
        known, changed = self.database.rows("server")[0]
        told = "The run numbers are those of this server and timeline."
        if changed:
            told += f" They were moved forward to it on {changed} UTC, after a failover or a restore."
        gone = () if known else ("the database is on another server or timeline than at the last write",)
        return [Finding(name="server_is_known", promise=told, mend="interlock sweep", broken=gone)]

    # -- writing ----------------------------------------------------------------------------------

    def tickets(self, count: int) -> list[int]:
        """Take tickets before any wait for a lock, so that the order of arrival is kept."""
        asking = self.database.persistently
        return [r[0] for r in asking(lambda: self.database.ask("tickets", {"count": count}))]

    shares_commits = False

    def together(self, works: Sequence[Callable[[], Any]]) -> list[CallOutcome]:
        def once() -> list[CallOutcome]:
            with self.database.pinned_transaction():
                return [CallOutcome(work()) for work in works]

        if len(works) > 1:
            try:
                return self.database.persistently(once)
            except StoreUnavailable as error:
                return [CallOutcome(None, error)] * len(works)
            except Exception:  # noqa: S110  (it concerns one of them, which says so below)
                pass
        return [outcome_of(work) for work in works]

    @property
    def in_transaction(self) -> bool:
        return self.database.pinned is not None

    def transact(self, load: Load, build: Build, note: Note | None = None) -> LedgerChanges:
        return self.transactions.transact(load, build, note)

    def claim(self, claim: Claim, *, due_first: bool, note: Note | None = None) -> ClaimAnswer:
        answer = self.claims.claim(claim, due_first=due_first, note=note)
        self.transactions.early_ends.remember({item.spec.id: item for item, _ in answer.claimed})
        return answer

    def claim_each(self, claims: Sequence[tuple[Claim, Note | None]]) -> list[ClaimAnswer | None]:
        found = self.claims.claim_each(claims)
        started = (claimed for answer in found if answer is not None for claimed in answer.claimed)
        self.transactions.early_ends.remember({item.spec.id: item for item, _ in started})
        return found

    def finish_and_claim(
        self, load: Load, build: Build, claim: Claim, note: Note | None = None
    ) -> EndsAndClaim:
        done = self.claims.finish_and_claim(load, build, claim, note)
        self.transactions.early_ends.remember({item.spec.id: item for item, _ in done.claimed})
        return done

    def renew(self, renewals: Sequence[Renewal]) -> dict[Handle, Item]:
        # An update takes one row for each item. If a run is named twice, the last one counts, by its mark.
        once = {w.handle: w.seen for w in sorted(renewals, key=lambda w: w.seen)}
        params = {
            "items": array([handle.item for handle in once]),
            "runs": array([handle.run for handle in once]),
            "bits": array([handle.bits for handle in once]),
            "seens": array(list(once.values())),
            "now_us": self.database.given_now(),
        }
        rows = self.database.persistently(lambda: self.database.ask("renew", params))
        kept = {i.id: i for i in map(item_from_row, rows)}
        self.transactions.early_ends.remember(kept)
        return {h: kept[h.item] for h in once if h.item in kept and kept[h.item].is_run_of(h.run, h.bits)}

    def see_agent(self, key: str, name: str) -> float | None:
        def work() -> float | None:
            with self.database.connection() as conn:
                sent_us = since_boot_us()
                now_us, offset_us = conn.execute(self.database.sql["now"]).fetchall()[0]
                # So that a process that only claims has an earlier reading to compare with.
                self.clock.stepped(now_us, offset_us, sent_us)
                params = {"key": key, "name": name, "now_us": self.database.given_now() or now_us}
                rows = conn.execute(self.database.sql["see_agent"], params).fetchall()
                return rows[0][0] if rows else None  # None: it is new

        return self.database.persistently(work)

    def forget_keys(self, limit: int) -> int:
        """Delete old keys, and fold the changed counts: a sweep keeps both small. A sweep also detects a
        failover even if no item is due."""

        def work() -> int:
            with self.database.connection() as conn:
                conn.execute(self.database.sql["fold_tallies"])
                params = {"now_us": self.database.given_now(), "limit": limit}
                return conn.execute(self.database.sql["forget_keys"], params).rowcount

        return self.database.persistently(work)

    def skip_runs(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool:
        return self.database.skip_runs(past, armed_us=armed_us, run=run, lane=lane)

    # -- only for this database -------------------------------------------------------------------

    by_plan = (*BY_PLAN, ("gates", "plan"))

    def _repair(self, lane: str) -> None:
        with self.database.connection() as conn:
            self.transactions.decide(conn, Load(lanes=(lane,)), Repair(lane=lane))

    def _wake(self) -> None:
        self.database.notify()

    def _uncount(self, ask: Ask, items: Sequence[int]) -> None:
        ask("uncount_items", items=items)

    def vacuum(self) -> None:
        """Do nothing, as autovacuum frees the space for new rows."""

    # -- waiting ----------------------------------------------------------------------------------

    def wait_for_work(self, claim: Claim, timeout_s: float) -> bool:
        """Wait for a notification. With a pooler that hides them, the caller has to poll."""
        try:
            listener = self.database.listener()
            if only(listener.execute(self.database.sql["has_ready"], filters(claim)).fetchone()):
                return True
            return listener.hear(timeout_s)
        except GONE:
            self.database.forget_listener()
            time.sleep(min(timeout_s, 0.5))
            return False
