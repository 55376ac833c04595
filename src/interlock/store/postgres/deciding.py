"""Deciding on PostgreSQL: lock, load, let the rules decide, write, in one commit.

READ COMMITTED with the lane rows locked first and everything read in later statements; the clock is read
after waits. A commit whose answer was lost is looked up by its transaction number, so that a repeated
attempt neither doubles nor loses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import psycopg

from interlock.core.commands import Command, Finish
from interlock.core.decide import decide
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import (
    STATE_FIELDS,
    Event,
    Item,
    ItemId,
    RunId,
    RunRecord,
)
from interlock.core.plans.model import plan_lane, plan_of_lane
from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.bulk import in_bulk
from interlock.store.plan_parts import Ask, Parts, read_parts, tasks_of_edit
from interlock.store.port import Build, Load
from interlock.store.postgres import plain_ends
from interlock.store.postgres.database import GONE, Connection, only
from interlock.store.postgres.plans import Moved, PostgresPlans
from interlock.store.rows import (
    array,
    columns,
    ends_bare,
    event_row,
    item_from_row,
    item_row,
    over_columns,
    promoted_columns,
    run_from_row,
    state_row,
    was_promoted,
)

EVENT_BITS = 16
STATE_WIDTH, RUN_WIDTH, EVENT_WIDTH = len(STATE_FIELDS) + 2, len(RunRecord._fields), len(Event._fields) + 1
CLAIM_EVENTS_FROM = 1 << 15  # where `claim.sql` begins to number within a transaction


class _Unsure(Exception):
    """The connection was lost while a commit was under way."""

    def __init__(self, xid: int, decision: Decision) -> None:
        self.xid = xid
        self.decision = decision


class PostgresDeciding(PostgresPlans):
    """The deciding half of the store's writing."""

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
            line = {"seq": self._first_seq(conn, lost.xid), "at_us": lost.decision.events[0].at_us}
            return bool(only(conn.execute(self.sql["wrote_line"], line).fetchone()))

    def _attempt(self, load: Load, build: Build, ids: Sequence[ItemId]) -> Decision:
        known = self._claimed_here.take(load.items) if load.success else None
        specs = [item.spec for item, _ in known or ()]
        lanes = [lane for s in specs if (lane := s.lock_lane) is not None]
        lanes += [plan_lane(s.plan) for s in specs if s.plan is not None]  # an item never changes either
        with self._connection() as conn:
            if known and all(plain_ends.stands_alone(item) for item, _ in known):
                reports = cast("Sequence[Finish]", build(()))  # what else could succeed
                try:
                    return self._committed(conn, partial(self._decide_on_claim, conn, reports, known, lanes))
                except plain_ends.Changed:
                    pass
            return self._committed(conn, partial(self._decide, conn, load, build, ids, lanes))

    def _committed(self, conn: Connection, work: Callable[[], tuple[int, Decision]]) -> Decision:
        try:
            # No pipeline: to the server, a client that is stopped inside of one is busy for ever.
            conn.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            xid, decision = work()
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
        self,
        conn: Connection,
        load: Load,
        build: Build,
        ids: Sequence[ItemId],
        lanes: Sequence[str] = (),
    ) -> tuple[int, Decision]:
        """Lock, load, decide, write. `lanes` are those of the items named, where they are known."""
        if lanes:
            xid, snapshot, now_us = self._load_lanes(conn, load, lanes, {})
        else:
            xid, snapshot, now_us = self._load(conn, load, ids)
        decision = self._decided(conn, load, snapshot, build(ids), now_us)
        self._apply(conn, decision, xid, snapshot.items)
        return xid, decision

    def _decide_on_claim(
        self,
        conn: Connection,
        reports: Sequence[Finish],
        known: Sequence[plain_ends.Version],
        lanes: Sequence[str],
    ) -> tuple[int, Decision]:
        """The same for items that this process claimed: decided on what it knows of them, and written only if
        the rows, once they are locked, are still the ones it knows."""
        begin = "lock_lanes" if lanes else "begin_on_claim"
        names = {"lanes": array(sorted(set(lanes)))} if lanes else None
        xid, now_us = conn.execute(self.sql[begin], names, binary=True).fetchall()[0]
        ends = plain_ends.paired(known, reports, self._heads(conn, names) if names else {})
        decision = plain_ends.decided(ends, self._now() if self._now else now_us, self.timing)
        plain_ends.write(conn, self.sql, decision, ends, self._first_seq(conn, xid))
        return xid, plain_ends.spread(decision, ends, reports)

    def _heads(self, conn: Connection, names: Mapping[str, Any]) -> dict[str | None, plain_ends.Version]:
        """Who follows those that own the lanes, each with the version of its row."""
        heads: dict[str | None, plain_ends.Version] = {}
        for lane, observed, version, *row in conn.execute(self.sql["load_heads"], names, binary=True):
            if observed:  # somebody else has a say there
                raise plain_ends.Changed
            if version is not None:
                heads[lane] = item_from_row(row), version
        return heads

    def _decided(
        self, conn: Connection, load: Load, snapshot: Snapshot, commands: Sequence[Command], now_us: int
    ) -> Decision:
        needed = snapshot.spare_ids(frozenset(load.items), now_us)
        spare: tuple[ItemId, ...] = ()
        if needed:
            spare = tuple(r[0] for r in conn.execute(self.sql["allocate"], {"count": needed}))
        return in_bulk(decide)(snapshot, commands, now_us, self.timing, spare)

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

    def _seen(self, conn: Connection, seen_keys: Mapping[Any, ItemId]) -> dict[ItemId, Item]:
        """The first items of dedupe keys that come again: they are named, never changed, so not locked."""
        if not seen_keys:
            return {}
        rows = conn.execute(self.sql["load_seen"], {"items": array(list(seen_keys.values()))}, binary=True)
        return {i.spec.id: i for i in map(item_from_row, rows.fetchall())}

    def _load(self, conn: Connection, load: Load, ids: Sequence[ItemId]) -> tuple[int, Snapshot, int]:
        sql = self.sql
        named = list(load.items)
        if load.edit is not None:
            named += [t.item for t in tasks_of_edit(partial(self._asking, conn), load.edit)]
        xid, stand_on = conn.execute(sql["begin_deciding"], {"items": array(named)}).fetchall()[0]
        seen_keys = self._take_keys(conn, load, ids)
        if load.lanes or stand_on or load.plans:
            return self._load_lanes(conn, load, stand_on, seen_keys, named)
        rows = conn.execute(sql["load_named_items"], {"items": array(load.items)}, binary=True)
        items = self._seen(conn, seen_keys) | {i.spec.id: i for i in map(item_from_row, rows.fetchall())}
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
        xid, _ = conn.execute(sql["lock_lanes"], names, binary=True).fetchall()[0]
        parts = self._parts(conn, load, lanes, named)
        wanted = {
            "items": array((*load.items, *sorted(parts.items))),
            "heads": max(Counter(stand_on).values(), default=1),
        }
        rows = conn.execute(sql["load_items"], {**names, **wanted}, binary=True).fetchall()
        locked = {i.spec.id: i for i in map(item_from_row, rows)}
        items = self._seen(conn, seen_keys) | locked
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

    def _first_seq(self, conn: Connection, xid: int) -> int:
        """The number of the first line of history that a transaction writes."""
        return self._event_base(conn) + (xid << EVENT_BITS)

    def _apply(self, conn: Connection, decision: Decision, xid: int, before: Mapping[ItemId, Item]) -> None:
        """Write a decision about items as they were `before`."""
        sql = self.sql
        first_seq = self._first_seq(conn, xid)
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
        promoted: list[Item] = []
        if not (others or decision.born):
            others = []
            for item in raised:
                (promoted if was_promoted(before.get(item.spec.id), item) else others).append(item)
            raised = []
        self._settle(conn, over, others, decision.runs, events, promoted=promoted)
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
        *,
        promoted: Sequence[Item] = (),
    ) -> None:
        parts = {
            "over": over,
            "promoted": promoted,
            "others": others,
            "after": over and (promoted or others),
        }
        asked = frozenset(name for name, part in parts.items() if part)
        if not (asked or runs or events):
            return
        params: list[Any] = over_columns(over) if over else []
        if promoted:
            params += promoted_columns(promoted)
        if others:
            params += columns([state_row(i) for i in others], STATE_WIDTH)
        params += [*columns(runs, RUN_WIDTH), *columns(events, EVENT_WIDTH)]
        conn.execute(self.sql.variant("settle", asked), params)
