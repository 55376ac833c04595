"""The embedded store: one SQLite file, many processes of one host.

Order comes from tickets, not from who wins the write lock: SQLite's lock is a race, not a queue.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.core.absence import Absence
from interlock.core.blocks import NO_LANE, Block, of_blocker
from interlock.core.claiming import Agent, Claim, Pool, has_room, narrowed, with_room
from interlock.core.commands import Arrive, Overtake, Repair, Tell
from interlock.core.decide import decide
from interlock.core.ending import refused_writes
from interlock.core.errors import Repeated
from interlock.core.handles import Handle
from interlock.core.ledger import Decision
from interlock.core.model import Event, EventKind, Item, ItemId, Mode, ModeRule, RunRecord
from interlock.core.names import no_pool
from interlock.core.notices import Mark
from interlock.core.plans.commands import CreatePlan, EditPlan
from interlock.core.record import replace
from interlock.core.timing import Timing, to_us
from interlock.core.workers import FORGET_AT_ONCE, FORGOTTEN_S, Worker
from interlock.store.port import Build, ClaimAnswer, ClaimedItem, Load, Outcome, Renewal, outcome_of
from interlock.store.pruning import BY_ITEM, BY_PLAN, Pruned
from interlock.store.rows import by_handle, event_row, gate_row, item_row, run_from_row, spec_row, state_row
from interlock.store.sqlite import snapshot
from interlock.store.sqlite.database import BUSY_TIMEOUT_S, SqliteDatabase
from interlock.store.sqlite.reads import SqliteReads, item_of_row

if TYPE_CHECKING:
    from interlock.store.access_port import Access, Note
    from interlock.store.metering import Meter
    from interlock.store.sqlite.github import SqliteGitHub

WATCH_INTERVAL_S = 0.005
#: An item, the owner of its lane that it may overtake, and the agent of that owner if it is gone.
_Candidate = tuple[ItemId, ItemId, str | None]
#: Which reads of tokens need the time.
_AT = ("token", "live_tokens", "has_tokens")


class SqliteStore(SqliteReads):
    """A store on one SQLite file."""

    def __init__(
        self,
        path: str | Path,
        *,
        timing: Timing | None = None,
        now: Callable[[], int] | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        migrate: bool = True,
        absence: Absence | None = None,
    ) -> None:
        database = SqliteDatabase(
            path, now=now, busy_timeout_s=busy_timeout_s, migrate=migrate, absence=absence
        )
        super().__init__(database)
        self.timing = timing or Timing()
        self.tickets = database.tickets

    # -- deciding ---------------------------------------------------------------------------------

    def transact(self, load: Load, build: Build, note: Note | None = None) -> Decision:
        with self.database.write():
            decision = self._decide(load, build)
            self._keep(note, decision)
            return decision

    #: A commit waits for the disk, and one at a time writes.
    shares_commits = True

    def together(self, works: Sequence[Callable[[], Any]]) -> list[Outcome]:
        with self.database.together():
            found = []
            for work in works:
                found.append(outcome_of(work))
                if not self.database.db.in_transaction:  # SQLite has undone all of it: a full disk, say
                    raise found[-1].error or AssertionError("the transaction is gone")
            return found

    def _keep(self, note: Note | None, done: object) -> None:
        """Keep the answer to a request in the transaction that carries it out."""
        if note is not None and (kept := note(done)) is not None:
            request, answer = kept
            params = {**request._asdict(), "answer": answer, "now_us": self.now_us()}
            if not self.database.rows("access/keep_request", **params):
                raise Repeated("The request was carried out already.", "Its answer is kept for a day.")

    def _decide(self, load: Load, build: Build) -> Decision:
        database, now_us = self.database, self.now_us()
        ids = database.reserve("item", load.arrivals)
        seen_keys = snapshot.take_keys(database, load, ids, now_us)
        known = snapshot.read(self, load, seen_keys)
        spare = tuple(database.reserve("item", known.spare_ids(frozenset(load.items), now_us)))
        commands = build(ids)
        decision = decide(known, commands, now_us, self.timing, spare)
        self._apply(decision)
        tickets = [c.ticket for c in commands if isinstance(c, Arrive | Tell)]
        tickets += [t for c in commands if isinstance(c, CreatePlan | EditPlan) for t in c.tickets]
        if tickets:
            database.rows("raise_ticket", ticket=max(tickets))
        return decision

    def _apply(self, decision: Decision) -> None:
        """Write what was decided. A row is written after the rows that it refers to."""
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
        write("set_wall", decision.walls)
        write("insert_event", [event_row(e) for e in decision.events])
        write("drop_key", decision.forgotten_keys)
        write("pass_key", decision.passed_keys)
        if decision.plans:
            self._apply_to_plans(decision)

    def _apply_to_plans(self, decision: Decision) -> None:
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

    def claim(self, wish: Claim, *, due_first: bool, note: Note | None = None) -> ClaimAnswer:
        agent = self._agent_as_set(wish.agent)
        if due_first and self.due(1):
            return ClaimAnswer([], agent, due=True)
        # A look first: a claim that finds nothing does not take the write lock.
        if not self._ready(wish, agent, 1) and not self._overtakable(wish, agent, 1):
            return ClaimAnswer([], agent)
        with self.database.write():
            started = self._start_up_to(wish)
            if started:
                self._keep(note, started)
            return ClaimAnswer(started, agent)

    def _start_up_to(self, wish: Claim) -> list[ClaimedItem]:
        agent = self._agent_as_set(wish.agent)
        ready = self._ready(wish, agent, wish.limit)
        started = self._start(wish, ready) if ready else []
        for item, owner, gone in self._overtakable(wish, agent, wish.limit - len(started)):
            if not self._has_room(agent):
                break
            if self._overtake(item, owner, gone):
                started += self._start(wish, [item])
        return started

    def _overtake(self, item: ItemId, owner: ItemId, gone: str | None) -> bool:
        """Overtake an owner; `gone` is its agent, if that alone is the reason."""
        command = Overtake(item=item, owner=owner, gone=gone is not None)
        load = Load(items=(item, owner), presence=() if gone is None else (gone,))
        return bool(self._decide(load, lambda _: [command]).answers[0].changed)

    def _ready(self, wish: Claim, agent: Agent | None, limit: int) -> list[ItemId]:
        """What the agent may start as it is, the best first."""
        allowed = narrowed(replace(wish, limit=limit), agent)
        if allowed is not None and agent is not None and _limited(agent):
            allowed = with_room(allowed, agent, *self._running(agent.key), self._pool_room(agent))
        return [item for item, *_ in self._candidates(allowed)] if allowed is not None else []

    def _overtakable(self, wish: Claim, agent: Agent | None, limit: int) -> list[_Candidate]:
        """What the agent may start in place of a lane's owner that cannot, and that owner."""
        allowed = narrowed(replace(wish, limit=limit), agent)
        if limit <= 0 or allowed is None or not self._has_room(agent):
            return []
        return self._candidates(allowed, overtaking=True)

    def _has_room(self, agent: Agent | None) -> bool:
        if agent is None or not _limited(agent):
            return True
        return has_room(agent, *self._running(agent.key), self._pool_room(agent))

    def _pool_room(self, agent: Agent) -> int | None:
        room: int | None = self.database.value("pool_room", pool=agent.pool) if agent.pool else None
        return room

    def _candidates(self, wish: Claim, *, overtaking: bool = False) -> list[_Candidate]:
        return self.database.rows(
            "candidates",
            agent=wish.agent,
            types=wish.types or None,
            labels=wish.labels,
            edits=wish.edits,
            only=wish.item,
            limit=wish.limit,
            overtaking=overtaking,
            now_us=self.now_us() if overtaking else 0,
        )

    def _start(self, wish: Claim, items: Sequence[ItemId]) -> list[ClaimedItem]:
        """Make items runs of the wish's agent, in this order."""
        now_us = self.now_us()
        rows = self.database.rows(
            "start",
            items=items,
            first_run=self.database.reserve("run", len(items))[0],
            agent=wish.agent,
            worker=wish.worker,
            lease_s=wish.lease_s,
            external=wish.external,
            default_lease_s=self.timing.lease_s,
            now_us=now_us,
        )
        started = sorted(map(item_of_row, rows), key=lambda i: i.state.run or 0)
        self.database.each("insert_event", [event_row(_started(i, now_us)) for i in started])
        payloads = self.payloads(items)
        return [ClaimedItem(i, payloads.get(i.id)) for i in started]

    def wait_for_work(self, wish: Claim, timeout_s: float) -> bool:
        """Watch the file's change counter, which costs microseconds, and look only when it moved."""
        deadline_s = time.monotonic() + timeout_s
        version = None
        while True:
            with self.database.guard():
                self.database.check_files()
                seen = self.database.db.pragma("data_version")
            if seen != version:
                version = seen
                if self._candidates(replace(wish, limit=1)):
                    return True
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(WATCH_INTERVAL_S, left_s))

    # -- keeping ----------------------------------------------------------------------------------

    def renew(self, wishes: Sequence[Renewal]) -> dict[Handle, Item]:
        kept: dict[Handle, Item] = {}
        with self.database.write():
            now_us = self.now_us()
            for wish in wishes:
                rows = self.database.rows("renew", now_us=now_us, seen=wish.seen, **wish.handle._asdict())
                kept.update((wish.handle, item_of_row(row)) for row in rows)
        return kept

    def refuse(self, handles: Sequence[Handle], wanted: str) -> dict[Handle, RunRecord]:
        with self.database.write():
            now_us = self.now_us()
            rows = self.database.rows("load_runs", runs=[h.run for h in handles])
            ended = by_handle(map(run_from_row, rows))
            events = refused_writes(handles, ended, wanted, now_us)
            self.database.each("insert_event", [event_row(e) for e in events])
            return ended

    # -- settings ---------------------------------------------------------------------------------

    def see_agent(self, key: str, name: str) -> float | None:
        with self.database.write():
            self.database.rows("see_agent", key=key, name=name, now_us=self.now_us())
            agent = self._agent_as_set(key)
            return agent.overtake_after_s if agent is not None else None

    def set_agent(self, agent: Agent, named: Sequence[str], line: Callable[[Agent], Event]) -> Agent:
        with self.database.write():
            if agent.pool is not None and not self.database.rows("pool", name=agent.pool):
                raise no_pool(agent.pool)
            if "paused_why" in named and agent.paused_why is None:
                self._renew_times_to_claim(agent=agent.key)
            self.database.rows(
                "set_agent",
                key=agent.key,
                name=agent.name,
                max_concurrency=agent.max_concurrency,
                types=agent.types,
                labels=agent.labels,
                paused_why=agent.paused_why,
                pool=agent.pool,
                overtake_after_s=agent.overtake_after_s,
                named=named,
            )
            made = self.agent(agent.key)
            assert made is not None
            self.database.each("insert_event", [event_row(line(made)._replace(at_us=self.now_us()))])
            return made

    def set_pool(self, name: str, max_concurrency: int, event: Event) -> Pool:
        with self.database.write():
            self.database.rows("set_pool", name=name, max_concurrency=max_concurrency)
            self.database.each("insert_event", [event_row(event._replace(at_us=self.now_us()))])
            return self._one_pool(name)

    def remove_agent(self, key: str, event: Event) -> bool:
        return self._remove("remove_agent", event, key=key)

    def remove_pool(self, name: str, event: Event) -> bool:
        return self._remove("remove_pool", event, name=name)

    def _remove(self, statement: str, event: Event, **params: str) -> bool:
        with self.database.write():
            gone = self.database.rows(statement, **params)
            if gone:
                self.database.each("insert_event", [event_row(event._replace(at_us=self.now_us()))])
        return bool(gone)

    def pause_project(self, project: str, why: str | None, event: Event) -> None:
        with self.database.write():
            if why is None:
                self._renew_times_to_claim(project=project)
                self.database.rows("resume_project", project=project)
            else:
                self.database.rows("pause_project", project=project, why=why)
            self.database.each("insert_event", [event_row(event._replace(at_us=self.now_us()))])

    def _renew_times_to_claim(self, *, project: str | None = None, agent: str | None = None) -> None:
        """Before a pause is lifted: nobody could claim what it held back."""
        self.database.rows("renew_times_to_claim", project=project, agent=agent, now_us=self.now_us())

    def set_mode(self, rule: ModeRule, event: Event) -> None:
        with self.database.write():
            self.database.rows("set_mode", scope=rule.scope, value=rule.value, mode=Mode(rule.mode).value)
            self.database.each("insert_event", [event_row(event._replace(at_us=self.now_us()))])

    def block(self, block: Block, event: Event) -> Block:
        with self.database.write():
            self._blocked("set_block", event, **{**block._asdict(), "at_us": self.now_us()})
            there = self.blocks_of(block.lane, [block.item])
            return next(each for each in there if each.blocker == block.blocker)

    def unblock(self, lane: str, item: ItemId, blocker: str | None, event: Event) -> list[str]:
        with self.database.write():
            return self._blocked("remove_blocks", event, lane=lane, item=item, blocker=blocker)

    def _blocked(self, name: str, event: Event, **params: Any) -> list[str]:
        """The blockers whose blocks changed, each with a line of history."""
        changed = sorted(row[0] for row in self.database.rows(name, **params))
        if changed:
            self._settle_blocks(params["lane"], params["item"])
        now = event._replace(at_us=self.now_us())
        self.database.each("insert_event", [event_row(of_blocker(now, blocker)) for blocker in changed])
        return changed

    def _settle_blocks(self, lane: str, item: ItemId) -> None:
        """Bring the flags that keep claims from what is blocked into line with its blocks."""
        if lane == NO_LANE:
            self.database.rows("settle_blocks_of_item", item=item, now_us=self.now_us())
            return
        self.database.rows("add_lanes", lanes=[lane])
        self.database.rows("settle_blocks_of_lane", lane=lane)
        self._decide(Load(lanes=(lane,)), lambda _: [Repair(lane=lane)])

    def see_worker(self, worker: Worker) -> None:
        with self.database.write():
            now_us = self.now_us()
            self.database.rows("see_worker", now_us=now_us, **worker._asdict())
            self._forget_workers(None, now_us)

    def forget_workers(self, gone: str | None) -> None:
        with self.database.write():
            self._forget_workers(gone, self.now_us())

    def _forget_workers(self, gone: str | None, now_us: int) -> None:
        before_us = now_us - to_us(FORGOTTEN_S)
        self.database.rows("forget_workers", gone=gone, before_us=before_us, limit=FORGET_AT_ONCE)

    def begin_mark(self, name: str, seq: int) -> None:
        with self.database.write():
            self.database.rows("begin_mark", name=name, seq=seq)

    def lease_mark(self, mark: Mark, token: int, lease_s: float) -> bool:
        with self.database.write():
            now_us = self.now_us()
            until_us = now_us + to_us(lease_s)
            wanted = {"name": mark.name, "seq": mark.seq, "tries": mark.tries}
            return bool(
                self.database.rows("lease_mark", token=token, until_us=until_us, now_us=now_us, **wanted)
            )

    def move_mark(
        self,
        name: str,
        token: int,
        *,
        seq: int,
        tries: int = 0,
        wait_s: float = 0.0,
        event: Event | None = None,
    ) -> bool:
        with self.database.write():
            now_us = self.now_us()
            until_us = now_us + to_us(wait_s)
            moved = self.database.rows(
                "move_mark", name=name, token=token, seq=seq, tries=tries, until_us=until_us
            )
            if moved and event is not None:
                self.database.each("insert_event", [event_row(event._replace(at_us=now_us))])
            return bool(moved)

    def forget_keys(self, limit: int) -> int:
        with self.database.write():
            self.database.rows("forget_blocks", limit=limit)
            self.database.rows("forget_keys", now_us=self.now_us(), limit=limit)
            return self.database.db.changes()

    def leap(self, past: int, *, armed_us: int, run: int, lane: str | None) -> bool:
        return self.database.leap(past, armed_us=armed_us, run=run, lane=lane)

    @property
    def github(self) -> SqliteGitHub:
        from interlock.store.sqlite.github import SqliteGitHub  # noqa: PLC0415  (few commands need it)

        return SqliteGitHub(self.database, self.now_us)

    @property
    def meter(self) -> Meter:
        from interlock.store.metering import Meter  # noqa: PLC0415  (for few)

        return Meter(self.github)

    @property
    def access(self) -> Access:
        from interlock.store.access_port import Access  # noqa: PLC0415

        def read(name: str, /, **params: Any) -> list[Any]:
            needed = {"now_us": self.now_us()} if name in _AT else {}
            return self.database.rows(f"access/{name}", **params, **needed)

        def write(name: str, /, **params: Any) -> list[Any]:
            with self.database.write():
                return self.database.rows(f"access/{name}", **params, now_us=self.now_us())

        return Access(read, write)

    # -- pruning ----------------------------------------------------------------------------------

    def prune_items(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned:
        with self._looking(really):
            database, now_us = self.database, self.now_us()
            looked = {"after": after, "limit": limit, "before_us": before_us, "now_us": now_us}
            rows = database.rows("prunable_items", **looked)
            gone = self._gone([item for _, _, item in rows if item is not None], really=really)
            return gone._replace(onward=rows[0][0] or 0)

    def prune_plans(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned:
        with self._looking(really):
            database = self.database
            rows = database.rows("prunable_plans", after=after, limit=limit, before_us=before_us)
            plans = [plan for _, plan in rows if plan is not None]
            items = [item for _, item in database.rows("items_of_plans", plans=plans)]
            if really:
                self._delete(BY_PLAN, plans)
            gone = self._gone(items, really=really)
            if really:
                self._delete((("plans", "id"),), plans)
            return gone._replace(plans=len(plans), onward=rows[0][0] or 0)

    def _looking(self, really: bool) -> AbstractContextManager[None]:
        return self.database.write() if really else nullcontext()

    def _gone(self, items: Sequence[ItemId], *, really: bool) -> Pruned:
        database = self.database
        runs = tuple(row[0] for row in database.rows("runs_of_items", items=items))
        events = database.value("count_events", items=items)
        if really:
            self._delete(BY_ITEM, items)
        return Pruned(items=len(items), events=events, runs=runs)

    def _delete(self, tables: Sequence[tuple[str, str]], gone: Sequence[int]) -> None:
        for table, column in tables:
            statement = self.database.sql["prune"].format(table=table, column=column)
            self.database.db.execute(statement, {"gone": json.dumps(gone)})

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
