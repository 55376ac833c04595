"""The guards that `--break` takes out, to show that the judges notice.

Nothing here is a switch of Interlock. The rules are replaced in the memory of child processes, and a unique
index is dropped in a store that the proof has created itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from interlock.core import arrival
from interlock.core.errors import InterlockError
from interlock.core.model import Item
from interlock.core.states import ItemStatus
from interlock.service.contract import Service

#: Each guard, and what happens without it.
GUARDS = {
    "fence": "late writes and pushes of a run that lost its lease are accepted",
    "lane": "an arrival takes its lane although another item has it",
    "lease": "no lease ends, so a dead process keeps its lane",
    "dedupe": "an arrival with a known dedupe key becomes another item",
}
#: What else is seen without a guard, where it is not obvious.
CONSEQUENCES = {
    "fence": (
        "Without the fence a late write is accepted while another run has the item: a done, fail or release"
        " ends that run, so the run's own report is then refused. A late renewal gives a lost run another"
        " lease, so the run seems to have lost it early. While no run has the item, a late write is still"
        " refused. All these refusals are counted as refused zombies."
    ),
}
#: The statements of SQLite and PostgreSQL that compare the run of a renewal with the item's, without that.
_RENEWALS = {
    "WHERE id = :item AND run = :run AND run_bits = :bits": "WHERE id = :item AND run IS NOT NULL",
    " AND w.run = l.run AND w.bits = l.run_bits": "",
    " AND i.run = k.run": "",
}


class GuardMissing(InterlockError):
    """A guard could not be taken out, so a break would show nothing."""

    code = "guard_missing"


def take_out(guard: str, service: Service) -> None:
    """Take a guard out of this process."""
    store: Any = getattr(service, "store", None)
    if store is None:
        raise GuardMissing("Guards cannot be taken out of a server.")
    module = sys.modules[type(store).__module__]
    match guard:
        case "fence":
            _replace(Item, "is_run_of", lambda _: _is_running)
            _drop_fence_of_renewals(store)
        case "lane":
            _replace(arrival, "_by_policy", _ignoring_the_owner)
        case "lease":
            _replace(Item, "overdue", _only_without_a_run)
        case _ if hasattr(module, "snapshot"):
            _replace(module.snapshot, "take_keys", lambda _: lambda *_: {})
        case _:
            _replace(type(store.transactions), "_take_keys", lambda _: lambda *_: {})


def drop_index(store: Any) -> None:
    """Drop the unique index that stands behind the rule of lanes, in a store of our own."""
    if hasattr(store.database, "pool"):
        with store.database.connection() as conn:
            conn.execute("DROP INDEX interlock.items_lane_owner")
    else:
        store.database.db.execute("DROP INDEX items_lane_owner")


def _replace(owner: Any, name: str, changed: Callable[[Any], Any]) -> None:
    found = getattr(owner, name, None)
    if found is None:
        raise GuardMissing(f"{name} is not where this guard was.")
    setattr(owner, name, changed(found))


def _is_running(item: Item, *_: object) -> bool:
    """Any run passes for the current one."""
    return item.status is ItemStatus.IN_PROGRESS


def _ignoring_the_owner(by_policy: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ledger, command, lane, _owner, _kin: by_policy(ledger, command, lane, None, [])


def _only_without_a_run(overdue: Callable[[Item, int], bool]) -> Callable[[Item, int], bool]:
    return lambda item, now_us: item.status is not ItemStatus.IN_PROGRESS and overdue(item, now_us)


def _drop_fence_of_renewals(store: Any) -> None:
    statements = store.database.sql
    text = statements["renew"]
    changed: str = text
    for old, new in _RENEWALS.items():
        changed = changed.replace(old, new)
    if changed == text:
        raise GuardMissing("The statement of renewals has no fence where it was.")
    kept = type(text)(changed)
    for name in ("names", "encoded"):  # a statement of PostgreSQL also has its parameters' names
        if hasattr(text, name):
            setattr(kept, name, changed.encode() if name == "encoded" else text.names)
    statements._texts["renew"] = kept
