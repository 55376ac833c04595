"""Withdraws orphaned work: its number was closed while it ran, and its run then ended unfinished.

A run continues when its issue is closed as done: the agent itself may have closed it. If that run fails or is
lost, its item would be retried. It is withdrawn instead, like the items that waited when the issue was
closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from interlock.core.model import EventKind, ItemId
from interlock.github import facts as facts_of
from interlock.github.desired_work import end_of_number
from interlock.github.orders import item_location, numbered
from interlock.github.rules import ENDING
from interlock.github.subject import subject_of
from interlock.service.event_cursor import follow
from interlock.store.github import KnownRepository
from interlock.store.port import Store, StoredEvent

#: The name of the mark that stores the position in the history.
MARK = "github.leftovers"
_UNFINISHED = frozenset(
    {EventKind.RUN_FAILED, EventKind.RUN_TIMED_OUT, EventKind.RUN_LOST, EventKind.RUN_RELEASED}
)
#: How many races with other processes may be lost.
_RACES_MAX = 10


def withdraw(store: Store) -> int:
    """Write orders to withdraw orphaned work of closed numbers; gives the count of numbers. Bounded."""
    return follow(store, MARK, lambda found, _: _order(store, found), needed=store.github.is_used)


def _order(store: Store, found: Iterable[StoredEvent]) -> int:
    ended = (each.event for each in found if each.event.kind in _UNFINISHED)
    ran = sorted({event.item for event in ended if event.item is not None})
    items = store.named_items(ran) if ran else {}
    waiting = [item.id for item in items.values() if not item.terminal and item.state.run is None]
    return sum(_withdraw(store, *where) for where in _numbers(store, waiting))


def _numbers(store: Store, items: list[ItemId]) -> set[tuple[KnownRepository, int]]:
    named = (subject_of(json.loads(payload)) for payload in store.payloads(items).values())
    made = {
        (of.repository, of.number) for of in named if of is not None and of.event and of.event not in ENDING
    }
    known = ((store.github.repository_named(name), number) for name, number in made)
    return {(repository, number) for repository, number in known if repository is not None}


def _withdraw(store: Store, repository: KnownRepository, number: int) -> bool:
    """Write the order together with the facts that cause it: a reopened number gets a later one."""
    for _ in range(_RACES_MAX):
        known = store.github.known(repository.id, number)
        facts = facts_of.from_json(json.loads(known.facts)) if known is not None else None
        if known is None or facts is None or facts.open:
            return False
        revision = known.revision + 1
        rows = numbered(revision, [end_of_number(facts, item_location(repository, number))])
        if store.github.advance(known._replace(revision=revision), rows):
            return True
    return False
