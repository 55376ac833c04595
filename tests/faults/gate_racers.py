"""What processes do to two lanes of a series at once. A module without pytest: every process imports it."""

from __future__ import annotations

import random
import time
from multiprocessing.connection import Connection

from interlock.core.errors import InterlockError
from interlock.core.model import NewItem
from interlock.service.contract import GateView, Report
from interlock.service.local import LocalService
from tests.faults.processes import say
from tests.faults.stores import open_service

SERIES = "series:acme/app/RFC-093"
LANES = ("issue:acme/app#1", "issue:acme/app#2")
LOOK = "look"


def turn(service: LocalService, lane: str, *, is_open: bool) -> GateView:
    return service.set_gate(lane, series=SERIES, open=is_open, exempt=[LOOK], why="a turn")


def hand_over(service: LocalService, leaving: str, coming: str) -> None:
    """Shut one lane, wait until nobody works there, open the other; from whatever state it finds."""
    while True:
        left = turn(service, leaving, is_open=False).run is None
        if left and turn(service, coming, is_open=True).open:
            return
        service.sweep()
        time.sleep(0.001)


def work_until_told(talk: Connection, url: str, seed: int) -> int:
    """Claim whatever there is, work for a moment and add as much again to the lane, until the test says a
    word. Gives how much was done."""
    service, dice, done = open_service(url), random.Random(seed), 0
    say(talk, "there")
    while not talk.poll():
        for lease in service.next("coder", lease_s=30, wait_s=0.05):
            time.sleep(dice.choice((0, 0, 0.002, 0.01)))
            if service.renew([Report(run=lease.run)])[0].cancel_requested:
                service.release([Report(run=lease.run)])
                continue
            service.done([Report(run=lease.run)])
            service.add([NewItem(title="more", lane=lease.item.lane, type=lease.item.type)])
            done += 1
    service.close()
    return done


def hand_over_until_told(talk: Connection, url: str, seed: int) -> int:
    """Hand the series over, back and forth, until the test says a word. Gives how often."""
    service, dice, count = open_service(url), random.Random(seed), 0
    say(talk, "there")
    while not talk.poll():
        try:
            hand_over(service, *dice.sample(LANES, 2))
        except InterlockError:  # somebody who was stopped keeps a lock
            continue
        count += 1
        time.sleep(dice.choice((0, 0.005, 0.02)))
    service.close()
    return count
