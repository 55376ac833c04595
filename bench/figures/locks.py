"""H: what it costs to take a lock that nobody has, and to give it back."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.databases import clear
from bench.figure import Figure, Sample
from bench.plan import Plan
from bench.rounds import Rounds
from bench.subject import NotAvailable
from interlock import settings
from interlock.app import open_lanes
from interlock.core.model import NewItem
from interlock.service.contract import LaneService, Report

LANE = "issue:acme/app#1"
#: Takes the lock and gives it back, once.
Turn = Callable[[], None]
START_TIMEOUT_S = 10


def locks(plan: Plan) -> list[Figure]:
    """H. One lock, one process, nobody else; each round times a tenth of the turns."""
    plan.rounds.say("locks that nobody else wants")
    turns = max(1, plan.locks_n // 10)
    subjects: dict[str, Callable[[], AbstractContextManager[Turn]]] = {
        "filelock (OS lock on a file)": lambda: file_lock(plan.directory),
        "redis-py Lock (in memory)": lambda: redis_lock(plan.directory),
        "PostgreSQL advisory lock": lambda: advisory_lock(plan.postgres_url),
        "Interlock on SQLite": lambda: lane_on(f"sqlite:///{plan.directory / 'locks.db'}"),
        "Interlock on PostgreSQL": lambda: lane_on(lanes_database(plan)),
        "Interlock on git (file://)": lambda: lane_on(bare_repository(plan.directory), plan.directory),
    }

    def timed(open_turn: Callable[[], AbstractContextManager[Turn]]) -> Callable[[], Sample]:
        return lambda: time_turns(open_turn, turns)

    quiet = Rounds(count=10, warm_up=True, say=lambda _: None)
    rows = quiet.interleave({name: timed(open_turn) for name, open_turn in subjects.items()})
    title = f"H. Acquire and release of a free lock, {10 * turns} times"
    return [Figure(name="locks", title=title, unit="ms", rows=rows, base="PostgreSQL advisory lock")]


def time_turns(open_turn: Callable[[], AbstractContextManager[Turn]], turns: int) -> Sample:
    with open_turn() as turn:
        turn()  # connects, prepares
        begun_s = time.perf_counter()
        for _ in range(turns):
            turn()
        return Sample(value=1_000 * (time.perf_counter() - begun_s) / turns)


@contextmanager
def file_lock(directory: Path) -> Iterator[Turn]:
    from filelock import FileLock

    lock = FileLock(directory / "a.lock")

    def turn() -> None:
        with lock:
            pass

    yield turn


@contextmanager
def redis_lock(directory: Path) -> Iterator[Turn]:
    server = shutil.which("redis-server")
    if server is None:
        raise NotAvailable("there is no redis-server on this machine")
    import redis

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.02)

        def turn() -> None:
            with client.lock(LANE, timeout=60):
                pass

        yield turn
    finally:
        client.close()
        process.terminate()
        process.wait()


@contextmanager
def advisory_lock(url: str) -> Iterator[Turn]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:

        def turn() -> None:
            connection.execute("SELECT pg_advisory_lock(1)")
            connection.execute("SELECT pg_advisory_unlock(1)")

        yield turn


def lanes_database(plan: Plan) -> str:
    clear("postgres", plan.postgres_url)
    return plan.postgres_url


def bare_repository(directory: Path) -> str:
    path = directory / "lanes.git"
    if not path.exists():
        subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
    return f"git+file://{path}"


@contextmanager
def lane_on(url: str, directory: Path | None = None) -> Iterator[Turn]:
    """A lane taken as `interlock hold` takes it: an item on it, claimed and done."""
    lanes: LaneService = open_lanes(settings.load(url=url, environ={}, directory=directory or Path("/")))
    try:

        def turn() -> None:
            item = lanes.add([NewItem(title="hold", lane=LANE, max_attempts=1)])[0].arrival
            lease = lanes.next("bench", item=item)[0]
            ended = lanes.done([Report(run=lease.run)])[0]
            assert ended.status == "succeeded"

        yield turn
    finally:
        lanes.close()
