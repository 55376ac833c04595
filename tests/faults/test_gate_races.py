"""Lanes of a series are shut and opened while many claim. Docstrings name the guard taken out to see a test
fail."""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from interlock.core.model import NewItem
from interlock.service.local import LocalService
from tests.faults.gate_racers import (
    LANES,
    LOOK,
    hand_over,
    hand_over_until_told,
    turn,
    work_until_told,
)
from tests.faults.processes import Actor, Crew, wait_until
from tests.faults.stores import assert_kept, open_service, query

CLAIMERS = 8
FAULTS = 20
ENDS = ("succeeded", "failed", "cancelled", "timed_out", "lost", "released")


def begun(url: str) -> LocalService:
    """A series of two lanes, the first open, each with work and with something to look at."""
    service = open_service(url)
    for lane in LANES:
        turn(service, lane, is_open=False)
        service.add([NewItem(title="work", lane=lane) for _ in range(3)])
        service.add([NewItem(title="look", lane=lane, type=LOOK)])
    assert turn(service, LANES[0], is_open=True).open
    return service


def judge(url: str) -> Counter[str]:
    """Go through the history: what began on a shut lane, what ran on both at once, and how much there was.

    Numbers of lines are drawn after the locks, so those of one item and of one lane are in their order.
    """
    found: Counter[str] = Counter()
    is_open: dict[str, bool] = {}
    running: dict[str, set[int]] = {lane: set() for lane in LANES}
    what = "SELECT e.kind, e.lane, e.run, i.type FROM events e LEFT JOIN items i ON i.id = e.item"
    for kind, lane, run, type_ in query(url, f"{what} ORDER BY e.seq"):
        if kind in ("gate.closed", "gate.opened"):
            is_open[lane] = kind == "gate.opened"
            found["handovers"] += is_open[lane]
            found["both open"] += sum(is_open.values()) > 1
        elif kind == "run.started" and type_ == LOOK:
            found["looked at a shut lane"] += not is_open[lane]
        elif kind == "run.started":
            found[f"runs on {lane}"] += 1
            found["early"] += not is_open[lane]
            running[lane].add(run)
            found["both"] += all(running.values())
        elif kind in {f"run.{end}" for end in ENDS}:
            running[lane].discard(run)
    return found


def stop_work(actors: list[Actor]) -> int:
    for actor in actors:
        actor.tell()
    return sum(actor.join() for actor in actors)


def test_nobody_works_on_a_shut_lane_or_on_two_at_once(crew: Crew, url: str) -> None:
    """Eight processes claim while two hand the series over, back and forth, each as it likes; those two are
    killed and stopped in the middle of it, and others go on from there.

    Taken out: `NOT gated` in the view `queued`, and the CHECK of the flag: early starts. Taken out:
    `busy_gate` in `_obstacle`: both lanes are open at once. The flag replaced by a look at the lane's row:
    see the next test, which does not leave that to luck.
    """
    begun(url).close()
    workers = [crew.start(work_until_told, url, n) for n in range(CLAIMERS)]
    closers = [crew.start(hand_over_until_told, url, n) for n in range(2)]
    for actor in (*workers, *closers):
        assert actor.hear() == "there"
    dice = random.Random(1)
    for n in range(FAULTS):
        time.sleep(dice.uniform(0.02, 0.15))
        which = n % 2
        if dice.random() < 0.5:
            closers[which].stop()
            time.sleep(dice.uniform(0, 0.2))
            closers[which].go_on()
        else:
            closers[which].kill()
            closers[which] = crew.start(hand_over_until_told, url, 100 + n)
            assert closers[which].hear() == "there"
    stop_work(closers)
    service = open_service(url)
    for leaving, coming in (LANES, LANES[::-1]):
        hand_over(service, leaving, coming)  # whatever was left half done, a repeat completes it
        assert [gate.lane for gate in service.gates() if gate.open] == [coming]
    service.close()
    assert stop_work(workers) > 0
    found = judge(url)
    assert (found["early"], found["both"], found["both open"]) == (0, 0, 0), found
    assert min(found[f"runs on {lane}"] for lane in LANES) > 0, found
    assert found["handovers"] > 10, found
    assert found["looked at a shut lane"] > 0, found
    assert_kept(url)


@pytest.fixture(params=["pg_database16", "pg_database18"])
def pg_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


#: A claim that has found an item, and has not locked it yet, waits here for the test.
SLOW_CLAIM = """
CREATE OR REPLACE FUNCTION interlock.fits(type text, needed text[], wanted text[], held text[], edits boolean)
    RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
    PERFORM pg_advisory_lock_shared(42);
    PERFORM pg_advisory_unlock_shared(42);
    RETURN true;
END $$
"""
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
#: What the flag is for: a claim that looks up the gate sees it as it was when the claim began.
LOOK_UP = """
ALTER TABLE interlock.items DROP CONSTRAINT items_consistent;
CREATE OR REPLACE VIEW interlock.queued AS
    SELECT id, sort_key, agent_key, project, type, coalesce(labels, '{}') COLLATE "C" AS labels,
        coalesce(plan, 0) AS plan
    FROM interlock.items i WHERE status = 'pending' AND due_us IS NULL
        AND (SELECT gate_open FROM interlock.lanes l WHERE l.lane = i.lane) IS NOT FALSE
        AND NOT EXISTS (SELECT FROM interlock.blocks b WHERE (b.lane, b.item) IN ((i.lane, 0), ('', i.id)))
"""


@pytest.mark.parametrize("guard", ["flag", "look-up"])
def test_a_claim_under_way_when_a_gate_shuts_starts_nothing(pg_url: str, guard: str) -> None:
    """With the look-up in the flag's place it starts the item, although the gate was shut before."""
    service, other = open_service(pg_url), open_service(pg_url)
    turn(service, LANES[0], is_open=True)
    service.add([NewItem(title="work", lane=LANES[0])])
    query(pg_url, SLOW_CLAIM)
    if guard == "look-up":
        query(pg_url, LOOK_UP)
    with psycopg.connect(pg_url, autocommit=True) as conn, ThreadPoolExecutor(1) as thread:
        conn.execute("SELECT pg_advisory_lock(42)")
        claim = thread.submit(other.next, "coder", lease_s=60)
        wait_until(lambda: query(pg_url, WAITING), "the claim has found the item")
        assert turn(service, LANES[0], is_open=False).run is None
        conn.execute("SELECT pg_advisory_unlock(42)")
        leases = claim.result()
    assert len(leases) == (0 if guard == "flag" else 1)
    assert judge(pg_url)["early"] == len(leases), "the judge sees it, too"
    service.close()
    other.close()


@pytest.mark.parametrize("guard", ["flag", "look-up"])
@pytest.mark.parametrize("target", ["item", "lane"])
def test_a_claim_under_way_when_something_is_blocked_starts_nothing(
    pg_url: str, target: str, guard: str
) -> None:
    """With a look at the blocks in the flags' place it starts the item, although it was blocked before."""
    service, other = open_service(pg_url), open_service(pg_url)
    (added,) = service.add([NewItem(title="work", lane="a:1")])
    assert added.item is not None
    query(pg_url, SLOW_CLAIM)
    if guard == "look-up":
        query(pg_url, LOOK_UP)
    with psycopg.connect(pg_url, autocommit=True) as conn, ThreadPoolExecutor(1) as thread:
        conn.execute("SELECT pg_advisory_lock(42)")
        claim = thread.submit(other.next, "coder", lease_s=60)
        wait_until(lambda: query(pg_url, WAITING), "the claim has found the item")
        where: dict[str, Any] = {"item": added.item.id} if target == "item" else {"lane": "a:1"}
        service.block(**where, blocker="acme/app#3", why="first that")
        conn.execute("SELECT pg_advisory_unlock(42)")
        leases = claim.result()
    assert len(leases) == (0 if guard == "flag" else 1)
    service.close()
    other.close()
