"""What the processes of a race do, each as soon as all are there.

A module without pytest: every process imports it.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

from interlock.contract import Report
from interlock.core.model import NewItem, Policy
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


def hold_open(talk: Connection, url: str, rounds: int) -> None:
    """Begin a transaction, say so, and commit it only when told: its lines have old numbers then."""
    service = open_service(url)
    store: Any = service.store
    for n in range(rounds):
        whole_apply = store._apply

        def slow(*args: Any, apply: Any = whole_apply) -> None:
            apply(*args)
            say(talk, "open")
            talk.recv()

        store._apply = slow
        service.add([NewItem(title=f"slow {n}")])
        store._apply = whole_apply
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
