"""Ids that two processes drew: after failovers in a row that lost commits, a server repeats some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from interlock.core.model import ItemId, NewItem
from interlock.core.plans.model import Graph, TaskSpec
from interlock.service.local import LocalService
from interlock.store.port import Build, Load
from interlock.store.postgres.store import PostgresStore
from tests.faults.stores import assert_kept, open_service, query

GRAPH = Graph(tasks=(TaskSpec(key="a"), TaskSpec(key="b")))


def add(service: LocalService) -> None:
    service.add([NewItem(title="work"), NewItem(title="more")])


def plan(service: LocalService) -> None:
    service.create_plan("plan", GRAPH)


@pytest.mark.parametrize("act", [add, plan])
def test_an_id_that_somebody_else_used_meanwhile_is_drawn_again(
    pg_database18: str, monkeypatch: pytest.MonkeyPatch, act: Callable[[LocalService], None]
) -> None:
    """Taken out: `_IDS` in `transact`. The call dies of `UniqueViolation`."""
    service, other = open_service(pg_database18), open_service(pg_database18)
    store = service.store
    assert isinstance(store, PostgresStore)
    transact, drawn = store.transact, list[int]()

    def meanwhile(load: Load, build: Build, *note: Any) -> object:
        def late(ids: Sequence[ItemId]) -> object:
            if not drawn:
                query(pg_database18, f"SELECT setval('item_ids', {ids[0]}, false)")
                act(other)
            drawn.append(ids[0])
            return build(ids)

        return transact(load, late, *note)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "transact", meanwhile)
    act(service)
    first, *_, last = drawn
    assert first < last
    service.close()
    other.close()
    assert_kept(pg_database18)
