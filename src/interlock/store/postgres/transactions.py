"""One transaction of the rules on PostgreSQL: lock, load, decide, write, commit.

Lanes are locked first, and later statements read everything else (READ COMMITTED). The clock and the number
of the first event are read after the last lock. Lock and load take one round trip, all writes and the commit
another. If the answer to a commit was lost, the commit is looked up by its transaction number, so that a
repeated attempt neither doubles nor loses it.
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
from interlock.core.errors import Repeated, StoreBusy, StoreUnavailable
from interlock.core.ledger import LedgerChanges, Snapshot
from interlock.core.model import (
    AHEAD_MAX,
    Event,
    Item,
    ItemId,
    NewMessage,
    RunId,
    RunRecord,
    Streak,
    Unread,
)
from interlock.core.overtaking import AgentPresence
from interlock.core.plans.model import plan_lane, plan_of_lane
from interlock.core.record import Record
from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.bulk import in_bulk
from interlock.store.clock import since_boot_us
from interlock.store.plan_parts import Ask, Parts, edit_facts, read_parts, tasks_of_edit
from interlock.store.port import Build, Load
from interlock.store.postgres import plans
from interlock.store.postgres.database import BEGIN, GONE, Database, commit, only, roll_back
from interlock.store.postgres.early_ends import EarlyEnd, EarlyEnds, Rest
from interlock.store.postgres.statement import StatementConnection
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
    modes_from_rows,
    portions,
    presence_from_rows,
    questions_from_rows,
    run_from_row,
    spec_row,
    state_row,
    unclaimed,
    unread_message,
)

if TYPE_CHECKING:
    from interlock.store.access import Note
    from interlock.store.postgres.clock import ServerClock

_RUN_WIDTH = len(RunRecord._fields)
EVENT_WIDTH = len(Event._fields) + 1
#: The transactions after which a process folds the changed counts if no sweeper runs.
FOLD_EVERY = 500
#: The constraints that a taken id violates.
_IDS = ("items_pkey", "plans_pkey")
#: The most events in one range of numbers.
EVENTS_MAX = 1 << 16


#: The constraint that an already carried out request violates.
REQUESTS = "requests_pkey"


def repeated() -> Repeated:
    return Repeated("The request was carried out already.", "Its answer is kept for a day.")


class _CommitUnsure(Exception):
    """The connection was lost during a commit."""

    def __init__(self, loaded: _Loaded, decision: LedgerChanges) -> None:
        self.xid = loaded.xid
        self.first_seq = loaded.first_seq
        self.decision = decision


class _Stepped(Exception):
    """The server's clock was set, so no decision may use it."""


class _Loaded(Record):
    """The rows that a transaction has locked and read."""

    xid: int
    #: The time, read after every wait.
    now_us: int
    offset_us: int
    first_seq: int
    snapshot: Snapshot


class Transactions:
    """Writes the rules' decisions, for one process."""

    def __init__(self, database: Database, clock: ServerClock) -> None:
        self._database = database
        self._clock = clock
        self.early_ends = EarlyEnds(database)
        self._sql = database.sql
        self._count = itertools.count(1)

    def transact(
        self, load: Load, build: Build, note: Note | None = None, rest: Rest | None = None
    ) -> LedgerChanges:
        """Lock and load, let the rules decide on the commands, and write; repeat until committed exactly
        once. With a `rest`, that keeps the answer and commits."""
        database = self._database
        early = self.early_ends.decided(load, build)
        ids = self._allocate(load.arrivals)
        unsure: list[_CommitUnsure] = []

        def attempt() -> LedgerChanges:
            if unsure:
                if self._was_committed(unsure[-1]):
                    if rest is not None:
                        with database.connection() as conn:
                            rest.recall(conn, unsure[-1].decision)
                    return unsure[-1].decision
                unsure.clear()
            try:
                with database.connection() as conn:
                    if early is not None:
                        ended = self._end_early(conn, early, note, rest, load)
                        if ended is not None:
                            return ended
                    return self._attempt(conn, load, build, ids, note, rest)
            except _CommitUnsure as lost:
                unsure.append(lost)
                why = str(lost.__cause__).partition("\n")[0]
                raise psycopg.OperationalError(f"the connection was lost during a commit ({why})") from lost

        while True:
            try:
                decision = database.persistently(attempt)
                break
            except _Stepped:
                self._clock.correct()
            except StoreBusy as error:
                if early is not None and early.unsure:  # an earlier attempt may have been committed
                    raise StoreUnavailable(
                        error.sentence, "Look at the runs before you report again."
                    ) from None
                raise
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
        """Ids that no other process gets. After several failovers that lose commits, two processes may get
        the same ones. The database keeps the first, and the other process allocates again."""
        if not count:
            return []
        rows = self._database.persistently(lambda: self._database.ask("allocate", {"count": count}))
        return [r[0] for r in rows]

    def _was_committed(self, lost: _CommitUnsure) -> bool:
        """Whether a commit with a lost answer took place.

        The server's status for the transaction's number is not enough: numbers are not durable before a
        commit, so after a crash another transaction may have the same number. The first event of ours, with
        its time, distinguishes them.
        """
        try:
            outcome = only(self._database.ask("commit_outcome", {"xid": lost.xid})[0])
        except psycopg.errors.InvalidParameterValue:
            return False  # "in the future": the server crashed and has not reused the number
        if outcome == "in progress":
            raise psycopg.OperationalError("the outcome of a commit is not known yet")
        if outcome != "committed" or not lost.decision.events:
            return bool(outcome == "committed")
        # A later statement than the one above, so that it sees a commit made just before.
        line = {"seq": lost.first_seq, "at_us": lost.decision.events[0].at_us}
        return bool(only(self._database.ask("wrote_line", line)[0]))

    def keep(self, conn: StatementConnection, note: Note | None, done: object) -> None:
        """Store the answers to requests in the transaction that carries them out."""
        if note is not None and (kept := note(done)):
            params = {
                "keys": array([request.key for request, _ in kept]),
                "asked": array([request.asked for request, _ in kept]),
                "answers": array([answer for _, answer in kept]),
                "now_us": self._database.given_now(),
            }
            conn.execute(self._sql["access/keep_requests"], params)

    def _end_early(
        self, conn: StatementConnection, early: EarlyEnd, note: Note | None, rest: Rest | None, load: Load
    ) -> LedgerChanges | None:
        if rest is not None:
            return self.early_ends.end_with(conn, early, partial(self._lock_limits, conn, load), rest)
        keep = None if note is None else partial(self.keep, conn, note)
        return self.early_ends.end(conn, early, keep)

    def _lock_limits(self, conn: StatementConnection, load: Load) -> None:
        """Lock what comes before any lane: a pool, then agents, then budgets."""
        if load.pool is not None:
            conn.execute(self._sql["lock_pool"], {"pool": load.pool})
        if load.limited_agents:
            conn.execute(self._sql["lock_agents"], {"agents": array(sorted(load.limited_agents))})
        if load.budget_agent is not None:
            conn.execute(self._sql["lock_budgets"], {"agent": load.budget_agent, "pool": load.pool})

    def _attempt(
        self,
        conn: StatementConnection,
        load: Load,
        build: Build,
        ids: Sequence[ItemId],
        note: Note | None,
        rest: Rest | None,
    ) -> LedgerChanges:
        decision: LedgerChanges | None = None
        try:
            sent_us = since_boot_us()
            loaded = self._load(conn, load, ids, begin=True)
            if self._clock.stepped(loaded.now_us, loaded.offset_us, sent_us):
                raise _Stepped
            decision = self._decided(conn, load, build(ids), loaded)
            with self._database.pipeline(conn, chars=_chars(decision)):
                self._write(conn, decision, loaded)
                if rest is not None:
                    rest.send(conn, decision)
                else:
                    self.keep(conn, note, decision)
                    commit(conn)
        except BaseException as error:
            if isinstance(error, GONE) and conn.broken and decision is not None:
                raise _CommitUnsure(loaded, decision) from error
            roll_back(conn)
            raise
        return decision

    def decide(self, conn: StatementConnection, load: Load, command: Command) -> LedgerChanges:
        """Decide on one command inside the current transaction, which the caller commits."""
        loaded = self._load(conn, load, (), begin=False)
        decision = self._decided(conn, load, [command], loaded)
        with self._database.pipeline(conn, chars=_chars(decision)):
            self._write(conn, decision, loaded)
        return decision

    # -- loading ----------------------------------------------------------------------------------

    def _load(self, conn: StatementConnection, load: Load, ids: Sequence[ItemId], *, begin: bool) -> _Loaded:
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
            self._lock_limits(conn, load)
            if made:  # before any lock: two processes that create the same lane wait for each other
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
        after_wait = plans.lock_plans(partial(self._asking, conn), parts, load)
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
            questions=self._questions(conn, items),
            ended_runs=self._ended_runs(conn, load, items),
            modes=modes_from_rows(modes.fetchall()) if modes else (),
            plans={plan: part.whole() for plan, part in parts.plans.items()},
            **edit_facts(partial(self._asking, conn), load, parts),
        )
        now_us = self._database.given_now() or now_us
        return _Loaded(xid=xid, now_us=now_us, offset_us=offset_us, first_seq=first_seq, snapshot=snapshot)

    def _unread(
        self, conn: StatementConnection, items: Mapping[ItemId, Item], rows: Sequence[tuple[Any, ...]]
    ) -> dict[ItemId, tuple[Unread, ...]]:
        """The messages that matter if a run ends now. Without a locked lane, the statement that read them may
        have waited for their writer. Then it sees the item's new count, but not the messages."""
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

    def _held_back(
        self, conn: StatementConnection, items: Mapping[ItemId, Item], now_us: int
    ) -> frozenset[ItemId]:
        late = unclaimed(items, now_us)
        return (
            frozenset(row[0] for row in self._asking(conn, "held_back", items=late)) if late else frozenset()
        )

    def _questions(self, conn: StatementConnection, items: Mapping[ItemId, Item]) -> dict[ItemId, str]:
        live = [i for i, item in items.items() if item.asking_live]
        return questions_from_rows(self._asking(conn, "load_questions", items=live)) if live else {}

    def _presence(self, conn: StatementConnection, agents: Sequence[str]) -> dict[str, AgentPresence]:
        params = {"agents": array(agents), "now_us": self._database.given_now()}
        return presence_from_rows(conn.execute(self._sql["presence"], params, binary=True).fetchall())

    def _asking(self, conn: StatementConnection, name: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run a statement, with lists passed as arrays."""
        plain = {k: array(v) if isinstance(v, list) else v for k, v in params.items()}
        return conn.execute(self._sql[name], plain, binary=True).fetchall()

    def _parts(
        self, conn: StatementConnection, load: Load, lanes: Sequence[str], named: Sequence[ItemId]
    ) -> Parts:
        """Read the parts of locked plans that the commands may change."""
        found = [p for p in map(plan_of_lane, lanes) if p is not None]
        if not found:
            return Parts(plans={})
        ask: Ask = partial(self._asking, conn)
        if load.edit is not None and not {t.item for t in tasks_of_edit(ask, load.edit)} <= set(named):
            raise plans.KeyTaken
        return read_parts(ask, found, load)

    def _take_keys(
        self, conn: StatementConnection, load: Load, ids: Sequence[ItemId]
    ) -> dict[tuple[str, str], ItemId]:
        firsts: dict[tuple[str, str], ItemId] = {}
        for key, item in zip(load.keys, ids, strict=False):
            if key is not None:
                firsts.setdefault(key, item)
        wanted = sorted(firsts)  # a fixed order, so that two batches never wait for each other
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

    def _seen(self, conn: StatementConnection, seen_keys: Mapping[Any, ItemId]) -> dict[ItemId, Item]:
        """The first items of repeated dedupe keys. They are only named, never changed, so not locked."""
        rows = conn.execute(self._sql["load_seen"], {"items": array(list(seen_keys.values()))}, binary=True)
        return {i.id: i for i in map(item_from_row, rows.fetchall())}

    def _ended_runs(
        self, conn: StatementConnection, load: Load, items: Mapping[ItemId, Item]
    ) -> dict[RunId, RunRecord]:
        live = {i.state.run for i in items.values()}
        late = [r for r in load.runs if r not in live]
        if not late:
            return {}
        rows = conn.execute(self._sql["load_runs"], {"runs": array(late)})
        return {r.run: r for r in map(run_from_row, rows)}

    # -- deciding and writing ---------------------------------------------------------------------

    def _decided(
        self, conn: StatementConnection, load: Load, commands: Sequence[Command], loaded: _Loaded
    ) -> LedgerChanges:
        needed = loaded.snapshot.spare_ids(frozenset(load.items), loaded.now_us)
        spare: tuple[ItemId, ...] = ()
        if needed:
            spare = tuple(r[0] for r in conn.execute(self._sql["allocate"], {"count": needed}))
        return in_bulk(decide)(loaded.snapshot, commands, loaded.now_us, self._database.timing, spare)

    def _write(self, conn: StatementConnection, decision: LedgerChanges, loaded: _Loaded) -> None:
        """Send the decision. The index for one owner of a lane needs an order: items that leave an active
        state come before items that enter one."""
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
        write("set_walls", decision.quota_limits)
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
                recorded = (*columns(runs, _RUN_WIDTH), *columns(tallies, 4), *columns(events, EVENT_WIDTH))
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
    """The unread messages after the columns of the items."""
    found = {i: r[ITEM_WIDTH] for i, r in zip(items, rows, strict=True) if r[ITEM_WIDTH]}
    return {
        i: tuple(map(unread_message, messages))
        for i, messages in found.items()
        if items[i].has_unread or items[i].comes_back
    }


def _chars(decision: LedgerChanges) -> int:
    """The length of the callers' texts to write."""
    sizes = map(_payload_chars, decision.payloads), map(_message_chars, decision.messages)
    return sum(map(sum, (*sizes, map(_run_chars, decision.runs))))


def _tallies(
    decision: LedgerChanges, before: Mapping[ItemId, Item]
) -> list[tuple[str | None, str | None, int, int]]:
    """The number of items of a priority that move from one status to another; from none if new."""
    moves: Counter[tuple[str | None, str | None, int]] = Counter()
    for item in (*decision.settled, *decision.raised, *decision.born):
        was, status, priority = None, item.state.status, item.spec.priority
        if (old := before.get(item.id)) is not None:
            if old.spec.priority == priority:
                was = old.state.status
            else:
                moves[old.state.status, None, old.spec.priority] += 1
        if was is not status:
            moves[was, status, priority] += 1
    return [(*move, n) for move, n in moves.items()]


def only_row(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The single row of a statement that gives one."""
    row = cursor.fetchone()
    assert row is not None
    return row
