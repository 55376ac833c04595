"""What is only read from an SQLite store. Readers never wait for writers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from interlock.core.claiming import Agent
from interlock.core.model import Item, ItemId, Mode, ModeRule, RunRecord
from interlock.core.states import ItemStatus
from interlock.store import clock
from interlock.store.port import EventQuery, Figures, Finding, ItemQuery, LaneRow, StoredEvent, StoredMessage
from interlock.store.rows import (
    event_from_row,
    first_since,
    item_from_row,
    run_from_row,
    spans,
    stored_message,
)
from interlock.store.sqlite.database import SqliteDatabase
from interlock.store.statements import mending, promise


class SqliteReads(SqliteDatabase):
    """The reading half of the store."""

    @staticmethod
    def _item(row: Sequence[Any]) -> Item:
        if row[12] is not None:
            row = [*row[:12], json.loads(row[12]), *row[13:]]
        return item_from_row(row)

    def handle_key(self) -> bytes:
        if self._handle_key is None:
            self._handle_key = bytes.fromhex(self._rows("handle_key")[0][0])
        return self._handle_key

    def due(self, limit: int) -> list[ItemId]:
        return [r[0] for r in self._rows("due", {"now_us": self.now_us(), "limit": limit})]

    def stranded(self, limit: int) -> list[str]:
        return [r[0] for r in self._rows("stranded", {"limit": limit})]

    def item(self, item: ItemId) -> Item | None:
        return next(map(self._item, self._rows("item", (item,))), None)

    def items(self, query: ItemQuery) -> list[Item]:
        params = {
            "statuses": json.dumps(query.statuses) if query.statuses else None,
            "lane": query.lane,
            "agent": query.agent,
            "project": query.project,
            "type": query.type,
            "limit": query.limit,
        }
        return [self._item(r) for r in self._rows("items", params)]

    def payloads(self, items: Sequence[ItemId]) -> dict[ItemId, str]:
        return dict(self._rows("payloads", {"items": json.dumps(list(items))}))

    def messages(self, item: ItemId, after: int, limit: int) -> list[StoredMessage]:
        rows = self._rows("messages", {"item": item, "after": after, "limit": limit})
        return [stored_message(r) for r in rows]

    def runs(self, item: ItemId) -> list[RunRecord]:
        return [run_from_row(r) for r in self._rows("runs_of_item", (item,))]

    def events(self, query: EventQuery) -> list[StoredEvent]:
        params = {"after": query.after, "item": query.item, "lane": query.lane, "limit": query.limit}
        rows = self._rows("newest_events" if query.newest else "events", params)
        found = [StoredEvent(seq=r[0], event=event_from_row(r[1:])) for r in rows]
        return found[::-1] if query.newest else found

    def agent(self, key: str) -> Agent | None:
        return next(map(_agent, self._rows("agent", (key,))), None)

    def agents(self) -> list[Agent]:
        return [_agent(r) for r in self._rows("agents")]

    def lanes(self, prefix: str, limit: int) -> list[LaneRow]:
        rows = self._rows("lanes", {"prefix": prefix, "limit": limit})
        return [
            LaneRow(
                lane=lane,
                owner=self.item(owner) if owner is not None else None,
                waiting=waiting,
                line=tuple(json.loads(line)),
            )
            for lane, waiting, line, owner in rows
        ]

    def modes(self) -> tuple[ModeRule, ...]:
        return tuple(ModeRule(scope=s, value=v, mode=Mode(m)) for s, v, m in self._rows("modes"))

    def paused_projects(self) -> dict[str, str]:
        return dict(self._rows("paused_projects"))

    def ahead_of(self, item: Item) -> int:
        spec = item.spec
        if item.status is ItemStatus.DEFERRED:
            params: dict[str, Any] = {
                "lane": spec.lane,
                "front": item.state.front,
                "position": spec.position,
                "ticket": spec.ticket,
                "id": spec.id,
            }
            return int(self._rows("ahead_in_line", params)[0][0])
        params = {"agent": spec.agent_key, "sort_key": spec.sort_key}
        return int(self._rows("ahead_in_queue", params)[0][0])

    def figures(self, window_us: int) -> Figures:
        now_us = self.now_us()
        since = self._first_event_since(now_us - window_us)
        depth = self._rows("depth")
        return Figures(
            now_us=now_us,
            by_status=dict(self._rows("count_by_status")),
            depth_by_priority={priority: count for priority, count, _ in depth},
            oldest_pending_us=min((oldest for _, _, oldest in depth), default=None),
            counts={(kind, reason): n for kind, reason, n in self._rows("event_counts", (since,))},
            **spans(self._rows("event_spans", (since,))),
        )

    def _first_event_since(self, since_us: int) -> int:
        low, high = self._rows("event_bounds")[0]
        if low is None:
            return 0
        return first_since(low, high, since_us, lambda seq: self._rows("event_times", (seq,))[0])

    def findings(self) -> list[Finding]:
        found = []
        with self._guard():
            for name, text in self.sql.checks.items():
                params = {"now_us": self.now_us()} if ":now_us" in text else ()
                broken = tuple(str(r[0]) for r in self.db.execute(text, params))
                found.append(Finding(name=name, promise=promise(text), mend=mending(text), broken=broken))
            return [*found, *self._file_findings()]

    def _file_findings(self) -> list[Finding]:
        sound = [r[0] for r in self.db.execute("PRAGMA quick_check(10)") if r[0] != "ok"]
        loose = [f"{r[0]} row {r[1]}" for r in self.db.execute("PRAGMA foreign_key_check")]
        drift_s = (self.now_us() - clock.wall_us()) / 1e6
        drifted = abs(drift_s) > clock.DRIFT_WARN_US / 1e6
        return [
            Finding(
                name="file_is_sound",
                promise="The database file has no damage that SQLite can see.",
                mend="Restore a backup; `interlock migrate --after-restore` then skips used run numbers.",
                broken=(*sound, *loose),
            ),
            Finding(
                name="clock_agrees",
                promise="The store's clock is within a minute of the wall clock.",
                mend="Schedules follow the store's clock; it takes the wall clock's time at the next boot.",
                broken=(f"it is {drift_s:+.0f} s off",) if drifted else (),
            ),
        ]


def _agent(row: Sequence[Any]) -> Agent:
    running, pending = row[7:9] if len(row) > 7 else (0, 0)
    return Agent(
        key=row[0],
        name=row[1],
        max_concurrency=row[2],
        types=tuple(json.loads(row[3])),
        labels=tuple(json.loads(row[4])),
        paused_why=row[5],
        seen_us=row[6],
        running=running,
        pending=pending,
    )
