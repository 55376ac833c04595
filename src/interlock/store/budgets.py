"""A database's budgets and reserves. Each call is one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from interlock.core.budgets import BUDGETS_MAX, RESERVES_MAX, BudgetState, MoneyBudget, spent_in
from interlock.core.costs import TIME_ZONE, day_of
from interlock.core.model import Event, ItemId
from interlock.core.row import NamedTuple
from interlock.store.costs import zone_of
from interlock.store.registry import log
from interlock.store.tables import Ask, Tables

#: The parameters of `budgets/states` for all budgets.
ALL: Mapping[str, Any] = {"all": True, "agent": None, "pool": None, "limit": BUDGETS_MAX}


class BudgetStates(NamedTuple):
    """Budgets in their present periods, and the reserves of types."""

    states: tuple[BudgetState, ...] = ()
    reserves: Mapping[str, int] = MappingProxyType({})


class BudgetStore:
    """Budgets, reserves and the time zone of days."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def states(self) -> BudgetStates:
        """All budgets."""
        return states_from_rows(self._tables.read("budgets/states", **ALL))

    def reserves(self) -> dict[str, int]:
        """What runs hold back, by type."""
        return dict(self._tables.read("budgets/reserves", limit=RESERVES_MAX))

    def set(self, budget: MoneyBudget, event: Event) -> None:
        self._write("budgets/set", event, **budget._asdict())

    def remove(self, scope: str, name: str, per: str, event: Event) -> bool:
        """False if there was none."""

        def work(ask: Ask) -> bool:
            gone = bool(ask("budgets/remove", scope=scope, name=name, per=per))
            if gone:
                log(ask, [event])
            return gone

        return self._tables.writing(work)

    def reserve(self, type_: str, micro_usd: int, event: Event) -> None:
        if micro_usd:
            self._write("budgets/reserve", event, type=type_, micro_usd=micro_usd)
        else:
            self._write("budgets/drop_reserve", event, type=type_)

    def set_zone(self, time_zone: str, event: Event) -> None:
        self._write("budgets/set_zone", event, time_zone=time_zone)

    def live(self, budget: MoneyBudget, limit: int) -> list[ItemId]:
        """The items of live runs that count for a budget and were not asked to stop."""
        rows = self._tables.read("budgets/live", scope=budget.scope, name=budget.name, limit=limit)
        return [row[0] for row in rows]

    def _write(self, statement: str, event: Event, /, **params: Any) -> None:
        def work(ask: Ask) -> None:
            ask(statement, **params)
            log(ask, [event])

        self._tables.writing(work)


def states_from_rows(rows: Sequence[Sequence[Any]]) -> BudgetStates:
    """The budgets of `budgets/states`."""
    states: list[BudgetState] = []
    reserves: dict[str, int] = {}
    for scope, name, per, micro_usd, when_spent, reserved, now_us, zone, held, days in rows:
        today = day_of(now_us, zone_of(zone or TIME_ZONE))
        spent = spent_in(per, today, json.loads(days or "{}"))
        states.append(BudgetState(MoneyBudget(scope, name, per, micro_usd, when_spent), spent, reserved))
        reserves = json.loads(held or "{}")
    return BudgetStates(tuple(states), reserves)
