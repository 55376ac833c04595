"""The embedded store: one SQLite file, many processes of one host.

Order comes from tickets, not from who wins the write lock: SQLite's lock is a race, not a queue.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw

from interlock.core.claiming import Agent, Claim, has_room, narrowed, with_room
from interlock.core.commands import Arrive, Overtake, Tell
from interlock.core.decide import decide
from interlock.core.ledger import Decision, Snapshot
from interlock.core.model import Event, EventKind, Item, ItemId, Mode, ModeRule, Reason, RunId, RunRecord
from interlock.core.plans.commands import CreatePlan, EditPlan
from interlock.core.plans.model import plan_lane, plan_of_lane
from interlock.core.timing import DEDUPE_KEPT_S, to_us
from interlock.store.plan_parts import Ask, Parts, read_parts, tasks_of_edit
from interlock.store.port import Build, Claimed, Load, Look, Renewal
from interlock.store.rows import event_row, item_row, run_from_row, state_row
from interlock.store.sqlite.plans import SqlitePlans

WATCH_INTERVAL_S = 0.005


class SqliteStore(SqlitePlans):
    """A store on one SQLite file."""

    # -- deciding ---------------------------------------------------------------------------------

    def transact(self, load: Load, build: Build) -> Decision:
        with self._write() as db:
            return self._decide(db, load, build)

    def _decide(self, db: apsw.Connection, load: Load, build: Build) -> Decision:
        now_us = self.now_us()
        ids = self._reserve(db, "item", load.arrivals)
        seen_keys = self._take_keys(db, load, ids, now_us)
        snapshot = self._load(db, load, seen_keys)
        needed = snapshot.spare_ids(frozenset(load.items), now_us)
        commands = build(ids)
        spare = tuple(self._reserve(db, "item", needed))
        decision = decide(snapshot, commands, now_us, self.timing, spare)
        self._apply(db, decision)
        tickets = [c.ticket for c in commands if isinstance(c, Arrive | Tell)]
        tickets += [t for c in commands if isinstance(c, CreatePlan | EditPlan) for t in c.tickets]
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

    def _load(self, db: apsw.Connection, load: Load, seen_keys: dict[tuple[str, str], ItemId]) -> Snapshot:
        sql = self.sql
        ask: Ask = partial(self._asking, db)
        named = list(load.items)
        if load.edit is not None:
            named += [t.item for t in tasks_of_edit(ask, load.edit)]
        if load.lanes:
            db.execute(sql["add_lanes"], {"lanes": json.dumps(load.lanes)})
        stand_on = [r[0] for r in ask("lanes_of_items", items=named)]
        lanes = sorted({*load.lanes, *stand_on, *map(plan_lane, load.plans)})
        plans = [p for p in map(plan_of_lane, lanes) if p is not None]
        parts = read_parts(ask, plans, load) if plans else Parts({})
        heads = max(Counter(stand_on).values(), default=1)
        targets = [*named, *seen_keys.values(), *parts.items]
        rows = ask("load_items", items=targets, lanes=lanes, heads=heads)
        items = {i.id: i for i in map(self._item, rows)}
        lines: dict[str, tuple[int, tuple[int, ...]]] = {}
        if load.lanes:
            for lane, count, positions in ask("load_lines", lanes=lanes):
                lines[lane] = (count, tuple(json.loads(positions or "[]")))
        return Snapshot(
            items=items,
            lines=lines,
            unread=self._unread(db, items),
            seen_keys=seen_keys,
            ended_runs=self._ended_runs(db, load, items),
            modes=self.modes() if load.lanes else (),
            plans={plan: part.whole() for plan, part in parts.plans.items()},
            **self._edit_facts(db, load, parts),
        )

    def _unread(
        self, db: apsw.Connection, items: dict[ItemId, Item]
    ) -> dict[ItemId, tuple[tuple[int, int], ...]]:
        talked_to = [i.id for i in items.values() if i.has_unread or (i.comes_back and i.state.message_count)]
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

        if decision.plans or decision.lanes:
            self._write_new_plans(db, decision)
        write("update_item", [state_row(i) for i in decision.settled])
        write("insert_item", [item_row(i, _labels(i.spec.labels)) for i in decision.born])
        write("update_item", [state_row(i) for i in decision.raised])
        write("insert_payload", decision.payloads)
        write("copy_payload", decision.payload_copies)
        write("move_messages", decision.moves)
        write("insert_message", messages)
        write("insert_run", decision.runs)
        write("insert_event", [event_row(e) for e in decision.events])
        write("drop_key", decision.forgotten_keys)
        write("pass_key", decision.passed_keys)
        if decision.plans:
            self._write_plans(db, decision)

    # -- claiming ---------------------------------------------------------------------------------

    def look(self, agent: str) -> Look:
        shut = bool(self._rows("maybe_shut", (agent,))[0][0])
        return Look(self.agent(agent), bool(self.due(1)), shut)

    def look_and_claim(self, wish: Claim) -> tuple[Look, list[Claimed]]:
        """Claim unless something is due."""
        look = self.look(wish.agent)
        return look, [] if look.due else self.claim(wish, look.agent)

    def claim(self, wish: Claim, agent: Agent | None) -> list[Claimed]:
        allowed = narrowed(wish, agent)
        if allowed is None or not self._has_ready(allowed):
            return []
        with self._write() as db:
            return self._claim(db, wish, wish.item)

    def _claim(self, db: apsw.Connection, wish: Claim, only: ItemId | None) -> list[Claimed]:
        agent = self.agent(wish.agent)
        allowed = narrowed(wish, agent)
        if allowed is not None and agent is not None and agent.max_concurrency is not None:
            allowed = with_room(allowed, agent, *self._running(db, wish.agent))
        if allowed is None:
            return []
        now_us = self.now_us()
        params = {
            **_filter(allowed),
            "only": only,
            "edits": allowed.edits,
            "limit": allowed.limit,
            "worker": allowed.worker,
            "lease_s": allowed.lease_s,
            "default_lease_s": self.timing.lease_s,
            "now_us": now_us,
            "first_run": db.execute(self.sql["next_run"]).get,
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
                started += self._overtake(db, wish, item, owner)
        return started

    def _overtake(self, db: apsw.Connection, wish: Claim, item: ItemId, owner: ItemId) -> list[Claimed]:
        command = Overtake(item=item, owner=owner)
        decision = self._decide(db, Load(items=(item, owner)), lambda _: [command])
        return self._claim(db, wish, item) if decision.answers[0].changed else []

    def _room(self, db: apsw.Connection, wish: Claim, started: int) -> bool:
        return started < wish.limit and has_room(self.agent(wish.agent), *self._running(db, wish.agent))

    def _running(self, db: apsw.Connection, agent: str) -> tuple[int, int]:
        """How many runs an agent has that are no edits of plans, and how many that are."""
        running, editing = db.execute(self.sql["count_running"], (agent,)).get
        return running, editing

    def _overtakable(self, wish: Claim) -> list[tuple[ItemId, ItemId]]:
        return self._rows("overtakable", {**_filter(wish), "only": wish.item, "limit": wish.limit})

    def _has_ready(self, wish: Claim) -> bool:
        params = {k: v for k, v in _filter(wish).items() if k != "labels"}
        name = "has_ready"
        if wish.item is not None:
            name, params["item"] = "is_ready", wish.item
        with self._guard():
            return bool(self.db.execute(self.sql[name], params).get)

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
