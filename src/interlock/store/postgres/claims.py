"""Claims on PostgreSQL. A claim locks no lane and never waits for rows. Its steps:

    claim
    └─ _claim                  up to three times, as rows that others lock for an instant are skipped
       ├─ _start_ready         until the agent's current limits are known and every queue was looked at
       │  └─ _start_unlimited  one statement: `claim`, or `claim_first` where the first item will likely do
       │     or _start_limited lock pool, agent and budgets, count and add up, then the same statement
       └─ _overtake            if that started too few: a transaction for each item that overtakes

    claim_each                 `_start_unlimited` for several, in one transaction

    finish_and_claim           locks as above, then runs end, then the same statement and one commit

A process caches the limits of an agent from its last claim. If they have changed, the statement starts
nothing and returns the current ones, and the claim is repeated with those. An agent with a limit is locked
first, and before it the pool whose capacity it shares. Later statements count their runs, so that the limits
hold.

That there is a budget is learned in the same way. Then a claim locks those that it counts for, after pool
and agent, and reads in a later statement what is spent and reserved.

A claim that follows the end of runs sees what they leave: their agent's room, and the successors on their
lanes. Run numbers still grow per lane. The number is drawn after the end, while the lane is locked, and no
other transaction can draw one for that lane before the commit.

Not promised: that a claim whose answer was lost reaches its agent. Its lease expires and the item is offered
again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import psycopg

from interlock.core.budgets import BUDGETS_MAX, Allowance, affordable, allowance_of, is_bound
from interlock.core.claims import Agent, Claim, has_room, narrowed, with_room
from interlock.core.commands import Overtake
from interlock.core.endings import any_accepted
from interlock.core.errors import StoreBusy
from interlock.core.ledger import LedgerChanges
from interlock.core.model import ItemId
from interlock.core.record import replace
from interlock.core.row import NamedTuple
from interlock.store.budgets import states_from_rows
from interlock.store.bulk import in_bulk
from interlock.store.port import Build, ClaimAnswer, ClaimedItem, EndsAndClaim, Load
from interlock.store.postgres.database import BEGIN, Database, commit, only, roll_back
from interlock.store.postgres.scan_starts import FirstItems, ScanStart, ScanStarts
from interlock.store.postgres.statement import StatementConnection
from interlock.store.postgres.transactions import REQUESTS, Transactions, repeated
from interlock.store.rows import ITEM_COLUMNS, agent_from_row, item_from_row, new_tuple

if TYPE_CHECKING:
    from interlock.store.access import Note, RepeatableRequest

#: The columns of `claim` before those of the item.
_AHEAD = 4
_QUEUE_ORDER = itemgetter(_AHEAD + ITEM_COLUMNS.index("sort_key"), _AHEAD + ITEM_COLUMNS.index("id"))
#: The waits before another try when others had locked the ready rows.
_AGAIN_S = (0.002, 0.01)


class _ClaimCall(NamedTuple):
    """One call of `claim`."""

    claim: Claim
    due_first: bool
    note: Note | None
    #: Look at the first item only, whatever its queue.
    first: bool = False
    #: Start nothing unless the runs have ended whose end was sent before, in the same transaction.
    behind_end: bool = False


class _ClaimResult(NamedTuple):
    """The result of one claim statement."""

    claimed: list[ClaimedItem]
    #: Whether an item is due that the caller wanted to be moved first.
    due: bool
    #: Whether a deferred item for this agent or for anyone might overtake.
    rivals: bool
    #: The current agent.
    agent: Agent | None
    #: The time that the server's scan took.
    took_us: int = 0
    #: Whether only the first item was looked at, and did not fit.
    missed: bool = False


class _Locked(NamedTuple):
    """The unread answers to locks and to what limits a claim."""

    agent: Any
    counts: Sequence[Any]
    #: Null if the claim keeps no budget.
    budgets: Any | None


class Claims:
    """The claims of one process."""

    def __init__(self, database: Database, transactions: Transactions) -> None:
        self._database = database
        self._transactions = transactions
        self._agents: dict[str, Agent | None] = {}
        #: Whether there is any budget, as the last claim of this process found it.
        self._budgeted = False
        self.scan_starts = ScanStarts()
        self.first_items = FirstItems()

    def claim(self, claim: Claim, *, due_first: bool, note: Note | None = None) -> ClaimAnswer:
        """Start up to `claim.limit` ready items. With a note, all in one transaction, perhaps fewer."""
        try:
            return self._claim(_ClaimCall(claim, due_first, note))
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name != REQUESTS:
                raise
            raise repeated() from None

    def claim_each(self, claims: Sequence[tuple[Claim, Note | None]]) -> list[ClaimAnswer | None]:
        """Start ready items for several in one transaction. None for a claim that started nothing, whose
        agent is limited, or whose first look is not at the whole queue."""
        calls = [_ClaimCall(claim, due_first=True, note=note) for claim, note in claims]
        try:
            return self._database.persistently(partial(self._start_each, calls))
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name != REQUESTS:
                raise
            raise repeated() from None

    def finish_and_claim(
        self, load: Load, build: Build, claim: Claim, note: Note | None = None
    ) -> EndsAndClaim:
        """End runs, then start up to `claim.limit` ready items in the same transaction."""
        call = _ClaimCall(claim, due_first=False, note=note)
        rest = _ClaimAfterEnds(self._database, self, self._transactions, call, self._known(claim.agent))
        try:
            decision = self._transactions.transact(rest.locking(load), build, rest=rest)
        except (StoreBusy, psycopg.DatabaseError):
            # Nothing was written. The ends do not need the claim; if the fault is theirs, they fail again.
            alone = None if note is None else lambda ends: note(EndsAndClaim(ends))
            return EndsAndClaim(self._transactions.transact(load, build, alone))
        found = rest.result()
        if found is not None:
            self._agents[claim.agent] = found.agent
            self.scan_starts.remember(
                claim, rest.scan_start, [each.item for each in found.claimed], found.took_us
            )
            self.first_items.remember(claim, found=found.missed or bool(found.claimed), missed=found.missed)
        return EndsAndClaim(decision, found.claimed if found is not None else ())

    def _known(self, agent: str) -> Agent | None:
        """The agent as the last claim of this process found it; before the first one, as it is."""
        if agent not in self._agents:
            whose = {"agent": agent, "now_us": self._database.given_now()}
            rows = self._database.persistently(lambda: self._database.ask("lock_agent", whose))
            self._agents[agent] = next(map(agent_from_row, rows), None)
        return self._agents[agent]

    def has_ready(self, claim: Claim) -> bool:
        """Whether a claim would find an item, locked or not."""
        rows = self._database.persistently(lambda: self._database.ask("has_ready", filters(claim)))
        return bool(only(rows[0]))

    def _claim(self, call: _ClaimCall) -> ClaimAnswer:
        for again_s in (*_AGAIN_S, None):
            claim, due_first, note = call.claim, call.due_first, call.note
            found = self._database.persistently(partial(self._start_ready, call))
            claimed, agent = found.claimed, found.agent
            if found.due and due_first:
                return ClaimAnswer([], agent, due=True)
            allowed = narrowed(claim, agent)
            if allowed is None:
                return ClaimAnswer([], agent)
            left = claim.limit - len(claimed)
            if found.rivals and left > 0 and (note is None or not claimed):
                claimed += self._overtake(replace(claim, limit=left), replace(allowed, limit=left), note)
            if claimed or again_s is None or self.are_limited(agent) or not self.has_ready(allowed):
                return ClaimAnswer(claimed, agent)
            time.sleep(again_s)
            call = call._replace(claim=replace(claim, limit=1))  # a claim of one item reads every queue
        raise AssertionError("the last look always answers")

    # -- starting what is ready -------------------------------------------------------------------

    def _start_ready(self, call: _ClaimCall) -> _ClaimResult:
        """Start ready items within the current limits of the agent."""
        claim = call.claim
        missed = False
        while True:
            known, scan_start = self._agents.get(claim.agent), self.scan_starts.of(claim)
            budgeted = self._budgeted
            if budgeted:
                scan_start = None
            first = (
                not (missed or budgeted) and scan_start is None and self.first_items.are_worth_a_look(claim)
            )
            call = call._replace(first=first)
            with self._database.connection() as conn:
                if self.are_limited(known):
                    found = self._start_limited(conn, call, _pool(known), scan_start)
                    were_current = _pool(found.agent) == _pool(known)
                else:
                    found = self._start_unlimited(conn, call, known, scan_start)
                    were_current = _limits(found.agent) == _limits(known)
            self._agents[claim.agent] = found.agent
            were_current = were_current and self._budgeted == budgeted
            if found.missed:
                missed = True
                continue
            self.scan_starts.remember(claim, scan_start, [each.item for each in found.claimed], found.took_us)
            if not first:
                self.first_items.remember(claim, found=bool(found.claimed), missed=missed)
            if found.claimed:
                return found
            if scan_start is not None and not found.due:
                continue  # nothing found there: the next scan is a full one
            if were_current:
                return found

    def _start_each(self, calls: Sequence[_ClaimCall]) -> list[ClaimAnswer | None]:
        """Send the claims of agents without a limit together, in one transaction."""
        sent: dict[int, tuple[Any, Agent | None, ScanStart | None, bool]] = {}
        found: dict[int, _ClaimResult] = {}
        is_noted = any(call.note is not None for call in calls)
        with self._database.connection() as conn:
            try:
                with self._database.pipeline(conn):
                    conn.execute(BEGIN)
                    for n, call in enumerate(calls):
                        known, scan_start = (
                            self._agents.get(call.claim.agent),
                            self.scan_starts.of(call.claim),
                        )
                        allowed = narrowed(call.claim, known)
                        if allowed is None or self.are_limited(known):
                            continue
                        first = scan_start is None and self.first_items.are_worth_a_look(call.claim)
                        cursor = self.send(conn, call._replace(first=first), allowed, known, scan_start)
                        sent[n] = cursor, known, scan_start, first
                    if not is_noted:
                        commit(conn)
                found = {n: self.found(cursor.fetchall(), known) for n, (cursor, known, *_) in sent.items()}
                if is_noted:
                    with self._database.pipeline(conn):
                        self._transactions.keep(conn, partial(_notes_of, calls), found)
                        commit(conn)
            except BaseException:
                roll_back(conn)
                raise
        for n, result in found.items():
            claim, (_, _, scan_start, first) = calls[n].claim, sent[n]
            self._agents[claim.agent] = result.agent
            if result.claimed:
                items = [each.item for each in result.claimed]
                self.scan_starts.remember(claim, scan_start, items, result.took_us)
            if not first:
                self.first_items.remember(claim, found=bool(result.claimed), missed=False)
        started = {n: ClaimAnswer(each.claimed, each.agent) for n, each in found.items() if each.claimed}
        return [started.get(n) for n in range(len(calls))]

    def _start_unlimited(
        self, conn: StatementConnection, call: _ClaimCall, agent: Agent | None, scan_start: ScanStart | None
    ) -> _ClaimResult:
        """Start items for an agent that had no limit: in one statement, or with a note in one transaction."""
        allowed = narrowed(call.claim, agent)
        if call.note is None:
            return self._start(conn, call, allowed, agent, scan_start)
        try:
            with self._database.pipeline(conn):
                conn.execute(BEGIN)
                cursor = self.send(conn, call, allowed, agent, scan_start)
            found = self.found(cursor.fetchall(), agent)
            with self._database.pipeline(conn):
                self._keep(conn, call.note, found.claimed)
                commit(conn)
        except BaseException:
            roll_back(conn)
            raise
        return found

    def _start_limited(
        self, conn: StatementConnection, call: _ClaimCall, pool: str | None, scan_start: ScanStart | None
    ) -> _ClaimResult:
        """Lock pool and agent, count their runs in later statements, and start items within the remaining
        limits.

        No item starts if the agent was moved to another pool meanwhile."""
        try:
            with self._database.pipeline(conn):
                conn.execute(BEGIN)
                answers = self.lock(conn, call.claim, pool)
            agent, allowed, allowance = _within_limits(call.claim, answers, pool)
            if call.note is None and allowance is None:
                with self._database.pipeline(conn):
                    cursor = self.send(conn, call, allowed, agent, scan_start)
                    commit(conn)
                return self.found(cursor.fetchall(), agent)
            if allowed is None or allowance is None:
                found = self._start(conn, call, allowed, agent, scan_start)
            else:
                found = self._start_affordable(conn, call, allowed, agent, allowance)
            self._keep(conn, call.note, found.claimed)
            commit(conn)
            return found
        except BaseException:
            roll_back(conn)
            raise

    def _start_affordable(
        self,
        conn: StatementConnection,
        call: _ClaimCall,
        allowed: Claim,
        agent: Agent | None,
        allowance: Allowance,
    ) -> _ClaimResult:
        """Start what locked budgets leave room for: one by one where reserves may not fit together."""
        claimed: list[ClaimedItem] = []
        while True:
            left = allowed.limit - len(claimed)
            step = replace(allowed, limit=allowance.at_once(left))
            found = self._start(conn, call, step, agent, barred=allowance.barred)
            claimed += found.claimed
            for each in found.claimed:
                allowance = allowance.after(each.item.spec.project, each.item.spec.type)
            rest = affordable(allowed, allowance)
            if len(found.claimed) < step.limit or step.limit == left or rest is None:
                return found._replace(claimed=claimed)

    def are_limited(self, agent: Agent | None) -> bool:
        """Whether claims of an agent lock something first, as far as this process knows."""
        return self._budgeted or _is_limited(agent)

    def are_budgeted(self, claim: Claim) -> bool:
        """Whether a claim keeps budgets, as far as this process knows."""
        return self._budgeted and is_bound(claim)

    def lock(self, conn: StatementConnection, claim: Claim, pool: str | None) -> _Locked:
        """Lock the pool, the agent, then the budgets. The counts and sums are later statements. Gives the
        unread answers."""
        sql, now_us = self._database.sql, self._database.given_now()
        whose = {"agent": claim.agent, "now_us": now_us}
        if pool is not None:
            conn.execute(sql["lock_pool"], {"pool": pool})
        agent = conn.execute(sql["lock_agent"], whose, binary=True)
        is_budgeted = self.are_budgeted(claim)
        if is_budgeted:
            conn.execute(sql["lock_budgets"], {"agent": claim.agent, "pool": pool})
        counts = [conn.execute(sql["count_running"], whose, binary=True)]
        if pool is not None:
            counts.append(conn.execute(sql["pool_room"], {"pool": pool}, binary=True))
        if not is_budgeted:
            return _Locked(agent, counts, None)
        of = {**whose, "pool": pool, "all": False, "limit": BUDGETS_MAX}
        return _Locked(agent, counts, conn.execute(sql["budgets/states"], of, binary=True))

    def _keep(self, conn: StatementConnection, note: Note | None, claimed: list[ClaimedItem]) -> None:
        if claimed:
            self._transactions.keep(conn, note, claimed)

    # -- the statement ----------------------------------------------------------------------------

    def _start(
        self,
        conn: StatementConnection,
        call: _ClaimCall,
        allowed: Claim | None,
        agent: Agent | None,
        scan_start: ScanStart | None = None,
        barred: Sequence[str] = (),
    ) -> _ClaimResult:
        rows = conn.fetch(*self.statement(call, allowed, agent, scan_start, barred))
        return self.found(rows, agent)

    def send(
        self,
        conn: StatementConnection,
        call: _ClaimCall,
        allowed: Claim | None,
        agent: Agent | None,
        scan_start: ScanStart | None,
        barred: Sequence[str] = (),
    ) -> Any:
        """Send the claim, whose answer is read later."""
        return conn.execute(*self.statement(call, allowed, agent, scan_start, barred), binary=True)

    def statement(
        self,
        call: _ClaimCall,
        allowed: Claim | None,
        agent: Agent | None,
        scan_start: ScanStart | None,
        barred: Sequence[str] = (),
    ) -> tuple[str, dict[str, Any]]:
        """The statement of a claim, with its parameters. `allowed` is the claim within the limits of `agent`;
        None if it may start nothing. `barred` are projects and types that budgets do not pay for."""
        claim = call.claim
        params = {
            **filters(allowed or claim),
            "limit": allowed.limit if allowed else 0,
            "due_first": call.due_first,
            "behind_end": call.behind_end,
            "worker": claim.worker,
            "lease_s": claim.lease_s,
            "external": claim.external,
            "default_lease_s": self._database.timing.lease_s,
            "now_us": self._database.given_now(),
            "front": scan_start.sort_key if scan_start else None,
            "since_us": scan_start.since_us if scan_start else -1,
            "seeds": list(scan_start.items) if scan_start else None,
            "known_max": agent.max_concurrency if agent else None,
            "known_types": list(agent.types) if agent else [],
            "known_labels": list(agent.labels) if agent else [],
            "known_why": agent.paused_why if agent else None,
            "known_wall": agent.wall_us if agent else None,
            "known_pool": agent.pool if agent else None,
            "known_budgeted": self._budgeted,
            "barred": list(barred) or None,
        }
        name = "claim_first" if call.first and allowed else "claim"
        return self._database.sql[name], params

    @in_bulk
    def found(self, rows: list[tuple[Any, ...]], agent: Agent | None) -> _ClaimResult:
        """The result of the claim: the started items, or why none started."""
        if not rows:
            return _ClaimResult([], False, False, agent, missed=True)
        refused, rivals, took_us = rows[0][:3]
        if refused is not None:
            facts = json.loads(refused)
            self._budgeted = facts["budgeted"]
            is_known = facts["key"] is not None
            return _ClaimResult([], facts["due"], rivals, _agent_from_facts(facts) if is_known else None)
        rows.sort(key=_QUEUE_ORDER)
        claimed: list[ClaimedItem] = [new_tuple(ClaimedItem, (item_from_row(r[_AHEAD:]), r[3])) for r in rows]
        return _ClaimResult(claimed, False, rivals, agent, took_us)

    # -- overtaking -------------------------------------------------------------------------------

    def _overtake(self, claim: Claim, allowed: Claim, note: Note | None) -> list[ClaimedItem]:
        """Start items in place of lanes' owners that cannot start. With a note, only one."""
        database = self._database

        def work() -> list[ClaimedItem]:
            started: list[ClaimedItem] = []
            with database.connection() as conn:
                params = {**filters(allowed), "limit": allowed.limit, "now_us": database.given_now()}
                for item, owner, gone in conn.execute(database.sql["overtakable"], params).fetchall():
                    if note is not None and started:
                        break
                    with database.transaction(conn):
                        overtaken = self._overtake_one(conn, claim, item, owner, gone)
                        self._keep(conn, note, overtaken)
                    started += overtaken
            return started

        return database.persistently(work)

    def _overtake_one(
        self, conn: StatementConnection, claim: Claim, item: ItemId, owner: ItemId, gone: str | None
    ) -> list[ClaimedItem]:
        """Overtake an owner and start the item. `gone` is the owner's agent, if its absence is the only
        reason."""
        pool = _pool(self._agents.get(claim.agent))
        agent, counted, allowance = _read(self.lock(conn, claim, pool))
        if _pool(agent) != pool or not has_room(agent, *counted):
            return []
        if allowance is not None and not self._affords(conn, allowance, item):
            return []
        decision = self._transactions.decide(
            conn,
            Load(items=(item, owner), presence=() if gone is None else (gone,)),
            Overtake(item=item, owner=owner, gone=gone is not None),
        )
        allowed = narrowed(replace(claim, item=item, limit=1), agent)
        if not decision.answers[0].changed or allowed is None:
            return []
        return self._start(conn, _ClaimCall(claim, due_first=False, note=None), allowed, agent).claimed

    def _affords(self, conn: StatementConnection, allowance: Allowance, item: ItemId) -> bool:
        """Whether locked budgets leave room for an item."""
        rows = conn.execute(self._database.sql["item"], {"item": item}, binary=True).fetchall()
        spec = item_from_row(rows[0]).spec if rows else None
        return spec is not None and allowance.affords(spec.project, spec.type)


class _ClaimAfterEnds:
    """A claim at the end of a transaction in which runs of its agent end. An agent that is known to have a
    limit is locked before the lanes of its runs, and the pool before it."""

    def __init__(
        self,
        database: Database,
        claims: Claims,
        transactions: Transactions,
        call: _ClaimCall,
        known: Agent | None,
    ) -> None:
        self._database, self._claims, self._transactions = database, claims, transactions
        self._is_limited = claims.are_limited(known)
        # With budgets every queue is looked at: a better item may have been passed over as too dear.
        is_budgeted = claims.are_limited(None)
        self.scan_start = None if is_budgeted else claims.scan_starts.of(call.claim)
        is_worth_it = self.scan_start is None and claims.first_items.are_worth_a_look(call.claim)
        first = is_worth_it and not is_budgeted
        self._call, self._known = call._replace(first=first), known
        #: The answer to the claim, and the agent within whose limits it was; None if nothing was claimed.
        self._sent: tuple[Any, Agent | None] | None = None
        self._found: _ClaimResult | None = None

    def locking(self, load: Load) -> Load:
        """The load, which locks what limits the claim as well."""
        if not self._is_limited:
            return load
        claim = self._call.claim
        agents = {*load.limited_agents, claim.agent}
        budgeted = claim.agent if self._claims.are_budgeted(claim) else None
        return replace(load, limited_agents=tuple(agents), pool=_pool(self._known), budget_agent=budgeted)

    def send_unseen(self, conn: StatementConnection) -> bool:
        call, agent = self._call._replace(behind_end=True), self._known
        allowed = narrowed(call.claim, agent)
        if not call.first or allowed is None or self._is_limited or call.note is not None:
            return False
        self._found, self._sent = None, (self._claims.send(conn, call, allowed, agent, None), agent)
        commit(conn)
        return True

    def send(self, conn: StatementConnection, decision: LedgerChanges) -> None:
        call, agent = self._call, self._known
        self._sent = self._found = None
        if any_accepted(decision.answers):
            allowed = narrowed(call.claim, agent)
            barred: Sequence[str] = ()
            if self._is_limited:
                pool = _pool(agent)
                locked = self._claims.lock(conn, call.claim, pool)
                agent, allowed, allowance = _within_limits(call.claim, locked, pool)
                if allowed is not None and allowance is not None:
                    barred = allowance.barred
                    allowed = replace(allowed, limit=allowance.at_once(allowed.limit))
            self._sent = self._claims.send(conn, call, allowed, agent, self.scan_start, barred), agent
        if call.note is not None:  # the answer that is kept names what was claimed
            self._found = self.result()
            claimed = self._found.claimed if self._found is not None else ()
            self._transactions.keep(conn, call.note, EndsAndClaim(decision, claimed))
        commit(conn)

    def result(self) -> _ClaimResult | None:
        """What the claim gave."""
        if self._found is None and self._sent is not None:
            cursor, agent = self._sent
            self._found = self._claims.found(cursor.fetchall(), agent)
        return self._found

    def recall(self, conn: StatementConnection, decision: LedgerChanges) -> None:
        self._sent = self._found = None
        if not decision.runs:
            return
        params = {"agent": self._call.claim.agent, "ended": decision.runs[0].item}
        rows = conn.execute(self._database.sql["started_with"], params, binary=True).fetchall()
        claimed: list[ClaimedItem] = [ClaimedItem(item_from_row(r[1:]), r[0]) for r in rows]
        self._found = _ClaimResult(claimed, False, False, self._known)


def _notes_of(
    calls: Sequence[_ClaimCall], found: Mapping[int, _ClaimResult]
) -> list[tuple[RepeatableRequest, str]]:
    """The answers to keep of claims that were sent together."""
    return [
        kept
        for n, result in found.items()
        if result.claimed and (note := calls[n].note) is not None
        for kept in note(result.claimed)
    ]


def filters(claim: Claim) -> dict[str, Any]:
    """The filters of a claim, as the statements take them."""
    return {
        "agent": claim.agent,
        "types": list(claim.types) or None,
        "labels": list(claim.labels),
        "edits": claim.edits,
        "only": claim.item,
    }


def _read(locked: _Locked) -> tuple[Agent | None, tuple[int, ...], Allowance | None]:
    """The locked agent; its runs, edits and free pool capacity, as `with_room` takes them; and what its
    budgets leave."""
    agent = next(map(agent_from_row, locked.agent), None)
    counted = tuple(number for cursor in locked.counts for row in cursor.fetchall() for number in row)
    allowance = None
    if locked.budgets is not None:
        allowance = allowance_of(*states_from_rows(locked.budgets.fetchall()))
    return agent, counted, allowance


def _within_limits(
    claim: Claim, locked: _Locked, pool: str | None
) -> tuple[Agent | None, Claim | None, Allowance | None]:
    """The agent that was locked, what of a claim it has room for, and what its budgets leave. None if it may
    start nothing, or if it was put into another pool than the one that was locked."""
    agent, counted, allowance = _read(locked)
    allowed = narrowed(claim, agent) if _pool(agent) == pool else None
    if allowed is not None:
        allowed = with_room(allowed, agent, *counted)
    if allowed is not None and allowance is not None:
        allowed = affordable(allowed, allowance)
    return agent, allowed, allowance


def _pool(agent: Agent | None) -> str | None:
    return agent.pool if agent else None


def _is_limited(agent: Agent | None) -> bool:
    return agent is not None and (agent.max_concurrency is not None or agent.pool is not None)


def _limits(agent: Agent | None) -> tuple[Any, ...]:
    """The limits of a claim. An agent without a row has none."""
    if agent is None:
        return (None, (), (), None, None, None)
    return (agent.max_concurrency, agent.types, agent.labels, agent.paused_why, agent.wall_us, agent.pool)


def _agent_from_facts(facts: dict[str, Any]) -> Agent:
    names = ("key", "name", "max_concurrency", "types", "labels", "paused_why", "seen_us")
    limited = facts["wall_us"] is not None and facts["wall_us"] > facts["now_us"]
    limit = (facts["wall_us"], facts["wall_why"]) if limited else (None, None)
    return agent_from_row([*(facts[name] for name in names), *limit, facts["pool"], None])
