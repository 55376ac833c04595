"""What people and the service read from a PostgreSQL store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from interlock.core.blocks import Block
from interlock.core.claiming import MESSAGES_AT_ONCE, Agent, Pool
from interlock.core.continuity import Lineage
from interlock.core.errors import StoreUnavailable
from interlock.core.handles import Handle
from interlock.core.ledger import Snapshot
from interlock.core.model import AHEAD_MAX, Gate, Item, ItemId, ModeRule, PlanId, RecentRun, RunRecord, Streak
from interlock.core.notices import Mark
from interlock.core.overtaking import Presence
from interlock.core.plans.model import Edge, Need, Plan, Revision, Task
from interlock.core.record import replace
from interlock.core.states import ItemStatus
from interlock.core.workers import Worker
from interlock.store.clock import since_boot_us
from interlock.store.plan_rows import (
    TASK_WIDTH,
    completion_from_row,
    edge_from_row,
    need_from_row,
    plan_from_row,
    revision_from_row,
    task_from_row,
)
from interlock.store.port import (
    AGENTS_MAX,
    EVENTS_MAX,
    LINES_MAX,
    RUNS_MAX,
    SPANS_MAX,
    Depths,
    EventQuery,
    Figures,
    Finding,
    ItemQuery,
    LaneRow,
    StoredCompletion,
    StoredEvent,
    StoredMessage,
)
from interlock.store.postgres.claims import agent_from_row
from interlock.store.postgres.clock import ServerClock
from interlock.store.postgres.database import Database, only
from interlock.store.postgres.plans import NO_LIMIT
from interlock.store.postgres.statement import Connection, Statement
from interlock.store.postgres.transactions import modes_from_rows, unread_from_rows
from interlock.store.rows import (
    array,
    event_from_row,
    first_since,
    gate_from_row,
    item_from_row,
    pool_from_row,
    presence_from_rows,
    run_from_row,
    spans,
    stored_message,
)
from interlock.store.statements import mending, promise

T = TypeVar("T")
#: Above every event's number.
NO_SEQ = 2**63 - 1


class PostgresReads:
    """The reading half of the store."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = ServerClock(database)
        self._rows = database.rows

    def at_once(self, work: Callable[[], T]) -> T:
        return self.database.at_once(work)

    def now_us(self) -> int:
        return self.database.given_now() or int(self._rows("now")[0][0])

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

    def stranded(self, after: str, limit: int) -> tuple[list[str], str]:
        rows = self._rows("stranded", after=after, limit=limit)
        return [lane for lane, lost in rows if lost], rows[-1][0] if len(rows) == limit else ""

    def item(self, item: ItemId) -> Item | None:
        return next(map(item_from_row, self._rows("item", item=item)), None)

    def named_items(self, items: Sequence[ItemId]) -> dict[ItemId, Item]:
        return {item.id: item for item in map(item_from_row, self._rows("named_items", items=array(items)))}

    def items(self, query: ItemQuery) -> list[Item]:
        return [item_from_row(r) for r in self._rows("items", **_asked(query))]

    def items_by_checks(self, query: ItemQuery, ci: str | None, looked: int) -> list[Item]:
        if ci is None:
            found = self._rows("items_without_checks", looked=looked, **_asked(query))
        else:
            found = self._rows("items_by_checks", ci=ci, looked=looked, **_asked(query))
        return [item_from_row(r) for r in found]

    def payloads(self, items: Sequence[ItemId]) -> dict[ItemId, str]:
        return {r[0]: r[1] for r in self._rows("payloads", items=array(items))}

    def messages(self, item: ItemId, after: int, limit: int) -> list[StoredMessage]:
        return [stored_message(r) for r in self._rows("messages", item=item, after=after, limit=limit)]

    def runs(self, item: ItemId) -> list[RunRecord]:
        return [run_from_row(r) for r in self._rows("runs_of_item", item=item)]

    def run_agents(self, handles: Sequence[Handle]) -> dict[Handle, str]:
        items, runs = [handle.item for handle in handles], [handle.run for handle in handles]
        rows = self._rows("run_agents", items=array(items), runs=array(runs))
        found = {Handle(run, item, bits): agent for run, item, bits, agent in rows}
        return {handle: found[handle] for handle in handles if handle in found}

    def recent_runs(self, lane: str | None, worker: str, limit: int) -> list[RecentRun]:
        wanted = {"lane": lane, "worker": worker, "limit": limit, "most": RUNS_MAX}
        return [RecentRun(*row) for row in self._rows("recent_runs", **wanted)]

    def events(self, query: EventQuery) -> list[StoredEvent]:
        database = self.database
        name = ("newest_" if query.newest else "") + ("events" if query.item is None else "events_of_item")

        def work() -> list[tuple[Any, ...]]:
            with database.connection() as conn:
                params = {
                    "after": query.after,
                    "item": query.item,
                    "lane": query.lane,
                    "limit": query.limit,
                    "horizon": self._horizon(conn, query),
                }
                return conn.execute(database.sql[name], params, binary=True).fetchall()

        rows = database.persistently(work)
        found = [StoredEvent(seq=r[0], event=event_from_row(r[1:])) for r in rows]
        return found[::-1] if query.newest else found

    def _horizon(self, conn: Connection, query: EventQuery) -> int:
        """Asked in a statement of its own: what it promises holds for statements that begin later."""
        horizon: int | None = only(conn.execute(self.database.sql["horizon"]).fetchone())
        if horizon is None and not query.newest:
            raise StoreUnavailable(
                "A standby cannot tell which lines of the history are still to come.",
                "Point INTERLOCK_URL at the primary server to follow the history.",
            )
        return NO_SEQ if horizon is None else horizon

    def agent(self, key: str) -> Agent | None:
        rows = self._rows("agent", agent=key, now_us=self.database.given_now())
        return next(map(agent_from_row, rows), None)

    def agents(self) -> list[Agent]:
        return [agent_from_row(r) for r in self._rows("agents", now_us=self.database.given_now())]

    def pools(self) -> list[Pool]:
        return [pool_from_row(r) for r in self._rows("pools")]

    def lanes(self, prefix: str, limit: int) -> list[LaneRow]:
        rows = self._rows("lanes", prefix=prefix, limit=limit, counted=AHEAD_MAX)
        return [
            LaneRow(
                lane=lane,
                owner=self.item(owner) if owner is not None else None,
                waiting=waiting,
                line=tuple(line),
            )
            for lane, waiting, line, owner in rows
        ]

    def owner(self, lane: str) -> Item | None:
        return next(map(item_from_row, self._rows("owner", lane=lane)), None)

    def line(self, lane: str, limit: int) -> list[Item]:
        return [item_from_row(row) for row in self._rows("line", lane=lane, limit=limit)]

    def on_lane(self, lane: str, limit: int) -> list[Item]:
        return [item_from_row(row) for row in self._rows("on_lane", lane=lane, limit=limit)]

    def worker(self, name: str) -> Worker | None:
        return next((Worker(*row) for row in self._rows("worker", name=name)), None)

    def workers(self, limit: int) -> list[Worker]:
        return [Worker(*row) for row in self._rows("workers", limit=limit)]

    def mark(self, name: str) -> Mark | None:
        rows = self._rows("mark", notice=name)
        return next((Mark(name=name, seq=seq, until_us=until, tries=n) for seq, until, n in rows), None)

    def modes(self) -> tuple[ModeRule, ...]:
        return modes_from_rows(self._rows("modes"))

    def blocks(self, limit: int) -> list[Block]:
        return [Block(*r) for r in self._rows("blocks", limit=limit)]

    def blocks_of(self, lane: str | None, items: Sequence[ItemId]) -> list[Block]:
        return [Block(*r) for r in self._rows("blocks_of", lane=lane or "", items=list(items))]

    def paused_projects(self) -> dict[str, str]:
        return {r[0]: r[1] for r in self._rows("paused_projects")}

    def ahead_of(self, item: Item) -> int:
        spec = item.spec
        if item.status is ItemStatus.DEFERRED:
            rows = self._rows(
                "ahead_in_line",
                lane=spec.lane,
                front=item.state.front,
                position=spec.position,
                ticket=spec.ticket,
                id=spec.id,
                limit=AHEAD_MAX,
            )
        else:
            rows = self._rows("ahead_in_queue", agent=spec.agent_key, sort_key=spec.sort_key, limit=AHEAD_MAX)
        return min(AHEAD_MAX, sum(int(r[0]) for r in rows))

    def look(self, item: ItemId) -> Snapshot:
        rows = self._rows("look", item=item, limit=MESSAGES_AT_ONCE)
        items = {i.id: i for i in map(item_from_row, rows)}
        known = [r[-9:] for r in rows[:1] if r[-9] is not None]
        return Snapshot(
            items=items,
            unread=unread_from_rows(items, rows),
            streaks={lane: Streak(wakes, run) for lane, wakes, run, *_ in known if wakes},
            last_agents={lane: agent for lane, _, _, agent, *_ in known if agent is not None},
            gates={lane: gate_from_row(gate) for lane, _, _, _, *gate, _ in known if gate[0] is not None},
            blocked=frozenset(lane for lane, *_, blocked in known if blocked),
        )

    def gates(self, series: str | None, limit: int) -> list[tuple[str, Gate]]:
        rows = self._rows("gates", series=series, limit=limit)
        return [(lane, gate_from_row(gate)) for lane, *gate in rows]

    def gates_of(self, lanes: Sequence[str]) -> dict[str, Gate]:
        rows = self._rows("gates_of", lanes=array(lanes)) if lanes else ()
        return {lane: gate_from_row(gate) for lane, *gate in rows}

    def limited_agents(self, named: Sequence[str]) -> list[Agent]:
        params = {"named": array(named), "limit": AGENTS_MAX, "now_us": self.database.given_now()}
        return [
            replace(agent_from_row(r[:-1]), editing=r[-1]) for r in self._rows("limited_agents", **params)
        ]

    def presence(self, agents: Sequence[str]) -> dict[str, Presence]:
        now_us = self.database.given_now()
        return presence_from_rows(self._rows("presence", agents=array(agents), now_us=now_us))

    def stalled(self, limit: int) -> list[tuple[str, ItemId, str]]:
        return self._rows("stalled", lines=LINES_MAX, limit=limit, now_us=self.database.given_now())

    def needs(self, item: ItemId) -> list[Need]:
        return [need_from_row(r) for r in self._rows("needs", item=item, limit=AHEAD_MAX)]

    def depths(self) -> Depths:
        self.database.persistently(self._fold_tallies)
        tallies = self._rows("tallies")
        by_status: Counter[str] = Counter()
        for status, _, n in tallies:
            by_status[status] += n
        ready = {priority: n for status, priority, n in tallies if status == ItemStatus.PENDING}
        for priority, parked in self._rows("parked"):
            ready[priority] -= parked
        return Depths(
            by_status={status: n for status, n in by_status.items() if n},
            asking=dict(self._rows("count_asking")),
            depth_by_priority={p: n for p, n in sorted(ready.items(), reverse=True) if n},
            oldest_pending_us=next((r[0] for r in self._rows("oldest_pending")), None),
        )

    def figures(self, window_us: int, by: str | None = None) -> Figures:
        depths = self.depths()
        now_us = self.now_us()
        since = self._first_event_since(now_us - window_us)
        counts = self._rows("event_counts", seq=since, limit=EVENTS_MAX)
        whole = sum(row[2] for row in counts) < EVENTS_MAX
        return Figures(
            now_us=now_us,
            window_us=window_us if whole else max(1, now_us - min(row[3] for row in counts)),
            counts={(kind, reason): n for kind, reason, n, *_ in counts},
            failed_items=sum(row[4] for row in counts),
            groups=self._rows("run_counts", by=by, seq=since, limit=EVENTS_MAX) if by is not None else (),
            by_status=depths.by_status,
            asking=depths.asking,
            depth_by_priority=depths.depth_by_priority,
            oldest_pending_us=depths.oldest_pending_us,
            **spans(self._rows("event_spans", seq=since, events=EVENTS_MAX, limit=SPANS_MAX)),
        )

    def _fold_tallies(self) -> None:
        """Whoever may only read leaves it to others, and adds up what is not folded yet."""
        with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
            self.database.run_statement("fold_tallies")

    def _first_event_since(self, since_us: int) -> int:
        low, high = self._rows("event_bounds")[0]
        if low is None:
            return 0
        return first_since(low, high, since_us, lambda seq: self._rows("event_times", seq=seq)[0])

    def lineage(self) -> Lineage:
        return self.database.lineage()

    def sealed_for(self) -> str | None:
        seal = next((value for (value,) in self._rows("meta", name="sealed")), None)
        if seal is None:
            return None
        from interlock.store.copying import Mark  # noqa: PLC0415  (few stores are sealed)

        mark = Mark.read(seal)
        return None if mark is None else mark.place

    def findings(self) -> list[Finding]:
        from interlock.store import copying  # noqa: PLC0415  (for this alone, and every command imports this)
        from interlock.store.postgres.copying import PostgresEnd  # noqa: PLC0415

        found = [self._finding(name, text) for name, text in self.database.sql.checks.items()]
        return [*found, self._server_is_known(), copying.finding(PostgresEnd(self.database))]

    def _server_is_known(self) -> Finding:
        known, changed = self._rows("server")[0]
        told = "The run numbers are those of this server and timeline."
        if changed:
            told += f" They were moved forward to it on {changed} UTC, after a failover or a restore."
        gone = () if known else ("the database is on another server or timeline than at the last write",)
        return Finding(name="server_is_known", promise=told, mend="interlock sweep", broken=gone)

    def _finding(self, name: str, text: str) -> Finding:
        database = self.database

        def work() -> list[tuple[Any, ...]]:
            with database.connection() as conn:
                params = {"now_us": database.time(conn)}
                # A plan that a session kept from the days when tables were small may be quadratic by now.
                return conn.execute(Statement.numbered(text), params, prepare=False).fetchall()

        broken = tuple(str(row[0]) for row in database.persistently(work))
        return Finding(name=name, promise=promise(text), mend=mending(text), broken=broken)

    # -- plans ------------------------------------------------------------------------------------

    def plan(self, plan: PlanId) -> Plan | None:
        return next(map(plan_from_row, self._rows("plan", plan=plan)), None)

    def plans(self, *, ended: bool, limit: int) -> list[Plan]:
        return [plan_from_row(r) for r in self._rows("plans", ended=ended, limit=limit)]

    def tasks(self, plan: PlanId, *, removed: bool = False) -> list[tuple[Task, Item]]:
        rows = self._rows("tasks_of_plan", plan=plan, removed=removed)
        return [(task_from_row(r[:TASK_WIDTH]), item_from_row(r[TASK_WIDTH:])) for r in rows]

    def edges(self, plan: PlanId) -> list[Edge]:
        return [edge_from_row(r) for r in self._rows("edges_of_plan", plan=plan)]

    def revisions(self, plan: PlanId, after: int, limit: int) -> list[Revision]:
        rows = self._rows("revisions", plan=plan, after=after, limit=min(limit, NO_LIMIT))
        return [revision_from_row(r) for r in rows]

    def completions(self, plan: PlanId, after: int) -> list[StoredCompletion]:
        rows = self._rows("completions", plan=plan, after=after)
        return [StoredCompletion(completion_from_row(r[:6]), *r[6:]) for r in rows]

    def work_us(self, plan: PlanId) -> dict[ItemId, int]:
        return {r[0]: r[1] for r in self._rows("work_of_plan", plan=plan)}

    def stopping(self, limit: int) -> list[ItemId]:
        return [r[0] for r in self._rows("stopping", limit=limit)]

    def asking(self, limit: int) -> list[Item]:
        return [item_from_row(r) for r in self._rows("asking", limit=limit)]

    def external(self, limit: int) -> list[Item]:
        return [item_from_row(r) for r in self._rows("external", limit=limit)]

    def stopped(self, limit: int) -> list[Item]:
        return [item_from_row(r) for r in self._rows("stopped", limit=limit)]


def _asked(query: ItemQuery) -> dict[str, Any]:
    return {
        "statuses": list(query.statuses or ItemStatus),
        "lane": query.lane,
        "agent": query.agent,
        "project": query.project,
        "type": query.type,
        "before": query.before,
        "limit": query.limit,
    }
