"""The store for many machines: PostgreSQL through psycopg 3 and a pool.

Here it claims, keeps and waits; `postgres_deciding` writes what the rules decide. One order of locks
everywhere (agent, lanes sorted, items sorted). Not promised: that a claim whose answer was lost reaches its
agent; its lease runs out and the item is offered again.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from interlock.core.claiming import Agent, Claim, has_room, narrowed, with_room
from interlock.core.commands import Overtake
from interlock.core.model import (
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
from interlock.store.bulk import in_bulk
from interlock.store.port import Claimed, Load, Look, Renewal
from interlock.store.postgres.database import GONE, Connection, only
from interlock.store.postgres.deciding import (
    CLAIM_EVENTS_FROM,
    EVENT_BITS,
    EVENT_WIDTH,
    PostgresDeciding,
)
from interlock.store.postgres.reads import agent_from_row
from interlock.store.rows import (
    ITEM_COLUMNS,
    ITEM_WIDTH,
    array,
    columns,
    event_row,
    item_from_row,
    new_tuple,
    run_from_row,
)

_QUEUE_ORDER = itemgetter(ITEM_COLUMNS.index("sort_key"), ITEM_COLUMNS.index("id"))
CLAIM_EVENTS_EACH = 1 << 12  # more than a claim starts
#: So many more tasks are looked at than wanted: those who claim at once shall not all meet at the same few.
TASKS_BEYOND = 32


class PostgresStore(PostgresDeciding):
    """A store on a PostgreSQL database."""

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
        asked = _asked(wish, params)
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
        statement = self.sql.variant("claim", _asked(wish, params).union(how), limit=wish.limit)
        return conn.execute(statement, params, binary=True).fetchall()

    @in_bulk
    def _claimed(self, rows: list[tuple[Any, ...]]) -> list[Claimed]:
        rows.sort(key=_QUEUE_ORDER)
        claimed: list[Claimed] = [new_tuple(Claimed, (item_from_row(row), row[ITEM_WIDTH])) for row in rows]
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
        if not has_room(agent_from_row(row) if row else None, *self._running(conn, wish.agent)):
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


def _asked(wish: Claim, params: dict[str, Any]) -> frozenset[str]:
    """The optional lines of a statement that this wish needs."""
    given = {name for name in ("only", "types") if params[name] is not None}
    return frozenset(given if wish.edits else given | {"no_edits"})


def _refused(wish: Renewal, wanted: str, now_us: int) -> Event:
    return Event(
        kind=EventKind.RUN_REFUSED,
        at_us=now_us,
        reason=Reason.LEASE_LOST,
        item=wish.item,
        run=wish.run,
        data={"wanted": wanted},
    )
