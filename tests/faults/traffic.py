"""Traffic: processes that add, claim, work, finish and sweep, and write down what was acknowledged to them.

A journal line is written after the acknowledgement and before anything else, in one `write`, so a journal
never claims more than its process was told, however it dies.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from interlock.core.errors import LeaseLost, StoreBusy, StoreUnavailable
from interlock.core.model import NewItem, Policy
from interlock.service.contract import LeaseView, Report, RunView
from interlock.service.local import LocalService
from tests.faults.processes import say
from tests.faults.stores import open_service, query

LANES = [f"issue:acme/app#{n}" for n in range(6)]
AGENTS = ["ada", "bob"]
#: What a store may answer while it is down or a stopped process has its lock.
TROUBLE = (StoreUnavailable, StoreBusy)
BACKLOG_MAX = 60


#: The title of items that need a label which nobody has.
IN_FRONT = "in front"
_STAND_IN_FRONT = Path(__file__).parent / "sql" / "stand_in_front.sql"


def stand_in_front(url: str, count: int) -> None:
    """Add items to a PostgreSQL store that every claim must walk past."""
    open_service(url).close()
    text = _STAND_IN_FRONT.read_text("utf-8")
    query(url, text.replace("{count}", str(count)).replace("{title}", IN_FRONT))


class Journal:
    """What was acknowledged to one process."""

    def __init__(self, folder: Path) -> None:
        name = f"{os.getpid()}-{time.monotonic_ns()}.journal"
        self._file = os.open(folder / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def note(self, kind: str, *values: Any) -> None:
        os.write(self._file, json.dumps([kind, *values]).encode() + b"\n")


def journals(folder: Path, kind: str, pid: int | str = "*") -> list[list[Any]]:
    """Everything of one kind that any process, or one of them, wrote down."""
    lines = (line for file in folder.glob(f"{pid}-*.journal") for line in file.read_text().splitlines())
    return [values for found, *values in map(json.loads, lines) if found == kind]


def acknowledged(folder: Path) -> tuple[tuple[int, int], ...]:
    """Run and item of everything that was acknowledged as done."""
    return tuple((run, item) for run, item in journals(folder, "done"))


def produce(talk: Connection, url: str, folder: Path, seed: int) -> int:
    """Keep some work on every lane, of every policy, until told to stop; how much was added."""
    dice, journal, service = random.Random(seed), Journal(folder), open_service(url)
    count, others = 0, _backlog(service)
    while not talk.poll(0.02):
        new = [_new_item(dice, count + n) for n in range(dice.randint(1, 4))]
        try:
            if _backlog(service) - others > BACKLOG_MAX:
                continue
            for view in service.add(new):
                journal.note(
                    "added", view.arrival if view.arrival is not None else view.item and view.item.id
                )
            count += len(new)
        except TROUBLE:
            journal.note("trouble")
    service.close()
    return count


def _backlog(service: LocalService) -> int:
    return sum(service.stats().items.get(s, 0) for s in ("pending", "deferred"))


def _new_item(dice: random.Random, n: int) -> NewItem:
    policy = dice.choice([Policy.QUEUE, Policy.QUEUE, Policy.COALESCE, Policy.SUPERSEDE, Policy.LATEST])
    return NewItem(
        title=f"work {n}",
        lane=dice.choice([*LANES, None]),
        agent=dice.choice(["", *AGENTS]),
        policy=policy,
        priority=dice.randint(0, 3),
        message=f"input {n}" if dice.random() < 0.5 else None,
        max_attempts=100,
    )


def work(talk: Connection, url: str, folder: Path, agent: str, seed: int) -> None:
    """Claim, work a little and finish, until told to stop. It reports late if it was stopped meanwhile."""
    dice, journal, service = random.Random(seed), Journal(folder), open_service(url)
    worker = f"w{os.getpid()}"
    while not talk.poll():
        try:
            leases = service.next(agent, limit=dice.randint(1, 3), wait_s=0.2, worker=worker)
            for lease in leases:
                journal.note("claimed", lease.run, lease.fence, lease.item.id)
            for lease in leases:
                _work_on(service, journal, dice, lease)
        except TROUBLE:
            journal.note("trouble")
    service.close()


def _work_on(service: LocalService, journal: Journal, dice: random.Random, lease: LeaseView) -> None:
    # The work itself. Some of it is long, so that a zombie comes back while its heir is still at work.
    time.sleep(dice.uniform(0.3, 0.8) if dice.random() < 0.3 else dice.uniform(0, 0.05))
    report = Report(run=lease.run, seen=len(lease.messages))
    if dice.random() < 0.3 and service.renew([report])[0].refusal is not None:
        journal.note("refused", lease.fence, lease.item.id)
        return
    chance = dice.random()
    if chance < 0.05:
        return  # forgotten: the lease must run out
    ending: Callable[[list[Report]], list[RunView]] = service.done
    if chance < 0.15:
        ending = service.fail
    elif chance < 0.25:
        ending = service.release
    view = ending([report])[0]
    if view.refusal is not None:
        journal.note("refused", lease.fence, lease.item.id)
    elif ending == service.done:
        journal.note("done", lease.fence, lease.item.id)
    else:
        journal.note("ended", lease.fence, lease.item.id)


def sweep(talk: Connection, url: str) -> int:
    """Sweep all the time until told to stop; how many runs expired."""
    service = open_service(url)
    expired = 0
    while not talk.poll(0.05):
        try:
            expired += service.sweep().expired
        except TROUBLE:
            continue
    service.close()
    return expired


def claim_and_wait(talk: Connection, url: str, agent: str, words: list[str]) -> None:
    """Claim one item and say so; then, each time it is told to, try the next word and say what came of it."""
    service = open_service(url)
    lease = service.next(agent, wait_s=10)[0]
    say(talk, (lease.run, lease.fence, lease.item.id))
    for word in words:
        talk.recv()
        try:
            if word == "inbox":
                service.inbox(lease.run)
                say(talk, "read")
                continue
            view = getattr(service, word)([Report(run=lease.run)])[0]
            say(talk, view.refusal.code if view.refusal else view.status)
        except LeaseLost as lost:
            say(talk, lost.code)
    service.close()


def unacknowledged(folder: Path, pid: int | str = "*") -> list[tuple[str, int, int]]:
    """Handle, run and item of every claim whose ending was never acknowledged to its process."""
    ended = {run for kind in ("done", "ended", "refused") for run, _ in journals(folder, kind)}
    return [(h, run, item) for h, run, item in journals(folder, "claimed", pid) if run not in ended]


def knock(url: str, journal: Journal, late: list[tuple[str, int, int]]) -> None:
    """Finish runs in the name of a process that is dead, as a packet on a slow network would."""
    service = open_service(url)
    for handle, run, item in late:
        view = service.done([Report(run=handle)])[0]
        journal.note("done" if view.refusal is None else "refused", run, item)
    service.close()
