"""A storm over workers: they, their supervisors and their agents are killed and stopped at random moments."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator

import psutil  # type: ignore[import-untyped]
import pytest

from tests.faults.stores import assert_kept
from tests.faults.workers import Site, WorkProcess

STORM_S = float(os.environ.get("INTERLOCK_STORM_S", "5"))
ITEMS, LANES, WORKERS = 30, 4, 3

#: Holds an OS lock for its lane as long as it lives: a second living process on the lane is noticed.
AGENT = """
import fcntl, os, random, sys, time
lane = open("lane-" + os.environ["INTERLOCK_LANE"].rpartition("#")[2], "w")
try:
    fcntl.flock(lane, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open("overlaps", "a").write(os.environ["INTERLOCK_RUN"] + "\\n")
time.sleep(random.uniform(0, 0.3))
sys.exit(random.choice([0, 0, 0, 1, 75]))
"""


def strike(worker: WorkProcess, dice: random.Random, hit: list[psutil.Process]) -> None:
    """Hit a worker, or something below it, which is noted in `hit`."""
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        below = psutil.Process(worker.pid).children(recursive=True)
        match dice.choice(["worker", "stop", "below", "below"]):
            case "worker":
                worker.kill()
            case "stop":
                worker.signal(signal.SIGSTOP)
                time.sleep(dice.uniform(0.1, 1.5))
                worker.signal(signal.SIGCONT)
            case "below" if below:
                hit.append(dice.choice(below))
                hit[-1].send_signal(dice.choice([signal.SIGKILL, signal.SIGSTOP]))


@pytest.fixture
def hit() -> Iterator[list[psutil.Process]]:
    """What was hit. A supervisor that was stopped before it had a command outlives its worker."""
    hit: list[psutil.Process] = []
    yield hit
    for process in hit:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def test_storm_of_killed_and_stopped_workers_never_has_two_processes_on_a_lane(
    site: Site, hit: list[psutil.Process]
) -> None:
    """Whatever is hit, no two living processes of one lane meet on this machine, and no item is lost.

    The guards one by one are the subject of the other scenarios; this is the net below them.
    """
    site.file("agent.py").write_text(AGENT)
    items = [
        site.add(f"item {n}", lane=f"issue:acme/app#{n % LANES}", lease_s=1.0, max_attempts=100)
        for n in range(ITEMS)
    ]
    seed = random.randrange(2**32)
    dice = random.Random(seed)

    def work(*options: str) -> WorkProcess:
        return site.work(f"exec {site.python} agent.py", "--max", "2", *options)

    workers = [work() for _ in range(WORKERS)]
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + STORM_S:
        time.sleep(dice.uniform(0.05, 0.4))
        n = dice.randrange(WORKERS)
        strike(workers[n], dice, hit)
        if not workers[n].alive:
            workers[n] = work()
    for worker in workers:
        worker.kill()
    calm = work()
    calm.until("ready")  # it may find nothing left to do, and be told to end at once
    for item in items:
        site.until_status(item, "completed")
    calm.signal(signal.SIGTERM)
    assert calm.ended() == 0, seed
    assert not site.file("overlaps").exists(), f"two at once with seed {seed}"
    assert not list(site.file(".interlock/runs").glob("run-*")), seed
    assert_kept(site.url, added=tuple(items))
