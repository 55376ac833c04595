"""Agents, pools, projects, modes, blocks, workers and marks, which both databases write by the same steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from interlock.core.blocks import NO_LANE, Block, of_blocker
from interlock.core.claims import Agent, Pool
from interlock.core.endings import refused_writes
from interlock.core.handles import Handle
from interlock.core.model import Event, ItemId, Mode, ModeRule, PlanId, RunRecord
from interlock.core.names import no_pool
from interlock.core.notices import NoticeMark
from interlock.core.timing import to_us
from interlock.core.workers import FORGET_AT_ONCE, FORGOTTEN_S, WorkerRecord
from interlock.store.reads import Reads
from interlock.store.retention import BY_ITEM, BY_PLAN, Pruned, whole
from interlock.store.rows import agent_from_row, by_handle, event_rows, pool_from_row, run_from_row
from interlock.store.tables import Ask, MissingReference

if TYPE_CHECKING:
    from interlock.store.access import AccessStore
    from interlock.store.budgets import BudgetStore
    from interlock.store.costs import CostStore
    from interlock.store.github import GitHubStore
    from interlock.store.metrics import Meter
    from interlock.store.outbox import Effect
    from interlock.store.run_logs import RunLogStore


class Registry(Reads):
    """The part of a store without rules. Each backend adds `_repair` and `_wake`."""

    #: The tables with rows of a plan, and their column.
    by_plan: Sequence[tuple[str, str]] = BY_PLAN

    @abstractmethod
    def _repair(self, lane: str) -> None:
        """Let the rules repair a lane, in the current transaction."""

    def _wake(self) -> None:
        """Notify waiting claims that there may be work."""

    # -- agents, pools, projects, modes -----------------------------------------------------------

    def set_agent(self, agent: Agent, named: Sequence[str], line: Callable[[Agent], Event]) -> Agent:
        params = {
            "key": agent.key,
            "name": agent.name,
            "max_concurrency": agent.max_concurrency,
            "types": agent.types,
            "labels": agent.labels,
            "paused_why": agent.paused_why,
            "pool": agent.pool,
            "overtake_after_s": agent.overtake_after_s,
            "named": named,
        }

        def work(ask: Ask) -> Agent:
            if "paused_why" in named and agent.paused_why is None:
                self.tables.lock("agent", agent=agent.key)  # before its items, as claims do
                ask("renew_times_to_claim", project=None, agent=agent.key)
            ask("set_agent", **params)
            made = agent_from_row(ask("agent", agent=agent.key)[0])
            log(ask, [line(made)])
            return made

        try:
            return self.tables.writing(work)
        except MissingReference:
            raise no_pool(agent.pool) from None

    def set_pool(self, name: str, max_concurrency: int, event: Event) -> Pool:
        def work(ask: Ask) -> Pool:
            ask("set_pool", name=name, max_concurrency=max_concurrency)
            log(ask, [event])
            return pool_from_row(ask("pool", pool=name)[0])

        return self.tables.writing(work)

    def remove_agent(self, key: str, event: Event) -> bool:
        return self._remove("agent", event, agent=key)

    def remove_pool(self, name: str, event: Event) -> bool:
        try:
            return self._remove("pool", event, pool=name)
        except MissingReference:  # an agent joined it meanwhile
            return False

    def _remove(self, what: str, event: Event, **of: str) -> bool:
        def work(ask: Ask) -> bool:
            self.tables.lock(what, **of)  # claims under its limit have ended
            gone = bool(ask(f"remove_{what}", **of))
            if gone:
                log(ask, [event])
            return gone

        return self.tables.writing(work)

    def pause_project(self, project: str, why: str | None, event: Event) -> None:
        def work(ask: Ask) -> None:
            if why is None:
                ask("renew_times_to_claim", project=project, agent=None)
                ask("resume_project", project=project)
            else:
                ask("pause_project", project=project, why=why)
            log(ask, [event])

        self.tables.writing(work)
        self._wake()

    def set_mode(self, rule: ModeRule, event: Event) -> None:
        def work(ask: Ask) -> None:
            ask("set_mode", scope=rule.scope, value=rule.value, mode=Mode(rule.mode).value)
            log(ask, [event])

        self.tables.writing(work)

    # -- blocks -----------------------------------------------------------------------------------

    def block(self, block: Block, event: Event) -> Block:
        def work(ask: Ask) -> Block:
            self._blocked(ask, "set_block", event, **block._asdict())
            # Its row is locked, even if nothing was written.
            there = map(Block._make, ask("blocks_of", lane=block.lane, items=[block.item]))
            return next(each for each in there if each.blocker == block.blocker)

        return self.tables.writing(work)

    def unblock(self, lane: str, item: ItemId, blocker: str | None, event: Event) -> list[str]:
        of = {"lane": lane, "item": item, "blocker": blocker}
        gone = self.tables.writing(lambda ask: self._blocked(ask, "remove_blocks", event, **of))
        self._wake()
        return gone

    def _blocked(self, ask: Ask, name: str, event: Event, **params: Any) -> list[str]:
        """The blockers whose blocks changed, each with an event.

        A later statement than the one that locked the lane or the item sets the flags that keep claims from
        blocked items: it reads all current blocks."""
        lane = params["lane"]
        if lane != NO_LANE:  # a change of its blocks locks an item
            ask("add_lanes", lanes=[lane])
            self.tables.lock("lane", lane=lane)
        changed = sorted(row[0] for row in ask(name, **params))
        if changed and lane == NO_LANE:
            ask("settle_blocks_of_item", item=params["item"])
        elif changed:
            ask("settle_blocks_of_lane", lane=lane)
            self._repair(lane)
        log(ask, [of_blocker(event, blocker) for blocker in changed])
        return changed

    # -- workers and marks ------------------------------------------------------------------------

    def see_workers(self, workers: Sequence[WorkerRecord]) -> None:
        def work(ask: Ask) -> None:
            for worker in sorted(workers, key=lambda w: w.name):
                ask("see_worker", **worker._asdict())
            ask("forget_workers", gone=None, kept_us=to_us(FORGOTTEN_S), limit=FORGET_AT_ONCE)

        write = self.tables.writing_each if len(workers) == 1 else self.tables.writing
        write(work)

    def forget_workers(self, gone: str | None) -> None:
        self.tables.write("forget_workers", gone=gone, kept_us=to_us(FORGOTTEN_S), limit=FORGET_AT_ONCE)

    def begin_mark(self, name: str, seq: int) -> None:
        self.tables.write("begin_mark", name=name, seq=seq)

    def lease_mark(self, mark: NoticeMark, token: int, lease_s: float) -> bool:
        wanted = {"name": mark.name, "seq": mark.seq, "tries": mark.tries, "token": token}
        return bool(self.tables.write("lease_mark", lease_us=to_us(lease_s), **wanted))

    def move_mark(
        self,
        name: str,
        token: int,
        *,
        seq: int,
        tries: int = 0,
        wait_s: float = 0.0,
        event: Event | None = None,
        effects: Sequence[Effect] = (),
    ) -> bool:
        to = {"name": name, "token": token, "seq": seq, "tries": tries, "wait_us": to_us(wait_s)}

        def work(ask: Ask) -> bool:
            moved = bool(ask("move_mark", **to))
            if moved and effects:
                from interlock.store.outbox import enqueue  # noqa: PLC0415  (few stores have receivers)

                enqueue(ask, effects)
            if moved and event is not None:
                log(ask, [event])
            return moved

        return self.tables.writing(work)

    # -- history ----------------------------------------------------------------------------------

    def refuse(self, handles: Sequence[Handle], wanted: str) -> dict[Handle, RunRecord]:
        def work(ask: Ask) -> dict[Handle, RunRecord]:
            rows = ask("load_runs", runs=[handle.run for handle in handles])
            ended = by_handle(map(run_from_row, rows))
            log(ask, refused_writes(handles, ended, wanted, 0))
            return ended

        return self.tables.writing(work)

    # -- pruning ----------------------------------------------------------------------------------

    def prune_items(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned:
        looked = {"after": after, "limit": limit, "before_us": before_us, "now_us": self.now_us()}

        def work(ask: Ask) -> Pruned:
            rows = ask("prunable_items", **looked)
            groups = [(root, item) for _, root, item in rows if item is not None]
            items = self._prunable_items(groups, before_us, really=really)
            return self._prune(ask, items, really=really)._replace(onward=rows[0][0] or 0)

        return self.tables.writing(work) if really else self.tables.reading(work)

    def prune_plans(self, before_us: int, after: int, limit: int, *, really: bool) -> Pruned:
        looked = {"after": after, "limit": limit, "before_us": before_us}

        def work(ask: Ask) -> Pruned:
            rows = ask("prunable_plans", **looked)
            plans = [plan for _, plan in rows if plan is not None]
            if really:
                plans = self.tables.still_prunable("plans", plans, before_us)
            groups = ask("items_of_plans", plans=plans)
            items = self._prunable_items(groups, before_us, really=really)
            broken = {plan for plan, item in groups if item not in set(items)}
            plans = [plan for plan in plans if plan not in broken]
            if really:
                self._delete(self.by_plan, plans)
            gone = self._prune(ask, items, really=really)
            if really:
                self._delete((("plans", "id"),), plans)
            return gone._replace(plans=len(plans), onward=rows[0][0] or 0)

        return self.tables.writing(work) if really else self.tables.reading(work)

    def erase(self, items: Sequence[ItemId], plans: Sequence[PlanId]) -> None:
        def work(ask: Ask) -> None:
            self._delete(self.by_plan, plans)
            self._uncount(ask, items)
            self._delete(BY_ITEM, items)
            self._delete((("plans", "id"),), plans)

        self.tables.writing(work)

    def _prunable_items(
        self, groups: Iterable[tuple[int, int]], before_us: int, *, really: bool
    ) -> list[int]:
        """The items of groups. Before deletion, only those of unchanged groups."""
        items = [item for _, item in groups]
        return whole(groups, self.tables.still_prunable("items", items, before_us)) if really else items

    def _prune(self, ask: Ask, items: Sequence[int], *, really: bool) -> Pruned:
        runs = tuple(row[0] for row in ask("runs_of_items", items=items))
        events = ask("count_events", items=items)[0][0]
        if really:
            self._uncount(ask, items)
            self._delete(BY_ITEM, items)
        return Pruned(items=len(items), events=events, runs=runs)

    def _uncount(self, ask: Ask, items: Sequence[int]) -> None:
        """Subtract items from the counts, where no trigger does."""

    def _delete(self, tables: Iterable[tuple[str, str]], gone: Sequence[int]) -> None:
        for table, column in tables if gone else ():
            self.tables.delete(table, column, gone)

    # -- rarely needed parts ----------------------------------------------------------------------

    @property
    def github(self) -> GitHubStore:
        from interlock.store.github import GitHubStore  # noqa: PLC0415

        return GitHubStore(self.tables)

    @property
    def run_logs(self) -> RunLogStore:
        from interlock.store.run_logs import RunLogStore  # noqa: PLC0415

        return RunLogStore(self.tables)

    @property
    def meter(self) -> Meter:
        from interlock.store.metrics import Meter  # noqa: PLC0415

        return Meter(self.tables)

    @property
    def costs(self) -> CostStore:
        from interlock.store.costs import CostStore  # noqa: PLC0415

        return CostStore(self.tables)

    @property
    def budgets(self) -> BudgetStore:
        from interlock.store.budgets import BudgetStore  # noqa: PLC0415

        return BudgetStore(self.tables)

    @property
    def access(self) -> AccessStore:
        from interlock.store.access import AccessStore  # noqa: PLC0415

        return AccessStore(self.tables)


def log(ask: Ask, events: Sequence[Event]) -> None:
    """Write events with the current time, after all locks of their transaction."""
    if events:
        ask("insert_events", rows=event_rows(events))
