"""The store for many machines: PostgreSQL through psycopg 3 and a pool.

Locks are taken in one order everywhere: pool, agent, lanes sorted, items sorted, plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.errors import ForeignKeyViolation

from interlock.core.blocks import NO_LANE, Block, of_blocker
from interlock.core.claiming import Agent, Claim, Pool
from interlock.core.commands import Repair
from interlock.core.ending import refused_writes
from interlock.core.handles import Handle
from interlock.core.ledger import Decision
from interlock.core.model import Event, Item, ItemId, Mode, ModeRule, RunRecord
from interlock.core.names import no_pool
from interlock.core.notices import Mark
from interlock.core.timing import Timing, to_us
from interlock.core.workers import FORGET_AT_ONCE, FORGOTTEN_S, Worker
from interlock.store.clock import since_boot_us
from interlock.store.port import Build, ClaimAnswer, Load, Outcome, Renewal, outcome_of
from interlock.store.postgres.claims import Claims, agent_from_row, filters
from interlock.store.postgres.database import GONE, Database, only
from interlock.store.postgres.reads import PostgresReads
from interlock.store.postgres.statement import Connection, Statement
from interlock.store.postgres.transactions import EVENT_WIDTH, Transactions
from interlock.store.pruning import BY_ITEM, BY_PLAN, Pruned, whole
from interlock.store.rows import (
    array,
    by_handle,
    columns,
    event_row,
    item_from_row,
    pool_from_row,
    run_from_row,
)

if TYPE_CHECKING:
    from interlock.store.access_port import Access, Note
    from interlock.store.metering import Meter
    from interlock.store.postgres.github import PostgresGitHub

T = TypeVar("T")


class PostgresStore(PostgresReads):
    """A store on a PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
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

    # -- writing ----------------------------------------------------------------------------------

    def tickets(self, count: int) -> list[int]:
        """Taken before any lock is waited for, so that order of arrival is not order of luck."""
        asking = self.database.persistently
        return [r[0] for r in asking(lambda: self.database.ask("tickets", {"count": count}))]

    shares_commits = False

    def together(self, works: Sequence[Callable[[], Any]]) -> list[Outcome]:
        return [outcome_of(work) for work in works]

    def transact(self, load: Load, build: Build, note: Note | None = None) -> Decision:
        return self.transactions.transact(load, build, note)

    def claim(self, wish: Claim, *, due_first: bool, note: Note | None = None) -> ClaimAnswer:
        return self.claims.claim(wish, due_first=due_first, note=note)

    def renew(self, wishes: Sequence[Renewal]) -> dict[Handle, Item]:
        # An update takes one row for each item: of a run that is named twice the last one, by its mark.
        once = {w.handle: w.seen for w in sorted(wishes, key=lambda w: w.seen)}
        params = {
            "items": array([handle.item for handle in once]),
            "runs": array([handle.run for handle in once]),
            "bits": array([handle.bits for handle in once]),
            "seens": array(list(once.values())),
            "now_us": self.database.given_now(),
        }
        rows = self.database.persistently(lambda: self.database.ask("renew", params))
        kept = {i.id: i for i in map(item_from_row, rows)}
        return {h: kept[h.item] for h in once if h.item in kept and kept[h.item].is_run_of(h.run, h.bits)}

    def refuse(self, handles: Sequence[Handle], wanted: str) -> dict[Handle, RunRecord]:
        def work(conn: Connection) -> dict[Handle, RunRecord]:
            rows = conn.execute(self.database.sql["load_runs"], {"runs": array([h.run for h in handles])})
            ended = by_handle(map(run_from_row, rows))
            self._log(conn, refused_writes(handles, ended, wanted, 0))
            return ended

        return self._in_transaction(work)

    def see_agent(self, key: str, name: str) -> float | None:
        def work() -> float | None:
            with self.database.connection() as conn:
                sent_us = since_boot_us()
                now_us, offset_us = conn.execute(self.database.sql["now"]).fetchall()[0]
                # So that a process that only claims has a reading to compare with.
                self.clock.stepped(now_us, offset_us, sent_us)
                params = {"key": key, "name": name, "now_us": self.database.given_now() or now_us}
                rows = conn.execute(self.database.sql["see_agent"], params).fetchall()
                return rows[0][0] if rows else None  # none: it is new

        return self.database.persistently(work)

    def set_agent(self, agent: Agent, named: Sequence[str], line: Callable[[Agent], Event]) -> Agent:
        params = {
            "key": agent.key,
            "name": agent.name,
            "max_concurrency": agent.max_concurrency,
            "types": list(agent.types),
            "labels": list(agent.labels),
            "paused_why": agent.paused_why,
            "pool": agent.pool,
            "overtake_after_s": agent.overtake_after_s,
            "named": list(named),
        }
        whose = {"agent": agent.key, "now_us": self.database.given_now()}

        def work(conn: Connection) -> Agent:
            if "paused_why" in named and agent.paused_why is None:
                conn.execute(self.database.sql["lock_agent"], whose)  # before its items, as claims do
                conn.execute(self.database.sql["renew_times_to_claim"], {"project": None, **whose})
            conn.execute(self.database.sql["set_agent"], params)
            made = agent_from_row(self._ask(conn, "agent", whose)[0])
            self._log(conn, [line(made)])
            return made

        try:
            return self._in_transaction(work)
        except ForeignKeyViolation:
            raise no_pool(agent.pool) from None

    def set_pool(self, name: str, max_concurrency: int, event: Event) -> Pool:
        def work(conn: Connection) -> Pool:
            conn.execute(self.database.sql["set_pool"], {"name": name, "max_concurrency": max_concurrency})
            self._log(conn, [event])
            return pool_from_row(self._ask(conn, "pool", {"pool": name})[0])

        return self._in_transaction(work)

    def remove_agent(self, key: str, event: Event) -> bool:
        return self._remove("agent", {"agent": key, "now_us": self.database.given_now()}, event)

    def remove_pool(self, name: str, event: Event) -> bool:
        try:
            return self._remove("pool", {"pool": name}, event)
        except ForeignKeyViolation:  # an agent joined it meanwhile
            return False

    def _remove(self, what: str, params: dict[str, Any], event: Event) -> bool:
        def work(conn: Connection) -> bool:
            conn.execute(self.database.sql[f"lock_{what}"], params)  # whoever claims under its limit is done
            gone = conn.execute(self.database.sql[f"remove_{what}"], params).fetchall()
            if gone:
                self._log(conn, [event])
            return bool(gone)

        return self._in_transaction(work)

    def pause_project(self, project: str, why: str | None, event: Event) -> None:
        whose = {"project": project, "agent": None, "now_us": self.database.given_now()}

        def resume(conn: Connection) -> None:
            conn.execute(self.database.sql["renew_times_to_claim"], whose)
            conn.execute(self.database.sql["resume_project"], {"project": project})
            self._log(conn, [event])

        if why is None:
            self._in_transaction(resume)
        else:
            self._set("pause_project", {"project": project, "why": why}, event)
        self.database.notify()

    def set_mode(self, rule: ModeRule, event: Event) -> None:
        params = {"scope": rule.scope, "value": rule.value, "mode": Mode(rule.mode).value}
        self._set("set_mode", params, event)

    def block(self, block: Block, event: Event) -> Block:
        params = {**block._asdict(), "now_us": self.database.given_now()}
        of = {"lane": block.lane, "items": [block.item]}

        def work(conn: Connection) -> Block:
            self._blocked(conn, "set_block", params, event)
            # Its row is locked, also if nothing was written.
            there = map(Block._make, self._ask(conn, "blocks_of", of))
            return next(each for each in there if each.blocker == block.blocker)

        return self._in_transaction(work)

    def unblock(self, lane: str, item: ItemId, blocker: str | None, event: Event) -> list[str]:
        params = {"lane": lane, "item": item, "blocker": blocker}
        gone = self._in_transaction(lambda conn: self._blocked(conn, "remove_blocks", params, event))
        self.database.notify()
        return gone

    def _blocked(self, conn: Connection, name: str, params: dict[str, Any], event: Event) -> list[str]:
        """The blockers whose blocks changed, each with a line of history."""
        if params["lane"] != NO_LANE:  # an item is locked where its blocks change
            conn.execute(self.database.sql["add_lanes"], {"lanes": array([params["lane"]])})
            conn.execute(self.database.sql["lock_lane"], {"lane": params["lane"]})
        changed = [row[0] for row in conn.execute(self.database.sql[name], params).fetchall()]
        if changed:
            self._settle_blocks(conn, params["lane"], params["item"])
            self._log(conn, [of_blocker(event, blocker) for blocker in changed])
        return changed

    def _settle_blocks(self, conn: Connection, lane: str, item: ItemId) -> None:
        """Bring the flags that keep claims from what is blocked into line with its blocks.

        A later statement than the one that locked the lane or the item: it reads all blocks as they are."""
        if lane == NO_LANE:
            params = {"item": item, "now_us": self.database.given_now()}
            conn.execute(self.database.sql["settle_blocks_of_item"], params)
            return
        conn.execute(self.database.sql["settle_blocks_of_lane"], {"lane": lane})
        self.transactions.decide(conn, Load(lanes=(lane,)), Repair(lane=lane))

    def _set(self, name: str, params: dict[str, Any], event: Event) -> None:
        def work(conn: Connection) -> None:
            conn.execute(self.database.sql[name], params)
            self._log(conn, [event])

        self._in_transaction(work)

    def _in_transaction(self, work: Callable[[Connection], T]) -> T:
        def once() -> T:
            with self.database.connection() as conn, self.database.transaction(conn):
                return work(conn)

        return self.database.persistently(once)

    def _log(self, conn: Connection, events: Sequence[Event]) -> None:
        """Lines with the time at which they are written, after every lock of their transaction."""
        lines = columns([event_row(e)[1:] for e in events], EVENT_WIDTH - 2)
        conn.execute(self.database.sql["insert_events"], (self.database.given_now(), *lines))

    def see_worker(self, worker: Worker) -> None:
        self._alone("see_worker", {**worker._asdict(), "now_us": self.database.given_now()})
        self.forget_workers(None)

    def forget_workers(self, gone: str | None) -> None:
        kept = {"kept_us": to_us(FORGOTTEN_S), "limit": FORGET_AT_ONCE, "now_us": self.database.given_now()}
        self._alone("forget_workers", {"gone": gone, **kept})

    def begin_mark(self, name: str, seq: int) -> None:
        self._alone("begin_mark", {"name": name, "seq": seq})

    def lease_mark(self, mark: Mark, token: int, lease_s: float) -> bool:
        wanted = {"name": mark.name, "seq": mark.seq, "tries": mark.tries, "token": token}
        timing = {"now_us": self.database.given_now(), "lease_us": to_us(lease_s)}
        return self._alone("lease_mark", {**wanted, **timing}) > 0

    def _alone(self, name: str, params: dict[str, Any]) -> int:
        """A statement that is a transaction by itself; how many rows it wrote."""

        def once() -> int:
            with self.database.connection() as conn:
                return conn.execute(self.database.sql[name], params).rowcount

        return self.database.persistently(once)

    def move_mark(
        self,
        name: str,
        token: int,
        *,
        seq: int,
        tries: int = 0,
        wait_s: float = 0.0,
        event: Event | None = None,
    ) -> bool:
        to = {"name": name, "token": token, "seq": seq, "tries": tries}
        timing = {"now_us": self.database.given_now(), "wait_us": to_us(wait_s)}

        def work(conn: Connection) -> bool:
            moved = conn.execute(self.database.sql["move_mark"], {**to, **timing}).rowcount > 0
            if moved and event is not None:
                self._log(conn, [event])
            return moved

        return self._in_transaction(work)

    def forget_keys(self, limit: int) -> int:
        """Also adds up the counts that changed: whoever sweeps keeps both small. And a sweep notices a
        failover even if there is nothing to move."""

        def work() -> int:
            with self.database.connection() as conn:
                conn.execute(self.database.sql["fold_tallies"])
                params = {"now_us": self.database.given_now(), "limit": limit}
                return conn.execute(self.database.sql["forget_keys"], params).rowcount

        return self.database.persistently(work)

    def leap(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool:
        return self.database.leap(past, armed_us=armed_us, run=run, lane=lane)

    @property
    def github(self) -> PostgresGitHub:
        from interlock.store.postgres.github import PostgresGitHub  # noqa: PLC0415  (few commands need it)

        return PostgresGitHub(self.database)

    @property
    def meter(self) -> Meter:
        from interlock.store.metering import Meter  # noqa: PLC0415  (for few)

        return Meter(self.github)

    @property
    def access(self) -> Access:
        from interlock.store.access_port import Access  # noqa: PLC0415

        def ask(name: str, /, **params: Any) -> list[Any]:
            def once() -> list[Any]:
                given = {**params, "now_us": self.database.given_now()}
                with self.database.connection() as conn:
                    found = conn.execute(self.database.sql[f"access/{name}"], given, binary=True)
                    return found.fetchall() if found.description else []

            return self.database.persistently(once)

        return Access(ask, ask)

    # -- pruning ----------------------------------------------------------------------------------

    def prune_items(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned:
        def work(conn: Connection) -> Pruned:
            looked = {
                "after": after,
                "limit": limit,
                "before_us": before_us,
                "now_us": self.database.time(conn),
            }
            rows = self._ask(conn, "prunable_items", looked)
            groups = [(root, item) for _, root, item in rows if item is not None]
            items = [item for _, item in groups]
            if really:
                params = {"items": array(items), "before_us": before_us}
                items = whole(groups, (r[0] for r in self._ask(conn, "lock_prunable_items", params)))
            return self._gone(conn, items, really=really)._replace(onward=rows[0][0] or 0)

        return self._in_transaction(work)

    def prune_plans(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned:
        def work(conn: Connection) -> Pruned:
            looked = {"after": after, "limit": limit, "before_us": before_us}
            rows = self._ask(conn, "prunable_plans", looked)
            plans = [plan for _, plan in rows if plan is not None]
            if really:
                params = {"plans": array(plans), "before_us": before_us}
                plans = [r[0] for r in self._ask(conn, "lock_prunable_plans", params)]
            groups = self._ask(conn, "items_of_plans", {"plans": array(plans)})
            items = [item for _, item in groups]
            if really:
                params = {"items": array(items), "before_us": before_us}
                items = whole(groups, (r[0] for r in self._ask(conn, "lock_prunable_items", params)))
                there = {plan for plan, item in groups if item not in set(items)}
                plans = [plan for plan in plans if plan not in there]
                self._delete(conn, (*BY_PLAN, ("gates", "plan")), plans)
            gone = self._gone(conn, items, really=really)
            if really:
                self._delete(conn, (("plans", "id"),), plans)
            return gone._replace(plans=len(plans), onward=rows[0][0] or 0)

        return self._in_transaction(work)

    def _gone(self, conn: Connection, items: Sequence[int], *, really: bool) -> Pruned:
        params = {"items": array(items)}
        runs = tuple(r[0] for r in self._ask(conn, "runs_of_items", params))
        ((events,),) = self._ask(conn, "count_events", params)
        if really:
            conn.execute(self.database.sql["uncount_items"], params)
            self._delete(conn, BY_ITEM, items)
        return Pruned(items=len(items), events=events, runs=runs)

    def _ask(self, conn: Connection, name: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        return conn.execute(self.database.sql[name], params, binary=True).fetchall()

    def _delete(self, conn: Connection, tables: Sequence[tuple[str, str]], gone: Sequence[int]) -> None:
        for table, column in tables if gone else ():
            text = self.database.sql.text("prune").replace("{table}", table).replace("{column}", column)
            conn.execute(Statement.numbered(text), {"gone": array(gone)})

    def vacuum(self) -> None:
        """Autovacuum makes the space free for new rows."""

    # -- waiting ----------------------------------------------------------------------------------

    def wait_for_work(self, wish: Claim, timeout_s: float) -> bool:
        """Wait for a notice; a pooler that hides notices leaves the caller's polling."""
        try:
            listener = self.database.listener()
            if only(listener.execute(self.database.sql["has_ready"], filters(wish)).fetchone()):
                return True
            return listener.hear(timeout_s)
        except GONE:
            self.database.forget_listener()
            time.sleep(min(timeout_s, 0.5))
            return False
