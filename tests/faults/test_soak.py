"""The soak: everything at once on PostgreSQL with a standby, for as long as `INTERLOCK_SOAK_S` says.

Workers, holds, plans and their editor, people who write and cancel; and among them kill -9, SIGSTOP,
restarts, crashes, failovers, steps of the clock and snapshots that hold vacuum back. In the end
the history checker and a second judge must find nothing, and zombies must have been refused.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.faults import traffic
from tests.faults.clocks import StoreClock
from tests.faults.fleet import Fleet
from tests.faults.pair import Pair
from tests.faults.processes import Actor, Crew, wait_until
from tests.faults.soak_traffic import edit, hold, interfere, plan
from tests.faults.stores import assert_kept, open_service, query
from tests.postgres_fixtures import StartPostgres

SOAK_S = float(os.environ.get("INTERLOCK_SOAK_S", "20"))
#: Where the figures of a soak are written, as JSON.
REPORT = os.environ.get("INTERLOCK_SOAK_REPORT")


@pytest.fixture
def pair(start_postgres: StartPostgres) -> Iterator[Pair]:
    pair = Pair(start_postgres(18), "soak")
    yield pair
    pair.remove()


class Soak:
    """A fleet and all else that uses the store, the faults, and how long each kept work from going on."""

    def __init__(self, crew: Crew, pair: Pair, clock: StoreClock, folder: Path, seed: int) -> None:
        self.pair, self.clock, self.folder = pair, clock, folder
        self.dice = random.Random(seed)
        self.fleet = Fleet(crew, pair.url, folder, seed)
        roles = (plan, edit, interfere, hold, hold)
        self.others: list[Actor] = [
            crew.start(role, pair.url, folder, self.dice.randrange(2**32)) for role in roles
        ]
        self.counts: Counter[str] = Counter()
        self.recovery_s: dict[str, list[float]] = defaultdict(list)
        self._pins: list[threading.Thread] = []
        self._small = (self.fleet.kill_one, self.fleet.stop_one)
        self._large = (self.restart, self.fail_over, self.pin, self.step_clock, self.crash)

    def fault(self) -> None:
        """Mostly processes; every eighth time something of the database, each in turn."""
        turn, small = divmod(self.counts.total(), 8)
        fault = self.dice.choice(self._small) if small else self._large[turn % len(self._large)]
        self.counts[fault.__name__] += 1
        fault()

    def complete(self) -> bool:
        """Whether every fault of the database has happened."""
        return all(self.counts[fault.__name__] for fault in self._large)

    def restart(self) -> None:
        self._recover("restart", lambda: self.pair.primary.restart("fast"))

    def crash(self) -> None:
        self._recover("crash", lambda: self.pair.primary.restart("immediate"))

    def fail_over(self) -> None:
        self._recover("failover", self.pair.fail_over)
        self.pair.rebuild()

    def _recover(self, name: str, fault: Callable[[], None]) -> None:
        """Note how long it takes from the fault until somebody is given work again."""
        claims = len(traffic.journals(self.folder, "claimed"))
        begun_s = time.monotonic()
        fault()
        wait_until(lambda: len(traffic.journals(self.folder, "claimed")) > claims, f"work after a {name}")
        self.recovery_s[name].append(time.monotonic() - begun_s)

    def step_clock(self) -> None:
        """Somebody sets the clock, by up to an hour, and work goes on."""
        self._recover("clock step", lambda: self.clock.step(self.dice.randint(-3600, 3600)))

    def pin(self) -> None:
        """Somebody's forgotten transaction: vacuum can remove nothing that died since."""

        def forget() -> None:
            try:
                with psycopg.connect(self.pair.url, autocommit=True) as conn:
                    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                    conn.execute("SELECT count(*) FROM interlock.items")
                    time.sleep(self.dice.uniform(2, 10))
            except psycopg.Error:
                pass  # the server went down meanwhile

        self._pins.append(threading.Thread(target=forget))
        self._pins[-1].start()

    def calm_down(self) -> tuple[int, ...]:
        """End all traffic: first who adds work, then the fleet, which does it, and the editor last: whatever
        people wrote to an edit that has ended is for nobody else."""
        for pin in self._pins:
            pin.join()
        plan, edit, interfere, *hold = self.others
        for actor in (plan, interfere, *hold):
            actor.tell("stop")
        plans, _, *holds = (actor.join() for actor in (plan, interfere, *hold))
        added = self.fleet.calm_down()
        edit.tell("stop")
        edits = edit.join()
        assert all([plans, edits, *holds]), "a soak without plans, edits or holds proves little"
        self.counts["plans"], self.counts["edits"] = plans, edits
        self.counts.update(f"hold exits {code}" for codes in holds for code in codes)
        return added


@pytest.mark.slow
def test_everything_at_once_breaks_no_promise(
    crew: Crew, pair: Pair, server_directory: Path, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    open_service(pair.url).close()
    soak = Soak(crew, pair, StoreClock(pair.url, server_directory), tmp_path, seed)
    for worker in soak.fleet.workers:
        wait_until(partial(traffic.journals, tmp_path, "claimed", worker.pid), "everybody is at work")
    over_s = time.monotonic() + SOAK_S
    while time.monotonic() < over_s or not soak.complete():
        soak.fault()
        time.sleep(soak.dice.uniform(0, 0.5))
    added = soak.calm_down()
    soak.fleet.haunt()
    assert not (tmp_path / "overlaps").exists(), "two commands held one lane at once"
    history = assert_kept(pair.url, added=added, done=traffic.acknowledged(tmp_path), steady_clock=False)
    kept = {text for (text,) in query(pair.url, "SELECT text FROM messages")}
    lost = [text for (text,) in traffic.journals(tmp_path, "told") if text not in kept]
    assert not lost, "messages were acknowledged and are gone"
    assert history.kinds["run.refused"] > 0, "no zombie tried to write"
    assert history.kinds["clock.stepped"] <= soak.counts["step_clock"], "a step was corrected twice"
    if REPORT:
        Path(REPORT).write_text(json.dumps(figures(soak, history.kinds), indent=1))


def figures(soak: Soak, kinds: Counter[str]) -> dict[str, object]:
    """What a soak did, for `docs/explanation/performance.md`."""
    return {
        "seconds": SOAK_S,
        "events": dict(kinds),
        "faults": dict(soak.counts),
        "recovery_s": {
            name: {"n": len(found), "median": statistics.median(found), "max": max(found)}
            for name, found in soak.recovery_s.items()
        },
    }
