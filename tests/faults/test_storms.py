"""Storms: many processes, and faults at random, for as long as `INTERLOCK_STORM_S` says.

Whatever happened, in the end: nothing acknowledged is lost or doubled, every item has ended, the history
keeps every promise and the doctor finds nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from interlock.proof.checker import History
from tests.faults import traffic
from tests.faults.fleet import ENOUGH_RUNS, Fleet
from tests.faults.processes import Crew, wait_until
from tests.faults.stores import assert_kept, is_sqlite, query
from tests.patience import PATIENCE_S
from tests.postgres_fixtures import StartPostgres

STORM_S = float(os.environ.get("INTERLOCK_STORM_S", "8"))
#: Of a database that crashes again and again: in so many seconds there are two or three crashes.
CRASHES_S = float(os.environ.get("INTERLOCK_STORM_S", "4"))
#: Items that nobody can do, in front of all others, so that every claim on PostgreSQL is slow.
IN_FRONT = 60_000 if STORM_S >= 60 else 3_000


def storm(
    fleet: Fleet, fault: Callable[[], None], every_s: float, *, span_s: float = STORM_S, least: int = 40
) -> History:
    over_s, faults = time.monotonic() + span_s, 0
    # On a busy machine a storm goes on until it was one.
    while (now_s := time.monotonic()) < over_s or (
        now_s < over_s + PATIENCE_S and (faults < least or not fleet.worked())
    ):
        fault()
        faults += 1
        time.sleep(fleet.dice.uniform(0, 2 * every_s))
    added = fleet.calm_down()
    fleet.haunt()
    history = assert_kept(fleet.url, added=added, done=traffic.acknowledged(fleet.folder))
    in_front = query(fleet.url, f"SELECT id FROM items WHERE title = '{traffic.IN_FRONT}'")
    ended = [i.status for i in history.items.values() if (i.id,) not in set(in_front)]
    assert set(ended) <= {"completed", "superseded", "coalesced"}
    assert len(history.runs) > ENOUGH_RUNS
    return history


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_while_workers_are_killed(crew: Crew, url: str, tmp_path: Path) -> None:
    """Guard taken out to see it fail: `item.state.run != command.run` in `core.endings.finish`, in favour of
    "while some run is at work": a ghost then finishes its heir's run.
    """
    fleet = Fleet(crew, url, tmp_path, seed=9)
    history = storm(fleet, fleet.kill_one, every_s=0.1)
    assert history.kinds["run.lost"] > 0, "no killed worker had held a lease: the storm proves nothing"
    assert history.kinds["run.refused"] > 0, "no zombie tried to write: the storm proves nothing"


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_while_workers_are_stopped_past_their_leases(
    crew: Crew, url: str, tmp_path: Path
) -> None:
    """Guard taken out to see it fail: the same; a worker is then acknowledged for a run that it had lost.

    On PostgreSQL claims are slow: whole runs come and go while one looks. See `test_history_order`.
    """
    if not is_sqlite(url):
        traffic.stand_in_front(url, IN_FRONT)
    fleet = Fleet(crew, url, tmp_path, seed=10)
    history = storm(fleet, fleet.stop_one, every_s=0.2)
    assert traffic.journals(tmp_path, "refused"), "no zombie tried to write: the storm proves nothing"
    assert history.kinds["run.refused"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("version", [16, 18])
def test_work_resumes_by_itself_after_the_database_crashed(
    crew: Crew, start_postgres: StartPostgres, tmp_path: Path, version: int
) -> None:
    """Nobody restarts a worker or a sweeper; only the server goes down, in the middle of everything."""
    server = start_postgres(version)
    fleet = Fleet(crew, server.create_database("crashing"), tmp_path, seed=version)
    for worker in fleet.workers:  # who finds no database at the start ends, and says so
        wait_until(partial(traffic.journals, tmp_path, "claimed", worker.pid), "everybody is at work")

    def crash() -> None:
        time.sleep(1.0)  # some work between two crashes
        before = len(traffic.journals(tmp_path, "claimed"))
        server.stop("immediate")
        server.start()
        wait_until(
            lambda: len(traffic.journals(tmp_path, "claimed")) > before, "work goes on after the restart"
        )

    storm(fleet, crash, every_s=0.1, span_s=CRASHES_S, least=2)
