"""Budgets: how much agents, pools and projects may spend, and what happens when that is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from interlock.core import names
from interlock.core.budgets import (
    BUDGET_USD_MAX,
    BUDGETS_MAX,
    RESERVES_MAX,
    BudgetState,
    MoneyBudget,
    Period,
    WhenSpent,
    ends_us,
    told,
)
from interlock.core.costs import USD_MAX, Spender, micro
from interlock.core.cures import cure
from interlock.core.errors import InterlockError, InvalidInput, NotFound, TooLarge
from interlock.core.model import Event, EventKind, ItemId
from interlock.core.validation import signed
from interlock.service.contract import BudgetsView, BudgetView
from interlock.service.item_view import moment
from interlock.store.costs import zone_of
from interlock.store.port import Store


class Budgets:
    """The operations on budgets, on the reserves of types and on the time zone of days."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def budgets(self) -> BudgetsView:
        """All budgets with what is spent and reserved in their present periods, the reserves of types, and
        the time zone in which days begin."""
        store = self._store
        time_zone, now_us = store.costs.time_zone(), store.now_us()
        return BudgetsView(
            budgets=tuple(_view(each, now_us, time_zone) for each in store.budgets.states().states),
            reserves={name: amount / 1e6 for name, amount in store.budgets.reserves().items()},
            time_zone=time_zone,
        )

    def set_budget(
        self,
        scope: str,
        name: str,
        *,
        per: str = Period.DAY.value,
        usd: float,
        when_spent: str = WhenSpent.FINISH.value,
        by: str = "",
    ) -> BudgetsView:
        """Set how much an agent, a pool or a project may spend in each day or month.

        When it is used up, claims that count for it start nothing until the next one begins. Running work
        continues with `finish`; with `cancel` it is cancelled.
        """
        spender, key = _whose(scope, name)
        period = names.one_of("period", per, Period).value
        then = names.one_of("`when_spent`", when_spent, WhenSpent).value
        budget = MoneyBudget(spender, key, period, micro(usd, BUDGET_USD_MAX), then)
        states = self._store.budgets.states().states
        if len(states) >= BUDGETS_MAX and budget[:3] not in {state.budget[:3] for state in states}:
            raise TooLarge(f"There are {len(states):,} budgets.", "Remove one that is not needed.")
        data = {"per": period, "usd": budget.micro_usd / 1e6, "when_spent": then}
        self._store.budgets.set(budget, self._event(EventKind.BUDGET_SET, by, spender, key, data))
        return self.budgets()

    def remove_budget(
        self, scope: str, name: str, *, per: str = Period.DAY.value, by: str = ""
    ) -> BudgetsView:
        """Remove a budget. Claims no longer keep it."""
        spender, key = _whose(scope, name)
        period = names.one_of("period", per, Period).value
        event = self._event(EventKind.BUDGET_REMOVED, by, spender, key, {"per": period})
        known = {state.budget[:3] for state in self._store.budgets.states().states}
        if (spender, key, period) not in known:
            raise NotFound(
                f"There is no budget of {spender} {key} per {period}.",
                cures=(cure("budgets", "lists all budgets"),),
            )
        # If it is gone by now, another caller removed it, or the answer to an earlier attempt was lost.
        self._store.budgets.remove(spender, key, period, event)
        return self.budgets()

    def set_reserve(self, type: str, *, usd: float, by: str = "") -> BudgetsView:  # noqa: A002  (as items name it)
        """Set what a run of a type holds back of its budgets until it has reported as much; 0 for nothing."""
        names.check_name("type", type)
        amount = micro(usd, USD_MAX)
        reserves = self._store.budgets.reserves()
        if amount and len(reserves) >= RESERVES_MAX and type not in reserves:
            raise TooLarge(f"{len(reserves):,} types have a reserve.", "Set one that is not needed to 0.")
        event = self._event(EventKind.BUDGET_SET, by, data={"type": type, "usd": amount / 1e6})
        self._store.budgets.reserve(type, amount, event)
        return self.budgets()

    def set_time_zone(self, time_zone: str, *, by: str = "") -> BudgetsView:
        """Set the time zone in which days and months begin. What was spent before keeps its day."""
        names.check_text("time zone", time_zone, names.NAME_MAX_CHARS)
        try:
            zone_of(time_zone)
        except (KeyError, ValueError, OSError):
            raise InvalidInput(
                f"This machine knows no time zone {time_zone[:80]!r}.", "Use a name such as Europe/Berlin."
            ) from None
        event = self._event(EventKind.BUDGET_SET, by, data={"time_zone": time_zone})
        self._store.budgets.set_zone(time_zone, event)
        return self.budgets()

    def _event(
        self,
        kind: EventKind,
        by: str,
        scope: str | None = None,
        name: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> Event:
        named = {"scope": scope, "name": name} if scope is not None else {}
        return Event(
            self._store.now_us(),
            kind,
            "",
            project=name if scope == Spender.PROJECT else None,
            agent=name if scope == Spender.AGENT else None,
            data={"by": signed(by), **named, **(data or {})},
        )


def _whose(scope: str, name: str) -> tuple[str, str]:
    """Scope and name of a budget, as they are stored."""
    spender = names.one_of("scope", scope, Spender)
    if spender is Spender.AGENT:
        return spender.value, names.needed_agent(name)
    key = names.pool_key(name) if spender is Spender.POOL else names.check_name("project", name)
    return spender.value, key


def _view(state: BudgetState, now_us: int, time_zone: str) -> BudgetView:
    budget = state.budget
    return BudgetView(
        scope=budget.scope,
        name=budget.name,
        per=budget.per,
        usd=budget.micro_usd / 1e6,
        when_spent=budget.when_spent,
        spent_usd=state.spent / 1e6,
        reserved_usd=state.reserved / 1e6,
        left_usd=max(0, state.room) / 1e6,
        until=moment(ends_us(budget.per, now_us, zone_of(time_zone))),
    )


def stop_spenders(store: Store, cancel: Callable[..., object], agent: str, item: ItemId) -> None:
    """Cancel running work of budgets that are used up and say so. Called after a report of a run."""
    states = store.budgets.states().states
    spent = [s for s in states if s.budget.when_spent == WhenSpent.CANCEL and s.is_spent]
    if not spent or (its_item := store.item(item)) is None:
        return
    its_agent = store.agent(agent)
    mine = {(Spender.AGENT, agent), (Spender.PROJECT, its_item.spec.project)}
    if its_agent is not None and its_agent.pool is not None:
        mine.add((Spender.POOL, its_agent.pool))
    for state in spent:
        if state.budget[:2] in mine:
            for each in store.budgets.live(state.budget, names.BATCH_MAX):
                with suppress(InterlockError):  # it has ended meanwhile
                    cancel(each, why=told(state))
