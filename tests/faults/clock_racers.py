"""What processes do while the clock of their database is set. Without pytest: every process imports it."""

from __future__ import annotations

from multiprocessing.connection import Connection

from interlock.service.contract import Report
from tests.faults.processes import say
from tests.faults.stores import open_service

PAUSE_S = 0.1


def sweep_until_told(talk: Connection, url: str) -> None:
    service = open_service(url)
    service.sweep()
    say(talk, "swept")
    while not talk.poll(PAUSE_S):
        service.sweep()
    service.close()


def hold_until_told(talk: Connection, url: str, agent: str) -> list[str]:
    """Hold an item and renew it; gives what refused it."""
    service = open_service(url)
    lease = service.next(agent)[0]
    say(talk, lease.item.id)
    refusals = []
    while not talk.poll(PAUSE_S):
        view = service.renew([Report(run=lease.run)])[0]
        if view.refusal is not None:
            refusals.append(view.refusal.message)
            break
    if not refusals:
        refusals += [r.message for r in [service.done([Report(run=lease.run)])[0].refusal] if r is not None]
    service.close()
    return refusals


def claim_until_told(talk: Connection, url: str, agent: str) -> list[int]:
    """Take whatever is offered, and end it; gives the items."""
    service = open_service(url)
    service.next(agent)
    say(talk, "looking")
    taken = []
    while not talk.poll(PAUSE_S):
        for lease in service.next(agent):
            taken.append(lease.item.id)
            service.done([Report(run=lease.run)])
    service.close()
    return taken
