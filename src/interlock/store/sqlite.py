"""The embedded store: one SQLite file, many processes of one host.

Promises kept here: every write is one `BEGIN IMMEDIATE` transaction with `synchronous=FULL`, so a
fence that was given out survives a power loss; readers never wait. Order comes from tickets, not from
who wins the write lock: SQLite's lock is a race, not a queue. Not promised: network file systems.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from interlock.core.claiming import Agent, Claim, narrowed, with_room
from interlock.core.commands import Arrive, Overtake, Tell
from interlock.core.decide import decide
from interlock.core.errors import SchemaMismatch, StoreBusy, StoreUnavailable
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import Event, EventKind, Item, ItemId, Mode, ModeRule, Reason, RunId, RunRecord
from interlock.core.timing import DEDUPE_KEPT_S, Timing, to_us
from interlock.store import clock
from interlock.store.migrate import Applied, Migration, prepare, rows_to_applied
from interlock.store.port import Build, Claimed, Load, Look, Renewal
from interlock.store.rows import event_row, item_row, run_from_row, state_row
from interlock.store.sqlite_reads import SqliteReads
from interlock.store.statements import Statements

BUSY_TIMEOUT_S = 30.0
WATCH_INTERVAL_S = 0.005
_APPLICATION_ID = 0x494C4F43  # "ILOC", so that a foreign database is not mistaken for ours


class SqliteStore(SqliteReads):
    """A store on one SQLite file. Safe to share between threads; each gets its own connection."""

    backend = "sqlite"

    def __init__(
        self,
        path: str | Path,
        *,
        timing: Timing | None = None,
        now: Callable[[], int] | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        migrate: bool = True,
    ) -> None:
        self.path = Path(path)
        self.timing = timing or Timing()
        self.sql = Statements("sqlite")
        self._busy_timeout_s = busy_timeout_s
        self._local = threading.local()
        self._clock = now
        self._handle_key: bytes | None = None
        if migrate:
            prepare(self)

    # -- connections and transactions -------------------------------------------------------------

    @property
    def db(self) -> apsw.Connection:
        """This thread's connection; a forked child opens its own."""
        local = self._local
        if getattr(local, "pid", None) != os.getpid():
            with self._guard():
                local.db = self._open()
            local.pid = os.getpid()
        connection: apsw.Connection = local.db
        return connection

    def _open(self) -> apsw.Connection:
        db = apsw.Connection(str(self.path))
        deadline_s = self._busy_timeout_s

        def wait_a_little(tries: int) -> bool:
            # Short waits with jitter: SQLite's own steps grow to 100 ms and starve whoever waited longest.
            pause_s = random.uniform(0.0002, 0.002)  # noqa: S311
            if tries * 0.0011 > deadline_s:
                return False
            time.sleep(pause_s)
            return True

        db.set_busy_handler(wait_a_little)
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        db.pragma("foreign_keys", True)
        db.pragma("temp_store", "memory")
        db.pragma("cache_size", -16_000)
        return db

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Say in one sentence what the database refused."""
        try:
            yield
        except apsw.BusyError:
            raise StoreBusy(
                f"Another process kept {self.path.name} locked for more than {self._busy_timeout_s:g} s.",
                "Look for a stopped process that uses it (`fuser`), or try again.",
            ) from None
        except apsw.ReadOnlyError:
            raise StoreUnavailable(
                f"The database {self.path} is read-only.", "Make the file and its directory writable."
            ) from None
        except apsw.FullError:
            raise StoreUnavailable(
                f"No space is left for the database {self.path}.", "Free some space; nothing was changed."
            ) from None
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreUnavailable(
                f"{self.path} is not a sound SQLite database ({error}).",
                "Name another file, or restore a backup.",
            ) from None
        except (apsw.CantOpenError, apsw.IOError) as error:
            raise StoreUnavailable(
                f"The database {self.path} cannot be opened ({error}).",
                "Does the directory exist, and may you write to it?",
            ) from None

    @contextmanager
    def _write(self) -> Iterator[apsw.Connection]:
        """One transaction that has the write lock from its first statement."""
        db = self.db
        with self._guard():
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        if getattr(self._local, "pid", None) == os.getpid():
            self._local.db.close()
            self._local.pid = None

    # -- schema -----------------------------------------------------------------------------------

    def applied(self) -> list[Applied]:
        with self._guard():
            ours = self.db.pragma("application_id") == _APPLICATION_ID
            empty = self.db.execute("SELECT count(*) FROM sqlite_schema").get == 0
            if not ours and not empty:
                raise SchemaMismatch(
                    f"{self.path} is a database, but not one of Interlock's.", "Name another file."
                )
            if empty:
                return []
            rows = self.db.execute("SELECT version, name, checksum FROM migrations ORDER BY version")
            return rows_to_applied(list(rows))

    def exclusively(self, work: Callable[[], int]) -> int:
        with self._write():
            return work()

    def apply(self, migration: Migration, handle_key: str) -> None:
        db = self.db
        db.pragma("application_id", _APPLICATION_ID)
        db.execute(
            "CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL,"
            " checksum TEXT NOT NULL, applied_us INTEGER NOT NULL) STRICT"
        )
        db.execute(migration.text)
        if migration.version == 1:
            db.execute("INSERT INTO meta (name, value) VALUES ('handle_key', ?)", (handle_key,))
        db.execute(
            "INSERT INTO migrations (version, name, checksum, applied_us) VALUES (?, ?, ?, ?)",
            (migration.version, migration.name, migration.checksum, clock.wall_us()),
        )

    def advance_runs(self, count: int) -> int:
        """Skip run numbers after a restore, so that none given out since the backup comes again."""
        with self._write() as db:
            number: int = db.execute(self.sql["reserve"], {"name": "run", "count": count}).get
            return number

    # -- time and numbers -------------------------------------------------------------------------

    def now_us(self) -> int:
        if self._clock is None:
            self._clock = clock.anchored(self._anchor())
        return self._clock()

    def _anchor(self) -> str:
        with self._guard():
            stored = self.db.execute("SELECT value FROM meta WHERE name = 'clock_anchor'").get
        if clock.anchor(stored, 0) == stored:
            return str(stored)
        with self._write_or_join() as db:
            stored = db.execute("SELECT value FROM meta WHERE name = 'clock_anchor'").get
            last_us = db.execute("SELECT max(at_us) FROM (SELECT at_us FROM events ORDER BY seq DESC LIMIT 1)").get
            text = clock.anchor(stored, last_us or 0)
            db.execute(
                "INSERT INTO meta (name, value) VALUES ('clock_anchor', ?)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (text,),
            )
        return text

    @contextmanager
    def _write_or_join(self) -> Iterator[apsw.Connection]:
        if self.db.in_transaction:
            yield self.db
        else:
            with self._write() as db:
                yield db

    def tickets(self, count: int) -> list[int]:
        """Taken before the write lock is waited for, so that order of arrival is not order of luck."""
        with self._guard():
            used: int = self.db.execute(self.sql["read_ticket"]).get
        first = max(self.now_us(), used + 1)
        return list(range(first, first + count))

    def _reserve(self, db: apsw.Connection, name: str, count: int) -> list[Any]:
        if not count:
            return []
        last: int = db.execute(self.sql["reserve"], {"name": name, "count": count}).get
        return list(range(last - count + 1, last + 1))

    # -- deciding ---------------------------------------------------------------------------------

    def transact(self, load: Load, build: Build) -> Decision:
        with self._write() as db:
            return self._decide(db, load, build)

    def _decide(self, db: apsw.Connection, load: Load, build: Build) -> Decision:
        now_us = self.now_us()
        ids = self._reserve(db, "item", load.arrivals)
        seen_keys = self._take_keys(db, load, ids, now_us)
        snapshot = self._load(db, load, seen_keys)
        talkers = sum(1 for i in load.items if i in snapshot.unread)
        commands = build(ids)
        spare = tuple(self._reserve(db, "item", talkers))
        decision = decide(snapshot, commands, now_us, self.timing, spare)
        self._apply(db, decision)
        tickets = [c.ticket for c in commands if isinstance(c, Arrive | Tell)]
        if tickets:
            db.execute(self.sql["raise_ticket"], {"ticket": max(tickets)})
        return decision

    def _take_keys(
        self, db: apsw.Connection, load: Load, ids: Sequence[ItemId], now_us: int
    ) -> dict[tuple[str, str], ItemId]:
        seen: dict[tuple[str, str], ItemId] = {}
        mine: set[ItemId] = set()
        for key, item in zip(load.keys, ids, strict=False):
            if key is None:
                continue
            params = {"project": key[0], "key": key[1], "item": item, "now_us": now_us}
            params["expires_us"] = now_us + to_us(DEDUPE_KEPT_S)
            first: ItemId = db.execute(self.sql["take_key"], params).get
            mine.add(item)
            if first not in mine:
                seen[key] = first
        return seen

    def _load(
        self, db: apsw.Connection, load: Load, seen_keys: dict[tuple[str, str], ItemId]
    ) -> Snapshot:
        sql = self.sql
        targets = json.dumps([*load.items, *seen_keys.values()])
        if load.lanes:
            db.execute(sql["add_lanes"], {"lanes": json.dumps(load.lanes)})
        stand_on = [r[0] for r in db.execute(sql["lanes_of_items"], {"items": json.dumps(load.items)})]
        lanes = sorted({*load.lanes, *stand_on})
        heads = max(Counter(stand_on).values(), default=1)
        names = json.dumps(lanes)
        rows = db.execute(sql["load_items"], {"items": targets, "lanes": names, "heads": heads})
        items = {i.id: i for i in map(self._item, rows)}
        lines: dict[str, tuple[int, tuple[int, ...]]] = {}
        if load.lanes:
            for lane, count, positions in db.execute(sql["load_lines"], {"lanes": names}):
                lines[lane] = (count, tuple(json.loads(positions or "[]")))
        return Snapshot(
            items=items,
            lines=lines,
            unread=self._unread(db, items),
            seen_keys=seen_keys,
            ended_runs=self._ended_runs(db, load, items),
            modes=self.modes() if load.lanes else (),
        )

    def _unread(
        self, db: apsw.Connection, items: dict[ItemId, Item]
    ) -> dict[ItemId, tuple[tuple[int, int], ...]]:
        talked_to = [i.id for i in items.values() if i.state.run and i.state.message_count > i.state.delivered]
        unread: dict[ItemId, tuple[tuple[int, int], ...]] = {}
        if talked_to:
            for item, n, ticket in db.execute(self.sql["load_unread"], {"items": json.dumps(talked_to)}):
                unread[item] = (*unread.get(item, ()), (n, ticket))
        return unread

    def _ended_runs(
        self, db: apsw.Connection, load: Load, items: dict[ItemId, Item]
    ) -> dict[RunId, RunRecord]:
        live = {i.state.run for i in items.values()}
        late = [r for r in load.runs if r not in live]
        if not late:
            return {}
        rows = db.execute(self.sql["load_runs"], {"runs": json.dumps(late)})
        return {r.run: r for r in map(run_from_row, rows)}

    def _apply(self, db: apsw.Connection, decision: Decision) -> None:
        messages = [(m.item, m.n, m.ticket, m.text, m.author, m.origin, m.at_us) for m in decision.messages]

        def write(name: str, rows: Sequence[Sequence[Any]]) -> None:
            if rows:
                db.executemany(self.sql[name], rows)

        write("update_item", [state_row(i) for i in decision.settled])
        write("insert_item", [item_row(i, _labels(i.spec.labels)) for i in decision.born])
        write("update_item", [state_row(i) for i in decision.raised])
        write("insert_payload", decision.payloads)
        write("copy_payload", decision.payload_copies)
        write("move_messages", [(m.source, m.target, m.after, m.shift) for m in decision.moves])
        write("insert_message", messages)
        write("insert_run", decision.runs)
        write("insert_event", [event_row(e) for e in decision.events])
        write("drop_key", decision.forgotten_keys)

    # -- claiming ---------------------------------------------------------------------------------

    def look(self, agent: str) -> Look:
        return Look(self.agent(agent), bool(self.due(1)))

    def claim(self, wish: Claim, agent: Agent | None) -> list[Claimed]:
        allowed = narrowed(wish, agent)
        if allowed is None or not self._has_ready(allowed):
            return []
        with self._write() as db:
            return self._claim(db, wish, None)

    def _claim(self, db: apsw.Connection, wish: Claim, only: ItemId | None) -> list[Claimed]:
        agent = self.agent(wish.agent)
        allowed = narrowed(wish, agent)
        if allowed is not None and agent is not None and agent.max_concurrency is not None:
            running: int = db.execute(self.sql["count_running"], (wish.agent,)).get
            allowed = with_room(allowed, agent, running)
        if allowed is None:
            return []
        now_us = self.now_us()
        params = {
            **_filter(allowed),
            "only": only,
            "limit": allowed.limit,
            "worker": allowed.worker,
            "lease_s": allowed.lease_s,
            "default_lease_s": self.timing.lease_s,
            "now_us": now_us,
            "first_run": db.execute("SELECT value + 1 FROM counters WHERE name = 'run'").get,
        }
        items = sorted(map(self._item, db.execute(self.sql["claim"], params)), key=lambda i: i.state.run or 0)
        if not items:
            return []
        db.execute(self.sql["reserve"], {"name": "run", "count": len(items)})
        db.executemany(self.sql["insert_event"], [event_row(_started(i, now_us)) for i in items])
        payloads = self.payloads([i.id for i in items])
        return [Claimed(i, payloads.get(i.id)) for i in items]

    def overtake(self, wish: Claim, agent: Agent | None) -> list[Claimed]:
        allowed = narrowed(wish, agent)
        if allowed is None or not self._overtakable(allowed):
            return []
        started: list[Claimed] = []
        with self._write() as db:
            for item, owner in self._overtakable(allowed):
                if not self._room(db, wish, len(started)):
                    break
                command = Overtake(item=item, owner=owner)
                decision = self._decide(db, Load(items=(item, owner)), lambda _, c=command: [c])  # type: ignore[misc]
                if decision.answers[0].changed:
                    started += self._claim(db, wish, item)
        return started

    def _room(self, db: apsw.Connection, wish: Claim, started: int) -> bool:
        running: int = db.execute(self.sql["count_running"], (wish.agent,)).get
        return started < wish.limit and with_room(wish, self.agent(wish.agent), running) is not None

    def _overtakable(self, wish: Claim) -> list[tuple[ItemId, ItemId]]:
        return list(self.db.execute(self.sql["overtakable"], {**_filter(wish), "limit": wish.limit}))

    def _has_ready(self, wish: Claim) -> bool:
        params = {k: v for k, v in _filter(wish).items() if k != "labels"}
        with self._guard():
            return bool(self.db.execute(self.sql["has_ready"], params).get)

    # -- keeping ----------------------------------------------------------------------------------

    def renew(self, wishes: Sequence[Renewal]) -> dict[RunId, Item]:
        kept: dict[RunId, Item] = {}
        with self._write() as db:
            now_us = self.now_us()
            for wish in wishes:
                params = {"now_us": now_us, "seen": wish.seen, "item": wish.item, "run": wish.run}
                for row in db.execute(self.sql["renew"], params):
                    kept[wish.run] = self._item(row)
        return kept

    def refuse(self, wishes: Sequence[Renewal], wanted: str) -> dict[RunId, RunRecord]:
        with self._write() as db:
            now_us = self.now_us()
            events = [_refused(w, wanted, now_us) for w in wishes]
            db.executemany(self.sql["insert_event"], [event_row(e) for e in events])
            rows = db.execute(self.sql["load_runs"], {"runs": json.dumps([w.run for w in wishes])})
            return {r.run: r for r in map(run_from_row, rows)}

    def see_agent(self, key: str, name: str) -> None:
        with self._write() as db:
            db.execute(self.sql["see_agent"], {"key": key, "name": name, "now_us": self.now_us()})

    def set_agent(self, agent: Agent, event: Event) -> None:
        params = {
            "key": agent.key,
            "name": agent.name,
            "max_concurrency": agent.max_concurrency,
            "types": json.dumps(agent.types),
            "labels": json.dumps(agent.labels),
            "paused_why": agent.paused_why,
        }
        with self._write() as db:
            db.execute(self.sql["set_agent"], params)
            db.execute(self.sql["insert_event"], event_row(event))

    def pause_project(self, project: str, why: str | None, event: Event) -> None:
        with self._write() as db:
            if why is None:
                db.execute(self.sql["resume_project"], (project,))
            else:
                db.execute(self.sql["pause_project"], (project, why))
            db.execute(self.sql["insert_event"], event_row(event))

    def set_mode(self, rule: ModeRule, event: Event) -> None:
        with self._write() as db:
            db.execute(self.sql["set_mode"], (rule.scope, rule.value, Mode(rule.mode).value))
            db.execute(self.sql["insert_event"], event_row(event))

    def forget_keys(self, limit: int) -> int:
        with self._write() as db:
            db.execute(self.sql["forget_keys"], {"now_us": self.now_us(), "limit": limit})
            return db.changes()

    # -- waiting ----------------------------------------------------------------------------------

    def wait_for_work(self, wish: Claim, timeout_s: float) -> bool:
        """Watch the file's change counter, which costs microseconds, and look only when it moved."""
        deadline_s = time.monotonic() + timeout_s
        version = None
        while True:
            with self._guard():
                seen = self.db.pragma("data_version")
            if seen != version:
                version = seen
                if self._has_ready(wish):
                    return True
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(WATCH_INTERVAL_S, left_s))


def _filter(wish: Claim) -> dict[str, Any]:
    return {
        "agent": wish.agent,
        "types": json.dumps(wish.types) if wish.types else None,
        "labels": json.dumps(wish.labels),
    }


def _labels(labels: Sequence[str]) -> str | None:
    return json.dumps(labels) if labels else None


def _started(item: Item, now_us: int) -> Event:
    first = item.state.first_claimed_us == now_us
    return Event(
        kind=EventKind.RUN_STARTED,
        at_us=now_us,
        project=item.spec.project,
        item=item.id,
        run=item.state.run,
        lane=item.spec.lock_lane,
        agent=item.state.run_agent,
        span_us=now_us - item.spec.created_us if first else None,
        data={"promoted_from": item.state.promoted_from},
    )


def _refused(wish: Renewal, wanted: str, now_us: int) -> Event:
    return Event(
        kind=EventKind.RUN_REFUSED,
        at_us=now_us,
        reason=Reason.LEASE_LOST,
        item=wish.item,
        run=wish.run,
        data={"wanted": wanted},
    )
