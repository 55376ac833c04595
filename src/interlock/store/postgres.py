"""The store for many machines: PostgreSQL through psycopg 3 and a pool.

Promises kept here: READ COMMITTED with the lane rows locked first and everything read in later
statements; one order of locks everywhere (agent, lanes sorted, items sorted); the clock read after
waits; a commit whose answer was lost is looked up by its transaction number, so that a repeated
attempt neither doubles nor loses it. Not promised: that a claim whose answer was lost reaches its
agent; its lease runs out and the item is offered again.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import psycopg

from interlock.core.claiming import Agent, Claim, has_room, narrowed, with_room
from interlock.core.commands import Overtake
from interlock.core.decide import decide
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import (
    STATE_FIELDS,
    Event,
    EventKind,
    Item,
    ItemId,
    Mode,
    ModeRule,
    Reason,
    RunId,
    RunRecord,
)
from interlock.core.plan_model import plan_lane, plan_of_lane
from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.plan_parts import Ask, Parts, read_parts, tasks_of_edit
from interlock.store.port import Build, Claimed, Load, Look, Renewal
from interlock.store.postgres_database import GONE, Connection, only
from interlock.store.postgres_plans import Moved, PostgresPlans
from interlock.store.postgres_reads import agent_from_row
from interlock.store.rows import (
    ITEM_COLUMNS,
    array,
    columns,
    ends_bare,
    event_row,
    item_from_row,
    item_row,
    over_columns,
    run_from_row,
    state_row,
)

EVENT_BITS = 16
ITEM_WIDTH = len(ITEM_COLUMNS)
_QUEUE_ORDER = itemgetter(ITEM_COLUMNS.index("sort_key"), ITEM_COLUMNS.index("id"))
STATE_WIDTH, RUN_WIDTH, EVENT_WIDTH = len(STATE_FIELDS) + 2, len(RunRecord._fields), len(Event._fields) + 1
CLAIM_EVENTS_FROM = 1 << 15  # where `claim.sql` begins to number within a transaction
CLAIM_EVENTS_EACH = 1 << 12  # more than a claim starts
#: So many more tasks are looked at than wanted: those who claim at once shall not all meet at the same few.
TASKS_BEYOND = 32


class _Unsure(Exception):
    """The connection was lost while a commit was under way."""

    def __init__(self, xid: int, decision: Decision) -> None:
        self.xid = xid
        self.decision = decision


class PostgresStore(PostgresPlans):
    """A store on a PostgreSQL database."""

    # -- numbers ----------------------------------------------------------------------------------

    def tickets(self, count: int) -> list[int]:
        """Taken before any lock is waited for, so that order of arrival is not order of luck."""
        return self._persistently(lambda: [r[0] for r in self._all("tickets", {"count": count})])

    # -- deciding ---------------------------------------------------------------------------------

    def transact(self, load: Load, build: Build) -> Decision:
        ids: list[ItemId] = []
        if load.arrivals:
            ids = self._persistently(lambda: [r[0] for r in self._all("allocate", {"count": load.arrivals})])
        unsure: list[_Unsure] = []

        def attempt() -> Decision:
            if unsure:
                if self._was_committed(unsure[-1]):
                    return unsure[-1].decision
                unsure.clear()
            try:
                return self._attempt(load, build, ids)
            except _Unsure as lost:
                unsure.append(lost)
                raise psycopg.OperationalError("the connection was lost during a commit") from lost

        decision = self._persistently(attempt)
        if decision.wakes:
            self._notify()
        return decision

    def _was_committed(self, lost: _Unsure) -> bool:
        """Whether a commit whose answer was lost took place.

        The server's word on the transaction's number is not enough: numbers are not durable before a
        commit is, so after a crash the same number may belong to somebody else's transaction. The first
        line that ours wrote, with its time, tells them apart.
        """
        try:
            fate = only(self._all("fate", {"xid": lost.xid})[0])
        except psycopg.errors.InvalidParameterValue:
            return False  # "in the future": the server crashed and has not given the number out again
        if fate == "in progress":
            raise psycopg.OperationalError("the fate of a commit is not known yet")
        if fate != "committed" or not lost.decision.events:
            return bool(fate == "committed")
        # A later statement than the one above, so that it sees what had just been committed.
        with self._connection() as conn:
            seq = self._event_base(conn) + (lost.xid << EVENT_BITS)
            line = {"seq": seq, "at_us": lost.decision.events[0].at_us}
            return bool(only(conn.execute(self.sql["wrote_line"], line).fetchone()))

    def _attempt(self, load: Load, build: Build, ids: Sequence[ItemId]) -> Decision:
        with self._connection() as conn:
            try:
                # No pipeline: to the server, a client that is stopped inside of one is busy for ever.
                conn.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                xid, decision = self._decide(conn, load, build, ids)
            except BaseException:
                if not conn.broken:
                    conn.execute("ROLLBACK")
                raise
            try:
                conn.execute("COMMIT")
            except GONE as error:
                if conn.broken:
                    raise _Unsure(xid, decision) from error
                raise
            return decision

    def _decide(
        self, conn: Connection, load: Load, build: Build, ids: Sequence[ItemId]
    ) -> tuple[int, Decision]:
        xid, snapshot, now_us = self._load_claimed(conn, load) or self._load(conn, load, ids)
        needed = snapshot.spare_ids(frozenset(load.items), now_us)
        spare: tuple[ItemId, ...] = ()
        if needed:
            spare = tuple(r[0] for r in conn.execute(self.sql["allocate"], {"count": needed}))
        decision = decide(snapshot, build(ids), now_us, self.timing, spare)
        self._apply(conn, decision, xid)
        return xid, decision

    def _take_keys(
        self, conn: Connection, load: Load, ids: Sequence[ItemId]
    ) -> dict[tuple[str, str], ItemId]:
        firsts: dict[tuple[str, str], ItemId] = {}
        for key, item in zip(load.keys, ids, strict=False):
            if key is not None:
                firsts.setdefault(key, item)
        if not firsts:
            return {}
        wanted = sorted(firsts)  # one order for everyone, so that two batches never wait for each other
        now_us = self._time(conn)
        params = {
            "projects": [p for p, _ in wanted],
            "keys": [k for _, k in wanted],
            "items": [firsts[k] for k in wanted],
            "expires": [now_us + to_us(DEDUPE_KEPT_S)] * len(wanted),
            "now_us": now_us,
        }
        taken = set(conn.execute(self.sql["take_keys"], params))
        seen = [k for k in wanted if k not in taken]
        if not seen:
            return {}
        params = {"projects": [p for p, _ in seen], "keys": [k for _, k in seen]}
        return {(p, k): item for p, k, item in conn.execute(self.sql["find_keys"], params)}

    def _load_claimed(self, conn: Connection, load: Load) -> tuple[int, Snapshot, int] | None:
        """What `_load` gives, for items that this process claimed: less has to be asked."""
        known = self._claimed_here.take(load.items)
        if known is None or load.arrivals or load.plans:
            return None
        claimed, versions = known
        lanes = [i.spec.lock_lane for i in claimed if i.spec.lock_lane is not None]
        lanes += [plan_lane(i.spec.plan) for i in claimed if i.spec.plan is not None]
        if lanes:  # an item never changes its lane or its plan
            return self._load_lanes(conn, load, lanes, {})
        rows = conn.execute(self.sql["lock_claimed"], {"items": array(load.items)}, binary=True)
        xid, ids, found, now_us = rows.fetchall()[0]
        if ids != list(load.items):
            return None
        items = {i.spec.id: i for i in claimed}
        changed = [i for i, was, now in zip(ids, versions, found, strict=True) if was != now]
        if changed:
            rows = conn.execute(self.sql["load_named_items"], {"items": array(changed)}, binary=True)
            items.update({i.spec.id: i for i in map(item_from_row, rows.fetchall())})
        snapshot = Snapshot(
            items=items, unread=self._unread(conn, items), ended_runs=self._ended_runs(conn, load, items)
        )
        return xid, snapshot, self._now() if self._now else now_us

    def _load(self, conn: Connection, load: Load, ids: Sequence[ItemId]) -> tuple[int, Snapshot, int]:
        sql = self.sql
        named = list(load.items)
        if load.edit is not None:
            named += [t.item for t in tasks_of_edit(partial(self._asking, conn), load.edit)]
        xid, stand_on = conn.execute(sql["begin_deciding"], {"items": array(named)}).fetchall()[0]
        seen_keys = self._take_keys(conn, load, ids)
        if load.lanes or stand_on or load.plans:
            return self._load_lanes(conn, load, stand_on, seen_keys, named)
        targets = array((*load.items, *seen_keys.values()))
        rows = conn.execute(sql["load_named_items"], {"items": targets}, binary=True)
        items = {i.spec.id: i for i in map(item_from_row, rows.fetchall())}
        now_us = self._time(conn)  # read after every wait for a lock
        snapshot = Snapshot(
            items=items,
            unread=self._unread(conn, items),
            seen_keys=seen_keys,
            ended_runs=self._ended_runs(conn, load, items),
            **self._edit_facts(conn, load, Parts({})),
        )
        return xid, snapshot, now_us

    def _load_lanes(
        self,
        conn: Connection,
        load: Load,
        stand_on: Sequence[str],
        seen_keys: dict[tuple[str, str], ItemId],
        named: Sequence[ItemId] = (),
    ) -> tuple[int, Snapshot, int]:
        sql = self.sql
        lanes = sorted({*load.lanes, *stand_on, *map(plan_lane, load.plans)})
        names = {"lanes": array(lanes)}
        if load.lanes:
            conn.execute(sql["add_lanes"], names)
        xid = only(conn.execute(sql["lock_lanes"], names).fetchone())
        parts = self._parts(conn, load, lanes, named)
        wanted = {
            "items": array((*load.items, *seen_keys.values(), *sorted(parts.items))),
            "heads": max(Counter(stand_on).values(), default=1),
        }
        rows = conn.execute(sql["load_items"], {**names, **wanted}, binary=True).fetchall()
        items = {i.spec.id: i for i in (item_from_row(r[:-1]) for r in rows)}
        now_us = max((r[-1] for r in rows), default=None) if self._now is None else None
        lines: dict[str, tuple[int, tuple[int, ...]]] = {}
        if load.lanes:
            for lane, count, positions in conn.execute(sql["load_lines"], names):
                lines[lane] = (count, tuple(positions or ()))
        gate_us = self._lock_gates(conn, parts, load) if parts.plans else None
        if gate_us is not None and self._now is None:
            now_us = gate_us
        snapshot = Snapshot(
            items=items,
            lines=lines,
            unread=self._unread(conn, items),
            seen_keys=seen_keys,
            ended_runs=self._ended_runs(conn, load, items),
            modes=self._modes(conn) if load.lanes else (),
            plans={plan: part.whole() for plan, part in parts.plans.items()},
            **self._edit_facts(conn, load, parts),
        )
        return xid, snapshot, self._time(conn) if now_us is None else now_us

    def _parts(self, conn: Connection, load: Load, lanes: Sequence[str], named: Sequence[ItemId]) -> Parts:
        """What the commands may touch of the plans whose lanes are locked."""
        plans = [p for p in map(plan_of_lane, lanes) if p is not None]
        if not plans:
            return Parts({})
        ask: Ask = partial(self._asking, conn)
        if load.edit is not None and not {t.item for t in tasks_of_edit(ask, load.edit)} <= set(named):
            raise Moved
        return read_parts(ask, plans, load)

    def _unread(
        self, conn: Connection, items: dict[ItemId, Item]
    ) -> dict[ItemId, tuple[tuple[int, int], ...]]:
        talked_to = [i.id for i in items.values() if i.state.message_count and (i.has_unread or i.comes_back)]
        unread: dict[ItemId, tuple[tuple[int, int], ...]] = {}
        if talked_to:
            for item, n, ticket in conn.execute(self.sql["load_unread"], {"items": array(talked_to)}):
                unread[item] = (*unread.get(item, ()), (n, ticket))
        return unread

    def _ended_runs(self, conn: Connection, load: Load, items: dict[ItemId, Item]) -> dict[RunId, RunRecord]:
        live = {i.state.run for i in items.values()}
        late = [r for r in load.runs if r not in live]
        if not late:
            return {}
        return {
            r.run: r for r in map(run_from_row, conn.execute(self.sql["load_runs"], {"runs": array(late)}))
        }

    def _apply(self, conn: Connection, decision: Decision, xid: int) -> None:
        sql = self.sql
        first_seq = self._event_base(conn) + (xid << EVENT_BITS)
        messages = [(m.item, m.n, m.ticket, m.text, m.author, m.origin, m.at_us) for m in decision.messages]
        events = [(first_seq + n, *event_row(e)) for n, e in enumerate(decision.events)]
        assert len(events) < CLAIM_EVENTS_FROM, "one transaction's events must fit below those of its claim"

        over = [i for i in decision.settled if ends_bare(i.state)]
        others = decision.settled
        if over:
            others = [i for i in others if not ends_bare(i.state)] if len(over) < len(others) else []
        raised = decision.raised

        def write(name: str, rows: Sequence[Sequence[Any]]) -> None:
            if rows:
                conn.execute(sql[name], columns(rows, len(rows[0])))

        if decision.plans or decision.lanes:
            self._write_new_plans(conn, decision)
        if not (others or decision.born):
            others, raised = raised, []
        self._settle(conn, over, others, decision.runs, events)
        write("insert_items", [item_row(i, " ".join(i.spec.labels) or None) for i in decision.born])
        self._settle(conn, (), raised, (), ())
        write("insert_payloads", decision.payloads)
        write("copy_payloads", decision.payload_copies)
        for move in decision.moves:
            conn.execute(sql["move_messages"], move._asdict())
        write("insert_messages", messages)
        write("drop_keys", decision.forgotten_keys)
        write("pass_keys", decision.passed_keys)
        if decision.plans:
            self._write_plans(conn, decision)

    def _settle(
        self,
        conn: Connection,
        over: Sequence[Item],
        others: Sequence[Item],
        runs: Sequence[RunRecord],
        events: Sequence[Sequence[Any]],
    ) -> None:
        parts = {"over": over, "others": others, "both": over and others}
        asked = frozenset(name for name, items in parts.items() if items)
        if not (asked or runs or events):
            return
        params = over_columns(over) if over else []
        if others:
            params += columns([state_row(i) for i in others], STATE_WIDTH)
        params += columns(runs, RUN_WIDTH) + columns(events, EVENT_WIDTH)
        conn.execute(self.sql.variant("settle", asked), params)

    # -- claiming ---------------------------------------------------------------------------------

    def look(self, agent: str) -> Look:
        params = {"agent": agent, "now_us": self._now() if self._now else None}
        due, shut, *row = self._persistently(lambda: self._all("look", params))[0]
        return Look(agent_from_row(row) if row[0] is not None else None, due, shut)

    def look_and_claim(self, wish: Claim) -> tuple[Look, list[Claimed]]:
        """One statement, unless the agent has limits, something is due, or nothing was found."""
        claimed, shut = self._persistently(lambda: self._claim_freely(wish))
        if claimed:
            return Look(None, due=False, maybe_shut=shut), claimed
        look = self.look(wish.agent)
        return look, [] if look.due else self.claim(wish, look.agent)

    def _claim_freely(self, wish: Claim) -> tuple[list[Claimed], bool]:
        with self._connection() as conn:
            rows = self._start(conn, wish, wish.item, "items", "freely")
        return self._claimed(rows), bool(rows and rows[0][-1])

    def claim(self, wish: Claim, agent: Agent | None) -> list[Claimed]:
        allowed = narrowed(wish, agent)
        if allowed is None:
            return []
        capped = agent is not None and agent.max_concurrency is not None
        return self._persistently(lambda: self._claim_once(wish if capped else allowed, capped=capped))

    def _claim_once(self, wish: Claim, *, capped: bool) -> list[Claimed]:
        for pause_s in (None, 0.002, 0.01):
            if pause_s is not None:
                time.sleep(pause_s)
            with self._connection() as conn:
                if capped:
                    with self._transaction(conn):
                        claimed = self._claim_with_room(conn, wish, wish.item)
                else:
                    claimed = self._claim(conn, wish, wish.item)
                # Rows that somebody has locked for an instant were passed over: look whether that was all.
                if claimed or capped or not self._has_ready(conn, wish):
                    return claimed
        return []

    def _has_ready(self, conn: Connection, wish: Claim) -> bool:
        if wish.item is None:
            return bool(only(conn.execute(self.sql["has_ready"], _filter(wish)).fetchone()))
        params = {**_filter(wish), "item": wish.item}
        return bool(only(conn.execute(self.sql["is_ready"], params).fetchone()))

    def _claim_with_room(self, conn: Connection, wish: Claim, one: ItemId | None) -> list[Claimed]:
        """Within a transaction: lock the agent's row in one statement, count in the next."""
        row = conn.execute(self.sql["lock_agent"], {"agent": wish.agent}).fetchone()
        agent = agent_from_row(row) if row else None
        allowed = narrowed(wish, agent)
        allowed = with_room(allowed, agent, *self._running(conn, wish.agent)) if allowed else None
        return self._claim(conn, allowed, one) if allowed else []

    def _running(self, conn: Connection, agent: str) -> tuple[int, int]:
        """How many runs an agent has that are no edits of plans, and how many that are."""
        running, editing = conn.execute(self.sql["count_running"], {"agent": agent}).fetchall()[0]
        return running, editing

    def _claim(self, conn: Connection, wish: Claim, one: ItemId | None) -> list[Claimed]:
        """Tasks of plans and other items, the best of both: each kind in a statement of its own."""
        tasks = self._best(conn, "ready_tasks", wish, one, wish.limit + TASKS_BEYOND)
        if not tasks:
            return self._claimed(self._start(conn, wish, one, "items"))
        others = self._best(conn, "ready_items", wish, one, wish.limit)
        first = heapq.nsmallest(
            wish.limit, [*((key, 0) for _, key in tasks), *((key, 1) for (key,) in others)]
        )
        share = sum(kind == 0 for _, kind in first)
        ids = [task for task, _ in tasks]
        claimed: list[Claimed] = []
        for nth, (how, most) in enumerate((("tasks", share), ("items", wish.limit), ("tasks", wish.limit))):
            left = min(most, wish.limit - len(claimed))
            if left > 0:
                wanted = replace(wish, limit=left)
                claimed += self._claimed(self._start(conn, wanted, one, how, nth=nth, tasks=ids))
        return sorted(claimed, key=lambda c: (c.item.spec.sort_key, c.item.id))

    def _best(
        self, conn: Connection, name: str, wish: Claim, one: ItemId | None, limit: int
    ) -> list[tuple[Any, ...]]:
        params = {**_filter(wish), "only": one}
        asked = frozenset(key for key in ("only", "types") if params[key] is not None)
        return conn.execute(self.sql.variant(name, asked, limit=limit), params, binary=True).fetchall()

    def _start(
        self,
        conn: Connection,
        wish: Claim,
        one: ItemId | None,
        *how: str,
        nth: int = 0,
        tasks: Sequence[ItemId] = (),
    ) -> list[tuple[Any, ...]]:
        params = {
            **_filter(wish),
            "only": one,
            "worker": wish.worker,
            "lease_s": wish.lease_s,
            "default_lease_s": self.timing.lease_s,
            "now_us": self._now() if self._now else None,
            "event_base": self._event_base(conn),
            "first_event": CLAIM_EVENTS_FROM + nth * CLAIM_EVENTS_EACH,
            "tasks": array(tasks),
        }
        asked = frozenset(name for name in ("only", "types") if params[name] is not None).union(how)
        statement = self.sql.variant("claim", asked, limit=wish.limit)
        return conn.execute(statement, params, binary=True).fetchall()

    def _claimed(self, rows: list[tuple[Any, ...]]) -> list[Claimed]:
        rows.sort(key=_QUEUE_ORDER)
        claimed = [Claimed(item_from_row(row[:ITEM_WIDTH]), row[ITEM_WIDTH]) for row in rows]
        if rows:
            self._claimed_here.keep((c.item for c in claimed), rows[0][ITEM_WIDTH + 1])
        return claimed

    def overtake(self, wish: Claim, agent: Agent | None) -> list[Claimed]:
        allowed = narrowed(wish, agent)
        if allowed is None:
            return []
        return self._persistently(lambda: self._overtake_once(wish, allowed))

    def _overtake_once(self, wish: Claim, allowed: Claim) -> list[Claimed]:
        started: list[Claimed] = []
        with self._connection() as conn:
            params = {**_filter(allowed), "only": wish.item, "limit": allowed.limit}
            for item, owner in conn.execute(self.sql["overtakable"], params).fetchall():
                with self._transaction(conn):
                    started += self._overtake(conn, wish, item, owner)
        return started

    def _overtake(self, conn: Connection, wish: Claim, item: ItemId, owner: ItemId) -> list[Claimed]:
        row = conn.execute(self.sql["lock_agent"], {"agent": wish.agent}).fetchone()
        running, _ = self._running(conn, wish.agent)
        if not has_room(agent_from_row(row) if row else None, running):
            return []
        command = Overtake(item=item, owner=owner)
        _, decision = self._decide(conn, Load(items=(item, owner)), lambda _: [command], ())
        if not decision.answers[0].changed:
            return []
        return self._claim_with_room(conn, wish, item)

    # -- keeping ----------------------------------------------------------------------------------

    def renew(self, wishes: Sequence[Renewal]) -> dict[RunId, Item]:
        # An update takes one row for each item: of a run that is named twice the last one, by its mark.
        once = {(w.item, w.run): w.seen for w in sorted(wishes, key=lambda w: w.seen)}
        params = {
            "items": array([item for item, _ in once]),
            "runs": array([run for _, run in once]),
            "seens": array(list(once.values())),
            "now_us": self._now() if self._now else None,
        }
        items = self._persistently(lambda: [item_from_row(r) for r in self._all("renew", params)])
        return {i.state.run: i for i in items if i.state.run is not None}

    def refuse(self, wishes: Sequence[Renewal], wanted: str) -> dict[RunId, RunRecord]:
        def work() -> dict[RunId, RunRecord]:
            with self._connection() as conn, self._transaction(conn):
                now_us = self._time(conn)
                self._log(conn, [_refused(w, wanted, now_us) for w in wishes])
                rows = conn.execute(self.sql["load_runs"], {"runs": array([w.run for w in wishes])})
                return {r.run: r for r in map(run_from_row, rows)}

        return self._persistently(work)

    def see_agent(self, key: str, name: str) -> None:
        def work() -> None:
            with self._connection() as conn:
                params = {"key": key, "name": name, "now_us": self._time(conn)}
                conn.execute(self.sql["see_agent"], params)

        self._persistently(work)

    def set_agent(self, agent: Agent, event: Event) -> None:
        params = {
            "key": agent.key,
            "name": agent.name,
            "max_concurrency": agent.max_concurrency,
            "types": list(agent.types),
            "labels": list(agent.labels),
            "paused_why": agent.paused_why,
        }
        self._set("set_agent", params, event)

    def pause_project(self, project: str, why: str | None, event: Event) -> None:
        if why is None:
            self._set("resume_project", {"project": project}, event)
        else:
            self._set("pause_project", {"project": project, "why": why}, event)
        self._notify()

    def set_mode(self, rule: ModeRule, event: Event) -> None:
        params = {"scope": rule.scope, "value": rule.value, "mode": Mode(rule.mode).value}
        self._set("set_mode", params, event)

    def _set(self, name: str, params: dict[str, Any], event: Event) -> None:
        def work() -> None:
            with self._connection() as conn, self._transaction(conn):
                conn.execute(self.sql[name], params)
                self._log(conn, [event])

        self._persistently(work)

    def _log(self, conn: Connection, events: Sequence[Event]) -> None:
        xid = int(only(conn.execute(self.sql["begin_writing"]).fetchone()))
        first_seq = self._event_base(conn) + (xid << EVENT_BITS)
        rows = [(first_seq + n, *event_row(e)) for n, e in enumerate(events)]
        conn.execute(self.sql["insert_events"], columns(rows, EVENT_WIDTH))

    def forget_keys(self, limit: int) -> int:
        def work() -> int:
            with self._connection() as conn:
                params = {"now_us": self._time(conn), "limit": limit}
                return conn.execute(self.sql["forget_keys"], params).rowcount

        return self._persistently(work)

    # -- waiting --------------------------------------------------------------------------------------

    def wait_for_work(self, wish: Claim, timeout_s: float) -> bool:
        """Wait for a notice; a pooler that hides notices leaves the caller's polling."""
        try:
            listener = self._listener()
            if self._has_ready(listener, wish):
                return True
            return any(True for _ in listener.notifies(timeout=timeout_s, stop_after=1))
        except GONE:
            self._local.listener = None
            time.sleep(min(timeout_s, 0.5))
            return False


def _filter(wish: Claim) -> dict[str, Any]:
    return {"agent": wish.agent, "types": list(wish.types) or None, "labels": list(wish.labels)}


def _refused(wish: Renewal, wanted: str, now_us: int) -> Event:
    return Event(
        kind=EventKind.RUN_REFUSED,
        at_us=now_us,
        reason=Reason.LEASE_LOST,
        item=wish.item,
        run=wish.run,
        data={"wanted": wanted},
    )
