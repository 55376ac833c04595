"""The stores under test, each seen with the reference's numbers instead of its own.

A `Subject` runs a service on one store, learns which of its item and run numbers stand for which of the
reference, and gives everything it holds in the reference's words, so that both can be laid side by side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from interlock.core.model import UNPOSITIONED
from interlock.core.model import Item as StoredItem
from interlock.service.contract import LeaseView
from interlock.service.local import LocalService
from interlock.store.port import ItemQuery
from interlock.store.postgres.store import PostgresStore
from interlock.store.sqlite.store import SqliteStore
from tests.model.records import Item, Line
from tests.model.reference import Reference

#: Tables in an order in which their rows can be deleted.
TABLES = (
    "events",
    "runs",
    "messages",
    "payloads",
    "dedupe_keys",
    "completions",
    "revisions",
    "edges",
    "tasks",
    "items",
    "plans",
    "lanes",
    "agents",
    "pools",
    "paused_projects",
    "modes",
    "blocks",
    "tallies",
)
#: These depend on the test's clock and on a server that need not survive a crash.
NOT_COMPARED = frozenset({"clock_agrees", "writes_are_durable", "stalled_lanes"})

Rows = list[tuple[Any, ...]]


class Subject:
    """A service on one store, and the numbers under which the reference knows its items and runs."""

    def __init__(
        self,
        store: SqliteStore | PostgresStore,
        query: Callable[[str], Iterable[tuple[Any, ...]]],
        reset: Callable[[], None],
    ) -> None:
        self.name = store.database.backend
        self.quick = isinstance(store, SqliteStore)
        self.store = store
        self._query = query
        self._reset = reset
        self.restart()

    def restart(self) -> None:
        """An empty store and a service that remembers nothing."""
        self._reset()
        self.service = LocalService(self.store)
        self.item_ids: dict[int, int] = {}  # of the store, by the reference's
        self.items: dict[int, int] = {}  # the other way round
        self.runs: dict[int, int] = {}
        self.handles: dict[int, str] = {}  # by the reference's run
        self.last_seq = 0

    def rows(self, sql: str) -> Rows:
        return [tuple(row) for row in self._query(sql)]

    # -- numbers ----------------------------------------------------------------------------------

    def learn_items(self, reference: Reference) -> None:
        """Pair new rows with new items of the reference: by title, and in order where titles repeat."""
        if len(self.items) == len(reference.items):
            return  # whatever came to be unasked shows when everything is compared
        strangers = [
            r for r in self.rows("SELECT id, title FROM items ORDER BY id") if r[0] not in self.items
        ]
        unpaired = [i for i in reference.items.values() if i.id not in self.item_ids]
        assert sorted(r[1] for r in strangers) == sorted(i.title for i in unpaired), (
            "not the same items came to be"
        )
        for item_id, title in strangers:
            item = next(i for i in unpaired if i.title == title)
            unpaired.remove(item)
            self.item_ids[item.id] = item_id
            self.items[item_id] = item.id

    def learn_run(self, number: int, lease: LeaseView) -> None:
        assert lease.fence not in self.runs, f"run {lease.fence} was given out twice"
        self.runs[lease.fence] = number
        self.handles[number] = lease.run

    def _item(self, item_id: int | None) -> int | None:
        return None if item_id is None else self.items[item_id]

    def _run(self, run: int | None) -> int | None:
        return None if run is None else self.runs[run]

    # -- what the store holds ---------------------------------------------------------------------

    def stored(self) -> list[StoredItem]:
        """All items, in the order in which the reference numbers them."""
        found = self.store.items(ItemQuery(limit=10_000))
        return sorted(found, key=lambda i: self.items[i.id])

    def snapshot(self, stored: list[StoredItem], *, thorough: bool) -> dict[str, Any]:
        """Everything there is, in the reference's numbers. What takes long to ask a server, and follows from
        the rest or seldom changes, is left out there unless the look is to be a thorough one."""
        found: dict[str, Any] = {
            "items": {self.items[i.id]: self._facts(i) for i in stored},
            "lanes": {
                lane.lane: {
                    "mode": lane.mode,
                    "holder": self._item(lane.holder.item) if lane.holder else None,
                    "line": [self.items[i] for i in lane.line],
                    "waiting": lane.waiting,
                }
                for lane in self.service.lanes(limit=10_000)
            },
            "messages": {
                (self.items[item], n): (text, author, self.items[origin], at_us)
                for item, n, text, author, origin, at_us in self.rows(
                    "SELECT item, n, text, author, origin, at_us FROM messages"
                )
            },
            "runs": {
                self.runs[run]: (self.items[item], *rest)
                for run, item, *rest in self.rows(
                    "SELECT run, item, attempt, agent, worker, started_us, ended_us, status, reason FROM runs"
                )
            },
        }
        if thorough or self.quick:
            found["agents"] = {
                a.key: (a.name, a.max, a.types, a.labels, a.paused, a.running, a.pending)
                for a in self.service.agents()
            }
            found["complaints"] = self.complaints()
            found["keys"] = {
                (project, key): (self.items[item], expires_us)
                for project, key, item, expires_us in self.rows(
                    "SELECT project, key, item, expires_us FROM dedupe_keys"
                )
            }
        return found

    def complaints(self) -> set[str]:
        """What the doctor finds."""
        return {c.name for c in self.service.doctor() if not c.ok} - NOT_COMPARED

    def _facts(self, item: StoredItem) -> dict[str, Any]:
        spec, state = item.spec, item.state
        return {
            "title": spec.title,
            "project": spec.project,
            "type": spec.type,
            "agent": spec.agent_key,
            "policy": spec.policy,
            "priority": spec.priority,
            "position": None if spec.position == UNPOSITIONED else spec.position,
            "lane": spec.lane,
            "observed_lane": spec.observed_lane,
            "labels": spec.labels,
            "max_attempts": spec.max_attempts,
            "created_us": spec.created_us,
            "status": state.status,
            "attempt": state.attempt,
            "releases": state.releases,
            "deadline_us": state.due_us,
            "claim_by_us": state.claim_by_us,
            "run": self._run(state.run),
            "run_agent": state.run_agent,
            "run_worker": state.run_worker,
            "run_started_us": state.run_started_us,
            "lease_until_us": state.lease_until_us,
            "revoke_us": state.revoke_us,
            "cancel_into": state.cancel_into,
            "cancel_why": state.cancel_why,
            "absorbed_by": self._item(state.absorbed_by),
            "messages": state.message_count,
            "first_claimed_us": state.first_claimed_us,
            "ended_us": state.ended_us,
            "reason": state.reason,
            "gated": state.gated,
        }

    def news(self) -> list[tuple[Any, ...]]:
        """Lines of history since the last look, with all their details. Their order within one look is left
        open: a claim of several items has none."""
        rows = self.rows(
            "SELECT seq, at_us, kind, reason, project, item, run, lane, agent, span_us, data FROM events"
            f" WHERE seq > {self.last_seq} ORDER BY seq"
        )
        self.last_seq = rows[-1][0] if rows else self.last_seq
        return sorted((self._news(row[1:]) for row in rows), key=repr)

    def _news(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        at_us, kind, reason, project, item, run, lane, agent, span_us, data = row
        told = json.loads(data) if data else {}
        for name, value in told.items():
            if name.endswith("_item") or name == "to_item":
                told[name] = self._item(value)
            elif name in ("from_run", "holder_run", "promoted_from"):
                told[name] = self._run(value)
        return kind, reason, self._item(item), self._run(run), project, lane, agent, at_us, span_us, told

    @staticmethod
    def line_of(news: tuple[Any, ...]) -> Line:
        kind, reason, item, run = news[:4]
        return Line(kind, reason, item or 0, run or 0, news[-1].get("promoted_from") or 0)


def expected(reference: Reference) -> dict[str, Any]:
    """What `Subject.snapshot` must give."""
    items = reference.items.values()
    return {
        "items": {i.id: {**_expected_facts(i), "gated": reference.gated(i)} for i in items},
        "lanes": {lane: _expected_lane(reference, lane) for lane in reference.lanes()},
        "messages": {
            (i.id, n): (m.text, m.author, m.origin, m.at_us) for i in items for n, m in reference.numbered(i)
        },
        "runs": {
            r.number: (r.item, r.attempt, r.agent, r.worker, r.started_us, r.ended_us, r.status, r.reason)
            for r in reference.runs.values()
            if r.ended_us is not None
        },
        "agents": {
            key: (
                a.name,
                a.max,
                a.types,
                a.labels,
                a.paused,
                reference.running(key),
                sum(
                    i.status == "pending" and i.wakes_us is None and i.agent == key and not reference.gated(i)
                    for i in items
                ),
            )
            for key, a in reference.agents.items()
        },
        "complaints": reference.complaints(),
        "keys": reference.keys,
    }


def _expected_lane(reference: Reference, lane: str) -> dict[str, Any]:
    owner = reference.owner(lane)
    line = [i.id for i in reference.line(lane)]
    return {
        "mode": reference.mode(owner.new.project if owner else "", lane),
        "holder": owner.id if owner else None,
        "line": line[:20],
        "waiting": len(line),
    }


def _expected_facts(item: Item) -> dict[str, Any]:
    new, run = item.new, item.run
    return {
        "title": item.title,
        "project": new.project,
        "type": new.type,
        "agent": item.agent,
        "policy": new.policy,
        "priority": new.priority,
        "position": new.position,
        "lane": item.lane,
        "observed_lane": item.observed_lane,
        "labels": new.labels,
        "max_attempts": item.max_attempts,
        "created_us": item.created_us,
        "status": item.status,
        "attempt": item.attempt,
        "releases": item.releases,
        "deadline_us": item.deadline_us,
        "claim_by_us": item.claim_by_us,
        "run": run.number if run else None,
        "run_agent": run.agent if run else None,
        "run_worker": run.worker if run else None,
        "run_started_us": run.started_us if run else None,
        "lease_until_us": run.lease_until_us if run else None,
        "revoke_us": run.revoke_us if run else None,
        "cancel_into": run.cancel_into if run else None,
        "cancel_why": run.cancel_why if run else item.cancel_why,
        "absorbed_by": item.absorbed_by,
        "messages": len(item.messages),
        "first_claimed_us": item.first_claimed_us,
        "ended_us": item.ended_us,
        "reason": item.reason,
    }


@dataclass
class Difference:
    path: str
    wanted: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.path}: the reference has {self.wanted!r}, the store {self.found!r}"


def differences(wanted: Any, found: Any, path: str = "") -> list[Difference]:
    """Where two nested values differ, named by their keys, so that a failure is read at a glance."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = [*wanted, *(k for k in found if k not in wanted)]
        nothing = object()
        return [
            d
            for k in keys
            if wanted.get(k, nothing) != found.get(k, nothing)
            for d in differences(wanted.get(k), found.get(k), f"{path}.{k}" if path else str(k))
        ]
    return [] if wanted == found else [Difference(path, wanted, found)]


def sqlite_subject(store: SqliteStore) -> Subject:
    store.database.db.pragma("synchronous", "off")  # no test here pulls the plug

    def reset() -> None:
        with store.database.write():
            for table in TABLES:
                store.database.db.execute(f"DELETE FROM {table}")
            store.database.db.execute("UPDATE numbers SET value = 0")

    return Subject(store, store.database.db.execute, reset)


def postgres_subject(store: PostgresStore, connection: psycopg.Connection[Any]) -> Subject:
    connection.execute("SET search_path = interlock")

    def reset() -> None:
        connection.execute(";".join(f"DELETE FROM {table}" for table in ("gates", *TABLES, "tally_changes")))

    return Subject(store, lambda sql: connection.execute(sql.encode()), reset)
