"""Work that nobody wants any more: its number was closed while it ran, and its run then ended unfinished.

A run goes on when its issue is closed as done: the agent itself may have closed it. If that run fails or is
lost, its item would be tried again. It is withdrawn instead, as what waited was when the issue was closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from interlock.core.model import ANOTHER_SYSTEM, EventKind, ItemId
from interlock.github import facts as facts_of
from interlock.github.about import about
from interlock.github.orders import following, place_of
from interlock.github.rules import ENDING
from interlock.github.wanted import leaving
from interlock.service.history import follow
from interlock.store.github_port import Repository
from interlock.store.port import Store, StoredEvent

#: How far the history was followed, as the store knows it.
MARK = "github.leftovers"
_UNFINISHED = frozenset(
    {EventKind.RUN_FAILED, EventKind.RUN_TIMED_OUT, EventKind.RUN_LOST, EventKind.RUN_RELEASED}
)
#: How often somebody else may be first.
_RACES_MAX = 10


def withdraw(store: Store) -> int:
    """Order that what was left on closed numbers is withdrawn; gives of how many numbers. Bounded."""
    return follow(store, MARK, lambda found, _: _order(store, found))


def _order(store: Store, found: Iterable[StoredEvent]) -> int:
    ended = (each.event for each in found if each.event.kind in _UNFINISHED)
    ran = sorted({event.item for event in ended if event.item is not None})
    items = store.named_items(ran) if ran else {}
    waiting = [item.id for item in items.values() if not item.terminal and item.state.run is None]
    return sum(_withdraw(store, *where) for where in _numbers(store, waiting))


def _numbers(store: Store, items: list[ItemId]) -> set[tuple[Repository, int]]:
    named = (about(json.loads(payload)) for payload in store.payloads(items).values())
    made = {
        (of.repository, of.number) for of in named if of is not None and of.event and of.event not in ENDING
    }
    known = ((store.github.repository_named(name), number) for name, number in made)
    return {(repository, number) for repository, number in known if repository is not None}


def _withdraw(store: Store, repository: Repository, number: int) -> bool:
    """Write the order beside the facts that are its reason: who reopens the number gives a later one."""
    for _ in range(_RACES_MAX):
        known = store.github.known(repository.id, number)
        facts = facts_of.from_json(json.loads(known.facts)) if known is not None else None
        if known is None or facts is None or facts.open:
            return False
        revision = known.revision + 1
        place = place_of(repository, number)
        follows = following(revision, [leaving(facts)], facts, place, ANOTHER_SYSTEM)
        if store.github.advance(known._replace(revision=revision), follows):
            return True
    return False
