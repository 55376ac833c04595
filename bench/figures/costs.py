"""D: what each use case costs in a store of a thousand, a hundred thousand and a million items."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.backlog import Backlog
from bench.databases import interlock_at
from bench.figure import Figure, Row, Sample, Target, divided
from bench.plan import Plan
from bench.subject import Store
from interlock.core.model import NewItem
from interlock.service.contract import ItemFilter, LeaseView, Report, Service

TITLES: dict[Store, str] = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
AGENT = "coder"
#: Longer than the measurement, so that no claim has to sweep.
LEASE_S = 3_600
RATIO_MAX = 2
#: What a person sees of a list or of the history.
PAGE = 50


def costs(plan: Plan) -> list[Figure]:
    """D. Every use case on both stores."""
    return [on_store(plan, store) for store in TITLES]


def backlog(items: int) -> Backlog:
    """Of every hundred items 90 ended, 4 stand on two lanes, 3 wait for another agent and 3 for anyone."""
    part = items // 100
    return Backlog(
        name=f"{items:,} items", finished=90 * part, lanes=2 * part, for_others=3 * part, pending=3 * part
    )


@dataclass(slots=True, kw_only=True)
class Place:
    """A service on one store, and what its use cases took, in ms."""

    name: str
    service: Service
    #: An item that waits behind the owner of a lane.
    waiting: int
    lane: str
    spans_ms: dict[str, list[float]] = field(default_factory=dict)

    def timed(self, use_case: str, work: Callable[[], list[LeaseView] | object]) -> object:
        begun_s = time.perf_counter()
        answer = work()
        self.spans_ms.setdefault(use_case, []).append(1_000 * (time.perf_counter() - begun_s))
        return answer


def on_store(plan: Plan, store: Store) -> Figure:
    with ExitStack() as stack:
        places = []
        for number, items in enumerate(plan.cost_sizes):
            made = backlog(items)
            plan.rounds.say(f"use cases on {TITLES[store]}: filling {made.name}")
            name = f"costs{number}"
            url = plan.new_database(name) if store == "postgres" else str(plan.directory / f"{name}.db")
            made.make(store, url)
            service = stack.enter_context(interlock_at(store, url))
            first = made.finished + 1
            places.append(Place(name=made.name, service=service, waiting=first + 1, lane=f"line:{first}"))
        plan.rounds.say(f"use cases on {TITLES[store]}: timing")
        for number in range(1 + plan.costs_n):
            for place in places:
                use_everything(place)
                if number == 0:  # the first round connects and prepares
                    place.spans_ms.clear()
    return figure_of(store, places)


def use_everything(place: Place) -> None:
    """Every use case once; the store is as large after it as before, but for one item."""
    service = place.service

    def claim() -> list[LeaseView]:
        leases = service.next(AGENT, lease_s=LEASE_S)
        assert leases, "nothing was left to claim"
        return leases

    def add() -> None:
        service.add([NewItem(title="another", lane=place.lane, agent="somebody-else")])

    released = [Report(run=lease.run) for lease in claim()]
    place.timed("release", lambda: service.release(released))
    held: list[Report] = []
    place.timed("claim", lambda: held.extend(Report(run=lease.run) for lease in claim()))
    place.timed("renew", lambda: service.renew(held))
    place.timed("done", lambda: service.done(held))
    place.timed("add on a taken lane", add)
    place.timed("sweep, nothing due", service.sweep)
    place.timed("ls", lambda: service.items(ItemFilter(limit=PAGE)))
    place.timed("ls --all", lambda: service.items(ItemFilter(all=True, limit=PAGE)))
    place.timed("stats", service.stats)
    place.timed("why", lambda: service.why(place.waiting))
    place.timed("events, newest", lambda: service.events(newest=True, limit=PAGE))
    place.timed("events of an item", lambda: service.events(item=place.waiting, limit=PAGE))


def figure_of(store: Store, places: list[Place]) -> Figure:
    smallest, largest = places[0], places[-1]
    rows, targets = [], []
    for use_case in smallest.spans_ms:
        base = f"{use_case}, {smallest.name}"
        for place in places:
            samples = [Sample(value=span_ms) for span_ms in place.spans_ms[use_case]]
            rows.append(Row(subject=f"{use_case}, {place.name}", samples=samples, base=base))
        targets.append(
            Target.at_most(
                f"D, {use_case} on {TITLES[store]}: {largest.name} to {smallest.name}",
                divided(rows[-1].median, rows[-len(places)].median),
                RATIO_MAX,
            )
        )
    return Figure(
        name=f"costs-{store}",
        title=f"D. Use cases on {TITLES[store]}, each {len(rows[0].samples)} times",
        unit="ms",
        rows=rows,
        base=smallest.name,
        targets=targets,
    )
