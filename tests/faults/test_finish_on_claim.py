"""A finish by the process that claimed decides before it has locked the rows. What happens between?

Each race is made by hand: somebody else holds a row while the finish waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from interlock.core.model import NewItem
from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec, When
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.store import PostgresStore
from interlock.testing.clock import Clock
from tests.conformance.scene import Scene
from tests.faults.processes import PATIENCE_S, wait_until
from tests.faults.stores import open_service, query
from tests.faults.test_lock_order import deadlocks

LANE = "issue:acme/app#7"
BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


class Stage:
    """Two processes with one clock on one database, and somebody who holds rows."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = Clock()
        self.one, self.other = self.open(), self.open()
        self.scene = Scene(self.one, self.clock)
        self._threads: list[threading.Thread] = []

    def open(self) -> LocalService:
        return open_service(self.url, now=self.clock)

    @contextmanager
    def held(self, item: int) -> Iterator[None]:
        """Somebody has the row and gives it back as it was."""
        with psycopg.connect(self.url) as conn:
            conn.execute("SELECT FROM interlock.items WHERE id = %s FOR NO KEY UPDATE", (item,))
            yield
            conn.rollback()

    def begin(self, work: Callable[[], Any], *, blocked: int) -> None:
        """Let it begin in a thread, and return when so many wait for locks."""
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()
        wait_until(lambda: query(self.url, BLOCKED)[0][0] >= blocked, f"{blocked} wait for a lock")

    def finish(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def close(self) -> None:
        self.one.close()
        self.other.close()


@pytest.fixture
def stage(pg_url: str) -> Iterator[Stage]:
    stage = Stage(pg_url)
    yield stage
    stage.close()


def test_a_task_that_must_wait_again_is_not_promoted(stage: Stage) -> None:
    """Of all that stands in a line, only tasks change without its lane: their plan moves them.

    Taken out: the versions of heirs in `settle_alike.sql`; the task then runs although its predecessor
    succeeded.
    """
    holder = stage.one.add([NewItem(title="holder", lane=LANE)])[0].item
    assert holder is not None
    lease = stage.scene.claim(item=holder.id)
    graph = Graph(
        tasks=(TaskSpec(key="build"), TaskSpec(key="mend", lane=LANE)),
        edges=(EdgeSpec(source="build", target="mend", when=When.FAILURE),),
    )
    plan = stage.other.create_plan("work", graph).id
    build, mend = (task.item for task in stage.other.plan(plan).tasks)
    run = stage.other.next("coder", item=build)[0].run
    stage.other.fail([Report(run=run, retry=False)])
    assert stage.scene.status(mend) == "deferred"
    stage.other.retry(build)
    run = stage.other.next("coder", item=build)[0].run

    written, go_on = hold_before_commit(stage.other)
    succeeding = threading.Thread(target=lambda: stage.other.done([Report(run=run)]))
    succeeding.start()
    assert written.wait(PATIENCE_S)
    stage.begin(lambda: stage.one.done([Report(run=lease.run)]), blocked=1)
    go_on.set()
    succeeding.join(PATIENCE_S)
    stage.finish()
    stage.clock.advance(1)
    stage.one.sweep()
    assert stage.scene.status(holder.id) == "completed"
    assert stage.scene.status(mend) == "cancelled"


def hold_before_commit(service: LocalService) -> tuple[threading.Event, threading.Event]:
    """Its next transaction stops when all is written."""
    written, go_on = threading.Event(), threading.Event()
    store = service.store
    assert isinstance(store, PostgresStore)
    inner = store._apply

    def apply(*args: Any) -> None:
        inner(*args)
        written.set()
        assert go_on.wait(PATIENCE_S)

    store._apply = apply  # type: ignore[assignment, method-assign]
    return written, go_on


def test_no_deadline_counts_from_before_the_wait(stage: Stage) -> None:
    """Taken out: that only plain ends are written on what is remembered; the heir then ends unclaimed."""
    holder = stage.scene.put("holder", lane=LANE, lease_s=600)
    lease = stage.scene.claim()
    heir = stage.scene.put("heir", lane=LANE, claim_within_s=9)
    with stage.held(holder):
        stage.begin(lambda: stage.one.done([Report(run=lease.run)]), blocked=1)
        stage.clock.advance(14)
    stage.finish()
    stage.one.sweep()
    assert stage.scene.status(heir) == "pending"


def test_items_are_locked_in_their_order_whatever_the_order_of_the_reports(stage: Stage) -> None:
    """Taken out: that `paired` goes by the items; the finish then has the later one while it waits."""
    first, second = stage.scene.put("first"), stage.scene.put("second")
    leases = stage.one.next("coder", limit=2)
    assert [lease.item.id for lease in leases] == [first, second]
    turned = [Report(run=lease.run) for lease in reversed(leases)]
    with stage.held(first):
        stage.begin(lambda: stage.one.done(turned), blocked=1)
        with psycopg.connect(stage.url) as other:
            other.execute("SELECT FROM interlock.items WHERE id = %s FOR NO KEY UPDATE NOWAIT", (second,))
    stage.finish()
    assert stage.scene.statuses(first, second) == ["completed"] * 2


def test_arrivals_that_were_seen_before_deadlock_with_nobody(stage: Stage) -> None:
    """A finish locks who ends before who follows, whatever their numbers. A duplicate locks nobody.

    Taken out: that; two duplicates of the heir and the holder then wait in a circle with the finish.
    """
    first = stage.scene.put("first", lane=LANE, position=0)
    heir = stage.scene.put("heir", lane=LANE, position=9, dedupe_key="heir")
    holder = stage.scene.put("holder", lane=LANE, position=1, dedupe_key="holder")
    stage.scene.done(stage.scene.claim(item=first))
    lease = stage.scene.claim(item=holder)
    again = [NewItem(title="again", dedupe_key=key) for key in ("heir", "holder")]
    with stage.held(holder):
        stage.begin(lambda: stage.one.done([Report(run=lease.run)]), blocked=1)
        arriving = threading.Thread(target=lambda: stage.other.add(again))
        arriving.start()
        arriving.join(PATIENCE_S)
        assert not arriving.is_alive()
    stage.finish()
    assert stage.scene.statuses(heir, holder) == ["pending", "completed"]
    assert deadlocks(stage.url) == 0
