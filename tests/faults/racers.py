"""What the processes of a race do, each as soon as all are there.

A module without pytest: every process imports it.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg

from interlock.contract import Report
from interlock.core.model import NewItem, Policy
from interlock.store import postgres_database
from tests.faults.processes import say
from tests.faults.stores import open_service


def claim(talk: Connection, barrier: Barrier, url: str, agent: str, limit: int) -> list[tuple[int, int]]:
    """Claim once, all at the same moment; run and item of what was got."""
    service = open_service(url)
    service.agents()  # the connection is there before the race begins
    barrier.wait()
    leases = service.next(agent, limit=limit, lease_s=60)
    service.close()
    return [(lease.fence, lease.item.id) for lease in leases]


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


def hold_open(talk: Connection, url: str, stage: str, rounds: int) -> None:
    """Begin a transaction, say when it has come to a stage, and go on only when told: then its lines have old
    numbers. At the stage `lane` it is the test that holds it up, by a lock."""
    service = open_service(url)
    store: Any = service.store
    apply, claim = store._apply, store._claim

    def wait() -> None:
        say(talk, "open")
        talk.recv()

    def slow_apply(*args: Any) -> None:
        if stage == "written":
            apply(*args)
        wait()
        if stage == "deciding":
            apply(*args)

    def slow_claim(*args: Any) -> Any:
        wait()  # its agent is locked already
        return claim(*args)

    for n in range(rounds):
        if stage == "claiming":
            store._claim = slow_claim
            service.next("slow")
        else:
            if stage == "lane":
                wait()
            else:
                store._apply = slow_apply
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
    service = open_service(url)
    service.renew([Report(run=handle)])
    service.close()


def add_slowly(talk: Connection, url: str, lane: str, idle_timeout: str) -> str:
    """Arrive at a lane, and say so when it is locked; go on when told. The server's patience with sessions
    that are idle in a transaction is cut short, so that the test need not wait as long as production."""
    postgres_database._SETTINGS["idle_in_transaction_session_timeout"] = idle_timeout
    service = open_service(url)
    store: Any = service.store
    whole_apply = store._apply

    def slow(*args: Any) -> None:
        store._apply = whole_apply
        say(talk, "inside")
        talk.recv()
        whole_apply(*args)

    store._apply = slow
    decision = service.add([NewItem(title="stopped", lane=lane)])[0].decision
    service.close()
    return decision
