"""What runs used: their reports, and the sums by day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from interlock.core import names
from interlock.core.costs import DAYS_MAX, SPENDING_MAX, Cost, Spending, checked_cost, day_of
from interlock.core.endings import explain_loss
from interlock.core.handles import read_handle
from interlock.service.budgets import stop_spenders
from interlock.service.contract import CostView, SpendingView
from interlock.store.costs import zone_of
from interlock.store.port import Store

#: The days of an answer unless others are asked for.
DAYS = 7


class Costs:
    """The operations on what runs used."""

    def __init__(self, store: Store, cancel: Callable[..., object]) -> None:
        """`cancel` cancels an item whose run must not spend more."""
        self._store, self._cancel = store, cancel

    def cost(
        self,
        run: str,
        *,
        usd: float | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> CostView:
        """Report what a run has used so far, and get its total. Of each figure the greater value wins, so a
        repeated or late report changes nothing. A run that has ended or lost its lease may report too."""
        handle, reported = read_handle(run), checked_cost(usd, input_tokens, output_tokens)
        agent = self._store.run_agents([handle]).get(handle)
        total = None
        if agent is not None:
            total = self._store.costs.report(handle, agent, reported)
        if total is None:
            raise explain_loss(handle.run, None, None).error()
        assert agent is not None
        stop_spenders(self._store, self._cancel, agent, handle.item)
        return cost_view(total)

    def spending(self, *, days: int = DAYS) -> list[SpendingView]:
        """What agents, pools and projects used on each of the last days, the newest day first. At most 10,000
        rows."""
        names.check_whole("number of days", days, 1, DAYS_MAX)
        return [spending_view(each) for each in spending_since(self._store, days)]


def spending_since(store: Store, days: int, limit: int = SPENDING_MAX) -> list[Spending]:
    """The sums of the last days."""
    today = day_of(store.now_us(), zone_of(store.costs.time_zone()))
    return store.costs.spending((today - timedelta(days=days - 1)).isoformat(), limit)


def cost_view(cost: Cost) -> CostView:
    return CostView(usd=cost.usd, input_tokens=cost.input_tokens, output_tokens=cost.output_tokens)


def spending_view(spending: Spending) -> SpendingView:
    scope, name, day, cost = spending
    return SpendingView(
        scope=scope,
        name=name,
        day=day,
        usd=cost.usd,
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
    )
