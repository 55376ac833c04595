"""The reads of a database. SQLite and PostgreSQL differ only in their statements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from interlock.core import continuity
from interlock.core.blocks import Block
from interlock.core.claims import Agent, Pool
from interlock.core.continuity import Lineage
from interlock.core.errors import StoreUnavailable
from interlock.core.handles import Handle
from interlock.core.model import AHEAD_MAX, Gate, Item, ItemId, ModeRule, PlanId, RecentRun, RunId, RunRecord
from interlock.core.notices import NoticeMark
from interlock.core.overtaking import AgentPresence
from interlock.core.plans.model import Edge, Need, Plan, PlanStatus, Revision, Task
from interlock.core.recap import KINDS as RECAP_KINDS
from interlock.core.recap import RecapEvent
from interlock.core.record import replace
from interlock.core.states import ItemStatus
from interlock.core.workers import WorkerRecord
from interlock.store.plan_rows import (
    NO_LIMIT,
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
    DEADLINES_MAX,
    EVENTS_MAX,
    LANES_MAX,
    LINES_MAX,
    NAMES_MAX,
    QUEUES_MAX,
    RUNS_MAX,
    SPANS_MAX,
    Depths,
    EventQuery,
    Figures,
    Finding,
    ItemQuery,
    LaneQuery,
    LaneRow,
    PlanQuery,
    RecapEvents,
    RunQuery,
    StoredCompletion,
    StoredEvent,
    StoredMessage,
)
from interlock.store.rows import (
    agent_from_row,
    event_from_row,
    first_since,
    gate_from_row,
    item_from_row,
    listed,
    modes_from_rows,
    pool_from_row,
    presence_from_rows,
    run_from_row,
    spans,
    stored_message,
)
from interlock.store.statements import mend_hint, promise
from interlock.store.tables import Ask, Tables

#: Above every event's number.
NO_SEQ = 2**63 - 1


class Reads(ABC):
    """The reading half of a store. Each backend adds `now_us`, `at_once`, `due` and `look`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._read = tables.read

    @abstractmethod
    def now_us(self) -> int:
        """The store's time."""

    @abstractmethod
    def _own_findings(self) -> Sequence[Finding]:
        """The doctor's findings beyond the checks that are statements."""

    def stranded(self, after: str, limit: int) -> tuple[list[str], str]:
        rows = self._read("stranded", after=after, limit=limit)
        return [lane for lane, is_stranded in rows if is_stranded], rows[-1][0] if len(rows) == limit else ""

    # -- items ------------------------------------------------------------------------------------

    def item(self, item: ItemId) -> Item | None:
        return next(iter(self._items("item", item=item)), None)

    def named_items(self, items: Sequence[ItemId]) -> dict[ItemId, Item]:
        return {item.id: item for item in self._items("named_items", items=items)} if items else {}

    def items(self, query: ItemQuery) -> list[Item]:
        looked = NO_LIMIT if query.looked is None else query.looked
        return self._items("items", looked=looked, **_asked(query))

    def items_by_checks(self, query: ItemQuery, ci: str | None, looked: int) -> list[Item]:
        if ci is None:
            return self._items("items_without_checks", looked=looked, **_asked(query))
        return self._items("items_by_checks", ci=ci, looked=looked, **_asked(query))

    def asking(self, limit: int) -> list[Item]:
        return self._items("asking", limit=limit)

    def external(self, limit: int) -> list[Item]:
        return self._items("external", limit=limit)

    def stopped(self, limit: int) -> list[Item]:
        return self._items("stopped", limit=limit)

    def upcoming(self, limit: int) -> list[Item]:
        return self._items("upcoming", queues=QUEUES_MAX, limit=limit)

    def expiring(self, limit: int) -> list[Item]:
        return self._items("expiring", looked=DEADLINES_MAX, limit=limit)

    def gated(self, limit: int) -> list[Item]:
        return self._items("gated", limit=limit)

    def _items(self, name: str, /, **params: Any) -> list[Item]:
        return [item_from_row(row) for row in self._read(name, **params)]

    def payloads(self, items: Sequence[ItemId]) -> dict[ItemId, str]:
        return dict(self._read("payloads", items=items))

    def messages(self, item: ItemId, after: int, limit: int) -> list[StoredMessage]:
        return [stored_message(r) for r in self._read("messages", item=item, after=after, limit=limit)]

    def runs(self, item: ItemId) -> list[RunRecord]:
        return [run_from_row(r) for r in self._read("runs_of_item", item=item)]

    def ended_runs(self, runs: Sequence[RunId]) -> dict[RunId, RunRecord]:
        return {r.run: r for r in map(run_from_row, self._read("load_runs", runs=runs))} if runs else {}

    def run_agents(self, handles: Sequence[Handle]) -> dict[Handle, str]:
        items, runs = [handle.item for handle in handles], [handle.run for handle in handles]
        rows = self._read("run_agents", items=items, runs=runs)
        found = {Handle(run, item, bits): agent for run, item, bits, agent in rows}
        return {handle: found[handle] for handle in handles if handle in found}

    def recent_runs(self, query: RunQuery) -> list[RecentRun]:
        before = NO_SEQ if query.until_us is None else self._first_run_since(query.until_us)
        rows = self._read(
            "recent_runs",
            lane=query.lane,
            agent=query.agent,
            worker=query.worker,
            since=0 if query.since_us is None else query.since_us,
            until=NO_SEQ if query.until_us is None else query.until_us,
            before=before,
            limit=query.limit,
            most=RUNS_MAX,
        )
        return [RecentRun(*row) for row in rows]

    def _first_run_since(self, since_us: int) -> int:
        """The first number of a run that started at a time or later: numbers grow with time."""
        low, high = self._read("run_bounds")[0]
        if low is None:
            return 0
        return first_since(low, high, since_us, lambda run: self._read("run_times", run=run)[0])

    def ahead_of(self, item: Item) -> int:
        spec = item.spec
        if item.status is not ItemStatus.DEFERRED:
            queue = {"agent": spec.agent_key, "sort_key": spec.sort_key}
            return int(self._read("ahead_in_queue", limit=AHEAD_MAX, **queue)[0][0])
        place = {"front": item.state.front, "position": spec.position, "ticket": spec.ticket, "id": spec.id}
        return int(self._read("ahead_in_line", lane=spec.lane, limit=AHEAD_MAX, **place)[0][0])

    # -- lanes, agents, projects ------------------------------------------------------------------

    def lanes(self, query: LaneQuery) -> list[LaneRow]:
        rows = self._read(
            "lanes",
            prefix=query.prefix,
            start=max(query.prefix, query.after),
            after=query.after,
            number="" if query.number is None else str(query.number),
            steps=query.limit if query.number is None else LANES_MAX,
            limit=query.limit,
            counted=AHEAD_MAX,
        )
        owners = self.named_items([owner for *_, owner in rows if owner is not None]) if rows else {}
        return [
            LaneRow(
                lane=lane,
                owner=owners.get(owner),
                waiting=waiting,
                line=listed(line),
                waiting_since_us=since_us,
            )
            for lane, waiting, line, since_us, owner in rows
        ]

    def owner(self, lane: str) -> Item | None:
        return next(iter(self._items("owner", lane=lane)), None)

    def line(self, lane: str, limit: int) -> list[Item]:
        return self._items("line", lane=lane, limit=limit)

    def on_lane(self, lane: str, limit: int) -> list[Item]:
        return self._items("on_lane", lane=lane, limit=limit)

    def gates(self, series: str | None, limit: int) -> list[tuple[str, Gate]]:
        rows = self._read("gates", series=series, limit=limit)
        return [(lane, gate_from_row(gate)) for lane, *gate in rows]

    def gates_of(self, lanes: Sequence[str]) -> dict[str, Gate]:
        rows = self._read("gates_of", lanes=lanes) if lanes else ()
        return {lane: gate_from_row(gate) for lane, *gate in rows}

    def agent(self, key: str) -> Agent | None:
        return next(map(agent_from_row, self._read("agent", agent=key)), None)

    def agents(self) -> list[Agent]:
        return [agent_from_row(row) for row in self._read("agents")]

    def unknown_agents(self, limit: int) -> list[tuple[str, int]]:
        return self._read("unknown_agents", limit=limit, steps=NAMES_MAX, counted=AHEAD_MAX)

    def limited_agents(self, named: Sequence[str]) -> list[Agent]:
        rows = self._read("limited_agents", named=named, limit=AGENTS_MAX)
        return [replace(agent_from_row(row), editing=editing) for *row, editing in rows]

    def presence(self, agents: Sequence[str]) -> dict[str, AgentPresence]:
        return presence_from_rows(self._read("presence", agents=agents))

    def stalled(self, limit: int) -> list[tuple[str, ItemId, str]]:
        return self._read("stalled", lines=LINES_MAX, limit=limit)

    def worker(self, name: str) -> WorkerRecord | None:
        return next((WorkerRecord(*row) for row in self._read("worker", name=name)), None)

    def workers(self, limit: int) -> list[WorkerRecord]:
        return [WorkerRecord(*row) for row in self._read("workers", limit=limit)]

    def mark(self, name: str) -> NoticeMark | None:
        rows = self._read("mark", notice=name)
        return next((NoticeMark(name=name, seq=seq, until_us=until, tries=n) for seq, until, n in rows), None)

    def pools(self) -> list[Pool]:
        return [pool_from_row(row) for row in self._read("pools")]

    def modes(self) -> tuple[ModeRule, ...]:
        return modes_from_rows(self._read("modes"))

    def blocks(self, limit: int) -> list[Block]:
        return [Block(*row) for row in self._read("blocks", limit=limit)]

    def blocks_of(self, lane: str | None, items: Sequence[ItemId]) -> list[Block]:
        return [Block(*row) for row in self._read("blocks_of", lane=lane or "", items=items)]

    def paused_projects(self) -> dict[str, str]:
        return dict(self._read("paused_projects"))

    # -- history ----------------------------------------------------------------------------------

    def events(self, query: EventQuery) -> list[StoredEvent]:
        filtered = query.kinds or query.agent is not None or query.run is not None
        read = "events_of_item" if query.item is not None else "matching_events" if filtered else "events"
        name = f"newest_{read}" if query.newest else read
        asked = {
            "after": query.after,
            "item": query.item,
            "lane": query.lane,
            "kinds": list(query.kinds) or None,
            "agent": query.agent,
            "agent_key": query.agent and query.agent.lower(),
            "run": query.run,
            "limit": query.limit,
        }

        def work(ask: Ask) -> list[Any]:
            # In its own statement: the horizon's promise holds for later statements.
            horizon = ask("horizon")[0][0]
            if horizon is None and not query.newest:
                raise StoreUnavailable(
                    "A standby cannot follow the history: it cannot tell which events are still to come.",
                    "Point INTERLOCK_URL at the primary server.",
                )
            ends = [end for end in (horizon, query.before) if end is not None]
            return ask(name, horizon=min(ends, default=NO_SEQ), **asked)

        found = [StoredEvent(seq=r[0], event=event_from_row(r[1:])) for r in self.tables.reading(work)]
        return found[::-1] if query.newest else found

    def recap_events(self, since_us: int) -> RecapEvents:
        first = self._first_event_since(since_us)
        rows = self._read("recap_events", seq=first, kinds=sorted(RECAP_KINDS), limit=EVENTS_MAX)
        oldest = self._read("oldest_of_newest_events", seq=first, others=EVENTS_MAX - 1)
        since_us = oldest[0][0] if len(oldest) > 1 else since_us
        return RecapEvents([RecapEvent(*row) for row in rows], since_us)

    def depths(self) -> Depths:
        tallies = self._read("tallies")
        by_status: Counter[str] = Counter()
        for status, _, n in tallies:
            by_status[status] += n
        ready = {priority: n for status, priority, n in tallies if status == ItemStatus.PENDING}
        for priority, parked in self._read("parked"):
            ready[priority] -= parked
        return Depths(
            by_status={status: n for status, n in by_status.items() if n},
            asking=dict(self._read("count_asking")),
            depth_by_priority={p: n for p, n in sorted(ready.items(), reverse=True) if n},
            oldest_pending_us=next((row[0] for row in self._read("oldest_pending")), None),
        )

    def figures(self, window_us: int, by: str | None = None) -> Figures:
        depths, now_us = self.depths(), self.now_us()
        since = self._first_event_since(now_us - window_us)
        counts = self._read("event_counts", seq=since, limit=EVENTS_MAX)
        whole = sum(row[2] for row in counts) < EVENTS_MAX
        return Figures(
            now_us=now_us,
            window_us=window_us if whole else max(1, now_us - min(row[3] for row in counts)),
            counts={(kind, reason): n for kind, reason, n, *_ in counts},
            failed_items=sum(row[4] for row in counts),
            groups=self._read("run_counts", by=by, seq=since, limit=EVENTS_MAX) if by is not None else (),
            by_status=depths.by_status,
            asking=depths.asking,
            depth_by_priority=depths.depth_by_priority,
            oldest_pending_us=depths.oldest_pending_us,
            **spans(self._read("event_spans", seq=since, events=EVENTS_MAX, limit=SPANS_MAX)),
        )

    def _first_event_since(self, since_us: int) -> int:
        found = self._read("first_event_since", since_us=since_us)
        return int(found[0][0]) if found else 0

    # -- plans ------------------------------------------------------------------------------------

    def plan(self, plan: PlanId) -> Plan | None:
        return next(map(plan_from_row, self._read("plan", plan=plan)), None)

    def plans(self, query: PlanQuery) -> list[Plan]:
        asked: dict[str, Any] = {"ended": query.ended, "before": query.before, "limit": query.limit}
        if not query.filters:
            return [plan_from_row(r) for r in self._read("plans", **asked)]
        asked |= {"project": query.project, "editor": query.editor, "looked": query.looked}
        statuses = list(query.statuses or PlanStatus)
        return [plan_from_row(r) for r in self._read("matching_plans", statuses=statuses, **asked)]

    def open_cycles(self, limit: int) -> list[Plan]:
        return [plan_from_row(r) for r in self._read("open_cycles", limit=limit)]

    def tasks(self, plan: PlanId, *, removed: bool = False) -> list[tuple[Task, Item]]:
        return _tasks(self._read("tasks_of_plan", plan=plan, removed=removed))

    def task_page(
        self, plan: PlanId, statuses: Sequence[str], after: int, limit: int
    ) -> list[tuple[Task, Item]]:
        asked = {"statuses": list(statuses), "after": after, "limit": limit}
        return _tasks(self._read("task_page", plan=plan, **asked))

    def edges(self, plan: PlanId) -> list[Edge]:
        return [edge_from_row(r) for r in self._read("edges_of_plan", plan=plan)]

    def revisions(self, plan: PlanId, after: int, limit: int) -> list[Revision]:
        rows = self._read("revisions", plan=plan, after=after, limit=min(limit, NO_LIMIT))
        return [revision_from_row(r) for r in rows]

    def completions(self, plan: PlanId, after: int) -> list[StoredCompletion]:
        rows = self._read("completions", plan=plan, after=after)
        return [StoredCompletion(completion_from_row(r[:6]), *r[6:]) for r in rows]

    def work_us(self, plan: PlanId) -> dict[ItemId, int]:
        return dict(self._read("work_of_plan", plan=plan))

    def needs(self, item: ItemId) -> list[Need]:
        return [need_from_row(r) for r in self._read("needs", item=item, limit=AHEAD_MAX)]

    def stopping(self, limit: int) -> list[ItemId]:
        return [row[0] for row in self._read("stopping", limit=limit)]

    # -- health -----------------------------------------------------------------------------------

    def lineage(self) -> Lineage:
        return continuity.lineage(self._read("stores"))

    def sealed_for(self) -> str | None:
        seals = self._read("meta", name="sealed")
        if not seals:
            return None
        from interlock.store.store_copy import seal_from_rows  # noqa: PLC0415  (rarely needed)

        seal = seal_from_rows(seals)
        return None if seal is None else seal.place

    def findings(self) -> list[Finding]:
        from interlock.store import store_copy  # noqa: PLC0415  (for this alone, and every command imports this)

        found = [
            Finding(
                name=name,
                promise=promise(text),
                mend=mend_hint(text),
                broken=tuple(str(row[0]) for row in self.tables.check(text)),
            )
            for name, text in self.tables.checks.items()
        ]
        return [*found, *self._own_findings(), store_copy.finding(self._read)]


def _tasks(rows: Iterable[Any]) -> list[tuple[Task, Item]]:
    return [(task_from_row(r[:TASK_WIDTH]), item_from_row(r[TASK_WIDTH:])) for r in rows]


def _asked(query: ItemQuery) -> dict[str, Any]:
    return {
        "statuses": query.statuses or list(ItemStatus),
        "lane": query.lane,
        "agent": query.agent,
        "project": query.project,
        "types": query.types or None,
        "label": query.label,
        "text": query.text,
        "before": query.before,
        "limit": query.limit,
    }
