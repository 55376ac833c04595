"""What ended long ago goes, with everything that belongs to it; what somebody may still need stays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from interlock.core.errors import InterlockError, NotFound
from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.service.retention import prune
from interlock.store.retention import (
    BY_ITEM,
    BY_PLAN,
    OF_GITHUB,
    OF_OTHER_ROWS,
    OF_SERVERS,
    OF_THE_STORE,
    Pruned,
)
from interlock.store.store_copy import TABLES
from tests.conformance.conftest import OpenService
from tests.conformance.scene import LANE, Scene

DAY_S = 24 * 3600.0
Query = Callable[[str], list[tuple[Any, ...]]]


def pruned(scene: Scene, days: float = 90, *, really: bool = True) -> Pruned:
    """What a whole pruning does."""
    total = Pruned()
    for step in prune(scene.service.store, days * DAY_S, really=really):  # type: ignore[attr-defined]
        total = total.plus(step)
    return total


def done(scene: Scene, **fields: Any) -> int:
    lease = scene.put_running(message="hello", payload='{"n": 1}', **fields)
    scene.done(lease)
    return lease.item.id


def test_every_table_is_known() -> None:
    """A new table has rows of items, of plans, of other rows, or of none of them: pruning must know."""
    others = OF_OTHER_ROWS | OF_THE_STORE | OF_SERVERS | OF_GITHUB
    assert {table for table, _ in (*BY_ITEM, *BY_PLAN)} | others == set(TABLES)


def test_what_ended_long_ago_goes_with_all_it_has(scene: Scene, query: Query) -> None:
    old = done(scene)
    dead = scene.put_running(max_attempts=1)
    scene.fail(dead, error="broken")
    waiting = scene.put("waiting", message="kept")
    scene.clock.advance(91 * DAY_S)
    young = scene.put("young")
    scene.cancel(young)

    counted = pruned(scene, really=False)
    assert scene.status(old) == "completed", "a dry run changes nothing"
    assert pruned(scene) == counted
    assert (counted.items, counted.plans, len(counted.runs)) == (1, 0, 1)
    for table, column in BY_ITEM:
        assert query(f"SELECT count(*) FROM {table} WHERE {column} = {old}") == [(0,)]
    with pytest.raises(NotFound):
        scene.service.show(old)
    with pytest.raises(NotFound):
        scene.service.retry(old)
    assert scene.statuses(dead.item.id, waiting, young) == ["failed", "pending", "cancelled"]
    assert scene.texts(waiting) == ["kept"]
    assert scene.service.stats().items == {"failed": 1, "pending": 1, "cancelled": 1}
    assert pruned(scene).items == 0


def test_a_late_report_of_a_run_that_went_is_refused(scene: Scene) -> None:
    lease = scene.put_running()
    scene.done(lease)
    scene.clock.advance(91 * DAY_S)
    assert pruned(scene).items == 1
    refusal = scene.service.done([Report(run=lease.run)])[0].refusal
    assert refusal is not None
    assert refusal.code == "lease_lost"


def test_absorbed_items_stay_as_long_as_their_absorber_and_go_with_it(scene: Scene) -> None:
    first = scene.put(lane=LANE, agent="coder", policy="coalesce", max_attempts=1)
    absorbed = scene.put(lane=LANE, agent="coder", policy="coalesce", payload='{"n": 2}')
    scene.fail(scene.claim("coder"), error="broken")
    scene.clock.advance(91 * DAY_S)
    assert pruned(scene).items == 0, "a dead letter, and what came with it"
    scene.service.retry(first)
    lease = scene.claim("coder")
    assert [m.payload for m in lease.messages] == [{"n": 2}]
    scene.done(lease, seen=1)
    scene.clock.advance(91 * DAY_S)
    assert pruned(scene).items == 2
    with pytest.raises(NotFound):
        scene.service.show(absorbed)


def test_superseded_items_go_with_the_newest(scene: Scene) -> None:
    for _ in range(4):
        scene.put(lane=LANE, agent="coder", policy="supersede")
    lease = scene.claim("coder")
    scene.clock.advance(91 * DAY_S)
    assert pruned(scene).items == 0, "their messages are with a run that lives"
    scene.service.sweep()
    lease = scene.claim("coder")
    scene.done(lease, seen=len(lease.messages))
    assert pruned(scene).items == 0
    scene.clock.advance(91 * DAY_S)
    assert pruned(scene).items == 4


def test_messages_that_a_follow_up_carries_keep_what_they_came_with(scene: Scene) -> None:
    """Taken out (`messages` in `prunable_items`): both go at once, and so does the message's payload."""
    scene.put(lane=LANE, agent="coder", policy="coalesce")
    lease = scene.claim("coder")
    scene.put(lane=LANE, agent="coder", policy="coalesce", payload='{"n": 2}')
    scene.done(lease)
    scene.clock.advance(91 * DAY_S)
    assert pruned(scene).items == 0
    follow_up = scene.claim("coder")
    assert [m.payload for m in follow_up.messages] == [{"n": 2}]
    scene.done(follow_up, seen=1)
    scene.clock.advance(91 * DAY_S)
    assert pruned(scene).items == 1
    assert pruned(scene).items == 2, "what it needed goes the next time"


def test_an_item_stays_while_its_dedupe_key_names_it(scene: Scene) -> None:
    """Taken out (`dedupe_keys` in `prunable_items`): the item goes, and the second arrival is admitted."""
    first = done(scene, dedupe_key="once")
    scene.clock.advance(2 * DAY_S)
    assert pruned(scene, days=1).items == 0
    again = scene.add(dedupe_key="once")
    assert again.decision == "duplicate"
    assert again.item is not None
    assert again.item.id == first
    scene.clock.advance(31 * DAY_S)
    assert pruned(scene, days=1).items == 1
    assert scene.add(dedupe_key="once").decision == "admitted"


def test_plans_go_as_a_whole_once_they_have_ended_well(scene: Scene, query: Query) -> None:
    graph = Graph(
        tasks=(TaskSpec(key="a", max_attempts=1), TaskSpec(key="b")),
        edges=(EdgeSpec(source="a", target="b"),),
    )
    service = scene.service
    well, badly, unfinished = (service.create_plan(name, graph).id for name in ("well", "badly", "open"))
    for lease in service.next("coder", limit=3):
        (scene.fail if lease.item.plan == badly else scene.done)(lease)
    for lease in service.next("coder", limit=2):
        (scene.done if lease.item.plan == well else scene.release)(lease)
    assert [service.plan(p).status for p in (well, badly, unfinished)] == ["completed", "failed", "running"]
    scene.clock.advance(91 * DAY_S)

    counted = pruned(scene, really=False)
    assert pruned(scene) == counted
    assert (counted.plans, counted.items) == (1, 2)
    assert {p.id for p in service.plans(ended=True)} == {badly, unfinished}
    for table, column in BY_PLAN:
        assert query(f"SELECT count(*) FROM {table} WHERE {column} = {well}") == [(0,)]
    scene.done(scene.claim())
    assert service.plan(unfinished).status == "completed"


def test_sweeps_keep_the_setting_a_little_at_a_time(
    open_service: OpenService, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.service.retention.ITEMS", 3)
    for _ in range(8):
        done(scene)
    keeps: LocalService = scene.service  # type: ignore[assignment]
    sweeps = LocalService(keeps.store, retention_s=90 * DAY_S)
    assert [sweeps.sweep().pruned for _ in range(4)] == [0] * 4
    scene.clock.advance(91 * DAY_S)
    counts = [sweeps.sweep().pruned for _ in range(14)]
    assert sum(counts) == 8
    assert max(counts) == 3
    assert keeps.sweep().pruned == 0, "without the setting nothing goes"


def test_an_item_that_is_retried_meanwhile_is_there_or_was_refused(
    open_service: OpenService, scene: Scene
) -> None:
    """Taken out (`FOR UPDATE SKIP LOCKED` in `lock_prunable_items`): a retried item goes. Without `ended_us`
    there it goes as well, but too seldom to be seen here: see test_guards."""
    items = [scene.put() for _ in range(30)]
    for item in items:
        scene.cancel(item)
    scene.clock.advance(91 * DAY_S)
    other, refused = open_service(), []

    def retry() -> None:
        for item in items:
            try:
                other.retry(item)
            except InterlockError:
                refused.append(item)

    person = threading.Thread(target=retry)
    person.start()
    for _ in range(10):
        pruned(scene)
    person.join()
    pruned(scene)
    assert {i.id for i in scene.every(limit=100)} == set(items) - set(refused)
