"""Claims on PostgreSQL: one statement that starts ready items, and overtaking where that finds too few.

A claim takes no lane and never waits for rows. An agent with a limit is locked first, and before it the pool
whose capacity it shares; their runs are counted by later statements, so that the limits hold. The agent's
limits are remembered from its last claim: the statement starts nothing if they have changed, and the claim is
made again within the new ones.

Entries of items that are gone stay in the indexes until a vacuum removes them, and none can while somebody
holds an old snapshot. So a process that finds a claim slow remembers how far it had to go, and its next
claims of the same kind look from there on. What becomes ready before that place is found by the next whole
look: when nothing else is found, and at the latest after a second or twenty times what a whole look takes.

Not promised:
that a claim whose answer was lost reaches its agent; its lease runs out and the item is offered again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import psycopg

from interlock.core.claiming import Agent, Claim, has_room, narrowed, with_room
from interlock.core.commands import Overtake
from interlock.core.model import US_PER_S, Item, ItemId
from interlock.core.record import replace
from interlock.core.row import NamedTuple
from interlock.store.bulk import in_bulk
from interlock.store.port import ClaimAnswer, ClaimedItem, Load
from interlock.store.postgres.database import BEGIN, Database, only, roll_back
from interlock.store.postgres.statement import Connection
from interlock.store.postgres.transactions import REQUESTS, Transactions, repeated
from interlock.store.rows import ITEM_COLUMNS, item_from_row, new_tuple

if TYPE_CHECKING:
    from interlock.store.access_port import Note

#: The columns of `claim` before those of the item.
_AHEAD = 4
_QUEUE_ORDER = itemgetter(_AHEAD + ITEM_COLUMNS.index("sort_key"), _AHEAD + ITEM_COLUMNS.index("id"))
#: How long to wait before looking again when ready rows were locked by others.
_AGAIN_S = (0.002, 0.01)


#: A claim that takes longer on the server remembers how far it had to go.
SLOW_US = 10_000
#: Whole looks are made this often, and take no more than one part in `WHOLE_LOOK_PART` of the time.
WHOLE_LOOK_S = 1.0
WHOLE_LOOK_PART = 20
#: Of how many kinds of claims a process remembers it; those of one agent are mostly of one kind.
_FRONTS_MAX = 100


class _Front(NamedTuple):
    """Where claims of one kind begin to look, until the next whole look."""

    sort_key: int
    #: One item of each queue in which something was found, whatever has become of it since.
    items: tuple[ItemId, ...]
    #: The store's time at the last whole look, for what is due since then.
    since_us: int
    until_s: float


class _Found(NamedTuple):
    """What one claim statement gave."""

    claimed: list[ClaimedItem]
    due: bool
    #: A deferred item is for this agent or for anyone, and might overtake.
    rivals: bool
    agent: Agent | None
    #: How long the server looked.
    took_us: int = 0


class Claims:
    """The claims of one process."""

    def __init__(self, database: Database, transactions: Transactions) -> None:
        self._database = database
        self._transactions = transactions
        self._agents: dict[str, Agent | None] = {}
        self._fronts: dict[Claim, _Front] = {}
        self.slow_us = SLOW_US
        self.clock: Callable[[], float] = time.monotonic

    def claim(self, wish: Claim, *, due_first: bool, note: Note | None = None) -> ClaimAnswer:
        """Start up to `wish.limit` ready items. With a note, what one transaction starts."""
        try:
            return self._claim(wish, note, due_first=due_first)
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name != REQUESTS:
                raise
            raise repeated() from None

    def _claim(self, wish: Claim, note: Note | None, *, due_first: bool) -> ClaimAnswer:
        for again_s in (*_AGAIN_S, None):
            found = self._database.persistently(partial(self._within_limits, wish, note, due_first=due_first))
            claimed, agent = found.claimed, found.agent
            if found.due and due_first:
                return ClaimAnswer([], agent, due=True)
            allowed = narrowed(wish, agent)
            if allowed is None:
                return ClaimAnswer([], agent)
            if found.rivals and len(claimed) < wish.limit and (note is None or not claimed):
                left = wish.limit - len(claimed)
                claimed += self._overtake(replace(wish, limit=left), replace(allowed, limit=left), note)
            # A claim passes over rows that somebody has locked for an instant: look whether that was all.
            if claimed or again_s is None or _capped(agent) or not self.has_ready(allowed):
                return ClaimAnswer(claimed, agent)
            time.sleep(again_s)
            wish = replace(wish, limit=1)  # a claim of one item looks into every queue
        raise AssertionError("the last look always answers")

    def has_ready(self, wish: Claim) -> bool:
        """Whether a claim would find anything, locked or not."""
        rows = self._database.persistently(lambda: self._database.ask("has_ready", filters(wish)))
        return bool(only(rows[0]))

    def _within_limits(self, wish: Claim, note: Note | None, *, due_first: bool) -> _Found:
        while True:
            known = self._agents.get(wish.agent)
            capped = _capped(known)
            front = self._front(wish)
            with self._database.connection() as conn:
                if capped:
                    found = self._start_capped(conn, wish, _pool(known), front, note, due_first=due_first)
                elif note is None:
                    found = self._start(conn, narrowed(wish, known), wish, known, front, due_first=due_first)
                else:
                    with self._database.transaction(conn):
                        found = self._start(
                            conn, narrowed(wish, known), wish, known, front, due_first=due_first
                        )
                        self._keep(conn, note, found.claimed)
            self._agents[wish.agent] = found.agent
            self._remember(wish, front, found)
            if front is not None and not found.claimed and not found.due:
                continue  # look at all
            counted = capped and _pool(found.agent) == _pool(known)
            if found.claimed or counted or _limits(found.agent) == _limits(known):
                return found

    def _front(self, wish: Claim) -> _Front | None:
        front = self._fronts.get(_kind(wish)) if wish.item is None else None
        return front if front is not None and self.clock() < front.until_s else None

    def _remember(self, wish: Claim, front: _Front | None, found: _Found) -> None:
        """Where the next claim of this kind begins: at the first item that this one started."""
        found_in = {_queue(c.item): c.item for c in found.claimed}
        if not found_in or (front is None and found.took_us < self.slow_us):
            self._fronts.pop(_kind(wish), None)
            return
        if front is None:
            pause_s = max(WHOLE_LOOK_S, WHOLE_LOOK_PART * found.took_us / US_PER_S)
            started_us = found.claimed[0].item.state.run_started_us or 0
            front = _Front(0, (), started_us, self.clock() + pause_s)
        if len(self._fronts) >= _FRONTS_MAX:
            self._fronts.clear()
        first = min(c.item.spec.sort_key for c in found.claimed)
        items = tuple(item.id for item in found_in.values())
        self._fronts[_kind(wish)] = front._replace(sort_key=first, items=items)

    def _start_capped(
        self,
        conn: Connection,
        wish: Claim,
        pool: str | None,
        front: _Front | None,
        note: Note | None,
        *,
        due_first: bool,
    ) -> _Found:
        """Lock the rows of pool and agent, count their runs in later statements, start within the room left.

        Nothing starts if the agent was put into another pool meanwhile."""
        try:
            with self._database.pipeline(conn):
                conn.execute(BEGIN)
                answers = self._lock(conn, wish, pool)
            agent, counted = _read(answers)
            allowed = narrowed(wish, agent) if _pool(agent) == pool else None
            if allowed is not None:
                allowed = with_room(allowed, agent, *counted)
            if note is not None:
                found = self._start(conn, allowed, wish, agent, front, due_first=due_first)
                self._keep(conn, note, found.claimed)
                conn.execute("COMMIT")
                return found
            with self._database.pipeline(conn):
                cursor = self._send(conn, allowed, wish, agent, front, due_first=due_first)
                conn.execute("COMMIT")
        except BaseException:
            roll_back(conn)
            raise
        return self._found(cursor.fetchall(), agent)

    def _keep(self, conn: Connection, note: Note | None, claimed: list[ClaimedItem]) -> None:
        if claimed:
            self._transactions.keep(conn, note, claimed)

    def _start(
        self,
        conn: Connection,
        allowed: Claim | None,
        wish: Claim,
        agent: Agent | None,
        front: _Front | None = None,
        *,
        due_first: bool,
    ) -> _Found:
        cursor = self._send(conn, allowed, wish, agent, front, due_first=due_first)
        return self._found(cursor.fetchall(), agent)

    def _send(
        self,
        conn: Connection,
        allowed: Claim | None,
        wish: Claim,
        agent: Agent | None,
        front: _Front | None,
        *,
        due_first: bool,
    ) -> Any:
        params = {
            **filters(allowed or wish),
            "limit": allowed.limit if allowed else 0,
            "due_first": due_first,
            "worker": wish.worker,
            "lease_s": wish.lease_s,
            "external": wish.external,
            "default_lease_s": self._database.timing.lease_s,
            "now_us": self._database.given_now(),
            "front": front.sort_key if front else None,
            "since_us": front.since_us if front else -1,
            "seeds": list(front.items) if front else None,
            "known_max": _limit(agent),
            "known_types": list(agent.types) if agent else [],
            "known_labels": list(agent.labels) if agent else [],
            "known_why": agent.paused_why if agent else None,
            "known_wall": agent.wall_us if agent else None,
            "known_pool": agent.pool if agent else None,
        }
        return conn.execute(self._database.sql["claim"], params, binary=True)

    @in_bulk
    def _found(self, rows: list[tuple[Any, ...]], agent: Agent | None) -> _Found:
        asked, rivals, took_us = rows[0][:3]
        if asked is not None:
            facts = json.loads(asked)
            there = facts["key"] is not None
            return _Found([], facts["due"], rivals, _agent_from_facts(facts) if there else None)
        rows.sort(key=_QUEUE_ORDER)
        claimed: list[ClaimedItem] = [new_tuple(ClaimedItem, (item_from_row(r[_AHEAD:]), r[3])) for r in rows]
        return _Found(claimed, False, rivals, agent, took_us)

    # -- overtaking -------------------------------------------------------------------------------

    def _overtake(self, wish: Claim, allowed: Claim, note: Note | None) -> list[ClaimedItem]:
        database = self._database

        def work() -> list[ClaimedItem]:
            started: list[ClaimedItem] = []
            with database.connection() as conn:
                params = {**filters(allowed), "limit": allowed.limit, "now_us": database.given_now()}
                for item, owner, gone in conn.execute(database.sql["overtakable"], params).fetchall():
                    if note is not None and started:
                        break
                    with database.transaction(conn):
                        overtaken = self._overtake_one(conn, wish, item, owner, gone)
                        self._keep(conn, note, overtaken)
                    started += overtaken
            return started

        return database.persistently(work)

    def _overtake_one(
        self, conn: Connection, wish: Claim, item: ItemId, owner: ItemId, gone: str | None
    ) -> list[ClaimedItem]:
        """Overtake an owner and start the item; `gone` is the owner's agent, if that alone is the reason."""
        pool = _pool(self._agents.get(wish.agent))
        agent, counted = _read(self._lock(conn, wish, pool))
        if _pool(agent) != pool or not has_room(agent, *counted):
            return []
        decision = self._transactions.decide(
            conn,
            Load(items=(item, owner), presence=() if gone is None else (gone,)),
            Overtake(item=item, owner=owner, gone=gone is not None),
        )
        allowed = narrowed(replace(wish, item=item, limit=1), agent)
        if not decision.answers[0].changed or allowed is None:
            return []
        return self._start(conn, allowed, wish, agent, due_first=False).claimed

    def _lock(self, conn: Connection, wish: Claim, pool: str | None) -> list[Any]:
        """Lock the pool, then the agent; the counts are later statements. Gives the answers, not read yet."""
        sql, whose = self._database.sql, {"agent": wish.agent, "now_us": self._database.given_now()}
        if pool is not None:
            conn.execute(sql["lock_pool"], {"pool": pool})
        answers = [conn.execute(sql[name], whose, binary=True) for name in ("lock_agent", "count_running")]
        if pool is not None:
            answers.append(conn.execute(sql["pool_room"], {"pool": pool}, binary=True))
        return answers


def _read(answers: list[Any]) -> tuple[Agent | None, tuple[int, ...]]:
    """The agent that was locked, and its runs, edits and the room in its pool, as `with_room` takes them."""
    agent = next(map(agent_from_row, answers[0]), None)
    return agent, tuple(number for cursor in answers[1:] for row in cursor.fetchall() for number in row)


def filters(wish: Claim) -> dict[str, Any]:
    """What a wish asks of an item, as the statements take it."""
    return {
        "agent": wish.agent,
        "types": list(wish.types) or None,
        "labels": list(wish.labels),
        "edits": wish.edits,
        "only": wish.item,
    }


def _kind(wish: Claim) -> Claim:
    """What claims have in common that look at the same items."""
    return Claim(agent=wish.agent, types=wish.types, labels=wish.labels, edits=wish.edits)


def _queue(item: Item) -> tuple[Any, ...]:
    spec = item.spec
    return spec.agent_key, spec.project, spec.type, spec.labels, spec.plan


def _limit(agent: Agent | None) -> int | None:
    return agent.max_concurrency if agent else None


def _pool(agent: Agent | None) -> str | None:
    return agent.pool if agent else None


def _capped(agent: Agent | None) -> bool:
    return _limit(agent) is not None or _pool(agent) is not None


def _limits(agent: Agent | None) -> tuple[Any, ...]:
    """What a claim is cut to; an agent without a row has no limits."""
    if agent is None:
        return (None, (), (), None, None, None)
    return (agent.max_concurrency, agent.types, agent.labels, agent.paused_why, agent.wall_us, agent.pool)


def _agent_from_facts(facts: dict[str, Any]) -> Agent:
    names = ("key", "name", "max_concurrency", "types", "labels", "paused_why", "seen_us")
    walled = facts["wall_us"] is not None and facts["wall_us"] > facts["now_us"]
    wall = (facts["wall_us"], facts["wall_why"]) if walled else (None, None)
    return agent_from_row([*(facts[name] for name in names), *wall, facts["pool"], None])


def agent_from_row(row: Any) -> Agent:
    """An agent from its columns, with or without its counts."""
    running, pending, pool_max, pool_running = row[11:] or (0, 0, None, 0)
    return Agent(
        key=row[0],
        name=row[1],
        max_concurrency=row[2],
        types=tuple(row[3]),
        labels=tuple(row[4]),
        paused_why=row[5],
        seen_us=row[6],
        wall_us=row[7],
        wall_why=row[8] if row[7] is not None else None,
        pool=row[9],
        overtake_after_s=row[10],
        pool_max=pool_max,
        pool_running=pool_running or 0,
        running=running,
        pending=pending,
    )
