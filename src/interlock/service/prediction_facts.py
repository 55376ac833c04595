"""The rows that a prediction reads from a store. Their number is bounded, and none is locked."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import partial
from typing import Any, TypeVar

from interlock.core.ledger import Snapshot
from interlock.core.model import AHEAD_MAX, Item, ItemId, PlanId
from interlock.core.plans.model import EDIT_TYPE, Plan, plan_of_lane
from interlock.core.prediction import (
    Facts,
    Prediction,
    Series,
    SeriesIssue,
    after_expiry,
    goes_before,
    made_ready,
    predict,
    without_late_runs,
)
from interlock.core.states import ItemStatus
from interlock.store.budgets import BudgetStates
from interlock.store.costs import zone_of
from interlock.store.port import Store

T = TypeVar("T")

_STARTABLE = (ItemStatus.PENDING, ItemStatus.DEFERRED)
#: At most this many overdue items are read.
LATE_MAX = 20
#: Statuses of tasks whose unmet dependencies are reported.
_WAITED = (ItemStatus.WAITING, ItemStatus.CANCELLED, ItemStatus.FAILED)


class Predictions:
    """Predictions from one snapshot of a store. What several of them need is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[tuple[object, ...], Any] = {}

    def _once(self, read: Callable[..., T], *of: Hashable) -> T:
        key = (read, *of)
        if key not in self._found:
            self._found[key] = read(*of)
        found: T = self._found[key]
        return found

    def of(self, item: Item) -> Prediction:
        """What can happen to an item next. The caller reads it in the same snapshot."""
        store, once = self._store, self._once
        snapshot = once(store.look, item.id)
        near = [item, *(i for i in snapshot.items.values() if i.active)]
        plans = {i.spec.plan for i in near} | {plan_of_lane(i.spec.lane or "") for i in near}
        found = [p for plan in plans if plan is not None and (p := once(store.plan, plan)) is not None]
        now_us = once(store.now_us)
        startable, waited = item.status in _STARTABLE, item.spec.plan and item.status in _WAITED
        lined = _has_line(item, snapshot)
        named = tuple(sorted({i.spec.agent_key for i in near if i.spec.agent_key}))
        late = once(self._late, now_us) if startable else []
        agents = {a.key: a for a in once(store.limited_agents, named)} if startable else {}
        (budgets, reserves), time_zone = once(self._budgets) if startable else (BudgetStates(), UTC)
        facts = Facts(
            now_us=now_us,
            snapshot=snapshot,
            timing=store.timing,
            ahead=self._ahead(item, late, now_us) if startable else 0,
            agents=without_late_runs(agents, late),
            presence=once(store.presence, named) if named and (startable or lined) else {},
            paused_projects=once(store.paused_projects) if startable else {},
            budgets=budgets,
            reserves=reserves,
            time_zone=time_zone,
            blocks=tuple(store.blocks_of(item.spec.lane, [i.id for i in near])) if startable else (),
            series=_series(store, item, snapshot) if startable else Series(),
            plans={plan.id: plan for plan in found},
            needs=tuple(store.needs(item.id)) if waited else (),
            last_ends={p.id: _last_end(store, p) for p in found if p.edit_item in snapshot.items},
        )
        return predict(item, facts)

    def _budgets(self) -> tuple[BudgetStates, tzinfo]:
        """All budgets, and where their days begin."""
        found = self._store.budgets.states()
        return found, zone_of(self._store.costs.time_zone()) if found.states else UTC

    def _late(self, now_us: int) -> list[Item]:
        """The items that a claim would sweep first, up to a bound. An edit is also due at its plan's
        deadline."""
        found = self._store.named_items(self._store.due(LATE_MAX))
        return [i for i in found.values() if i.overdue(now_us) or i.spec.type == EDIT_TYPE]

    def _ahead(self, item: Item, late: Sequence[Item], now_us: int) -> int:
        swept = _swept_ahead(self._store, partial(self._once, self._store.look), item, late, now_us)
        return min(AHEAD_MAX, self._store.ahead_of(item) + swept)


def _has_line(item: Item, snapshot: Snapshot) -> bool:
    """Whether an item runs while others wait on its lane, which may overtake it when its run is lost."""
    return item.state.run is not None and any(
        other.status is ItemStatus.DEFERRED for other in snapshot.items.values()
    )


def _swept_ahead(
    store: Store, look: Callable[[ItemId], Snapshot], item: Item, late: Sequence[Item], now_us: int
) -> int:
    """How many items that a sweep makes ready may precede this one in the queue."""
    if item.status is not ItemStatus.PENDING:
        return 0
    ready: dict[ItemId, Item] = {}
    plans: set[PlanId] = set()
    for each in late:
        plan = each.spec.plan or plan_of_lane(each.spec.lane or "")
        if each.id == item.id or (plan is None and each.spec.lane == item.spec.lane is not None):
            continue
        simple = plan is None or (each.spec.plan is not None and each.state.run is not None)
        snapshot = look(each.id)
        after = after_expiry(each, snapshot, now_us, store.timing) if simple else {}
        if plan is not None and not (simple and after[each.id].active):
            plans.add(plan)
        ready |= {other.id: other for other in made_ready(snapshot, after)}
    more = 1 if len(late) == LATE_MAX else 0
    followers = sum(max(1, found.open_tasks) for plan in plans if (found := store.plan(plan)) is not None)
    return sum(goes_before(other, item) for other in ready.values()) + followers + more


def _series(store: Store, item: Item, snapshot: Snapshot) -> Series:
    """The active issue and the line of the series that keeps the item's lane shut."""
    gate = snapshot.gates.get(item.spec.lane) if item.spec.lane is not None else None
    if gate is None or gate.open:
        return Series()
    owner, line = store.owner(gate.series), store.line(gate.series, AHEAD_MAX)
    ids = [i.id for i in line] if owner is None else [owner.id, *(i.id for i in line)]
    return series_of(owner, line, store.payloads(ids))


def series_of(owner: Item | None, line: Sequence[Item], payloads: Mapping[ItemId, str]) -> Series:
    """The active issue and the line of a series, from the owner and the line of its lane."""

    def member(item: Item) -> SeriesIssue:
        return SeriesIssue(item.id, _number(payloads.get(item.id)))

    return Series(active=None if owner is None else member(owner), line=tuple(map(member, line)))


def _number(payload: str | None) -> int | None:
    """The issue number of an assignment."""
    found = json.loads(payload or "null")
    number = found.get("issue_number") if isinstance(found, dict) else None
    return number if isinstance(number, int) else None


def _last_end(store: Store, plan: Plan) -> tuple[tuple[int, int], ...]:
    """Number and time of the last end that no edit has answered yet, if there is one."""
    after = max(plan.answered_n, plan.last_n - 1)
    return tuple((c.completion.n, c.completion.at_us) for c in store.completions(plan.id, after=after))
