"""What the processes of a race do, each as soon as all are there.

A module without pytest: every process imports it.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from interlock.client import Interlock
from interlock.core.errors import EditRefused, ItemEnded, LeaseLost
from interlock.core.model import NewItem, Policy
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, TaskSpec
from interlock.service.contract import ItemFilter, NextWish, Report
from interlock.service.local import LocalService
from interlock.store.postgres import database
from tests.faults.processes import say
from tests.faults.stores import open_service, writing


def claim(talk: Connection, barrier: Barrier, url: str, agent: str, limit: int) -> list[tuple[int, int]]:
    """Claim once, all at the same moment; run and item of what was got."""
    service = open_service(url)
    service.agents()  # the connection is there before the race begins
    barrier.wait()
    leases = service.next(agent, limit=limit, lease_s=60)
    service.close()
    return [(lease.fence, lease.item.id) for lease in leases]


def claim_as(talk: Connection, barrier: Barrier, agent: str, url: str, times: int) -> list[tuple[int, int]]:
    """Claim one by one in the role of an agent."""
    service = open_service(url)
    service.agents()
    barrier.wait()
    leases = [lease for _ in range(times) for lease in service.next(agent, lease_s=60)]
    service.close()
    return [(lease.fence, lease.item.id) for lease in leases]


def claim_as_one_of_four(talk: Connection, barrier: Barrier, url: str, limit: int) -> list[tuple[int, int]]:
    """The same, for one of four agents."""
    return claim(talk, barrier, url, f"coder{os.getpid() % 4}", limit)


def end_and_claim(talk: Connection, barrier: Barrier, agent: str, url: str) -> list[int]:
    """End one run after the other, and claim with most ends, until no item waits; the items that it had."""
    dice, service = random.Random(os.getpid()), open_service(url)
    service.agents()
    barrier.wait()
    had: list[int] = []
    lease = None
    while lease is not None or not {"pending", "deferred"}.isdisjoint(service.stats().items):
        if lease is None:
            leases = service.next(agent, lease_s=60)
        elif dice.random() < 0.3:  # another racer may take the room
            service.done([Report(run=lease.run)])
            leases = []
        else:
            done = service.done([Report(run=lease.run)], next=NextWish(agent, lease_s=60))
            assert done.runs[0].refusal is None
            leases = done.leases
        lease = next(iter(leases), None)
        had += [lease.item.id] if lease is not None else []
    service.close()
    return had


def edit(talk: Connection, barrier: Barrier, url: str, items: list[int]) -> list[int]:
    """Edit each item, if it has not started; gives those that were edited."""
    service = open_service(url)
    service.agents()
    barrier.wait()
    edited = []
    for item in items:
        with contextlib.suppress(EditRefused, ItemEnded):
            service.edit(item, {"priority": 5, **({"run_after_s": 600.0} if item % 3 == 0 else {})})
            edited.append(item)
    service.close()
    return edited


def edit_or_claim(talk: Connection, barrier: Barrier, url: str, items: list[int]) -> list[Any]:
    """Every second process edits, the others claim."""
    if os.getpid() % 2:
        return edit(talk, barrier, url, items)
    return claim(talk, barrier, url, "coder", 6)


def operate(talk: Connection, barrier: Barrier, sets: str, url: str, rounds: int) -> list[str]:
    """Set one thing of an agent again and again; gives what did not stay as it was set."""
    service = open_service(url)
    service.agents()
    barrier.wait()
    undone = []
    for n in range(1, rounds + 1):
        if sets == "paused_reason":
            wanted: object = f"holiday {n}"
            service.pause_agent("coder", paused=True, why=f"holiday {n}")
            undone += [f"{lease.run} started in a pause" for lease in service.next("coder")]
        else:
            wanted = n
            service.set_agent("coder", max_concurrency=n)
        (agent,) = service.agents()
        found = getattr(agent, sets)
        undone += [f"{sets}: {wanted} became {found}"] if found != wanted else []
    service.close()
    return undone


def arrive(
    talk: Connection, barrier: Barrier, url: str, policy: str, rounds: int, message: str | None
) -> list[str]:
    service = open_service(url)
    service.agents()
    decisions = []
    for n in range(rounds):
        barrier.wait()
        lane = f"issue:acme/app#{n}"
        new = NewItem(title="arrival", lane=lane, agent="coder", policy=Policy(policy), message=message)
        decisions.append(service.add([new])[0].decision)
    service.close()
    return decisions


def sweep_once(talk: Connection, barrier: Barrier, url: str) -> int:
    service = open_service(url)
    service.agents()
    barrier.wait()
    expired = service.sweep().expired
    service.close()
    return expired


def finish_late(talk: Connection, barrier: Barrier, url: str, handle: str, word: str) -> Any:
    service = open_service(url)
    service.agents()
    barrier.wait()
    view = getattr(service, word)([Report(run=handle)])[0]
    service.close()
    return view.refusal.code if view.refusal else view.status


def hand_over(talk: Connection, barrier: Barrier, url: str, role: str, rounds: int) -> None:
    """One process finishes the owner of a lane while the other arrives at it."""
    service = open_service(url)
    for n in range(rounds):
        lane = f"issue:acme/app#{n}"
        handle = ""
        if role == "holder":
            service.add([NewItem(title="owner", lane=lane, agent=f"a{n}")])
            handle = service.next(f"a{n}", lease_s=60)[0].run
        barrier.wait()
        if role == "holder":
            assert service.done([Report(run=handle)])[0].status == "succeeded"
        else:
            service.add([NewItem(title="arrival", lane=lane, agent="other")])
        barrier.wait()
    service.close()


#: Before its lane is locked; before and after it has drawn the number of its lines.
BY_LOCK = ("lane", "announced", "drawn")


def hold_open(talk: Connection, url: str, stage: str, rounds: int) -> None:
    """Begin a transaction, say when it has come to a stage, and go on only when told. At the stages of
    `BY_LOCK` it is the test that holds it up, by a lock."""
    service = open_service(url)
    store: Any = service.store
    write = writing(service)
    apply = write.get()
    send: Any = store.claims.send if stage == "claiming" else None

    def wait() -> None:
        say(talk, "open")
        talk.recv()

    def slow_apply(*args: Any) -> None:
        if stage == "written":
            apply(*args)
        wait()
        if stage == "deciding":
            apply(*args)

    def slow_claim(conn: Any, *args: Any, **options: Any) -> Any:
        if conn.info.transaction_status != TransactionStatus.IDLE:
            wait()  # its agent is locked already
        return send(conn, *args, **options)

    for n in range(rounds):
        if stage == "claiming":
            store.claims.send = slow_claim
            service.next("slow", lease_s=60)
        else:
            if stage in BY_LOCK:
                wait()
            else:
                write.put(slow_apply)
            service.add([NewItem(title=f"slow {n}", lane="issue:acme/app#1", agent="slow")])
        say(talk, "committed")
    service.close()


def write_lines(talk: Connection, url: str) -> int:
    service = open_service(url)
    count = 0
    while not talk.poll():
        service.add([NewItem(title="quick")])
        count += 1
    service.close()
    return count


def execute(talk: Connection, url: str, statement: str) -> None:
    """A naive client: one statement, committed by itself, in a session of default settings."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(statement.encode())


def renew(talk: Connection, url: str, handle: str) -> None:
    """Renew in a session that would wait for its lock for ever, so that nothing else ends the wait."""
    database._SETTINGS["lock_timeout"] = "0"
    service = open_service(url)
    service.renew([Report(run=handle)])
    service.close()


def add_slowly(talk: Connection, url: str, lane: str, patience: str, stage: str = "locked") -> str:
    """Arrive at a lane, and say so when it is locked, or when the writes are sent and the commit is not; go
    on when told. The server's patience with open transactions is cut short, so that the test need not wait as
    long as production."""
    database._SETTINGS["idle_in_transaction_session_timeout"] = patience
    database._SETTINGS["transaction_timeout"] = patience
    service = open_service(url)
    write = writing(service)
    whole = write.get()

    def slow(*args: Any) -> None:
        write.put(whole)
        if stage == "sent":
            whole(*args)
        say(talk, "inside")
        talk.recv()
        if stage == "locked":
            whole(*args)

    write.put(slow)
    decision = service.add([NewItem(title="stopped", lane=lane)])[0].decision
    service.close()
    return decision


def add_many(talk: Connection, barrier: Barrier, url: str, count: int) -> int:
    service = open_service(url)
    barrier.wait()
    for n in range(count):
        service.add([NewItem(title=f"item {n}", lane=f"issue:acme/app#{n % 5}")])
    service.close()
    return count


def add_with_ticket(talk: Connection, url: str, title: str) -> None:
    """Arrive, and say so as soon as the place in the order of arrivals is taken."""
    service = open_service(url)
    store: Any = service.store
    tickets = store.tickets

    def take(count: int) -> Any:
        taken = tickets(count)
        say(talk, "has its ticket")
        return taken

    store.tickets = take
    service.add([NewItem(title=title, lane="issue:acme/app#1")])
    service.close()


def add_halfway(talk: Connection, url: str) -> None:
    """Arrive, and wait for ever with everything written and nothing committed."""
    service = open_service(url)
    write = writing(service)
    whole = write.get()

    def halfway(*args: Any) -> None:
        whole(*args)
        say(talk, "inside")
        talk.recv()

    write.put(halfway)
    service.add([NewItem(title="half")])


def sweep_with_wall_clock_off(talk: Connection, url: str, hours: float) -> tuple[int, int]:
    """Sweep in a process whose wall clock is off; runs expired, and the store's time there."""
    right_ns = time.time_ns
    time.time_ns = lambda: right_ns() + int(hours * 3600e9)
    time.time = lambda: time.time_ns() / 1e9
    service = open_service(url)
    swept = service.sweep().expired
    now_us = service.store.now_us()
    service.close()
    return swept, now_us


def work_in_silence(talk: Connection, url: str) -> bool:
    """Take a lease of a second through the Python client and wait in silence; whether it was done."""
    with Interlock(open_service(url)) as il, il.next("coder", wait_s=10) as lease:
        assert lease is not None
        say(talk, (lease.fence, il.service.store.now_us()))  # type: ignore[attr-defined]
        talk.recv()
        lease.done()
        return lease.ended


def finish_in_block(talk: Connection, url: str) -> str:
    """Take a lease through the Python client and leave the block when told; what it says."""
    try:
        with Interlock(open_service(url)) as il, il.next("coder", wait_s=10) as lease:
            assert lease is not None
            say(talk, "inside")
            talk.recv()
    except LeaseLost as lost:
        return lost.code
    return "done"


def play(talk: Connection, barrier: Barrier, role: tuple[str, str], url: str) -> None:
    """Finish a run, or claim whatever there is for an agent, at the same moment as others."""
    service = open_service(url)
    service.agents()
    what, name = role
    barrier.wait()
    for _ in range(6):
        if what == "finish":
            service.done([Report(run=name)])
        else:
            service.next(name, limit=2, lease_s=60)
    service.close()


def do_batches(talk: Connection, barrier: Barrier, role: str, url: str, seconds: float) -> int:
    """Batches over the same few lanes, in random order, for some time; how many."""
    dice, service = random.Random(os.getpid()), open_service(url)
    lanes = [f"issue:acme/app#{n}" for n in range(8)]
    work = {"arrivals": _arrive, "holder": _hold, "operator": _operate, "sweeper": _sweep}[role]
    barrier.wait()
    over_s, count = time.monotonic() + seconds, 0
    while time.monotonic() < over_s:
        work(service, dice, lanes)
        count += 1
    service.close()
    return count


def _arrive(service: LocalService, dice: random.Random, lanes: list[str]) -> None:
    if service.stats().items.get("deferred", 0) > 100:
        return
    service.add(
        [
            NewItem(
                title="work",
                lane=dice.choice(lanes),
                agent=dice.choice(["", "ada"]),
                policy=dice.choice(list(Policy)),
                dedupe_key=f"k{dice.randrange(200)}" if dice.random() < 0.3 else None,
                max_attempts=100,
            )
            for _ in range(dice.randint(2, 12))
        ]
    )


def _hold(service: LocalService, dice: random.Random, lanes: list[str]) -> None:
    leases = service.next(dice.choice(["ada", "bob"]), limit=8)
    dice.shuffle(leases)
    service.renew([Report(run=lease.run) for lease in leases])
    dice.shuffle(leases)
    half = len(leases) // 2
    ends, wish = [Report(run=lease.run) for lease in leases[:half]], NextWish("ada", limit=3)
    if dice.random() < 0.5:
        service.done(ends)
    else:
        leases += service.done(ends, next=wish).leases
    service.fail([Report(run=lease.run) for lease in leases[half:]])


def _operate(service: LocalService, dice: random.Random, lanes: list[str]) -> None:
    for item in dice.sample(found := service.items(ItemFilter(limit=100)), min(4, len(found))):
        with contextlib.suppress(ItemEnded):
            if dice.random() < 0.2:
                service.cancel(item.id, why="no longer wanted", force=dice.random() < 0.5)
            else:
                service.msg(item.id, "one more thing")


def _sweep(service: LocalService, dice: random.Random, lanes: list[str]) -> None:
    service.sweep()


OLD_LANE = "issue:acme/app#1"


def meet_on_new_lanes(talk: Connection, barrier: Barrier, url: str, role: str, plan: int, rounds: int) -> int:
    """One process adds a task on a new lane behind one on the old, while the other adds items on both."""
    service = open_service(url)
    service.agents()
    for n in range(rounds):
        lane = f"new:{n}"
        barrier.wait()
        if role == "editor":
            task, edge = TaskSpec(key=f"t{n}", lane=lane), EdgeSpec(source="first", target=f"t{n}")
            service.edit_plan(plan, base=n + 1, operations=[AddTask(task=task), AddEdge(edge=edge)])
        else:
            service.add([NewItem(title="arrival", lane=each) for each in (lane, OLD_LANE)])
    service.close()
    return rounds
