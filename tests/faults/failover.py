"""Processes that work on whichever of two servers takes writes, and note when each thing was acknowledged."""

from __future__ import annotations

import random
import time
from multiprocessing.connection import Connection
from pathlib import Path

from interlock.core.model import NewItem
from interlock.service.contract import Report
from tests.faults.stores import open_service
from tests.faults.traffic import LANES, TROUBLE, Journal


def work(talk: Connection, url: str, folder: Path, agent: str, seed: int) -> None:
    """Add, claim and finish until told to stop, and write down what was acknowledged, and when."""
    dice, journal, service = random.Random(seed), Journal(folder), open_service(url)
    while not talk.poll():
        asked = time.monotonic_ns()
        try:
            new = [NewItem(title="work", lane=dice.choice([*LANES, None])) for _ in range(3)]
            added = service.add(new)
            for view in added:
                journal.note("added", view.item and view.item.id, time.monotonic_ns())
            leases = service.next(agent, limit=2)
            now = time.monotonic_ns()
            for lease in leases:
                journal.note("claimed", lease.run, lease.fence, lease.item.id, lease.item.lane, asked, now)
            for ended in service.done([Report(run=lease.run) for lease in leases if dice.random() < 0.9]):
                if ended.refusal is None:
                    journal.note("done", ended.run, time.monotonic_ns())
        except TROUBLE:
            journal.note("trouble")
    service.close()
