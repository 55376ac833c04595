"""One transaction of the rules on PostgreSQL: lock, load, decide, write, commit.

Lanes are locked first and everything is read by later statements (READ COMMITTED). The clock is read, and
the number of the first event drawn, after the last lock. Lock and load go to the server in one round trip,
all writes and the commit in another. A commit whose answer was lost is looked up by its transaction number,
so that a repeated attempt neither doubles nor loses it.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from interlock.core.commands import Command
from interlock.core.decide import decide
from interlock.core.errors import Repeated
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import (
    AHEAD_MAX,
    Event,
    Item,
    ItemId,
    Mode,
    ModeRule,
    NewMessage,
    RunId,
    RunRecord,
    Streak,
    Unread,
)
from interlock.core.overtaking import Presence
from interlock.core.plans.model import plan_lane, plan_of_lane
from interlock.core.record import Record
from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.bulk import in_bulk
from interlock.store.clock import since_boot_us
from interlock.store.plan_parts import Ask, Parts, read_parts, tasks_of_edit
from interlock.store.port import Build, Load
from interlock.store.postgres import plans
from interlock.store.postgres.database import BEGIN, GONE, Database, only, roll_back
from interlock.store.postgres.statement import Connection
from interlock.store.rows import (
    ITEM_WIDTH,
    array,
    columns,
    end_row,
    ends_bare,
    event_row,
    gate_from_row,
    gate_row,
    item_from_row,
    item_row,
    portions,
    presence_from_rows,
    run_from_row,
    spec_row,
    state_row,
    unclaimed,
    unread_message,
)

if TYPE_CHECKING:
    from interlock.store.access_port import Note
    from interlock.store.postgres.clock import ServerClock

_RUN_WIDTH = len(RunRecord._fields)
EVENT_WIDTH = len(Event._fields) + 1
#: How many transactions of a process go by before it adds up the counts that changed, where nobody sweeps.
FOLD_EVERY = 500
#: What the database calls an id that is taken.
_IDS = ("items_pkey", "plans_pkey")
#: How many lines of history one number has room for.
EVENTS_MAX = 1 << 16


#: What the database calls a request that was carried out already.
REQUESTS = "requests_pkey"


def repeated() -> Repeated:
    return Repeated("The request was carried out already.", "Its answer is kept for a day.")


class _Unsure(Exception):
    """The connection was lost while a commit was under way."""

    def __init__(self, loaded: _Loaded, decision: Decision) -> None:
        self.xid = loaded.xid
        self.first_seq = loaded.first_seq
        self.decision = decision


class _Stepped(Exception):
    """The server's clock was set: nothing may be decided by it."""


class _Loaded(Record):
    """What a transaction has locked and read."""

    xid: int
    #: Read and drawn after every wait.
    now_us: int
    offset_us: int
    first_seq: int
    snapshot: Snapshot


class Transactions:
    """What the rules decide, written by one process."""

    def __init__(self, database: Database, clock: ServerClock) -> None:
        self._database = database
        self._clock = clock
        self._sql = database.sql
        self._count = itertools.count(1)

    def transact(self, load: Load, build: Build, note: Note | None = None) -> Decision:
        """Lock and load, let the rules decide on the commands, write; repeated until it is committed once."""
        database = self._database
        ids = self._allocate(load.arrivals)
        unsure: list[_Unsure] = []

        def attempt() -> Decision:
            if unsure:
                if self._was_committed(unsure[-1]):
                    return unsure[-1].decision
                unsure.clear()
            try:
                with database.connection() as conn:
                    return self._attempt(conn, load, build, ids, note)
            except _Unsure as lost:
                unsure.append(lost)
                why = str(lost.__cause__).partition("\n")[0]
                raise psycopg.OperationalError(f"the connection was lost during a commit ({why})") from lost

        while True:
            try:
                decision = database.persistently(attempt)
                break
            except _Stepped:
                self._clock.correct()
            except psycopg.errors.UniqueViolation as error:
                if error.diag.constraint_name == REQUESTS:
                    raise repeated() from None
                if not ids or error.diag.constraint_name not in _IDS:
                    raise
                ids = self._allocate(load.arrivals)
        if decision.wakes:
            database.notify()
        if next(self._count) % FOLD_EVERY == 0:
            database.persistently(lambda: database.run_statement("fold_tallies"))
        return decision

    def _allocate(self, count: int) -> list[ItemId]:
        """Ids that nobody else gets. Of several failovers in a row, each of which loses commits, two may give
        out the same ones; the database keeps the first, and the other draws again."""
        if not count:
            return []
        rows = self._database.persistently(lambda: self._database.ask("allocate", {"count": count}))
        return [r[0] for r in rows]

    def _was_committed(self, lost: _Unsure) -> bool:
        """Whether a commit whose answer was lost took place.

        The server's word on the transaction's number is not enough: numbers are not durable before a
        commit is, so after a crash the same number may belong to somebody else's transaction. The first
        line that ours wrote, with its time, tells them apart.
        """
        try:
            fate = only(self._database.ask("fate", {"xid": lost.xid})[0])
        except psycopg.errors.InvalidParameterValue:
            return False  # "in the future": the server crashed and has not given the number out again
        if fate == "in progress":
            raise psycopg.OperationalError("the fate of a commit is not known yet")
        if fate != "committed" or not lost.decision.events:
            return bool(fate == "committed")
        # A later statement than the one above, so that it sees what had just been committed.
        line = {"seq": lost.first_seq, "at_us": lost.decision.events[0].at_us}
        return bool(only(self._database.ask("wrote_line", line)[0]))

    def keep(self, conn: Connection, note: Note | None, done: object) -> None:
        """Keep the answer to a request in the transaction that carries it out."""
        if note is not None and (kept := note(done)) is not None:
            request, answer = kept
            params = {**request._asdict(), "answer": answer, "now_us": self._database.given_now()}
            conn.execute(self._sql["access/keep_request"], params)

    def _attempt(
        self, conn: Connection, load: Load, build: Build, ids: Sequence[ItemId], note: Note | None
    ) -> Decision:
        decision: Decision | None = None
        try:
            sent_us = since_boot_us()
            loaded = self._load(conn, load, ids, begin=True)
            if self._clock.stepped(loaded.now_us, loaded.offset_us, sent_us):
                raise _Stepped
            decision = self._decided(conn, load, build(ids), loaded)
            with self._database.pipeline(conn, chars=_chars(decision)):
                self._write(conn, decision, loaded)
                self.keep(conn, note, decision)
                conn.execute("COMMIT")
        except BaseException as error:
            if isinstance(error, GONE) and conn.broken and decision is not None:
                raise _Unsure(loaded, decision) from error
            roll_back(conn)
            raise
        return decision

    def decide(self, conn: Connection, load: Load, command: Command) -> Decision:
        """Decide on one command inside a transaction that has begun and that the caller commits."""
        loaded = self._load(conn, load, (), begin=False)
        decision = self._decided(conn, load, [command], loaded)
        with self._database.pipeline(conn, chars=_chars(decision)):
            self._write(conn, decision, loaded)
        return decision

    # -- loading ----------------------------------------------------------------------------------

    def _load(self, conn: Connection, load: Load, ids: Sequence[ItemId], *, begin: bool) -> _Loaded:
        if begin and (load.edit is not None or any(load.keys)):
            conn.execute(BEGIN)
            begin = False
        seen = self._take_keys(conn, load, ids) if any(load.keys) else {}
        named = list(load.items)
        if load.edit is not None:
            named += [t.item for t in tasks_of_edit(partial(self._asking, conn), load.edit)]
        sql, lanes = self._sql, sorted({*load.lanes, *map(plan_lane, load.plans)})
        made = sorted({*load.lanes, *load.task_lanes})
        heard = {
            "name_lanes": array([lane for lane, _ in load.names]),
            "name_keys": array([key for _, key in load.names]),
        }
        wanted = {"items": array(named), "lanes": array(lanes), "heads": 1, "with_tasks": False, **heard}
        joined = {"lanes": array(sorted(load.lanes)), "limit": AHEAD_MAX + load.arrivals}
        with self._database.pipeline(conn):
            if begin:
                conn.execute(BEGIN)
            if load.walled:
                conn.execute(sql["lock_agents"], {"agents": array(sorted(load.walled))})
            if made:  # before any lock: whoever makes a lane waits for another who makes it
                conn.execute(sql["add_lanes"], {"lanes": array(made)})
            locked = conn.execute(sql["lock_lanes"], wanted, binary=True)
            loaded = conn.execute(sql["load_items"], wanted, binary=True)
            lines = conn.execute(sql["load_lines"], joined, binary=True) if load.lanes else None
            modes = conn.execute(sql["modes"]) if load.lanes else None
            gate = dict(zip(("lane", "series"), load.gate, strict=True)) if load.gate is not None else None
            busy = conn.execute(sql["busy_gate"], gate) if gate is not None else None
        xid, lanes, known = only_row(locked)
        parts = self._parts(conn, load, lanes or (), named)
        if parts.plans:
            targets = (*load.items, *sorted(parts.items))
            heads = max(1, len(load.items))
            wanted |= {"items": array(targets), "lanes": array(lanes), "heads": heads, "with_tasks": True}
            loaded = conn.execute(sql["load_items"], wanted, binary=True)
        rows = loaded.fetchall()
        after_wait = plans.lock_gates(partial(self._asking, conn), parts, load)
        now_us, offset_us, first_seq = after_wait or rows[0][-3:]
        rows = [r for r in rows if r[0] is not None]
        items = {i.id: i for i in map(item_from_row, rows)}
        snapshot = Snapshot(
            items=self._seen(conn, seen) | items if seen else items,
            lines={lane: (n, tuple(positions or ())) for lane, n, positions in lines or ()},
            unread=self._unread(conn, items, rows),
            streaks={
                lane: Streak(int(n), RunId(int(r)) if r else None)
                for lane, n, r, *_ in known or ()
                if n != "0"
            },
            last_agents={lane: agent for lane, _, _, agent, *_ in known or () if agent},
            gates={lane: gate_from_row(json.loads(gate)) for lane, *_, gate, _ in known or () if gate},
            blocked=frozenset(lane for lane, *_, blocked in known or () if blocked == "true"),
            held_back=self._held_back(conn, items, self._database.given_now() or now_us),
            presence=self._presence(conn, load.presence) if load.presence else {},
            busy_gate=next((lane for (lane,) in busy or ()), None),
            seen_keys=seen,
            ended_runs=self._ended_runs(conn, load, items),
            modes=modes_from_rows(modes.fetchall()) if modes else (),
            plans={plan: part.whole() for plan, part in parts.plans.items()},
            **plans.edit_facts(partial(self._asking, conn), load, parts),
        )
        now_us = self._database.given_now() or now_us
        return _Loaded(xid=xid, now_us=now_us, offset_us=offset_us, first_seq=first_seq, snapshot=snapshot)

    def _unread(
        self, conn: Connection, items: Mapping[ItemId, Item], rows: Sequence[tuple[Any, ...]]
    ) -> dict[ItemId, tuple[Unread, ...]]:
        """The messages that matter if a run ends now. Where no lane was locked, the statement that read them
        may have waited for whoever wrote them: it sees the item's new count, and not the messages."""
        found = unread_from_rows(items, rows)
        late = [
            i
            for i, item in items.items()
            if item.has_unread and len(found.get(i, ())) < item.state.message_count - item.state.delivered
        ]
        if late:
            again = self._asking(conn, "load_unread", items=late)
            found |= {i: tuple(map(unread_message, messages)) for i, messages in again}
        return found

    def _held_back(self, conn: Connection, items: Mapping[ItemId, Item], now_us: int) -> frozenset[ItemId]:
        late = unclaimed(items, now_us)
        return (
            frozenset(row[0] for row in self._asking(conn, "held_back", items=late)) if late else frozenset()
        )

    def _presence(self, conn: Connection, agents: Sequence[str]) -> dict[str, Presence]:
        params = {"agents": array(agents), "now_us": self._database.given_now()}
        return presence_from_rows(conn.execute(self._sql["presence"], params, binary=True).fetchall())

    def _asking(self, conn: Connection, name: str, **params: Any) -> list[tuple[Any, ...]]:
        """A statement whose lists go in as arrays."""
        plain = {k: array(v) if isinstance(v, list) else v for k, v in params.items()}
        return conn.execute(self._sql[name], plain, binary=True).fetchall()

    def _parts(self, conn: Connection, load: Load, lanes: Sequence[str], named: Sequence[ItemId]) -> Parts:
        """What the commands may touch of the plans whose lanes are locked."""
        found = [p for p in map(plan_of_lane, lanes) if p is not None]
        if not found:
            return Parts(plans={})
        ask: Ask = partial(self._asking, conn)
        if load.edit is not None and not {t.item for t in tasks_of_edit(ask, load.edit)} <= set(named):
            raise plans.KeyTaken
        return read_parts(ask, found, load)

    def _take_keys(
        self, conn: Connection, load: Load, ids: Sequence[ItemId]
    ) -> dict[tuple[str, str], ItemId]:
        firsts: dict[tuple[str, str], ItemId] = {}
        for key, item in zip(load.keys, ids, strict=False):
            if key is not None:
                firsts.setdefault(key, item)
        wanted = sorted(firsts)  # one order for everyone, so that two batches never wait for each other
        now_us = self._database.time(conn)
        params = {
            "projects": [p for p, _ in wanted],
            "keys": [k for _, k in wanted],
            "items": [firsts[k] for k in wanted],
            "expires": [now_us + to_us(DEDUPE_KEPT_S)] * len(wanted),
            "now_us": now_us,
        }
        taken = set(conn.execute(self._sql["take_keys"], params))
        seen = [k for k in wanted if k not in taken]
        if not seen:
            return {}
        params = {"projects": [p for p, _ in seen], "keys": [k for _, k in seen]}
        return {(p, k): item for p, k, item in conn.execute(self._sql["find_keys"], params)}

    def _seen(self, conn: Connection, seen_keys: Mapping[Any, ItemId]) -> dict[ItemId, Item]:
        """The first items of dedupe keys that come again: they are named, never changed, so not locked."""
        rows = conn.execute(self._sql["load_seen"], {"items": array(list(seen_keys.values()))}, binary=True)
        return {i.id: i for i in map(item_from_row, rows.fetchall())}

    def _ended_runs(
        self, conn: Connection, load: Load, items: Mapping[ItemId, Item]
    ) -> dict[RunId, RunRecord]:
        live = {i.state.run for i in items.values()}
        late = [r for r in load.runs if r not in live]
        if not late:
            return {}
        rows = conn.execute(self._sql["load_runs"], {"runs": array(late)})
        return {r.run: r for r in map(run_from_row, rows)}

    # -- deciding and writing ---------------------------------------------------------------------

    def _decided(
        self, conn: Connection, load: Load, commands: Sequence[Command], loaded: _Loaded
    ) -> Decision:
        needed = loaded.snapshot.spare_ids(frozenset(load.items), loaded.now_us)
        spare: tuple[ItemId, ...] = ()
        if needed:
            spare = tuple(r[0] for r in conn.execute(self._sql["allocate"], {"count": needed}))
        return in_bulk(decide)(loaded.snapshot, commands, loaded.now_us, self._database.timing, spare)

    def _write(self, conn: Connection, decision: Decision, loaded: _Loaded) -> None:
        """Send what was decided. The order matters to the index that keeps one owner a lane: items that leave
        an active state go before items that enter one."""
        events = [(loaded.first_seq + n, *event_row(e)) for n, e in enumerate(decision.events)]
        assert len(events) <= EVENTS_MAX, "one transaction's events must fit below the next number"

        def write(name: str, rows: Sequence[Sequence[Any]]) -> None:
            if rows:
                conn.execute(self._sql[name], columns(rows, len(rows[0])))

        if decision.plans:
            plans.write_new(conn, self._sql, decision)
        write("end_items", [end_row(i) for i in decision.settled if ends_bare(i.state)])
        write("update_items", [state_row(i) for i in decision.settled if not ends_bare(i.state)])
        write("insert_items", [item_row(i, " ".join(i.spec.labels) or None) for i in decision.born])
        write("update_items", [state_row(i) for i in decision.raised])
        changed = [decision.after[i] for i in dict.fromkeys(decision.respecified)]
        write("update_specs", [spec_row(i, " ".join(i.spec.labels) or None) for i in changed])
        for payloads in portions(decision.payloads, _payload_chars):
            write("insert_payloads", payloads)
        write("copy_payloads", decision.payload_copies)
        for move in decision.moves:
            conn.execute(self._sql["move_messages"], move._asdict())
        for messages in portions(decision.messages, _message_chars):
            write("insert_messages", messages)
        write("set_walls", decision.walls)
        write("set_streaks", decision.streaks)
        write("set_last_agents", decision.last_agents)
        write("set_gates", [gate_row(lane, g, g and " ".join(g.exempt)) for lane, g in decision.gates])
        if decision.unblocked:
            conn.execute(self._sql["drop_blocks"], {"items": array(decision.unblocked)})
        write("drop_keys", decision.forgotten_keys)
        write("pass_keys", decision.passed_keys)
        tallies = _tallies(decision, loaded.snapshot.items)
        if decision.runs or tallies or events:
            for runs in portions(decision.runs, _run_chars):
                recorded = (*columns(runs, _RUN_WIDTH), *columns(tallies, 3), *columns(events, EVENT_WIDTH))
                conn.execute(self._sql["record"], recorded)
                tallies, events = [], []
        if decision.plans:
            plans.write(conn, self._sql, decision)


def _payload_chars(row: tuple[ItemId, str]) -> int:
    return len(row[1])


def _message_chars(message: NewMessage) -> int:
    return len(message.text)


def _run_chars(run: RunRecord) -> int:
    return len(run.result or "") + len(run.error or "")


def unread_from_rows(
    items: Mapping[ItemId, Item], rows: Sequence[tuple[Any, ...]]
) -> dict[ItemId, tuple[Unread, ...]]:
    """The unread messages that stand behind the columns of the items."""
    found = {i: r[ITEM_WIDTH] for i, r in zip(items, rows, strict=True) if r[ITEM_WIDTH]}
    return {
        i: tuple(map(unread_message, messages))
        for i, messages in found.items()
        if items[i].has_unread or items[i].comes_back
    }


def _chars(decision: Decision) -> int:
    """How much text of callers there is to write."""
    sizes = map(_payload_chars, decision.payloads), map(_message_chars, decision.messages)
    return sum(map(sum, (*sizes, map(_run_chars, decision.runs))))


def _tallies(decision: Decision, before: Mapping[ItemId, Item]) -> list[tuple[str, int, int]]:
    """How the numbers of items change, by status and priority."""
    changes: Counter[tuple[str, int]] = Counter()
    for item in (*decision.settled, *decision.raised, *decision.born):
        changes[item.state.status, item.spec.priority] += 1
        if (old := before.get(item.id)) is not None:
            changes[old.state.status, old.spec.priority] -= 1
    return [(status, priority, n) for (status, priority), n in changes.items() if n]


def only_row(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The single row of a statement that gives one."""
    row = cursor.fetchone()
    assert row is not None
    return row


def modes_from_rows(rows: Sequence[Sequence[Any]]) -> tuple[ModeRule, ...]:
    return tuple(ModeRule(scope=s, value=v, mode=Mode(m)) for s, v, m in rows)
