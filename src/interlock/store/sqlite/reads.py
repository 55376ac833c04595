"""What is only read from an SQLite store. Readers never wait for writers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.blocks import Block
from interlock.core.bootclock import TOLERANCE_US
from interlock.core.claiming import Agent, Pool
from interlock.core.continuity import Lineage
from interlock.core.handles import Handle
from interlock.core.ledger import Snapshot
from interlock.core.model import (
    AHEAD_MAX,
    US_PER_S,
    Gate,
    Item,
    ItemId,
    Mode,
    ModeRule,
    PlanId,
    RecentRun,
    RunRecord,
    Streak,
    Unread,
)
from interlock.core.notices import Mark
from interlock.core.overtaking import Presence
from interlock.core.plans.model import Edge, Need, Plan, Revision, Task
from interlock.core.record import replace
from interlock.core.states import ItemStatus
from interlock.core.workers import Worker
from interlock.store import clock
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
from interlock.store.rows import (
    ITEM_COLUMNS,
    event_from_row,
    first_since,
    gate_from_row,
    item_from_row,
    pool_from_row,
    presence_from_rows,
    run_from_row,
    spans,
    stored_message,
    unread_message,
)
from interlock.store.sqlite.database import SqliteDatabase
from interlock.store.statements import mending, promise

_LABELS_AT = ITEM_COLUMNS.index("labels")


class SqliteReads:
    """The reading half of the store."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database
        self.now_us, self.at_once, self.close = database.now_us, database.at_once, database.close

    def due(self, limit: int) -> list[ItemId]:
        return [item for item, _ in self.database.rows("due", now_us=self.now_us(), limit=limit)]

    def stranded(self, after: str, limit: int) -> tuple[list[str], str]:
        looked_at = self.database.rows("stranded", after=after, limit=limit)
        onward = looked_at[-1][0] if len(looked_at) == limit else ""
        return [lane for lane, is_stranded in looked_at if is_stranded], onward

    # -- items ------------------------------------------------------------------------------------

    def item(self, item: ItemId) -> Item | None:
        return next(map(item_of_row, self.database.rows("item", item=item)), None)

    def named_items(self, items: Sequence[ItemId]) -> dict[ItemId, Item]:
        return {item.id: item for item in map(item_of_row, self.database.rows("named_items", items=items))}

    def items(self, query: ItemQuery) -> list[Item]:
        return [item_of_row(r) for r in self.database.rows("items", **_asked(query))]

    def items_by_checks(self, query: ItemQuery, ci: str | None, looked: int) -> list[Item]:
        if ci is None:
            found = self.database.rows("items_without_checks", looked=looked, **_asked(query))
        else:
            found = self.database.rows("items_by_checks", ci=ci, looked=looked, **_asked(query))
        return [item_of_row(r) for r in found]

    def payloads(self, items: Sequence[ItemId]) -> dict[ItemId, str]:
        return dict(self.database.rows("payloads", items=items))

    def messages(self, item: ItemId, after: int, limit: int) -> list[StoredMessage]:
        rows = self.database.rows("messages", item=item, after=after, limit=limit)
        return [stored_message(r) for r in rows]

    def runs(self, item: ItemId) -> list[RunRecord]:
        return [run_from_row(r) for r in self.database.rows("runs_of_item", item=item)]

    def run_agents(self, handles: Sequence[Handle]) -> dict[Handle, str]:
        items, runs = [handle.item for handle in handles], [handle.run for handle in handles]
        rows = self.database.rows("run_agents", items=items, runs=runs)
        found = {Handle(run, item, bits): agent for run, item, bits, agent in rows}
        return {handle: found[handle] for handle in handles if handle in found}

    def recent_runs(self, lane: str | None, worker: str, limit: int) -> list[RecentRun]:
        rows = self.database.rows("recent_runs", lane=lane, worker=worker, limit=limit, most=RUNS_MAX)
        return [RecentRun(*row) for row in rows]

    def ahead_of(self, item: Item) -> int:
        spec = item.spec
        if item.status is ItemStatus.DEFERRED:
            found = self.database.value(
                "ahead_in_line",
                lane=spec.lane,
                front=item.state.front,
                position=spec.position,
                ticket=spec.ticket,
                id=spec.id,
                most=AHEAD_MAX,
            )
        else:
            found = self.database.value(
                "ahead_in_queue", agent=spec.agent_key, sort_key=spec.sort_key, most=AHEAD_MAX
            )
        return int(found)

    def look(self, item: ItemId) -> Snapshot:
        lanes = [r[0] for r in self.database.rows("lanes_of_items", items=[item])]
        rows = self.database.rows("load_items", items=[item], lanes=lanes, heads=1, names=())
        items = {i.id: i for i in map(item_of_row, rows)}
        return Snapshot(items=items, unread=self.unread(items), **self.remembered(lanes))

    def remembered(self, lanes: Sequence[str]) -> dict[str, Any]:
        """What lanes remember of their runs, by the names of a snapshot."""
        known = self.database.rows("load_lanes", lanes=lanes) if lanes else ()
        return {
            "streaks": {lane: Streak(wakes, run) for lane, wakes, run, *_ in known if wakes},
            "last_agents": {lane: agent for lane, _, _, agent, *_ in known if agent is not None},
            "gates": {lane: _gate(gate) for lane, _, _, _, *gate, _ in known if gate[0] is not None},
            "blocked": frozenset(lane for lane, *_, blocked in known if blocked),
        }

    def gates(self, series: str | None, limit: int) -> list[tuple[str, Gate]]:
        rows = self.database.rows("gates", series=series, limit=limit)
        return [(lane, _gate(gate)) for lane, *gate in rows]

    def gates_of(self, lanes: Sequence[str]) -> dict[str, Gate]:
        gates: dict[str, Gate] = self.remembered(lanes)["gates"]
        return gates

    def unread(self, items: Mapping[ItemId, Item]) -> dict[ItemId, tuple[Unread, ...]]:
        """The messages that the rules may have to move: see `Snapshot.unread`."""
        talked_to = [i.id for i in items.values() if i.has_unread or (i.comes_back and i.state.message_count)]
        unread: dict[ItemId, tuple[Unread, ...]] = {}
        for item, *message in self.database.rows("load_unread", items=talked_to) if talked_to else ():
            unread[item] = (*unread.get(item, ()), unread_message(message))
        return unread

    # -- lanes, agents, projects ------------------------------------------------------------------

    def lanes(self, prefix: str, limit: int) -> list[LaneRow]:
        rows = self.database.rows("lanes", prefix=prefix, limit=limit, counted=AHEAD_MAX)
        return [
            LaneRow(lane=lane, owner=self.owner(lane), waiting=waiting, line=tuple(json.loads(line)))
            for lane, waiting, line in rows
        ]

    def owner(self, lane: str) -> Item | None:
        return next(map(item_of_row, self.database.rows("owner", lane=lane)), None)

    def line(self, lane: str, limit: int) -> list[Item]:
        return [item_of_row(row) for row in self.database.rows("line", lane=lane, limit=limit)]

    def on_lane(self, lane: str, limit: int) -> list[Item]:
        return [item_of_row(row) for row in self.database.rows("on_lane", lane=lane, limit=limit)]

    def agent(self, key: str) -> Agent | None:
        return next((self._agent(row, *row[13:]) for row in self.database.rows("agent", key=key)), None)

    def limited_agents(self, named: Sequence[str]) -> list[Agent]:
        rows = self.database.rows("limited_agents", named=named, limit=AGENTS_MAX)
        return [replace(self._agent(row, row[13]), editing=row[14]) for row in rows]

    def presence(self, agents: Sequence[str]) -> dict[str, Presence]:
        return presence_from_rows(self.database.rows("presence", agents=agents, now_us=self.now_us()))

    def stalled(self, limit: int) -> list[tuple[str, ItemId, str]]:
        return self.database.rows("stalled", lines=LINES_MAX, limit=limit, now_us=self.now_us())

    def _agent_as_set(self, key: str) -> Agent | None:
        return next((self._agent(row) for row in self.database.rows("agent_as_set", key=key)), None)

    def _running(self, agent: str) -> tuple[int, int]:
        """How many runs an agent has that are not edits of plans, and how many that are."""
        running, editing = self.database.rows("count_running", agent=agent)[0]
        return running, editing

    def agents(self) -> list[Agent]:
        return [self._agent(row, *row[13:]) for row in self.database.rows("agents")]

    def _agent(self, row: Sequence[Any], running: int = 0, pending: int = 0) -> Agent:
        walled = row[7] is not None and row[7] > self.database.now_us()
        return Agent(
            key=row[0],
            name=row[1],
            max_concurrency=row[2],
            types=tuple(json.loads(row[3])),
            labels=tuple(json.loads(row[4])),
            paused_why=row[5],
            seen_us=row[6],
            wall_us=row[7] if walled else None,
            wall_why=row[8] if walled else None,
            pool=row[9],
            overtake_after_s=row[10],
            pool_max=row[11] if len(row) > 11 else None,
            pool_running=(row[12] or 0) if len(row) > 11 else 0,
            running=running,
            pending=pending,
        )

    def worker(self, name: str) -> Worker | None:
        return next((Worker(*row) for row in self.database.rows("worker", name=name)), None)

    def workers(self, limit: int) -> list[Worker]:
        return [Worker(*row) for row in self.database.rows("workers", limit=limit)]

    def mark(self, name: str) -> Mark | None:
        rows = self.database.rows("mark", notice=name)
        return next((Mark(name=name, seq=seq, until_us=until, tries=n) for seq, until, n in rows), None)

    def pools(self) -> list[Pool]:
        return [_pool(r) for r in self.database.rows("pools")]

    def _one_pool(self, name: str) -> Pool:
        return _pool(self.database.rows("pool", name=name)[0])

    def modes(self) -> tuple[ModeRule, ...]:
        return tuple(ModeRule(scope=s, value=v, mode=Mode(m)) for s, v, m in self.database.rows("modes"))

    def blocks(self, limit: int) -> list[Block]:
        return [Block(*r) for r in self.database.rows("blocks", limit=limit)]

    def blocks_of(self, lane: str | None, items: Sequence[ItemId]) -> list[Block]:
        return [Block(*r) for r in self.database.rows("blocks_of", lane=lane or "", items=items)]

    def paused_projects(self) -> dict[str, str]:
        return dict(self.database.rows("paused_projects"))

    # -- history ----------------------------------------------------------------------------------

    def events(self, query: EventQuery) -> list[StoredEvent]:
        rows = self.database.rows(
            "newest_events" if query.newest else "events",
            after=query.after,
            item=query.item,
            lane=query.lane,
            limit=query.limit,
        )
        found = [StoredEvent(seq=r[0], event=event_from_row(r[1:])) for r in rows]
        return found[::-1] if query.newest else found

    def depths(self) -> Depths:
        return Depths(
            by_status=dict(self.database.rows("count_by_status")),
            asking=dict(self.database.rows("count_asking")),
            depth_by_priority=dict(self.database.rows("depth")),
            oldest_pending_us=self.database.value("oldest_pending"),
        )

    def figures(self, window_us: int, by: str | None = None) -> Figures:
        now_us = self.now_us()
        first, reach_us = self._window(now_us, window_us)
        counts, depths = self.database.rows("event_counts", first=first), self.depths()
        return Figures(
            now_us=now_us,
            window_us=reach_us,
            by_status=depths.by_status,
            asking=depths.asking,
            depth_by_priority=depths.depth_by_priority,
            oldest_pending_us=depths.oldest_pending_us,
            counts={(kind, reason): n for kind, reason, n, _ in counts},
            failed_items=sum(row[3] for row in counts),
            groups=self.database.rows("run_counts", by=by, first=first) if by is not None else (),
            **spans(self.database.rows("event_spans", first=first, most=SPANS_MAX)),
        )

    def _window(self, now_us: int, window_us: int) -> tuple[int, int]:
        """The first event to count, and how far back that reaches."""
        oldest, newest = self.database.rows("event_bounds")[0]
        if oldest is None:
            return 0, window_us

        def probe(seq: int) -> Sequence[int]:
            row: Sequence[int] = self.database.rows("event_times", seq=seq)[0]
            return row

        first = first_since(max(oldest, newest - EVENTS_MAX), newest, now_us - window_us, probe)
        if newest - first < EVENTS_MAX:
            return first, window_us
        return first + 1, max(1, now_us - probe(first + 1)[1])

    # -- plans ------------------------------------------------------------------------------------

    def plan(self, plan: PlanId) -> Plan | None:
        return next(map(plan_from_row, self.database.rows("plan", plan=plan)), None)

    def plans(self, *, ended: bool, limit: int) -> list[Plan]:
        return [plan_from_row(r) for r in self.database.rows("plans", ended=ended, limit=limit)]

    def tasks(self, plan: PlanId, *, removed: bool = False) -> list[tuple[Task, Item]]:
        rows = self.database.rows("tasks_of_plan", plan=plan, removed=removed)
        return [(task_from_row(r[:TASK_WIDTH]), item_of_row(r[TASK_WIDTH:])) for r in rows]

    def edges(self, plan: PlanId) -> list[Edge]:
        return [edge_from_row(r) for r in self.database.rows("edges_of_plan", plan=plan)]

    def revisions(self, plan: PlanId, after: int, limit: int) -> list[Revision]:
        rows = self.database.rows("revisions", plan=plan, after=after, limit=limit)
        return [revision_from_row(r) for r in rows]

    def completions(self, plan: PlanId, after: int) -> list[StoredCompletion]:
        rows = self.database.rows("completions", plan=plan, after=after)
        return [StoredCompletion(completion_from_row(r[:6]), *r[6:]) for r in rows]

    def work_us(self, plan: PlanId) -> dict[ItemId, int]:
        return dict(self.database.rows("work_of_plan", plan=plan))

    def needs(self, item: ItemId) -> list[Need]:
        return [need_from_row(r) for r in self.database.rows("needs", item=item, limit=AHEAD_MAX)]

    def stopping(self, limit: int) -> list[ItemId]:
        return [r[0] for r in self.database.rows("stopping", limit=limit)]

    def asking(self, limit: int) -> list[Item]:
        return [item_of_row(r) for r in self.database.rows("asking", limit=limit)]

    def external(self, limit: int) -> list[Item]:
        return [item_of_row(r) for r in self.database.rows("external", limit=limit)]

    def stopped(self, limit: int) -> list[Item]:
        return [item_of_row(r) for r in self.database.rows("stopped", limit=limit)]

    # -- health -----------------------------------------------------------------------------------

    def lineage(self) -> Lineage:
        return self.database.lineage()

    def sealed_for(self) -> str | None:
        seal = self.database.value("meta", name="sealed")
        if seal is None:
            return None
        from interlock.store.copying import Mark  # noqa: PLC0415  (few stores are sealed)

        mark = Mark.read(seal)
        return None if mark is None else mark.place

    def findings(self) -> list[Finding]:
        from interlock.store import copying  # noqa: PLC0415  (for this alone, and every command imports this)
        from interlock.store.sqlite.copying import SqliteEnd  # noqa: PLC0415

        found = []
        with self.database.guard():
            for name, text in self.database.sql.checks.items():
                params = {"now_us": self.now_us()} if ":now_us" in text else ()
                broken = tuple(str(r[0]) for r in self.database.db.execute(text, params))
                found.append(Finding(name=name, promise=promise(text), mend=mending(text), broken=broken))
            return [*found, *self._file_findings(), copying.finding(SqliteEnd(self.database))]

    def _file_findings(self) -> list[Finding]:
        db = self.database.db
        damage = [r[0] for r in db.execute("PRAGMA quick_check(10)") if r[0] != "ok"]
        loose = [f"{r[0]} row {r[1]}" for r in db.execute("PRAGMA foreign_key_check")]
        known, here = self.database.known_file(), self.database.open_file()
        drift_s = (self.now_us() - clock.wall_us()) / 1e6
        drifted = abs(drift_s) > 2 * TOLERANCE_US / US_PER_S
        return [
            Finding(
                name="file_is_sound",
                promise="The database file has no damage that SQLite can see.",
                mend="Restore a backup; `interlock migrate --after-restore` then skips used run numbers.",
                broken=(*damage, *loose),
            ),
            Finding(
                name="file_is_known",
                promise="A file that was copied or restored is noticed before anything is claimed in it.",
                mend="The next write skips the run numbers that may be in use elsewhere.",
                broken=() if known is None or known == here else (f"it was {known}, and is {here}",),
            ),
            Finding(
                name="clock_agrees",
                promise="The store's clock is within a minute of the wall clock.",
                mend="The next write takes the wall clock's time.",
                broken=(f"it is {drift_s:+.0f} s off",) if drifted else (),
            ),
        ]


def item_of_row(row: Sequence[Any]) -> Item:
    """An item from a row of all its columns; SQLite keeps its labels as JSON."""
    if row[_LABELS_AT] is not None:
        row = [*row[:_LABELS_AT], json.loads(row[_LABELS_AT]), *row[_LABELS_AT + 1 :]]
    return item_from_row(row)


def _pool(row: Sequence[Any]) -> Pool:
    return pool_from_row((*row[:-1], json.loads(row[-1])))


def _gate(row: Sequence[Any]) -> Gate:
    series, is_open, exempt, at_us = row
    return gate_from_row((series, is_open, json.loads(exempt), at_us))


def _asked(query: ItemQuery) -> dict[str, Any]:
    return {
        "statuses": query.statuses or list(ItemStatus),
        "lane": query.lane,
        "agent": query.agent,
        "project": query.project,
        "type": query.type,
        "before": query.before,
        "limit": query.limit,
    }
