"""What is read of a store to predict what can happen to an item next. A bounded number of rows, no lock."""

from __future__ import annotations

from interlock.core.model import Item
from interlock.core.plans.model import plan_of_lane
from interlock.core.prediction import Facts, Prediction, predict
from interlock.core.states import ItemStatus
from interlock.store.port import Store

_STARTABLE = (ItemStatus.PENDING, ItemStatus.DEFERRED)
#: Statuses whose unmet dependencies are told.
_WAITED = (ItemStatus.WAITING, ItemStatus.CANCELLED)


def foresee(store: Store, item: Item) -> Prediction:
    """What can happen to an item next. The caller reads it at one moment, together with the item."""
    snapshot = store.look(item.id)
    near = [item, *(i for i in snapshot.items.values() if i.active)]
    plans = {i.spec.plan for i in near} | {plan_of_lane(i.spec.lane or "") for i in near}
    found = (store.plan(plan) for plan in plans if plan is not None)
    startable, waited = item.status in _STARTABLE, item.spec.plan and item.status in _WAITED
    named = {i.spec.agent_key for i in near if i.spec.agent_key}
    facts = Facts(
        now_us=store.now_us(),
        snapshot=snapshot,
        timing=store.timing,
        ahead=store.ahead_of(item) if startable else 0,
        agents={a.key: a for a in store.limited_agents(sorted(named))} if startable else {},
        paused_projects=store.paused_projects() if startable else {},
        plans={plan.id: plan for plan in found if plan is not None},
        unmet=tuple(store.unmet(item.id)) if waited else (),
    )
    return predict(item, facts)
