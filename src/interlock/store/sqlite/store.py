"""The embedded store: one SQLite file, many processes of one host.

Tickets give the order, as SQLite's write lock is a race, not a queue.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from interlock.core.bootclock import TOLERANCE_US
from interlock.core.budgets import BUDGETS_MAX, Allowance, affordable, allowance_of, is_bound
from interlock.core.claims import Agent, Claim, has_room, narrowed, with_room
from interlock.core.commands import Arrive, Overtake, Repair, SendMessage
from interlock.core.decide import decide
from interlock.core.endings import any_accepted
from interlock.core.errors import InterlockError, Repeated
from interlock.core.handles import Handle
from interlock.core.ledger import LedgerChanges, Snapshot
from interlock.core.model import US_PER_S, Event, EventKind, Item, ItemId
from interlock.core.plans.commands import CreatePlan, EditPlan
from interlock.core.record import replace
from interlock.core.store_outage import StoreOutage
from interlock.core.timing import Timing
from interlock.store import clock
from interlock.store.budgets import states_from_rows
from interlock.store.port import (
    Build,
    CallOutcome,
    ClaimAnswer,
    ClaimedItem,
    EndsAndClaim,
    Finding,
    Load,
    Renewal,
    outcome_of,
)
from interlock.store.registry import Registry
from interlock.store.rows import (
    agent_from_row,
    event_row,
    gate_row,
    item_from_row,
    item_row,
    spec_row,
    state_row,
)
from interlock.store.sqlite import snapshot
from interlock.store.sqlite.database import BUSY_TIMEOUT_S, SqliteDatabase
from interlock.store.sqlite.tables import SqliteTables

if TYPE_CHECKING:
    from interlock.store.access import Note

WATCH_INTERVAL_S = 0.005
#: An item, the owner of its lane that it may overtake, and that owner's agent if that is gone.
_Candidate = tuple[ItemId, ItemId, str | None]


class SqliteStore(Registry):
    """A store on one SQLite file."""

    def __init__(
        self,
        path: str | Path,
        *,
        timing: Timing | None = None,
        now: Callable[[], int] | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        migrate: bool = True,
        outage: StoreOutage | None = None,
    ) -> None:
        database = SqliteDatabase(
            path, now=now, busy_timeout_s=busy_timeout_s, migrate=migrate, outage=outage
        )
        super().__init__(SqliteTables(database))
        self.database = database
        self.timing = timing or Timing()
        #: Whether the last claim found a budget. Then the look before the write lock keeps budgets as well.
        self._seen_budgets = False
        self.tickets, self.at_once, self.close = database.tickets, database.at_once, database.close

    def now_us(self) -> int:
        return self.database.now_us()

    # -- deciding ---------------------------------------------------------------------------------

    def transact(self, load: Load, build: Build, note: Note | None = None) -> LedgerChanges:
        with self.database.write():
            decision = self._decide(load, build)
            self._keep(note, decision)
            return decision

    def finish_and_claim(
        self, load: Load, build: Build, claim: Claim, note: Note | None = None
    ) -> EndsAndClaim:
        with self.database.write():
            decision = self._decide(load, build)
            done = EndsAndClaim(decision, self._claimed_after(decision, claim))
            self._keep(note, done)
            return done

    def _claimed_after(self, decision: LedgerChanges, claim: Claim) -> Sequence[ClaimedItem]:
        if not any_accepted(decision.answers):
            return ()
        try:
            with self.database.part():  # the ends stand if it fails
                ready, _ = self._ready(claim, *self._agent_as_set(claim.agent, asks=True), claim.limit)
                return self._start(claim, ready) if ready else ()
        except (InterlockError, apsw.Error):
            if not self.database.db.in_transaction:  # SQLite has undone all of it: a full disk, say
                raise
            return ()

    #: A commit waits for the disk, and there is one writer at a time.
    shares_commits = True

    def together(self, works: Sequence[Callable[[], Any]]) -> list[CallOutcome]:
        with self.database.together():
            found = []
            for work in works:
                found.append(outcome_of(work))
                if not self.database.db.in_transaction:  # SQLite has rolled it back: a full disk
                    raise found[-1].error or AssertionError("the transaction is gone")
            return found

    @property
    def in_transaction(self) -> bool:
        return self.database.is_part

    def _keep(self, note: Note | None, done: object) -> None:
        """Store the answers to requests in the transaction that carries them out."""
        if note is not None and (kept := note(done)):
            requests = [[request.key, request.asked, answer] for request, answer in kept]
            new = self.database.rows("access/keep_requests", requests=requests, now_us=self.now_us())
            if len(new) < len(requests):
                raise Repeated("The request was carried out already.", "Its answer is kept for a day.")

    def _decide(self, load: Load, build: Build) -> LedgerChanges:
        database, now_us = self.database, self.now_us()
        ids = database.reserve("item", load.arrivals)
        seen_keys = snapshot.take_keys(database, load, ids, now_us)
        known = snapshot.read(database, load, seen_keys)
        spare = tuple(database.reserve("item", known.spare_ids(frozenset(load.items), now_us)))
        commands = build(ids)
        decision = decide(known, commands, now_us, self.timing, spare)
        self._apply(decision)
        tickets = [c.ticket for c in commands if isinstance(c, Arrive | SendMessage)]
        tickets += [t for c in commands if isinstance(c, CreatePlan | EditPlan) for t in c.tickets]
        if tickets:
            database.rows("raise_ticket", ticket=max(tickets))
        return decision

    def _apply(self, decision: LedgerChanges) -> None:
        """Write a decision. A row is written after the rows that it refers to."""
        write = self.database.each
        new_plans = [c.plan for c in decision.plans if c.before is None]
        if new_plans:
            self.database.rows("add_lanes", lanes=[plan.lane for plan in new_plans])
        write("insert_plan", new_plans)
        write("update_item", [state_row(i) for i in decision.settled])
        write("insert_item", [item_row(i, _labels(i)) for i in decision.born])
        write("update_item", [state_row(i) for i in decision.raised])
        changed = [decision.after[i] for i in dict.fromkeys(decision.respecified)]
        write("update_spec", [spec_row(i, _labels(i)) for i in changed])
        write("insert_payload", decision.payloads)
        write("copy_payload", decision.payload_copies)
        write("move_messages", decision.moves)
        write("insert_message", decision.messages)
        write("set_streak", decision.streaks)
        write("set_last_agent", decision.last_agents)
        write("set_gate", [gate_row(lane, g, g and json.dumps(g.exempt)) for lane, g in decision.gates])
        if decision.unblocked:
            self.database.rows("drop_blocks", items=decision.unblocked)
        write("insert_run", decision.runs)
        write("set_wall", decision.quota_limits)
        write("insert_event", [event_row(e) for e in decision.events])
        write("drop_key", decision.forgotten_keys)
        write("pass_key", decision.passed_keys)
        if decision.plans:
            self._apply_to_plans(decision)

    def _apply_to_plans(self, decision: LedgerChanges) -> None:
        write = self.database.each
        payloads = decision.changed_payloads
        write("set_payload", [(i, text) for i, text in payloads if text is not None])
        write("drop_payload", [(i,) for i, text in payloads if text is None])
        for plan in decision.plans:
            write("update_task", plan.tasks)  # before the new ones: a removed task frees its key
            write("insert_task", plan.new_tasks)
            write("delete_edge", plan.lost_edges)
            write("insert_edge", plan.new_edges)
            write("update_edge", plan.edges)
            write("insert_completion", plan.completions)
            write("insert_revision", plan.revisions)
        write("update_plan", [c.plan for c in decision.plans])

    # -- claiming ---------------------------------------------------------------------------------

    def claim(self, claim: Claim, *, due_first: bool, note: Note | None = None) -> ClaimAnswer:
        agent, budgeted = self._agent_as_set(claim.agent, asks=self._seen_budgets)
        if due_first and self.due(1):
            return ClaimAnswer([], agent, due=True)
        # Read first: a claim that finds nothing does not take the write lock.
        if not self._ready(claim, agent, budgeted, 1)[0] and not self._overtakable(claim, agent, 1):
            return ClaimAnswer([], agent)
        with self.database.write():
            answer = self._start_up_to(claim)
            if answer.claimed:
                self._keep(note, answer.claimed)
            return answer

    def claim_each(self, claims: Sequence[tuple[Claim, Note | None]]) -> list[ClaimAnswer | None]:
        if self.due(1):
            return [None] * len(claims)
        with self.database.write():
            found = [self._start_up_to(claim) for claim, _ in claims]
            for (_, note), answer in zip(claims, found, strict=True):
                if answer.claimed:
                    self._keep(note, answer.claimed)
        return [answer if answer.claimed else None for answer in found]

    def _start_up_to(self, claim: Claim) -> ClaimAnswer:
        agent, budgeted = self._agent_as_set(claim.agent, asks=True)
        self._seen_budgets = budgeted
        started: list[ClaimedItem] = []
        goes_on = True
        while goes_on:
            ready, goes_on = self._ready(claim, agent, budgeted, claim.limit - len(started))
            started += self._start(claim, ready) if ready else []
        for item, owner, gone in self._overtakable(claim, agent, claim.limit - len(started)):
            if not self._has_room(agent):
                break
            if budgeted and is_bound(claim) and not self._affords(claim, agent, item):
                continue
            if self._overtake(item, owner, gone):
                started += self._start(claim, [item])
        return ClaimAnswer(started, agent)

    def _overtake(self, item: ItemId, owner: ItemId, gone: str | None) -> bool:
        """Overtake an owner. `gone` is its agent, if its absence is the only reason."""
        command = Overtake(item=item, owner=owner, gone=gone is not None)
        load = Load(items=(item, owner), presence=() if gone is None else (gone,))
        return bool(self._decide(load, lambda _: [command]).answers[0].changed)

    def _ready(
        self, claim: Claim, agent: Agent | None, budgeted: bool, limit: int
    ) -> tuple[list[ItemId], bool]:
        """The items that the agent may start now, the best first; and whether there may be more once these
        are started."""
        allowed = narrowed(replace(claim, limit=limit), agent) if limit else None
        if allowed is not None and agent is not None and _limited(agent):
            allowed = with_room(allowed, agent, *self._running(agent.key), self._pool_room(agent))
        if allowed is None:
            return [], False
        if not budgeted or not is_bound(claim):
            return [item for item, *_ in self._candidates(allowed)], False
        allowance = self._allowance(claim, agent)
        wish = affordable(allowed, allowance)
        if wish is None:
            return [], False
        step = replace(wish, limit=allowance.at_once(wish.limit))
        found = self._candidates(step, barred=allowance.barred)
        if claim.item is not None and not self._affords(claim, agent, claim.item):
            return [], False
        return [item for item, *_ in found], len(found) == step.limit < wish.limit

    def _allowance(self, claim: Claim, agent: Agent | None) -> Allowance:
        """What budgets leave for a claim."""
        pool = agent.pool if agent is not None else None
        rows = self.database.rows(
            "budgets/states",
            all=False,
            agent=claim.agent,
            pool=pool,
            limit=BUDGETS_MAX,
            now_us=self.now_us(),
        )
        return allowance_of(*states_from_rows(rows))

    def _affords(self, claim: Claim, agent: Agent | None, item: ItemId) -> bool:
        """Whether budgets leave room for an item."""
        found = self.item(item)
        return found is not None and self._allowance(claim, agent).affords(
            found.spec.project, found.spec.type
        )

    def _overtakable(self, claim: Claim, agent: Agent | None, limit: int) -> list[_Candidate]:
        """The items that the agent may start in place of a lane's owner that cannot start, with that
        owner."""
        allowed = narrowed(replace(claim, limit=limit), agent)
        if limit <= 0 or allowed is None or not self._has_room(agent):
            return []
        return self._candidates(allowed, overtaking=True)

    def _has_room(self, agent: Agent | None) -> bool:
        if agent is None or not _limited(agent):
            return True
        return has_room(agent, *self._running(agent.key), self._pool_room(agent))

    def _running(self, agent: str) -> tuple[int, int]:
        """The numbers of an agent's runs that are not edits of plans, and of those that are."""
        running, editing = self.database.rows("count_running", agent=agent)[0]
        return running, editing

    def _agent_as_set(self, key: str, *, asks: bool = False) -> tuple[Agent | None, bool]:
        """The agent without its counts; and with `asks` whether there may be a budget. It reads the clock
        only if the agent has a quota limit."""
        row = next(iter(self.database.rows("agent_as_set", key=key, asks=asks)), None)
        if row is None:
            return None, asks
        agent, budgeted = agent_from_row(row[:-1]), bool(row[-1])
        is_limited = agent.wall_us is not None and agent.wall_us > self.now_us()
        if agent.wall_us is not None and not is_limited:
            agent = replace(agent, wall_us=None, wall_why=None)
        return agent, budgeted

    def _pool_room(self, agent: Agent) -> int | None:
        room: int | None = self.database.value("pool_room", pool=agent.pool) if agent.pool else None
        return room

    def _candidates(
        self, claim: Claim, *, overtaking: bool = False, barred: Sequence[str] = ()
    ) -> list[_Candidate]:
        return self.database.rows(
            "candidates",
            agent=claim.agent,
            types=claim.types or None,
            labels=claim.labels,
            edits=claim.edits,
            only=claim.item,
            limit=claim.limit,
            overtaking=overtaking,
            barred=barred or None,
            now_us=self.now_us() if overtaking else 0,
        )

    def _start(self, claim: Claim, items: Sequence[ItemId]) -> list[ClaimedItem]:
        """Start runs of items for the claim's agent, in this order."""
        now_us = self.now_us()
        rows = self.database.rows(
            "start",
            items=items,
            first_run=self.database.reserve("run", len(items))[0],
            agent=claim.agent,
            worker=claim.worker,
            lease_s=claim.lease_s,
            external=claim.external,
            default_lease_s=self.timing.lease_s,
            now_us=now_us,
        )
        started = sorted(map(item_from_row, rows), key=lambda i: i.state.run or 0)
        self.database.each("insert_event", [event_row(_started(i, now_us)) for i in started])
        payloads = self.payloads(items)
        return [ClaimedItem(i, payloads.get(i.id)) for i in started]

    def wait_for_work(self, claim: Claim, timeout_s: float) -> bool:
        """Watch the file's change counter, which costs microseconds, and read only when it changed."""
        deadline_s = time.monotonic() + timeout_s
        version = None
        while True:
            with self.database.guard():
                self.database.check_files()
                seen = self.database.db.pragma("data_version")
            if seen != version:
                version = seen
                if self._candidates(replace(claim, limit=1)):
                    return True
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(WATCH_INTERVAL_S, left_s))

    # -- looking ----------------------------------------------------------------------------------

    def due(self, limit: int) -> list[ItemId]:
        return [item for item, _ in self.database.rows("due", now_us=self.now_us(), limit=limit)]

    def look(self, item: ItemId) -> Snapshot:
        return snapshot.look(self.database, item)

    # -- keeping ----------------------------------------------------------------------------------

    def renew(self, renewals: Sequence[Renewal]) -> dict[Handle, Item]:
        kept: dict[Handle, Item] = {}
        with self.database.write():
            now_us = self.now_us()
            for renewal in renewals:
                rows = self.database.rows(
                    "renew", now_us=now_us, seen=renewal.seen, **renewal.handle._asdict()
                )
                kept.update((renewal.handle, item_from_row(row)) for row in rows)
        return kept

    # -- settings ---------------------------------------------------------------------------------

    def see_agent(self, key: str, name: str) -> float | None:
        with self.database.write():
            self.database.rows("see_agent", key=key, name=name, now_us=self.now_us())
            agent, _ = self._agent_as_set(key)
            return agent.overtake_after_s if agent is not None else None

    def forget_keys(self, limit: int) -> int:
        with self.database.write():
            self.database.rows("forget_blocks", limit=limit)
            self.database.rows("forget_keys", now_us=self.now_us(), limit=limit)
            return self.database.db.changes()

    def skip_runs(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool:
        return self.database.skip_runs(past, armed_us=armed_us, run=run, lane=lane)

    def _repair(self, lane: str) -> None:
        self._decide(Load(lanes=(lane,)), lambda _: [Repair(lane=lane)])

    # -- health -----------------------------------------------------------------------------------

    def _own_findings(self) -> list[Finding]:
        db = self.database.db
        with self.database.guard():
            damage = [r[0] for r in db.execute("PRAGMA quick_check(10)") if r[0] != "ok"]
            loose = [f"{r[0]} row {r[1]}" for r in db.execute("PRAGMA foreign_key_check")]
        known, here = self.database.known_file(), self.database.open_file()
        drift_s = (self.now_us() - clock.wall_us()) / 1e6
        drifted = abs(drift_s) > 2 * TOLERANCE_US / US_PER_S
        return [
            Finding(
                name="file_is_sound",
                promise="The database file has no damage that SQLite can see.",
                mend="Restore a backup; `interlock migrate --after-restore` then skips used run numbers.",
                broken=(*damage, *loose),
            ),
            Finding(
                name="file_is_known",
                promise="A file that was copied or restored is noticed before anything is claimed in it.",
                mend="The next write skips the run numbers that may be in use elsewhere.",
                broken=() if known is None or known == here else (f"it was {known}, and is {here}",),
            ),
            Finding(
                name="clock_agrees",
                promise="The store's clock is within a minute of the wall clock.",
                mend="The next write takes the wall clock's time.",
                broken=(f"it is {drift_s:+.0f} s off",) if drifted else (),
            ),
        ]

    def vacuum(self) -> None:
        with self.database.guard():
            self.database.db.execute("VACUUM")


def _limited(agent: Agent) -> bool:
    return agent.max_concurrency is not None or agent.pool is not None


def _labels(item: Item) -> str | None:
    return json.dumps(item.spec.labels) if item.spec.labels else None


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
        data={"promoted_from": item.state.promoted_from, "external": item.external or None},
    )
