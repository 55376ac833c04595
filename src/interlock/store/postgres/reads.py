"""What is only read from a PostgreSQL store, and the connection it is read through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core.claiming import Agent
from interlock.core.model import Item, ItemId, Mode, ModeRule, RunRecord
from interlock.core.states import ItemStatus
from interlock.store.port import EventQuery, Figures, Finding, ItemQuery, LaneRow, StoredEvent, StoredMessage
from interlock.store.postgres.database import Connection, PostgresDatabase, only
from interlock.store.rows import (
    array,
    event_from_row,
    first_since,
    item_from_row,
    run_from_row,
    spans,
    stored_message,
)
from interlock.store.statements import mending, promise


class PostgresReads(PostgresDatabase):
    """The reading half of the store."""

    def now_us(self) -> int:
        return self._now() if self._now else int(self._rows("now")[0][0])

    def handle_key(self) -> bytes:
        if self._handle_key is None:
            with self._guard(), self._connection() as conn:
                self._handle_key = bytes.fromhex(self._meta_values(conn)["handle_key"])
        return self._handle_key

    def _event_base(self, conn: Connection) -> int:
        return int(self._meta_values(conn).get("event_base", 0))

    def _meta_values(self, conn: Connection) -> dict[str, str]:
        """Read once, on the caller's connection: to wait for a second one while holding locks would be a
        deadlock that the database cannot see."""
        if self._meta is None:
            self._meta = {str(k): str(v) for k, v in conn.execute(self.sql["meta"]).fetchall()}
        return self._meta

    def due(self, limit: int) -> list[ItemId]:
        now_us = self._now() if self._now else None
        return [r[0] for r in self._rows("due", now_us=now_us, limit=limit)]

    def stranded(self, limit: int) -> list[str]:
        return [r[0] for r in self._rows("stranded", limit=limit)]

    def item(self, item: ItemId) -> Item | None:
        return next(map(item_from_row, self._rows("item", item=item)), None)

    def items(self, query: ItemQuery) -> list[Item]:
        rows = self._rows(
            "items",
            statuses=list(query.statuses) or None,
            lane=query.lane,
            agent=query.agent,
            project=query.project,
            type=query.type,
            limit=query.limit,
        )
        return [item_from_row(r) for r in rows]

    def payloads(self, items: Sequence[ItemId]) -> dict[ItemId, str]:
        return {r[0]: r[1] for r in self._rows("payloads", items=array(items))}

    def messages(self, item: ItemId, after: int, limit: int) -> list[StoredMessage]:
        return [stored_message(r) for r in self._rows("messages", item=item, after=after, limit=limit)]

    def runs(self, item: ItemId) -> list[RunRecord]:
        return [run_from_row(r) for r in self._rows("runs_of_item", item=item)]

    def events(self, query: EventQuery) -> list[StoredEvent]:
        with self._guard(), self._connection() as conn:
            params = {
                "after": query.after,
                "item": query.item,
                "lane": query.lane,
                "limit": query.limit,
                "horizon": self._horizon(conn),
            }
            name = "newest_events" if query.newest else "events"
            rows = conn.execute(self.sql[name], params, binary=True).fetchall()
        found = [StoredEvent(seq=r[0], event=event_from_row(r[1:])) for r in rows]
        return found[::-1] if query.newest else found

    def _horizon(self, conn: Connection) -> int:
        """Asked in a statement of its own: what it promises holds for statements that begin later."""
        return int(only(conn.execute(self.sql["horizon"], {"event_base": self._event_base(conn)}).fetchone()))

    def agent(self, key: str) -> Agent | None:
        with self._guard(), self._connection() as conn:
            return self._agent(conn, key)

    def _agent(self, conn: Connection, key: str) -> Agent | None:
        row = conn.execute(self.sql["agent"], {"agent": key}).fetchone()
        return agent_from_row(row) if row else None

    def agents(self) -> list[Agent]:
        return [agent_from_row(r) for r in self._rows("agents")]

    def lanes(self, prefix: str, limit: int) -> list[LaneRow]:
        return [
            LaneRow(
                lane=lane,
                owner=self.item(owner) if owner is not None else None,
                waiting=waiting,
                line=tuple(line),
            )
            for lane, waiting, line, owner in self._rows("lanes", prefix=prefix, limit=limit)
        ]

    def modes(self) -> tuple[ModeRule, ...]:
        with self._guard(), self._connection() as conn:
            return self._modes(conn)

    def _modes(self, conn: Connection) -> tuple[ModeRule, ...]:
        rows = conn.execute(self.sql["modes"]).fetchall()
        return tuple(ModeRule(scope=s, value=v, mode=Mode(m)) for s, v, m in rows)

    def paused_projects(self) -> dict[str, str]:
        return {r[0]: r[1] for r in self._rows("paused_projects")}

    def ahead_of(self, item: Item) -> int:
        spec = item.spec
        if item.status is ItemStatus.DEFERRED:
            rows = self._rows(
                "ahead_in_line",
                lane=spec.lane,
                front=item.state.front,
                position=spec.position,
                ticket=spec.ticket,
                id=spec.id,
            )
        else:
            rows = self._rows("ahead_in_queue", agent=spec.agent_key, sort_key=spec.sort_key)
        return int(rows[0][0])

    def figures(self, window_us: int) -> Figures:
        now_us = self.now_us()
        since = self._first_event_since(now_us - window_us)
        depth = self._rows("depth")
        return Figures(
            now_us=now_us,
            by_status={r[0]: r[1] for r in self._rows("count_by_status")},
            depth_by_priority={priority: count for priority, count, _ in depth},
            oldest_pending_us=min((oldest for _, _, oldest in depth), default=None),
            counts={(kind, reason): n for kind, reason, n in self._rows("event_counts", seq=since)},
            **spans(self._rows("event_spans", seq=since)),
        )

    def _first_event_since(self, since_us: int) -> int:
        low, high = self._rows("event_bounds")[0]
        if low is None:
            return 0
        return first_since(low, high, since_us, lambda seq: self._rows("event_times", seq=seq)[0])

    def findings(self) -> list[Finding]:
        found = []
        with self._guard(), self._connection() as conn:
            now_us = self._time(conn)
            for name, text in self.sql.checks.items():
                rows = conn.execute(text.encode(), {"now_us": now_us}).fetchall()
                broken = tuple(str(r[0]) for r in rows)
                found.append(Finding(name=name, promise=promise(text), mend=mending(text), broken=broken))
        return found


def agent_from_row(row: Sequence[Any]) -> Agent:
    """An agent from its columns, with or without its counts."""
    running, pending = row[7:9] if len(row) > 7 else (0, 0)
    return Agent(
        key=row[0],
        name=row[1],
        max_concurrency=row[2],
        types=tuple(row[3]),
        labels=tuple(row[4]),
        paused_why=row[5],
        seen_us=row[6],
        running=running,
        pending=pending,
    )
